# SPDX-License-Identifier: GPL-2.0-only
#
# Functions for the in-guest tests. Each test sources this file first. The shell is busybox's sh.
# The environment variable SCHEDULER names the scheduler under test. See README.md.

set -eu

TEST_DIR=$(cd "${0%/*}" && pwd)
SUBMIT=$TEST_DIR/tools/submit
TEST_TMP=$(mktemp -d)
NULL_BLK=/sys/kernel/config/nullb/nullb0
MODELDISK=/sys/kernel/config/modeldisk/md0

# Loads and waits take this many times as long. On a debug kernel everything is slower.
SLOW=1
# use_flash() makes flash that is this many times as slow: the guest's CPU simulates the device, but
# the device must be the limit, not the CPU. A debug kernel executes 10 to 20 times as many
# instructions for each request.
FLASH_SLOWER=4
[ ! -e /proc/lockdep ] && [ ! -e /sys/kernel/debug/kcsan ] || {
	SLOW=3
	FLASH_SLOWER=16
}

# KCSAN delays a CPU at an access, and checks whether another CPU accesses the same memory
# meanwhile. On a busy computer few of the guest's CPUs run at the same time, so make the delays
# longer.
_kcsan=/sys/module/kcsan/parameters
[ ! -e $_kcsan ] || echo 500 > $_kcsan/udelay_task

# Messages that a healthy kernel never prints.
BAD_LOG='BUG|WARNING|Oops|Call Trace|general protection|[Kk]ernel panic'
BAD_LOG="$BAD_LOG|blocked for more than|lockup|detected stalls|KASAN|UBSAN"
BAD_LOG="$BAD_LOG|possible (recursive|circular|irq lock)|refcount_t"
BAD_LOG="$BAD_LOG|list_(add|del) corruption|ODEBUG|EXT4-fs error"
# Messages about failed requests. A test whose device fails requests on purpose empties this.
IO_ERRORS="I/O error|blk_update_request"

# -- How a test ends -----------------------------------------------------------

# skip WHY, fail WHY: end the check. The message goes to stderr, so it is seen in x=$(f) too.
skip() {
	echo "SKIP: $*" >&2
	exit 77
}

fail() {
	echo "FAIL: $*" >&2
	exit 1
}

# miss WHAT: fail because of a measured figure. On a debug kernel only print it: the drive is too
# slow there for such figures, but the check still shows that the kernel does not complain.
miss() {
	[ $SLOW != 1 ] || fail "$@"
	echo "not judged on a debug kernel: $*"
}

# expect WHAT WANTED FOUND: fail unless FOUND is WANTED.
expect() {
	[ "$2" = "$3" ] || fail "$1: wanted '$2', found '$3'"
}

# wait_until SECONDS WHAT COMMAND...: poll until COMMAND succeeds.
wait_until() {
	_tries=$(($1 * 20 * SLOW))
	_what=$2
	shift 2
	until "$@"; do
		_tries=$((_tries - 1))
		[ "$_tries" -gt 0 ] || fail "waited in vain until $_what"
		sleep 0.05
	done
}

# Every test ends here. A test that failed leaves everything as it is: if a request is lost, there
# may be no way to clean up. Any other test must be able to clean up. After every test the kernel
# log must be free of complaints.
_finish() {
	_status=$?
	trap - EXIT
	if [ $_status = 0 ] || [ $_status = 77 ]; then
		( _clean_up ) || _status=1
	fi
	if _kernel_log | _without_others_races | grep -m 20 -E "$BAD_LOG${IO_ERRORS:+|$IO_ERRORS}"; then
		echo "FAIL: the kernel complains, see above"
		_status=1
	fi
	if grep -q 'debug_locks: *0' /proc/lockdep_stats 2> /dev/null; then
		echo "FAIL: the kernel no longer looks at locks"
		_status=1
	fi
	rm -rf "$TEST_TMP"
	[ $_status != 0 ] || echo "PASS"
	exit $_status
}

