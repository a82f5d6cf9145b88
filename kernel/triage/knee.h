/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The knee: the budget from which on more protection stops being worth what it costs.
 *
 * A target says what is wanted, not what it costs. Where one read in fifteen meets a
 * program of the die that it wants, say, a smaller budget changes next to nothing, and a
 * controller that knows only the target cuts it for ever. So this one asks what a budget
 * is worth:
 *
 *	worth = ln(bulk served a second) - exchange * (slow requests' latency / alone)
 *
 * which is throughput less delay at a price, as in the theory of congestion control. Now
 * and then the budget is tried half an octave larger and smaller, for as long as it takes
 * to tell, and what is worth more is kept. Only differences decide, and both sides of one
 * are measured beside bulk. So what bulk has no part in (slow reads of the device's own,
 * flushes, garbage collection, requests that never come to a scheduler) is on both and
 * cancels.
 *
 * Pure functions that also compile in user space, where they are tested with models.
 */
#ifndef TG_KNEE_H
#define TG_KNEE_H

#include "depth.h"
#include "pure.h"

/* log2, and what a budget is worth, are in 1/1024 of an octave. */
#define TG_KNEE_ONE 1024
#define TG_KNEE_HALF_OCTAVE_UP 1448	/* sqrt(2) * 1024 */
#define TG_KNEE_HALF_OCTAVE_DOWN 724

/*
 * What requests take is counted in eighths of an octave above what a slow one takes alone.
 * 16 times that and more count as 16 times: a few that take long would hide the others.
 */
#define TG_KNEE_BIN_SHIFT 7
#define TG_KNEE_BINS 32

/* So many requests are a trial: of the slowest eighth these are 20; */
#define TG_KNEE_DWELL 160
/* one of so many is slow; */
#define TG_KNEE_SLOWEST 8
/* and what was seen before weighs no more than so many. */
#define TG_KNEE_KEPT 1024
/* A trial is given up that meets so many times as many requests without bulk that waits. */
#define TG_KNEE_PATIENCE 4
/* After so many a trial ends that is worse, or a smaller budget is kept that is better, by: */
#define TG_KNEE_GLANCE 32
#define TG_KNEE_PLAINLY 256
/* More budget has to be worth so much more. */
#define TG_KNEE_MARGIN 32
/*
 * From a trial that failed to the next of its kind, in times that it took: trials that fail
 * are 3 % of the time at first, then 1 in 500 or less.
 */
#define TG_KNEE_SPACING_FIRST 32
#define TG_KNEE_SPACING_GROWTH 4
#define TG_KNEE_SPACING_LAST 512
/* What is worth so much more or less than when the last trial ended is something else. */
#define TG_KNEE_CHANGED 768
/* After a pause of this nothing is as it was; ns. */
#define TG_KNEE_FORGET 1000000000ull
/* A longer pause between two requests says nothing of what bulk had meanwhile; ns. */
#define TG_KNEE_PAUSE 32000000ull

/**
 * struct tg_knee_seen - what was seen with one budget
 * @n: urgent requests, beside bulk that would have used more
 * @time: from each to the one before, in ns
 * @work: of bulk that was served in that time, in ns of cost
 * @bins: how many took how much
 */
struct tg_knee_seen {
	u32 n;
	u64 time;
	u64 work;
	u32 bins[TG_KNEE_BINS];
};

enum tg_knee_place {
	TG_KNEE_BELOW,
	TG_KNEE_HERE,
	TG_KNEE_ABOVE,
	TG_KNEE_PLACES,
};

/**
 * struct tg_knee - what is known of the knee; all zero to begin with
 * @budget: the best that is known, in ns; 0 before the first use
 * @at: HERE, or which other budget is tried
 * @seen: with this budget and its two neighbours
 * @wait: requests until the next trial of a neighbour
 * @spacing: from its last to its next one, in times that it takes
 * @took: requests since the trial began
 * @counted: those of them that count
 * @worth: of the budget when it was last judged
 * @last_at: when a request was last seen, in ns; 0: there was something in between
 * @last_work: what bulk had been served by then
 * @settled_at: what is seen before is not counted; ns
 * @trials: how many there were
 * @taken: those of them that found something better
 */
struct tg_knee {
	u64 budget;
	u8 at;
	struct tg_knee_seen seen[TG_KNEE_PLACES];
	u32 wait[TG_KNEE_PLACES];
	u32 spacing[TG_KNEE_PLACES];
	u32 took;
	u32 counted;
	s32 worth;
	u64 last_at;
	u64 last_work;
	u64 settled_at;
	unsigned long trials;
	unsigned long taken;
};

/**
 * struct tg_knee_sample - one urgent request beside bulk
 * @latency: ns
 * @alone: what a slow one takes alone, in ns
 * @limited: bulk would have used more than the budget
 * @now: ns
 * @work: what bulk has been served so far, in ns of cost
 * @enough: so much of it tells how fast it is served
 * @least: the budget at which bulk just goes on, in ns
 * @settle: for how long the device feels what it was given before, in ns
 * @exchange: how many per cent more of bulk once more @alone has to give
 */
struct tg_knee_sample {
	u64 latency;
	u64 alone;
	bool limited;
	u64 now;
	u64 work;
	u64 enough;
	u64 least;
	u64 settle;
	u32 exchange;
};

/* 1024 log2(x), within 9; 0 for 0. */
static inline s32 tg_knee_log2(u64 x)
{
	u32 whole, part;

	if (!x)
		return 0;
	whole = ilog2(x);
	part = (whole > 10 ? x >> (whole - 10) : x << (10 - whole)) & 1023;
	/* log2(1 + f) is about f + 0.343 f (1 - f). */
	return whole * TG_KNEE_ONE + part + ((part * (1024 - part) / 1024 * 351) >> 10);
}

static inline void tg_knee_halve(struct tg_knee_seen *seen)
{
	u32 i;

	seen->n = 0;
	for (i = 0; i < TG_KNEE_BINS; i++) {
		seen->bins[i] /= 2;
		seen->n += seen->bins[i];
	}
	seen->time /= 2;
	seen->work /= 2;
}

static inline void tg_knee_count(struct tg_knee_seen *seen, const struct tg_knee_sample *sample,
				 u64 time, u64 work)
{
	const s32 beyond = tg_knee_log2(sample->latency) - tg_knee_log2(sample->alone);

	seen->bins[clamp_t(s32, beyond >> TG_KNEE_BIN_SHIFT, 0, TG_KNEE_BINS - 1)]++;
	seen->n++;
	seen->time += time;
	seen->work += work;
	if (seen->n >= TG_KNEE_KEPT)
		tg_knee_halve(seen);
}

/* Return what requests of a bin take, in 1024th of what a slow one takes alone. */
static inline u32 tg_knee_ratio(u32 bin)
{
	/* 1024 * 2^((2 i + 1) / 16) */
	static const u16 eighths[] = { 1069, 1166, 1272, 1387, 1512, 1649, 1798, 1961 };

	return bin ? (u32)eighths[bin % 8] << bin / 8 : TG_KNEE_ONE;
}

/*
 * Return what the slowest take on average, in 1024th of what a slow one takes alone: an
 * expected shortfall. It changes with all of them. A quantile jumps where latencies have
 * steps, and those of a device that serves one request at a time have.
 */
static inline u32 tg_knee_slow(const struct tg_knee_seen *seen)
{
	const u32 slowest = max_t(u32, seen->n / TG_KNEE_SLOWEST, 1);
	u32 left = slowest, sum = 0, bin;

	for (bin = TG_KNEE_BINS; bin-- && left;) {
		const u32 n = min_t(u32, seen->bins[bin], left);

		sum += n * tg_knee_ratio(bin);
		left -= n;
	}
	return sum / slowest;
}

static inline s32 tg_knee_worth(const struct tg_knee_seen *seen, u32 exchange)
{
	/* Per cent of throughput are of a natural logarithm: 1.443 of one to base 2. */
	return tg_knee_log2(seen->work) - tg_knee_log2(seen->time) -
	       (s32)div64_u64((u64)tg_knee_slow(seen) * exchange * 1443, 100000);
}

/* Return the budget that bulk may have now. */
static inline u64 tg_knee_budget(const struct tg_knee *knee)
{
	switch (knee->at) {
	case TG_KNEE_BELOW:
		return knee->budget * TG_KNEE_HALF_OCTAVE_DOWN / 1024;
	case TG_KNEE_ABOVE:
		return knee->budget * TG_KNEE_HALF_OCTAVE_UP / 1024;
	default:
		return knee->budget;
	}
}

/* Look for the knee anew, from where the budget is. */
static inline void tg_knee_anew(struct tg_knee *knee)
{
	u32 i;

	for (i = 0; i < TG_KNEE_PLACES; i++) {
		knee->wait[i] = 0;
		knee->spacing[i] = 0;
	}
	knee->seen[TG_KNEE_BELOW] = (struct tg_knee_seen){};
	knee->seen[TG_KNEE_ABOVE] = (struct tg_knee_seen){};
}

static inline void tg_knee_go(struct tg_knee *knee, enum tg_knee_place at, u64 now, u64 settle)
{
	knee->at = at;
	knee->took = 0;
	knee->counted = 0;
	knee->settled_at = now + settle;
}

/* A trial begins; what was seen there before counts half. */
static inline void tg_knee_try(struct tg_knee *knee, enum tg_knee_place at,
			       const struct tg_knee_sample *sample)
{
	knee->trials++;
	tg_knee_halve(&knee->seen[at]);
	tg_knee_go(knee, at, sample->now, sample->settle);
}

/* The trial found nothing better, or nothing: the next one waits longer. */
static inline void tg_knee_back(struct tg_knee *knee, const struct tg_knee_sample *sample)
{
	const enum tg_knee_place at = knee->at;

	knee->spacing[at] = clamp_t(u32, TG_KNEE_SPACING_GROWTH * knee->spacing[at],
				    TG_KNEE_SPACING_FIRST, TG_KNEE_SPACING_LAST);
	knee->wait[at] = knee->spacing[at] * knee->took;
	tg_knee_go(knee, TG_KNEE_HERE, sample->now, sample->settle);
}

/* What was tried is kept: what was the best is its neighbour. */
static inline void tg_knee_keep(struct tg_knee *knee, const struct tg_knee_sample *sample)
{
	const enum tg_knee_place at = knee->at;
	const enum tg_knee_place behind = TG_KNEE_PLACES - 1 - at;

	knee->taken++;
	knee->budget = tg_knee_budget(knee);
	knee->seen[behind] = knee->seen[TG_KNEE_HERE];
	knee->seen[TG_KNEE_HERE] = knee->seen[at];
	knee->seen[at] = (struct tg_knee_seen){};
	knee->spacing[at] = 0;
	knee->wait[at] = 0;
	knee->spacing[behind] = TG_KNEE_SPACING_FIRST;
	knee->wait[behind] = TG_KNEE_SPACING_FIRST * knee->took;
	tg_knee_go(knee, TG_KNEE_HERE, sample->now, 0);
}

static inline bool tg_knee_done(const struct tg_knee *knee, u64 enough)
{
	const struct tg_knee_seen *seen = &knee->seen[knee->at];

	return seen->n >= TG_KNEE_DWELL && knee->counted >= TG_KNEE_DWELL / 2 &&
	       seen->work >= enough;
}

static inline void tg_knee_judge(struct tg_knee *knee, const struct tg_knee_sample *sample)
{
	const s32 here = tg_knee_worth(&knee->seen[TG_KNEE_HERE], sample->exchange);
	const struct tg_knee_seen *seen = &knee->seen[knee->at];
	const bool done = tg_knee_done(knee, sample->enough);
	const s32 won = tg_knee_worth(seen, sample->exchange) - here;
	bool better;

	if (!done && (knee->counted % TG_KNEE_GLANCE || seen->work < sample->enough / 4))
		return;
	/* Where nothing is won by more, less is as good to bulk, and better to others. */
	better = won > (!done ? TG_KNEE_PLAINLY : knee->at == TG_KNEE_ABOVE ? TG_KNEE_MARGIN : 0);
#ifdef TG_KNEE_TRACE
	TG_KNEE_TRACE(knee, sample, won, done, better);
#endif
	if (better) {
		knee->worth = here + won;
		tg_knee_keep(knee, sample);
	} else if (done || won < -(knee->at == TG_KNEE_ABOVE ? TG_KNEE_MARGIN :
							       TG_KNEE_PLAINLY)) {
		knee->worth = here;
		tg_knee_back(knee, sample);
	}
}

/* Which neighbour is due for a trial, if any. */
static inline enum tg_knee_place tg_knee_due(const struct tg_knee *knee, u64 least)
{
	if (!knee->wait[TG_KNEE_BELOW] && knee->budget * TG_KNEE_HALF_OCTAVE_DOWN / 1024 >= least)
		return TG_KNEE_BELOW;
	if (!knee->wait[TG_KNEE_ABOVE] && knee->budget <= TG_DEPTH_MAX / 2)
		return TG_KNEE_ABOVE;
	return TG_KNEE_HERE;
}

static inline void tg_knee_rest(struct tg_knee *knee, const struct tg_knee_sample *sample)
{
	const struct tg_knee_seen *seen = &knee->seen[TG_KNEE_HERE];
	enum tg_knee_place due;
	s32 worth;

	if (knee->wait[TG_KNEE_BELOW])
		knee->wait[TG_KNEE_BELOW]--;
	if (knee->wait[TG_KNEE_ABOVE])
		knee->wait[TG_KNEE_ABOVE]--;
	if (!tg_knee_done(knee, sample->enough))
		return;
	if (seen->n % 256 == 0) {
		worth = tg_knee_worth(seen, sample->exchange);
		if (worth > knee->worth + TG_KNEE_CHANGED ||
		    worth < knee->worth - TG_KNEE_CHANGED) {
			tg_knee_anew(knee);
			knee->worth = worth;
		}
	}
	due = tg_knee_due(knee, sample->least);
	if (due != TG_KNEE_HERE)
		tg_knee_try(knee, due, sample);
}

/* There was something else than bulk with its budget: the time until now tells nothing. */
static inline void tg_knee_interrupt(struct tg_knee *knee)
{
	knee->last_at = 0;
}

/**
 * tg_knee_see() - learn from an urgent request beside bulk
 * @knee: what is known; its budget is set
 * @sample: the request
 */
static inline void tg_knee_see(struct tg_knee *knee, const struct tg_knee_sample *sample)
{
	const u64 last = knee->last_at;
	const u64 time = sample->now - last;
	const u64 work = (sample->work - knee->last_work) & ((1ull << 40) - 1);

	knee->last_at = sample->now;
	knee->last_work = sample->work;
	knee->budget = clamp_t(u64, knee->budget, sample->least, TG_DEPTH_MAX);
	if (last && time > TG_KNEE_FORGET) {
		knee->seen[TG_KNEE_HERE] = (struct tg_knee_seen){};
		tg_knee_anew(knee);
		tg_knee_go(knee, TG_KNEE_HERE, sample->now, 0);
		return;
	}
	knee->took++;
	if (!last || time > TG_KNEE_PAUSE || sample->now < knee->settled_at)
		return;
	if (sample->limited) {
		knee->counted++;
		tg_knee_count(&knee->seen[knee->at], sample, time, work);
	}
	if (knee->at == TG_KNEE_HERE)
		tg_knee_rest(knee, sample);
	else if (knee->took > TG_KNEE_PATIENCE * TG_KNEE_DWELL &&
		 knee->counted < knee->took / TG_KNEE_PATIENCE)
		tg_knee_back(knee, sample);
	else
		tg_knee_judge(knee, sample);
}

#endif
