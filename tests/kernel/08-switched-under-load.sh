#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: no request is lost, and no data is wrong, while the device's scheduler
#         is exchanged for each of the kernel's own schedulers and back, under load.
# Needs: null_blk, fio
# Machine: sim
# Machine: vm 4
. "${0%/*}/lib.sh"

# switch_under_load SECONDS: under a load of SECONDS, exchange the scheduler for each of the
# kernel's own schedulers and back, at least twice and for at least 3 seconds. Set $outlived if the
# load still runs after that.
switch_under_load() {
	start_verified_load "$1"
	enough=$(($(seconds_up) + 3 * SLOW))
	rounds=0
	while [ $rounds -lt 2 ] || [ "$(seconds_up)" -lt $enough ]; do
		for other in none mq-deadline kyber bfq; do
			choose_scheduler $other
			sleep 0.02
			change_media
			choose_scheduler "$SCHEDULER"
			sleep 0.1
		done
		rounds=$((rounds + 1))
	done
	! load_runs || outlived=yes
	wait_verified_load
}

# The load must outlive the switches: Linux 6.12 can dereference a null pointer if bfq is
# exchanged while a process that used the device exits. ioc_destroy_icq() looks at the
# device's scheduler before it checks whether the scheduler was exchanged. On a busy computer the
# switches may take longer than the load. Then repeat them under a load of twice the length.
use_memory_disk
outlived=
seconds=6
until [ $outlived ]; do
	[ $seconds -le 24 ] || fail "a load of 24 seconds ends before the switches"
	switch_under_load $seconds
	seconds=$((seconds * 2))
done
echo "$((rounds * 4)) switches"