_clean_up() {
	[ -z "${GATE:-}" ] || gate open
	wait_requests
	if [ -n "${DEV:-}" ]; then
		counts_balance
		choose_scheduler none
	fi
	for _folder in "$NULL_BLK" "$MODELDISK"; do
		[ ! -d "$_folder" ] || rmdir "$_folder" || fail "$DEV is in use"
	done
	for _module in gatedisk null_blk modeldisk $(scheduler_module) storm; do
		[ ! -e "/sys/module/$_module/refcnt" ] || rmmod "$_module" ||
			fail "$_module cannot be unloaded"
	done
}

# outstanding: print how many requests $DEV and its scheduler have: the number of tags in use.
outstanding() {
	cat /sys/kernel/debug/block/$DEV/hctx*/sched_tags \
		/sys/kernel/debug/block/$DEV/hctx*/tags 2> /dev/null |
		awk -F = '$1 == "busy" { n += $2 } END { print n + 0 }'
}

nothing_outstanding() {
	[ "$(outstanding)" = 0 ]
}

# audit: fail if the scheduler's lists disagree with its counts. A scheduler may compare them
# itself: then its file `audit` in debugfs says `ok` or the difference. The scheduler takes its
# locks for the comparison, so the file can be read at any time.
audit() {
	_audit=/sys/kernel/debug/block/${DEV:-}/sched/audit
	[ ! -e "$_audit" ] || expect "what $SCHEDULER finds in its lists" ok "$(cat "$_audit")"
}

# counts_balance: fail if requests stay in the device or queued. Call it when nothing submits.
counts_balance() {
	wait_until 10 "no request is outstanding" nothing_outstanding
	audit
	_queued=/sys/kernel/debug/block/$DEV/sched/queued
	[ ! -e "$_queued" ] ||
		expect "requests that $SCHEDULER counts as queued" '' "$(tr -d '0 \n' < "$_queued")"
}

# Print the kernel log since the test began; the whole log if newer messages have overwritten the
# line that marks the beginning.
_kernel_log() {
	dmesg > "$TEST_TMP/dmesg"
	awk -v mark="$_MARK" '
		index($0, mark) { begins = NR }
		{ line[NR] = $0 }
		END { for (i = begins + 1; i <= NR; i++) print line[i] }
	' "$TEST_TMP/dmesg"
}

# Copy the kernel log from stdin, without the titles and stack traces of KCSAN's reports of races in
# other code: there are hundreds, and a function's name in a trace may look like a complaint
# (is_softlockup). A report stays if its title names a function of the tested scheduler, gatedisk or
# modeldisk.
_without_others_races() {
	_ours=$(echo "$SCHEDULER" | tr - _)
	awk -v ours="[[]($_ours|${_ours}_iosched|gatedisk|modeldisk)[]]" '
		/BUG: KCSAN:/ { others = $0 !~ ours; if (others) next }
		/={60}|Reported by Kernel Concurrency Sanitizer/ { others = 0 }
		others && /\]  ?[[:alnum:]_.]+\+0x[0-9a-f]+\/0x/ { next }
		{ print }'
}

seconds_up() {
	cut -d . -f 1 /proc/uptime
}

# -- Devices -------------------------------------------------------------------

# choose_scheduler NAME: make $DEV use this scheduler.
choose_scheduler() {
	_file=/sys/block/$DEV/queue/scheduler
	echo "$1" > "$_file" || fail "$DEV cannot use the scheduler $1"
	case " $(cat "$_file") " in
	*" [$1] "*) ;;
	*) fail "$DEV has $(cat "$_file") instead of $1" ;;
	esac
}

# change_media: declare $DEV a rotating disk if it is flash, else flash. A scheduler may read this
# only when it is chosen.
change_media() {
	_file=/sys/block/$DEV/queue/rotational
	echo $((1 - $(cat "$_file"))) > "$_file" || fail "$DEV stays what it is"
}

