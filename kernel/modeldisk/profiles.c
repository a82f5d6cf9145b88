// SPDX-License-Identifier: GPL-2.0-only
/* Devices by name. docs/modeldisk.md says where each number comes from. */
#include "model.h"

const struct model_profile model_profiles[] = {
	{
		/*
		 * A Samsung 980 PRO 1 TB at a fifth of its throughput. At full speed, 64 KiB
		 * requests would saturate one emulated CPU before they saturate the drive.
		 * Bus, dies, slots and controller are a fifth of the drive's. A lone 4 KiB
		 * read takes almost as long as on the whole drive.
		 * drives/980pro-fifth.toml has the measurements.
		 */
		.name = "flash",
		.model = &flash_model,
		.size_mib = 32768,
		.hw_queues = 8,
		.depth = 1023,
		.params = {
			.cmd_ns = 8456,
			.bus_mbps = 1419,
			.slots = 44,
			.ctrl_ns = 2740,
			.dies = 10,
			.page_kib = 8,
			.read_ns = 54959,
			.read_full_ns = 108696,
			.full_mbps = 419,
			.read_spread_pct = 15,
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
		/* A Samsung F1 1 TB. drives/hdd-f1.toml has the measurements. */
		.name = "hdd",
		.model = &hdd_model,
		.rotational = true,
		.size_mib = 262144,
		.hw_queues = 1,
		.depth = 32,
		.params = {
			.cmd_ns = 300000,
			.bus_mbps = 250,
			.slots = 35,
			.rpm = 7200,
			.outer_mbps = 110,
			.inner_mbps = 55,
			.seek_settle_ns = 1825020,
			.seek_sqrt_ns = 14126596,
			.seek_knee_permille = 500,
			.age_limit_ms = 0,
			.queue_rule = 1,
			.reorder_min = 8,
			.readahead_kib = 1024,
			.cache_segments = 8,
			.write_cache_kib = 16384,
		},
	},
};

const u32 model_nr_profiles = ARRAY_SIZE(model_profiles);
