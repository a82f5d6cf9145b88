#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: the scheduler's mode, sequential or random, follows the workload, and the mode's
#         two scores stay between 0 and score_max. In sequential mode up to batch_max requests
#         of a stream are served in a row, even if a request of a higher class comes. Such a
#         batch ends when the mode turns random, at the stream's end, or if a request has aged.
# Needs: gatedisk; a scheduler with tunables batch_max, score_max,
#        seq_gap_sectors, and debugfs files mode and batch
# Machine: sim
. "${0%/*}/lib.sh"

use_gatedisk
SCHED=/sys/kernel/debug/block/$DEV/sched
for file in "$(tunable batch_max)" "$(tunable score_max)" \
		"$(tunable seq_gap_sectors)" $SCHED/mode $SCHED/batch; do
	[ -e "$file" ] || skip "$SCHEDULER has no ${file##*/}"
done

# Check the mode and its two scores.
echo 4 > "$(tunable score_max)"
echo 64 > "$(tunable seq_gap_sectors)"
# mode_after SECTOR...: submit a read of 8 sectors at each SECTOR, one after the other, and print
# the mode after the last one.
mode_after() {
	for sector; do
		echo "read $sector 4096 be 4"
		echo wait
	done > "$TEST_TMP/asked"
	put_requests < "$TEST_TMP/asked"
	wait_requests
	cat $SCHED/mode
}
expect "mode at first" 'sequential 0 0' "$(cat $SCHED/mode)"
expect "mode, one far away" 'random 0 1' "$(mode_after 1000)"
expect "mode, then one adjacent" 'sequential 1 0' "$(mode_after 1008)"
expect "mode, then one 65 sectors on" 'random 0 1' "$(mode_after 1081)"
expect "mode, then one 64 sectors on" 'sequential 1 0' "$(mode_after 1153)"
expect "mode, then one 64 sectors back" 'sequential 2 0' "$(mode_after 1097)"
expect "mode, very random" 'random 0 4' \
	"$(mode_after 9000 1000 8000 2000 7000 3000 6000)"
expect "the batch after that" 'NORMAL 0 6008' "$(cat $SCHED/batch)"
expect "mode, half way back" 'sequential 2 2' "$(mode_after 6008 6016)"
expect "mode, very sequential" 'sequential 4 0' \
	"$(mode_after 6024 6032 6040 6048 6056 6064)"

# Requests that are merged count for the mode like others. Ten wait behind the gate.
echo 32 > "$(tunable score_max)"
gate shut
for n in $(seq 0 9); do
	echo "read $((6072 + 8 * n)) 4096 be 4"
done > "$TEST_TMP/asked"
put_requests < "$TEST_TMP/asked"
expect "mode, with ten waiting" 'sequential 14 0' "$(cat $SCHED/mode)"
gate open
wait_requests

# batch NAME < LATE: submit a stream of LOW requests. When the device has the first one, submit the
# requests of the script LATE. Then let the device serve all. served() prints their order: sN for
# the Nth request of the stream, its sector for a late request. The stream's requests are close but
# not adjacent, so none is merged. With APART the stream's last request is far from the others.
batch() {
	gate open
	mode_after $(seq 8 8 320) > "$TEST_TMP/mode"
	expect "mode before $1" sequential "$(cut -d ' ' -f 1 "$TEST_TMP/mode")"
	gate hold
	echo > "$GATE/log"
	for n in 0 1 2 3 4 5 6 7; do
		[ $n != 7 ] || [ -z "$APART" ] || n=50
		echo "read $((100000 + 16 * n)) 4096 idle 0"
	done > "$TEST_TMP/asked"
	put_requests stream < "$TEST_TMP/asked"
	wait_until 5 "the device has the first" grep -qx 1 "$GATE/held"
	BATCH_BEFORE=$(cat $SCHED/batch)
	put_requests late
	BATCH_AFTER=$(cat $SCHED/batch)
	gate open
	wait_requests
	cut -d ' ' -f 4 "$GATE/log" | awk '
		$1 < 100000 || $1 > 101000 { print; next }
		{ print "s" ($1 - 100000) / 16 + 1 }' | xargs > "$TEST_TMP/served"
}
served() {
	cat "$TEST_TMP/served"
}
APART=

echo 4 > "$(tunable batch_max)"
batch "a batch" <<-END
	read 500000 4096 rt 0
END
expect "the batch, begun" 'LOW 3 100008' "$BATCH_BEFORE"
expect "a batch of four" 's1 s2 s3 s4 500000 s5 s6 s7 s8' "$(served)"

echo 1 > "$(tunable batch_max)"
batch "no batch" <<-END
	read 500000 4096 rt 0
END
expect "the batch that is none" 'LOW 0 100008' "$BATCH_BEFORE"
expect "no batch" 's1 500000 s2 s3 s4 s5 s6 s7 s8' "$(served)"

# A request that begins more than seq_gap_sectors after the end of the stream does not continue it.
echo 256 > "$(tunable batch_max)"
APART=yes
batch "the stream's end" <<-END
	read 500000 4096 rt 0
END
expect "a batch to the stream's end" 's1 s2 s3 s4 s5 s6 s7 500000 s51' "$(served)"
APART=

# When the mode turns random, the batch ends at once. In random mode no batch begins.
echo 4 > "$(tunable score_max)"
batch "random mode" <<-END
	read 500000 4096 rt 0
	read 600000 4096 rt 0
	read 700000 4096 rt 0
	read 800000 4096 rt 0
END
expect "the batch, as the mode turned" 'LOW 0 100008' "$BATCH_AFTER"
expect "no batch in random mode" \
	's1 500000 600000 700000 800000 s2 s3 s4 s5 s6 s7 s8' "$(served)"

# A batch, even of HIGH, does not delay a request that has aged.
echo 32 > "$(tunable score_max)"
echo 4 > "$(tunable batch_max)"
echo 100 > "$(tunable aging_expire)"
gate open
mode_after $(seq 8 8 320) > "$TEST_TMP/mode"
gate shut
echo > "$GATE/log"
put_requests <<-END
	read 500000 4096 be 4
	read 100000 4096 rt 0
	read 100016 4096 rt 0
	read 100032 4096 rt 0
END
gate hold
wait_until 5 "the device has the first" grep -qx 1 "$GATE/held"
expect "the batch of HIGH" 'HIGH 3 100008' "$(cat $SCHED/batch)"
sleep 0.2
gate open
wait_requests
expect "the aged one, then the batch" '100000 500000 100016 100032' \
	"$(cut -d ' ' -f 4 "$GATE/log" | xargs)"

# Of aged requests of NORMAL and LOW, the older goes first.
echo > "$GATE/log"
gate shut
put_requests <<-END
	read 500000 4096 idle 0
	sleep 50
	read 600000 4096 be 4
	sleep 150
END
gate open
wait_requests
expect "the oldest of the aged first" '500000 600000' \
	"$(cut -d ' ' -f 4 "$GATE/log" | xargs)"
