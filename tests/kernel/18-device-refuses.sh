#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: no request is lost and no data is wrong while the device refuses many
#         requests for the moment (BLK_STS_RESOURCE).
# Needs: modeldisk, fio
# Machine: sim
# Machine: vm 4
. "${0%/*}/lib.sh"

# Use a slow device: as many requests queue up as on a fast one, but few complete. So a guest on sim
# has little to simulate.
SLOWER=16 use_modeldisk depth=16
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
