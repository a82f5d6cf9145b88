/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How much bulk may sit in the device while somebody waits on latency.
 *
 * What is inside a device can no longer be overtaken. So what bulk holds in there is
 * limited by a budget of cost, and the budget is found by trying: it is right when
 * hardly any protected request takes longer than the target.
 *
 * The target is a multiple of what protected requests take when no bulk is in the
 * device. That depends on the device and on how many of themselves they meet, so it
 * is measured, by keeping bulk out for a moment now and then (a probe). A job that
 * queues behind itself is so never blamed on others.
 *
 * Pure functions that also compile in user space, where they are tested against
 * a model of a queue.
 */
#ifndef TG_DEPTH_H
#define TG_DEPTH_H

#include "pure.h"

/*
 * Which part of protected requests may take longer than the target: 1 in ... Fewer
 * than one in a hundred, so that the 99th percentile stays below it though the budget
 * is never at rest.
 */
#define TG_DEPTH_RARE 150

/*
 * A late request takes 1/16 of the budget, the others give it back:
 * from far too much to enough in some 50 late ones, and at rest within 6 %.
 */
#define TG_DEPTH_CUT_SHIFT 4

/* What a probe takes, and how far the estimates follow it, up and down. */
#define TG_DEPTH_PROBE_SAMPLES 16
#define TG_DEPTH_UP_SHIFT 3
#define TG_DEPTH_DOWN_SHIFT 1
/*
 * Between probes, how many times as long as the last one took: at first few, as the
 * first may have been taken while jobs only began; then twice as many each time.
 */
#define TG_DEPTH_SPACING_FIRST 8
#define TG_DEPTH_SPACING_LAST 256

/*
 * What answers a quarter of its requests sooner than any device could, in ns, has no
 * queue inside: it does all on the CPU that asks. What is late there has waited for a
 * CPU. Only a quarter, as others wait for one too; and so many, as a device refuses a
 * request as soon.
 */
#define TG_DEPTH_AT_ONCE 5000

/* ns; below the least, a budget is a pace (tg_depth_gap()). */
#define TG_DEPTH_FIRST 500000ull
#define TG_DEPTH_MAX 4000000000ull

/**
 * struct tg_depth - the controller's state; all zero to begin with
 * @budget: cost that bulk may have in the device, in ns; 0 before the first use
 * @rest: what is still to be given back to it, in ns / (TG_DEPTH_RARE - 1)
 * @missed: whether a request was ever late
 * @known: whether the estimates are
 * @mean: what protected requests take without bulk in the device, in ns
 * @spread: their mean distance from @mean, in ns
 * @at_once: whether a quarter of the last probe's took less than TG_DEPTH_AT_ONCE
 * @spacing: from the last probe to the next, in times that the last one took
 * @sampled: how many of @samples there are
 * @samples: of this probe, in ns
 */
struct tg_depth {
	u64 budget;
	u64 rest;
	bool missed;
	bool known;
	u64 mean;
	u64 spread;
	bool at_once;
	u32 spacing;
	u32 sampled;
	u64 samples[TG_DEPTH_PROBE_SAMPLES];
};

static inline u64 tg_depth_follow(u64 estimate, u64 value)
{
	return value < estimate ?
	       estimate - ((estimate - value) >> TG_DEPTH_DOWN_SHIFT) :
	       estimate + ((value - estimate) >> TG_DEPTH_UP_SHIFT);
}

/**
 * tg_depth_alone() - learn from a request that met no bulk
 * @depth: the controller
 * @latency: from dispatch to completion, in ns
 *
 * Estimates follow soon what is quicker, and slowly what is slower: a device that
 * still does in the background what it said was done (a write buffer) must not
 * pass for a slow one.
 *
 * Return: whether that was the last of a probe
 */