# use_gatedisk PARAMETER...: load gatedisk, the device with a gate, choose the scheduler, and make
# room for a backlog of 256 requests. (Without a scheduler only `depth` requests fit.)
use_gatedisk() {
	modprobe gatedisk "$@" || fail "gatedisk cannot be loaded"
	DEV=gatedisk0
	GATE=/sys/kernel/debug/gatedisk
	wait_until 5 "/dev/$DEV exists" [ -b /dev/$DEV ]
	choose_scheduler "$SCHEDULER"
	allow_backlog 256
}

# allow_backlog REQUESTS: give the scheduler room for this many requests. Without a scheduler, do
# nothing: only the requests that fit into the device have tags.
allow_backlog() {
	[ "$SCHEDULER" != none ] || return 0
	# Write twice, because later releases of 6.12 tell the scheduler the number from before
	# the write. On gatedisk that number is small, and bfq would send one write at a time.
	echo $(($1 - 1)) > /sys/block/$DEV/queue/nr_requests
	echo "$1" > /sys/block/$DEV/queue/nr_requests
	expect "requests $SCHEDULER has room for" "$1" \
		"$(cat /sys/block/$DEV/queue/nr_requests)"
}

# use_memory_disk: make a null_blk device that stores written data, and choose the scheduler. Each
# CPU has a hardware queue of its own, with room for 8 requests. A request takes 4 ms. So requests
# queue up in the scheduler however slow the computer is, and the CPU of a guest on sim is mostly
# idle.
use_memory_disk() {
	modprobe null_blk nr_devices=0 || fail "null_blk cannot be loaded"
	[ -d /sys/kernel/config/nullb ] ||
		mount -t configfs none /sys/kernel/config ||
		fail "configfs cannot be mounted"
	DEV=nullb0
	mkdir $NULL_BLK || fail "null_blk makes no device"
	echo 64 > $NULL_BLK/size
	echo 1 > $NULL_BLK/memory_backed
	echo 2 > $NULL_BLK/irqmode
	echo 4000000 > $NULL_BLK/completion_nsec
	echo 8 > $NULL_BLK/hw_queue_depth
	nproc > $NULL_BLK/submit_queues
	echo 1 > $NULL_BLK/power || fail "null_blk does not start"
	wait_until 5 "/dev/$DEV exists" [ -b /dev/$DEV ]
	choose_scheduler "$SCHEDULER"
}

