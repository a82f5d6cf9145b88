#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: a request to modeldisk takes at most 1.3 times as many instructions, from submission to
#         completion, as a request to null_blk with timed completions and the same latency.
# Machine: sim
. "${0%/*}/lib.sh"

# idle_ns: print the idle time of the only CPU. When busy, it executes one instruction a ns.
idle_ns() {
	total=0
	for ns in $(sed -n 's/.*\(idle\|iowait\)_sleeptime *: *\([0-9]*\) nsecs/\2/p' /proc/timer_list); do
		total=$((total + ns))
	done
	echo $total
}

now_ns() {
	awk '/^now at/ { print $3 }' /proc/timer_list
}

# busy DEVICE MS OPTION...: run fio for MS. Set ios to the number of its requests, and busy to the
# time for which the CPU was busy, in ns.
busy() {
	_disk=$1
	_ms=$2
	shift 2
	_ios=$(awk '{ print $1 }' "/sys/block/$_disk/stat")
	_idle=$(idle_ns)
	_now=$(now_ns)
	fio --filename="/dev/$_disk" --direct=1 --minimal --output=/tmp/fio --time_based \
		--runtime="${_ms}ms" --norandommap --name=cost --rw=randread --iodepth=1 \
		--ioengine=io_uring "$@"
	busy=$(($(now_ns) - _now - ($(idle_ns) - _idle)))
	ios=$(($(awk '{ print $1 }' "/sys/block/$_disk/stat") - _ios))
}

# cost DEVICE OPTION...: set cost to the instructions for one request, from the difference between a
# long and a short run: so fio's start does not count.
cost() {
	disk=$1
	shift
	busy "$disk" 250 "$@"
	short_ios=$ios
	short_busy=$busy
	busy "$disk" 750 "$@"
	cost=$(((busy - short_busy) / (ios - short_ios)))
}

# null NS: make nullb9, a device of null_blk with this latency.
null() {
	mkdir /sys/kernel/config/nullb/nullb9
	echo 2 > /sys/kernel/config/nullb/nullb9/irqmode
	echo "$1" > /sys/kernel/config/nullb/nullb9/completion_nsec
	echo 1023 > /sys/kernel/config/nullb/nullb9/hw_queue_depth
	echo 1 > /sys/kernel/config/nullb/nullb9/power
	echo none > /sys/block/nullb9/queue/scheduler
}

modprobe null_blk nr_devices=0 || fail "the kernel has no null_blk"
device disk flash
# For reads of this device the model executes the most instructions: long reads have a time of their
# own, and there are pages of several kinds.
device uneven flash read_full_ns=90000 full_mbps=1000 read_spread_pct=15 \
	read_slow_permille=50 read_slow_ns=100000
for name in disk uneven; do
	echo none > /sys/block/$name/queue/scheduler
done
sleep 3 # the kernel's own work after a boot must not count

# Device, size, and the time in ns of a lone read, as the device's parameters give it.
while read -r name size ns; do
	null "$ns"
	cost nullb9 --bs="$size"
	theirs=$cost
	cost "$name" --bs="$size"
	echo "$name, $size reads: $cost instructions, null_blk $theirs, ratio $((cost * 100 / theirs)) %"
	[ $((cost * 10)) -le $((theirs * 13)) ] || fail "that is too much"
	rmdir /sys/kernel/config/nullb/nullb9
done <<-END
	disk 4k 69000
	disk 64k 293000
	uneven 4k 74000
	uneven 64k 190000
END
rmmod null_blk
