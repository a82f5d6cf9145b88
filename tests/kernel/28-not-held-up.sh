#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: several requests of the highest class go at once to a device that has room,
#         however many requests of other classes are held back.
# Needs: gatedisk; a scheduler with strict classes by I/O priority
# Machine: sim
. "${0%/*}/lib.sh"

# The longest time allowed from the device's first request of the highest class to its last. It is
# less than a clock tick.
LONGEST_US=5000

use_gatedisk depth=96
needs_classes
for pair in budget_fixed=100 share_normal=0 share_low=0; do
	[ ! -e "$(tunable ${pair%=*})" ] || echo "${pair#*=}" > "$(tunable ${pair%=*})"
done

any_held() {
	[ "$(cat "$GATE/held")" -gt 0 ]
}

gate hold
for n in $(seq 32); do
	echo "read $((n * 1000)) 4096 be 4"
done > "$TEST_TMP/asked"
put_requests others < "$TEST_TMP/asked"
wait_until 5 "the device has some" any_held
sleep 0.3

gate shut
for n in $(seq 16); do
	echo "read $((n * 1000 + 500)) 4096 rt 0"
done > "$TEST_TMP/asked"
put_requests high < "$TEST_TMP/asked"
echo > "$GATE/log"
gate hold
sleep 0.3
awk '$6 == "rt" { print $2 }' "$GATE/log" > "$TEST_TMP/times"
expect "of the highest class in the device" 16 "$(wc -l < "$TEST_TMP/times")"
us=$((($(tail -n 1 "$TEST_TMP/times") - $(head -n 1 "$TEST_TMP/times")) / 1000))
echo "measured: 16 requests of the highest class taken in $us us"
[ $us -le $LONGEST_US ] || fail "the last was taken $us us after the first"
