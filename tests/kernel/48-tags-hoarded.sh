#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: where many processes of the lowest class together hold every tag, each of them
#         only a few, a reader of the highest class still finds one.
# Needs: modeldisk, fio; a scheduler that keeps tags free
# Machine: sim
. "${0%/*}/lib.sh"

PROCESSES=48		# with $DEPTH requests each: more than there are tags
DEPTH=8
MOST=130		# context switches for 100 reads

use_modeldisk memory_backed=0 hw_queues=1
[ -e "$(tunable latency_factor)" ] || skip "$SCHEDULER does not keep tags for a reader"
[ $((PROCESSES * DEPTH)) -gt "$(cat /sys/block/$DEV/queue/nr_requests)" ] ||
	fail "there are enough tags for everybody"

fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 \
	--rw=randread --time_based --runtime=2 --norandommap --group_reporting \
	--name=reader --bs=4k --prioclass=1 --ioengine=psync \
	--name=hoarder --new_group --bs=64k --prioclass=3 --ioengine=io_uring \
	--iodepth=$DEPTH --numjobs=$PROCESSES > /dev/null 2>&1 ||
	fail "fio: $(cat "$TEST_TMP/report")"

# A read sleeps once, for the device, and once more if it has to wait for a tag. The reader's
# latency would not tell, because the hoarders that wait for tags keep the CPU busy too.
switches=$(awk -F ';' '$3 == "reader" { print int($90 * 100 / ($6 / 4)) }' "$TEST_TMP/report")
echo "measured: beside $PROCESSES processes the reader sleeps $switches times for 100 reads," \
	"$(awk -F ';' '$3 == "reader" { print int($40) }' "$TEST_TMP/report") us each on average"
[ "$switches" -le $MOST ] || fail "the reader waits for tags: it sleeps $switches times for 100 reads"
