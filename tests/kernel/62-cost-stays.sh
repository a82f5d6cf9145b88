#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: the scheduler learns costs only while the device is busy, also if the hardware queue whose
#         requests kept it busy falls silent while another has requests.
# Needs: modeldisk, fio; a scheduler that learns costs
# Machine: sim 4, since 6.12
. "${0%/*}/lib.sh"

MOST=3	# per cent that the cost may change

use_flash hw_queues=4
[ -e /sys/kernel/debug/block/$DEV/sched/costs ] || skip "$SCHEDULER learns no costs"
before=$(cost_of_read 64)
# An urgent request in 20 ms. The controller keeps bulk of the other queue out until it has
# timed some of them: for six of the windows from which costs are learnt.
fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 --rw=randread \
	--time_based --runtime=1 --norandommap \
	--name=rare --bs=4k --prioclass=1 --thinktime=20000 --cpus_allowed=1 --startdelay=300ms \
	--name=bulk --bs=64k --ioengine=io_uring --iodepth=32 --cpus_allowed=0 ||
	fail "fio: $(cat "$TEST_TMP/report")"
after=$(awk '$1 == "read" { print $2 + 64 * $3 }' /sys/kernel/debug/block/$DEV/sched/costs)
echo "measured: a read of 64 KiB costs $before ns, and $after ns after a second with an urgent reader"
[ $((after * 100)) -le $((before * (100 + MOST))) ] &&
	[ $((after * 100)) -ge $((before * (100 - MOST))) ] ||
	fail "the cost has changed from $before to $after ns, though the device has not"
