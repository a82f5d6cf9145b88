#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: where many processes of the lowest class together hold every tag, each of them
#         only a few, a reader of the highest class still finds one.
# Needs: modeldisk, fio; a scheduler that keeps tags free
# Machine: sim
. "${0%/*}/lib.sh"

PROCESSES=48		# with $DEPTH requests each: more than there are tags
DEPTH=8
MOST=8			# times the reader's mean latency alone

use_modeldisk memory_backed=0 hw_queues=1
[ -e "$(tunable latency_factor)" ] || skip "$SCHEDULER does not keep tags for a reader"
[ $((PROCESSES * DEPTH)) -gt "$(cat /sys/block/$DEV/queue/nr_requests)" ] ||
	fail "there are enough tags for everybody"

# reader [FIO OPTION...]: the reader's mean latency in us, beside other jobs if any.
reader() {
	fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 \
		--rw=randread --time_based --runtime=1 --norandommap --group_reporting \
		--name=reader --bs=4k --prioclass=1 --ioengine=psync "$@" > /dev/null 2>&1 ||
		fail "fio: $(cat "$TEST_TMP/report")"
	awk -F ';' '$3 == "reader" { print int($40) }' "$TEST_TMP/report"
}

# With a target, bulk has little of the device: a reader that waits then waits for a tag.
echo 200 > "$(tunable latency_factor)"
alone=$(reader)
beside=$(reader --name=hoarder --new_group --bs=64k --prioclass=3 --ioengine=io_uring \
	--iodepth=$DEPTH --numjobs=$PROCESSES)
echo "measured: the reader's mean is $alone us alone, $beside us beside $PROCESSES processes"
[ "$beside" -le $((alone * MOST)) ] ||
	fail "the reader waits for tags: $beside us on average, alone $alone"
