#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: no memory is lost when the scheduler is chosen, used and replaced by none. The
#         numbers of slab objects of each kind, of pages and of vmalloc areas do not grow
#         with the number of repetitions.
# Needs: null_blk; /proc/slabinfo, /sys/kernel/slab
# Machine: sim
. "${0%/*}/lib.sh"

TIMES=20
OTHERS=5	# the kernel's own objects may change a count by this number, a quarter of $TIMES
use_memory_disk

# objects: print the number of objects in each slab cache, of pages of slabs and large
# kmalloc()s, and of areas of vmalloc().
objects() {
	# The kernel keeps memory freed by kfree_rcu() for up to 5 s. Opening a file of sysfs, as
	# choose_scheduler does, allocates such memory.
	sleep 6
	cat /proc/sys/vm/stat_refresh
	# Objects that a CPU keeps spare count as in use until their cache is shrunk. Shrink
	# kmalloc-96 last, because opening these files allocates from it. After that start no
	# program: it would allocate too.
	for cache in /sys/kernel/slab/*; do
		[ -L "$cache" ] || echo 1 > "$cache/shrink"
	done
	echo 1 > /sys/kernel/slab/kmalloc-96/shrink
	while read -r kind number _; do
		echo "$kind $number"
	done < /proc/slabinfo
	while read -r kind number; do
		[ "$kind" != nr_slab_unreclaimable ] || echo "pages $number"
	done < /proc/vmstat
	number=0
	while read -r _; do
		number=$((number + 1))
	done < /proc/vmallocinfo
	echo "areas $number"
}

# use COUNT: choose the scheduler, read from the disk, choose none; COUNT times.
use() {
	for _ in $(seq "$1"); do
		choose_scheduler "$SCHEDULER"
		dd if=/dev/$DEV of=/dev/null bs=4k count=8 iflag=direct 2> /dev/null
		choose_scheduler none
	done
}

[ -r /proc/slabinfo ] || skip "the kernel has no /proc/slabinfo"
[ -d /sys/kernel/slab ] || skip "the kernel has no /sys/kernel/slab"
[ $SLOW = 1 ] || ! grep -q kasan_quarantine /proc/kallsyms ||
	skip "KASAN keeps what was freed"
use $TIMES
objects > "$TEST_TMP/first"
use $TIMES
objects > "$TEST_TMP/second"
use $((3 * TIMES))
objects > "$TEST_TMP/third"
# The count of a leak grows by one or more with each use: by $TIMES or more during $TIMES uses, and
# by three times that during three times as many. No other count grows so both times. The kernel
# frees and allocates a few objects of its own meanwhile, so allow $OTHERS less.
awk -v times=$TIMES -v others=$OTHERS '
	FILENAME ~ /first$/ { first[$1] = $2 }
	FILENAME ~ /second$/ { second[$1] = $2 }
	FILENAME ~ /third$/ && ($2 != second[$1] || $2 != first[$1]) {
		print $1 ": " first[$1], second[$1], $2
	}
	FILENAME ~ /third$/ && second[$1] - first[$1] >= times - others &&
	$2 - second[$1] >= 3 * times - others {
		print "FAIL: " $1 ": " first[$1], second[$1], $2 " objects"
		lost = 1
	}
	END { exit lost }
' "$TEST_TMP/first" "$TEST_TMP/second" "$TEST_TMP/third" ||
	fail "objects that grow in number with every use of $SCHEDULER"
