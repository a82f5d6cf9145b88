#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: while a scheduler holds requests back, or keeps a disk idle for a process's next
#         request, the CPUs rest: no CPU polls whether requests may go.
# Needs: modeldisk, fio
# Machine: sim
. "${0%/*}/lib.sh"

MOST=50		# the most task switches for each request; 2 to 8 are usual

PROFILE=hdd use_modeldisk memory_backed=0 size=65536
cat > "$TEST_TMP/jobs" <<-END
	[global]
	filename=/dev/$DEV
	direct=1
	ioengine=libaio
	time_based
	runtime=$((4 * SLOW))
	[stream]
	rw=read
	bs=128k
	[writer]
	rw=write
	bs=128k
	iodepth=4
	offset=50%
	[who-waits]
	rw=randread
	bs=16k
	norandommap
END

switches() {
	awk '$1 == "ctxt" { print $2 }' /proc/stat
}

requests() {
	awk '{ print $1 + $5 }' /sys/block/$DEV/stat
}

had=$(requests)
before=$(switches)
fio --output="$TEST_TMP/report" "$TEST_TMP/jobs" || fail "fio: $(cat "$TEST_TMP/report")"
switches=$(($(switches) - before))
requests=$(($(requests) - had))
[ $requests -gt 100 ] || fail "$requests requests only"
echo "measured: $((switches / requests)) task switches for each of $requests requests"
[ $switches -le $((MOST * requests)) ] || fail "$switches task switches for $requests requests"
