/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The settings of a device: PARAM(name, smallest, largest, flags), as in model-params.h.
 * struct mdk_settings explains each setting.
 */
PARAM(size, 1, 64 << 20, PARAM_ANY)
PARAM(hw_queues, 1, 1024, PARAM_ANY)
PARAM(depth, 1, 10240, PARAM_ANY)
PARAM(block_size, 512, 4096, PARAM_ANY | PARAM_POWER_OF_2)
PARAM(memory_backed, 0, 1, PARAM_ANY)
PARAM(kept_mib, 0, 64 << 20, PARAM_ANY)
PARAM(timeout_ms, 100, 3600000, PARAM_ANY)
PARAM(seed, 0, U32_MAX, PARAM_ANY)
PARAM(error_ppm, 0, 1000000, PARAM_ANY | SETTING_LIVE)
PARAM(stall_ppm, 0, 1000000, PARAM_ANY | SETTING_LIVE)
PARAM(resource_ppm, 0, 990000, PARAM_ANY | SETTING_LIVE)

#undef PARAM
