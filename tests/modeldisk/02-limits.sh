#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: modeldisk tells the block layer the properties of a device: rotational, cache,
#         FUA, discard, queues, size.
# Machine: sim
# Machine: vm 2
. "${0%/*}/lib.sh"

expect "the profiles" "flash fast-flash hdd" "$(cat $CONFIG/profiles)"

device ssd flash size=1024 depth=64 hw_queues=4 block_size=4096
expect "flash: rotational" 0 "$(limit ssd rotational)"
expect "flash: cache" "write back" "$(limit ssd write_cache)"
expect "flash: fua" 1 "$(limit ssd fua)"
expect "flash: block size" 4096 "$(limit ssd logical_block_size)"
expect "flash: largest request, KiB" 512 "$(limit ssd max_hw_sectors_kb)"
expect "flash: sectors" 2097152 "$(cat /sys/block/ssd/size)"
[ "$(limit ssd discard_max_bytes)" -gt 0 ] || fail "flash: no discard"
[ "$(limit ssd write_zeroes_max_bytes)" -gt 0 ] || fail "flash: no write-zeroes"
# Linux makes no more hardware queues than there are CPUs.
cpus=$(nproc)
queues=$((cpus < 4 ? cpus : 4))
expect "flash: hardware queues" $queues "$(ls /sys/block/ssd/mq | wc -l)"
expect "flash: tags" 64 "$(cat /sys/block/ssd/mq/0/nr_tags)"

device safe flash power_safe=1
expect "safe flash: cache" "write through" "$(limit safe write_cache)"
expect "safe flash: fua" 0 "$(limit safe fua)"

device disk hdd
expect "hdd: rotational" 1 "$(limit disk rotational)"
expect "hdd: discard" 0 "$(limit disk discard_max_bytes)"
expect "hdd: write-zeroes" 0 "$(limit disk write_zeroes_max_bytes)"
expect "hdd: tags" 32 "$(cat /sys/block/disk/mq/0/nr_tags)"
rmdir $CONFIG/disk
device disk hdd write_cache_kib=0
expect "hdd: cache" "write through" "$(limit disk write_cache)"
