/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Computes the limit on bulk in the device while urgent requests come.
 *
 * A request cannot overtake another that is in the device already. So a budget limits the cost of
 * bulk in the device. If the administrator has set a target, this part finds the budget. That
 * budget is right if one urgent request in TG_DEPTH_RARE takes longer than the target. Without a
 * target, knee.h finds the budget on flash.
 *
 * The target is usually a multiple of the service time of urgent requests without bulk. This time
 * depends on the device, and on how many urgent requests are there at once. So the controller
 * measures it: now and then a probe keeps bulk out for a moment. Thus urgent requests that queue
 * behind each other do not shrink bulk's budget.
 *
 * Pure functions that also compile in user space, where they are tested against a model of a
 * queue.
 */
#ifndef TG_DEPTH_H
#define TG_DEPTH_H

#include "pure.h"

/*
 * One urgent request in this many may take longer than the target. With 100, the 99th
 * percentile would be right at the target, and often above it, because the budget always moves
 * a little.
 */
#define TG_DEPTH_RARE 150

/*
 * A late request lowers the budget by 1/16, and the others raise it again. So some 50 late
 * requests correct a budget that is far too large, and a settled budget moves by 6 %.
 */
#define TG_DEPTH_CUT_SHIFT 4

/*
 * The number of requests timed without bulk (samples) that give a result. If a result is larger
 * than the estimate of the latency without bulk, the estimate moves by 1/2^UP_SHIFT of the
 * difference; if smaller, by 1/2^DOWN_SHIFT.
 */
#define TG_DEPTH_PROBE_SAMPLES 16
#define TG_DEPTH_UP_SHIFT 3
#define TG_DEPTH_DOWN_SHIFT 1
/*
 * Until a new process takes its third tag, it asks for little, so its requests are urgent. If many
 * processes begin together with large requests, the first result comes from these requests, and may
 * be several times too large. So a result is confirmed only once the next one is at least this many
 * quarters of it. A first result that is too small is not noticed: the estimate then grows slowly.
 */
#define TG_DEPTH_CONFIRMED 3
/*
 * A probe whose mean is less than half of a confirmed estimate raises a doubt. Either the estimate
 * came from another load, such as the reads of a boot, or a cache answered this probe. A probe also
 * raises a doubt if a quarter of its requests end within TG_DEPTH_AT_ONCE, although the estimate is
 * at least twice that time, and tg_depth.at_once is not set: the requests may have failed. Between
 * probes, a result that is so quick is ignored. A probe that raises a doubt changes no estimate,
 * and the next probe comes soon. But the probe that raises doubt number DOUBTS replaces the
 * estimate by its result. To wait for this probe costs only milliseconds. If the first answers of a
 * cache replaced the estimate, it would be too small. It would then hold bulk for longer, because
 * it grows slowly.
 *
 * A probe that does not contradict the estimate takes one doubt back. It does not raise an estimate
 * that was doubted. Otherwise an estimate could grow although two probes in three contradict it.
 *
 * Only a probe raises a doubt. While there is no bulk, there may be hundreds of results a second.
 * On a device with occasional slow reads, some of these are below half by chance. The mean decides,
 * not the tail: a single slow read makes the tail many times as long.
 */
#define TG_DEPTH_DOUBTED 2
#define TG_DEPTH_DOUBTS 3
/*
 * Bulk in the device makes no request faster. So requests beside bulk call for a probe if this many
 * batches in a row (of PROBE_SAMPLES each) have means below the estimate. The estimate was probably
 * learnt from other requests: for example, from many processes whose cgroup has since gone beyond
 * its share. Where bulk delays no request, at most one batch in 16 calls for a probe by chance.
 */
#define TG_DEPTH_FASTER 4
/*
 * Some machines sleep between lone requests, which then take longer than requests beside bulk. On
 * these machines, probes that are called for (FASTER) are in vain. So if the mean of such a probe
 * is at least this many quarters of the estimate, the least time to the next one doubles.
 */