# use_modeldisk SETTING=VALUE...: make a modelled drive with a write cache, and choose the
# scheduler. PROFILE names one of modeldisk's profiles. SLOWER makes the drive this many times as
# slow. Unless a SETTING says otherwise, the drive stores written data. A test may set rates of
# faults later: echo N > $MODELDISK/error_ppm
use_modeldisk() {
	modprobe modeldisk || fail "modeldisk cannot be loaded"
	DEV=md0
	mkdir $MODELDISK || fail "modeldisk makes no device"
	for _pair in profile="${PROFILE:-flash}" size=64 memory_backed=1 hw_queues="$(nproc)" "$@"; do
		echo "${_pair#*=}" > "$MODELDISK/${_pair%%=*}" || fail "$_pair refused"
	done
	for _file in "$MODELDISK"/*_ns; do
		[ "${SLOWER:-1}" = 1 ] || _multiply "$_file" "$SLOWER" 1
	done
	for _file in "$MODELDISK"/*_mbps; do
		[ "${SLOWER:-1}" = 1 ] || _multiply "$_file" 1 "$SLOWER"
	done
	echo 1 > $MODELDISK/power || fail "modeldisk does not start"
	wait_until 5 "/dev/$DEV exists" [ -b /dev/$DEV ]
	choose_scheduler "$SCHEDULER"
}

# _multiply FILE BY DIVISOR: multiply a setting by BY / DIVISOR. A setting of 0 is off, and stays 0.
_multiply() {
	_value=$(cat "$1")
	[ "$_value" = 0 ] || echo $((_value * $2 / $3)) > "$1" || fail "$1 refuses $2 / $3"
}

# use_flash SETTING=VALUE...: make modelled flash that is FLASH_SLOWER times as slow. A check must
# scale its own times and rates of the device by FLASH_SLOWER too.
use_flash() {
	SLOWER=$FLASH_SLOWER use_modeldisk memory_backed=0 hw_queues=1 "$@"
}

# use_quick_flash SETTING=VALUE...: as use_flash, but with more dies than the profile has, and with
# long reads as quick as short ones. No real drive is like this. On the profile one large request
# keeps others waiting for long, and some checks could not tell that wait from a bug.
use_quick_flash() {
	use_flash read_full_ns=0 full_mbps=0 read_spread_pct=0 read_ns=52000 cmd_ns=4000 ctrl_ns=4000 \
		bus_mbps=1324 dies=16 slots=64 "$@"
}

# at_full_speed: make the flash of a later use_flash as fast as its profile. On a debug kernel it is
# slow in any case.
at_full_speed() {
	[ $SLOW != 1 ] || FLASH_SLOWER=1
}

# cost_of_read KIB: run a load from which the scheduler learns costs, and print the cost of a read,
# in ns. Before that, a scheduler has only a guess. The load takes two seconds: triage learns only
# from windows of 50 ms in which the device was always busy, and corrects a quarter of the error in
# each. fio does not keep the device busy in every window.
cost_of_read() {
	fio --minimal --output="$TEST_TMP/learnt" --filename=/dev/$DEV --direct=1 --rw=randread \
		--norandommap --time_based --runtime=2 --name=bulk --bs="$1k" --ioengine=io_uring \
		--iodepth=32 || fail "fio: $(cat "$TEST_TMP/learnt")"
	awk -v kib="$1" '$1 == "read" { print $2 + kib * $3 }' \
		/sys/kernel/debug/block/$DEV/sched/costs
}

# use_null_disk PARAMETER...: load null_blk with these module parameters, and choose the scheduler.
# The device is declared flash and keeps no data. Its numbers of queues and tags are free to choose.
use_null_disk() {
	modprobe null_blk nr_devices=1 "$@" || skip "the kernel has no such null_blk: $*"
	DEV=nullb0
	wait_until 5 "/dev/$DEV exists" [ -b /dev/$DEV ]
	echo 0 > /sys/block/$DEV/queue/rotational || fail "$DEV is no flash"
	choose_scheduler "$SCHEDULER"
}

# device_count NAME: print one of modeldisk's own counts.
device_count() {
	awk -v name="$1" '$1 == name { print $2 }' \
		/sys/kernel/debug/modeldisk/$DEV/stats
}

# gate open|hold|shut: let the device serve requests, take and hold up to `depth`, or take none.
gate() {
	echo "$1" > "$GATE/gate" || fail "the gate does not $1"
}

# put_requests [NAME] < SCRIPT: submit requests (tools/submit.c) and return once the scheduler has
# them all. Their results go to $TEST_TMP/NAME.done.
put_requests() {
	_name=$TEST_TMP/${1:-all}
	cat > "$_name.script"
	: > "$_name.done"	# grep may open the file before the background process runs
	{
		_status=0
		"$SUBMIT" "/dev/$DEV" < "$_name.script" || _status=$?
		echo "status $_status"
	} >> "$_name.done" 2>&1 &
	wait_until 10 "$SCHEDULER takes the requests" \
		grep -qE "^submitted|^status" "$_name.done"
	grep -q '^submitted' "$_name.done" ||
		fail "requests not submitted: $(cat "$_name.done")"
}

# wait_requests: wait until all requests are done, and fail if one of them failed, or if they take
# longer than $LONGEST_WAIT seconds (default 30).
wait_requests() {
	for _done in "$TEST_TMP"/*.done; do
		[ -e "$_done" ] || continue
		wait_until "${LONGEST_WAIT:-30}" "all requests are done" grep -q '^status' "$_done"
		grep -q '^status 0' "$_done" ||
			fail "a request failed: $(cat "$_done")"
	done
}

# start_verified_load SECONDS: start fio on $DEV in the background. Three jobs with
# different sizes, depths and priorities write data, read it back and check it.
start_verified_load() {
	cat > "$TEST_TMP/load.fio" <<-END
		[global]
		filename=/dev/$DEV
		direct=1
		verify=crc32c
		verify_backlog=32
		verify_fatal=1
		size=16m
		time_based
		runtime=$(($1 * SLOW))
		[small]
		rw=randwrite
		ioengine=libaio
		iodepth=8
		bs=4k
		prioclass=1
		[mixed]
		offset=16m
		rw=randwrite
		ioengine=io_uring
		iodepth=16
		bsrange=4k-64k
		prioclass=2
		prio=4
		[large]
		offset=32m
		rw=write
		ioengine=psync
		bs=128k
		prioclass=3
	END
	: > "$TEST_TMP/load.done"
	{
		_status=0
		fio --minimal --output="$TEST_TMP/load.report" \
			"$TEST_TMP/load.fio" || _status=$?
		echo "status $_status"
	} >> "$TEST_TMP/load.done" 2>&1 &
}

# load_runs: succeed if the load still runs. Fail the test if the scheduler's audit fails.
load_runs() {
	audit
	! grep -q "^status" "$TEST_TMP/load.done"
}

# wait_verified_load: wait for the load. Half of the data that all jobs together wrote must have
# been read back. A single job may have less: a scheduler may give a low class next to nothing.
wait_verified_load() {
	wait_requests
	awk -F ';' '
		NF > 46 { print $3 ": " $6 " of " $47 " KiB verified"; jobs++ }
		{ verified += $6; written += $47 }
		END { exit jobs != 3 || verified == 0 || verified < written / 2 }
	' "$TEST_TMP/load.report" || fail "fio has verified too little"
}

# -- What the scheduler promises ----------------------------------------------
# No function here decides by the scheduler's name: its tunables and files show what it promises.

# tunable NAME: print the path of the scheduler's tunable.
tunable() {
	echo "/sys/block/$DEV/queue/iosched/$1"
}

# aging_times: print the tunables that bound how long a lower class may wait, one a line.
aging_times() {
	for _name in aging_expire aging_expire_normal aging_expire_low \
			prio_aging_expire; do
		[ ! -e "$(tunable $_name)" ] || echo $_name
	done
}

# set_aging MS: set all tunables that aging_times prints.
set_aging() {
	for _name in $(aging_times); do
		echo "$1" > "$(tunable "$_name")" || fail "$_name cannot be $1 ms"
	done
}

# has_thresholds: succeed if the scheduler has the classes HIGH, NORMAL and LOW, and thresholds
# between them, as prio-basic has.
has_thresholds() {
	[ -e "$(tunable be_high_max)" ] && [ -e "$(tunable be_low_min)" ]
}

# has_ioprio_classes: succeed if the scheduler's classes are RT, BE and IDLE, as in mq-deadline.
has_ioprio_classes() {
	[ -e "$(tunable prio_aging_expire)" ]
}

needs_classes() {
	has_thresholds || has_ioprio_classes ||
		skip "$SCHEDULER has no strict classes by I/O priority"
}

needs_thresholds() {
	has_thresholds ||
		skip "$SCHEDULER has no thresholds be_high_max, be_low_min"
}

# joins_requests: succeed if the scheduler joins two queued requests when a bio closes the gap
# between them. Such a scheduler has the tunable front_merges (mq-deadline), or the file merged in
# debugfs (prio-adaptive).
joins_requests() {
	[ -e "$(tunable front_merges)" ] ||
		[ -e "/sys/kernel/debug/block/$DEV/sched/merged" ]
}

# needs_merging: skip unless the scheduler shows that it merges. A scheduler with the file
# bios_merged merges bios into queued requests, but may be unable to join two requests.
needs_merging() {
	joins_requests || [ -e "/sys/kernel/debug/block/$DEV/sched/bios_merged" ] ||
		skip "$SCHEDULER does not say that it merges"
}

# rank CLASS LEVEL: print the rank of the scheduler's class for a request of this priority. Rank 0
# is served first, then 1, then 2.
rank() {
	case $1 in
	rt) echo 0 ;;
	idle) echo 2 ;;
	none) echo 1 ;;
	be)	if ! has_thresholds; then
			echo 1
		elif [ "$2" -le "$(cat "$(tunable be_high_max)")" ]; then
			echo 0
		elif [ "$2" -ge "$(cat "$(tunable be_low_min)")" ]; then
			echo 2
		else
			echo 1
		fi ;;
	esac
}

# ranks: print the rank of each request in the device's log, in the log's order.
ranks() {
	while read -r _ _ _ _ _ _class _level _; do
		rank "$_class" "$_level"
	done < "$GATE/log"
}

# scheduler_module: print the name of the scheduler's module; nothing if no such module is loaded.
scheduler_module() {
	for _name in "$SCHEDULER-iosched" "$SCHEDULER"; do
		_name=$(echo "$_name" | tr - _)
		if [ -e "/sys/module/$_name/refcnt" ]; then
			echo "$_name"
			return
		fi
	done
}

_MARK="test ${0##*/} $$ begins"
echo "$_MARK" > /dev/kmsg
trap _finish EXIT
[ -n "${SCHEDULER:-}" ] || fail "the environment does not say which SCHEDULER"

