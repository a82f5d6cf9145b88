#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: while higher classes are busy, a request of a lower class waits for the
#         aging time, no longer and no shorter.
# Needs: gatedisk; a scheduler with strict classes and a tunable aging time
# Machine: sim
. "${0%/*}/lib.sh"

AGING_MS=300
SERVICE_MS=10		# the device serves one request at a time: the 100 of HIGH take 1 s
TICK_MS=10		# the longest clock tick of any kernel

use_gatedisk
needs_classes
[ "$(aging_times)" ] || skip "$SCHEDULER has no aging time"
set_aging $AGING_MS
# A guaranteed share would let a request go before it ages.
for name in share_normal share_low; do
	[ ! -e "$(tunable $name)" ] || echo 0 > "$(tunable $name)"
done
echo $((SERVICE_MS * 1000000)) > "$GATE/service_ns"

gate shut
{
	echo "read 7000 4096 idle 0"
	echo "read 3000 4096 none 0"
	for n in $(seq 100); do
		echo "read $((n * 1000 + 500000)) 4096 rt 0"
	done
} > "$TEST_TMP/asked"
put_requests < "$TEST_TMP/asked"
gate open
wait_requests

# waited SECTOR: print how long the request at SECTOR waited before the device got it, in ms.
waited() {
	submitted=$(awk -v sector="$1" '$2 == sector { print $4 }' \
		"$TEST_TMP/all.done")
	served=$(awk -v sector="$1" '$4 == sector { print $2 }' "$GATE/log")
	echo $(((served - submitted) / 1000000))
}

# Both requests are due at the same time, so the second waits for the first. Each may also find the
# device busy, and the clock a tick late.
earliest=$((AGING_MS - TICK_MS))
latest=$((AGING_MS + 3 * SERVICE_MS + TICK_MS))
expect "the class of sector 3000" 1 "$(rank none 0)"
for sector in 7000 3000; do
	ms=$(waited $sector)
	echo "sector $sector waited $ms ms of $AGING_MS"
	[ "$ms" -ge $earliest ] || fail "served before it had waited $earliest ms"
	[ "$ms" -le $latest ] || fail "still waited after $latest ms"
done
