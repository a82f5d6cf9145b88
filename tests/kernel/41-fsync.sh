#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: on ext4, an fsync by a process of the highest class waits for little more than the
#         requests that are already in the device. A reader of the highest class and a bulk
#         writer without a priority keep the device busy. The fsync includes writes of the
#         journal's thread, which has no priority either.
# Needs: modeldisk, fio, ext4; a scheduler with classes
# Machine: sim
. "${0%/*}/lib.sh"

DEPTH=8		# requests that fit into the device
WRITES=3	# of an fsync, one after another: data, the journal's blocks, its commit record

modprobe -q crc32c_generic || :
modprobe -q ext4 || skip "the kernel has no ext4"
# The device serves one request at a time and has room for few, so some of the reader's requests
# always wait in the scheduler.
use_modeldisk size=192 depth=$DEPTH slots=1 read_ns=200000
# Avoid flushes: a flush takes as long as the device is busy, and would hide the other waits.
echo "write through" > /sys/block/$DEV/queue/write_cache ||
	fail "the device's write cache cannot be hidden"
needs_classes
! has_thresholds || [ -e "$(tunable share_normal)" ] ||
	skip "$SCHEDULER strictly puts requests without priority behind the highest class"
MOUNT=$TEST_TMP/fs
mkdir "$MOUNT"
LD_LIBRARY_PATH=$TEST_DIR/tools "$TEST_DIR/tools/mke2fs" -q -t ext4 /dev/$DEV ||
	fail "no file system can be made"
mount -t ext4 /dev/$DEV "$MOUNT" || fail "the file system does not mount"
cat > "$TEST_TMP/jobs" <<-END
	[global]
	directory=$MOUNT
	time_based
	runtime=$((2 * SLOW))
	[reader]
	direct=1
	rw=randread
	bs=4k
	size=16m
	ioengine=io_uring
	iodepth=32
	prioclass=2
	prio=0
	[committer]
	rw=write
	bs=4k
	size=64m
	fallocate=none
	ioengine=psync
	fsync=1
	prioclass=2
	prio=0
	[bulk]
	direct=1
	rw=randwrite
	bs=64k
	size=32m
	iodepth=32
	ioengine=io_uring
END
# The committer's file does not exist yet: it must grow, so that each fsync commits the journal.
for file in reader.0.0:16 bulk.0.0:32; do
	dd if=/dev/zero of="$MOUNT/${file%:*}" bs=1M count=${file#*:} 2> /dev/null
done
sync

# run [--section=JOB]: run all of fio's jobs, or one.
run() {
	rm -f "$MOUNT/committer.0.0"
	fio --output-format=json --output="$TEST_TMP/report" "$@" "$TEST_TMP/jobs" ||
		fail "fio: $(cat "$TEST_TMP/report")"
}

# Set $read to the device's time for a read, in us. The device is always busy and serves one read at
# a time, so this time is the inverse of the rate.
choose_scheduler none
run --section=reader
read=$(awk '/"iops" :/ { print int(1000000 / $3); exit }' "$TEST_TMP/report")
choose_scheduler "$SCHEDULER"
allow_backlog 256
run
fsync=$(awk '
	/"jobname"/ { job = $3 }
	/"sync" :/ { sync = 1 }
	sync && /"mean"/ && job ~ /committer/ { print int($3 / 1000); exit }
	/"mean"/ { sync = 0 }
' "$TEST_TMP/report")
umount "$MOUNT"
# The scheduler cannot call back a request that it has let go. When a write comes, DEPTH such
# requests are in the device and one is in the kernel, where it waits for a tag. Nearly all are
# reads, because HIGH goes before bulk. The scheduler may let one more request go before each write.
# Do not compare with an fsync without a scheduler, which can take less time: then bulk has a part
# of the device, and its writes take less time than reads. Also, kernels differ in which process
# gets a free tag.
most=$((WRITES * (DEPTH + 2) * read))
echo "measured: an fsync takes $fsync us, of $most us that it may take; a read takes $read us"
[ "$fsync" -gt 0 ] && [ "$fsync" -le $most ] ||
	fail "an fsync takes as long as $((fsync / read)) reads"
