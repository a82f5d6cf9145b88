// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guards: triage's controller finds the budget of bulk at which about 1 in TG_DEPTH_RARE urgent
 * requests is later than the target. It does so on a model of a flash device, from any first
 * budget. This file also tests the controller's arithmetic. Run with: make -C kernel unit
 */
#include "expect.h"
#include "triage/depth.h"

#define LEAST 80ull	/* the least budget, in ns: 1 % of the cost of 16 KiB */

static struct tg_depth begun(void)
{
	return (struct tg_depth){ .budget = TG_DEPTH_FIRST };
}

/* Learn from a batch in which half of the requests take @mean - @off, and half @mean + @off. */
static void batch(struct tg_depth *depth, u64 mean, u64 off, bool probing)
{
	u32 i;

	for (i = 1; i <= TG_DEPTH_PROBE_SAMPLES; i++)
		expect("end of the batch",
		       tg_depth_alone(depth, i % 2 ? mean - off : mean + off, probing),
		       i == TG_DEPTH_PROBE_SAMPLES);
}

static void probe(struct tg_depth *depth, u64 mean, u64 off)
{
	batch(depth, mean, off, true);
}

static void test_alone(void)
{
	struct tg_depth depth = begun();

	expect("known at first", depth.known, false);
	probe(&depth, 80000, 8000);
	expect("known", depth.known, true);
	expect("mean", depth.mean, 80000);
	expect("spread", depth.spread, 8000);
	expect("target", tg_depth_target(&depth, 200), 208000);

	probe(&depth, 160000, 16000);
	expect("mean, slower", depth.mean, 90000);
	expect("spread, wider", depth.spread, 9000);
	probe(&depth, 50000, 1000);
	expect("mean, quicker", depth.mean, 70000);
	expect("spread, narrower", depth.spread, 5000);
}

static void test_spacing(void)
{
	struct tg_depth depth = begun();
	u32 wanted;

	for (wanted = 8; wanted < TG_DEPTH_SPACING_LAST; wanted *= 2)
		expect("spacing", tg_depth_spacing(&depth, 64), wanted);
	expect("last spacing", tg_depth_spacing(&depth, 64), TG_DEPTH_SPACING_LAST);
	expect("last spacing", tg_depth_spacing(&depth, 64), TG_DEPTH_SPACING_LAST);
}

/*
 * The first result may be far too large. Until a result confirms the one before, each result
 * replaces the estimate, and the next probe comes soon. After that, a quicker result moves the
 * estimate half way, and probes become rarer again. But a probe below half of the estimate only
 * raises a doubt, and the next probe comes soon. The third such probe replaces the estimate.
 */
static void test_confirmed(void)
{
	struct tg_depth depth = begun();

	probe(&depth, 800000, 100000);
	expect("confirmed by itself", depth.confirmed, false);
	expect("spacing after it", tg_depth_spacing(&depth, 64), 8);
	expect("spacing after a probe without a result", tg_depth_spacing(&depth, 64), 16);
	probe(&depth, 80000, 10000);
	expect("confirmed by a tenth", depth.confirmed, false);
	expect("mean", depth.mean, 80000);
	expect("spread", depth.spread, 10000);
	expect("spacing after that", tg_depth_spacing(&depth, 64), 8);
	/* By its mean alone, this result would confirm the estimate. */
	probe(&depth, 75000, 0);
	expect("confirmed by a narrower one", depth.confirmed, false);
	probe(&depth, 60000, 0);
	expect("confirmed", depth.confirmed, true);
	expect("mean, confirmed", depth.mean, 67500);
	expect("spacing, confirmed", tg_depth_spacing(&depth, 64), 64);
	batch(&depth, 20000, 0, false);
	expect("still confirmed without a probe", depth.confirmed, true);
	expect("mean without a probe", depth.mean, 43750);
	expect("spacing, still confirmed", tg_depth_spacing(&depth, 64), 128);
	probe(&depth, 21875, 0);
	expect("still confirmed by half", depth.confirmed, true);
	expect("mean after half", depth.mean, 32813);
	expect("spacing after half", tg_depth_spacing(&depth, 64), 256);
	probe(&depth, 16000, 0);
	expect("confirmed, though doubted", depth.confirmed, true);
	expect("mean, doubted", depth.mean, 32813);
	expect("spacing, doubted", tg_depth_spacing(&depth, 64), 8);
	batch(&depth, 16000, 0, false);
	expect("without a probe nothing is decided", depth.doubts, 1);
	probe(&depth, 9000, 0);
	expect("spacing, doubted twice", tg_depth_spacing(&depth, 64), 8);
	probe(&depth, 9000, 3000);
	expect("confirmed after three that contradict", depth.confirmed, false);
	expect("mean, not confirmed any more", depth.mean, 9000);
	expect("spread, not confirmed any more", depth.spread, 3000);
	expect("spacing, not confirmed any more", tg_depth_spacing(&depth, 64), 8);
	probe(&depth, 9000, 3000);
	expect("confirmed again", depth.confirmed, true);
}

