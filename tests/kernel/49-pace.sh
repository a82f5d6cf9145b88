#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: if the budget is below the cost of one bulk request, bulk goes at the pace that the
#         budget sets. This holds even if urgent requests are so rare that mostly only bulk is in
#         the device.
# Needs: modeldisk, fio; a scheduler with a budget
# Machine: sim
. "${0%/*}/lib.sh"

KIB=64
# Bulk's rate, in per cent of its pace. It is below 100, because a timer, a worker and the dispatch,
# on one busy CPU, add to each gap. 82 to 84 were measured on Linux 6.1 to 7.3, but 79.5 in one run,
# and 2 with the seeded bug triage-pace-lost.
LEAST=80
MOST=110

use_flash
[ -e "$(tunable budget_fixed)" ] || skip "$SCHEDULER has no budget"
cost=$(cost_of_read $KIB)
# The gap between two bulk requests is cost * cost / budget. The budget is 0.4 costs, so the gap is
# 2.5 costs. A request's latency is longer than the gap, so there is mostly some bulk in the device.
budget=$((cost * 4 / 10000))	# us
pace=$((budget * 1000000000000 / (cost * cost)))
echo $budget > "$(tunable budget_fixed)"
# Let bulk go only by the budget: without aging, and without a guaranteed share.
echo 60000 > "$(tunable aging_expire_normal)"
echo 0 > "$(tunable share_normal)"
fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 --rw=randread \
	--time_based --runtime=$SLOW --ramp_time=500ms --norandommap \
	--name=rare --bs=4k --prioclass=1 --ioengine=psync --thinktime=20000 \
	--ramp_time=0 --runtime=$((1000 * SLOW + 500))ms \
	--name=bulk --bs=${KIB}k --ioengine=io_uring --iodepth=32 ||
	fail "fio: $(cat "$TEST_TMP/report")"
rate=$(awk -F ';' '$3 == "bulk" { print int($8) }' "$TEST_TMP/report")
echo "measured: bulk at $rate requests a second, its pace is $pace"
[ $((rate * 100)) -ge $((pace * LEAST)) ] || fail "bulk has less than its pace: $rate of $pace"
[ $((rate * 100)) -le $((pace * MOST)) ] || fail "bulk has more than its pace: $rate of $pace"
