#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: on busy flash, a process of depth 16 gets at least 30 % of the requests beside a process
#         of depth 200. This holds if both begin together, and if the deep one began 12 s earlier.
# Needs: modeldisk, fio; a scheduler with a budget
# Machine: sim
. "${0%/*}/lib.sh"

LEAST=30	# the requests of the process of depth 16, in per cent of the device's

# The device serves one request at a time, in 0.1 ms. The other requests wait inside the device.
use_modeldisk memory_backed=0 hw_queues=1 dies=128 slots=1 read_ns=100000
[ -e "$(tunable budget_fixed)" ] || skip "$SCHEDULER has no room for several"

# rates ALONE_S: print the requests a second of the deep process and of the other one. The other
# one starts after ALONE_S seconds, and its first second does not count.
rates() {
	choose_scheduler none
	choose_scheduler "$SCHEDULER"
	fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 \
		--rw=randread --bs=4k --ioengine=io_uring --norandommap --time_based \
		--name=deep --iodepth=200 --runtime=$(($1 + 2)) \
		--name=other --iodepth=16 --startdelay="$1" --ramp_time=1 --runtime=1 ||
		fail "fio: $(cat "$TEST_TMP/report")"
	awk -F ';' '{ printf "%d ", $8 }' "$TEST_TMP/report"
}

less=
for alone in 0 12; do
	deep=$(rates $alone)
	other=${deep#* }
	deep=${deep%% *}
	other=${other%% *}
	echo "measured: after $alone s $other requests a second beside $deep"
	[ "$other" -ge $((10000 * LEAST / 100)) ] || less="$less; after $alone s $other requests a second"
done
[ -z "$less" ] || fail "the process of depth 16 has too little: ${less#; }"