#define TG_DEPTH_CALLED_FOR 3
/*
 * The time between probes, as a multiple of the last probe's length. The multiple begins anew at
 * UNSURE with each result that is not confirmed, and with each doubt. Each later probe doubles it,
 * up to LAST. While trials find the budget (knee.h), it is at least PRICE if the estimate is
 * confirmed and not doubted: an exchange rate needs less precision than a target, and a probe
 * beside writers takes 36 ms. The least multiple for probes that are called for (tg_depth.soonest)
 * begins at UNSURE too.
 */
#define TG_DEPTH_SPACING_UNSURE 8
#define TG_DEPTH_SPACING_PRICE 64
#define TG_DEPTH_SPACING_LAST 256

/*
 * A device that answers a quarter of its requests sooner than this, in ns, has no queue inside.
 * The submitting CPU does all the work, so a late request has waited for a CPU. A quarter
 * suffices, because the others may also have waited for a CPU. Fewer do not suffice, because
 * any device may refuse a few requests within this time.
 */
#define TG_DEPTH_AT_ONCE 5000

/* The first and the largest budget, in ns. */
#define TG_DEPTH_FIRST 500000ull
#define TG_DEPTH_MAX 4000000000ull

/**
 * struct tg_depth_samples - timed requests, until there are enough for a result
 * @nr: number of these requests so far
 * @latency: their latencies, in ns
 */
struct tg_depth_samples {
	u32 nr;
	u64 latency[TG_DEPTH_PROBE_SAMPLES];
};

/**
 * struct tg_depth - the results of probes, and the budget for a target
 * @budget: cost that bulk may have in the device, in ns; TG_DEPTH_FIRST at first. All other fields
 *	are zero at first.
 * @rest: a fraction of 1 ns that requests which met the target have given back, and that @budget
 *	does not have yet; in units of 1 / (TG_DEPTH_RARE - 1) ns
 * @missed: a request has taken longer than the target
 * @known: @mean and @spread have values
 * @confirmed: a second result has confirmed @mean and @spread; reset with the last doubt
 *	(TG_DEPTH_DOUBTS)
 * @doubts: number of doubts that no later probe has taken back (TG_DEPTH_DOUBTS)
 * @mean: service time of urgent requests without bulk in the device, in ns
 * @spread: mean distance of these service times from @mean, in ns
 * @at_once: a quarter of the last result's samples were below TG_DEPTH_AT_ONCE. If a confirmed
 *	@mean is at least twice that, this field is only set by the last doubt (TG_DEPTH_DOUBTS)
 * @spacing: time from the last probe to the next, as a multiple of the last probe's length
 * @in_probes: samples taken in probes, since such samples last gave a result
 * @between: samples taken while there was no bulk, since such samples last gave a result
 * @nr_beside: number of samples beside bulk in the present batch
 * @beside: the sum of their latencies, in ns
 * @faster: number of batches beside bulk, in a row up to now, with means below @mean
 * @called: the next probe was called for (TG_DEPTH_FASTER)
 * @soonest: the least time to a probe that is called for, as a multiple of the last probe's length;
 *	0: TG_DEPTH_SPACING_UNSURE
 */
struct tg_depth {
	u64 budget;
	u64 rest;
	bool missed;
	bool known;
	bool confirmed;
	u32 doubts;
	u64 mean;
	u64 spread;
	bool at_once;
	u32 spacing;
	struct tg_depth_samples in_probes;
	struct tg_depth_samples between;
	u32 nr_beside;
	u64 beside;
	u32 faster;
	bool called;
	u32 soonest;
};

/**
 * tg_depth_target() - the latency that few urgent requests may exceed
 * @depth: the estimates of their latency without bulk
 * @factor_pct: the target as a multiple of their 99th percentile without bulk, in hundredths
 *
 * The 99th percentile without bulk is taken to be three times tg_depth.spread above the mean. In a
 * uniform distribution it is two times the spread above the mean, in an exponential one five times.
 *
 * Return: ns
 */
