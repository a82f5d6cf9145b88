#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: in a backlog, all requests of a higher class are served before those
#         of a lower class, whatever their order of arrival.
# Needs: gatedisk; a scheduler with strict classes by I/O priority
# Machine: sim
. "${0%/*}/lib.sh"

use_gatedisk
needs_classes
gate shut

# Twelve requests come in rising priority, the others in disorder. All sectors are in disorder.
for priority in 'idle 0' 'be 7' 'be 6' 'be 5' 'none 0' 'be 4' 'be 3' 'be 2' \
		'be 1' 'be 0' 'rt 7' 'rt 0' \
		'be 3' 'rt 4' 'be 6' 'idle 0' 'be 2' 'none 0' 'be 5' 'be 0' \
		'rt 1' 'be 7' 'none 0' 'be 1' 'idle 0' 'be 4' 'rt 3' 'be 2'; do
	n=$((${n:-0} + 1))
	echo "read $((n * 37 % 101 * 1000)) 4096 $priority"
done > "$TEST_TMP/asked"
put_requests < "$TEST_TMP/asked"
gate open
wait_requests

ranks > "$TEST_TMP/found"
sort -n "$TEST_TMP/found" > "$TEST_TMP/want"
expect "requests served" 28 "$(wc -l < "$TEST_TMP/found")"
expect "classes in the order served" \
	"$(tr '\n' ' ' < "$TEST_TMP/want")" "$(tr '\n' ' ' < "$TEST_TMP/found")"

# Many HIGH requests of one process also go before all others, if no class has a guaranteed share.
for name in share_normal share_low; do
	[ ! -e "$(tunable $name)" ] || echo 0 > "$(tunable $name)"
done
gate shut
echo > "$GATE/log"
for n in $(seq 40); do
	echo "read $((n * 1000)) 4096 idle 0"
	echo "read $((n * 1000 + 100)) 4096 be 4"
	echo "read $((n * 1000 + 200)) 4096 rt 0"
done > "$TEST_TMP/asked"
put_requests much < "$TEST_TMP/asked"
gate open
wait_requests
expect "classes in the order served, of many" '40 0 40 1 40 2' "$(ranks | uniq -c | xargs)"
