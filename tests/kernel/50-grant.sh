#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: where bulk may go only right behind an urgent request, bulk of any hardware queue goes
#         there. Bulk has the same throughput through a hardware queue of its own as through that
#         of the urgent requests.
# Needs: modeldisk, fio; a scheduler with a budget
# Machine: sim 4, since 6.12
. "${0%/*}/lib.sh"

# Bulk's throughput through a hardware queue of its own, in per cent of that through the reader's.
# 101 were measured, and 87 with a bug: the urgent request did not wake the other hardware queue.
LEAST=93
# The fewest requests a second of bulk. At the flash's full speed the reader has 10 thousand, and
# some bulk may go behind each of them.
FEWEST=$((1000 / FLASH_SLOWER))

# rate QUEUES: set $rate to bulk's requests a second beside a reader on another CPU.
rate() {
	use_flash hw_queues="$1"
	[ -e "$(tunable budget_fixed)" ] || skip "$SCHEDULER has no budget"
	# The budget is just below the cost of one request. So each bulk request needs a grant:
	# it may go only behind an urgent request.
	echo $(($(cost_of_read 64) * 9 / 10000)) > "$(tunable budget_fixed)"
	# Let bulk go only by the budget: without aging, and without a guaranteed share.
	echo 60000 > "$(tunable aging_expire_normal)"
	echo 0 > "$(tunable share_normal)"
	# Bulk begins once the scheduler knows how long the reader's requests take alone: how long
	# bulk waits for a grant depends on this time. The reader's requests differ in size. With
	# one size, reader and bulk would fall into one of two rhythms by chance, and in one of
	# them bulk would get a third more.
	fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 \
		--rw=randread --time_based --runtime=$((500 * SLOW))ms --ramp_time=200ms --norandommap \
		--name=reader --bsrange=4k-32k --prioclass=1 --ioengine=psync --cpus_allowed=0 \
		--name=bulk --bs=64k --ioengine=io_uring --iodepth=32 --cpus_allowed=3 \
		--startdelay=$((100 * SLOW))ms ||
		fail "fio: $(cat "$TEST_TMP/report")"
	rate=$(awk -F ';' '$3 == "bulk" { print int($8) }' "$TEST_TMP/report")
	choose_scheduler none
	rmdir $MODELDISK || fail "the modelled drive stays"
}

rate 1
same=$rate
rate 4
DEV=
echo "measured: bulk at $rate requests a second by a queue of its own, $same by the reader's"
[ "$same" -ge $FEWEST ] || fail "bulk has only $same requests a second by the reader's queue"
[ $((rate * 100)) -ge $((same * LEAST)) ] ||
	fail "bulk of another queue has less: $rate requests a second, $same by the reader's"
