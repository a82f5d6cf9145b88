/* SPDX-License-Identifier: GPL-2.0-only */
/* The parameters of the models. Their bounds are in model-params.h. */
#ifndef MODELDISK_PARAMS_H
#define MODELDISK_PARAMS_H

#include "shim.h"

/* Flags of a parameter: the models that have it, and whether it must be a power of 2. */
#define PARAM_FLASH	0x1
#define PARAM_HDD	0x2
#define PARAM_ANY	(PARAM_FLASH | PARAM_HDD)
#define PARAM_POWER_OF_2	0x4

/* The parameters of all models. Each model reads only its own. */
struct model_params {
	/* a constant part of every command's latency, ns */
	u32 cmd_ns;
	/* bandwidth to the host, MB (10^6 bytes) a second */
	u32 bus_mbps;
	/* commands that the device works on at once; further ones wait in order */
	u32 slots;
	/* 1: the hardware queues take turns, a command each; 0: commands go in order of arrival */
	u32 queue_turns;
	/* the controller's time for a command, ns; the controller takes one command at a time */
	u32 ctrl_ns;
	/*
	 * the controller takes ctrl_slow_pct percent longer in the first ctrl_slow_ms of each
	 * ctrl_slow_every_ms
	 */
	u32 ctrl_slow_pct;
	u32 ctrl_slow_ms;
	u32 ctrl_slow_every_ms;
	/* number of dies; each does one operation at a time */
	u32 dies;
	/* size of a page, KiB; a page is on one die, and the next page mostly on another die */
	u32 page_kib;
	/* time to read a page, or a part of one, from its die, ns */
	u32 read_ns;
	/* the same for each page of a long read (more than 4 KiB), ns; 0: read_ns */
	u32 read_full_ns;
	/* bandwidth of a long read to the host, MB/s; 0: bus_mbps */
	u32 full_mbps;
	/*
	 * one third of the pages takes read_spread_pct percent less time to read than read_ns or
	 * read_full_ns says, another third takes read_spread_pct percent more
	 */
	u32 read_spread_pct;
	/* this many pages in a thousand take read_slow_ns longer */
	u32 read_slow_permille;
	u32 read_slow_ns;
	/* data of one program operation, KiB */
	u32 program_kib;
	/* time of one program operation, ns */
	u32 program_ns;
	/* equal steps of a program or a copy (see gc_ns); reads may come between two steps */
	u32 program_steps;
	/* the most reads that may overtake one program or copy */
	u32 overtake_max;
	/* write buffer, KiB */
	u32 buffer_kib;
	/* a write takes whole units of this size in the buffer, KiB */
	u32 map_kib;
	/* 1: the buffer survives power loss; a flush and a FUA write do not wait for programs */
	u32 power_safe;
	/*
	 * data that the quick cells hold, MiB; all programs go there. Once the quick cells are
	 * full, each program causes one copy to slower cells. 0: all cells are alike
	 */
	u32 slc_mib;
	/* clean space: data that can be written before garbage collection starts, MiB */
	u32 gc_after_mib;
	/* write amplification once garbage collection has started, percent; 100: none */
	u32 gc_amplify_pct;
	/* time to copy the data of one program, including its share of an erase, ns */
	u32 gc_ns;
	/* copies wait until this many are due, then all are made; 0: each is made at once */
	u32 gc_burst;
	/*
	 * once writes have waited for room in the buffer for this long without a break, ms, waiting
	 * writes hold no slot, and copies do not wait for gc_burst; 0: never
	 */
	u32 protect_after_ms;
	/* revolutions a minute */
	u32 rpm;
	/* transfer rate of the outermost and innermost zone, MB/s */
	u32 outer_mbps;
	u32 inner_mbps;
	/* parameters of the seek time: see seek_time() in hdd.c */
	u32 seek_settle_ns;
	u32 seek_sqrt_ns;
	u32 seek_knee_permille;
	/* a request older than this goes first, ms; 0: age does not count */
	u32 age_limit_ms;
	/* the rule that picks the next request; 0: least seek plus rotation, 1: least seek */
	u32 queue_rule;
	/* while fewer requests than this wait, the oldest is next, unless cached writes are due */
	u32 reorder_min;
	/* read-ahead after a read, KiB; 0: none */
	u32 readahead_kib;
	/* segments of the read cache; a segment is a run of consecutive sectors */
	u32 cache_segments;
	/* write cache, KiB; 0: none, so a write completes when it is on the medium */
	u32 write_cache_kib;
};

/* Check that model-params.h has as many parameters as the struct has fields. */
enum {
#define PARAM(name, ...) MODEL_PARAM_##name,
#include "model-params.h"
	MODEL_NR_PARAMS
};

static_assert(sizeof(struct model_params) == MODEL_NR_PARAMS * sizeof(u32));

#endif /* MODELDISK_PARAMS_H */
