// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guards: triage's trials find the budget that is worth most (triage/knee.h), beside reads and
 * writes of any size on a modelled drive. They do so even if the drive itself is slow at times.
 * No fixed budget with as short a P99 lets much more bulk through. This file also tests the
 * arithmetic. Run with: make -C kernel unit
 */
#include "closed_loop.h"

#define EXCHANGE 8
#define SECONDS 3
#define RUNS 4

static struct scene beside(u32 kib, u32 depth)
{
	return (struct scene){
		.on = "flash",
		.kib = kib,
		.depth = depth,
		.ms = SECONDS * 1000,
		.think_us = 14,
		.exchange = EXCHANGE,
		.factor = 200,
	};
}

static void test_log2(void)
{
	u32 i;

	expect("log2 of nothing", tg_knee_log2(0), 0);
	for (i = 0; i < 64; i++)
		expect("log2 of a power", tg_knee_log2(1ull << i), i * TG_KNEE_ONE);
	for (i = 0; i < 100000; i++) {
		const u64 x = (any() | 1) >> any_between(0, 60);

		expect_between("log2", tg_knee_log2(x | 1), 1024 * log2(x | 1) - 11,
			       1024 * log2(x | 1) + 11);
	}
}

/* The mean of the slowest eighth of latencies is found with an error of 1/16 octave at most. */
static void test_slow(void)
{
	const u64 alone = 63000;
	u32 times;

	for (times = 1; times < 16; times++) {
		struct tg_knee_sample sample = { .alone = alone };
		struct tg_knee_seen seen = {};
		u32 i;

		for (i = 0; i < 160; i++) {
			sample.latency = i % 8 ? alone / 2 : alone * times;
			tg_knee_count(&seen, &sample, 100000, 66000);
		}
		expect_near("the slowest", tg_knee_slow(&seen), times * 1024., .045);
		expect_near("worth", -tg_knee_worth(&seen, EXCHANGE),
			    1024 * (times * EXCHANGE * .01443 - log2(.66)), .05);
	}
}

/* Return the means of RUNS runs, each with other random numbers, and the sum of their trials. */
static struct run mean_run(const struct scene *scene)
{
	struct run mean = {};
	u32 i;

	for (i = 0; i < RUNS; i++) {
		struct run run;

		any_begin(i);
		run = loop_run(scene);
		mean.p50 += run.p50 / RUNS;
		mean.p99 += run.p99 / RUNS;
		mean.bulk += run.bulk / RUNS;
		mean.alone += run.alone / RUNS;
		mean.trials += run.trials;
	}
	return mean;
}

/*
 * Check that no fixed budget with as short a P99 lets much more bulk through than the controller
 * does.
 */
static void expect_frontier(const char *what, struct scene scene)
{
	const u64 budgets[] = { 33000, 66000, 100000, 133000, 177000, 200000, 300000, 400000,
				600000, 1200000 };
	const struct run found = mean_run(&scene);
	u32 i;

	for (i = 0; i < ARRAY_SIZE(budgets); i++) {
		struct run fixed;

		scene.fixed = budgets[i];
		fixed = mean_run(&scene);
		if (fixed.p99 <= found.p99)
			expect_between(what, found.bulk, .95 * fixed.bulk, 1e9);
	}
}

static void expect_run(const char *what, const struct scene *scene, double most_p99,
		       double least_bulk)
{
	const struct run run = mean_run(scene);

	expect_between(what, run.p99, 0, most_p99);
	expect_between(what, run.bulk, least_bulk, 1e9);
}

/*
 * A read without bulk takes 69 us, 77 if it meets a slow page. The drive serves 6400 reads, or 7060
 * writes, of 64 KiB a second. A read of 64 KiB keeps the bus busy for 156 us, and a short read may
 * have to wait for that.
 */
#define READS 6400
#define WRITES 7060

static void test_drive(void)
{
	struct scene scene = beside(64, 128);

	expect_run("beside reads", &scene, 77 + 2 * 156 + 40, .92 * READS);
	expect_frontier("beside reads", scene);
	scene.exchange = 4;
	expect_run("beside reads, cheaper", &scene, 77 + 2 * 156 + 40, .93 * READS);
	expect_frontier("beside reads, cheaper", scene);
	scene.exchange = EXCHANGE;
	scene.writes = true;
	expect_run("beside writes", &scene, 3.9 * 69, .98 * WRITES);
	expect_frontier("beside writes", scene);

	scene = beside(128, 32);
	/* Budgets for one read and for two are worth nearly the same. For one, bulk keeps 72 %. */
	expect_run("beside a backup", &scene, 77 + 2 * 312 + 40, .7 * READS / 2);
	expect_frontier("beside a backup", scene);
	/*
	 * A trial takes 160 reads of the reader, of up to 4 ms each. So a run of 3 s has few
	 * trials, and ends with a budget for 1 to 3 reads of bulk.
	 */
	scene = beside(512, 32);
	expect_run("beside large reads", &scene, 77 + 2 * 1251 + 40, .75 * READS / 8);
	scene = beside(4, 128);
	expect_frontier("beside small reads", scene);
}

