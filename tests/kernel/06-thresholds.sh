#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: be_high_max and be_low_min can be changed while the scheduler is in
#         use and decide the class of later requests; invalid values are refused
#         and change nothing.
# Needs: gatedisk; a scheduler with thresholds be_high_max and be_low_min
# Machine: sim
. "${0%/*}/lib.sh"

use_gatedisk
needs_thresholds
# Let no request age, even on a slow machine: the classes alone decide the order.
set_aging 60000

# put_levels LEVEL...: shut the gate, and submit a BE request of each level.
put_levels() {
	gate shut
	echo > "$GATE/log"
	for level; do
		echo "read $((level * 1000)) 4096 be $level"
	done > "$TEST_TMP/asked"
	put_requests < "$TEST_TMP/asked"
}

# served: open the gate, and print the levels in the order served.
served() {
	gate open
	wait_requests
	cut -d ' ' -f 7 "$GATE/log" | tr -d '\n'
}

# set_thresholds HIGH_MAX LOW_MIN: set both, in an order in which they never cross.
set_thresholds() {
	echo 0 > "$(tunable be_high_max)"
	echo "$2" > "$(tunable be_low_min)"
	echo "$1" > "$(tunable be_high_max)"
	expect "thresholds" "$1 $2" \
		"$(cat "$(tunable be_high_max)") $(cat "$(tunable be_low_min)")"
}

# refuse NAME VALUE: fail unless the tunable refuses VALUE with EINVAL and does not change.
refuse() {
	file=$(tunable "$1")
	before=$(cat "$file")
	message=$({ echo "$2" > "$file"; } 2>&1) || true
	expect "$1 after '$2' was written" "$before" "$(cat "$file")"
	! ( echo "$2" > "$file" ) 2> /dev/null || fail "$1 takes '$2'"
	case $message in
	*"nvalid argument"*) ;;
	*) fail "$1 refuses '$2', but says: $message" ;;
	esac
}

# expect_order HIGH_MAX LOW_MIN LEVELS: submit a request of each level, 7 first, and expect
# the device to get them in the order of LEVELS.
expect_order() {
	put_levels 7 6 5 4 3 2 1 0
	expect "levels by thresholds $1 and $2" "$3" "$(served)"
}

expect_order 2 6 21054376
set_thresholds 0 1
expect_order 0 1 07654321
set_thresholds 5 7
expect_order 5 7 54321067
set_thresholds 1 4
expect_order 1 4 10327654

# A request that came before a change keeps its class. Levels 5 and 4 both come as LOW, 5 first.
# So 5 goes first, although 4 is HIGH by the new thresholds.
put_levels 5 4
set_thresholds 4 5
expect "levels from before thresholds 4 and 5" 54 "$(served)"
set_thresholds 1 4

# A threshold refuses a level that does not exist, one that meets or crosses the other threshold,
# and text that is no number.
for value in 4 5 8 -1 4294967296 nonsense ''; do
	refuse be_high_max "$value"
done
for value in 1 0 8 -1 4294967296 nonsense ''; do
	refuse be_low_min "$value"
done
expect_order 1 4 10327654
