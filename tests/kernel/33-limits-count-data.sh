#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: a discard does not count against a limit in KiB, whatever its range. Requests
#         that were sent under one limit do not count against a later one.
# Needs: modeldisk; a scheduler with limits in KiB (limit_kib_low)
# Machine: sim
. "${0%/*}/lib.sh"

use_modeldisk
LIMIT=$(tunable limit_kib_low)
[ -e "$LIMIT" ] || skip "$SCHEDULER has no limits in KiB"

# seconds COMMAND...: run COMMAND in the idle class, and print how many seconds it takes.
seconds() {
	_begin=$(seconds_up)
	ionice -c 3 "$@" > /dev/null 2>&1 || fail "$* failed"
	echo $(($(seconds_up) - _begin))
}

# read_of BYTES COUNT: print how many seconds COUNT reads of BYTES take.
read_of() {
	seconds dd if=/dev/$DEV of=/dev/null bs="$1" count="$2" iflag=direct
}

# If the discarded range of 64 MiB counted, the reads after it would take a minute.
echo 1024 > "$LIMIT"
seconds blkdiscard /dev/$DEV > /dev/null
took=$(read_of 4096 4)
[ "$took" -le 1 ] || fail "16 KiB took $took s after a discard, at 1024 KiB/s"

# This read of 64 KiB uses up a limit of 1 KiB a second for more than a minute.
echo 1 > "$LIMIT"
read_of 65536 1 > /dev/null
echo 100000 > "$LIMIT"
took=$(read_of 4096 4)
[ "$took" -le 1 ] || fail "16 KiB took $took s after a lower limit was raised"
