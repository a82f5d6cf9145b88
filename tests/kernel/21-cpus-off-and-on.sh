#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: no request is lost, none stays with an offline CPU, and no data is wrong, while
#         CPUs go offline and online under load.
# Needs: null_blk, fio, CPUs that can go offline
# Machine: vm 4
. "${0%/*}/lib.sh"

[ -e /sys/devices/system/cpu/cpu1/online ] || skip "no CPU can go off"
cpus=$(ls -d /sys/devices/system/cpu/cpu[1-9]*)
use_memory_disk
start_verified_load 4
changes=0
while load_runs; do
	for cpu in $cpus; do
		for state in 0 1; do
			echo $state > "$cpu/online" || fail "$cpu does not go $state"
			changes=$((changes + 1))
			sleep 0.05
		done
	done
done
wait_verified_load
echo "$changes changes"
[ $changes -ge 6 ] || fail "only $changes changes"
