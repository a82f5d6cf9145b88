#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: reads from a memory-backed device return the data written last, and zeros
#         where nothing was written or the data was discarded.
# Machine: sim
# Machine: vm 4
. "${0%/*}/lib.sh"

# nonzero DEVICE FIRST COUNT: print the number of bytes in COUNT sectors from FIRST that are not 0.
nonzero() {
	dd if="/dev/$1" bs=512 skip="$2" count="$3" iflag=direct 2> /dev/null |
		tr -d '\0' | wc -c
}

for profile in flash fast-flash hdd; do
	device disk $profile size=64 memory_backed=1
	expect "$profile: what was never written" 0 "$(nonzero disk 0 2048)"
	fio --filename=/dev/disk --direct=1 --minimal --output=/tmp/fio \
		--verify=crc32c --verify_fatal=1 --verify_backlog=32 \
		--size=8m --group_reporting=0 \
		--name=sizes --rw=randwrite --bsrange=4k-64k --ioengine=io_uring --iodepth=16 \
		--name=sectors --offset=8m --io_size=1m --rw=randwrite --bs=512 \
			--ioengine=libaio --iodepth=8 \
		--name=flushed --offset=16m --rw=write --bs=1m --ioengine=psync --fsync=2 \
		|| fail "$profile: data differs"
	awk -F ';' '$6 > 0 && $6 >= $47 { verified++ } END { exit verified != 3 }' /tmp/fio ||
		fail "$profile: fio has verified too little"
	[ "$(stat disk writes)" -gt 0 ] || fail "$profile counts no writes"
	if [ "$(limit disk write_cache)" = "write back" ]; then
		[ "$(stat disk flushes)" -gt 0 ] || fail "$profile counts no flushes"
	else
		expect "$profile: flushes of what is safe" 0 "$(stat disk flushes)"
	fi
	rmdir $CONFIG/disk
done

device disk flash size=64 memory_backed=1
tr '\0' x < /dev/zero | dd of=/dev/disk bs=1M count=8 iflag=fullblock oflag=direct 2> /dev/null
# Discard sectors 3 to 2050: both ends are in the middle of a page of memory.
blkdiscard -o $((3 * 512)) -l $((2048 * 512)) /dev/disk
expect "before what was discarded" $((3 * 512)) "$(nonzero disk 0 3)"
expect "what was discarded" 0 "$(nonzero disk 3 2048)"
expect "after what was discarded" $((1000 * 512)) "$(nonzero disk 2051 1000)"
expect "discards" 1 "$(stat disk discards)"
