#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: errors, stalls and refusals come at the rates that were set; a stalled request
#         ends by timeout; a refused request is served later.
# Machine: sim
. "${0%/*}/lib.sh"

# load REQUESTS: make this many random reads, and go on after errors. fio's result is in /tmp/fio.
load() {
	fio --filename=/dev/disk --direct=1 --minimal --output=/tmp/fio --name=load \
		--rw=randread --bs=4k --ioengine=io_uring --iodepth=16 --number_ios="$1" \
		--continue_on_error=all > /tmp/errors 2>&1 || :
}

# settled: check that neither modeldisk nor the block layer counts a request in flight.
settled() {
	expect "requests in the device" 0 "$(stat disk in_device)"
	expect "requests in flight" "0 0" "$(xargs < /sys/block/disk/inflight)"
}

device disk flash timeout_ms=1000 error_ppm=50000
echo none > /sys/block/disk/queue/scheduler
load 4000
settled
errors=$(stat disk errors)
[ "$errors" -ge 150 ] && [ "$errors" -le 250 ] || fail "$errors errors in 4000 instead of 200"
expect "fio's first error" 5 "$(cut -d ';' -f 5 /tmp/fio)"
rmdir $CONFIG/disk

device disk flash timeout_ms=1000
echo 50000 > $CONFIG/disk/error_ppm
load 4000
# The number of errors may differ from the first device's, although the seed is the same: on the
# first device the reads of the partition table took random numbers too.
[ "$(stat disk errors)" -gt 0 ] || fail "no errors once they are switched on"
echo 0 > $CONFIG/disk/error_ppm

echo 300000 > $CONFIG/disk/resource_ppm
load 2000
settled
expect "fio's error" 0 "$(cut -d ';' -f 5 /tmp/fio)"
refusals=$(stat disk refusals)
# Each of 2000 requests is refused 3 / 7 times on average.
[ "$refusals" -ge 700 ] && [ "$refusals" -le 1050 ] || fail "$refusals refusals instead of 857"
echo 0 > $CONFIG/disk/resource_ppm

echo 1000 > $CONFIG/disk/stall_ppm
begun=$(cut -d . -f 1 /proc/uptime)
load 4000
settled
took=$(($(cut -d . -f 1 /proc/uptime) - begun))
stalls=$(stat disk stalls)
[ "$stalls" -ge 1 ] || fail "no stalls"
[ $took -ge 1 ] && [ $took -le 60 ] || fail "$stalls stalls of 1 s took $took s"
expect "fio's first error" 110 "$(cut -d ';' -f 5 /tmp/fio)"
dmesg | grep -q 'disk: a stalled request timed out' || fail "the log does not say it"