# -- Cgroups with weights ------------------------------------------------------

CGROUPS=/sys/fs/cgroup

# use_cgroups: mount cgroup v2 if need be, and turn on its io controller; skip if there is no v2.
use_cgroups() {
	[ -e "$CGROUPS/cgroup.procs" ] || mount -t cgroup2 cgroup2 "$CGROUPS" || skip "no cgroup v2"
	echo +io > "$CGROUPS/cgroup.subtree_control" || fail "no io controller"
}

# weigh PATH WEIGHT: make a cgroup below $CGROUPS, and give it a weight.
weigh() {
	[ "${1%/*}" = "$1" ] || echo +io > "$CGROUPS/${1%/*}/cgroup.subtree_control" ||
		fail "no io controller below ${1%/*}"
	mkdir -p "$CGROUPS/$1"
	[ -e "$CGROUPS/$1/io.triage.weight" ] || skip "$SCHEDULER has no io.triage.weight"
	echo "$2" > "$CGROUPS/$1/io.triage.weight" || fail "$1 does not take weight $2"
}

STARTING=1	# seconds before the readers' figures count

# read_in PATH OPTION...: read $DEV in a cgroup for $SECONDS_EACH seconds, in the background. fio
# writes its report to $TEST_TMP/PATH, with "-" for "/".
read_in() {
	place=$1
	shift
	sh -c 'echo $$ > "$1/cgroup.procs" && shift && exec fio "$@"' sh "$CGROUPS/$place" \
		--minimal --output="$TEST_TMP/$(echo "$place" | tr / -)" \
		--filename=/dev/$DEV --direct=1 --ioengine=io_uring --norandommap \
		--group_reporting --time_based --ramp_time="$STARTING" --runtime="$SECONDS_EACH" \
		--name=reader "$@" &
}

