#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: while flushes limit what may be written (the pace), cgroups share the pace by weight, even
#         if another cgroup reads. Many processes that ask for little may together write most of
#         what the pace allows. Then they keep at least half of their writes, flushes stay short,
#         and other writes go on. This holds with and without requests of the highest class.
# Needs: modeldisk, fio, cgroup v2 with the io controller; a scheduler that paces writes, with
#        io.triage.weight
# Machine: sim
. "${0%/*}/lib.sh"

OFF=20		# per cent of its due share by which a cgroup may be off
ASKED=$((5880 / (FLASH_SLOWER / 4)))	# writes a second of the crowd: most of what the drive can take
SERVED=50	# per cent of ASKED that the crowd must have; 94 is usual
FLUSHES=30	# flushes a second, at least, of a process that pauses for 8 ms; without a pace: 6
LEFT=15	# the data of the other writes, in per cent of all data

# in_cgroup PATH NAME OPTION...: run a job of fio in a cgroup, in the background, for $LASTS
# seconds. The first 3 do not count, except with ramp_time=0.
in_cgroup() {
	path=$1
	shift
	sh -c 'echo $$ > "$1/cgroup.procs" && shift && exec fio "$@"' sh "$CGROUPS/$path" \
		--minimal --output="$TEST_TMP/$1" --filename=/dev/$DEV --direct=1 --time_based \
		--ramp_time=$((3 * SLOW)) --runtime=$(((LASTS - 3) * SLOW)) --norandommap --group_reporting \
		--name="$@" &
}

# bulk PATH NAME OPTION...: run a job that asks for much.
bulk() {
	in_cgroup "$@" --bs=64k --ioengine=io_uring --iodepth=32
}

# pauses PATH NAME US OPTION...: run a job that pauses for US after each request. It has no ramp:
# fio 3.33 makes no pauses after a ramp (fio's pull request 1549). Call this before bulk(). When fio
# starts, it measures how late it wakes from a short sleep, and later spins for this time at the end
# of each pause. While others use the CPU, it would measure a millisecond or more, and a crowd would
# spin all the time.
pauses() {
	path=$1
	name=$2
	us=$3
	shift 3
	in_cgroup "$path" "$name" --ramp_time=0 --runtime=$((LASTS * SLOW)) --ioengine=psync \
		--thinktime="$us" "$@"
	sleep 0.$((3 * SLOW))
}

# flushes: run a process that flushes, and one that reads now and then.
flushes() {
	pauses . waiter 8000 --rw=randwrite --bs=4k --fdatasync=1
	pauses . now-and-then 1000 --rw=randread --bs=4k
}

# writes NAME: print the writes a second of a job.
writes() {
	awk -F ';' '{ print int($49) }' "$TEST_TMP/$1"
}

use_cgroups
use_flash
grep -q "^pace " /sys/kernel/debug/block/$DEV/sched/depth 2>/dev/null ||
	skip "$SCHEDULER paces no writes"
choose_scheduler "$SCHEDULER"
echo 100000 > "$(tunable budget_fixed)"		# only the pace limits bulk
weigh single 100
weigh triple 300
weigh reading 100

LASTS=12
flushes
bulk single single --rw=randwrite
bulk triple triple --rw=randwrite
bulk reading reading --rw=randread
wait
part=$(($(writes single) * 10000 / ($(writes single) + $(writes triple))))
echo "measured: beside a cgroup that reads, one of weight 100 has $part of 10000 parts of the" \
	"writes, beside one of 300"
[ $((part * 100)) -ge $((2500 * (100 - OFF))) ] && [ $((part * 100)) -le $((2500 * (100 + OFF))) ] ||
	miss "a cgroup has $part of 10000 parts of the writes, 2500 are due"

# crowd BESIDE: run a crowd that writes. BESIDE is `highest` if a process of the highest class reads
# too, else `nobody`. The crowd's writes count as bulk beside the highest class, and are urgent
# otherwise. The pace holds none of them. The crowd starts after 12 seconds, when there is a pace:
# to find one takes 4 to 7 seconds, because each flush takes 0.15 s. The scheduler is chosen anew,
# to forget how long flushes took before.
crowd() {
	choose_scheduler none
	choose_scheduler "$SCHEDULER"
	echo 100000 > "$(tunable budget_fixed)"
	LASTS=18
	later="--startdelay=$((12 * SLOW)) --runtime=$((6 * SLOW))"
	pauses . crowd $((24000000 / ASKED)) --rw=randwrite --bs=16k --numjobs=24 $later
	pauses . flushes 8000 --rw=randwrite --bs=4k --fdatasync=1 $later
	[ "$1" = nobody ] || pauses . highest 1000 --rw=randread --bs=4k --prioclass=1
	flushes
	bulk . waiting --rw=randwrite
	wait
	part=$(($(writes crowd) * 100 / ASKED))
	left=$(($(writes waiting) * 400 / ($(writes waiting) * 4 + $(writes crowd))))
	flushes=$(writes flushes)
	echo "measured: beside $1 processes that ask for little have $part % of the writes they ask" \
		"for, others have $left % of all data; a process flushes $flushes times a second"
	[ $((flushes * FLASH_SLOWER / 4)) -ge $FLUSHES ] || miss "a process flushes $flushes times a second"
	[ $part -ge $SERVED ] || miss "processes that ask for little have $part % of what they ask for"
	[ $left -ge $LEFT ] || miss "writes that wait have $left % of all data"
}

crowd highest
crowd nobody
