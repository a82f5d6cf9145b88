/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A simulation of a modelled drive with a reader and bulk. The reader waits for each answer. Bulk
 * is background I/O that always has more requests. The code that limits bulk imitates triage's
 * budget.c, controller.c and costs.c. CPUs take no time, so latencies are those in the drive.
 */
#ifndef CLOSED_LOOP_H
#define CLOSED_LOOP_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "drive.h"
#include "expect.h"
#include "triage/cost.h"
#include "triage/knee.h"

#define MS 1000000ull
#define NEVER U64_MAX
#define MOST_REQUESTS 1024
#define MOST_LATENCIES 2000000
#define MOST_KEPT 10000
/*
 * Costs are learnt over windows of this length. In a busy window the drive always has BUSY requests
 * or more.
 */
#define WINDOW_NS (50 * MS)
#define BUSY 8

/* The parameters of a run. Unless a line says otherwise, a parameter of 0 has no effect. */
struct scene {
	const char *on;		/* the drive's name */
	bool full;		/* the drive is full from the beginning, see drive_new() */
	bool writes;		/* bulk writes */
	bool mixed;		/* about half of the requests of bulk write, at random */
	bool turns;		/* bulk reads for a second, then writes for a second, and so on */
	u32 kib;		/* size of a request of bulk */
	u32 depth;		/* requests of bulk at once, sent or waiting */
	u32 ms;			/* simulated time */
	u32 from_ms;		/* bulk and latencies count from this time on */
	u32 think_us;		/* the reader's time between an answer and the next request */
	u32 stall_permille;	/* per mille of the reader's requests that take @stall_us longer */
	u32 stall_us;
	u32 nap_us;		/* the reader's requests that meet no bulk take this much longer */
	double sigma;		/* the reader's requests take longer, by lognormal times with this
				 * sigma and a median of 40 us */
	u64 cliff;		/* threshold for @cliff_us: a cost of bulk in the drive, in ns */
	u32 cliff_us;		/* the reader's requests that meet more bulk than @cliff take this
				 * much longer */
	u32 pause_ms;		/* the reader reads for this time, pauses for as long, and so on */
	bool free;		/* nothing holds bulk back, and there are no probes */
	u64 cost;		/* cost of a request of bulk at first, in ns; 0: triage's guess */
	u64 fixed;		/* a fixed budget, in ns; 0: the controller's */
	u32 exchange;		/* the exchange rate, in %; 0: the controller has a target */
	u32 factor;		/* the target, in % of the latency without bulk */
	u64 mistaken;		/* before the run the controller gets @mistakes results of this
				 * latency without bulk, in ns */
	u32 mistakes;
	bool at_once;		/* during one trial the device begins to count as one that answers
				 * at once */
	u64 odd;		/* latency that a probe at half of @from_ms finds, in ns */
	u64 stale;		/* 500 ms before @from_ms the estimate of the latency without bulk
				 * becomes this, in ns */
};

struct run {
	double p50, p99;	/* percentiles of the reader's latencies, in us; @p99 is the longest
				 * one if there are fewer than 100 */
	double slow;		/* mean latency of the reader's slowest eighth of requests, in us */
	double bulk;		/* requests of bulk a second */
	double budget;		/* the last budget, in us */
	double alone;		/* estimate of a slow request's latency without bulk, in us */
	double median;		/* median of the best known budget in the second half of the run, in
				 * us, scaled as if requests still cost what they cost at first */
	double settled;		/* the time from which the best known budget stays close to
				 * @median, in s */
	double swing;		/* largest best known budget / smallest, from @from_ms on */
	unsigned long trials, taken;
};

/* A best known budget, and the time at which it became the best known one, both in ns. */
struct kept {
	u64 at, budget;
};

