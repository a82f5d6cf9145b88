#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: inside a class, requests are served in order of arrival, whatever
#         their sectors and their priority levels are.
# Needs: gatedisk; a scheduler with classes HIGH, NORMAL, LOW by thresholds
# Machine: sim
. "${0%/*}/lib.sh"

use_gatedisk
needs_thresholds
gate shut

# sectors RANK < LINES: print the sectors of the requests whose class has this rank, in the order of
# the lines. A line is SECTOR CLASS LEVEL.
sectors() {
	while read -r sector class level; do
		[ "$(rank "$class" "$level")" != "$1" ] || echo "$sector"
	done
}

# In each class, the order of arrival follows neither the priorities nor the sectors.
for round in 1 2 3; do
	for priority in 'be 2' 'be 5' 'be 7' 'be 1' 'be 4' 'be 6' \
			'rt 0' 'none 0' 'idle 0' 'be 0' 'be 3'; do
		n=$((${n:-0} + 1))
		echo "read $((n * 37 % 101 * 1000)) 4096 $priority"
	done
done > "$TEST_TMP/asked"
put_requests < "$TEST_TMP/asked"
gate open
wait_requests

for class in 0 1 2; do
	expect "requests of class $class in the order served" \
		"$(cut -d ' ' -f 2,4,5 "$TEST_TMP/asked" | sectors $class)" \
		"$(cut -d ' ' -f 4,6,7 "$GATE/log" | sectors $class)"
done