/*
 * A batch of requests beside bulk may be faster than the estimate for requests without bulk. Four
 * such batches in a row call for a probe. A batch that is not faster restarts the count. Before
 * there is an estimate, nothing calls for a probe.
 */
static void test_beside(void)
{
	struct tg_depth depth = begun();
	u32 i, calls = 0;

	for (i = 0; i < 1000; i++)
		calls += tg_depth_beside(&depth, 1);
	expect("calls without an estimate", calls, 0);
	depth = begun();
	for (i = 0; i < 2; i++)
		probe(&depth, 70000, 5000);
	for (i = 0; i < 3 * TG_DEPTH_PROBE_SAMPLES; i++)
		calls += tg_depth_beside(&depth, i % 2 ? 0 : 139000);
	for (i = 0; i < TG_DEPTH_PROBE_SAMPLES; i++)
		calls += tg_depth_beside(&depth, 70000);
	for (i = 0; i < 4 * TG_DEPTH_PROBE_SAMPLES - 1; i++)
		calls += tg_depth_beside(&depth, 69999);
	expect("calls after three faster batches, twice", calls, 0);
	expect("call after the fourth", tg_depth_beside(&depth, 69999), true);
	for (i = 0; i < 4 * TG_DEPTH_PROBE_SAMPLES; i++)
		calls += tg_depth_beside(&depth, 0);
	expect("calls after four more", calls, 1);

	expect("spacing of a probe that is called for", tg_depth_soonest(&depth), 8);
	probe(&depth, 60000, 5000);
	expect("its spacing, after one that found nothing", tg_depth_soonest(&depth), 16);
	probe(&depth, 60000, 5000);
	expect("its spacing, after one that nothing called for", tg_depth_soonest(&depth), 16);
	for (i = 0; i < 3 * TG_DEPTH_PROBE_SAMPLES; i++)
		tg_depth_beside(&depth, 0);
	probe(&depth, 40000, 0);
	expect("its spacing, after one that found less", tg_depth_soonest(&depth), 8);
	calls = 0;
	for (i = 0; i < 4 * TG_DEPTH_PROBE_SAMPLES - 1; i++)
		calls += tg_depth_beside(&depth, 0);
	expect("calls that count batches before the last result", calls, 0);
}

/* A cache that answers two probes in a row, or every second one, does not change the estimate. */
static void test_doubted(void)
{
	struct tg_depth depth = begun();
	u32 i;

	for (i = 0; i < 2; i++)
		probe(&depth, 70000, 5000);
	probe(&depth, 12000, 0);
	for (i = 0; i < 100; i++) {
		probe(&depth, 12000, 0);
		expect("mean after odd probes", depth.mean, 70000);
		expect("spread after odd probes", depth.spread, 5000);
		expect("confirmed after odd probes", depth.confirmed, true);
		probe(&depth, 70000, 5000);
		expect("doubts after a good probe", depth.doubts, 1);
	}
	probe(&depth, 70000, 5000);
	expect("doubts after another", depth.doubts, 0);
}

/*
 * One probe in three, or one in two, meets large reads of processes that start, and finds a high
 * latency. If two of three probes contradict a high estimate, it falls. If every second probe
 * contradicts an estimate, it does not change.
 */
static void test_contradicted_more_often_than_not(void)
{
	struct tg_depth depth = begun();
	u32 i, large = 0;

	for (i = 0; i < 2; i++)
		probe(&depth, 2000000, 0);
	for (i = 0; i < 300; i++) {
		probe(&depth, i % 3 ? 70000 : 2000000, 0);
		large += i >= 30 && depth.mean > 500000;
	}
	expect_between("probes with an estimate that is too large", large, 0, 120);
	depth = begun();
	for (i = 0; i < 2; i++)
		probe(&depth, 200000, 0);
	for (i = 0; i < 300; i++)
		probe(&depth, i % 2 ? 2000000 : 70000, 0);
	expect("an estimate that every second one contradicts", depth.mean, 200000);
}

