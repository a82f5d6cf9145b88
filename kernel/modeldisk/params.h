/* SPDX-License-Identifier: GPL-2.0-only */
/* The parameters of the models. Their bounds are in model-params.h. */
#ifndef MODELDISK_PARAMS_H
#define MODELDISK_PARAMS_H

#include "shim.h"

/* Whose parameter it is, and what it must be besides within its bounds. */
#define PARAM_FLASH	0x1
#define PARAM_HDD	0x2
#define PARAM_ANY	(PARAM_FLASH | PARAM_HDD)
#define PARAM_POWER_OF_2	0x4

/* What a model is made from: it looks only at what is its own. */
struct model_params {
	/* a command's latency beside everything else, ns */
	u32 cmd_ns;
	/* bandwidth to the host, MB (10^6 bytes) a second */
	u32 bus_mbps;
	/* commands the controller has at work; more wait in turn */
	u32 slots;
	/* the controller's time for a command, one after the other, ns */
	u32 ctrl_ns;
	/* dies, each serving one operation at a time */
	u32 dies;
	/* what lies on one die before the next die's turn, KiB */
	u32 page_kib;
	/* reading a page or less from the array, ns */
	u32 read_ns;
	/* what one program operation writes, KiB */
	u32 program_kib;
	/* and its time, ns */
	u32 program_ns;
	/* equal steps of a program; reads get in between them */
	u32 program_steps;
	/* reads that may overtake one program */
	u32 overtake_max;
	/* write buffer, KiB */
	u32 buffer_kib;
	/* a write costs whole units of this size, KiB */
	u32 map_kib;
	/* 1: the buffer survives power loss; flush and FUA cost nothing */
	u32 power_safe;
	/* what can be written before garbage collection starts, MiB */
	u32 gc_after_mib;
	/* write amplification from then on, percent; 100: none */
	u32 gc_amplify_pct;
	/* copying one program's worth, its share of erasing included, ns */
	u32 gc_ns;
	/* revolutions a minute */
	u32 rpm;
	/* transfer rate of the outermost and innermost zone, MB/s */
	u32 outer_mbps;
	u32 inner_mbps;
	/* seek: settle + sqrt part, linear beyond the knee (see hdd.c) */
	u32 seek_settle_ns;
	u32 seek_sqrt_ns;
	u32 seek_knee_permille;
	/* a request this old is served next, ms; 0: never mind age */
	u32 age_limit_ms;
	/* how far a read goes on by itself, KiB; 0: not at all */
	u32 readahead_kib;
	/* streams the read cache remembers */
	u32 cache_segments;
	/* write cache, KiB; 0: a write ends on the medium */
	u32 write_cache_kib;
};

/* Each has a line in model-params.h, and nothing else has. */
enum {
#define PARAM(name, ...) MODEL_PARAM_##name,
#include "model-params.h"
	MODEL_NR_PARAMS
};

static_assert(sizeof(struct model_params) == MODEL_NR_PARAMS * sizeof(u32));

#endif /* MODELDISK_PARAMS_H */
