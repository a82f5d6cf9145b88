#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: reads return the data written, and each request reaches the device once:
#         for several jobs, sizes and depths, for reads, writes, flushes, FUA and
#         discards, direct and through the page cache.
# Needs: modeldisk, fio
# Machine: sim
# Machine: vm 4
. "${0%/*}/lib.sh"

use_modeldisk
# run JOBS < JOBFILE: run fio's jobs, and fail unless there are JOBS of them and all succeed.
run() {
	{
		cat <<-END
			[global]
			filename=/dev/$DEV
			direct=1
			verify=crc32c
			verify_fatal=1
			size=4m
			io_size=$((4 / SLOW))m
		END
		cat
	} > "$TEST_TMP/jobs"
	fio --minimal --output="$TEST_TMP/report" "$TEST_TMP/jobs" > "$TEST_TMP/said" 2>&1 ||
		fail "fio: $(cat "$TEST_TMP/said" "$TEST_TMP/report")"
	expect "jobs that ended" "$1" "$(grep -c ';' "$TEST_TMP/report")"
}

run 4 <<-END
	[deep]
	rw=randwrite
	ioengine=libaio
	iodepth=32
	bs=4k
	prioclass=1
	[sizes]
	offset=4m
	rw=randwrite
	ioengine=io_uring
	iodepth=16
	bsrange=512-64k
	prioclass=2
	prio=0
	[mixed]
	offset=8m
	rw=randrw
	ioengine=libaio
	iodepth=8
	bs=8k
	[reader]
	offset=12m
	verify=null
	rw=randread
	ioengine=io_uring
	iodepth=16
	bsrange=4k-128k
	prioclass=3
END
# The block layer and the device must count the same requests.
expect "reads and writes that the device has seen" \
	"$(awk '{ print $1, $5 }' /sys/block/$DEV/stat)" \
	"$(device_count reads) $(device_count writes)"

run 3 <<-END
	[fua]
	rw=randwrite
	ioengine=psync
	sync=dsync
	bs=16k
	io_size=1m
	[flushed]
	offset=4m
	rw=write
	ioengine=psync
	fsync=4
	bs=128k
	prioclass=2
	prio=7
	[cached]
	offset=8m
	direct=0
	rw=randwrite
	ioengine=psync
	bs=4k
	fsync=64
	prioclass=3
END
[ "$(device_count flushes)" -gt 0 ] || fail "the device has seen no flush"

# Write through the page cache, discard a part, and read everything back directly.
dd if=/dev/urandom of="$TEST_TMP/data" bs=4k count=1024 2> /dev/null
dd if="$TEST_TMP/data" of=/dev/$DEV bs=1M seek=32 conv=fsync 2> /dev/null
blkdiscard -o $((33 << 20)) -l $((1 << 20)) /dev/$DEV
dd if=/dev/zero of="$TEST_TMP/data" bs=1M seek=1 count=1 conv=notrunc 2> /dev/null
dd if=/dev/$DEV bs=64k skip=512 count=64 iflag=direct 2> /dev/null |
	cmp - "$TEST_TMP/data" || fail "other data than was written, or discarded"
[ "$(device_count discards)" -gt 0 ] || fail "the device has seen no discard"