/* Give a result in which every fourth request takes @quick ns, and the others take @usual ns. */
static void quarter(struct tg_depth *depth, u64 quick, u64 usual, bool probe)
{
	u32 i;

	for (i = 0; i < TG_DEPTH_PROBE_SAMPLES; i++)
		tg_depth_alone(depth, i % 4 ? usual : quick, probe);
}

/*
 * Requests end at once if they fail or a cache answers them. If a quarter of a probe's requests do,
 * the probe only raises a doubt, whatever time the other requests take. Three such probes show that
 * the device answers at once. Results between probes never show this.
 */
static void test_at_once_is_doubted(void)
{
	static const u64 usual[] = { 30000, 70000 };
	u32 i, probes;

	for (i = 0; i < 2; i++) {
		struct tg_depth depth = begun();

		for (probes = 0; probes < 2; probes++)
			probe(&depth, 70000, 5000);
		for (probes = 0; probes < 3; probes++)
			quarter(&depth, TG_DEPTH_AT_ONCE - 1, usual[i], false);
		expect("at once, after results between probes", depth.at_once, false);
		expect("mean, after results between probes", depth.mean, 70000);
		quarter(&depth, TG_DEPTH_AT_ONCE - 1, usual[i], true);
		expect("doubts", depth.doubts, 1);
		expect("at once, after one probe", depth.at_once, false);
		for (probes = 0; probes < 2; probes++)
			quarter(&depth, TG_DEPTH_AT_ONCE - 1, usual[i], true);
		expect("at once, after three", depth.at_once, true);
		probe(&depth, usual[i], 0);
		expect("at once, after a usual probe", depth.at_once, false);
	}
}

/*
 * A device answers in a few us. A result of a busy CPU, with longer times, clears at_once. The next
 * result of an idle CPU sets it again: this takes no three probes.
 */
static void test_at_once_again(void)
{
	struct tg_depth depth = begun();
	u32 probes;

	for (probes = 0; probes < 2; probes++)
		probe(&depth, 3000, 0);
	expect("at once", depth.at_once, true);
	batch(&depth, 8000, 0, false);
	expect("at once, after a result of a busy CPU", depth.at_once, false);
	batch(&depth, 3000, 0, false);
	expect("at once, after one of an idle CPU", depth.at_once, true);
}

/*
 * The first probe raises a doubt. The second one only takes this doubt back, and does not change
 * the estimate. But it has no quick requests, so it clears at_once.
 */
static void test_at_once_ends(void)
{
	struct tg_depth depth = begun();

	depth.known = true;
	depth.confirmed = true;
	depth.at_once = true;
	depth.mean = 100000;
	probe(&depth, 40000, 0);
	probe(&depth, 140000, 0);
	expect("at once, after two usual probes", depth.at_once, false);
}

/* A slow read in each probe does not hide that an estimate is ten times too large. */
static void test_doubted_with_a_slow_read(void)
{
	struct tg_depth depth = begun();
	u32 i, probes;

	for (i = 0; i < 2; i++)
		probe(&depth, 700000, 0);
	for (probes = 0; probes < 3; probes++)
		for (i = 1; i <= TG_DEPTH_PROBE_SAMPLES; i++)
			tg_depth_alone(&depth, i < TG_DEPTH_PROBE_SAMPLES ? 60000 : 3000000, true);
	expect("mean after three probes", depth.mean, (15 * 60000 + 3000000) / 16);
	expect("confirmed after them", depth.confirmed, false);
}

/* Probes of fewer than 16 requests add up to results, even with other requests between them. */
static void test_rare_samples(void)
{
	const u32 in_probe[] = { 1, 3, 10, 15 };
	u32 i, j, probes, results;

	for (i = 0; i < ARRAY_SIZE(in_probe); i++) {
		struct tg_depth depth = begun();

		results = 0;
		for (probes = 0; probes < 1000; probes++) {
			for (j = 0; j < in_probe[i]; j++)
				results += tg_depth_alone(&depth, 70000, true);
			tg_depth_alone(&depth, 70000, false);
		}
		expect("results of probes", results, 1000 * in_probe[i] / 16);
	}
}

