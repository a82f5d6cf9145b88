#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: on a disk with a write cache, a process flushes each of its writes. It does not wait for a
#         cache full of bulk's writes, nor for bulk's reads. This holds for a process of HIGH, and
#         for one with bulk's priority. Bulk has turns of the arm meanwhile.
# Needs: modeldisk, fio; a scheduler that anticipates (anticipation)
# Machine: sim
. "${0%/*}/lib.sh"

MOST=10		# the time of a flush, in per cent of that beside the same bulk without a scheduler
LEAST=15	# bulk's requests, in per cent of those without a scheduler, if priorities are equal
HIGH=4		# the same, if the process that flushes is of HIGH

PROFILE=hdd use_modeldisk memory_backed=0 size=65536
[ -e "$(tunable anticipation)" ] || skip "$SCHEDULER does not anticipate"

# flushes: print the number of flushes so far, and the time that they took together, in ms.
flushes() {
	awk '{ print $16, $17 }' /sys/block/$DEV/stat
}

# beside SCHEDULER PRIORITY: let bulk read and write beside a process of this I/O priority that
# flushes. Set flush to the mean time of the flushes in the second half, in us, and bulk to the
# number of bulk's requests a minute.
beside() {
	choose_scheduler "$1"
	(sleep $((6 * SLOW)) && flushes > "$TEST_TMP/before") &
	fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 --time_based \
		--runtime=$((12 * SLOW)) --norandommap --prioclass=2 \
		--name=waiter --rw=randwrite --bs=4k --ioengine=psync --fdatasync=1 --prio="$2" \
		--name=bulk --rw=randread --bs=128k --ioengine=io_uring --iodepth=16 --prio=4 \
		--name=bulk --rw=randwrite --bs=128k --ioengine=io_uring --iodepth=16 --prio=4 ||
		fail "fio: $(cat "$TEST_TMP/report")"
	flush=$(echo "$(cat "$TEST_TMP/before") $(flushes)" |
		awk '{ print ($3 == $1 ? 0 : int(1000 * ($4 - $2) / ($3 - $1))) }')
	bulk=$(awk -F ';' '$3 == "bulk" { sum += $8 + $49 } END { print int(60 * sum) }' \
		"$TEST_TMP/report")
	echo "measured: $1, priority $2: a flush takes $flush us, bulk has $bulk requests a minute"
	[ "$flush" -gt 0 ] || fail "no flush in the second half"
}

# protects PRIORITY PERCENT: compare the scheduler with none. Bulk must keep PERCENT of its
# requests.
protects() {
	beside "$SCHEDULER" "$1"
	[ $((flush * 100)) -le $((flush_alone * MOST)) ] ||
		miss "priority $1: a flush takes $flush us, $flush_alone without a scheduler"
	[ $((bulk * 100)) -ge $((bulk_alone * $2)) ] ||
		miss "priority $1: bulk has $bulk requests a minute, $bulk_alone without a scheduler"
}

beside none 4
flush_alone=$flush
bulk_alone=$bulk
protects 4 $LEAST
protects 1 $HIGH
