#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: if an allocation fails while the tested scheduler is chosen, or another one in its
#         place, the choice fails cleanly. No request is lost and no data is wrong, under load.
# Needs: null_blk, fio; a kernel with fault injection (/proc/self/fail-nth)
# Machine: vm 4
. "${0%/*}/lib.sh"

[ "$SCHEDULER" != none ] || skip "without a scheduler there is nothing to choose"
[ -e /proc/self/fail-nth ] || skip "the kernel cannot make allocations fail"
echo N > /sys/kernel/debug/failslab/ignore-gfp-wait
echo 0 > /sys/kernel/debug/failslab/verbose
# Leave allocations of pages out of the count: their number varies, so the Nth allocation
# would be another one each time.
echo 10 > /sys/kernel/debug/fail_page_alloc/min-order
use_memory_disk
start_verified_load 2

# choose_failing N SCHEDULER: choose SCHEDULER in a task whose Nth allocation fails. If the kernel
# can do without that allocation, the choice still succeeds. Print 0 if the Nth allocation has
# failed, a number above 0 if the task made fewer than N.
choose_failing() {
	sh -c '
		exec 2> /dev/null 3> "$0" 4<> /proc/self/fail-nth
		echo $1 >&4
		echo "$2" >&3
		read left <&4
		echo 0 >&4
		echo $left
	' "/sys/block/$DEV/queue/scheduler" "$1" "$2"
}

n=0
refused=0
while
	choose_scheduler none
	n=$((n + 1))
	[ "$(choose_failing $n "$SCHEDULER")" = 0 ]
do
	[ $n -lt 1000 ] || fail "after $n allocations there are still more"
	case " $(cat /sys/block/$DEV/queue/scheduler) " in
	*" [$SCHEDULER] "*) ;;
	*) refused=$((refused + 1)) ;;
	esac
done
echo "$((n - 1)) allocations, $refused of which it cannot be chosen without"
[ $refused -ge 1 ] || fail "no allocation was missed"

# The scheduler that is chosen next, kyber, must not use data that the tested one has left behind.
choose_scheduler kyber
n=0
while
	choose_scheduler "$SCHEDULER"
	n=$((n + 1))
	[ "$(choose_failing $n kyber)" = 0 ]
do
	[ $n -lt 1000 ] || fail "after $n allocations there are still more"
done
[ $n -gt 1 ] || fail "no allocation of the next scheduler failed"
choose_scheduler "$SCHEDULER"
wait_verified_load