/*
 * The controller does not blame bulk for the device's own slow times: bulk keeps 90 % of the
 * throughput that it has on a device without them. At a lower @exchange bulk's budget is larger, so
 * a mistake would cost bulk more.
 */
static void test_tails(u32 exchange)
{
	struct scene scene = beside(64, 128);
	double reads, writes;

	scene.exchange = exchange;
	reads = .9 * mean_run(&scene).bulk;
	scene.writes = true;
	writes = .9 * mean_run(&scene).bulk;
	scene.writes = false;
	scene.stall_permille = 10;
	scene.stall_us = 3000;
	expect_run("one in a hundred takes 3 ms", &scene, 1e9, reads);
	scene.writes = true;
	expect_run("the same beside writes", &scene, 1e9, writes);
	scene.writes = false;
	scene.stall_permille = 20;
	scene.stall_us = 500;
	expect_run("one in fifty takes 0.5 ms", &scene, 1e9, reads);
	scene.stall_permille = 0;
	scene.sigma = 1;
	expect_run("lognormal", &scene, 1e9, reads);
	scene.sigma = 1.5;
	expect_run("lognormal, heavy", &scene, 1e9, reads);
	scene.writes = true;
	expect_run("the same beside writes", &scene, 1e9, writes);
}

/* A search begins at the budget that its caller sets, even after tg_knee_forget(). */
static void test_begin(void)
{
	struct tg_knee knee = {};
	struct tg_knee_sample sample = { .latency = 80000, .alone = 70000, .limited = true,
					 .least = 3300, .exchange = EXCHANGE, .now = 1 };
	u32 again, i;

	for (again = 0; again < 2; again++) {
		knee.budget = 140000;
		for (i = 0; i < TG_KNEE_DWELL; i++) {
			sample.now += 80000;
			sample.work += 60000;
			tg_knee_see(&knee, &sample);
			expect("budget in use", tg_knee_budget(&knee), 140000);
		}
		knee.trials = 7;
		knee.taken = 3;
		tg_knee_forget(&knee);
		expect("budget, forgotten", knee.budget, 0);
		expect("place", knee.at, TG_KNEE_HERE);
		expect("trials", knee.trials, 7);
		expect("taken", knee.taken, 3);
	}
}

/* Return a search in which a trial has begun. Set @sample to the request that began the trial. */
static struct tg_knee trying(struct tg_knee_sample *sample)
{
	struct tg_knee knee = { .budget = 140000 };

	*sample = (struct tg_knee_sample){ .latency = 80000, .alone = 70000, .limited = true,
					   .least = 3300, .exchange = EXCHANGE, .now = 1 };
	while (knee.at == TG_KNEE_HERE) {
		sample->now += 80000;
		sample->work += 60000;
		tg_knee_see(&knee, sample);
	}
	return knee;
}

/* A trial ends if urgent requests are too rare to measure bulk's throughput between two of them. */
static void test_rare(void)
{
	struct tg_knee_sample sample;
	struct tg_knee knee = trying(&sample);
	u32 i;

	for (i = 0; i <= TG_KNEE_PATIENCE * TG_KNEE_DWELL; i++) {
		expect("place during the trial", knee.at, TG_KNEE_BELOW);
		sample.now += 40 * MS;
		tg_knee_see(&knee, &sample);
	}
	expect("place after it", knee.at, TG_KNEE_HERE);
}

/* A trial goes on until it is judged, however many requests come before the device settles. */
static void test_many(void)
{
	struct tg_knee_sample sample;
	struct tg_knee knee = trying(&sample);
	u32 i;

	sample.settle = 32 * MS;
	for (i = 0; i < 100000; i++) {
		sample.now += 33000;
		sample.work += tg_knee_budget(&knee) / 8;
		tg_knee_see(&knee, &sample);
	}
	expect_between("budget that is worth more the larger it is", knee.budget, 10 * 140000,
		       TG_DEPTH_MAX);
}

