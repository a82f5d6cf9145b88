#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: a flush does not wait for a drive's buffer full of bulk's writes, and bulk keeps its
#         throughput. The writes that the scheduler holds back delay no reads on the same hardware
#         queue: neither bulk's nor those of a process that reads little. Hardware queues may write
#         about equally much, and a low class has its share. Aged writes do not fill the buffer.
# Needs: modeldisk, fio; a scheduler that paces writes
# Machine: sim 2, since 6.12
. "${0%/*}/lib.sh"

MOST=40		# the time of a flush, in per cent of that beside the same bulk without a scheduler
READ=10		# the time of a read beside bulk's writes, in per cent of that without a scheduler
SHARE=3		# the writes of the lowest class, in per cent of the middle one's
PART=80		# the second hardware queue's writes, in per cent of the first one's
LEAST=80	# the requests of each bulk job, in per cent of those without a scheduler
READS=90	# bulk's reads, in per cent of those without a scheduler

# flushes: print the number of flushes so far, and the time that they took together, in ms.
flushes() {
	awk '{ print $16, $17 }' /sys/block/$DEV/stat
}

# beside SCHEDULER KIND CPU SECONDS [OPTION]: run two jobs of bulk beside a process that flushes and
# one that reads. The first job writes on CPU 0; the second reads or writes (KIND) on CPU, with the
# OPTION of fio. Set flush and read to the mean time of a flush and of a read, in us. Only flushes
# in the second half count: by then there is a pace. Set first and second to the jobs' requests a
# second.
beside() {
	choose_scheduler "$1"
	[ "$1" = none ] || set_tunables
	(sleep $(($4 * SLOW / 2)) && flushes > "$TEST_TMP/before") &
	fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 \
		--time_based --runtime=$(($4 * SLOW)) --norandommap --bs=4k --cpus_allowed=0 \
		--name=waiter --rw=randwrite --ioengine=psync --fdatasync=1 --thinktime=8000 \
		--name=reader --rw=randread --ioengine=psync --thinktime=100 \
		--name=first --rw=randwrite --bs=64k --ioengine=io_uring --iodepth=32 \
		--name=second --rw="$2" --bs=64k --ioengine=io_uring --iodepth=32 --cpus_allowed="$3" \
		${5-} ||
		fail "fio: $(cat "$TEST_TMP/report")"
	flush=$(echo "$(cat "$TEST_TMP/before") $(flushes)" | awk '{ print int(1000 * ($4 - $2) / ($3 - $1)) }')
	read=$(fio_report reader 40)
	first=$(fio_report first 49)
	second=$(($(fio_report second 8) + $(fio_report second 49)))
	echo "measured: $1, bulk writes and $2: a flush takes $flush us, a read $read us, bulk has" \
		"$first and $second requests a second"
}

# fio_report JOB FIELD: print a field of fio's terse report, as a whole number.
fio_report() {
	awk -F ';' -v job="$1" -v field="$2" '$3 == job { print int($field) }' "$TEST_TMP/report"
}

# Let only the pace (how fast bulk may write beside flushes) limit bulk. Make turns so short that
# processes that ask for little soon use theirs up.
set_tunables() {
	echo 100000 > "$(tunable budget_fixed)"
	echo 10 > "$(tunable quantum)"
}

use_flash hw_queues=2
grep -q "^pace " /sys/kernel/debug/block/$DEV/sched/depth 2>/dev/null ||
	skip "$SCHEDULER paces no writes"

# compare KIND CPU SECONDS: compare flushes and bulk under the scheduler with those without one. Set
# read_alone to the mean time of a read without a scheduler.
compare() {
	beside none "$@"
	flush_alone=$flush
	read_alone=$read
	first_alone=$first
	second_alone=$second
	beside "$SCHEDULER" "$@"
	flushes_are_short
	[ $((first * 100)) -ge $((first_alone * LEAST)) ] ||
		miss "bulk that writes has $first requests a second, $first_alone without a scheduler"
	[ $((second * 100)) -ge $((second_alone * LEAST)) ] ||
		miss "other bulk has $second requests a second, $second_alone without a scheduler"
}

flushes_are_short() {
	[ $((flush * 100)) -le $((flush_alone * MOST)) ] ||
		miss "a flush takes $flush us, $flush_alone without a scheduler"
}

# Measure for 12 s: beside reads, a trial of a lower pace takes 2 s, and another may follow soon.
compare randread 0 12
[ $((second * 100)) -ge $((second_alone * READS)) ] ||
	miss "other bulk has $second requests a second, $second_alone without a scheduler"
compare randwrite 1 4
[ $((read * 100)) -le $((read_alone * READ)) ] ||
	miss "a read beside held writes takes $read us, $read_alone without a scheduler"

# By default the lowest class is guaranteed 5 %. Its requests age only after 5 s.
beside "$SCHEDULER" randwrite 0 4 --prioclass=3
[ $((second * 100)) -ge $((first * SHARE)) ] ||
	miss "bulk of the lowest class has $second requests a second, of the middle one $first"

# Let bulk's writes age after 4 ms: all of them wait longer.
set_tunables() {
	echo 100000 > "$(tunable budget_fixed)"
	echo 4 > "$(tunable aging_expire_normal)"
}
beside "$SCHEDULER" randwrite 1 4
flushes_are_short
[ $((second * 100)) -ge $((first * PART)) ] ||
	miss "bulk of one hardware queue has $first requests a second, of the other $second"
