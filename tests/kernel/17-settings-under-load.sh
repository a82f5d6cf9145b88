#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: nr_requests and each of the scheduler's tunables can be changed under
#         load; no request is lost and no data is wrong.
# Needs: null_blk, fio
# Machine: sim
# Machine: vm 4
. "${0%/*}/lib.sh"

# change FILE VALUE: write a value, which the scheduler may take or refuse.
change() {
	echo "$2" > "$1" 2> /dev/null || :
}

use_memory_disk
tunables=$(ls /sys/block/$DEV/queue/iosched 2> /dev/null || :)
# change_all: change nr_requests and each tunable, again and again while the load runs. Count the
# rounds that ended before the load did.
change_all() {
	while load_runs; do
		change_each
		! load_runs || rounds=$((rounds + 1))
	done
}

change_each() {
	for requests in 4 256 33 1024 64; do
		change /sys/block/$DEV/queue/nr_requests $requests
		sleep 0.02
	done
	for name in $tunables; do
		[ -w "$(tunable "$name")" ] || continue
		value=$(cat "$(tunable "$name")" 2> /dev/null) || continue
		for other in 0 1 7 100 4294967296 nonsense; do
			change "$(tunable "$name")" $other
		done
		sleep 0.01
		change "$(tunable "$name")" "$value"
	done
}

# On a busy computer a load may end before the first round does. Then start another load.
rounds=0
until [ $rounds -gt 0 ]; do
	start_verified_load 8
	change_all
	wait_verified_load
done
echo "$rounds rounds of nr_requests and: $(echo $tunables)"
