#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: with queue_turns=1 a reader that has a hardware queue for itself does not wait for the
#         requests of another hardware queue, but in their order of arrival it does.
# Machine: sim 2, since 6.12
. "${0%/*}/lib.sh"

# lone DEVICE: print the mean latency, in us, of a reader on CPU 1 beside 256 reads at once on CPU 0.
lone() {
	fio --filename="/dev/$1" --direct=1 --minimal --output=/tmp/fio --time_based --runtime=1s \
		--ramp_time=200ms --norandommap --rw=randread --bs=4k --ioengine=io_uring \
		--name=deep --iodepth=256 --cpus_allowed=0 --name=lone --iodepth=1 --cpus_allowed=1
	awk -F ';' '$3 == "lone" { print int($40) }' /tmp/fio
}

# The controller sets the rate: it takes 50 us for a request, more than a CPU does.
for turns in 0 1; do
	device disk$turns flash hw_queues=2 slots=8 ctrl_ns=50000 queue_turns=$turns
	echo none > /sys/block/disk$turns/queue/scheduler
	expect "hardware queues" 2 "$(find /sys/block/disk$turns/mq/* -maxdepth 0 | wc -l)"
done
# In order of arrival, 257 requests take 50 us each. In turns, only 10 do: those in the 8 slots, one
# of the other hardware queue, and the reader's own. What else a request takes is below 0.1 ms.
in_order=$(lone disk0)
in_turns=$(lone disk1)
echo "a read takes $in_order us in order of arrival, $in_turns us in turns"
[ "$in_order" -ge 12000 ] || fail "a read in order of arrival takes $in_order us"
[ "$in_turns" -le 650 ] || fail "a read in turns takes $in_turns us"
