#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: on a far device that answers a few reads at once, from a cache, two greedy processes get
#         at least 0.9 of the requests a second that they get without a scheduler.
# Needs: modeldisk, fio
# Machine: sim
. "${0%/*}/lib.sh"

LEAST=90	# requests a second, in per cent of those without a scheduler

# 1 read of 20 takes some 0.1 ms, the others 5 ms more.
use_modeldisk memory_backed=0 hw_queues=1 depth=1023 dies=128 slots=256 read_ns=50000 \
	read_slow_ns=5000000 read_slow_permille=950

# rate SCHEDULER: print the requests a second of two processes together.
rate() {
	choose_scheduler "$1"
	fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 \
		--ioengine=io_uring --rw=randread --bs=4k --iodepth=128 --norandommap \
		--time_based --ramp_time=1 --runtime=2 --name=a --name=b > /dev/null 2>&1 ||
		fail "fio: $(cat "$TEST_TMP/report")"
	awk -F ';' '{ n += $8 } END { print int(n) }' "$TEST_TMP/report"
}

without=$(rate none)
with=$(rate "$SCHEDULER")
echo "measured: $with requests a second, $without without a scheduler"
[ $((with * 100)) -ge $((without * LEAST)) ] ||
	miss "$with requests a second, $without without a scheduler"
