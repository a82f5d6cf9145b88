#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: a class with a limit gets the rate of the limit, even if its requests have aged
#         or it has a guaranteed share. Other classes get the rest. The limit holds no
#         request any longer once it is removed under load, or another scheduler is chosen.
# Needs: gatedisk, fio; a scheduler with limits (limit_iops_low and the like)
# Machine: sim
. "${0%/*}/lib.sh"

# The device serves one request at a time, so slowly that it is the limit, not the CPU.
SERVICE_US=$((500 * SLOW * SLOW))
RUN_S=$SLOW
PER_CENT=10	# allowed error of a figure

use_gatedisk
[ -e "$(tunable limit_iops_low)" ] || skip "$SCHEDULER has no limits"
echo $((SERVICE_US * 1000)) > "$GATE/service_ns"

# load CLASS...: run 8 KiB reads of these classes, for each class eight at a time.
load() {
	{
		printf '%s\n' '[global]' filename=/dev/$DEV direct=1 rw=randread bs=8k \
			iodepth=8 ioengine=libaio time_based runtime=$RUN_S
		for class in "$@"; do
			case $class in
			high) printf '%s\n' '[high]' prioclass=1 ;;
			normal) printf '%s\n' '[normal]' prioclass=2 prio=4 ;;
			low) printf '%s\n' '[low]' prioclass=3 ;;
			esac
		done
	} > "$TEST_TMP/jobs"
	fio --minimal --output="$TEST_TMP/report" "$TEST_TMP/jobs" > /dev/null 2>&1 ||
		fail "fio: $(cat "$TEST_TMP/report")"
}

# rate CLASS: print the requests a second that the class had in the last load.
rate() {
	awk -F ';' -v job="$1" '$3 == job { print int($8) }' "$TEST_TMP/report"
}

# served CLASS WANTED: fail unless the class got about WANTED requests a second in the last load.
served() {
	found=$(rate "$1")
	echo "measured: $1 $found requests a second, $2 due"
	[ $((found * 100)) -ge $(($2 * (100 - PER_CENT))) ] &&
		[ $((found * 100)) -le $(($2 * (100 + PER_CENT))) ] ||
		fail "$1 got $found requests a second, not $2"
}

# Measure the device with two jobs, as below: one job alone loads CPU and device differently.
load normal low
all=$(($(rate normal) + $(rate low)))

little=$((all / 10))
more=$((all / 5))

echo $little > "$(tunable limit_iops_low)"
load low
served low $little

# Neither a guaranteed share nor age overrides a limit.
echo 20 > "$(tunable aging_expire_low)"
load normal low
served low $little
served normal $((all - little))

# Of two limits the lower one counts.
echo $more > "$(tunable limit_iops_low)"
echo $((little * 8)) > "$(tunable limit_kib_low)"
load low
served low $little

# A request of 512 bytes counts as a whole KiB.
echo 0 > "$(tunable limit_iops_low)"
echo 4 > "$(tunable limit_kib_low)"
for n in $(seq 9); do
	echo "read $((n * 1000)) 512 idle 0"
done > "$TEST_TMP/asked"
put_requests short < "$TEST_TMP/asked"
wait_requests
took=$(awk '$1 == "done" { begun = begun ? begun : $4; ended = $5 }
	END { print int((ended - begun) / 1000000) }' "$TEST_TMP/short.done")
echo "measured: 9 reads of 512 bytes in $took ms at 4 KiB/s"
[ "$took" -ge 1900 ] && [ "$took" -le 2200 ] ||
	fail "9 reads of 512 bytes took $took ms at 4 KiB/s"

# Judge only HIGH here: a scheduler may leave the device idle rather than serve NORMAL beside HIGH.
echo $more > "$(tunable limit_iops_high)"
load high normal
served high $more

# Removed in the middle of a load, a limit has no further effect.
for name in limit_iops_high limit_iops_low limit_kib_low; do
	echo 0 > "$(tunable $name)"
done
echo 1 > "$(tunable limit_iops_low)"
{
	sleep $((RUN_S / 2)).5
	echo 0 > "$(tunable limit_iops_low)"
} &
load low
wait $!
[ "$(rate low)" -ge $((all / 4)) ] ||
	fail "low got $(rate low) of $all requests a second after its limit was lifted"

# A limit does not delay a change of the scheduler.
echo 1 > "$(tunable limit_iops_low)"
for n in $(seq 30); do
	echo "read $((n * 1000)) 4096 idle 0"
done > "$TEST_TMP/asked"
put_requests limited < "$TEST_TMP/asked"
before=$(seconds_up)
choose_scheduler none
wait_requests
took=$(($(seconds_up) - before))
[ $took -lt 5 ] || fail "another scheduler was chosen after $took s"
