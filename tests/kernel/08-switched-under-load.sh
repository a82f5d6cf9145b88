#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: no request is lost, and no data is wrong, while the device's scheduler
#         is exchanged for every other one and back, under load.
# Needs: null_blk, fio
# Machine: sim
# Machine: vm 4
. "${0%/*}/lib.sh"

use_memory_disk
start_verified_load 3
rounds=0
while load_runs; do
	for other in none mq-deadline kyber bfq; do
		choose_scheduler $other
		sleep 0.02
		change_media
		choose_scheduler "$SCHEDULER"
		sleep 0.1
	done
	rounds=$((rounds + 1))
done
wait_verified_load
echo "$((rounds * 4)) switches"
[ $rounds -ge 2 ] || fail "only $rounds rounds of switches"
