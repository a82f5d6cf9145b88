#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: no data is wrong while requests are merged all the time. One job writes forwards,
#         one backwards, and one fills a small area in random order.
# Needs: null_blk, fio; a scheduler that says it merges
# Machine: sim
# Machine: vm 4
. "${0%/*}/lib.sh"

use_memory_disk
needs_merging

# Make a tag for each request of the jobs: while a bio waits for a tag, no other can merge with it.
echo 256 > /sys/block/$DEV/queue/nr_requests
# A scheduler may merge only a sequential workload. So let every gap on the disk count as small.
near=$(tunable seq_gap_sectors)
[ ! -e "$near" ] || echo $((64 << 11)) > "$near"

# Submit requests one at a time: the kernel would merge those of a batch in the submitter's plug,
# before the scheduler sees them.
cat > "$TEST_TMP/load.fio" <<-END
	[global]
	filename=/dev/$DEV
	direct=1
	ioengine=libaio
	iodepth=32
	iodepth_batch_submit=1
	bs=4k
	size=16m
	verify=crc32c
	verify_backlog=64
	verify_fatal=1
	time_based
	runtime=$((3 * SLOW))
	[forwards]
	rw=write
	prioclass=2
	prio=1
	[backwards]
	offset=16m
	rw=write:-8k
	prioclass=2
	prio=4
	[disorder]
	offset=32m
	rw=randwrite
	random_generator=lfsr
	size=256k
	prioclass=3
END
fio --minimal --output="$TEST_TMP/load.report" "$TEST_TMP/load.fio" ||
	fail "data was wrong: $(cat "$TEST_TMP/load.report")"
merged=$(awk '{ print $2 + $6 }' /sys/block/$DEV/stat)
echo "$merged merged"
[ "$merged" -ge 100 ] || fail "only $merged merged"
