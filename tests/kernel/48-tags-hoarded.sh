#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: a reader of the highest class finds a free tag beside many processes of the lowest
#         class. Together these ask for more tags than there are, but each for only a few.
# Needs: modeldisk, fio; a scheduler that keeps tags free
# Machine: sim
. "${0%/*}/lib.sh"

PROCESSES=48		# with $DEPTH requests each: more than there are tags
DEPTH=8
MOST=4			# sleeps may exceed reads by this: each of four counts may be off by one

use_flash
[ -e "$(tunable latency_factor)" ] || skip "$SCHEDULER does not keep tags for a reader"
[ $((PROCESSES * DEPTH)) -gt "$(cat /sys/block/$DEV/queue/nr_requests)" ] ||
	fail "there are enough tags for everybody"

# run NAME OPTION...: run a job on the device. Its output is in $TEST_TMP/NAME.
run() {
	_name=$1
	shift
	fio --minimal --output="$TEST_TMP/$_name" --filename=/dev/$DEV --direct=1 --rw=randread \
		--time_based --norandommap --name="$_name" "$@" > /dev/null 2>&1
}

# seen: print how often the reader has slept so far, and how many requests of the highest class
# were dispatched. All of them are the reader's.
seen() {
	echo "$(awk '/^voluntary_ctxt_switches/ { print $2 }' "/proc/$reader/status")" \
		"$(cut -d ' ' -f 1 /sys/kernel/debug/block/$DEV/sched/dispatched)"
}

run hoarder --bs=64k --prioclass=3 --ioengine=io_uring --iodepth=$DEPTH --numjobs=$PROCESSES \
	--group_reporting --runtime=5 &
hoarders=$!
run reader --bs=4k --prioclass=1 --ioengine=psync --runtime=4 &
fio=$!
# child PID: print the first child of a process; nothing if it has none.
child() {
	cut -d ' ' -f 1 "/proc/$1/task/$1/children" 2> /dev/null
}

# begun: succeed once the reader has read. Its process is a child of fio's, which is a child of the
# shell in the background.
begun() {
	reader=$(child "$(child $fio)")
	[ -n "$reader" ] && [ "$(seen | cut -d ' ' -f 2)" -gt 100 ]
}

wait_until 10 "the reader has read" begun
before=$(seen)
sleep 2
after=$(seen)
wait $fio || fail "fio: $(cat "$TEST_TMP/reader")"
wait $hoarders || fail "fio: $(cat "$TEST_TMP/hoarder")"

# The reader sleeps once for each read, until the device answers, and once more if it waits for a
# tag. Its latency would not tell waits for a tag from waits for the CPU, which the hoarders keep
# busy. A wait for the CPU is no sleep.
set -- $before $after
sleeps=$(($3 - $1)) reads=$(($4 - $2))
echo "measured: beside $PROCESSES processes the reader sleeps $sleeps times for $reads reads," \
	"$(awk -F ';' '{ print int($40) }' "$TEST_TMP/reader") us each on average"
[ $sleeps -le $((reads + MOST)) ] ||
	fail "the reader waits for tags: it sleeps $sleeps times for $reads reads"
