#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: while the device is idle, no request waits for long for another one to arrive. This
#         holds for a single request, a backlog, and a request that the device gave back.
# Needs: gatedisk
# Machine: sim
. "${0%/*}/lib.sh"

# A scheduler may pause in the hope of a better request, but not for longer than this.
LONGEST_PAUSE_MS=1000
[ "$SCHEDULER" != none ] || skip "without a scheduler nothing waits in one"
use_gatedisk depth=2

# longest: print the longest time from submission to completion of all requests so far, in ms.
longest() {
	awk '/^done/ && $5 - $4 > most { most = $5 - $4 } END { print int(most / 1000000) }' \
		"$TEST_TMP"/*.done
}

# Submit one request of each kind, one at a time.
for op in read write; do
	for priority in 'none 0' 'rt 0' 'be 0' 'be 2' 'be 4' 'be 6' 'be 7' 'idle 0'; do
		n=$((${n:-0} + 1))
		echo "$op $((n * 1000)) 4096 $priority"
		echo "wait"
	done
done > "$TEST_TMP/asked"
put_requests alone < "$TEST_TMP/asked"
wait_requests
alone=$(longest)

# The device serves a backlog at 1 ms a request: it may not be idle for long in between.
gate shut
echo 1000000 > "$GATE/service_ns"
for n in $(seq 60); do
	set -- 'rt 0' 'be 0' 'be 4' 'be 7' 'idle 0'
	shift $((n % 5))
	echo "read $((n * 37 % 101 * 1000)) 4096 $1"
done > "$TEST_TMP/asked"
put_requests backlog < "$TEST_TMP/asked"
echo > "$GATE/log"
gate open
wait_requests
pause=$(awk '
	last && $2 - last > most { most = $2 - last }
	{ last = $2 }
	END { print int(most / 1000000) }' "$GATE/log")
expect "requests served" 60 "$(wc -l < "$GATE/log")"

# The device sends a request back, and no other request follows it.
gate hold
put_requests back <<-END
	read 5000 4096 be 7
END
wait_until 5 "the device has the request" grep -qx 1 "$GATE/held"
gate shut
echo 1 > "$GATE/requeue"
gate open
wait_requests

echo "measured: longest pause with requests waiting $pause ms; a request alone $alone ms at most"
[ "$pause" -le $LONGEST_PAUSE_MS ] || fail "paused for $pause ms with requests waiting"
[ "$alone" -le $LONGEST_PAUSE_MS ] || fail "a request alone took $alone ms"