/* A probe's result counts only samples of probes, even if 15 other samples came just before. */
static void test_own_samples(void)
{
	struct tg_depth depth = begun();
	u32 i;

	probe(&depth, 70000, 0);
	probe(&depth, 70000, 0);
	for (i = 1; i < TG_DEPTH_PROBE_SAMPLES; i++)
		tg_depth_alone(&depth, 12000, false);
	probe(&depth, 70000, 0);
	expect("mean after quick requests before a probe", depth.mean, 70000);
	expect("confirmed after them", depth.confirmed, true);
}

static void test_bounds(void)
{
	const u64 leasts[] = { 0, 1, 15, LEAST, 5000000 };
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(leasts); i++) {
		struct tg_depth depth = begun();
		u64 rarely = 1;

		for (j = 0; j < 100000; j++) {
			if (j % 1000 == 0)
				rarely = any_between(1, 1000);
			tg_depth_judge(&depth, any() % rarely == 0, any() % 4, leasts[i]);
			expect_between("budget", depth.budget, leasts[i], TG_DEPTH_MAX);
		}
		for (j = 0; j < 10000; j++)
			tg_depth_judge(&depth, true, true, leasts[i]);
		expect("budget, all late", depth.budget, leasts[i]);
		for (j = 0; j < 10000; j++)
			tg_depth_judge(&depth, false, false, leasts[i]);
		expect("budget, none limited", depth.budget, leasts[i]);
		for (j = 0; j < 200000; j++)
			tg_depth_judge(&depth, false, true, leasts[i]);
		expect("budget, none late", depth.budget, TG_DEPTH_MAX);
	}
}

/* TG_DEPTH_RARE - 1 requests in time give any budget back what a late request takes from it. */
static void test_rest(void)
{
	const u64 budgets[] = { 100, 1000, 10000, 1000000, TG_DEPTH_MAX / 2 };
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(budgets); i++) {
		struct tg_depth depth = { .budget = budgets[i], .missed = true };

		for (j = 0; j < 3 * TG_DEPTH_RARE; j++)
			tg_depth_judge(&depth, j % TG_DEPTH_RARE == 0, true, 1);
		expect_near("budget at rest", depth.budget, budgets[i], .05);
	}
}

/*
 * The model: 16 dies, and one bus that all data crosses. Each die, and the bus, serves one
 * request after the other. A protected job reads from a random die, one request at a time. Bulk
 * sends as many requests as its budget allows.
 */
#define DIES 16
#define BUS DIES
#define DIE_NS 80000
#define BUS_NS_PER_KIB 500
#define BULK_MAX 255

struct request {
	u64 sent_at;
	u64 cost;	/* 0: a request of the protected job */
	u32 kib;
};

struct server {
	struct request queue[BULK_MAX + 1];
	u32 first;
	u32 count;
	u64 done_at;
};

struct device {
	struct server servers[DIES + 1];
	u64 now;
	u64 inside;	/* cost of the bulk in the device */
	u32 bulk;	/* number of requests of bulk in the device */
	u64 bulk_next_at;
};

static void server_start(struct device *dev, struct server *server)
{
	const u32 kib = server->queue[server->first].kib;

	server->done_at = dev->now + (server == &dev->servers[BUS] ? kib * BUS_NS_PER_KIB :
								      DIE_NS);
}

static void server_add(struct device *dev, struct server *server, struct request rq)
{
	server->queue[(server->first + server->count) % ARRAY_SIZE(server->queue)] = rq;
	if (!server->count++)
		server_start(dev, server);
}

static struct request server_take(struct device *dev, struct server *server)
{
	const struct request rq = server->queue[server->first];

	server->first = (server->first + 1) % ARRAY_SIZE(server->queue);
	if (--server->count)
		server_start(dev, server);
	return rq;
}

static void send(struct device *dev, u32 kib, u64 cost)
{
	server_add(dev, &dev->servers[any_between(0, DIES - 1)],
		   (struct request){ dev->now, cost, kib });
}

/*
 * Send as much bulk as the budget allows, as budget.c does. Return whether the budget holds more
 * bulk back.
 */
static bool send_bulk(struct device *dev, u64 budget, u32 kib)
{
	const u64 cost = max_t(u64, DIE_NS / DIES, kib * BUS_NS_PER_KIB);

	while (dev->bulk < BULK_MAX) {
		if (dev->inside ? dev->inside + cost > budget : dev->now < dev->bulk_next_at)
			return true;
		send(dev, kib, cost);
		dev->inside += cost;
		dev->bulk++;
		dev->bulk_next_at = dev->now + tg_depth_gap(budget, cost, cost);
	}
	return false;
}

