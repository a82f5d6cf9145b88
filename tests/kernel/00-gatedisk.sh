#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: gatedisk works as the other tests assume: it holds and releases requests
#         when told, serves each for the time that is set, and logs each.
# Needs: gatedisk
# Machine: sim
. "${0%/*}/lib.sh"

use_gatedisk depth=2
! echo ajar 2> /dev/null > "$GATE/gate" || fail "the gate can be ajar"
expect "the gate" open "$(cat "$GATE/gate")"

# The gate holds requests, and releases them one by one, oldest first.
gate hold
put_requests <<-END
	read 1000 4096
	write 2000 8192
END
wait_until 5 "both requests are held" grep -qx 2 "$GATE/held"
! rmmod gatedisk 2> /dev/null || fail "unloaded with requests held"
echo 1 > "$GATE/release"
wait_until 5 "one request is done" grep -q '^done 1000 ' "$TEST_TMP/all.done"
expect "requests held" 1 "$(cat "$GATE/held")"
! grep -q '^done 2000 ' "$TEST_TMP/all.done" || fail "two requests released"
echo 9 > "$GATE/release"
wait_requests
expect "the log" '0 read 1000 4096|1 write 2000 8192|' \
	"$(cut -d ' ' -f 1,3,4,5 "$GATE/log" | tr '\n' '|')"

# The device serves two requests at a time, 50 ms each.
gate open
echo 50000000 > "$GATE/service_ns"
echo > "$GATE/log"
put_requests <<-END
	read 1000 4096
	read 2000 4096
	read 3000 4096
	read 4000 4096
END
wait_requests
expect "50 ms passed before each was taken" '0 0 1 1' "$(awk '
	NR == 1 { start = $2 }
	{ print int(($2 - start) / 50000000) }' "$GATE/log" | xargs)"

# The log keeps the latest 4096 requests.
echo 0 > "$GATE/service_ns"
echo > "$GATE/log"
expect "the log, cleared" '' "$(cat "$GATE/log")"
dd if=/dev/$DEV of=/dev/null bs=4k count=4100 iflag=direct 2> /dev/null
expect "requests in the log" '4096, from 4 to 4099' "$(awk '
	NR == 1 { first = $1 }
	END { print NR ", from " first " to " $1 }' "$GATE/log")"