struct loop {
	const struct scene *scene;
	struct drive *drive;
	struct tg_depth depth;
	struct tg_knee knee;
	struct tg_cost costs[TG_OPS];
	struct tg_work work[TG_OPS];
	struct tg_cost sure[TG_OPS];
	u64 window_began, window_served;
	s64 excess;
	u32 nr_inside, fewest;
	u64 charged[MOST_REQUESTS];
	u64 now, inside, cost, served, granted_at, back_at, next_at, bulk_at, written_at;
	u64 reader_sent, reader_next, reader_extra;
	s64 granted;
	bool limited, probing, clean, asked, writes;
	u64 probe_began, probe_until, probe_next, probe_soonest;
	u32 idle[MOST_REQUESTS], nr_idle;
	u32 *latencies, nr_latencies;
	u32 bulk_done;
	struct kept *kept;
	u32 nr_kept;
};

/* Return a random number of the standard normal distribution. */
static double loop_normal(void)
{
	double sum = 0;
	int i;

	for (i = 0; i < 12; i++)
		sum += any() / 18446744073709551616.;
	return sum - 6;
}

static u64 loop_cost(const struct scene *s)
{
	return s->cost ?: 2000 + 1000 * s->kib;
}

static u64 loop_budget(const struct loop *l)
{
	if (l->scene->fixed)
		return l->scene->fixed;
	if (l->depth.at_once)
		return TG_DEPTH_MAX;
	return l->scene->exchange && l->knee.budget ? tg_knee_budget(&l->knee) : l->depth.budget;
}

static bool loop_gated(const struct loop *l)
{
	return loop_budget(l) < 2 * l->cost;
}

static bool loop_paced(const struct loop *l)
{
	return loop_budget(l) < l->cost;
}

static u64 loop_gate_opens_at(const struct loop *l)
{
	return l->asked ? l->granted_at + 4 * l->depth.mean : l->back_at + l->depth.mean / 2;
}

/* Scale triage's guess of costs so that a request of bulk costs loop_cost(). */
static void loop_guess(struct loop *l)
{
	const struct tg_cost guess = TG_COST_GUESS_FLASH;
	const u32 kib = l->scene->kib;
	const double times = loop_cost(l->scene) / (double)tg_cost_of(&guess, kib * 1024, true);
	int op;

	for (op = TG_READ; op < TG_OPS; op++)
		l->costs[op] = (struct tg_cost){ .base = guess.base * times,
						 .per_kib = guess.per_kib * times };
	memcpy(l->sure, l->costs, sizeof(l->sure));
}

/*
 * Learn costs if a window is over, as tg_costs_learn() does. Learn nothing if the budget is fixed,
 * or if nothing holds bulk back.
 */
static void loop_learn_costs(struct loop *l)
{
	const u64 elapsed = l->now - l->window_began;
	int op;

	if (elapsed < WINDOW_NS || l->scene->free || l->scene->fixed)
		return;
	if (l->fewest >= BUSY) {
		tg_cost_learn(l->costs, l->work, elapsed);
		memcpy(l->sure, l->costs, sizeof(l->sure));
	} else if (l->excess <= 0) {
		for (op = TG_READ; op < TG_OPS; op++)
			tg_cost_return(&l->costs[op], &l->sure[op]);
	} else if (l->fewest && l->served - l->window_served >= l->inside) {
		tg_cost_raise(l->costs, l->work, elapsed);
	}
	l->window_began = l->now;
	l->window_served = l->served;
	l->excess = 0;
	l->fewest = MOST_REQUESTS;
	memset(l->work, 0, sizeof(l->work));
}

static void loop_submit(struct loop *l, u32 tag, bool writes, u32 kib)
{
	const enum tg_op op = writes ? TG_WRITE : TG_READ;
	const u32 sectors = kib * 2;

	l->fewest = min_t(u32, l->fewest, l->nr_inside);
	loop_learn_costs(l);
	l->work[op].requests++;
	l->work[op].kib += kib;
	l->nr_inside++;
	drive_submit(l->drive, tag, writes, any() % (drive_sectors(l->drive) / sectors) * sectors,
		     sectors, l->now);
}

