#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: on flash a process of the highest class is protected from many others that each
#         ask for one large request at a time: each asks for little, but together they fill
#         the device. The others keep most of their throughput. The flash may be 16 times as slow
#         as the scheduler first believes.
# Needs: modeldisk, fio; a scheduler with a budget
# Machine: sim
. "${0%/*}/lib.sh"

OTHERS=16
MOST=400	# the P99 latency of the highest class, in per cent of that without other processes
LEAST=60	# the others' data, in per cent of what they have without a scheduler

# load SCHEDULER OTHERS: print the reader's P99, in us, and the others' MB a second.
load() {
	choose_scheduler none
	choose_scheduler "$1"
	cat > "$TEST_TMP/jobs" <<-END
		[global]
		filename=/dev/$DEV
		direct=1
		ioengine=psync
		rw=randread
		norandommap
		ramp_time=$((ramp * SLOW))
		time_based
		runtime=$((2 * SLOW))
		[reader]
		bs=4k
		prioclass=1
	END
	[ "$2" = 0 ] || cat >> "$TEST_TMP/jobs" <<-END
		[other]
		bs=128k
		numjobs=$2
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

# judge SLOWER RAMP: on flash that is SLOWER times as slow, compare the reader's latency with that
# alone, and the others' throughput with that without a scheduler. The first RAMP seconds do not
# count.
judge() {
	[ ! -d $MODELDISK ] || rmdir $MODELDISK || fail "the modelled drive stays"
	FLASH_SLOWER=$1 use_quick_flash
	[ -e "$(tunable budget_fixed)" ] || skip "$SCHEDULER has no budget"
	ramp=$2
	alone=$(load "$SCHEDULER" 0)
	alone=${alone% *}
	without=$(load none $OTHERS)
	with=$(load "$SCHEDULER" $OTHERS)
	echo "measured: on flash $1 times as slow: P99 ${with% *} us, $alone alone," \
		"${without% *} without a scheduler; the others have ${with#* } MB/s of ${without#* }"
	[ $((${with% *} * 100)) -le $((alone * MOST)) ] ||
		fail "a slow request of the highest class takes ${with% *} us, $alone alone"
	[ $((${with#* } * 100)) -ge $((${without#* } * LEAST)) ] ||
		fail "the others have ${with#* } MB/s, ${without#* } without a scheduler"
}

[ $SLOW != 1 ] || judge 1 1
judge 16 3	# slow flash serves few requests a second, so the scheduler takes longer to learn