/* Trials go on, although @each urgent requests come for each request of bulk. */
static void test_many_for_each(u32 each)
{
	struct tg_knee_sample sample;
	struct tg_knee knee = trying(&sample);
	unsigned long trials = knee.trials;
	u32 i;

	sample.enough = 8 * 66000;
	for (i = 0; i < 2000000; i++) {
		sample.now += 2000;
		if (i % each == 0)
			sample.work += 66000;
		tg_knee_see(&knee, &sample);
	}
	expect_between("trials where bulk is rare", knee.trials, trials + 10, 10000);
	expect_between("requests of the last one", knee.at == TG_KNEE_HERE ? 0 : knee.took, 0,
		       TG_KNEE_MOST * TG_KNEE_KEPT);
}

/* A trial ends even if no bulk is served at all. */
static void test_stands_still(void)
{
	struct tg_knee_sample sample;
	struct tg_knee knee = trying(&sample);
	u32 i;

	sample.enough = 8 * 66000;
	for (i = 0; i <= TG_KNEE_MOST * TG_KNEE_KEPT; i++) {
		sample.now += 2000;
		tg_knee_see(&knee, &sample);
	}
	expect("place where bulk stands still", knee.at, TG_KNEE_HERE);
}

/*
 * An earlier trial of the same budget has left counts that show almost no served bulk. The new
 * trial is not judged before it has counted requests of its own. Bulk does not fill the budget, so
 * the requests here do not count. If such a request could end a trial, the first would end this.
 */
static void test_nothing_counted(void)
{
	struct tg_knee_sample sample;
	struct tg_knee knee = trying(&sample);
	u32 i;

	knee.seen[TG_KNEE_BELOW] = (struct tg_knee_seen){
		.n = TG_KNEE_KEPT, .time = 100000 * MS, .work = 1000,
		.bins = { TG_KNEE_KEPT },
	};
	sample.limited = false;
	for (i = 0; i < TG_KNEE_GLANCE; i++) {
		sample.now += 80000;
		sample.work += 60000;
		tg_knee_see(&knee, &sample);
		expect("place before a request counts", knee.at, TG_KNEE_BELOW);
	}
}

/*
 * Bulk fills the budget only for 400 of 2400 requests, and only these 400 count. The larger the
 * budget, the more it is worth, so the search must raise it. If the other requests began trials,
 * these would end without a judgement. The next trials would come much later, and the budget would
 * stay too small.
 */
static void test_rarely_limited(void)
{
	struct tg_knee_sample sample;
	struct tg_knee knee = trying(&sample);
	u32 i;

	for (i = 0; i < 300000; i++) {
		sample.limited = i % 2400 < 400;
		sample.now += 33000;
		sample.work += tg_knee_budget(&knee) / 8;
		tg_knee_see(&knee, &sample);
	}
	expect_between("budget where bulk rarely fills it", knee.budget, 10 * 140000, TG_DEPTH_MAX);
}

/*
 * The first results may be of large requests, or of the reads of a boot, and far too large. One
 * probe corrects one such result. If a second such result has confirmed the first, it takes three
 * probes to correct the estimate. Then the search begins anew.
 */
static void test_mistaken(void)
{
	struct scene scene = beside(64, 128);

	scene.mistaken = 10 * 69000;
	scene.from_ms = 200;
	scene.ms = 600;
	for (scene.mistakes = 1; scene.mistakes <= 2; scene.mistakes++)
		expect_run("after a mistake", &scene, 77 + 2 * 156 + 40, .92 * READS);
}

/*
 * The estimate of the latency without bulk is from a time with many urgent requests at once. Now
 * only one reader is urgent. Its requests beside bulk are faster than the estimate, so a probe
 * comes soon.
 */
static void test_stale(void)
{
	struct scene scene = beside(64, 128);

	scene.stale = 40 * 69000;
	scene.from_ms = 5000;
	scene.ms = 5100;
	/* tg_depth_target(): the mean is 69 us, the mean distance from it 5.5 us. */
	expect_near("alone, after others were urgent", mean_run(&scene).alone, 69 + 3 * 5.5, .03);
}

/*
 * A machine that sleeps between lone requests takes longer for them than for requests beside bulk.
 * So requests beside bulk call for probes again and again. If such a probe finds no shorter
 * latency, the next one comes later. If each call got its probe at once, bulk would lose a third.
 */