/* Send a request of the reader. */
static void loop_ask(struct loop *l)
{
	const struct scene *s = l->scene;
	const u64 budget = loop_budget(l);

	l->reader_sent = l->now;
	l->reader_next = NEVER;
	l->clean = !l->inside;
	l->asked = true;
	if (loop_gated(l)) {
		l->granted = tg_depth_grant(l->granted, budget, l->inside);
		l->granted_at = l->now;
	}
	l->reader_extra = any() % 1000 < s->stall_permille ? s->stall_us * 1000ull : 0;
	if (!l->inside)
		l->reader_extra += s->nap_us * 1000ull;
	if (s->sigma > 0)
		l->reader_extra += 40000 * exp(s->sigma * loop_normal());
	if (s->cliff && l->inside > s->cliff)
		l->reader_extra += s->cliff_us * 1000ull;
	loop_submit(l, s->depth, false, 4);
}

static bool loop_probe_holds(const struct loop *l)
{
	return l->probing && l->now < l->probe_until &&
	       (l->asked || l->now < l->back_at + 32 * MS);
}

/* Return whether a request of bulk may go. */
static bool loop_fits(const struct loop *l)
{
	if (l->scene->free)
		return true;
	if (loop_probe_holds(l))
		return false;
	if (l->now > l->bulk_at + 100 * MS)
		return true;
	if (loop_gated(l)) {
		if (l->granted > 0)
			return true;
		if (l->now < loop_gate_opens_at(l))
			return false;
	}
	if (!l->inside)
		return !loop_paced(l) || l->now >= l->next_at;
	return l->inside + l->cost <= loop_budget(l);
}

static void loop_send_bulk(struct loop *l)
{
	const struct scene *s = l->scene;

	while (l->nr_idle && loop_fits(l)) {
		const u32 tag = l->idle[--l->nr_idle];
		u64 cost;

		if (s->mixed)
			l->writes = any() >> 63;
		cost = tg_cost_of(&l->costs[l->writes ? TG_WRITE : TG_READ], s->kib * 1024, true);
		l->granted = tg_depth_charge(l->granted, loop_gated(l), cost);
		if (loop_paced(l))
			l->next_at = l->now + tg_depth_gap(loop_budget(l), l->cost, cost);
		l->bulk_at = l->now;
		if (l->writes)
			l->written_at = l->now;
		l->cost = l->cost - l->cost / 16 + cost / 16;
		l->charged[tag] = cost;
		l->inside += cost;
		loop_submit(l, tag, l->writes, s->kib);
	}
	l->limited |= l->nr_idle;
}

static bool loop_has_written(const struct loop *l)
{
	return l->written_at && l->now < l->written_at + 32 * MS;
}

static void loop_probe_begin(struct loop *l)
{
	l->probing = true;
	l->probe_began = l->now + (loop_has_written(l) ? 32 * MS : 0);
	l->probe_until = l->probe_began + 100 * MS;
}

/* Let the controller learn from an answer to the reader. */
static void loop_learn(struct loop *l, u64 latency)
{
	const struct scene *s = l->scene;
	const u64 alone = tg_depth_target(&l->depth, 100);
	const u64 least = l->cost * 5 / 100;

	if (l->probing || l->now > l->bulk_at + 100 * MS) {
		const bool whole = l->clean && !l->inside && l->now >= l->probe_began &&
				   tg_depth_alone(&l->depth, latency, l->probing);

		l->knee.last_at = 0;
		if (whole && !l->depth.confirmed)
			tg_knee_forget(&l->knee);
		if (l->probing && (whole || l->now > l->probe_until)) {
			const u64 length = l->now - l->probe_began + 4 * MS;

			l->probing = false;
			l->probe_next = l->now + length *
						 tg_depth_spacing(&l->depth, s->exchange ?
								  TG_DEPTH_SPACING_PRICE :
								  TG_DEPTH_SPACING_UNSURE);
			l->probe_soonest = l->now + length * tg_depth_soonest(&l->depth);
		}
		return;
	}
	if (l->limited && l->depth.confirmed)
		l->excess += (s64)min_t(u64, latency, 4 * l->depth.mean) -
			     (s64)(2 * l->depth.mean);
	if (tg_depth_beside(&l->depth, latency))
		l->probe_next = min_t(u64, l->probe_next, l->probe_soonest);
	if (!alone) {
		if (l->now > l->probe_next)
			loop_probe_begin(l);
		return;
	}
	if (!s->exchange) {
		tg_depth_judge(&l->depth, latency > alone * s->factor / 100, l->limited, least);
	} else if (!l->depth.at_once) {
		const struct tg_knee_sample sample = {
			.latency = latency,
			.alone = alone,
			.limited = l->limited,
			.now = l->now,
			.work = l->served,
			.enough = 8 * l->cost,
			.least = least,
			.settle = loop_has_written(l) ? 32 * MS : 4 * alone,
			.exchange = s->exchange,
		};

		if (!l->knee.budget)
			l->knee.budget = 2 * l->depth.mean;
		tg_knee_see(&l->knee, &sample);
	}
	l->limited = l->nr_idle;
	if (l->now > l->probe_next && tg_knee_rests(&l->knee, l->depth.at_once))
		loop_probe_begin(l);
}

