#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: each read of thousands of processes in all classes, and of hundreds of threads of
#         one process, is served. None waits longer than the scheduler states. A process of
#         the highest class that reads one block at a time is hardly delayed.
# Needs: gatedisk, fio
# Machine: sim
. "${0%/*}/lib.sh"

SERVICE_US=500		# the device serves one request at a time
AT_ONCE=96		# processes alive at a time, in all classes together
AGING_MS=300
TICK_MS=10		# the longest clock tick of any kernel

[ "$SCHEDULER" != none ] || skip "without a scheduler nothing waits in one"
echo 5 > /proc/sys/kernel/watchdog_thresh	# a CPU that spins for twice as long is reported
use_gatedisk
echo $((SERVICE_US * 1000)) > "$GATE/service_ns"

# crowd NAME PROCESSES AT_ONCE CLASS LEVEL: run tools/crowd in the background. It writes the
# longest wait, in us, to $TEST_TMP/NAME.longest.
crowd() {
	_crowd=$TEST_TMP/$1
	shift
	: > "$_crowd.done"
	{
		_status=0
		"$TEST_DIR/tools/crowd" /dev/$DEV "$@" > "$_crowd.longest" 2>&1 || _status=$?
		echo "status $_status"
	} >> "$_crowd.done" 2>&1 &
}

# in_time CLASS: fail if one of its requests waited longer than the scheduler states, plus the
# time for requests that are due together.
in_time() {
	[ "$(aging_times)" ] || return 0
	_us=$(cat "$TEST_TMP/$1.longest")
	[ "$_us" -le $(((AGING_MS + 2 * TICK_MS) * 1000 + AT_ONCE * SERVICE_US)) ] ||
		fail "of $1 one waited $_us us"
}

[ -z "$(aging_times)" ] || set_aging $AGING_MS
crowd high 3400 $((AT_ONCE / 3)) be 0
crowd normal 3300 $((AT_ONCE / 3)) be 4
crowd low 3300 $((AT_ONCE / 3)) idle 0
wait_requests
echo "measured: of 10000 processes one waited, at most, us:" \
	"high $(cat "$TEST_TMP/high.longest"), normal $(cat "$TEST_TMP/normal.longest"), low $(cat "$TEST_TMP/low.longest")"
in_time normal
in_time low
audit

# reader: print the mean latency, in us, of a process of the highest class with one read at a time.
reader() {
	fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 \
		--ioengine=psync --rw=randread --bs=4k --time_based --runtime=1 \
		--name=reader --prioclass=1 > /dev/null 2>&1 ||
		fail "fio: $(cat "$TEST_TMP/report")"
	awk -F ';' '{ print int($40) }' "$TEST_TMP/report"
}

# One process has 256 threads, a third of them in each class.
fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 --thread \
	--ioengine=psync --rw=randread --bs=4k --loops=1 --io_size=32k \
	--name=high --prioclass=1 --numjobs=86 --name=normal --prioclass=2 --prio=4 \
	--numjobs=85 --name=low --prioclass=3 --numjobs=85 > /dev/null 2>&1 ||
	fail "fio: $(cat "$TEST_TMP/report")"
expect "threads that have read" 256 "$(grep -c . "$TEST_TMP/report")"
audit

if ! has_thresholds && ! has_ioprio_classes; then
	echo "$SCHEDULER has no strict classes: nobody is to be protected"
	exit 0
fi
# Do not let the other classes age, because aged requests rightly go first.
set_aging 60000
crowd normal 600 $((AT_ONCE / 2)) be 4
crowd low 600 $((AT_ONCE / 2)) idle 0
beside=$(reader)
wait_requests
echo "measured: beside them a reader of the highest class waits $beside us for $SERVICE_US"
# When a read comes, the device may have a request, and one more of a class with a guaranteed share
# may go before the read.
[ "$beside" -le $((4 * SERVICE_US)) ] || fail "the reader waits $beside us"
