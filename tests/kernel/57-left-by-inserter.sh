#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: another scheduler can be chosen and the module unloaded while a task still runs the
#         module's insert function. The task inserts a request that the device has given back.
#         The device may get and complete the request before the task returns. Then no request
#         keeps the scheduler in use.
# Needs: gatedisk; a scheduler that is a module
# Machine: sim 4, since 6.12
# Machine: vm 4
. "${0%/*}/lib.sh"

use_gatedisk depth=1
module=$(scheduler_module)
[ "$module" ] || skip "$SCHEDULER is not a module"
for n in $(seq 10); do
	gate hold
	put_requests <<-END
		read $((n * 1000)) 4096 be 4
	END
	wait_until 5 "the device has the request" grep -qx 1 "$GATE/held"
	echo 1 > "$GATE/requeue" &
	inserter=$!
	sleep 0.01
	gate open
	choose_scheduler none
	rmmod "$module" || fail "cannot be unloaded, though no device uses it"
	wait $inserter || fail "the device cannot give the request back"
	wait_requests
	modprobe "$module"
	choose_scheduler "$SCHEDULER"
done