/* Note the best known budget if it has changed. A budget on trial is not the best known one. */
static void loop_keep(struct loop *l)
{
	const u64 budget = l->knee.budget ?: l->depth.budget;

	if ((l->nr_kept && l->kept[l->nr_kept - 1].budget == budget) || l->nr_kept == MOST_KEPT)
		return;
	l->kept[l->nr_kept++] = (struct kept){ l->now, budget };
}

static void loop_done(struct loop *l, u32 tag)
{
	const struct scene *s = l->scene;
	const bool counts = l->now >= s->from_ms * MS;
	u64 latency;

	l->nr_inside--;
	if (tag != s->depth) {
		l->inside -= l->charged[tag];
		l->served += l->charged[tag];
		l->bulk_done += counts;
		l->idle[l->nr_idle++] = tag;
		return;
	}
	latency = l->now - l->reader_sent + l->reader_extra;
	l->asked = false;
	l->back_at = l->now;
	l->reader_next = l->now + s->think_us * 1000ull + l->reader_extra;
	if (s->pause_ms && l->reader_next / (s->pause_ms * MS) % 2)
		l->reader_next += s->pause_ms * MS;
	if (counts && l->nr_latencies < MOST_LATENCIES)
		l->latencies[l->nr_latencies++] = latency;
	if (s->free)
		return;
	loop_learn(l, latency);
	loop_keep(l);
}

/* Return the future time at which waiting bulk may go even if nothing else happens, or NEVER. */
static u64 loop_opens_at(const struct loop *l)
{
	u64 at = 0;

	if (!l->nr_idle || l->scene->free)
		return NEVER;
	if (loop_probe_holds(l))
		return l->asked ? l->probe_until : min_t(u64, l->probe_until, l->back_at + 32 * MS);
	if (loop_gated(l) && l->granted <= 0)
		at = loop_gate_opens_at(l);
	if (!l->inside && loop_paced(l) && !(loop_gated(l) && l->granted > 0))
		at = max_t(u64, at, l->next_at);
	return at > l->now ? at : NEVER;
}

static void loop_step(struct loop *l)
{
	const struct scene *s = l->scene;
	const u64 drive = drive_next(l->drive), opens = loop_opens_at(l);
	u64 next = min_t(u64, drive, l->reader_next);
	int tag;

	if (s->turns)
		l->writes = l->now / (1000 * MS) % 2;
	l->now = max_t(u64, l->now, min_t(u64, next, opens));
	while ((tag = drive_done(l->drive, l->now)) >= 0)
		loop_done(l, tag);
	if (l->now >= l->reader_next)
		loop_ask(l);
	loop_send_bulk(l);
}

static int loop_compare(const void *a, const void *b)
{
	const u32 x = *(const u32 *)a, y = *(const u32 *)b;

	return (x > y) - (x < y);
}

static int loop_compare_kept(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	return (x->budget > y->budget) - (x->budget < y->budget);
}

/* Return the median over time of the best known budget from @from to @until. */
static u64 loop_median_kept(const struct loop *l, u64 from, u64 until)
{
	struct kept *times = malloc(l->nr_kept * sizeof(*times));
	u64 median = 0, passed = 0;
	u32 i;

	for (i = 0; i < l->nr_kept; i++) {
		const u64 end = i + 1 < l->nr_kept ? l->kept[i + 1].at : until;
		const u64 begin = max_t(u64, l->kept[i].at, from);

		times[i].budget = l->kept[i].budget;
		times[i].at = end > begin ? end - begin : 0;
	}
	qsort(times, l->nr_kept, sizeof(*times), loop_compare_kept);
	for (i = 0; i < l->nr_kept && 2 * passed < until - from; i++) {
		passed += times[i].at;
		median = times[i].budget;
	}
	free(times);
	return median;
}

