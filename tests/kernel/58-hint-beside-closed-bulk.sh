#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: a write that fsync() waits for reaches the device at once, although bulk is next in turn
#         and the budget holds bulk. In this check, processes that ask for little have had their
#         turn, and HIGH uses another hardware queue.
# Needs: gatedisk; a scheduler that holds bulk back
# Machine: sim 4, since 6.12
. "${0%/*}/lib.sh"

MOST_MS=50	# until the device gets the write; after 100 ms bulk goes even without room for it

use_gatedisk depth=512 hw_queues=4
[ -e "$(tunable budget_fixed)" ] || skip "$SCHEDULER holds no bulk back"
echo 60000 > "$(tunable aging_expire_normal)"
echo 10 > "$(tunable quantum)"
echo 400 > "$(tunable budget_fixed)"

ms_up() {
	echo $(($(cut -d ' ' -f 1 /proc/uptime | tr -d .) * 10))
}

# from CPUS NAME < SCRIPT: submit requests by a process on these CPUs (a mask).
from() {
	taskset "$1" "$SUBMIT" /dev/$DEV > "$TEST_TMP/$2" 2>&1
}

# The device completes nothing, so requests that it gets never give back their part of the budget.
# The writer opens the device now, and writes once it gets a block through the pipe.
gate hold
mkfifo "$TEST_TMP/told"
taskset 8 dd of=/dev/$DEV bs=4096 count=1 seek=99999 conv=notrunc,fsync \
	< "$TEST_TMP/told" 2> "$TEST_TMP/dd" &
writer=$!
exec 7> "$TEST_TMP/told"
dd if=/dev/zero of="$TEST_TMP/block" bs=4096 count=1 2> /dev/null

for n in $(seq 300); do printf 'read %d 4096 rt 0\nsleep 5\n' $((n * 8)); done | from 1 high &
sleep 0.05
for n in $(seq 20); do echo "read $((100000 + n * 1000)) 65536 none 0"; done | from 8 bulk &
sleep 0.02
for n in 1 2 3; do
	echo "read $((200000 + n * 1000)) 65536 none 0" | from 8 little$n &
done
sleep 0.03
# Make a little room. The processes that ask for little use the room up, and then bulk is next in
# turn.
echo 620 > "$(tunable budget_fixed)"
sleep 0.02
told=$(ms_up)
cat "$TEST_TMP/block" >&7
exec 7>&-
sent_ms() {
	awk '$3 == "write" { print int($2 / 1e6); exit }' "$GATE/log"
}
written() {
	[ "$(sent_ms)" ]
}
wait_until 5 "the device gets the write" written
took=$(($(sent_ms) - told))
echo "measured: the write is with the device after $took ms"
gate open
wait $writer || fail "the writer: $(cat "$TEST_TMP/dd")"
[ "$took" -le $MOST_MS ] || fail "the device gets the write after $took ms"
wait
