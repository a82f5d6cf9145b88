/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The limit on bulk in the device while urgent requests come.
 *
 * No request can overtake one that is in the device already. So a budget of cost limits
 * bulk in the device. If the administrator has set a target, this part finds the budget: it
 * is right when hardly any urgent request takes longer than the target. Otherwise knee.h
 * finds it.
 *
 * The target is a multiple of the service time of urgent requests without bulk. This time
 * depends on the device, and on how many urgent requests meet there. So the controller
 * measures it: now and then a probe keeps bulk out for a moment. Thus bulk's budget does not
 * shrink because urgent requests queue behind each other.
 *
 * Pure functions that also compile in user space, where they are tested against a model of
 * a queue.
 */
#ifndef TG_DEPTH_H
#define TG_DEPTH_H

#include "pure.h"

/*
 * One urgent request in this many may take longer than the target. One in a hundred would
 * put the 99th percentile at the target, and the budget always moves a little.
 */
#define TG_DEPTH_RARE 150

/*
 * A late request takes 1/16 of the budget away, the others give it back. So some 50 late
 * requests bring a budget that is far too large to the right one, and a settled budget
 * moves by 6 %.
 */
#define TG_DEPTH_CUT_SHIFT 4

/* The number of samples in a probe, and how slowly estimates follow them up and down. */
#define TG_DEPTH_PROBE_SAMPLES 16
#define TG_DEPTH_UP_SHIFT 3
#define TG_DEPTH_DOWN_SHIFT 1
/*
 * The time between probes, as a multiple of the last probe's time. It doubles each time.
 * For a target it begins small, because jobs may still have been starting during the first
 * probe. An exchange rate needs less precision, and a probe beside writers takes 36 ms.
 */
#define TG_DEPTH_SPACING_TARGET 8
#define TG_DEPTH_SPACING_PRICE 64
#define TG_DEPTH_SPACING_LAST 256

/*
 * A device that answers a quarter of its requests sooner than this, in ns, has no queue
 * inside: the CPU that asks does all the work, and a late request has waited for a CPU. A
 * quarter suffices, because the others may also have waited for a CPU. It takes no fewer,
 * because any device may refuse a few requests as quickly.
 */
#define TG_DEPTH_AT_ONCE 5000

/* The first and the largest budget, in ns. */
#define TG_DEPTH_FIRST 500000ull
#define TG_DEPTH_MAX 4000000000ull

/**
 * struct tg_depth - what probes have found, and the budget for a target; all zero at first
 * @budget: cost that bulk may have in the device, in ns; 0 before the first use
 * @rest: what requests in time gave back and @budget does not have yet, because it is below
 *	1 ns; in ns / (TG_DEPTH_RARE - 1)
 * @missed: a request has been late
 * @known: @mean and @spread have values
 * @mean: service time of urgent requests without bulk in the device, in ns
 * @spread: their mean distance from @mean, in ns
 * @at_once: a quarter of the last probe's samples were below TG_DEPTH_AT_ONCE
 * @spacing: time from the last probe to the next, as a multiple of the last probe's
 * @sampled: number of samples so far in this probe
 * @samples: their latencies, in ns
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
 * Estimates follow quicker samples soon and slower ones slowly: a device that is still
 * emptying its write buffer must not pass for a slow one.
 *
 * Return: true if this was the last sample of a probe
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

/*
 * Return the time until the next probe, as a multiple of the one that just ended; @first:
 * the multiple after the first probe.
 */
static inline u32 tg_depth_spacing(struct tg_depth *depth, u32 first)
{
	depth->spacing = clamp_t(u32, 2 * depth->spacing, first, TG_DEPTH_SPACING_LAST);
	return depth->spacing;
}

/**
 * tg_depth_target() - the latency that few urgent requests may exceed
 * @depth: the controller, which knows their latency without bulk
 * @factor_pct: the multiple of that latency that they may take, in hundredths
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
 * tg_depth_judge() - learn from an urgent request
 * @depth: the controller
 * @late: it took longer than the target
 * @limited: bulk would have used more than the budget
 * @least: the budget at which bulk just goes on, in ns
 *
 * The expected change is nil when 1 in TG_DEPTH_RARE is late (stochastic approximation of a
 * quantile). @rest keeps this true for a small budget, to which one request gives back less
 * than 1 ns. Until the first request is late, each gives as much as a late one takes. A
 * device without a queue has no limit.
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
 * tg_depth_gap() - the pause of bulk after a request
 * @budget: in ns
 * @floor: the cost of one request of bulk, in ns
 * @cost: of the request, in ns
 *
 * A write buffer completes writes early, and programs them later, which delays reads. A
 * limit on the requests in the device does not reach these programs. So a budget below one
 * request is a pace: the part of the time that bulk may use.
 *
 * Return: ns from one dispatch to the next; 0: no pause
 */
static inline u64 tg_depth_gap(u64 budget, u64 floor, u64 cost)
{
	return budget < floor ? div64_u64(cost * floor, max_t(u64, budget, 1)) : 0;
}

/**
 * tg_depth_grant() - the cost that bulk may send behind an urgent request
 * @granted: the rest of the last grant, or the debt (below 0), in ns of cost
 * @budget: in ns
 * @inside: of bulk in the device, in ns of cost
 *
 * Bulk gets the room in its budget, less its debt: so a budget below one request lets one
 * go now and then.
 *
 * Return: ns of cost; 0 or less lets nothing in
 */
static inline s64 tg_depth_grant(s64 granted, u64 budget, u64 inside)
{
	return min_t(s64, granted, 0) + (s64)(budget - min_t(u64, budget, inside));
}

/**
 * tg_depth_charge() - charge bulk that was let in
 * @granted: the rest of the grant, or the debt (below 0), in ns of cost
 * @gated: it waits for grants
 * @cost: of the request, in ns
 *
 * The debt is at most this request's cost, even if bulk goes again and again because no
 * urgent request comes to grant. There is no debt if bulk needs no grant. Otherwise debts
 * would grow without end, and keep bulk out later.
 *
 * Return: the new @granted
 */
static inline s64 tg_depth_charge(s64 granted, bool gated, u32 cost)
{
	return gated ? max_t(s64, granted - cost, -(s64)cost) : 0;
}

/**
 * tg_depth_lingering() - the budget when no urgent request has come for a while
 * @budget: in ns
 * @quiet_ms: for how long, in ms
 *
 * The next urgent request must not meet a device full of bulk, so the limit rises slowly:
 * it doubles every 16 ms.
 *
 * Return: ns
 */
static inline u64 tg_depth_lingering(u64 budget, u32 quiet_ms)
{
	return min_t(u64, budget << min_t(u32, quiet_ms / 16, 24), U64_MAX >> 8);
}

#endif