/* Go on to the next event. Return the latency if a protected request ended, else 0. */
static u64 device_step(struct device *dev)
{
	struct server *next = NULL, *server;
	struct request rq;

	for (server = dev->servers; server <= &dev->servers[BUS]; server++) {
		if (server->count && (!next || server->done_at < next->done_at))
			next = server;
	}
	if (!dev->inside && dev->now < dev->bulk_next_at && dev->bulk_next_at < next->done_at) {
		dev->now = dev->bulk_next_at;
		return 0;
	}
	dev->now = next->done_at;
	rq = server_take(dev, next);
	if (next != &dev->servers[BUS]) {
		server_add(dev, &dev->servers[BUS], rq);
		return 0;
	}
	dev->inside -= rq.cost;
	dev->bulk -= !!rq.cost;
	return rq.cost ? 0 : dev->now - rq.sent_at;
}

struct outcome {
	double late;	/* late requests as a part of all protected requests */
	double p99;	/* 99th percentile of latency, as a multiple of the target */
	double budget;	/* mean budget, in ns */
};

#define SETTLING 20000
#define MEASURED 30000
#define BUCKETS 400	/* of latency, each 1 % of the target wide */

/* Send @requests protected requests, each after the answer to the last one, beside bulk. */
static struct outcome run(struct tg_depth *depth, u32 factor_pct, u32 kib, u32 requests)
{
	struct device dev = {};
	struct outcome outcome = {};
	u32 buckets[BUCKETS] = {};
	u32 done = 0, above = 0, bucket = BUCKETS;
	u64 latency;

	send(&dev, 4, 0);
	while (done < requests) {
		const bool limited = depth->known && send_bulk(&dev, depth->budget, kib);
		u64 target;

		latency = device_step(&dev);
		if (!latency)
			continue;
		send(&dev, 4, 0);
		if (!depth->known) {
			tg_depth_alone(depth, latency, true);
			continue;
		}
		target = tg_depth_target(depth, factor_pct);
		tg_depth_judge(depth, latency > target, limited, LEAST);
		done++;
		outcome.late += (latency > target) / (double)requests;
		outcome.budget += depth->budget / (double)requests;
		buckets[min_t(u64, latency * 100 / target, BUCKETS - 1)]++;
	}
	while (above * 100 < requests)
		above += buckets[--bucket];
	outcome.p99 = (bucket + 1) / 100.;
	return outcome;
}

static const double wanted = 1. / TG_DEPTH_RARE;

static void expect_rest(const struct outcome *outcome)
{
	expect_between("late", outcome->late, wanted / 1.5, wanted * 1.5);
	expect_between("99th percentile in targets", outcome->p99, .75, 1.25);
}

static void test_rest_by_factor(void)
{
	const u32 factors[] = { 150, 200, 400, 800 };
	double last = 0;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(factors); i++) {
		struct tg_depth depth = begun();
		struct outcome outcome;

		run(&depth, factors[i], 16, SETTLING);
		outcome = run(&depth, factors[i], 16, MEASURED);
		expect_rest(&outcome);
		expect_between("budget by factor", outcome.budget, last + 1, TG_DEPTH_MAX);
		last = outcome.budget;
	}
}

static void test_rest_from_far(void)
{
	struct tg_depth depth = begun();
	struct outcome outcome, settled;

	run(&depth, 400, 16, SETTLING);
	settled = run(&depth, 400, 16, MEASURED);

	depth.budget = settled.budget * 100;
	outcome = run(&depth, 400, 16, SETTLING);
	expect_between("late from far too much", outcome.late * SETTLING, 50,
		       50 + 3 * wanted * SETTLING);
	outcome = run(&depth, 400, 16, MEASURED);
	expect_rest(&outcome);
	expect_near("budget from far too much", outcome.budget, settled.budget, .1);

	depth.budget = settled.budget / 100;
	run(&depth, 400, 16, SETTLING);
	outcome = run(&depth, 400, 16, MEASURED);
	expect_rest(&outcome);
	expect_near("budget from far too little", outcome.budget, settled.budget, .1);
}

/* Until the first late request, each request raises the budget by 1/16, so one is soon late. */
static void test_first(void)
{
	struct tg_depth depth = begun();

	depth.budget = LEAST;
	run(&depth, 400, 16, 500);
	expect("a request is late at last", depth.missed, true);
}

