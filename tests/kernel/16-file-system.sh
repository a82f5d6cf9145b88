#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: an ext4 file system keeps its files while the scheduler is exchanged, and after
#         a new mount. The files are written, overwritten, synced, truncated and deleted.
#         A journal's write that waits for a flush does not count as one that the device gave back.
# Needs: modeldisk, fio, ext4
# Machine: sim
# Machine: vm 4
. "${0%/*}/lib.sh"

# ext4 asks for its checksum's module by an alias that the guest's modprobe does not know. So load
# the module by its name.
modprobe -q crc32c_generic || :
modprobe -q ext4 || skip "the kernel has no ext4"
use_modeldisk
MOUNT=$TEST_TMP/fs
mkdir "$MOUNT"
LD_LIBRARY_PATH=$TEST_DIR/tools "$TEST_DIR/tools/mke2fs" -q -t ext4 /dev/$DEV ||
	fail "no file system can be made"
mount -t ext4 -o discard /dev/$DEV "$MOUNT" || fail "the file system does not mount"
cat > "$TEST_TMP/jobs" <<-END
	[global]
	directory=$MOUNT
	verify=crc32c
	verify_fatal=1
	size=2m
	[many]
	nrfiles=16
	rw=randwrite
	bsrange=512-32k
	ioengine=psync
	fsync=16
	[direct]
	direct=1
	rw=randwrite
	bs=4k
	ioengine=io_uring
	iodepth=8
	prioclass=3
END
echo running > "$TEST_TMP/state"
{
	fio --minimal --output="$TEST_TMP/report" "$TEST_TMP/jobs" > "$TEST_TMP/said" 2>&1 ||
		echo "fio: $(cat "$TEST_TMP/said" "$TEST_TMP/report")" > "$TEST_TMP/wrong"
	rm "$TEST_TMP/state"
} &
while [ -e "$TEST_TMP/state" ]; do
	choose_scheduler none
	choose_scheduler "$SCHEDULER"
	sleep 0.3
done
[ ! -e "$TEST_TMP/wrong" ] || fail "$(cat "$TEST_TMP/wrong")"

for i in 1 2 3 4 5 6; do
	dd if=/dev/urandom of="$MOUNT/$i" bs=100000 count=$i 2> /dev/null
	truncate -s $((i * 70001)) "$MOUNT/$i"
	dd if=/dev/urandom of="$MOUNT/$i" bs=4099 seek=$i count=3 conv=notrunc 2> /dev/null
done
rm "$MOUNT/3"
sync
# The device has given nothing back, and a request that waited for a flush must not count as
# returned.
reasons=/sys/kernel/debug/block/$DEV/sched/reasons
[ ! -e "$reasons" ] ||
	expect "requests counted as returned" 'returned 0 0 0' "$(grep '^returned' "$reasons")"
sums=$(cd "$MOUNT" && sha256sum ./[0-9])
umount "$MOUNT"
mount -t ext4 /dev/$DEV "$MOUNT" || fail "the file system does not mount again"
expect "files after a mount" "$sums" "$(cd "$MOUNT" && sha256sum ./[0-9])"
umount "$MOUNT"
