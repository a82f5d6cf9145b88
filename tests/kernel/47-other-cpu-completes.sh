#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: the service times in debugfs are those of the device, even if one CPU sends a
#         request to the device and another CPU completes it.
# Needs: null_blk, fio; a scheduler that counts service times
# Machine: vm 4
. "${0%/*}/lib.sh"

LONGEST_US=1000000	# no request takes a second, because the device answers at once

use_null_disk submit_queues=1 irqmode=1 hw_queue_depth=64
services=/sys/kernel/debug/block/$DEV/sched/services
[ -e "$services" ] || skip "$SCHEDULER counts no service times"
# With 2 the block layer completes each request on the CPU that submitted it. Another CPU may have
# sent it to the device.
echo 2 > /sys/block/$DEV/queue/rq_affinity
fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 --rw=randread \
	--bs=4k --time_based --runtime=3 --ioengine=psync \
	--name=high --prioclass=1 --numjobs=2 --name=bulk --numjobs=2 > /dev/null 2>&1 ||
	fail "fio: $(cat "$TEST_TMP/report")"
expect "jobs that have read" 4 "$(grep -c . "$TEST_TMP/report")"
counted=$(awk '{ for (i = 2; i <= NF; i++) n += $i } END { print n + 0 }' "$services")
[ "$counted" -gt 0 ] || fail "no service time was counted"
expect "service times of a second and more, of $counted" 0 \
	"$(awk -v longest=$LONGEST_US \
		'$1 >= longest { for (i = 2; i <= NF; i++) n += $i } END { print n + 0 }' "$services")"
