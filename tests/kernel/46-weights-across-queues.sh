#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: cgroups share flash by io.triage.weight, down their tree, even if each uses a hardware
#         queue of its own.
# Needs: modeldisk, fio, cgroup v2 with the io controller; a scheduler with io.triage.weight
# Machine: sim 4, since 6.12
. "${0%/*}/lib.sh"

OFF=2		# per cent of its due share by which a cgroup may be off

use_cgroups
use_flash hw_queues=4
choose_scheduler "$SCHEDULER"
weigh_tree
# Slower flash needs more time for the same number of requests. The 32 requests that a cgroup queues
# at its start must be less than 2 % of the requests of the smallest share.
SECONDS_EACH=$((3 * FLASH_SLOWER))
read_in light --rw=randread --bs=64k --iodepth=32 --cpus_allowed=0
read_in middle --rw=randread --bs=64k --iodepth=32 --cpus_allowed=1
read_in heavy/less --rw=randread --bs=64k --iodepth=32 --cpus_allowed=2
read_in heavy/more --rw=randread --bs=64k --iodepth=32 --cpus_allowed=3
compare_shares "four hardware queues"
for pair in light:0 middle:1 heavy/less:2 heavy/more:3; do
	read_in "${pair%:*}" --rw=randread --bs=64k --iodepth=2 --numjobs=12 \
		--cpus_allowed="${pair#*:}"
done
compare_shares "four hardware queues, by many processes"
