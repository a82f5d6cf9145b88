#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: each of several writes that fsync() waits for goes ahead of bulk that may not go. This
#         holds even if only these writes use their hardware queue, and the highest class uses
#         another one.
# Needs: gatedisk; a scheduler with a budget and guaranteed shares
# Machine: sim 4, since 6.12
. "${0%/*}/lib.sh"

WRITES=6
MOST_MS=50	# until the device gets a write; after 100 ms bulk goes even without room for it

use_gatedisk depth=512 hw_queues=4
[ -e "$(tunable budget_fixed)" ] && [ -e "$(tunable share_normal)" ] ||
	skip "$SCHEDULER has no budget, or guarantees no shares"
# Let bulk go only by the budget, not by its age.
echo 60000 > "$(tunable aging_expire_normal)"
echo 400 > "$(tunable budget_fixed)"
# Turn off writeback throttling, the kernel's own limit. The kernel may lack it.
echo 0 > /sys/block/$DEV/queue/wbt_lat_usec 2> /dev/null || :

# from CPUS NAME < SCRIPT: submit requests by a process on these CPUs (a mask).
from() {
	taskset "$1" "$SUBMIT" /dev/$DEV > "$TEST_TMP/$2" 2>&1
}

# The device takes requests and answers none, so that the budget is used up.
gate hold
for n in $(seq 400); do
	printf 'read %d 4096 rt 0\nsleep 1\n' $((n * 8))
done | from 1 high &
sleep 0.05
for n in $(seq 200); do
	echo "read $((100000 + n * 1000)) 65536 none 0"
done | from 8 bulk &
sleep 0.05
for n in $(seq $WRITES); do
	cut -d ' ' -f 1 /proc/uptime >> "$TEST_TMP/asked"
	taskset 4 dd if=/dev/zero of=/dev/$DEV bs=4096 count=1 seek=$((90000 + n)) \
		conv=notrunc,fsync 2> /dev/null &
	sleep 0.02
done
all_written() {
	[ "$(grep -c " write " "$GATE/log")" = $WRITES ]
}
wait_until 5 "the device gets all writes" all_written
longest=$(awk 'NR == FNR { asked[NR] = $1 * 1000; next }
	$3 == "write" { took = $2 / 1e6 - asked[++n]; if (took > longest) longest = took }
	END { print int(longest) }' "$TEST_TMP/asked" "$GATE/log")
echo "measured: $WRITES writes are with the device, each after $longest ms at most"
gate open
wait
[ "$longest" -le $((MOST_MS * SLOW)) ] || fail "the device gets a write after $longest ms"
