#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: cgroups share a device by io.triage.weight, down their tree, on flash and on a disk.
# Needs: modeldisk, fio, cgroup v2 with the io controller; a scheduler with io.triage.weight
# Machine: sim
. "${0%/*}/lib.sh"

OFF=3	# per cent of its due share by which a cgroup may be off

ROOT=/sys/fs/cgroup

# group PATH WEIGHT: make a cgroup.
group() {
	mkdir -p "$ROOT/$1"
	echo +io > "$ROOT/$(dirname "$1")/cgroup.subtree_control" ||
		fail "no io controller below $(dirname "$1")"
	[ -e "$ROOT/$1/io.triage.weight" ] || skip "$SCHEDULER has no io.triage.weight"
	echo "$2" > "$ROOT/$1/io.triage.weight" || fail "$1 does not take weight $2"
}

# reader PATH NAME OPTION...: start readers in a cgroup.
reader() {
	place=$1 name=$2
	shift 2
	sh -c 'echo $$ > "$1/cgroup.procs" && shift && exec fio "$@"' sh "$ROOT/$place" \
		--minimal --output="$TEST_TMP/$name" --name="$name" --filename=/dev/$DEV --direct=1 \
		--ioengine=io_uring --norandommap --group_reporting --time_based \
		--ramp_time=1 --runtime=$SECONDS_EACH "$@" &
}

# has NAME: print the KiB that a job has read.
has() {
	awk -F ';' '{ print $6 }' "$TEST_TMP/$1"
}

# shares WHERE: run a reader in each cgroup, and compare what they have with their weights.
shares() {
	choose_scheduler none
	choose_scheduler "$SCHEDULER"
	echo +io > "$ROOT/cgroup.subtree_control" || fail "no io controller"
	group light 100
	group middle 300
	group heavy 600
	group heavy/less 100
	group heavy/more 200
	reader light light "$@"
	reader middle middle "$@"
	reader heavy/less less "$@"
	reader heavy/more more "$@"
	wait
	sum=$(($(has light) + $(has middle) + $(has less) + $(has more)))
	for pair in light:1000 middle:3000 less:2000 more:4000; do
		name=${pair%:*} due=${pair#*:}
		part=$(($(has $name) * 10000 / sum))
		echo "measured: on $WHERE of 10000 parts $name has $part, $due are due"
		[ $((part * 100)) -ge $((due * (100 - OFF))) ] &&
			[ $((part * 100)) -le $((due * (100 + OFF))) ] ||
			OUT="$OUT $name on $WHERE has $part of 10000, $due are due;"
	done
}


[ -e "$ROOT/cgroup.procs" ] || mount -t cgroup2 cgroup2 "$ROOT" || skip "no cgroup v2"
OUT=
use_flash
WHERE=flash SECONDS_EACH=$((2 * SLOW))
shares --rw=randread --bs=64k --iodepth=32
WHERE="flash, by many processes"
shares --rw=randread --bs=64k --iodepth=2 --numjobs=12
remake() {
	choose_scheduler none
	rmdir "$MODELDISK" && rmmod modeldisk || fail "$DEV is in use"
}
remake
use_flash hw_queues=2
WHERE="flash with two hardware queues" SECONDS_EACH=$((2 * SLOW))
shares --rw=randread --bs=64k --iodepth=32
remake
PROFILE=hdd
use_modeldisk memory_backed=0 hw_queues=1 size=4096
WHERE=disk SECONDS_EACH=30
shares --rw=randread --bs=64k --iodepth=16
[ -z "$OUT" ] || fail "$OUT"
