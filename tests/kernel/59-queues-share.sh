#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: bulk of each hardware queue has an equal part of flash. This holds for bulk alone, beside
#         urgent requests through one of the queues, and if the requests differ in size.
# Needs: modeldisk, fio; a scheduler with a budget
# Machine: sim 4, since 6.12
. "${0%/*}/lib.sh"

LEAST=60	# the part of a hardware queue's bulk, in per cent of the other queue's

# cost KIB: print the scheduler's cost of a read, in ns.
cost() {
	awk -v kib="$1" '$1 == "read" { print $2 + kib * $3 }' \
		/sys/kernel/debug/block/$DEV/sched/costs
}

# shares WHAT FIRST SECOND DEPTH: fail if two processes have unequal shares. One reads FIRST KiB at
# a time through CPU 0's hardware queue, the other SECOND KiB through CPU 3's. DEPTH is that of a
# reader of the highest class on CPU 0; with 0 there is no such reader.
shares() {
	reader=
	[ "$4" = 0 ] || reader="--name=reader --bs=4k --prioclass=1 --iodepth=$4 --cpus_allowed=0"
	# shellcheck disable=SC2086 # the reader's options
	fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 --rw=randread \
		--time_based --runtime=${SLOW}s --ramp_time=${SLOW}s --norandommap \
		--ioengine=io_uring $reader \
		--name=first --bs="$2k" --iodepth=32 --cpus_allowed=0 \
		--name=second --bs="$3k" --iodepth=32 --cpus_allowed=3 ||
		fail "fio: $(cat "$TEST_TMP/report")"
	first=$(awk -F ';' '$3 == "first" { print int($8) }' "$TEST_TMP/report")
	second=$(awk -F ';' '$3 == "second" { print int($8) }' "$TEST_TMP/report")
	echo "measured: $1, $first requests a second by one hardware queue, $second by the other"
	first=$((first * $(cost "$2") / 1000000))	# ms of cost a second
	second=$((second * $(cost "$3") / 1000000))
	[ $((first * 100)) -ge $((second * LEAST)) ] && [ $((second * 100)) -ge $((first * LEAST)) ] ||
		fail "hardware queues have unequal parts: $1, $first and $second ms of cost a second"
}

# budget PERCENT: fix the budget, in per cent of the cost of a read of 64 KiB.
budget() {
	echo $((learnt * $1 / 100000)) > "$(tunable budget_fixed)"
}

use_flash hw_queues=4
[ -e "$(tunable budget_fixed)" ] || skip "$SCHEDULER has no budget"
learnt=$(cost_of_read 64)
normal=$(cat "$(tunable share_normal)") expire=$(cat "$(tunable aging_expire_normal)")

# Let bulk go only by the budget: without aging, and without a guaranteed share.
echo 60000 > "$(tunable aging_expire_normal)"
echo 0 > "$(tunable share_normal)"
# With this budget the part of each hardware queue is less than a request of 512 KiB.
budget 600
shares "64 and 512 KiB beside a deep reader, with a budget of six" 64 512 4
budget 90
shares "64 KiB beside a deep reader, with a budget below one" 64 64 4
budget 180
shares "64 KiB beside a deep reader, with a budget below two" 64 64 4
budget 250
shares "64 KiB beside a deep reader, with a budget above two" 64 64 4

# From here on the scheduler finds the budget itself.
echo 0 > "$(tunable budget_fixed)"
echo "$normal" > "$(tunable share_normal)"
echo "$expire" > "$(tunable aging_expire_normal)"
shares "512 KiB beside a reader" 512 512 1
shares "512 KiB alone" 512 512 0
shares "64 and 512 KiB alone" 64 512 0
shares "64 KiB alone" 64 64 0
