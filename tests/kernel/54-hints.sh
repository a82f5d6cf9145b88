#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: a write that fsync() waits for does not queue behind bulk of the same process.
# Needs: modeldisk, fio; a scheduler that holds bulk of one process back
# Machine: sim
. "${0%/*}/lib.sh"

MOST=20	# the time of an fsync, in per cent of the time of a write of the bulk

use_modeldisk hw_queues=1 depth=8
[ -e "$(tunable budget_fixed)" ] || skip "$SCHEDULER holds no bulk back"
# Without a write cache, an fsync is its write alone, without a flush.
echo "write through" > /sys/block/$DEV/queue/write_cache ||
	fail "the device's write cache cannot be hidden"
allow_backlog 256

# Use threads, so that all requests come from one process.
cat > "$TEST_TMP/jobs" <<-END
	[global]
	filename=/dev/$DEV
	thread
	rw=randwrite
	time_based
	runtime=2
	[committer]
	bs=4k
	size=16m
	ioengine=psync
	fsync=1
	[bulk]
	direct=1
	bs=64k
	offset=16m
	size=32m
	iodepth=64
	ioengine=io_uring
END
fio --output-format=json --output="$TEST_TMP/report" "$TEST_TMP/jobs" ||
	fail "fio: $(cat "$TEST_TMP/report")"
# Set $times to the mean times of the committer's fsync and of a write of the bulk, in us.
times=$(awk '
	/"jobname"/ { job = $3 }
	/"sync" :/ { kind = "sync" }
	/"write" :/ { kind = "write" }
	/"trim" :|"read" :/ { kind = "" }
	/"lat_ns"/ { total = 1 }
	/"mean"/ && total && kind == "sync" && job ~ /committer/ { fsync = int($3 / 1000) }
	/"mean"/ && total && kind == "write" && job ~ /bulk/ { write = int($3 / 1000) }
	/"mean"/ { total = 0 }
	END { print fsync + 0, write + 0 }
' "$TEST_TMP/report")
echo "measured: a write that fsync waits for takes ${times% *} us, a write of the bulk ${times#* } us"
[ "${times% *}" -gt 0 ] && [ $((${times% *} * 100)) -le $((${times#* } * MOST)) ] ||
	fail "a write that fsync waits for takes ${times% *} us, one of the bulk ${times#* } us"
