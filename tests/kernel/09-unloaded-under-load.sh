#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: the scheduler's module cannot be unloaded while a device uses it, and
#         can be unloaded as soon as no device does. No request is lost and no data
#         is wrong if this happens under load.
# Needs: null_blk, fio; a scheduler that is a module
# Machine: sim
# Machine: vm 4
. "${0%/*}/lib.sh"

use_memory_disk
module=$(scheduler_module)
[ "$module" ] || skip "$SCHEDULER is not a module"

start_verified_load 3
unloaded=0
while load_runs; do
	change_media
	choose_scheduler "$SCHEDULER"
	sleep 0.1
	! rmmod "$module" 2> /dev/null || fail "unloaded while $DEV uses it"
	choose_scheduler none
	rmmod "$module" || fail "cannot be unloaded, though no device uses it"
	[ ! -e "/sys/module/$module" ] || fail "unloaded, and still there"
	unloaded=$((unloaded + 1))
	sleep 0.02
done
wait_verified_load
echo "unloaded $unloaded times"
[ $unloaded -ge 3 ] || fail "unloaded under load only $unloaded times"