static inline u64 tg_depth_target(const struct tg_depth *depth, u32 factor_pct)
{
	return div64_u64((depth->mean + 3 * depth->spread) * factor_pct, 100);
}

static inline u64 tg_depth_follow(u64 estimate, u64 value)
{
	return value < estimate ?
	       estimate - ((estimate - value) >> TG_DEPTH_DOWN_SHIFT) :
	       estimate + ((value - estimate) >> TG_DEPTH_UP_SHIFT);
}

/* Return the least time to a probe that is called for, as a multiple of the last probe's length. */
static inline u32 tg_depth_soonest(const struct tg_depth *depth)
{
	return clamp_t(u32, depth->soonest, TG_DEPTH_SPACING_UNSURE, TG_DEPTH_SPACING_LAST);
}

/* Learn from a probe's @mean whether it was right to call for the probe. */
static inline void tg_depth_answer(struct tg_depth *depth, u64 mean)
{
	if (4 * mean < TG_DEPTH_CALLED_FOR * depth->mean)
		depth->soonest = 0;
	else if (depth->called)
		depth->soonest = 2 * tg_depth_soonest(depth);
	depth->called = false;
	depth->nr_beside = 0;
	depth->beside = 0;
	depth->faster = 0;
}

/**
 * tg_depth_alone() - learn from a request that met no bulk
 * @depth: the estimates; updated
 * @latency: from dispatch to completion, in ns
 * @probe: a probe keeps bulk out; otherwise there is no bulk
 *
 * Every 16 samples taken in probes give a result, and so do every 16 taken while there is no bulk.
 * The two kinds are kept apart, because only samples of probes may raise a doubt. If urgent
 * requests are rare, a result needs the samples of several probes.
 *
 * Estimates follow shorter latencies soon and longer ones slowly: a device that is still emptying
 * its write buffer must not be taken for a slow one. Until an estimate is confirmed, each result
 * that does not confirm the estimate replaces it.
 *
 * Return: true if this was the last sample of a result
 */
static inline bool tg_depth_alone(struct tg_depth *depth, u64 latency, bool probe)
{
	struct tg_depth_samples *samples = probe ? &depth->in_probes : &depth->between;
	u64 mean = 0, spread = 0;
	bool contradicts, at_once, odd;
	u32 i, quick = 0;

	samples->latency[samples->nr++] = latency;
	if (samples->nr < TG_DEPTH_PROBE_SAMPLES)
		return false;
	samples->nr = 0;

	for (i = 0; i < TG_DEPTH_PROBE_SAMPLES; i++) {
		mean += samples->latency[i];
		quick += samples->latency[i] < TG_DEPTH_AT_ONCE;
	}
	mean /= TG_DEPTH_PROBE_SAMPLES;
	for (i = 0; i < TG_DEPTH_PROBE_SAMPLES; i++)
		spread += max_t(u64, samples->latency[i], mean) -
			  min_t(u64, samples->latency[i], mean);
	spread /= TG_DEPTH_PROBE_SAMPLES;

	if (probe)
		tg_depth_answer(depth, mean);
	at_once = 4 * quick >= TG_DEPTH_PROBE_SAMPLES;
	odd = at_once && depth->confirmed && !depth->at_once &&
	      depth->mean >= TG_DEPTH_DOUBTED * TG_DEPTH_AT_ONCE;
	if (odd && !probe)
		return true;
	contradicts = probe && depth->confirmed &&
		      (TG_DEPTH_DOUBTED * mean < depth->mean || odd);
	if (contradicts && ++depth->doubts < TG_DEPTH_DOUBTS) {
		depth->spacing = 0;
		return true;
	}
	if (probe && !contradicts && depth->doubts) {
		depth->doubts--;
		if (!at_once)
			depth->at_once = false;
		if (mean > depth->mean)
			return true;
	}
	depth->at_once = at_once;
	if (contradicts) {
		depth->doubts = 0;
		depth->confirmed = false;
	} else if (!depth->confirmed) {
		depth->confirmed = depth->known && 4 * (mean + 3 * spread) >=
				   TG_DEPTH_CONFIRMED * tg_depth_target(depth, 100);
	}
	if (!depth->confirmed)
		depth->spacing = 0;
	depth->mean = depth->confirmed ? tg_depth_follow(depth->mean, mean) : mean;
	depth->spread = depth->confirmed ? tg_depth_follow(depth->spread, spread) : spread;
	depth->known = true;
	return true;
}

