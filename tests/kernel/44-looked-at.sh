#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: every file of the scheduler in debugfs and sysfs can be read at any time, under
#         load: while schedulers are exchanged, and when the device is removed. Files that
#         are open meanwhile do no harm either.
# Needs: modeldisk, fio
# Machine: vm 4
. "${0%/*}/lib.sh"

IO_ERRORS=
[ "$SCHEDULER" != none ] || skip "without a scheduler there are no files"
use_modeldisk timeout_ms=500 memory_backed=0
# Do not unload the module here: if a file of the scheduler is closed after that, Linux 6.12 reads
# the file's description in the memory of the module that is gone (blk_mq_debugfs_release()).

# The other scheduler is one of this project, not mq-deadline. Linux 7.3 removes a scheduler's files
# in debugfs only after the scheduler has left the queue. A read of mq-deadline's files in this
# moment uses a null pointer.
ours=prio-basic
[ "$SCHEDULER" != prio-basic ] || ours=prio-adaptive
modprobe $ours-iosched || fail "$ours cannot be loaded"

# look NAME: read all files of the disk again and again, until the file $TEST_TMP/look is gone.
look() {
	while [ -e "$TEST_TMP/look" ]; do
		for file in /sys/kernel/debug/block/$1/sched/* \
				/sys/kernel/debug/block/$1/hctx*/sched/* \
				/sys/kernel/debug/block/$1/hctx0/* \
				/sys/block/$1/queue/iosched/*; do
			[ -f "$file" ] && cat "$file" > /dev/null 2>&1 || :
		done
	done
}

# keep_open NAME: like look, but keep each file open for 0.2 s before it is read.
keep_open() {
	while [ -e "$TEST_TMP/look" ]; do
		for file in /sys/kernel/debug/block/$1/sched/* /sys/block/$1/queue/iosched/*; do
			[ -f "$file" ] && { sleep 0.2; cat; } < "$file" > /dev/null 2>&1 || :
		done
	done
}

# load: start a load that runs until its device is removed.
load() {
	: > "$TEST_TMP/load.done"
	{
		fio --filename=/dev/$DEV --direct=1 --time_based --runtime=600 --minimal \
			--output="$TEST_TMP/report" --rw=randrw --bsrange=4k-64k \
			--ioengine=io_uring --iodepth=16 \
			--name=high --prioclass=1 --name=low --prioclass=3 > /dev/null 2>&1 || :
		echo "status 0"
	} >> "$TEST_TMP/load.done" &
}

# exchange NAME: choose a scheduler, and fail if that takes too long. The kernel may wait until a
# process has read a file of the old scheduler.
exchange() {
	rm -f "$TEST_TMP/exchanged"
	{
		choose_scheduler "$1"
		touch "$TEST_TMP/exchanged"
	} &
	wait_until 30 "$DEV has the scheduler $1" [ -e "$TEST_TMP/exchanged" ]
}

touch "$TEST_TMP/look"
look $DEV &
lookers=$!
look $DEV &
lookers="$lookers $!"
keep_open $DEV &
lookers="$lookers $!"
load
for round in 1 2 3 4 5; do
	for other in none $ours; do
		exchange $other
		exchange "$SCHEDULER"
		sleep 0.1
	done
done
audit
load_runs || fail "the load ended before the switches"
echo 0 > $MODELDISK/power || fail "the device does not go off"
wait_requests
rm "$TEST_TMP/look"
wait $lookers
rmdir $MODELDISK || fail "the device cannot be removed"
DEV=
