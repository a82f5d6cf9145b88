#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: requests that fail, and requests that the device never answers, end with an
#         error and do not delay other requests. Afterwards the device works as before.
# Needs: modeldisk, fio
# Machine: sim
# Machine: vm 4
. "${0%/*}/lib.sh"

IO_ERRORS=
LONGEST_WAIT=60
use_modeldisk timeout_ms=500
cat > "$TEST_TMP/jobs" <<-END
	[global]
	filename=/dev/$DEV
	direct=1
	size=16m
	continue_on_error=all
	# EIO and ETIMEDOUT; without this, fio would end at ETIMEDOUT
	ignore_error=5:110,5:110
	time_based
	runtime=$((60 * SLOW))
	[high]
	rw=randrw
	ioengine=io_uring
	iodepth=16
	bs=4k
	prioclass=1
	[low]
	offset=16m
	rw=randrw
	ioengine=libaio
	iodepth=16
	bsrange=4k-64k
	prioclass=3
END
: > "$TEST_TMP/faulty.done"
{
	# Errors are expected, but the load must end.
	fio --minimal --output="$TEST_TMP/report" "$TEST_TMP/jobs" > /dev/null 2>&1 || :
	echo "status 0"
} >> "$TEST_TMP/faulty.done" 2>&1 &
running() {
	! grep -q "^status" "$TEST_TMP/faulty.done"
}
unanswered() {
	[ "$(device_count stalls)" != "$stalls" ]
}
# Repeat the faults, because the load must go on after the first error.
for round in 1 2 3; do
	running || fail "the load ended before round $round"
	stalls=$(device_count stalls)
	echo 20000 > $MODELDISK/error_ppm
	sleep 0.3
	echo 2000 > $MODELDISK/stall_ppm
	wait_until 10 "a request has no answer" unanswered
	choose_scheduler none
	choose_scheduler "$SCHEDULER"
	echo 0 > $MODELDISK/error_ppm
	echo 0 > $MODELDISK/stall_ppm
	sleep 0.1
done
killall -INT fio || fail "the load ended by itself"
# A lost request keeps its tag, so the test fails. But fio 3.33 may wait for ever although no tag is
# in use: once it had not fetched two answers that the kernel had for it. In that case kill fio.
ended() {
	! running && return
	nothing_outstanding && sleep 1 && nothing_outstanding
}
wait_until "$LONGEST_WAIT" "all requests are done" ended
killall -KILL fio 2> /dev/null || :
wait_requests
counts_balance
echo "$(device_count errors) errors, $(device_count stalls) requests without answer"
[ "$(device_count errors)" -gt 0 ] || fail "no errors"

start_verified_load 3
wait_verified_load
