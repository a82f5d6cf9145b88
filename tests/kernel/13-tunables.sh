#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: each tunable whose bounds are known here accepts its smallest and largest value,
#         and refuses the values just beyond. Each tunable refuses text that is no number.
#         A tunable that refuses a value keeps the value that it has.
# Needs: gatedisk; a scheduler with thresholds be_high_max and be_low_min
# Machine: sim
. "${0%/*}/lib.sh"

use_gatedisk
needs_thresholds

# refuse FILE VALUE: fail unless the file refuses VALUE with EINVAL and does not change.
refuse() {
	before=$(cat "$1")
	message=$({ echo "$2" > "$1"; } 2>&1) || true
	expect "${1##*/} after '$2' was written" "$before" "$(cat "$1")"
	case $message in
	*"nvalid argument"*) ;;
	*) fail "${1##*/}, given '$2', says: $message" ;;
	esac
}

# take FILE VALUE: fail unless the file takes VALUE and then has it.
take() {
	echo "$2" > "$1" || fail "${1##*/} refuses '$2'"
	expect "${1##*/}" "$2" "$(cat "$1")"
}

# A tunable has the same bounds in each scheduler that has it. 06-thresholds.sh checks thresholds.
known=0
while read -r name min max; do
	file=$(tunable "$name")
	[ -e "$file" ] || continue
	known=$((known + 1))
	take "$file" "$min"
	take "$file" "$max"
	refuse "$file" $((min - 1))
	refuse "$file" $((max + 1))
done <<-END
	aging_expire	1	60000
	aging_expire_low	1	60000
	aging_expire_normal	1	60000
	anticipation	0	100000
	batch_max	1	256
	budget_fixed	0	1000000
	exchange	0	1000
	fifo_expire	1	60000
	hdd_fifo_expire	1	60000
	latency_target_us	0	10000000
	limit_iops_high	0	4294967295
	limit_iops_low	0	4294967295
	limit_iops_normal	0	4294967295
	limit_kib_high	0	4294967295
	limit_kib_low	0	4294967295
	limit_kib_normal	0	4294967295
	merge	0	1
	quantum	10	1000000
	score_max	1	1024
	seq_gap_sectors	0	2097152
END
# share NAME OTHER: check the bounds of the guaranteed share NAME. NAME and OTHER together are at
# most 90 %.
share() {
	own=$(cat "$(tunable "$1")") most=$((90 - $(cat "$(tunable "$2")")))
	for value in 0 $most "$own"; do
		take "$(tunable "$1")" "$value"
	done
	for value in $((most + 1)) 91; do
		refuse "$(tunable "$1")" "$value"
	done
}

if [ -e "$(tunable share_low)" ]; then
	share share_low share_normal
	share share_normal share_low
fi
# latency_factor is 110 to 10000 (per cent), or 0 for no target.
if [ -e "$(tunable latency_factor)" ]; then
	for value in 110 10000 0; do
		take "$(tunable latency_factor)" $value
	done
	for value in 1 109 10001; do
		refuse "$(tunable latency_factor)" $value
	done
fi

[ $known -gt 0 ] || skip "$SCHEDULER has no tunable whose bounds are known here"

for file in /sys/block/$DEV/queue/iosched/*; do
	for value in '' nonsense -1 4294967296 0x10 '1 2' 1.5; do
		refuse "$file" "$value"
	done
done