static void test_larger_bulk(void)
{
	struct tg_depth depth = begun();
	struct outcome outcome;

	run(&depth, 400, 16, SETTLING);
	outcome = run(&depth, 400, 64, 4000);
	expect_between("late while it recovers", outcome.late * 4000, 0, 100);
	outcome = run(&depth, 400, 64, MEASURED);
	expect_rest(&outcome);
}

/*
 * If a quarter of the first probe's answers come at once, the device has no queue, so bulk has no
 * limit.
 */
static void test_at_once(void)
{
	u32 i, at_once;

	for (at_once = 0; at_once <= TG_DEPTH_PROBE_SAMPLES; at_once++) {
		struct tg_depth depth = begun();

		for (i = 0; i < TG_DEPTH_PROBE_SAMPLES; i++)
			tg_depth_alone(&depth, TG_DEPTH_AT_ONCE - (i < at_once), true);
		for (i = 0; i < 1000; i++)
			tg_depth_judge(&depth, i % 2, i % 3, LEAST);
		expect("budget by the number of answers at once", depth.budget,
		       4 * at_once < TG_DEPTH_PROBE_SAMPLES ? LEAST : TG_DEPTH_MAX);
	}
}

static void test_gap(void)
{
	u32 percent;

	expect("gap, one fits", tg_depth_gap(10000, 10000, 5000), 0);
	for (percent = 1; percent < 100; percent++) {
		const u64 budget = 10000 * percent / 100;

		expect_near("pace", 10000. / tg_depth_gap(budget, 10000, 10000),
			    percent / 100., .001);
		expect_near("pace of large ones", 70000. / tg_depth_gap(budget, 10000, 70000),
			    percent / 100., .001);
	}
	expect("no budget", tg_depth_gap(0, U32_MAX, U32_MAX), (double)U32_MAX * U32_MAX);
}

/*
 * Where bulk needs grants, bulk that goes beyond a grant causes a debt of at most one request's
 * cost, however much of it goes. Where bulk needs no grants, it has no debt.
 */
static void test_debt(void)
{
	const u32 cost = 66000;
	s64 granted = 0;
	u32 i;

	expect("all of the budget", tg_depth_grant(500, 100000, 0), 100000);
	expect("what is left of it", tg_depth_grant(0, 100000, 66000), 34000);
	expect("nothing is left", tg_depth_grant(0, 100000, 132000), 0);
	expect("less what is owed", tg_depth_grant(-34000, 100000, 0), 66000);
	expect("sent within a grant", tg_depth_charge(100000, true, cost), 34000);
	expect("sent beyond it", tg_depth_charge(34000, true, cost), -32000);
	for (i = 0; i < 10000; i++)
		granted = tg_depth_charge(granted, true, cost);
	expect("owed after much of it", granted, -(double)cost);
	for (i = 0; granted <= 0; i++)
		granted = tg_depth_grant(granted, cost / 4, 0);
	expect("urgent requests until bulk goes on", i, 5);
	for (i = 0; i < 10000; i++)
		granted = tg_depth_charge(granted, false, cost);
	expect("owed where there are no grants", granted, 0);
}

static void test_lingering(void)
{
	u64 last = 0;
	u32 ms;

	for (ms = 0; ms < 16 * 20; ms++)
		expect("lingering", tg_depth_lingering(1000, ms), 1000 << ms / 16);
	for (ms = 0; ms < 2000; ms++) {
		const u64 now = tg_depth_lingering(TG_DEPTH_MAX, ms);

		expect_between("longer", now, last, U64_MAX >> 8);
		last = now;
	}
	expect("for ever", tg_depth_lingering(TG_DEPTH_MAX, U32_MAX), last);
}

int main(int argc, char **argv)
{
	begin_tests(argc, argv);
	RUN(test_alone());
	RUN(test_spacing());
	RUN(test_confirmed());
	RUN(test_beside());
	RUN(test_doubted());
	RUN(test_contradicted_more_often_than_not());
	RUN(test_at_once_is_doubted());
	RUN(test_at_once_again());
	RUN(test_at_once_ends());
	RUN(test_doubted_with_a_slow_read());
	RUN(test_rare_samples());
	RUN(test_own_samples());
	RUN(test_bounds());
	RUN(test_rest());
	RUN(test_rest_by_factor());
	RUN(test_rest_from_far());
	RUN(test_first());
	RUN(test_larger_bulk());
	RUN(test_at_once());
	RUN(test_gap());
	RUN(test_debt());
	RUN(test_lingering());
	return end_tests("triage depth: 1 request in 150 is late, from any first budget");
}
