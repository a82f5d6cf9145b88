#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: modeldisk refuses an invalid value with EINVAL and keeps the old one; the log
#         names the setting and its bounds.
# Machine: sim
. "${0%/*}/lib.sh"

# refused DEVICE SETTING VALUE LOG [ERROR]: check that a write of VALUE fails with ERROR (default
# "Invalid argument"), that the kernel logs LOG, and that the old value stays.
refused() {
	before=$(cat "$CONFIG/$1/$2")
	if message=$( (echo "$3" > "$CONFIG/$1/$2") 2>&1); then
		fail "$2=$3 was accepted"
	fi
	case $message in
	*"${5:-Invalid argument}"*) ;;
	*) fail "$2=$3: '$message' instead of '${5:-Invalid argument}'" ;;
	esac
	expect "$2 after a refusal" "$before" "$(cat "$CONFIG/$1/$2")"
	dmesg | tail -1 | grep -qF "$1: $4" || fail "$2=$3: the log says $(dmesg | tail -1)"
}

mkdir $CONFIG/ssd $CONFIG/disk
echo hdd > $CONFIG/disk/profile

refused ssd dies 0 "dies=0 refused: must be a number from 1 to 128"
refused ssd dies 129 "dies=129 refused: must be a number from 1 to 128"
refused ssd dies many "dies=many refused: must be a number from 1 to 128"
refused ssd read_ns -1 "read_ns=-1 refused: must be a number from 1 to 100000000"
refused ssd read_ns 4294967297 "read_ns=4294967297 refused: must be a number"
refused ssd page_kib 12 "page_kib=12 refused: must be a power of 2 from 4 to 128"
refused ssd resource_ppm 1000000 "resource_ppm=1000000 refused: must be a number from 0 to 990000"
refused ssd size 0 "size=0 refused: must be a number from 1 to 67108864"
refused ssd rpm 7200 "rpm refused: profile flash is a model of kind flash"
refused disk dies 4 "dies refused: profile hdd is a model of kind hdd"
refused ssd profile tape "profile=tape refused"
refused ssd power perhaps "power refused: must be 0 or 1"

# At power-on modeldisk refuses values that are within their bounds but contradict each other.
echo 10 > $CONFIG/disk/outer_mbps
refused disk power 1 "not powered on: inner_mbps must not be above outer_mbps"
# The smallest buffer is enough for the largest program and unit.
echo 2048 > $CONFIG/ssd/buffer_kib
echo 1024 > $CONFIG/ssd/program_kib
echo 1024 > $CONFIG/ssd/page_kib 2> /dev/null && fail "page_kib=1024 was accepted"
echo 64 > $CONFIG/ssd/map_kib
echo 1 > $CONFIG/ssd/power || fail "2 MiB of buffer are enough"

# A device that is on keeps its settings, except the rates of faults.
refused ssd size 1 "size cannot change while power is on" "Device or resource busy"
echo 1000 > $CONFIG/ssd/error_ppm || fail "error_ppm cannot change while power is on"
