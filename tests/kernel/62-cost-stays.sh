#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: the scheduler learns costs only while the device is busy. This holds even if the hardware
#         queue that kept the device busy sends no more requests, or gets no answers, while another
#         one has requests.
# Needs: modeldisk, fio; a scheduler that learns costs
# Machine: sim 4, since 6.12
. "${0%/*}/lib.sh"

MOST=3	# per cent that the cost may change

IO_ERRORS=	# requests that are never answered time out

# stays WHEN: fail if the cost of a read of 32 KiB differs from $before by more than $MOST per cent.
stays() {
	after=$(awk '$1 == "read" { print $2 + 32 * $3 }' /sys/kernel/debug/block/$DEV/sched/costs)
	echo "measured: a read of 32 KiB costs $before ns, and $after ns $1"
	[ $((after * 100)) -le $((before * (100 + MOST))) ] &&
		[ $((after * 100)) -ge $((before * (100 - MOST))) ] ||
		fail "the cost has changed from $before to $after ns, though the device has not"
}

use_flash hw_queues=4 timeout_ms=4000
[ -e /sys/kernel/debug/block/$DEV/sched/costs ] || skip "$SCHEDULER learns no costs"
before=$(cost_of_read 32)
# One urgent request comes every 20 ms. The scheduler keeps bulk of the other queue out until it has
# timed 16 of them. Meanwhile six of the windows from which the scheduler learns costs pass.
fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 --rw=randread \
	--time_based --runtime=3 --norandommap \
	--name=rare --bs=4k --prioclass=1 --thinktime=20000 --cpus_allowed=1 --startdelay=300ms \
	--name=bulk --bs=32k --ioengine=io_uring --iodepth=32 --cpus_allowed=0 ||
	fail "fio: $(cat "$TEST_TMP/report")"
stays "after three seconds with an urgent reader"

# The device answers none of 16 requests of one hardware queue, and all requests of another.
echo 1000000 > $MODELDISK/stall_ppm
fio --minimal --output="$TEST_TMP/stuck" --filename=/dev/$DEV --direct=1 --rw=randread --norandommap \
	--number_ios=16 --name=stuck --bs=32k --ioengine=io_uring --iodepth=16 --cpus_allowed=0 \
	2> "$TEST_TMP/errors" &
stuck=$!
sleep 0.5
echo 0 > $MODELDISK/stall_ppm
fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 --rw=randread \
	--time_based --runtime=2 --norandommap \
	--name=rare --bs=4k --ioengine=psync --thinktime=10000 --cpus_allowed=1 ||
	fail "fio: $(cat "$TEST_TMP/report")"
stays "after two seconds in which a queue is stuck"
wait $stuck || :
