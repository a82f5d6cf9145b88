#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: the counts in debugfs (queued, dispatched and aged, for HIGH, NORMAL and
#         LOW) match the submitted requests, requeued ones included.
# Needs: gatedisk; a scheduler with thresholds, and debugfs files of these names
# Machine: sim
. "${0%/*}/lib.sh"

use_gatedisk
needs_thresholds
COUNTS=/sys/kernel/debug/block/$DEV/sched
for name in queued dispatched aged; do
	[ -e $COUNTS/$name ] || skip "$SCHEDULER has no count of requests $name"
done

# counts WHEN QUEUED DISPATCHED AGED: fail unless the three files have these counts.
counts() {
	expect "requests queued $1" "$2" "$(cat $COUNTS/queued)"
	expect "requests dispatched $1" "$3" "$(cat $COUNTS/dispatched)"
	expect "requests aged $1" "$4" "$(cat $COUNTS/aged)"
}

counts "at first" '0 0 0' '0 0 0' '0 0 0'

gate shut
put_requests <<-END
	read 1000 4096 rt 0
	read 2000 4096 be 0
	write 3000 4096 be 2
	read 4000 4096 be 3
	read 5000 4096 be 5
	read 6000 4096 be 6
	read 7000 4096 be 7
	write 8000 4096 idle 0
	read 9000 4096 idle 0
END
counts "at the shut gate" '3 2 4' '0 0 0' '0 0 0'
gate open
wait_requests
counts "after it opened" '0 0 0' '3 2 4' '0 0 0'

# Submit one request of HIGH, two of NORMAL and three of LOW. Each waits longer than the aging time.
set_aging 50
gate shut
put_requests <<-END
	read 1000 4096 idle 0
	read 2000 4096 be 6
	read 3000 4096 be 7
	read 4000 4096 be 3
	read 5000 4096 be 4
	read 6000 4096 be 2
END
sleep 0.2
counts "before aging shows" '1 2 3' '3 2 4' '0 0 0'
gate open
wait_requests
counts "after aging" '0 0 0' '4 4 7' '0 2 3'

# A request that the device gives back counts as queued and dispatched once more.
gate hold
put_requests <<-END
	read 1000 4096 be 7
END
wait_until 5 "the device has the request" grep -qx 1 "$GATE/held"
counts "with a request held" '0 0 0' '4 4 8' '0 2 3'
gate shut
echo 1 > "$GATE/requeue"
counts "after it was given back" '0 0 1' '4 4 8' '0 2 3'
gate open
wait_requests
counts "in the end" '0 0 0' '4 4 9' '0 2 3'
