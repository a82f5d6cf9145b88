#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: on a hard disk, a stream's small request waits for a merge while the disk has
#         other requests of the stream. It does not wait for long. It does not wait at all
#         if it cannot be merged, if the disk has too few other requests, if anticipation is
#         off, or if it is of the highest class.
# Needs: gatedisk; a scheduler that anticipates (anticipation) and merges (merge)
# Machine: sim
. "${0%/*}/lib.sh"

WAITS_MS=25		# the longest wait for a merge; a clock tick is 10 at most
AT_ONCE_MS=$((5 * SLOW))	# ten requests that do not wait are sent within this time

use_gatedisk depth=32
for name in anticipation merge; do
	[ -e "$(tunable $name)" ] || skip "$SCHEDULER has no $name"
done
change_media
choose_scheduler none
choose_scheduler "$SCHEDULER"
allow_backlog 256

PAUSE_MS=1
STEP=8			# sectors from one request to the next
PRIORITY='be 7'		# LOW has no urgent requests, so its bulk does not wait for turns of the arm

# given FIRST_SECTOR OPERATION PAUSES WANTED LONGEST_MS WHAT: submit ten small requests of a stream
# that the scheduler recognises, to a device that answers none. The device must get requests of the
# sizes WANTED (in KiB), within LONGEST_MS plus the pauses. After each of the first PAUSES requests
# the submitter sleeps, so that a worker dispatches the request before the next one comes. Without
# the sleep, the worker runs before the next request in some kernels, and after it in others.
given() {
	gate open
	for n in $(seq 20 -1 1); do
		echo "$2 $(($1 - n * STEP)) 4096 $PRIORITY"
		echo wait
	done > "$TEST_TMP/before"
	put_requests before < "$TEST_TMP/before"
	wait_requests
	gate hold
	echo > "$GATE/log"
	for n in $(seq 0 9); do
		echo "$2 $(($1 + n * STEP)) 4096 $PRIORITY"
		[ "$n" -ge "$3" ] || echo "sleep $PAUSE_MS"
	done > "$TEST_TMP/asked"
	put_requests stream < "$TEST_TMP/asked"
	kib() {
		awk '{ sum += $5 } END { print sum / 1024 }' "$GATE/log"
	}
	all_given() {
		[ "$(kib)" = 40 ]
	}
	# The device answers no request, so no answer makes the scheduler send the next one. But a
	# request of LOW goes at the latest when it has aged, which takes 10 s on a disk.
	wait_until 12 "the device has all of the stream" all_given
	expect "$6" "$4" "$(awk '{ print $5 / 1024 }' "$GATE/log" | xargs)"
	ms=$(awk 'NR == 1 { first = $2 } END { print int(($2 - first) / 1000000) }' "$GATE/log")
	echo "measured: $6: $4, in $ms ms"
	[ $ms -le $(($5 + $3 * PAUSE_MS)) ] || fail "what waited has waited for $ms ms"
	gate open
	wait_requests
}

given 10000 read 2 "4 4 32" $WAITS_MS "KiB of reads"
given 50000 write 2 "4 4 32" $WAITS_MS "KiB of writes"

STEP=16
given 80000 read 10 "4 4 4 4 4 4 4 4 4 4" $AT_ONCE_MS "KiB of reads that do not touch"
STEP=8

echo 0 > "$(tunable merge)"
given 100000 read 10 "4 4 4 4 4 4 4 4 4 4" $AT_ONCE_MS "KiB of reads that are not merged"
echo 1 > "$(tunable merge)"
echo 0 > "$(tunable anticipation)"
given 150000 read 10 "4 4 4 4 4 4 4 4 4 4" $AT_ONCE_MS "KiB of reads that nobody waits for"

# This case comes last: for a second after a request of HIGH, the scheduler holds other requests.
echo 2000 > "$(tunable anticipation)"
PRIORITY='rt 0'
given 200000 read 10 "4 4 4 4 4 4 4 4 4 4" $AT_ONCE_MS "KiB of the highest class"
