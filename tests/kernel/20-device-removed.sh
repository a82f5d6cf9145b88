#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: a device can be removed with a backlog in the scheduler: every request
#         ends, no process hangs, and nothing of the device is left. The same holds when
#         the device is made again, and when it stalls or refuses requests.
# Needs: modeldisk, fio
# Machine: sim
# Machine: vm 4
. "${0%/*}/lib.sh"

IO_ERRORS=
backlog() {
	[ "$(outstanding)" -ge $enough ]
}

# A hard disk is so slow that requests queue up.
PROFILE=hdd
for fault in stall_ppm=0 stall_ppm=50000 resource_ppm=300000; do
	use_modeldisk timeout_ms=500 depth=8 $fault
	allow_backlog 128
	enough=40
	[ "$SCHEDULER" != none ] || enough=8
	: > "$TEST_TMP/load.done"
	{
		fio --filename=/dev/$DEV --direct=1 --time_based --runtime=60 --minimal \
			--output="$TEST_TMP/report" --rw=randrw --bsrange=4k-64k \
			--ioengine=io_uring --iodepth=64 \
			--name=high --prioclass=1 --name=low --prioclass=3 > /dev/null 2>&1 || :
		echo "status 0"
	} >> "$TEST_TMP/load.done" &
	wait_until 10 "there is a backlog" backlog
	echo 0 > $MODELDISK/power || fail "$fault: does not go off"
	[ ! -e /sys/block/$DEV ] || fail "$fault: still there"
	# Without its device the load ends long before its 60 seconds are over.
	wait_requests
	rmdir $MODELDISK || fail "$fault: cannot be removed"
	DEV=
done
