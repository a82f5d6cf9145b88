#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: triage goes on learning the budget from a reader of HIGH after one of two deep readers has
#         ended, at whatever moment of the search for the room.
# Needs: modeldisk, fio; a scheduler that shows what it has learnt
# Machine: sim
. "${0%/*}/lib.sh"

use_modeldisk memory_backed=0 hw_queues=1 depth=1023 dies=4 read_ns=2000000
choose_scheduler "$SCHEDULER"
learnt=/sys/kernel/debug/block/$DEV/sched/depth
grep -q '^judged ' $learnt 2> /dev/null || skip "$SCHEDULER does not show how much it has judged"

frozen=
for ms in 150 200 250 300; do
	choose_scheduler none
	choose_scheduler "$SCHEDULER"
	fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 --rw=randread \
		--bs=4k --ioengine=io_uring --norandommap --time_based \
		--name=ends --iodepth=64 --runtime=$((ms * SLOW))ms \
		--name=deep --iodepth=64 --runtime=$((3 * SLOW)) \
		--name=reader --prioclass=1 --startdelay=$((1 * SLOW)) --runtime=$((2 * SLOW)) ||
		fail "fio: $(cat "$TEST_TMP/report")"
	judged=$(sed -n 's/^judged //p' $learnt)
	echo "measured: $judged requests judged if a deep reader ends after $ms ms"
	[ "$judged" -gt 0 ] || frozen="$frozen $ms"
done
[ -z "$frozen" ] || fail "nothing was learnt after a deep reader had ended, in ms:$frozen"
