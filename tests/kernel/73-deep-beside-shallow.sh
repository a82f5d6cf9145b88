#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: on flash that takes every request, one deep process gets no more than its share beside
#         eight processes that hold few requests each, even if only three. Beside a deep process,
#         one that reads eight blocks at once, and then pauses, has at most half of the latency
#         that it has without a scheduler.
# Needs: modeldisk, fio; a scheduler in which processes take turns (quantum)
# Machine: sim
. "${0%/*}/lib.sh"

SHALLOW=8
DUE=$((10000 / (SHALLOW + 1)))	# each process's equal share, in 10000ths
MOST=120	# the most that the deep process may have, in per cent of its equal share
HALF=50		# the most of the bursts' latency without a scheduler, in per cent

# read_with ENGINE OPTION...: read with these jobs, and write fio's report to $TEST_TMP/report.
read_with() {
	engine=$1
	shift
	fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 \
		--rw=randread --bs=64k --ioengine="$engine" --norandommap --group_reporting \
		--time_based --ramp_time=$SLOW --runtime=$((2 * SLOW)) "$@" ||
		fail "fio: $(cat "$TEST_TMP/report")"
}

# share_beside DEPTH: read beside shallow processes of this depth, and judge the deep one's share.
share_beside() {
	choose_scheduler none
	choose_scheduler "$SCHEDULER"
	read_with io_uring --name=deep --iodepth=64 \
		--name=shallow --new_group --iodepth="$1" --numjobs=$SHALLOW
	part=$(awk -F ';' '{ sum += $7 } NR == 1 { deep = $7 }
		END { printf "%d", 10000 * deep / sum }' "$TEST_TMP/report")
	echo "measured: beside depth $1, of 10000 parts the deep one has $part, $DUE are due"
	[ "$part" -le $((DUE * MOST / 100)) ] ||
		fail "beside depth $1 the deep process has too much: of 10000 parts $part, $DUE are due"
}

# bursts SCHEDULER: print the mean latency, in us, of reads that a process makes eight at a time.
bursts() {
	choose_scheduler none
	choose_scheduler "$1"
	read_with libaio --name=bursts --ramp_time=0 --iodepth=8 --iodepth_batch=8 \
		--iodepth_batch_complete_min=8 --iodepth_batch_complete_max=8 \
		--thinktime=5ms --thinktime_blocks=8 \
		--name=deep --new_group --iodepth=128
	awk -F ';' 'NR == 1 { printf "%d", $16 }' "$TEST_TMP/report"
}

use_quick_flash depth=1023
choose_scheduler "$SCHEDULER"
[ -e "$(tunable quantum)" ] || skip "$SCHEDULER does not share by turns"
share_beside 8
share_beside 3
without=$(bursts none)
with=$(bursts "$SCHEDULER")
echo "measured: bursts of eight reads have a mean latency of $with us for $without"
[ "$with" -le $((without * HALF / 100)) ] ||
	fail "bursts of eight reads have a mean latency of $with us, $without without a scheduler"