static inline bool tg_depth_alone(struct tg_depth *depth, u64 latency)
{
	u64 mean = 0, spread = 0;
	u32 i, at_once = 0;

	depth->samples[depth->sampled++] = latency;
	if (depth->sampled < TG_DEPTH_PROBE_SAMPLES)
		return false;
	depth->sampled = 0;

	for (i = 0; i < TG_DEPTH_PROBE_SAMPLES; i++) {
		mean += depth->samples[i];
		at_once += depth->samples[i] < TG_DEPTH_AT_ONCE;
	}
	mean /= TG_DEPTH_PROBE_SAMPLES;
	for (i = 0; i < TG_DEPTH_PROBE_SAMPLES; i++)
		spread += max_t(u64, depth->samples[i], mean) -
			  min_t(u64, depth->samples[i], mean);
	spread /= TG_DEPTH_PROBE_SAMPLES;

	depth->mean = depth->known ? tg_depth_follow(depth->mean, mean) : mean;
	depth->spread = depth->known ? tg_depth_follow(depth->spread, spread) : spread;
	depth->at_once = 4 * at_once >= TG_DEPTH_PROBE_SAMPLES;
	depth->known = true;
	return true;
}

/* How many times as long as the probe that just ended took, the next has to wait. */
static inline u32 tg_depth_spacing(struct tg_depth *depth)
{
	depth->spacing = clamp_t(u32, 2 * depth->spacing, TG_DEPTH_SPACING_FIRST,
				 TG_DEPTH_SPACING_LAST);
	return depth->spacing;
}

/**
 * tg_depth_target() - what few protected requests may exceed
 * @depth: the controller, which knows what they take without bulk
 * @factor_pct: how many times as long they may take, in hundredths
 *
 * The 99th percentile without bulk is put at three mean distances above the mean:
 * two would do for a uniform distribution, five for an exponential one.
 *
 * Return: ns
 */
static inline u64 tg_depth_target(const struct tg_depth *depth, u32 factor_pct)
{
	return div64_u64((depth->mean + 3 * depth->spread) * factor_pct, 100);
}

/**
 * tg_depth_judge() - learn from a protected request
 * @depth: the controller
 * @late: whether it took longer than the target
 * @limited: whether bulk would have used more than the budget
 * @least: the budget at which bulk just goes on, in ns
 *
 * The expected change is nil when 1 in TG_DEPTH_RARE is late (stochastic
 * approximation of a quantile): also at a pace, where what one request gives back is
 * less than 1 ns. Until the first is late, it is as much as a late one takes. Where
 * there is no queue to hold bulk out of, it is not held.
 */
static inline void tg_depth_judge(struct tg_depth *depth, bool late, bool limited,
				  u64 least)
{
	const u64 step = max_t(u64, depth->budget >> TG_DEPTH_CUT_SHIFT, 1);
	u64 back;

	if (depth->at_once) {
		depth->budget = TG_DEPTH_MAX;
	} else if (late) {
		depth->missed = true;
		depth->budget -= min_t(u64, step, depth->budget);
	} else if (limited && !depth->missed) {
		depth->budget += step;
	} else if (limited) {
		depth->rest += step;
		back = div64_u64(depth->rest, TG_DEPTH_RARE - 1);
		depth->rest -= back * (TG_DEPTH_RARE - 1);
		depth->budget += back;
	}
	depth->budget = clamp_t(u64, depth->budget, least, TG_DEPTH_MAX);
}

/**
 * tg_depth_gap() - how long bulk has to pause after a request
 * @budget: in ns
 * @floor: the cost of one request of bulk, in ns: less in the device is none
 * @cost: of the request, in ns
 *
 * A write buffer completes early, and its programs are in the way of reads later:
 * limiting what is in flight does not reach them. Where a budget is less than one
 * request it is a pace instead: the part of the time that bulk may use.
 *
 * Return: ns from one dispatch to the next; 0: no pause
 */
static inline u64 tg_depth_gap(u64 budget, u64 floor, u64 cost)
{
	return budget < floor ? div64_u64(cost * floor, max_t(u64, budget, 1)) : 0;
}

/**
 * tg_depth_lingering() - the budget when none that is protected was seen for a while
 * @budget: in ns
 * @quiet_ms: for how long, in ms
 *
 * The next one would meet a device full of bulk, so the limit goes slowly: it is
 * doubled every 16 ms.
 *
 * Return: ns
 */
static inline u64 tg_depth_lingering(u64 budget, u32 quiet_ms)
{
	return min_t(u64, budget << min_t(u32, quiet_ms / 16, 24), U64_MAX >> 8);
}

#endif