# watch PATH...: note the bytes that each cgroup reads during $SECONDS_EACH seconds, after its
# readers have had $STARTING seconds to begin. Then wait for the readers. Take the kernel's counts
# of bytes: fio measures its jobs at slightly different times if they wait for tags.
watch() {
	_note begun "$@"
	sleep $STARTING
	_note before "$@"
	# fio starts its jobs together, so one read in a cgroup shows that all its jobs have begun.
	_reading=$(awk 'FILENAME ~ /begun$/ { had[$1] = $2; next }
		$2 > had[$1] + 0 { n++ } END { print n + 0 }' "$TEST_TMP/begun" "$TEST_TMP/before")
	[ "$_reading" -eq $# ] || fail "only $_reading of $# cgroups read after $STARTING s"
	sleep $SECONDS_EACH
	_note after "$@"
	wait
}

# _note NAME PATH...: write the bytes that each cgroup has read of $DEV so far to $TEST_TMP/NAME.
# One program reads all counts, so that hardly any time passes between the first and the last.
_note() {
	_into=$TEST_TMP/$1
	shift
	(
		cd $CGROUPS
		for _path in "$@"; do
			set -- "$@" "$_path/io.stat"
			shift
		done
		awk -v dev="$(cat /sys/block/$DEV/dev)" '
			{
				here = 0
				for (i = 1; i <= NF; i++) {
					if ($i ~ /:/)
						here = $i == dev
					if (here && sub(/^rbytes=/, "", $i))
						print FILENAME, $i
				}
			}' "$@"
	) > "$_into"
}

LOG_MS=80	# the time between two lines of fio's log

# watch_logs PATH...: as watch(), but for readers that use io_uring. If io_uring tries to get a tag
# without a wait, io.stat counts a read, even if there is no tag. So count the bytes that fio's logs
# report for the middle half of the time. The readers must begin together, and run with
# --log_avg_msec=$LOG_MS and --write_bw_log="$(log_of PATH)".
#
# A line of a log has the rate since the line before. fio writes no line while nothing comes back.
# So the rate of the first line after such a gap counts for $LOG_MS only, and in the rest of the gap
# nothing was read.
watch_logs() {
	wait
	: > "$TEST_TMP/before"
	for _path in "$@"; do
		cat "$(log_of "$_path")"_bw.*log | awk -F '[, ]+' -v path="$_path/io.stat" \
			-v all=$((SECONDS_EACH * 1000)) -v period="$LOG_MS" '
			!prev { prev = $1; low = prev + all / 4; high = prev + all * 3 / 4; next }
			$1 > low && $1 <= high {
				spent = $1 - prev
				time += spent
				sum += $2 * (spent > 1.5 * period ? period : spent)
				last = $1
			}
			{ prev = $1 }
			END {
				time += high - (last ? last : low)
				printf "%s %.0f\n", path, time ? sum / time * 1024 : 0
			}'
	done > "$TEST_TMP/after"
}

# log_of PATH: print the beginning of the names of a cgroup's logs.
log_of() {
	echo "$TEST_TMP/log-$(echo "$1" | tr / -)"
}

# has PATH: print the KiB that a cgroup has read while it was watched.
has() {
	awk -v path="$1/io.stat" '$1 == path { n = $2 - n } END { print int(n / 1024) }' \
		"$TEST_TMP/before" "$TEST_TMP/after"
}

WATCH=watch	# the function with which compare_shares() measures: watch or watch_logs

# compare_shares WHERE: measure the readers in the cgroups of weigh_tree(). Fail if the part of a
# cgroup is more than $OFF per cent off its due part.
compare_shares() {
	off=
	$WATCH light middle heavy/less heavy/more
	sum=$(($(has light) + $(has middle) + $(has heavy/less) + $(has heavy/more)))
	for pair in light:1000 middle:3000 heavy/less:2000 heavy/more:4000; do
		path=${pair%:*} due=${pair#*:}
		part=$(($(has "$path") * 10000 / sum))
		echo "measured: on $1 of 10000 parts $path has $part, $due are due"
		[ $((part * 100)) -ge $((due * (100 - OFF))) ] &&
			[ $((part * 100)) -le $((due * (100 + OFF))) ] ||
			off="$off $path on $1 has $part of 10000, $due are due;"
	done
	[ -z "$off" ] || fail "$off"
}

# weigh_tree: make cgroups of weights 100, 300 and 600, and below the last one two of weights 100
# and 200.
weigh_tree() {
	weigh light 100
	weigh middle 300
	weigh heavy 600
	weigh heavy/less 100
	weigh heavy/more 200
}
