#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Carry out a plan of `./triage storm` (docs/storm.md). The plan is in the file plan beside this
# script. Its line `storm …` has the parameters of the module in kernel/storm.
. "${0%/*}/lib.sh"

STORM=/sys/kernel/debug/storm
PLAN=$TEST_DIR/plan
# Functions of the block layer in which CPUs may meet. A kernel may lack some of them.
BLOCK_LAYER="blk_mq_submit_bio blk_mq_run_hw_queue __blk_mq_sched_dispatch_requests
	blk_mq_sched_bio_merge blk_mq_dispatch_rq_list blk_mq_complete_request
	blk_mq_free_request blk_mq_put_tag blk_mq_requeue_request __blk_mq_get_tag
	sbitmap_queue_clear elevator_switch blk_mq_delay_run_hw_queue"

# functions NAME: print the functions of a module that may be probed. Before the kernel probes a
# function, it decodes the function's instructions. If this is a module's exit function, the kernel
# may read beyond the end of the module's memory, and panic. So leave out names that end in _exit,
# and init functions too.
functions() {
	awk -v module="[$(echo "$1" | tr - _)]" '
		tolower($2) == "t" && $4 == module && $3 !~ /[.]|^(__pfx|init_module|cleanup_module)|_exit$/ {
			print $3
		}
	' /proc/kallsyms
}

# set_probes: if the scheduler has no yield points, put one at the beginning of each of its
# functions and of those in BLOCK_LAYER.
set_probes() {
	_module=$(scheduler_module)
	[ -z "$_module" ] || [ ! -e "/sys/module/storm/holders/$_module" ] || return 0
	for _symbol in $BLOCK_LAYER $([ -z "$_module" ] || functions "$_module"); do
		echo "$_symbol" 2> /dev/null > $STORM/probe || continue
		_probes=$((${_probes:-0} + 1))
	done
	echo "probes: ${_probes:-0}"
}

# tell_all: write the state of the scheduler and the device to out/state, after a failure.
tell_all() {
	for _file in "/sys/kernel/debug/block/$DEV"/sched/* "/sys/kernel/debug/block/$DEV"/hctx*/* \
			$STORM/disk; do
		[ -f "$_file" ] || continue
		echo "$_file: $(timeout -s KILL 1 head -c 400 "$_file" 2> /dev/null | tr '\n' ';')"
	done > out/state
}

! grep -q "kind=errors" "$PLAN" || IO_ERRORS=
# shellcheck disable=SC2046 # one word a parameter
modprobe storm $(sed -n 's/^storm //p' "$PLAN") || fail "storm cannot be loaded"
DEV=storm0
wait_until 5 "/dev/$DEV exists" [ -b /dev/$DEV ]
choose_scheduler "$SCHEDULER"
set_probes
status=0
grep -v "^storm " "$PLAN" | "$TEST_DIR/tools/storm" /dev/$DEV "$SCHEDULER" || status=$?
cat $STORM/fingerprint > out/fingerprint
[ $status = 0 ] || { tell_all; fail "the storm ended with $status"; }
