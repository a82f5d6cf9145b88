#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: on flash a process without a priority that reads one block at a time stays protected
#         from bulk. This holds even if a process of the highest class reads now and then.
# Needs: modeldisk, fio; a scheduler with a budget
# Machine: sim
. "${0%/*}/lib.sh"

LEAST=75	# the process's reads, in per cent of those without a process of the highest class

at_full_speed	# on slow flash this check does not catch the seeded bug triage-high-for-long
use_flash
[ -e "$(tunable budget_fixed)" ] || skip "$SCHEDULER has no budget"

# reads SCHEDULER HIGH: print the reads a second of the process without a priority. With HIGH=1 a
# process of the highest class runs beside it.
reads() {
	choose_scheduler none
	choose_scheduler "$1"
	cat > "$TEST_TMP/jobs" <<-END
		[global]
		filename=/dev/$DEV
		direct=1
		rw=randread
		norandommap
		ramp_time=1
		time_based
		runtime=$((2 * SLOW))
		[reader]
		bs=4k
		ioengine=psync
		[bulk]
		bs=64k
		ioengine=io_uring
		iodepth=32
		numjobs=2
		group_reporting
		new_group
	END
	[ "$2" = 0 ] || cat >> "$TEST_TMP/jobs" <<-END
		[high]
		new_group
		bs=4k
		ioengine=psync
		prioclass=1
		thinktime=300ms
		ramp_time=0
		runtime=$((2 * SLOW + 1))
	END
	fio --minimal --output="$TEST_TMP/report" "$TEST_TMP/jobs" ||
		fail "fio: $(cat "$TEST_TMP/report")"
	awk -F ';' 'NR == 1 { print $8 }' "$TEST_TMP/report"
}

without=$(reads "$SCHEDULER" 0)
with=$(reads "$SCHEDULER" 1)
echo "measured: $with reads a second where the highest class asks now and then, $without else"
[ $((with * 100)) -ge $((without * LEAST)) ] ||
	fail "only $with reads a second where the highest class asks now and then, $without else"
unprotected=$(reads none 0)
echo "measured: $unprotected reads a second without a scheduler"
[ "$without" -ge $((unprotected * 2)) ] ||
	fail "$without reads a second beside bulk, $unprotected without a scheduler"
