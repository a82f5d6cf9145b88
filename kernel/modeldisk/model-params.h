/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parameters of the models: PARAM(name, smallest, largest, flags). Whoever
 * includes this defines PARAM() for what is to be made of each; what they mean
 * is said in params.h.
 */
PARAM(cmd_ns, 0, 100000000, PARAM_ANY)
PARAM(bus_mbps, 1, 100000, PARAM_ANY)
PARAM(slots, 1, 256, PARAM_ANY)
PARAM(ctrl_ns, 0, 100000000, PARAM_FLASH)
PARAM(dies, 1, 128, PARAM_FLASH)
PARAM(page_kib, 4, 128, PARAM_FLASH | PARAM_POWER_OF_2)
PARAM(read_ns, 1, 100000000, PARAM_FLASH)
PARAM(program_kib, 4, 1024, PARAM_FLASH)
PARAM(program_ns, 1, 1000000000, PARAM_FLASH)
PARAM(program_steps, 1, 64, PARAM_FLASH)
PARAM(overtake_max, 0, 65536, PARAM_FLASH)
PARAM(buffer_kib, 2048, 4194304, PARAM_FLASH)
PARAM(map_kib, 4, 64, PARAM_FLASH | PARAM_POWER_OF_2)
PARAM(power_safe, 0, 1, PARAM_FLASH)
PARAM(gc_after_mib, 0, 16777216, PARAM_FLASH)
PARAM(gc_amplify_pct, 100, 2000, PARAM_FLASH)
PARAM(gc_ns, 1, 1000000000, PARAM_FLASH)
PARAM(rpm, 60, 60000, PARAM_HDD)
PARAM(outer_mbps, 1, 10000, PARAM_HDD)
PARAM(inner_mbps, 1, 10000, PARAM_HDD)
PARAM(seek_settle_ns, 0, 100000000, PARAM_HDD)
PARAM(seek_sqrt_ns, 0, 100000000, PARAM_HDD)
PARAM(seek_knee_permille, 1, 1000, PARAM_HDD)
PARAM(age_limit_ms, 0, 60000, PARAM_HDD)
PARAM(readahead_kib, 0, 65536, PARAM_HDD)
PARAM(cache_segments, 1, 16, PARAM_HDD)
PARAM(write_cache_kib, 0, 1048576, PARAM_HDD)

#undef PARAM
