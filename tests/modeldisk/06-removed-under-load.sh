#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: a device can be removed, or switched off and on, while it has requests, even
#         stalled ones; no request hangs, and nothing is left behind.
# Machine: sim
# Machine: vm 4
. "${0%/*}/lib.sh"

load() {
	fio --filename=/dev/disk --direct=1 --minimal --output=/tmp/fio --time_based --runtime=60 \
		--name=load --rw=randrw --bsrange=4k-64k --ioengine=io_uring --iodepth=64 \
		--numjobs=2 > /dev/null 2>&1
}

# underway: wait until the load has reached the device.
underway() {
	tries=500
	until [ "$(stat disk in_device)" -gt 0 ]; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || fail "no load on the device"
		sleep 0.02
	done
}

for profile in flash hdd; do
	for fault in stall_ppm=0 stall_ppm=2000 memory_backed=1 resource_ppm=100000; do
		device disk $profile size=64 timeout_ms=500 $fault
		load &
		underway
		echo 0 > $CONFIG/disk/power || fail "$profile, $fault: does not go off"
		[ ! -e /sys/block/disk ] || fail "$profile, $fault: still there"
		# Without its device fio ends, long before its 60 s are over.
		wait
		echo 1 > $CONFIG/disk/power || fail "$profile, $fault: does not go on again"
		load &
		underway
		rmdir $CONFIG/disk || fail "$profile, $fault: cannot be removed"
		wait
	done
done
