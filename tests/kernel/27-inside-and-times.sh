#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: the debugfs files in_flight, waits and services match the requests. For each class,
#         in_flight is the number of requests in the device. waits and services are
#         histograms of the times of one request in 16.
# Needs: gatedisk; a scheduler with thresholds, and debugfs files of these names
# Machine: sim
. "${0%/*}/lib.sh"

use_gatedisk depth=96
needs_thresholds
SEEN=/sys/kernel/debug/block/$DEV/sched
for name in in_flight waits services; do
	[ -e $SEEN/$name ] || skip "$SCHEDULER has no $name in debugfs"
done

# afresh: choose the scheduler anew, so that it has no history. Let it send all requests at once.
afresh() {
	choose_scheduler none
	choose_scheduler "$SCHEDULER"
	allow_backlog 256
	[ ! -e "$(tunable budget_fixed)" ] || echo 1000000 > "$(tunable budget_fixed)"
}

# ask HIGH NORMAL LOW: submit this many reads of each class, in this order, none adjacent.
ask() {
	for pair in "$1 rt 0" "$2 be 4" "$3 idle 0"; do
		for n in $(seq "${pair%% *}"); do
			echo "read $((n * 1000)) 4096 ${pair#* }"
		done
	done > "$TEST_TMP/asked"
	put_requests "$1-$2-$3" < "$TEST_TMP/asked"
}

# inside WHEN HIGH NORMAL LOW: wait until this many are in the device; in_flight must say the same.
inside() {
	wait_until 10 "the device has $(($2 + $3 + $4)) requests $1" \
		grep -qx $(($2 + $3 + $4)) "$GATE/held"
	expect "requests in flight $1" "$2 $3 $4" "$(cat $SEEN/in_flight)"
}

# let_go N: let the device complete its N oldest requests, and wait until they are done.
let_go() {
	echo "$1" > "$GATE/release"
	DONE=$((${DONE:-0} + $1))
	wait_until 10 "$DONE requests are done" all_done
}

all_done() {
	[ "$(cat "$TEST_TMP"/*.done | grep -c '^done')" = "$DONE" ]
}

# times_are WHEN WAITS SERVICES: fail unless the two files have this content.
times_are() {
	expect "waits $1" "$2" "$(xargs < $SEEN/waits)"
	expect "services $1" "$3" "$(xargs < $SEEN/services)"
}

# below US FILE: print each class's count in the file's buckets below US.
below() {
	awk -v us="$1" '
		$1 < us { high += $2; normal += $3; low += $4 }
		END { print high + 0, normal + 0, low + 0 }' "$SEEN/$2"
}

# pass HIGH NORMAL LOW WAIT SERVICE WAITS SERVICES: submit this many requests, and keep them WAIT
# seconds behind the gate and SERVICE seconds in the device. Then the files must have WAITS and
# SERVICES.
pass() {
	gate shut
	ask "$1" "$2" "$3"
	sleep "$4"
	times_are "with requests that wait" "$waits" "$services"
	gate hold
	inside "that have waited" "$1" "$2" "$3"
	waits=$6
	times_are "with requests in the device" "$waits" "$services"
	sleep "$5"
	gate open
	wait_requests
	services=$7
	times_are "with all done" "$waits" "$services"
}

# in_flight leaves out requests that wait, are done, or were given back.
afresh
inside "at first" 0 0 0
gate hold
ask 3 5 7
inside "that are held" 3 5 7
let_go 3
inside "when HIGH is done" 0 5 7
let_go 4
inside "when four of NORMAL are done" 0 1 7
gate shut
echo 1 > "$GATE/requeue"
inside "when the rest was given back" 0 0 0
gate hold
inside "when the device has it again" 0 1 7
gate open
wait_requests
inside "when all are done" 0 0 0

# The times of WAIT and SERVICE are well below the next power of two (in us), where the next bucket
# begins: polling makes each a little longer.
afresh
waits=
services=
pass 16 0 0 0.3 1.5 '262144 1 0 0' '1048576 1 0 0'
pass 0 32 0 0.7 0.3 '262144 1 0 0 524288 0 2 0' '262144 0 2 0 1048576 1 0 0'
pass 0 0 48 1.5 0.7 '262144 1 0 0 524288 0 2 0 1048576 0 0 3' \
	'262144 0 2 0 524288 0 0 3 1048576 1 0 0'

# A service of 5 ms is in the bucket from 4096 us. The device has room, so no request waits.
echo 5000000 > "$GATE/service_ns"
ask 0 16 0
wait_requests
expect "services of 5 ms" '4096 0 1 0' "$(head -n 1 $SEEN/services)"
expect "services below" '0 0 0' "$(below 4096 services)"
expect "waits for nothing" '0 1 0' "$(below 4096 waits)"

# The device gives back all 16 requests, and serves them when they are sent again. So there are 16
# services, and the histogram has one of them: one in 16.
afresh
gate hold
ask 0 0 16
inside "before they are given back" 0 0 16
gate shut
echo 1 > "$GATE/requeue"
inside "after they were" 0 0 0
expect "services of what was given back" '' "$(cat $SEEN/services)"
gate hold
inside "the second time" 0 0 16
gate open
wait_requests
expect "services after the second time" '0 0 1' "$(below 99999999 services)"
