#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: on a rotating disk a class is served in order of sectors, upwards from the
#         end of the last request and then from the lowest sector again. A request
#         that has waited longer than hdd_fifo_expire is served at once. On any other
#         device a class is served in order of arrival.
# Needs: gatedisk; a scheduler with a tunable hdd_fifo_expire
# Machine: sim
. "${0%/*}/lib.sh"

EXPIRE_MS=200
SERVICE_MS=10
TICK_MS=10		# the longest clock tick of any kernel

use_gatedisk
[ -e "$(tunable hdd_fifo_expire)" ] ||
	skip "$SCHEDULER has no time after which it leaves the order of sectors"

# put_from_50000: let the device serve a request that ends at sector 50000, then requests of two
# classes that have queued up behind the gate. One of NORMAL begins where the last of HIGH ends. Two
# begin at sector 70000: once one of them is served, the other lies behind the head and waits for
# the next round.
put_from_50000() {
	gate open
	put_requests before <<-END
		read 49992 4096 be 4
	END
	wait_requests
	gate shut
	echo > "$GATE/log"
	put_requests <<-END
		read 90000 4096 be 4
		read 30000 4096 be 4
		read 50000 4096 be 4
		read 20000 4096 rt 0
		read 70000 4096 be 4
		read 80000 4096 rt 0
		read 10000 4096 be 4
		read 70000 8192 be 4
		read 60000 4096 rt 0
		read 40008 4096 be 4
		read 40000 4096 rt 0
	END
	gate open
	wait_requests
}

echo 1 > /sys/block/$DEV/queue/rotational
put_from_50000
# HIGH goes up from 50000, wraps, and ends at 40008. NORMAL goes on from there.
expect "sectors in the order served, rotating" \
	"60000 80000 20000 40000 40008 50000 70000 90000 10000 30000 70000" \
	"$(cut -d ' ' -f 4 "$GATE/log" | xargs)"

echo 0 > /sys/block/$DEV/queue/rotational
put_from_50000
expect "sectors in the order served, not rotating" \
	"20000 80000 60000 40000 90000 30000 50000 70000 10000 70000 40008" \
	"$(cut -d ' ' -f 4 "$GATE/log" | xargs)"

# One request comes 100 ms before the others. By sector all others would go before it.
echo 1 > /sys/block/$DEV/queue/rotational
echo $EXPIRE_MS > "$(tunable hdd_fifo_expire)"
echo $((SERVICE_MS * 1000000)) > "$GATE/service_ns"
gate shut
{
	echo "read 1000 4096 rt 0"
	echo "sleep 100"
	for n in $(seq 40); do
		echo "read $((n * 1000 + 500000)) 4096 rt 0"
	done
} > "$TEST_TMP/asked"
put_requests < "$TEST_TMP/asked"
gate open
wait_requests
submitted=$(awk '$2 == 1000 { print $4 }' "$TEST_TMP/all.done")
served=$(awk '$4 == 1000 { print $2 }' "$GATE/log")
ms=$(((served - submitted) / 1000000))
echo "waited $ms ms of $EXPIRE_MS"
[ $ms -ge $((EXPIRE_MS - TICK_MS)) ] || fail "served before it had waited for so long"
[ $ms -le $((EXPIRE_MS + 2 * SERVICE_MS + TICK_MS)) ] || fail "still waited"
