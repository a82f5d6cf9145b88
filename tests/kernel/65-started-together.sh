#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: the scheduler soon knows how long a small read takes alone, and protects the reader
#         accordingly, even if processes with large requests start together with the reader. The
#         first requests of these processes are urgent too.
# Needs: modeldisk, fio; a scheduler that measures requests without bulk (alone_tail in debugfs)
# Machine: sim
. "${0%/*}/lib.sh"

MOST=150	# latency found beside others, in per cent of what the scheduler finds without them
SLOWEST=400	# the reader's median beside others, in per cent of the latency found without them

at_full_speed
use_flash
[ -e /sys/kernel/debug/block/$DEV/sched/depth ] || skip "$SCHEDULER has no budget"

# alone: print how long the scheduler says that slow urgent requests take without bulk, in us.
alone() {
	awk '$1 == "alone_tail" { print int($2 / 1000) }' /sys/kernel/debug/block/$DEV/sched/depth
}

# read_beside OTHERS: start a reader and this number of other processes together. Print the reader's
# median latency in us, without the first half second. On slower flash all times are longer.
read_beside() {
	choose_scheduler none
	choose_scheduler "$SCHEDULER"
	cat > "$TEST_TMP/jobs" <<-END
		[global]
		filename=/dev/$DEV
		direct=1
		ioengine=libaio
		rw=randread
		norandommap
		time_based
		ramp_time=$((500 * FLASH_SLOWER))ms
		runtime=$FLASH_SLOWER
		[reader]
		bs=4k
	END
	[ "$1" = 0 ] || cat >> "$TEST_TMP/jobs" <<-END
		[other]
		bs=64k
		iodepth=32
		numjobs=$1
	END
	fio --output-format=json --output="$TEST_TMP/report" "$TEST_TMP/jobs" ||
		fail "fio: $(cat "$TEST_TMP/report")"
	awk '/"50.000000"/ && !found { found = int($3 / 1000); print found }' "$TEST_TMP/report"
}

read_beside 0 > /dev/null
without=$(alone)
median=$(read_beside 4)
beside=$(alone)
echo "measured: a slow read takes $without us alone; found beside others that started with it:" \
	"$beside us; there its median is $median us"
[ "$without" -gt 0 ] || fail "the scheduler has learnt nothing from a reader without others"
[ $((beside * 100)) -le $((without * MOST)) ] ||
	fail "a second after four others started with a reader, the scheduler takes it for slow"
[ $((median * 100)) -le $((without * SLOWEST)) ] ||
	fail "a second after four others started with a reader, half of its reads take $median us or more"
