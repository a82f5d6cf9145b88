#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: without priorities, and with the scheduler's own settings, a reader that waits for each
#         answer has at most a tenth of the latency beside four deep readers that it has there
#         without a scheduler. These keep most of their throughput.
# Needs: modeldisk, fio; a scheduler that trades latency for throughput at a rate (exchange)
# Machine: sim
. "${0%/*}/lib.sh"

MOST=10		# the reader's P99, in per cent of that without a scheduler
LEAST=85	# the deep readers' data, in per cent of what they have without a scheduler

use_flash depth=1023
choose_scheduler "$SCHEDULER"
[ -e "$(tunable exchange)" ] || skip "$SCHEDULER has no exchange rate"

# load SCHEDULER: print the reader's P99, in us, and the deep readers' MB a second.
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
		read && /"bw_bytes"/ { bytes = int($3 / 1000000) }
		read && /"99.000000"/ && !p99 { p99 = int($3 / 1000) }
		END { print p99, bytes }
	' "$TEST_TMP/report"
}

without=$(load none)
with=$(load "$SCHEDULER")
latency=$((${with% *} * 100 / ${without% *}))
kept=$((${with#* } * 100 / ${without#* }))
echo "measured: the reader's P99 is ${with% *} us for ${without% *}," \
	"$latency per cent; the deep readers keep $kept per cent"
[ $latency -le $MOST ] || fail "the reader's P99 is $latency per cent of that without a scheduler"
[ $kept -ge $LEAST ] || fail "the deep readers keep only $kept per cent"
