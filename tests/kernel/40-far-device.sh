#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: on a device with a high latency, two greedy processes together get at least 0.9 of the
#         requests a second that they get without a scheduler. Each request takes 1 or 5 ms, and
#         the device serves hundreds at once, like a cloud disk, a disk array or NVMe over a
#         network.
# Needs: null_blk, fio
# Machine: sim
. "${0%/*}/lib.sh"

LEAST=90	# requests a second, in per cent of those without a scheduler

# rate SCHEDULER DEPTH: print the requests a second of two processes together.
rate() {
	choose_scheduler "$1"
	fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 \
		--ioengine=io_uring --rw=randread --bs=64k --iodepth="$2" --norandommap \
		--time_based --ramp_time=1 --runtime=1 --name=a --name=b > /dev/null 2>&1 ||
		fail "fio: $(cat "$TEST_TMP/report")"
	awk -F ';' '{ n += $8 } END { print int(n) }' "$TEST_TMP/report"
}

short=
# At these depths the device is the limit, not the CPU.
while read -r ns depth; do
	use_null_disk submit_queues=1 irqmode=2 completion_nsec="$ns" hw_queue_depth=512
	without=$(rate none "$depth")
	with=$(rate "$SCHEDULER" "$depth")
	echo "measured: at $((ns / 1000000)) ms $with requests a second, $without without a scheduler"
	[ $((with * 100)) -ge $((without * LEAST)) ] ||
		short="$short; at $((ns / 1000000)) ms $with of $without"
	counts_balance
	choose_scheduler none
	rmmod null_blk || fail "null_blk cannot be unloaded"
done <<-END
	1000000 8
	5000000 40
END
DEV=
[ -z "$short" ] || fail "requests a second: ${short#; }"
