#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: each request of a backlog reaches the device once, with the operation,
#         sector, size and priority with which it was submitted.
# Needs: gatedisk
# Machine: sim
. "${0%/*}/lib.sh"

# Without a scheduler, all requests must fit into the device.
use_gatedisk depth=60
gate shut

# Ask for reads and writes of twelve priorities and three sizes, none adjacent to another.
for op in read write read; do
	for priority in 'none 0' 'rt 0' 'rt 7' 'be 0' 'be 1' 'be 2' 'be 3' \
			'be 4' 'be 5' 'be 6' 'be 7' 'idle 0'; do
		n=$((${n:-0} + 1))
		echo "$op $((n * 1000)) $((4096 << n % 3)) $priority"
	done
done > "$TEST_TMP/asked"
put_requests < "$TEST_TMP/asked"
expect "requests that passed a shut gate" '' "$(cat "$GATE/log")"

gate open
wait_requests

# For a task with nice value 0 the kernel may turn `no priority` into BE 4.
sed 's/none 0/be 4/' "$TEST_TMP/asked" | sort > "$TEST_TMP/want"
cut -d ' ' -f 3-7 "$GATE/log" | sed 's/none 0/be 4/' | sort > "$TEST_TMP/found"
diff "$TEST_TMP/want" "$TEST_TMP/found" ||
	fail "the device saw other requests than were asked for"
expect "requests done" 36 "$(grep -c '^done' "$TEST_TMP/all.done")"
