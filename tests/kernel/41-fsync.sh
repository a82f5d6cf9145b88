#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: on ext4 an fsync by a process of the highest class takes little longer than
#         without a scheduler, beside a bulk writer, and beside readers of the same class
#         that keep the device busy: the process waits for writes of the journal's thread,
#         which has no priority.
# Needs: modeldisk, fio, ext4; a scheduler with classes
# Machine: sim
. "${0%/*}/lib.sh"

MOST=150	# per cent of the time that it takes without a scheduler

modprobe -q crc32c_generic || :
modprobe -q ext4 || skip "the kernel has no ext4"
# One request at a time, and few fit in: the reader always has requests that wait.
use_modeldisk size=192 depth=8 slots=1 read_ns=200000
# A flush takes as long as the device is busy: it would hide what an fsync waits for otherwise.
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
# The committer's file grows: then each fsync commits the journal.
for file in reader.0.0:16 bulk.0.0:32; do
	dd if=/dev/zero of="$MOUNT/${file%:*}" bs=1M count=${file#*:} 2> /dev/null
done
sync

# commit SCHEDULER: the mean time of an fsync, in us.
commit() {
	choose_scheduler "$1"
	[ "$1" = none ] || allow_backlog 256
	rm -f "$MOUNT/committer.0.0"
	fio --output-format=json --output="$TEST_TMP/report" "$TEST_TMP/jobs" ||
		fail "fio: $(cat "$TEST_TMP/report")"
	awk '
		/"jobname"/ { job = $3 }
		/"sync" :/ { sync = 1 }
		sync && /"mean"/ && job ~ /committer/ { print int($3 / 1000); exit }
		/"mean"/ { sync = 0 }
	' "$TEST_TMP/report"
}

without=$(commit none)
with=$(commit "$SCHEDULER")
umount "$MOUNT"
echo "measured: an fsync takes $with us, $without without a scheduler"
[ "$with" -gt 0 ] && [ $((with * 100)) -le $((without * MOST)) ] ||
	fail "an fsync takes $with us, $without without a scheduler"
