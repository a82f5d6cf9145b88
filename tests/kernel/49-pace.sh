#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: where the budget is below one request of bulk, bulk goes at the pace that the budget
#         says, also where urgent requests are so rare that bulk is inside at most times.
# Needs: modeldisk, fio; a scheduler with a budget
# Machine: sim
. "${0%/*}/lib.sh"

BUDGET_US=20
KIB=64
LEAST=80	# per cent of the pace
MOST=110

use_modeldisk memory_backed=0 hw_queues=1
[ -e "$(tunable budget_fixed)" ] || skip "$SCHEDULER has no budget"
echo $BUDGET_US > "$(tunable budget_fixed)"
# Nothing else lets bulk go.
echo 60000 > "$(tunable aging_expire_normal)"
echo 0 > "$(tunable share_normal)"
fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 --rw=randread \
	--time_based --runtime=1 --ramp_time=500ms --norandommap \
	--name=rare --bs=4k --prioclass=1 --ioengine=psync --thinktime=20000 \
	--name=bulk --bs=${KIB}k --ioengine=io_uring --iodepth=32 ||
	fail "fio: $(cat "$TEST_TMP/report")"
rate=$(awk -F ';' '$3 == "bulk" { print int($8) }' "$TEST_TMP/report")

# A request takes its cost's share of the budget: the gap is cost * cost / budget.
pace=$(awk -v kib=$KIB -v budget=$((BUDGET_US * 1000)) \
	'$1 == "read" { cost = $2 + kib * $3; print int(1e9 * budget / (cost * cost)) }' \
	/sys/kernel/debug/block/$DEV/sched/costs)
echo "measured: bulk at $rate requests a second, its pace is $pace"
[ $((rate * 100)) -ge $((pace * LEAST)) ] || fail "bulk has less than its pace: $rate of $pace"
[ $((rate * 100)) -le $((pace * MOST)) ] || fail "bulk has more than its pace: $rate of $pace"
