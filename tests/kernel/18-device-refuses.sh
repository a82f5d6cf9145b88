#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: storms of requests that the device refuses for now (BLK_STS_RESOURCE)
#         lose nothing, and no data is wrong.
# Needs: modeldisk, fio
# Machine: sim
# Machine: vm 4
. "${0%/*}/lib.sh"

use_modeldisk depth=16
start_verified_load 3
while load_runs; do
	for ppm in 900000 300000 0; do
		echo $ppm > $MODELDISK/resource_ppm
		sleep 0.2
	done
done
wait_verified_load
refusals=$(device_count refusals)
echo "$refusals requests refused"
[ "$refusals" -ge 100 ] || fail "only $refusals requests refused"
