/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds the knee: the budget below which more protection costs more than it is worth.
 *
 * A target ignores the cost of protection. For example, one read in fifteen may find its
 * flash die busy with a write. Then a smaller budget changes next to nothing, but a
 * controller that knows only the target would lower the budget for ever. So this controller
 * compares the worth of budgets:
 *
 *	worth = ln(bulk served a second) - exchange * (slow requests' latency / alone)
 *
 * Here "alone" is the latency of a slow request without bulk. The worth is throughput minus delay
 * at a price, as in the theory of congestion control. Now and then the controller tries a budget
 * larger or smaller by half an octave (a factor of 1.41). A trial goes on until it is clear which
 * of the two budgets is worth more. The controller keeps that budget. Only the difference of two
 * worths decides, and both are measured beside bulk. So delays that bulk does not cause are in both
 * and cancel: the device's own slow reads, flushes, garbage collection, and requests that bypass
 * the scheduler.
 *
 * Pure functions that also compile in user space, where they are tested with models.
 */
#ifndef TG_KNEE_H
#define TG_KNEE_H

#include "depth.h"
#include "pure.h"

/* An octave, a factor of 2. Logarithms and a budget's worth are in 1/1024 of an octave. */
#define TG_KNEE_ONE 1024
#define TG_KNEE_HALF_OCTAVE_UP 1448	/* sqrt(2) * 1024 */
#define TG_KNEE_HALF_OCTAVE_DOWN 724

/*
 * Bins of latencies, each an eighth of an octave wide. The first begins at a slow request's latency
 * without bulk, and also counts shorter latencies. The last begins at 59 times that latency, and
 * counts all longer ones alike: otherwise a few very long ones would hide the others.
 */
#define TG_KNEE_BIN_SHIFT 7
#define TG_KNEE_BINS 48

/*
 * A budget is judged by at least this many counted requests, of which half must be new. The slowest
 * eighth of them is 20 requests.
 */
#define TG_KNEE_DWELL 160
/* The slow requests are the slowest one in this many. */
#define TG_KNEE_SLOWEST 8
/*
 * The counts of a budget are halved once they have this many requests, and twice the bulk that a
 * judgement needs. So earlier requests weigh less, and half of the counts still suffices. At MOST
 * times this number of requests the counts are halved in any case.
 */
#define TG_KNEE_KEPT 1024
#define TG_KNEE_MOST 64
/*
 * A trial fails if it cannot be judged, although more than PATIENCE * DWELL requests came since the
 * device settled. Either fewer than 1 in PATIENCE of these requests were counted (tg_knee.counted):
 * the budget did not limit bulk, or requests came too rarely. Or MOST * KEPT requests were counted,
 * and bulk still moved too little.
 */
#define TG_KNEE_PATIENCE 4
/*
 * After every GLANCE counted requests a trial may end early, once a quarter of the bulk that a
 * judgement needs was served. It ends if the two budgets' worths differ by more than PLAINLY. A
 * larger budget already fails if its worth is less by more than MARGIN.
 */
#define TG_KNEE_GLANCE 32
#define TG_KNEE_PLAINLY 256
/* A larger budget must be worth more than the best known one by this. */
#define TG_KNEE_MARGIN 32
/*
 * The time from a failed trial to the next trial of the same place (below or above), as a multiple
 * of the trial's length in requests. The multiple grows with each failure. So failed trials take
 * 3 % of all requests at first, and 1 in 500 later.
 */
#define TG_KNEE_SPACING_FIRST 32
#define TG_KNEE_SPACING_GROWTH 4
#define TG_KNEE_SPACING_LAST 512
/*
 * The search begins anew if the best budget's worth has changed by more than this since the last
 * trial.
 */
#define TG_KNEE_CHANGED 768
/* The search begins anew if no urgent request came for longer than this, in ns. */
#define TG_KNEE_FORGET 1000000000ull
/*
 * Bulk's throughput is not measured between two urgent requests that are further apart than this,
 * in ns.
 */
#define TG_KNEE_PAUSE 32000000ull

/**
 * struct tg_knee_seen - the urgent requests counted with one budget
 * @n: number of urgent requests that came while the budget limited bulk
 * @time: sum over these requests of the time since the request before, in ns
 * @work: cost of the bulk that was served in this time, in ns
 * @bins: number of these requests by latency
 */
struct tg_knee_seen {
	u32 n;
	u64 time;
	u64 work;
	u32 bins[TG_KNEE_BINS];
};

/*
 * The places of three budgets: the best known one is HERE, a budget half an octave smaller is
 * BELOW, and one half an octave larger is ABOVE. A trial compares BELOW or ABOVE with HERE. A
 * search begins at HERE.
 */
enum tg_knee_place {
	TG_KNEE_HERE,
	TG_KNEE_BELOW,
	TG_KNEE_ABOVE,
	TG_KNEE_PLACES,
};

/**
 * struct tg_knee - the search for the knee; all zero to begin with
 * @budget: the best known budget, in ns; 0: the search has not begun
 * @at: the place of the budget in use: HERE, or BELOW or ABOVE during a trial
 * @seen: the requests counted with @budget, and with the budgets below and above it
 * @wait: by place, number of requests until the next trial there
 * @spacing: by place, time from the last trial to the next trial there, as a multiple of the last
 *	trial's length
 * @took: number of requests since a trial last began or ended
 * @settling: how many of the @took requests came before @settled_at
 * @counted: how many of the @took requests came later, while the budget limited bulk. A request
 *	does not count if it came more than TG_KNEE_PAUSE after the one before, or was the first
 *	after a probe or after a pause of bulk (tg_knee_interrupt())
 * @worth: worth of @budget after the last trial, in 1/1024 of an octave
 * @last_at: when the last request came, in ns; 0: the time since then does not count
 * @last_work: cost of all bulk served until then, in ns
 * @settled_at: requests before this time do not count; ns
 * @trials: number of trials; tg_knee_forget() keeps this field and the next
 * @taken: number of trials that found a better budget
 */
struct tg_knee {
	u64 budget;
	u8 at;
	struct tg_knee_seen seen[TG_KNEE_PLACES];
	u32 wait[TG_KNEE_PLACES];
	u32 spacing[TG_KNEE_PLACES];
	u32 took;
	u32 settling;
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
 * @latency: latency of the request, in ns
 * @alone: latency of a slow urgent request without bulk, in ns
 * @limited: bulk would have used more than the budget
 * @now: ns
 * @work: cost of the bulk served so far, in ns
 * @enough: cost of the bulk that must be served with one budget before bulk's throughput can be
 *	judged, in ns
 * @least: the smallest budget to try, with which bulk still goes now and then, in ns
 * @settle: how long earlier requests may still affect the device, in ns
 * @exchange: the gain of bulk, in %, that is worth a delay of @alone
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

/* Return 1024 log2(x), with an error of 9 at most; 0 for 0. */
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
	if (seen->n >= TG_KNEE_KEPT && (seen->work >= 2 * sample->enough ||
					seen->n >= TG_KNEE_MOST * TG_KNEE_KEPT))
		tg_knee_halve(seen);
}

/* Return a bin's latency, in 1/1024 of a slow request's latency without bulk. */
static inline u32 tg_knee_ratio(u32 bin)
{
	/* 1024 * 2^((2 i + 1) / 16) */
	static const u16 eighths[] = { 1069, 1166, 1272, 1387, 1512, 1649, 1798, 1961 };

	return bin ? (u32)eighths[bin % 8] << bin / 8 : TG_KNEE_ONE;
}

/*
 * Return the mean latency of the slowest requests (an expected shortfall). Its unit is 1/1024 of a
 * slow request's latency without bulk. The mean changes with each of these latencies. A quantile
 * would jump where latencies have steps: for example, on a device that serves one request at a
 * time.
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
	/*
	 * @exchange is in per cent of a natural logarithm. A difference of 1 in ln is 1.443 in
	 * log2.
	 */
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

/* Restart the search at the best known budget. */
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

/* Forget the search: its worths were computed with a latency without bulk that is not confirmed. */
static inline void tg_knee_forget(struct tg_knee *knee)
{
	memset(knee, 0, offsetof(struct tg_knee, trials));
}

static inline void tg_knee_go(struct tg_knee *knee, enum tg_knee_place at, u64 now, u64 settle)
{
	knee->at = at;
	knee->took = 0;
	knee->settling = 0;
	knee->counted = 0;
	knee->settled_at = now + settle;
}

/* Begin a trial of the budget at @at. Halve its earlier counts, so that new requests weigh more. */
static inline void tg_knee_try(struct tg_knee *knee, enum tg_knee_place at,
			       const struct tg_knee_sample *sample)
{
	knee->trials++;
	tg_knee_halve(&knee->seen[at]);
	tg_knee_go(knee, at, sample->now, sample->settle);
}

/* End a trial that found no better budget. The next trial of the same place comes later. */
static inline void tg_knee_back(struct tg_knee *knee, const struct tg_knee_sample *sample)
{
	const enum tg_knee_place at = knee->at;

	knee->spacing[at] = clamp_t(u32, TG_KNEE_SPACING_GROWTH * knee->spacing[at],
				    TG_KNEE_SPACING_FIRST, TG_KNEE_SPACING_LAST);
	knee->wait[at] = knee->spacing[at] * knee->took;
	tg_knee_go(knee, TG_KNEE_HERE, sample->now, sample->settle);
}

/* End a trial with a better budget, and keep this one. The former best becomes its neighbour. */
static inline void tg_knee_keep(struct tg_knee *knee, const struct tg_knee_sample *sample)
{
	const enum tg_knee_place at = knee->at;
	const enum tg_knee_place behind = at == TG_KNEE_BELOW ? TG_KNEE_ABOVE : TG_KNEE_BELOW;

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

/* End a trial if it has counted enough. Called once for each request that the trial counts. */
static inline void tg_knee_judge(struct tg_knee *knee, const struct tg_knee_sample *sample)
{
	const s32 here = tg_knee_worth(&knee->seen[TG_KNEE_HERE], sample->exchange);
	const struct tg_knee_seen *seen = &knee->seen[knee->at];
	const bool done = tg_knee_done(knee, sample->enough);
	const s32 won = tg_knee_worth(seen, sample->exchange) - here;
	bool better;

	if (!done && (knee->counted % TG_KNEE_GLANCE || seen->work < sample->enough / 4))
		return;
	/*
	 * A larger budget must be worth more by a margin. A smaller budget needs no margin: in
	 * doubt, prefer the budget that protects urgent requests.
	 */
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

/* Return the place whose budget is due for a trial, BELOW or ABOVE. Return HERE if none is due. */
static inline enum tg_knee_place tg_knee_due(const struct tg_knee *knee, u64 least)
{
	if (!knee->wait[TG_KNEE_BELOW] && knee->budget * TG_KNEE_HALF_OCTAVE_DOWN / 1024 >= least)
		return TG_KNEE_BELOW;
	if (!knee->wait[TG_KNEE_ABOVE] && knee->budget <= TG_DEPTH_MAX / 2)
		return TG_KNEE_ABOVE;
	return TG_KNEE_HERE;
}

/*
 * Begin a trial if one is due. But do not begin one while the budget does not limit bulk, because
 * that trial might end without a judgement. Restart the search if the best budget's worth has
 * changed.
 */
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
	if (due != TG_KNEE_HERE && sample->limited)
		tg_knee_try(knee, due, sample);
}

/* Return whether a trial cannot be judged. */
static inline bool tg_knee_is_stuck(const struct tg_knee *knee)
{
	const u32 took = knee->took - knee->settling;

	if (knee->at == TG_KNEE_HERE || took <= TG_KNEE_PATIENCE * TG_KNEE_DWELL)
		return false;
	return knee->counted < took / TG_KNEE_PATIENCE ||
	       knee->counted >= TG_KNEE_MOST * TG_KNEE_KEPT;
}

/*
 * Return whether a probe may begin. It may not during a trial, because it would interrupt the
 * trial. But while the device answers @at_once, a trial does not go on anyway, and only a probe can
 * find that the device has a queue again.
 */
static inline bool tg_knee_rests(const struct tg_knee *knee, bool at_once)
{
	return at_once || knee->at == TG_KNEE_HERE;
}

/* Do not count the time since the last request: a probe kept bulk out, or no bulk came. */
static inline void tg_knee_interrupt(struct tg_knee *knee)
{
	knee->last_at = 0;
}

/**
 * tg_knee_see() - learn from an urgent request beside bulk
 * @knee: the search; its budget is not 0
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
	if (sample->now < knee->settled_at) {
		knee->settling++;
		return;
	}
	if (tg_knee_is_stuck(knee)) {
		tg_knee_back(knee, sample);
		return;
	}
	if (!last || time > TG_KNEE_PAUSE)
		return;
	if (sample->limited) {
		knee->counted++;
		tg_knee_count(&knee->seen[knee->at], sample, time, work);
	}
	if (knee->at == TG_KNEE_HERE)
		tg_knee_rest(knee, sample);
	else if (sample->limited)
		tg_knee_judge(knee, sample);
}

#endif
