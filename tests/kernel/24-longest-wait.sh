#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: no request of a lower class waits longer than the scheduler states, whatever
#         mix of higher classes keeps the device busy.
# Needs: gatedisk, fio
# Machine: sim
. "${0%/*}/lib.sh"

AGING_MS=300
SERVICE_MS=2		# the device serves one request at a time
RUN_S=1			# three times the aging time: long enough to starve
TICK_MS=10		# the longest clock tick of any kernel

use_gatedisk
echo $((SERVICE_MS * 1000000)) > "$GATE/service_ns"

# The scheduler's aging times state how long a request of a lower class may wait.
bound=
if [ "$(aging_times)" ]; then
	bound=$AGING_MS
	set_aging $AGING_MS
fi

# job NAME PRIOCLASS DEPTH: print a job for fio.
job() {
	echo "[$1]"
	echo "prioclass=$2"
	[ "$2" != 2 ] || echo "prio=4"	# as for a process without a priority
	echo "iodepth=$3"
}

# longest CLASS: print the longest wait of the last run, in ms.
longest() {
	awk -F ';' -v job="$1" '$3 == job { print int($39 / 1000) }' "$TEST_TMP/report"
}

# mix RT-DEPTH BE-DEPTH IDLE-DEPTH: run readers of these depths side by side, and add to $late each
# lower class that waited longer than the scheduler states. A depth of 0 means no reader.
mix() {
	{
		printf '%s\n' '[global]' filename=/dev/$DEV direct=1 rw=randread bs=4k \
			ioengine=libaio time_based runtime=$RUN_S
		[ "$1" = 0 ] || job rt 1 "$1"
		[ "$2" = 0 ] || job be 2 "$2"
		[ "$3" = 0 ] || job idle 3 "$3"
	} > "$TEST_TMP/jobs"
	fio --minimal --output="$TEST_TMP/report" "$TEST_TMP/jobs" > /dev/null 2>&1 ||
		fail "fio: $(cat "$TEST_TMP/report")"
	# All queued requests may age at once. The device serves them one by one, so the last one
	# waits for all others. Allow two ticks for rounding.
	latest=$((${bound:-0} + ($1 + $2 + $3) * SERVICE_MS + 2 * TICK_MS))
	said=
	higher=
	for class in rt be idle; do
		ms=$(longest $class)
		[ "$ms" ] || continue
		said="$said $class $ms ms,"
		[ -z "$bound" ] || [ -z "$higher" ] || [ "$ms" -le $latest ] ||
			late="$late; $class $ms ms, not $latest, of $1 rt, $2 be, $3 idle"
		higher=$class
	done
	echo "measured: longest wait, $1 rt + $2 be + $3 idle at once:${said%,}"
}

late=
mix 32 0 1
mix 32 1 1
mix 0 32 1
mix 32 32 2
[ -z "$late" ] || fail "waited too long: ${late#; }"
