#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: a request on any of a device's hardware queues is served when the queues are
#         run. This holds even if the previous scheduler had a single queue for all of them.
# Needs: gatedisk; a CPU for each of several hardware queues
# Machine: vm 4
. "${0%/*}/lib.sh"

use_gatedisk depth=8 hw_queues="$(nproc)"
[ "$(ls -d /sys/block/$DEV/mq/[0-9]* | wc -l)" -gt 1 ] || skip "one hardware queue"
choose_scheduler mq-deadline
choose_scheduler "$SCHEDULER"
allow_backlog 256

# on CPU: move this process, and its later children, to CPU.
on() {
	taskset -p $((1 << $1)) $$ > /dev/null || fail "there is no CPU $1"
}

gate shut
for cpu in $(seq 0 $(($(nproc) - 1))); do
	on "$cpu"
	put_requests "cpu$cpu" <<-END
		read $((cpu * 1000)) 4096 be 4
	END
done
# Opening the gate makes the kernel run all queues, on one CPU.
on 0
gate open
wait_requests
