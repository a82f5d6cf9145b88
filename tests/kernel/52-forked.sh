#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: a process of depth 32 has its equal share of flash beside many processes of depth 2.
# Needs: modeldisk, fio; a scheduler in which processes take turns (quantum)
# Machine: sim
. "${0%/*}/lib.sh"

FORKED=32
DUE=$((10000 / (FORKED + 1)))	# each process's equal share, in 10000ths
LEAST=80	# the share of the process of depth 32, in per cent of the equal share

use_quick_flash
choose_scheduler "$SCHEDULER"
[ -e "$(tunable quantum)" ] || skip "$SCHEDULER does not share by turns"

fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 \
	--rw=randread --bs=64k --ioengine=io_uring --norandommap --group_reporting \
	--time_based --runtime=$((2 * SLOW)) \
	--name=deep --iodepth=32 \
	--name=forked --new_group --iodepth=2 --numjobs=$FORKED ||
	fail "fio: $(cat "$TEST_TMP/report")"
part=$(awk -F ';' '{ sum += $7 } NR == 1 { deep = $7 } END { printf "%d", 10000 * deep / sum }' \
	"$TEST_TMP/report")
echo "measured: of 10000 parts of the data it has $part, $DUE are due"
[ "$part" -ge $((DUE * LEAST / 100)) ] ||
	fail "the process of depth 32 has too little: of 10000 parts $part, $DUE are due"
