#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: while flushes limit what may be written, cgroups share this by weight, although another one
#         reads meanwhile. Writes of many processes that ask for little do not use up all of it.
# Needs: modeldisk, fio, cgroup v2 with the io controller; a scheduler that paces writes, with
#        io.triage.weight
# Machine: sim
. "${0%/*}/lib.sh"

OFF=20		# per cent of its due share by which a cgroup may be off
BACKLOG=45	# per cent of all writes that those which wait must have beside those which do not

# in_cgroup PATH NAME OPTION...: run a job of fio in a cgroup, in the background.
in_cgroup() {
	path=$1
	shift
	sh -c 'echo $$ > "$1/cgroup.procs" && shift && exec fio "$@"' sh "$CGROUPS/$path" \
		--minimal --output="$TEST_TMP/$1" --filename=/dev/$DEV --direct=1 --time_based \
		--ramp_time=$((3 * SLOW)) --runtime=$((9 * SLOW)) --norandommap --group_reporting \
		--name="$@" &
}

# bulk PATH NAME OPTION...: run a job that asks for much.
bulk() {
	in_cgroup "$@" --bs=64k --ioengine=io_uring --iodepth=32
}

# flushes: have a process flush, and one read now and then.
flushes() {
	in_cgroup . waiter --rw=randwrite --bs=4k --ioengine=psync --fdatasync=1 --thinktime=8000
	in_cgroup . now-and-then --rw=randread --bs=4k --ioengine=psync --thinktime=1000
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

bulk single single --rw=randwrite
bulk triple triple --rw=randwrite
bulk reading reading --rw=randread
flushes
wait
part=$(($(writes single) * 10000 / ($(writes single) + $(writes triple))))
echo "measured: beside a cgroup that reads, one of weight 100 has $part of 10000 parts of the" \
	"writes, beside one of 300"
[ $((part * 100)) -ge $((2500 * (100 - OFF))) ] && [ $((part * 100)) -le $((2500 * (100 + OFF))) ] ||
	miss "a cgroup has $part of 10000 parts of the writes, 2500 are due"

# Beside the highest class such processes count as bulk, but no write of theirs is held.
in_cgroup . highest --rw=randread --bs=4k --ioengine=psync --thinktime=1000 --prioclass=1
in_cgroup . crowd --rw=randwrite --bs=64k --ioengine=psync --numjobs=24 --thinktime=1000
bulk . waiting --rw=randwrite
flushes
wait
part=$(($(writes waiting) * 100 / ($(writes waiting) + $(writes crowd))))
echo "measured: beside many processes that write little each, writes that wait have $part %"
[ $part -ge $BACKLOG ] || miss "writes that wait have $part % beside many processes"
