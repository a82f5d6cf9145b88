#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: ext4 works on a memory-backed device. Files that were written, overwritten and
#         truncated keep their content after a new mount, and while other files are deleted.
# Machine: sim
# Machine: vm 4
. "${0%/*}/lib.sh"

# ext4 asks for its checksum's module by an alias that the guest's modprobe does not know. So load
# the module by its name.
modprobe -q crc32c_generic || :
modprobe -q ext4 || fail "the kernel has no ext4"
mkdir -p /tmp/fs
for profile in flash hdd; do
	device disk $profile size=64 memory_backed=1
	mke2fs /dev/disk > /dev/null || fail "$profile: no file system"
	mount -t ext4 -o discard /dev/disk /tmp/fs || fail "$profile: does not mount"
	fio --directory=/tmp/fs --minimal --output=/tmp/fio --verify=crc32c --verify_fatal=1 \
		--size=4m --name=many --nrfiles=16 --rw=randwrite --bsrange=512-32k \
		--ioengine=psync --fsync=16 --fallocate=none \
		--name=direct --direct=1 --rw=randwrite --bs=4k --ioengine=io_uring --iodepth=8 ||
		fail "$profile: data differs"
	for i in 1 2 3 4 5 6 7 8; do
		dd if=/dev/urandom of=/tmp/fs/$i bs=100000 count=$i 2> /dev/null
		truncate -s $((i * 70001)) /tmp/fs/$i
		dd if=/bin/busybox of=/tmp/fs/$i bs=4099 seek=$i count=3 conv=notrunc 2> /dev/null
	done
	rm /tmp/fs/3 /tmp/fs/6
	sums=$(cd /tmp/fs && sha256sum ./[0-9])
	umount /tmp/fs
	mount -t ext4 /dev/disk /tmp/fs || fail "$profile: does not mount again"
	expect "$profile: files after a mount" "$sums" "$(cd /tmp/fs && sha256sum ./[0-9])"
	umount /tmp/fs
	rmdir $CONFIG/disk
done
