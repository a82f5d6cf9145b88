#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: adjacent requests of one priority become one request, whether the new
#         one lies before, behind or between the queued ones. Requests that differ
#         in operation, priority or class, or that are already in the device, stay
#         apart. A merged request is as old as its oldest part.
# Needs: gatedisk; a scheduler that says it merges
# Machine: sim
. "${0%/*}/lib.sh"

use_gatedisk
needs_merging

# begin_case: let the device serve a stream, because a scheduler may merge only
# while it sees a stream. Then shut the gate and clear the log.
begin_case() {
	gate open
	for n in $(seq 0 39); do
		echo "read $((n * 8)) 4096 be 4"
		echo wait
	done > "$TEST_TMP/stream"
	put_requests stream < "$TEST_TMP/stream"
	wait_requests
	gate shut
	echo > "$GATE/log"
}

# expect_served WHAT 'OPERATION SECTOR BYTES|'...: open the gate, and fail unless the device
# gets these requests, in any order.
expect_served() {
	gate open
	wait_requests
	expect "$1" "$2" "$(cut -d ' ' -f 3-5 "$GATE/log" | sort | tr '\n' '|')"
}

begin_case
put_requests <<-END
	read 10000 4096 be 4
	read 10008 4096 be 4
	read 10016 4096 be 4
END
expect_served "each after the last" 'read 10000 12288|'

begin_case
put_requests <<-END
	read 20016 4096 be 4
	read 20008 4096 be 4
	read 20000 4096 be 4
END
expect_served "each before the last" 'read 20000 12288|'

if joins_requests; then
	begin_case
	put_requests <<-END
		write 30000 4096 be 4
		write 30016 4096 be 4
		write 30008 4096 be 4
		write 40016 4096 be 4
		write 40000 4096 be 4
		write 40008 4096 be 4
	END
	expect_served "a gap closed" 'write 30000 12288|write 40000 12288|'

	# The read at 50008 is merged in front of the read at 50016. So the merged request begins
	# before the read at 50010, and the scheduler's search must find it when the read at 50000
	# comes. Before it searches, the block layer tries the request that was merged last. So
	# merge two requests at 45000 in between.
	begin_case
	put_requests <<-END
		read 50010 1024 be 4
		read 50016 4096 be 4
		read 50008 4096 be 4
		read 45000 4096 be 4
		read 45008 4096 be 4
		read 50000 4096 be 4
	END
	expect_served "one that came to begin before another" \
		'read 45000 8192|read 50000 12288|read 50010 1024|'
fi

begin_case
put_requests <<-END
	read 60000 4096 be 4
	read 60008 4096 be 5
	read 60016 4096 idle 0
	read 60024 4096 rt 0
	write 60032 4096 rt 0
	read 60048 4096 rt 0
	write 60072 4096 be 4
	read 60064 4096 be 4
	read 60096 4096 be 5
	read 60088 4096 be 4
END
expect_served "all of them different" "read 60000 4096|read 60008 4096|\
read 60016 4096|read 60024 4096|read 60048 4096|read 60064 4096|\
read 60088 4096|read 60096 4096|write 60032 4096|write 60072 4096|"

# A new request is not merged with a neighbour that the device already has.
begin_case
gate hold
put_requests first <<-END
	read 70008 4096 be 4
END
wait_until 5 "the device has the request" grep -qx 1 "$GATE/held"
put_requests second <<-END
	read 70016 4096 be 4
	read 70000 4096 be 4
END
expect_served "neighbours of what the device has" \
	'read 70000 4096|read 70008 4096|read 70016 4096|'

# When the device has given a request back, each byte still reaches the device once.
begin_case
gate hold
put_requests first <<-END
	read 80008 4096 be 4
END
wait_until 5 "the device has the request" grep -qx 1 "$GATE/held"
gate shut
echo 1 > "$GATE/requeue"
echo > "$GATE/log"
put_requests second <<-END
	read 80016 4096 be 4
	read 80000 4096 be 4
END
gate open
wait_requests
expect "bytes of all that was asked for" 12288 \
	"$(awk '{ sum += $5 } END { print sum }' "$GATE/log")"

if joins_requests; then
	# The part at 90016 has waited longest, so the merged request goes before the one at 95000.
	begin_case
	put_requests <<-END
		read 90016 4096 be 4
		sleep 50
		read 95000 4096 be 4
		read 90000 4096 be 4
		read 90008 4096 be 4
	END
	gate open
	wait_requests
	expect "the place of its oldest part" '90000 12288|95000 4096|' \
		"$(cut -d ' ' -f 4,5 "$GATE/log" | tr '\n' '|')"

	# The oldest part decides the age too: it is 350 ms old, the other parts 150 ms.
	if [ "$(aging_times)" ]; then
		set_aging 300
		begin_case
		put_requests <<-END
			read 110016 4096 idle 0
			sleep 200
			read 110000 4096 idle 0
			read 110008 4096 idle 0
			sleep 150
			read 115000 4096 rt 0
			read 120000 4096 rt 0
		END
		gate open
		wait_requests
		expect "what has aged" '110000 12288' \
			"$(head -n 1 "$GATE/log" | cut -d ' ' -f 4,5)"
	fi
fi

# Requests of one priority stay apart if a change of the thresholds has put them in two classes.
if has_thresholds; then
	begin_case
	put_requests first <<-END
		read 130008 4096 be 2
	END
	echo 1 > "$(tunable be_high_max)"
	put_requests second <<-END
		read 130016 4096 be 2
		read 130000 4096 be 2
	END
	expect_served "two classes" \
		'read 130000 4096|read 130008 4096|read 130016 4096|'
fi
