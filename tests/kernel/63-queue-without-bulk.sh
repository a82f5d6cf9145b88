#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: the scheduler does not wait for a hardware queue that has no bulk now. A process with one
#         bulk request now and then takes little more from bulk of another hardware queue than from
#         bulk of the same one.
# Needs: modeldisk, fio; a scheduler with a budget
# Machine: sim 4, since 6.12
. "${0%/*}/lib.sh"

LEAST=90	# bulk's rate, in per cent of that if both processes use one hardware queue

# rate CPU: set $rate to bulk's requests a second on CPU 3, beside a process on CPU that submits one
# bulk request now and then.
rate() {
	# Bulk begins once the scheduler knows how long the reader's requests take alone, as in
	# 50-grant.sh.
	fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 \
		--rw=randread --time_based --runtime=$((800 * SLOW))ms --ramp_time=300ms --norandommap \
		--name=reader --bsrange=4k-32k --prioclass=1 --ioengine=io_uring --iodepth=4 \
		--cpus_allowed=0 \
		--name=bulk --bs=64k --ioengine=io_uring --iodepth=32 --cpus_allowed=3 \
		--startdelay=$((100 * SLOW))ms \
		--name=rare --bs=64k --prioclass=3 --ioengine=psync \
		--thinktime=$((20000 * FLASH_SLOWER)) --ramp_time=0 \
		--runtime=$((800 * SLOW + 300))ms --cpus_allowed="$1" ||
		fail "fio: $(cat "$TEST_TMP/report")"
	rate=$(awk -F ';' '$3 == "bulk" { print int($8) }' "$TEST_TMP/report")
}

at_full_speed	# on slow flash a wait of one clock tick would cost too few requests to show
use_flash hw_queues=4
[ -e "$(tunable budget_fixed)" ] || skip "$SCHEDULER has no budget"
# The budget is just below the cost of two bulk requests.
echo $(($(cost_of_read 64) * 19 / 10000)) > "$(tunable budget_fixed)"
# Let bulk go only by the budget: without aging, and without a guaranteed share.
echo 60000 > "$(tunable aging_expire_normal)"
echo 0 > "$(tunable share_normal)"
# LOW counts as much as NORMAL: at its usual share, to wait for LOW would cost too little to show.
echo 50 > "$(tunable share_low)"
rate 3
same=$rate
rate 1
echo "measured: bulk at $rate requests a second beside a rare request of another queue, $same of its own"
[ $((rate * 100)) -ge $((same * LEAST)) ] ||
	fail "a rare request of another queue costs bulk: $rate requests a second, $same without"
