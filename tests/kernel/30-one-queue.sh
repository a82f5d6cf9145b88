#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: no request waits for ever if CPUs share one hardware queue, submit more requests
#         than the driver has tags, and the device completes each request at once. The same
#         holds if a limit, in a scheduler that has limits, holds requests back again and again.
# Needs: null_blk, fio
# Machine: vm 4
. "${0%/*}/lib.sh"

modprobe null_blk nr_devices=1 submit_queues=1 irqmode=0 hw_queue_depth=128 ||
	skip "the kernel has no null_blk"
DEV=nullb0
wait_until 5 "/dev/$DEV exists" [ -b /dev/$DEV ]
choose_scheduler "$SCHEDULER"
cat > "$TEST_TMP/jobs" <<-END
	[load]
	filename=/dev/$DEV
	direct=1
	ioengine=io_uring
	rw=randread
	bs=4k
	iodepth=32
	numjobs=8
	norandommap
	time_based
	runtime=$((4 * SLOW))
END

load() {
	had=$(awk '{ print $1 }' /sys/block/$DEV/stat)
	fio --output="$TEST_TMP/report" "$TEST_TMP/jobs" ||
		fail "fio: $(cat "$TEST_TMP/report")"
	wait_requests
	echo "measured: $(($(awk '{ print $1 }' /sys/block/$DEV/stat) - had)) reads $1"
}

# Panic at the first warning: if all CPUs deadlock after a warning, none is left to report it.
[ ! -e /proc/lockdep ] || echo 1 > /proc/sys/kernel/panic_on_warn

load "as they come"
if [ -e "$(tunable limit_iops_normal)" ]; then
	echo 2000 > "$(tunable limit_iops_normal)"
	load "with a limit"
	echo 0 > "$(tunable limit_iops_normal)"
	load "without it again"
fi
counts_balance
