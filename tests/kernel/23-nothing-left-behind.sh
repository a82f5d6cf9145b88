#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: no memory is left behind by choosing the scheduler, using it, leaving it: no
#         kind of object grows in number with the times that was done.
# Needs: null_blk; /proc/slabinfo
# Machine: sim
. "${0%/*}/lib.sh"

ROUND=40
use_memory_disk

# objects: of each kind of kernel memory that ever is allocated in one piece.
objects() {
	sleep 1		# what RCU frees, it frees later
	awk 'NR > 2 { print $1, $2 }' /proc/slabinfo
}

round() {
	for _ in $(seq $ROUND); do
		choose_scheduler "$SCHEDULER"
		dd if=/dev/$DEV of=/dev/null bs=4k count=8 iflag=direct 2> /dev/null
		choose_scheduler none
	done
}

[ -r /proc/slabinfo ] || skip "the kernel has no /proc/slabinfo"
[ $SLOW = 1 ] || ! grep -q kasan_quarantine /proc/kallsyms ||
	skip "KASAN keeps what was freed"
round
objects > "$TEST_TMP/first"
round
objects > "$TEST_TMP/second"
round
objects > "$TEST_TMP/third"
# What grows by one or more each time is lost; twice, so that no other thing looks like it.
awk -v round=$ROUND '
	FILENAME ~ /first$/ { first[$1] = $2 }
	FILENAME ~ /second$/ { second[$1] = $2 }
	FILENAME ~ /third$/ && second[$1] - first[$1] >= round && $2 - second[$1] >= round {
		print "FAIL: " $1 ": " first[$1], second[$1], $2 " objects"
		lost = 1
	}
	END { exit lost }
' "$TEST_TMP/first" "$TEST_TMP/second" "$TEST_TMP/third" ||
	fail "objects that grow in number with every use of $SCHEDULER"
