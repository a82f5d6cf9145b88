#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: cgroups share flash by io.triage.weight, down their tree, even if they want more tags than
#         there are. This holds for deep queues, also of HIGH, for many processes with one request
#         each, for io_uring, and for a large cgroup beside nine small ones.
# Needs: modeldisk, fio, cgroup v2 with the io controller; a scheduler with io.triage.weight
# Machine: sim
. "${0%/*}/lib.sh"

# OFF: per cent of its due share by which a cgroup may be off

# shares WHERE OPTION...: read with OPTIONs in each cgroup, and compare the cgroups' shares.
shares() {
	where=$1
	shift
	choose_scheduler none
	choose_scheduler "$SCHEDULER"
	for path in light middle heavy/less heavy/more; do
		read_in $path --rw=randread --bs=128k "$@"
	done
	compare_shares "$where"
}

use_cgroups
# A depth of 32 gives 64 tags. When counting begins or ends, one cgroup may hold all of them. Quick
# flash serves so many requests in a run that 64 hardly change a cgroup's part.
use_quick_flash depth=32
choose_scheduler "$SCHEDULER"
weigh_tree
SECONDS_EACH=$FLASH_SLOWER	# slower flash needs more time for the same number of requests
STARTING=$((FLASH_SLOWER / 2))
OFF=15	# large, because the kernel, not the scheduler, hands out tags: fio asks for many at a time
shares "flash with few tags" --ioengine=libaio --iodepth=64
OFF=5
shares "flash with few tags, by many processes" --ioengine=psync --numjobs=40
# Nine cgroups have few of the tags each. The tenth is due half of the device.
choose_scheduler none
choose_scheduler "$SCHEDULER"
mkdir $CGROUPS/one
all=
STARTING=$FLASH_SLOWER	# ten fio take over 1 s to begin, and over 2 s in a guest after 30 checks
for number in 1 2 3 4 5 6 7 8 9 10; do
	all="$all one/$number"
	weigh one/$number 100
	many=16
	[ $number != 10 ] || many=40
	read_in one/$number --rw=randread --bs=128k --ioengine=psync --numjobs=$many
done
echo 900 > $CGROUPS/one/10/io.triage.weight
watch $all
sum=0
for path in $all; do
	sum=$((sum + $(has $path)))
done
part=$(($(has one/10) * 10000 / sum))
echo "measured: the largest of ten cgroups has $part of 10000 parts, 5000 are due"
[ $part -ge $((5000 - 50 * OFF)) ] && [ $part -le $((5000 + 50 * OFF)) ] ||
	fail "the largest of ten cgroups has $part of 10000, 5000 are due"
STARTING=$((FLASH_SLOWER / 2))

shares "flash with few tags, of HIGH" --ioengine=libaio --iodepth=64 --prioclass=1

# io_uring tries to get a tag without a wait. It leaves requests that get none to its workers.
WATCH=watch_logs
choose_scheduler none
choose_scheduler "$SCHEDULER"
for path in light middle heavy/less heavy/more; do
	read_in $path --rw=randread --bs=128k --ioengine=io_uring --iodepth=64 \
		--write_bw_log="$(log_of $path)" --log_avg_msec=$LOG_MS
done
compare_shares "flash with few tags, by io_uring"
