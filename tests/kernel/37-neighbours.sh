#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: no read waits for ever if it arrives while another CPU holds the scheduler's lock
#         without dispatching: to merge a request, to read debugfs or to set a tunable.
# Needs: null_blk, fio
# Machine: vm 4
. "${0%/*}/lib.sh"

RUN_S=3		# a scheduler with such a bug lost a read within a second or a thousand reads

use_null_disk submit_queues=1 irqmode=2 completion_nsec=10000 hw_queue_depth=64

# beside WHAT JOB...: run threads that read one block each, again and again, while WHAT goes on.
beside() {
	what=$1
	shift
	: > "$TEST_TMP/load.done"
	{
		_status=0
		fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 \
			--ioengine=psync --rw=read --bs=4k --size=4k --thread --time_based \
			--runtime=$((RUN_S * SLOW)) "$@" || _status=$?
		echo "status $_status"
	} >> "$TEST_TMP/load.done" 2>&1 &
	$what
	wait_requests
	echo "measured: $(awk -F ';' '{ n += $8 * $9 / 1000 } END { print int(n) }' \
		"$TEST_TMP/report") reads, $what"
}

# for_its_time COMMAND...: repeat COMMAND while the load runs, but no longer: after the load,
# COMMAND might get a lost request dispatched, and so hide the loss.
for_its_time() {
	until=$(($(seconds_up) + RUN_S * SLOW))
	while [ "$(seconds_up)" -lt $until ]; do
		"$@"
	done
}

merging() {
	:
}

look() {
	cat /sys/kernel/debug/block/$DEV/sched/* /sys/kernel/debug/block/$DEV/hctx0/* \
		> /dev/null 2>&1 || :
}

looking() {
	for_its_time look
}

set_again() {
	for name in $tunables; do
		value=$(cat "$(tunable "$name")") && echo "$value" > "$(tunable "$name")" || :
	done 2> /dev/null
}

setting() {
	for_its_time set_again
}

tunables=$(ls /sys/block/$DEV/queue/iosched 2> /dev/null || :)
beside merging --name=a --offset=0 --name=b --offset=4k
beside looking --name=alone
beside setting --name=alone