/**
 * tg_depth_beside() - compare requests beside bulk with those without it
 * @depth: the estimates of requests without bulk; updated
 * @latency: of a request beside bulk, from dispatch to completion, in ns
 *
 * Return: true if TG_DEPTH_FASTER batches in a row were faster, so that they call for a probe
 */
static inline bool tg_depth_beside(struct tg_depth *depth, u64 latency)
{
	depth->beside += latency;
	if (++depth->nr_beside < TG_DEPTH_PROBE_SAMPLES)
		return false;
	if (depth->beside < TG_DEPTH_PROBE_SAMPLES * depth->mean)
		depth->faster++;
	else
		depth->faster = 0;
	depth->nr_beside = 0;
	depth->beside = 0;
	if (depth->faster < TG_DEPTH_FASTER)
		return false;
	depth->faster = 0;
	depth->called = true;
	return true;
}

/*
 * Return the time until the next probe, as a multiple of the length of the probe that just ended.
 * It is at least @least if the estimate is confirmed and not doubted.
 */
static inline u32 tg_depth_spacing(struct tg_depth *depth, u32 least)
{
	depth->spacing = clamp_t(u32, 2 * depth->spacing,
				 depth->confirmed && !depth->doubts ? least :
								       TG_DEPTH_SPACING_UNSURE,
				 TG_DEPTH_SPACING_LAST);
	return depth->spacing;
}

/**
 * tg_depth_judge() - learn from an urgent request
 * @depth: the estimates; its budget is updated
 * @late: the request took longer than the target
 * @limited: bulk would have used more than the budget
 * @least: the smallest budget to set, with which bulk still goes now and then, in ns
 *
 * The budget's expected change is zero if 1 request in TG_DEPTH_RARE is late (stochastic
 * approximation of a quantile). tg_depth.rest keeps this true for a small budget, to which one
 * request gives back less than 1 ns. Until the first request is late, each request raises the
 * budget by 1/16 if @limited. A device without a queue has no limit.
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
 * tg_depth_gap() - the pause of bulk after one of its requests, unless bulk gets a grant
 * @budget: the limit on the cost of bulk, in ns
 * @floor: the average cost of a request of bulk, in ns
 * @cost: cost of the request that was just sent, in ns
 *
 * A drive completes a write once the data is in its write buffer. It writes the data to the flash
 * later, and this delays reads. A limit on the requests in the device does not limit this later
 * work. So if the budget is below the cost of one request, bulk may use @budget / @floor of the
 * time.
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
 * @budget: the limit on the cost of bulk in the device, in ns
 * @inside: cost of bulk in the device, in ns
 *
 * Bulk gets the unused part of its budget, less its debt. So even with a budget below the
 * cost of one request, a request goes now and then.
 *
 * Return: ns of cost; 0 or less lets nothing in
 */
static inline s64 tg_depth_grant(s64 granted, u64 budget, u64 inside)
{
	return min_t(s64, granted, 0) + (s64)(budget - min_t(u64, budget, inside));
}

/**
 * tg_depth_charge() - charge a dispatched request of bulk to the grant
 * @granted: the rest of the grant, or the debt (below 0), in ns of cost
 * @gated: bulk needs grants
 * @cost: cost of the request, in ns
 *
 * The debt is at most this request's cost, even if no urgent request comes and bulk goes again and
 * again without a grant. While bulk needs no grant, it has no debt. Without these two rules, debts
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
 * @budget: the budget when the last urgent request came, in ns
 * @quiet_ms: time since the last urgent request, in ms
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
