#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: requests of the kernel's threads, which belong to no process (a loop device's
#         workers, write-back), are ordinary requests: no data is wrong, and beside a busy
#         lower class none of them waits for ever.
# Needs: null_blk, loop, fio
# Machine: sim
. "${0%/*}/lib.sh"

LONGEST_MS=2000

modprobe -q loop || skip "the kernel has no loop device"
use_memory_disk
busybox losetup /dev/loop0 /dev/$DEV || skip "no loop device can be set up"
cat > "$TEST_TMP/jobs" <<-END
	[global]
	size=8m
	bsrange=4k-64k
	verify=crc32c
	verify_fatal=1
	verify_backlog=32
	[workers]
	filename=/dev/loop0
	direct=1
	rw=randwrite
	ioengine=io_uring
	iodepth=16
	[write-back]
	filename=/dev/loop0
	offset=16m
	rw=randwrite
	ioengine=psync
	fsync=32
	[lower]
	filename=/dev/$DEV
	offset=32m
	direct=1
	rw=randwrite
	ioengine=io_uring
	iodepth=32
	prioclass=3
END
fio --minimal --output="$TEST_TMP/report" "$TEST_TMP/jobs" ||
	fail "fio: $(cat "$TEST_TMP/report")"
busybox losetup -d /dev/loop0 || fail "the loop device is in use"
expect "jobs that have verified what they wrote" 3 \
	"$(awk -F ';' '$6 >= 8192 { n++ } END { print n + 0 }' "$TEST_TMP/report")"
longest=$(awk -F ';' '$3 != "lower" && $80 > n { n = $80 } END { print int(n / 1000) }' \
	"$TEST_TMP/report")
echo "measured: longest write through the loop device $longest ms"
[ "$longest" -le $((LONGEST_MS * SLOW)) ] || fail "a write took $longest ms"