static void loop_sum_kept(const struct loop *l, struct run *run)
{
	const u64 until = l->scene->ms * MS, from = l->scene->from_ms * MS;
	const u64 median = loop_median_kept(l, until / 2, until);
	u64 least = U64_MAX, most = 0, settled = 0;
	u32 i;

	for (i = 0; i < l->nr_kept; i++) {
		const u64 budget = l->kept[i].budget;
		const u64 end = i + 1 < l->nr_kept ? l->kept[i + 1].at : until;

		/* A factor of 1.43 is half an octave, plus 1 % for rounding. */
		if (budget > median * 1.43 || budget < median / 1.43)
			settled = end;
		if (end > from) {
			least = min_t(u64, least, budget);
			most = max_t(u64, most, budget);
		}
	}
	run->median = median / 1000. * loop_cost(l->scene) / l->cost;
	run->settled = settled / 1e9;
	run->swing = most / (double)least;
}

static struct run loop_sum(struct loop *l, double seconds)
{
	const u32 n = l->nr_latencies;
	struct run run = {
		.bulk = l->bulk_done / seconds,
		.budget = loop_budget(l) / 1000.,
		.alone = tg_depth_target(&l->depth, 100) / 1000.,
		.trials = l->knee.trials,
		.taken = l->knee.taken,
	};
	u32 i;

	qsort(l->latencies, n, sizeof(*l->latencies), loop_compare);
	run.p50 = l->latencies[n / 2] / 1000.;
	run.p99 = l->latencies[n < 100 ? n - 1 : n / 100 * 99] / 1000.;
	for (i = n - n / TG_KNEE_SLOWEST; i < n; i++)
		run.slow += l->latencies[i] / 1000. / (n / TG_KNEE_SLOWEST);
	if (l->nr_kept)
		loop_sum_kept(l, &run);
	return run;
}

/* Let the controller learn from @n batches of requests without bulk that each take @latency ns. */
static void loop_batches(struct loop *l, u32 n, u64 latency, bool probe)
{
	u32 i;

	for (i = 0; i < n * TG_DEPTH_PROBE_SAMPLES; i++)
		tg_depth_alone(&l->depth, latency, probe);
	if (n && !l->depth.confirmed)
		tg_knee_forget(&l->knee);
}

static struct run loop_run(const struct scene *s)
{
	struct loop l = {
		.scene = s,
		.drive = drive_new(s->on, s->depth + 1, s->full),
		.cost = loop_cost(s),
		.writes = s->writes,
		.latencies = malloc(MOST_LATENCIES * sizeof(u32)),
		.kept = malloc(MOST_KEPT * sizeof(struct kept)),
		.depth.budget = TG_DEPTH_FIRST,
		.fewest = MOST_REQUESTS,
	};
	bool at_once = false, odd = false, stale = false;
	struct run run;
	u32 i;

	loop_guess(&l);
	for (i = 0; i < s->depth; i++)
		l.idle[l.nr_idle++] = i;
	loop_batches(&l, s->mistakes, s->mistaken, false);
	while (l.now < s->ms * MS) {
		if (s->at_once && !at_once && l.depth.confirmed && l.knee.at != TG_KNEE_HERE) {
			l.depth.at_once = true;
			at_once = true;
		}
		if (s->odd && !odd && l.now >= MS * s->from_ms / 2) {
			loop_batches(&l, 1, s->odd, true);
			odd = true;
		}
		if (s->stale && !stale && l.now >= MS * (s->from_ms - 500)) {
			l.depth.mean = s->stale;
			stale = true;
		}
		loop_step(&l);
	}
	run = loop_sum(&l, (s->ms - s->from_ms) / 1000.);
	free(l.latencies);
	free(l.kept);
	drive_free(l.drive);
	return run;
}

#endif
