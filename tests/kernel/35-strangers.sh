#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: processes with deliberately chosen ids do not disturb each other: each is
#         served, and so is a lone request of the highest class that comes after them.
#         Five of these ids fall into one set of a small hash table: a scheduler with such a
#         table could count their requests in the wrong classes. Beside a greedy process, a lone
#         read is served no later if the ids of both processes have the same last bits.
# Needs: gatedisk
# Machine: sim
. "${0%/*}/lib.sh"

[ "$SCHEDULER" != none ] || skip "without a scheduler nothing waits in one"
echo 3 > /proc/sys/kernel/watchdog_thresh	# a CPU that spins for twice as long is reported
use_gatedisk depth=1

# ask PID SECTOR CLASS LEVEL [READS]: start a process with the id PID that submits one read, or
# READS reads that are not adjacent. The process stays until the reads are served. Its id is free
# again only when the kernel has freed the process's queue of asynchronous requests.
ask() {
	for nth in $(seq "${5:-1}"); do
		echo "read $(($2 + nth * 1000)) 4096 $3 $4"
	done > "$TEST_TMP/asked"
	wait_until 5 "the process id $1 is free" [ ! -e "/proc/$1" ]
	"$SUBMIT" /dev/$DEV "$1" < "$TEST_TMP/asked" > "$TEST_TMP/$1.out" 2>&1 &
	wait_until 5 "$SCHEDULER takes the read of $1" grep -q '^submitted' "$TEST_TMP/$1.out"
}

# served PID...: succeed if all reads of these processes are done.
served() {
	for pid in "$@"; do
		awk '$1 == "submitted" { n += $2 } $1 == "done" { n-- } END { exit n != 0 }' \
			"$TEST_TMP/$pid.out" || return 1
	done
}

alone=5000
for pids in '3032 3049 3104 3193 3140' '3140 3193 3104 3049 3032'; do
	set -- $pids
	gate shut
	ask $1 1000 be 0
	ask $2 2000 idle 0
	ask $3 3000 idle 0
	ask $4 4000 idle 0
	ask $5 5000 be 4
	gate open
	wait_until 10 "$pids are served" served $pids

	gate shut
	ask $alone 6000 be 0
	ask $((alone + 1)) 7000 idle 0
	gate open
	wait_until 10 "reads that come after $pids are served" served $alone $((alone + 1))
	alone=$((alone + 100))
done

# beside GREEDY LONE: submit 20 reads by the process GREEDY and one by LONE. Set $place to the
# place of LONE's read in the order served.
beside() {
	gate shut
	echo > "$GATE/log"
	ask $1 100000 be 4 20
	ask $2 7000 be 4
	gate open
	wait_until 10 "$1 and $2 are served" served $1 $2
	place=$(awk '$4 == 8000 { print NR }' "$GATE/log")
}

beside 8000 8001
ordinary=$place
echo "measured: the lone read is number $ordinary of 21"
greedy=9000
for apart in 64 1024 4096; do
	beside $greedy $((greedy + apart))
	expect "place of a lone read, $apart ids from a greedy process" "$ordinary" "$place"
	greedy=$((greedy + 1000))
done
