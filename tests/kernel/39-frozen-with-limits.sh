#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: a change that needs an empty queue does not wait for limits: a change of nr_requests,
#         of the write-back throttling or of the scheduler. The scheduler releases the held
#         requests, and they do not count against the limit afterwards.
# Needs: gatedisk; a scheduler with limits (limit_iops_low)
# Machine: sim
. "${0%/*}/lib.sh"

HELD=30		# requests; the limit releases one a second
LONGEST_MS=1000

use_gatedisk
[ -e "$(tunable limit_iops_low)" ] || skip "$SCHEDULER has no limits"

# at_once WHAT FILE VALUE: write VALUE to FILE while requests are held back, and then submit one
# more request. Add the write or the request to $late if it takes long.
at_once() {
	[ -e "$2" ] || return 0
	echo 1 > "$(tunable limit_iops_low)"
	for n in $(seq $HELD); do
		echo "read $((n * 1000)) 4096 idle 0"
	done > "$TEST_TMP/asked"
	put_requests "$1" < "$TEST_TMP/asked"
	before=$(cut -d ' ' -f 1 /proc/uptime | tr -d .)
	echo "$3" > "$2" || fail "$2 cannot be $3"
	took=$((($(cut -d ' ' -f 1 /proc/uptime | tr -d .) - before) * 10))
	echo "measured: $1 changed in $took ms with $HELD requests held back"
	[ $took -le $LONGEST_MS ] || late="$late; $1 after $took ms"
	wait_requests
	[ -e "$(tunable limit_iops_low)" ] || return 0
	before=$(cut -d ' ' -f 1 /proc/uptime | tr -d .)
	echo "read 0 4096 idle 0" > "$TEST_TMP/asked"
	put_requests "one more" < "$TEST_TMP/asked"
	wait_requests
	took=$((($(cut -d ' ' -f 1 /proc/uptime | tr -d .) - before) * 10))
	[ $took -le $((2 * LONGEST_MS)) ] || late="$late; one request after $1 after $took ms"
	echo 0 > "$(tunable limit_iops_low)"
}

late=
at_once nr_requests /sys/block/$DEV/queue/nr_requests 128
at_once wbt_lat_usec /sys/block/$DEV/queue/wbt_lat_usec 0
at_once scheduler /sys/block/$DEV/queue/scheduler none
[ -z "$late" ] || fail "waited for a limit: ${late#; }"
