#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: no memory is left behind by choosing the scheduler, using it, leaving it: no
#         kind of object, nor what is too large for one, grows in number with the times
#         that was done.
# Needs: null_blk; /proc/slabinfo, /sys/kernel/slab
# Machine: sim
. "${0%/*}/lib.sh"

TIMES=20
use_memory_disk

# objects: of each kind of kernel memory that ever is allocated in one piece; pages of
# those and of what is larger; areas of what is in several.
objects() {
	# What is freed by kfree_rcu() the kernel keeps for up to 5 s, such as what it
	# allocates for each file of sysfs that is opened, here to choose a scheduler.
	sleep 6
	cat /proc/sys/vm/stat_refresh
	# What a CPU keeps at hand counts as in use until it is taken from it: last of
	# the kind that opening these files takes. After that no program is started.
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

# use TIMES
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
# What grows by one or more each time is lost. Thrice the times, thrice as much, so that
# nothing else looks like it.
awk -v times=$TIMES '
	FILENAME ~ /first$/ { first[$1] = $2 }
	FILENAME ~ /second$/ { second[$1] = $2 }
	FILENAME ~ /third$/ && ($2 != second[$1] || $2 != first[$1]) {
		print $1 ": " first[$1], second[$1], $2
	}
	FILENAME ~ /third$/ && second[$1] - first[$1] >= times && $2 - second[$1] >= 3 * times {
		print "FAIL: " $1 ": " first[$1], second[$1], $2 " objects"
		lost = 1
	}
	END { exit lost }
' "$TEST_TMP/first" "$TEST_TMP/second" "$TEST_TMP/third" ||
	fail "objects that grow in number with every use of $SCHEDULER"
