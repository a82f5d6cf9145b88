#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: processes share flash in the same way whichever hardware queues they use. LOW on three
#         queues gets little beside NORMAL on a fourth one, also if flash is nearly as quick as the
#         CPU that sends. Three processes of one queue and one of another get equal parts.
# Needs: modeldisk, fio; a scheduler with a budget
# Machine: sim 4, since 6.12
. "${0%/*}/lib.sh"

MOST_LOW=8	# per cent of all requests that LOW may have; share_low is 5
LEAST_LOW=3
OFF=15		# per cent by which a process's part may differ from an equal one

use_flash hw_queues=4
[ -e "$(tunable budget_fixed)" ] || skip "$SCHEDULER has no room for several"

# rates SIZE OPTIONS...: print the requests a second of each job. Each request has SIZE. OPTIONS are
# those of fio for the jobs.
rates() {
	_size=$1
	shift
	fio --minimal --output="$TEST_TMP/report" --filename=/dev/$DEV --direct=1 --rw=randread \
		--bs="$_size" --iodepth=32 --time_based --runtime=$((2 * SLOW))s --ramp_time=${SLOW}s \
		--norandommap --ioengine=io_uring "$@" ||
		fail "fio: $(cat "$TEST_TMP/report")"
	awk -F ';' '{ printf "%d ", $8 }' "$TEST_TMP/report"
}

# low_beside_normal SIZE: fail unless LOW has its share. Each request has SIZE.
low_beside_normal() {
	_of=$1
	# shellcheck disable=SC2046 # each rate is a word
	set -- $(rates "$_of" --name=normal --cpus_allowed=0 \
		--name=low1 --prioclass=3 --cpus_allowed=1 \
		--name=low2 --prioclass=3 --cpus_allowed=2 \
		--name=low3 --prioclass=3 --cpus_allowed=3)
	low=$((100 * ($2 + $3 + $4) / ($1 + $2 + $3 + $4)))
	echo "measured: NORMAL $1 requests of $_of a second, LOW $2, $3 and $4 on other queues: $low %"
	[ $low -le $MOST_LOW ] && [ $low -ge $LEAST_LOW ] ||
		fail "LOW has $low % of the requests, not $LEAST_LOW to $MOST_LOW"
}

low_beside_normal 64k

# shellcheck disable=SC2046 # each rate is a word
set -- $(rates 64k --name=first --cpus_allowed=0 --name=second --cpus_allowed=0 --name=third \
	--cpus_allowed=0 --name=other --cpus_allowed=3)
equal=$((($1 + $2 + $3 + $4) / 4))
echo "measured: three on one queue $1, $2 and $3 requests a second, one on another $4"
for rate in "$@"; do
	[ $((100 * rate)) -ge $(((100 - OFF) * equal)) ] &&
		[ $((100 * rate)) -le $(((100 + OFF) * equal)) ] ||
		fail "a process has $rate requests a second, and an equal part is $equal"
done

# A debug kernel's CPU would be slower than flash, and leave a part of flash to LOW.
[ $SLOW = 1 ] || exit 0
choose_scheduler none
rmdir $MODELDISK || fail "the modelled drive stays"
at_full_speed
use_flash hw_queues=4
low_beside_normal 20k
