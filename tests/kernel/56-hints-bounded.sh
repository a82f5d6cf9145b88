#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: writes that go ahead because fsync waits for them take little more from the highest
#         class than the guaranteed share of their own class.
# Needs: null_blk, modeldisk, fio; a scheduler with guaranteed shares and a budget
# Machine: sim
. "${0%/*}/lib.sh"

LEAST=85	# the highest class's reads, in per cent of reads alone; NORMAL is guaranteed 10 %

# reads WRITERS: print the reads a second of the highest class beside this number of writers.
reads() {
	choose_scheduler none
	choose_scheduler "$SCHEDULER"
	allow_backlog 256
	cat > "$TEST_TMP/jobs" <<-END
		[global]
		filename=/dev/$DEV
		time_based
		ramp_time=1
		runtime=$SECONDS_EACH
		[high]
		direct=1
		rw=randread
		norandommap
		bs=4k
		ioengine=io_uring
		iodepth=$DEPTH
		prioclass=1
	END
	[ "$1" = 0 ] || cat >> "$TEST_TMP/jobs" <<-END
		[writer]
		new_group
		group_reporting
		rw=randwrite
		bs=4k
		ioengine=psync
		sync=dsync
		numjobs=$1
	END
	fio --minimal --output="$TEST_TMP/report" "$TEST_TMP/jobs" ||
		fail "fio: $(cat "$TEST_TMP/report")"
	awk -F ';' 'NR == 1 { print $8 }' "$TEST_TMP/report"
}

# bounded WHAT: fail if the highest class has much less beside sixteen writers than alone.
bounded() {
	[ -e "$(tunable share_normal)" ] && [ -e "$(tunable budget_fixed)" ] ||
		skip "$SCHEDULER guarantees no shares"
	alone=$(reads 0)
	with=$(reads 16)
	echo "measured: on $1 $with reads a second of the highest class, $alone alone"
	[ "$alone" -gt 0 ] && [ $((with * 100)) -ge $((alone * LEAST)) ] ||
		fail "on $1 the highest class has $with reads a second beside writes that go" \
			"ahead, $alone alone"
}

# The device serves one request at a time, so that each write that goes ahead delays a read.
use_null_disk irqmode=2 completion_nsec=$((150000 * FLASH_SLOWER)) hw_queue_depth=1 submit_queues=1
SECONDS_EACH=$((2 * SLOW))
DEPTH=16
bounded flash
choose_scheduler none
rmmod null_blk || fail "$DEV is in use"

PROFILE=hdd
use_modeldisk memory_backed=0 hw_queues=1 size=4096
SECONDS_EACH=24
# Deeper than the disk's queue (32), so that some reads wait in the scheduler: a write can go ahead
# only of these.
DEPTH=64
bounded "a disk"
