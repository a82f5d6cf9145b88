#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: requests that the device gives back (inserted at the head) are served
#         once, before all others, oldest first. In a scheduler that has no be_high_max
#         and be_low_min they need only go before the rest of their class, in any order.
# Needs: gatedisk
# Machine: sim
. "${0%/*}/lib.sh"

# Without a scheduler only `depth` requests fit: three to give back, and five more.
use_gatedisk depth=8
if has_thresholds; then
	given_back='idle 0' compared='[a-z]*' want='30000 10000 20000'
else
	given_back='be 1' compared=be want='30000 20000 10000'
fi

# The device takes three requests. A backlog builds up. The device gives the three back.
gate hold
put_requests first <<-END
	read 30000 4096 $given_back
	read 10000 4096 $given_back
	read 20000 4096 $given_back
END
wait_until 5 "the device has the requests" grep -qx 3 "$GATE/held"
gate shut
put_requests second <<-END
	read 15000 4096 be 1
	read 5000 4096 rt 0
	read 25000 4096 be 0
	read 6000 4096 be 4
	read 26000 4096 idle 0
END
echo 1 > "$GATE/requeue"
expect "requests held after they were given back" 0 "$(cat "$GATE/held")"

echo > "$GATE/log"
gate open
wait_requests
expect "requests served after the gate opened" 8 "$(wc -l < "$GATE/log")"
[ "$SCHEDULER" != none ] ||
	skip "no scheduler, no head to insert at; each was served once, though"
first=$(grep " $compared [0-7] " "$GATE/log" | head -n 3 | cut -d ' ' -f 4)
if ! has_thresholds; then
	first=$(echo "$first" | sort -rn)	# they may go in any order among themselves
fi
expect "the first three places served" "$want" "$(echo $first)"