static void test_nap(void)
{
	struct scene scene = beside(4, 8);
	double awake;

	scene.mixed = true;
	scene.from_ms = 4000;
	scene.ms = 10000;
	awake = mean_run(&scene).bulk;
	scene.nap_us = 100;
	expect_between("bulk where lone requests take longer, of that where they do not",
		       mean_run(&scene).bulk / awake, .97, 1.3);
}

/*
 * During a trial, the device begins to count as one that answers at once, although it has a queue.
 * Only a probe shows the mistake. So a probe begins, although none may begin during other trials.
 */
static void test_not_at_once(void)
{
	struct scene scene = beside(64, 128);

	scene.at_once = true;
	scene.from_ms = 3000;
	scene.ms = 6000;
	expect_run("after answers at once", &scene, 77 + 2 * 156 + 40, .92 * READS);
}

/* Even if a cache answers a whole probe quickly, bulk keeps 92 % of its unlimited throughput. */
static void test_odd(void)
{
	struct scene scene = beside(64, 128);

	scene.odd = 12000;
	scene.from_ms = 3000;
	scene.ms = 6000;
	expect_run("after an odd probe", &scene, 77 + 2 * 156 + 40, .92 * READS);
}

/* Reads become slow if bulk in the drive costs more than 150 us. The budget stays below that. */
static void test_cliff(void)
{
	struct scene scene = beside(64, 128);

	scene.cliff = 150000;
	scene.cliff_us = 2000;
	expect_run("below a cliff", &scene, 77 + 2 * 156 + 40, .92 * READS);
}

/* The controller follows when bulk changes between reads and writes. */
static void test_turns(void)
{
	struct scene scene = beside(64, 128);

	scene.ms = 6000;
	scene.turns = true;
	/* Bulk that only reads keeps 93 % of its throughput, bulk that only writes nearly all. */
	expect_run("reads and writes in turn", &scene, 400, .96 * (READS + WRITES) / 2);
	scene.exchange = 4;
	expect_run("the same, cheaper", &scene, 400, .96 * (READS + WRITES) / 2);
}

/* A reader with a hundred requests a second is protected, and bulk keeps 75 % of its IOPS. */
static void test_slow_reader(void)
{
	struct scene scene = beside(64, 128);
	struct run run;

	scene.think_us = 10000;
	scene.ms = 10000;
	run = mean_run(&scene);
	/* tg_depth_target(): the mean is 69 us, the mean distance from it 5.5 us. */
	expect_near("alone", run.alone, 69 + 3 * 5.5, .03);
	expect_between("bulk beside a slow reader", run.bulk, .75 * READS, READS);
	expect_between("its median", run.p50, 69, 200);
}

/*
 * With a target there are no trials, and the reader's P99 is close to the target: the controller
 * lets one request in 150 be late. The target is four times the latency alone, because twice this
 * latency is hardly more than the wait for a single read of 64 KiB.
 */
static void test_target(void)
{
	struct scene scene = beside(64, 128);
	struct run run;

	scene.exchange = 0;
	scene.factor = 400;
	scene.ms = 10000;
	run = mean_run(&scene);
	expect("trials", run.trials, 0);
	expect_between("P99 in targets", run.p99 / run.alone / 4, .7, 1.05);
}

/* Bulk served while the reader pauses does not mislead the controller afterwards. */
static void test_pauses(void)
{
	struct scene scene = beside(64, 128);
	struct run without;

	scene.fixed = 100000;
	without = mean_run(&scene);
	scene.pause_ms = 300;
	scene.ms = 6000;
	expect_run("a reader that pauses", &scene, 1.05 * without.p99, .9 * without.bulk);
}

int main(int argc, char **argv)
{
	begin_tests(argc, argv);
	RUN(test_log2());
	RUN(test_slow());
	RUN(test_begin());
	RUN(test_drive());
	RUN(test_rare());
	RUN(test_many());
	RUN(test_many_for_each(20));
	RUN(test_many_for_each(140));
	RUN(test_many_for_each(380));
	RUN(test_many_for_each(1600));
	RUN(test_stands_still());
	RUN(test_nothing_counted());
	RUN(test_rarely_limited());
	RUN(test_mistaken());
	RUN(test_stale());
	RUN(test_nap());
	RUN(test_not_at_once());
	RUN(test_odd());
	RUN(test_tails(4));
	RUN(test_tails(EXCHANGE));
	RUN(test_cliff());
	RUN(test_turns());
	RUN(test_slow_reader());
	RUN(test_target());
	RUN(test_pauses());
	return end_tests("triage knee: trials find the best budget, and do not blame bulk for tails");
}
