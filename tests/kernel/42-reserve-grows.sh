#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: a scheduler that keeps the last tags from a greedy process still does so after
#         nr_requests has grown, even if hardware queues share all tags. The greedy process
#         can have the same part of the tags as before.
# Needs: null_blk, fio
# Machine: sim
. "${0%/*}/lib.sh"

[ "$SCHEDULER" != none ] || skip "without a scheduler nothing keeps tags free"
use_null_disk submit_queues=1 shared_tag_bitmap=1 irqmode=2 completion_nsec=50000000 \
	hw_queue_depth=16

# taken: print the number of tags in use.
taken() {
	awk -F = '$1 == "busy" { print $2 }' /sys/kernel/debug/block/$DEV/hctx0/sched_tags
}

some_taken() {
	[ "$(taken)" -gt 0 ]
}

# most_taken: set $room to the number of tags, and $most to the largest number in use while a
# process asks for more than there are. A reader of the highest class runs meanwhile, because a
# scheduler may keep more tags free while another process waits.
most_taken() {
	room=$(cat /sys/block/$DEV/queue/nr_requests)
	fio --minimal --filename=/dev/$DEV --direct=1 --rw=randread --bs=4k --norandommap \
		--time_based --runtime=600 --prioclass=1 --name=reader > /dev/null 2>&1 &
	reader=$!
	wait_until 10 "a reader reads" some_taken
	for n in $(seq $((room * 2))); do
		echo "read $((n * 1000)) 4096 be 4"
	done > "$TEST_TMP/asked"
	: > "$TEST_TMP/greedy.done"
	{
		_status=0
		"$SUBMIT" /dev/$DEV < "$TEST_TMP/asked" || _status=$?
		echo "status $_status"
	} >> "$TEST_TMP/greedy.done" 2>&1 &
	most=0
	until grep -q '^submitted' "$TEST_TMP/greedy.done"; do
		now=$(taken)
		[ "$now" -le $most ] || most=$now
		sleep 0.01
	done
	wait_requests
	kill $reader
	wait $reader || :
}

most_taken
echo "measured: of $room tags a greedy process has $most at most"
[ "$most" -lt "$room" ] || skip "$SCHEDULER lets one process have all tags"
part=$((most * 100 / room))
for more in 64 512; do
	echo $more > /sys/block/$DEV/queue/nr_requests
	most_taken
	echo "measured: of $room tags a greedy process has $most at most"
	[ $((most * 100)) -le $(((part + 5) * room)) ] &&
		[ $((most * 100)) -ge $(((part - 10) * room)) ] ||
		fail "a greedy process has $most of $room tags, of fewer $part per cent"
done
