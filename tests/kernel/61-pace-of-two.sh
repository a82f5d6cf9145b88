#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: with a budget below the cost of one bulk request, and rare urgent requests, bulk gets as
#         much through two hardware queues together as through one. Each queue gets an equal part.
# Needs: modeldisk, fio; a scheduler with a budget
# Machine: sim 4, since 6.12
. "${0%/*}/lib.sh"

LEAST=85	# requests a second through two hardware queues, in per cent of those through one
PART=60		# requests a second through a hardware queue, in per cent of the other queue's

# rates CPU: set first and second to the requests a second of two processes. The first runs on
# CPU 0, the second on the CPU of this number.
rates() {
	use_quick_flash hw_queues=4
	[ -e "$(tunable budget_fixed)" ] || skip "$SCHEDULER has no budget"
	# The budget is a tenth of the cost. So the gap between bulk requests, cost * cost / budget,
	# is 10 costs, and each request is done before the next one goes.
	echo $(($(cost_of_read 64) / 10000)) > "$(tunable budget_fixed)"
	# Let bulk go only by the budget: without aging, and without a guaranteed share.
	echo 60000 > "$(tunable aging_expire_normal)"
	echo 0 > "$(tunable share_normal)"
	fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 \
		--rw=randread --time_based --runtime=$SLOW --ramp_time=500ms --norandommap \
		--name=rare --bs=4k --prioclass=1 --thinktime=20000 --cpus_allowed=1 \
		--ramp_time=0 --runtime=$((1000 * SLOW + 500))ms \
		--name=first --bs=64k --ioengine=io_uring --iodepth=32 --cpus_allowed=0 \
		--name=second --bs=64k --ioengine=io_uring --iodepth=32 --cpus_allowed="$1" ||
		fail "fio: $(cat "$TEST_TMP/report")"
	first=$(awk -F ';' '$3 == "first" { print int($8) }' "$TEST_TMP/report")
	second=$(awk -F ';' '$3 == "second" { print int($8) }' "$TEST_TMP/report")
	choose_scheduler none
	rmdir $MODELDISK || fail "the modelled drive stays"
}

rates 0
together=$((first + second))
rates 3
DEV=
echo "measured: bulk at $first and $second requests a second, $together by one hardware queue"
[ $(((first + second) * 100)) -ge $((together * LEAST)) ] ||
	fail "two hardware queues have less than one: $((first + second)) requests a second, $together"
[ $((first * 100)) -ge $((second * PART)) ] && [ $((second * 100)) -ge $((first * PART)) ] ||
	fail "hardware queues have unequal parts: $first and $second requests a second"
