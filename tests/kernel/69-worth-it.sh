#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: without priorities, and with the scheduler's own settings, a lone reader's P99 beside four
#         deep readers is at most a tenth of its median without a scheduler. The deep readers keep
#         most of their throughput.
# Needs: modeldisk, fio; a scheduler that trades latency for throughput at a rate (exchange)
# Machine: sim
. "${0%/*}/lib.sh"

MOST=10		# the reader's P99, in per cent of its median without a scheduler: 50 reads have no P99
LEAST=85	# the deep readers' data, in per cent of what they have without a scheduler

use_flash depth=1023
choose_scheduler "$SCHEDULER"
[ -e "$(tunable exchange)" ] || skip "$SCHEDULER has no exchange rate"

# load SCHEDULER: print the reader's median and P99, in us, and the deep readers' kB a second.
load() {
	choose_scheduler none
	choose_scheduler "$1"
	cat > "$TEST_TMP/jobs" <<-END
		[global]
		filename=/dev/$DEV
		direct=1
		rw=randread
		norandommap
		ioengine=libaio
		ramp_time=$((4 * SLOW))
		time_based
		runtime=$((4 * SLOW))
		[reader]
		bs=4k
		[deep]
		bs=64k
		iodepth=32
		numjobs=4
		group_reporting
		new_group
	END
	fio --output-format=json --output="$TEST_TMP/report" "$TEST_TMP/jobs" ||
		fail "fio: $(cat "$TEST_TMP/report")"
	awk '
		/"read" :/ { read = 1 }
		/"write" :/ { read = 0 }
		read && /"bw_bytes"/ { kb = int($3 / 1000) }
		read && /"50.000000"/ && !p50 { p50 = int($3 / 1000) }
		read && /"99.000000"/ && !p99 { p99 = int($3 / 1000) }
		END { print p50, p99, kb }
	' "$TEST_TMP/report"
}

load none > "$TEST_TMP/without"
load "$SCHEDULER" > "$TEST_TMP/with"
read -r without _ data < "$TEST_TMP/without"
read -r _ with kept < "$TEST_TMP/with"
latency=$((with * 100 / without))
kept=$((kept * 100 / data))
echo "measured: the reader's P99 is $with us, its median $without without a scheduler:" \
	"$latency per cent; the deep readers keep $kept per cent"
[ $latency -le $MOST ] || miss "the reader's P99 is $latency per cent of its median without a scheduler"
[ $kept -ge $LEAST ] || miss "the deep readers keep only $kept per cent"
