#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: streams and other readers of a disk take turns. A process that waits for each
#         answer is not delayed for long, and the streams read on meanwhile. A stream of
#         HIGH keeps half of the disk's rate. At least half of a video's frames go to the
#         disk ahead of the streams' reads.
# Needs: modeldisk, fio; a scheduler that anticipates (anticipation)
# Machine: sim
. "${0%/*}/lib.sh"

LONGEST_MS=400		# the longest read; 233 is usual: a turn of the streams, and the read itself
LEAST=25		# MB/s that both streams have together, at least; the disk has 110
PROTECTED=55		# MB/s that a stream of HIGH has, at least: half of the disk's
FIRST=50		# % of a video's frames that go ahead of the streams' reads

PROFILE=hdd use_modeldisk memory_backed=0 size=65536
[ -e "$(tunable anticipation)" ] || skip "$SCHEDULER does not anticipate"

# load SECONDS: run two streams, and the jobs that stdin adds.
load() {
	{
		printf '%s\n' '[global]' filename=/dev/$DEV direct=1 ioengine=libaio time_based \
			runtime=$(($1 * SLOW)) rw=read bs=128k '[stream]' '[other]' offset=80%
		cat
	} > "$TEST_TMP/jobs"
	fio --minimal --output="$TEST_TMP/report" "$TEST_TMP/jobs" > /dev/null 2>&1 ||
		fail "fio: $(cat "$TEST_TMP/report")"
}

# of JOB FIELD: print a field of the job's line in fio's report.
of() {
	awk -F ';' -v job="$1" -v field="$2" '$3 == job { print int($field) }' "$TEST_TMP/report"
}

load 4 <<-END
	[who-waits]
	rw=randread
	bs=16k
	norandommap
END
longest=$(($(of who-waits 39) / 1000))
streams=$((($(of stream 7) + $(of other 7)) / 1000))
echo "measured: longest wait $longest ms, streams $streams MB/s"
[ $longest -le $LONGEST_MS ] || fail "who waits for each answer waited for $longest ms"
[ $streams -ge $LEAST ] || fail "streams had $streams MB/s"

load 4 <<-END
	[protected]
	offset=40%
	prioclass=2
	prio=1
END
protected=$(($(of protected 7) / 1000))
echo "measured: a stream of HIGH $protected MB/s"
[ $protected -ge $PROTECTED ] || fail "a stream of HIGH had $protected MB/s"

# sparse: print how many NORMAL requests went ahead because their process asks for little.
sparse() {
	awk '$1 == "sparse" { print $3 }' \
		/sys/kernel/debug/block/$DEV/sched/reasons
}

had=$(sparse)
load 3 <<-END
	[video]
	bs=240k	# 25 of these a second are 5.6 % of the disk's rate
	offset=40%
	rate_iops=25
END
first=$((100 * ($(sparse) - had) / (75 * SLOW)))
echo "measured: $first % of the frames went first, on average in $(($(of video 40) / 1000)) ms"
[ $first -ge $FIRST ] || fail "only $first % of the frames went first"
