#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: a CPU goes offline at once even if a limit, or the budget of bulk, holds back requests of
#         its hardware queue. These requests are released, and later ones are limited again.
# Needs: null_blk, CPUs that can go offline; a scheduler with limits (limit_iops_low)
# Machine: vm 4
. "${0%/*}/lib.sh"

CPU=/sys/devices/system/cpu/cpu1/online
HELD=40		# requests; the limit releases one a second
LARGE_KIB=100	# the size of a request where the limit is in KiB
CHARGED_S=5	# the seconds for which such a request uses up that limit
LARGE=100	# requests of 1 MiB, which take seconds with the least budget

[ -e $CPU ] || skip "no CPU can go off"
use_null_disk submit_queues="$(nproc)" irqmode=2 completion_nsec=100000 hw_queue_depth=64 \
	max_sectors=2048
echo 1024 > "/sys/block/$DEV/queue/max_sectors_kb"
[ -e "$(tunable limit_iops_low)" ] || skip "$SCHEDULER has no limits"

ms_up() {
	echo $(($(cut -d ' ' -f 1 /proc/uptime | tr -d .) * 10))
}

# turn 1|0: take CPU1 online (1) or offline (0), and print the time that this takes, in ms.
turn() {
	_before=$(ms_up)
	echo "$1" > $CPU || fail "the CPU does not go $1"
	echo $(($(ms_up) - _before))
}

# put_from_cpu1 NAME COUNT BYTES: submit reads of the lowest class from CPU1.
put_from_cpu1() {
	for n in $(seq $2); do
		echo "read $((n * 4000)) $3 idle 0"
	done > "$TEST_TMP/asked"
	: > "$TEST_TMP/$1.done"
	{
		_status=0
		taskset 2 "$SUBMIT" /dev/$DEV < "$TEST_TMP/asked" || _status=$?
		echo "status $_status"
	} >> "$TEST_TMP/$1.done" 2>&1 &
	wait_until 10 "$SCHEDULER takes the requests" grep -q '^submitted' "$TEST_TMP/$1.done"
}

# goes_off WHAT: fail if CPU1 takes long to go offline while WHAT holds back its requests.
goes_off() {
	off=$(turn 0)
	echo "measured: beside $1 the CPU went off in $off ms, with nothing held back in $idle"
	[ "$off" -le $(((idle + 3000) * SLOW)) ] || fail "beside $1 the CPU went off after $off ms"
}

idle=$(turn 0)
turn 1 > /dev/null

echo 1 > "$(tunable limit_iops_low)"
put_from_cpu1 held $HELD 4096
goes_off "a limit"
LONGEST_WAIT=5 wait_requests

# Once CPU1 is online again, its requests are limited as before.
turn 1 > /dev/null
put_from_cpu1 later $HELD 4096
sleep 2
left=$(($HELD - $(grep -c '^done' "$TEST_TMP/later.done" || :)))
[ "$left" -ge $((HELD / 2)) ] || fail "the limit was forgotten: after 2 s $left of $HELD are left"
echo 0 > "$(tunable limit_iops_low)"
wait_requests

# Only the first request counts against a limit in KiB. The others are released because the CPU
# goes offline, and do not count. So a later request waits only as long as the first one is charged.
if [ -e "$(tunable limit_kib_low)" ]; then
	echo $((LARGE_KIB / CHARGED_S)) > "$(tunable limit_kib_low)"
	begin=$(ms_up)
	put_from_cpu1 data 5 $((LARGE_KIB * 1024))
	goes_off "a limit of data"
	wait_requests
	turn 1 > /dev/null
	put_from_cpu1 behind 1 4096
	wait_requests
	took=$(($(ms_up) - begin))
	echo "measured: a request behind $CHARGED_S s of data and what the limit gave way for: $took ms"
	[ $took -le $((CHARGED_S * 1500)) ] || fail "the limit is charged with what it gave way for: $took ms"
	echo 0 > "$(tunable limit_kib_low)"
fi

# Set the smallest budget, while a process on another CPU reads and waits for each answer.
[ -e "$(tunable budget_fixed)" ] || exit 0
echo 1 > "$(tunable budget_fixed)"
while [ ! -e "$TEST_TMP/enough" ]; do
	printf 'read %d 4096 rt 0\nwait\nsleep 1\n' $(seq 8 8 2000)
done | taskset 1 "$SUBMIT" /dev/$DEV > "$TEST_TMP/reads" 2>&1 &
reader=$!
sleep 1
put_from_cpu1 bulk $LARGE 1048576
goes_off "a budget"
touch "$TEST_TMP/enough"
wait $reader || fail "the reader: $(tail -n 1 "$TEST_TMP/reads")"
wait_requests
turn 1 > /dev/null
