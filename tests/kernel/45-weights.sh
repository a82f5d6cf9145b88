#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: cgroups share a device by io.triage.weight, down their tree, on flash and on a disk,
#         whatever number of processes they have. A cgroup may have another weight on one device.
#         Reads of a cgroup that takes less than its share have a bounded latency beside another
#         cgroup with many processes. The latency of reads beside bulk of their own cgroup stays
#         bounded if another cgroup reads now and then.
# Needs: modeldisk, fio, cgroup v2 with the io controller; a scheduler with io.triage.weight
# Machine: sim
. "${0%/*}/lib.sh"

OFF=2		# per cent of its due share by which a cgroup may be off
MOST=6		# how many times as long as alone a read may take beside another cgroup's processes

# shares WHERE OPTION...: read with OPTIONs in each cgroup, and compare the cgroups' shares.
shares() {
	where=$1
	shift
	choose_scheduler none
	choose_scheduler "$SCHEDULER"
	echo 1024 > /sys/block/$DEV/queue/nr_requests || fail "nr_requests"	# enough tags
	for path in light middle heavy/less heavy/more; do
		read_in $path "$@"
	done
	compare_shares "$where"
}

# latency [JOB]: print the mean time of a read in the cgroup light, in us. JOB names one of several
# jobs there.
latency() {
	awk -F ';' -v job="${1:-reader}" '$3 == job { print int($16) }' "$TEST_TMP/light"
}

# beside_own_bulk: read 4 KiB at a time in the cgroup light, beside bulk of the same cgroup.
beside_own_bulk() {
	read_in light --rw=randread --bs=128k --iodepth=16 \
		--name=waiting --rw=randread --bs=4k --iodepth=1 --new_group
}

use_cgroups
at_full_speed	# on slow flash a cgroup's own bulk makes its latency long in any case
use_quick_flash
choose_scheduler "$SCHEDULER"
weigh_tree
weight=$CGROUPS/light/io.triage.weight number=$(cat /sys/block/$DEV/dev)
for bad in 0 10001 many "" "$number" "$number 0" "$number many" "999:999 5" "default default"; do
	echo "$bad" > "$weight" 2> /dev/null && fail "the weight takes '$bad'"
done
[ "$(cat "$weight")" = "default 100" ] || fail "the weight is now $(cat "$weight")"
echo "$number 700" > "$weight" && echo "default 200" > "$weight" || fail "the weight is refused"
[ "$(cat "$weight")" = "$(printf 'default 200\n%s 700' "$number")" ] ||
	fail "the weight is now $(cat "$weight")"

SECONDS_EACH=$FLASH_SLOWER	# slower flash needs more time for the same number of requests
read_in light --rw=randread --bs=128k --iodepth=32
read_in middle --rw=randread --bs=128k --iodepth=32
watch light middle
part=$(($(has light) * 10000 / ($(has light) + $(has middle))))
echo "measured: with 700 on this device, 200 on others, beside 300: $part parts of 10000"
[ $part -ge 6800 ] && [ $part -le 7200 ] ||
	fail "the device's own weight gives $part, 7000 are due"
echo "$number default" > "$weight" && echo 100 > "$weight" || fail "the weight is not taken back"
[ "$(cat "$weight")" = "default 100" ] || fail "the weight is now $(cat "$weight")"

SECONDS_EACH=$SLOW
read_in light --rw=randread --bs=4k --iodepth=1
wait
alone=$(latency)
read_in heavy/more --rw=randread --bs=64k --iodepth=2 --numjobs=40
read_in light --rw=randread --bs=4k --iodepth=1
wait
beside=$(latency)
echo "measured: a read takes $alone us alone, $beside us beside 40 processes of another cgroup"
[ "$beside" -le $((alone * MOST)) ] ||
	fail "a read takes $beside us beside 40 processes, $alone alone"

beside_own_bulk
wait
alone=$(latency waiting)
beside_own_bulk
read_in middle --rw=randread --bs=4k --iodepth=1 --thinktime=$((5 * FLASH_SLOWER))ms
wait
beside=$(latency waiting)
echo "measured: beside bulk of its cgroup a read takes $alone us, $beside us if another cgroup reads now and then"
[ "$beside" -le $((alone * 3)) ] ||
	fail "a read takes $beside us if another cgroup reads now and then, $alone if not"

SECONDS_EACH=$FLASH_SLOWER
shares flash --rw=randread --bs=128k --iodepth=32
shares "flash, by many processes" --rw=randread --bs=128k --iodepth=2 --numjobs=12

choose_scheduler none
rmdir "$MODELDISK" && rmmod modeldisk || fail "$DEV is in use"
PROFILE=hdd
use_modeldisk memory_backed=0 hw_queues=1 size=4096
SECONDS_EACH=60
shares disk --rw=randread --bs=64k --iodepth=32
