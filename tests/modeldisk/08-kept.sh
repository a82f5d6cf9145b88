#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: with kept_mib=N a device keeps all data of requests that begin in its first N MiB. It
#         serves other requests too, but keeps none of their data.
# Machine: sim
. "${0%/*}/lib.sh"

# Blocks of the disk: a length in bytes, and an offset in units of this length, as in dd. The 8 MiB
# whose data is kept end 8 KiB after the start of ACROSS. BEHIND begins where they end.
ACROSS="24576 341"
BEHIND="8192 1024"

# A byte that a buffer contains only if a read has put it there.
MARK='\252'

# put BYTES NUMBER: fill a block of disk with marks, in one request.
put() {
	_before=$(stat disk writes)
	tr '\0' $MARK < /dev/zero |
		dd of=/dev/disk bs="$1" count=1 seek="$2" iflag=fullblock oflag=direct 2> /dev/null
	expect "requests that write $1 bytes" 1 $(($(stat disk writes) - _before))
}

# found BYTES NUMBER: read a block of disk in one request, and print how many marks it has.
found() {
	dd if=/dev/disk bs="$1" count=1 skip="$2" iflag=direct of=/tmp/found 2> /dev/null
	expect "bytes read" "$1" "$(wc -c < /tmp/found)"
	tr -cd $MARK < /tmp/found | wc -c
}

device disk flash size=64 memory_backed=1 kept_mib=8
put $BEHIND
# This read begins before the end of the 8 MiB, so the device returns kept data, and zeros where
# none is kept.
expect "kept of what was written behind the end" 0 "$(found $ACROSS)"
put 8192 0
expect "kept at the start" 8192 "$(found 8192 0)"
put 8192 1023
expect "kept at the end" 8192 "$(found 8192 1023)"
put $ACROSS
expect "kept of what goes beyond the end" 24576 "$(found $ACROSS)"
expect "given to a read from behind the end" 0 "$(found $BEHIND)"

blkdiscard -o $((8 << 20)) -l 8192 /dev/disk
expect "kept after a discard behind the end" 24576 "$(found $ACROSS)"
blkdiscard -o $((341 * 24576)) -l 24576 /dev/disk
expect "kept after a discard that goes beyond the end" 0 "$(found $ACROSS)"
expect "discards" 2 "$(stat disk discards)"
rmdir $CONFIG/disk

device disk flash size=64 memory_backed=1
expect "the end, if none is said" 0 "$(cat $CONFIG/disk/kept_mib)"
put $BEHIND
expect "kept where all is" 8192 "$(found $BEHIND)"
rmdir $CONFIG/disk

device disk flash size=64 kept_mib=8
put 8192 0
expect "kept without memory_backed" 0 "$(found 8192 0)"
