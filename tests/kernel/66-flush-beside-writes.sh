#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: a flush does not wait for a buffer full of bulk's writes, and bulk keeps its throughput.
#         Bulk's reads do not wait for writes that are held, even on the same hardware queue.
# Needs: modeldisk, fio; a scheduler that paces writes
# Machine: sim 2
. "${0%/*}/lib.sh"

MOST=40		# per cent of a flush beside the same bulk without a scheduler
LEAST=80	# per cent of bulk's requests without a scheduler

# flushes: print number of flushes so far, and their time together in ms.
flushes() {
	awk '{ print $16, $17 }' /sys/block/$DEV/stat
}

# beside SCHEDULER KIND CPU: let bulk write on CPU 0, and read or write (KIND) on a CPU, beside a
# process that flushes. Set flush to the mean time of a flush, in us, and bulk to the requests of
# bulk a second.
beside() {
	choose_scheduler "$1"
	# Let only the pace limit bulk.
	[ "$1" = none ] || echo 100000 > "$(tunable budget_fixed)"
	before=$(flushes)
	fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 \
		--time_based --runtime=$((6 * SLOW)) --norandommap \
		--name=waiter --rw=randwrite --bs=4k --ioengine=psync --fdatasync=1 \
		--thinktime=8000 --cpus_allowed=0 \
		--name=bulk --rw=randwrite --bs=64k --ioengine=io_uring --iodepth=32 --cpus_allowed=0 \
		--name=bulk --rw="$2" --bs=64k --ioengine=io_uring --iodepth=32 --cpus_allowed="$3" ||
		fail "fio: $(cat "$TEST_TMP/report")"
	bulk=$(awk -F ';' '$3 == "bulk" { sum += $8 + $49 } END { print int(sum) }' "$TEST_TMP/report")
	flush=$(echo "$before $(flushes)" | awk '{ print int(1000 * ($4 - $2) / ($3 - $1)) }')
}

use_flash hw_queues=2
grep -q "^pace " /sys/kernel/debug/block/$DEV/sched/depth 2>/dev/null ||
	skip "$SCHEDULER paces no writes"

# compare KIND CPU: compare a flush and bulk under the scheduler with those without one.
compare() {
	beside none "$@"
	alone="$flush $bulk"
	beside "$SCHEDULER" "$@"
	echo "measured: beside writes and $1 a flush takes $flush us, ${alone% *} without a scheduler;" \
		"bulk has $bulk requests a second, ${alone#* } without"
	[ $((flush * 100)) -le $((${alone% *} * MOST)) ] ||
		fail "a flush takes $flush us, ${alone% *} without a scheduler"
	[ $((bulk * 100)) -ge $((${alone#* } * LEAST)) ] ||
		fail "bulk has $bulk requests a second, ${alone#* } without a scheduler"
}

compare randwrite 1
compare randread 0
