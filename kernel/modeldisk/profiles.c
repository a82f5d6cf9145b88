// SPDX-License-Identifier: GPL-2.0-only
/* Devices by name. docs/modeldisk.md says where each number comes from. */
#include "model.h"

const struct model_profile model_profiles[] = {
	{
		/*
		 * A TLC NVMe drive with a fifth of the usual throughput: 64 KiB requests
		 * must saturate the drive before they saturate one emulated CPU. A
		 * lone 4 KiB read takes as long as on a drive of the usual throughput.
		 */
		.name = "flash",
		.model = &flash_model,
		.size_mib = 32768,
		.hw_queues = 8,
		.depth = 1023,
		.params = {
			.cmd_ns = 4000,
			.bus_mbps = 1324,
			.slots = 64,
			.ctrl_ns = 4000,
			.dies = 16,
			.page_kib = 8,
			.read_ns = 52000,
			.program_kib = 32,
			.program_ns = 688000,
			.program_steps = 4,
			.overtake_max = 16,
			.buffer_kib = 16384,
			.map_kib = 8,
			.power_safe = 0,
			.gc_after_mib = 16384,
			.gc_amplify_pct = 300,
			.gc_ns = 750000,
		},
	}, {
		/* Low-latency flash: a read takes about 10 us. There is no garbage collection. */
		.name = "fast-flash",
		.model = &flash_model,
		.size_mib = 32768,
		.hw_queues = 8,
		.depth = 1023,
		.params = {
			.cmd_ns = 3000,
			.bus_mbps = 2500,
			.slots = 128,
			.ctrl_ns = 1000,
			.dies = 16,
			.page_kib = 4,
			.read_ns = 4000,
			.program_kib = 4,
			.program_ns = 20000,
			.program_steps = 20,
			.overtake_max = 16,
			.buffer_kib = 4096,
			.map_kib = 4,
			.power_safe = 1,
			.gc_after_mib = 0,
			.gc_amplify_pct = 100,
			.gc_ns = 1,
		},
	}, {
		.name = "hdd",
		.model = &hdd_model,
		.rotational = true,
		.size_mib = 262144,
		.hw_queues = 1,
		.depth = 32,
		.params = {
			.cmd_ns = 100000,
			.bus_mbps = 550,
			.slots = 32,
			.rpm = 7200,
			.outer_mbps = 180,
			.inner_mbps = 90,
			.seek_settle_ns = 1000000,
			.seek_sqrt_ns = 13580000,
			.seek_knee_permille = 300,
			.age_limit_ms = 1000,
			.readahead_kib = 1024,
			.cache_segments = 8,
			.write_cache_kib = 16384,
		},
	},
};

const u32 model_nr_profiles = ARRAY_SIZE(model_profiles);
