// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guards: triage charges requests by their cost. From any first guess, it learns a device's costs
 * in windows of time with any mixture of requests. It raises costs that are far too low, and keeps
 * all costs in bounds.
 * Run with: make -C kernel unit
 */
#include "expect.h"
#include "triage/cost.h"

#define WINDOW 50000000ull	/* ns */
#define WINDOWS 4500		/* 225 s */

static void test_one(void)
{
	const struct tg_cost cost = { .base = 5000, .per_kib = 300 };
	const struct tg_cost most = { .base = TG_COST_MAX, .per_kib = TG_COST_MAX };
	const struct tg_cost nothing = {};
	u32 bytes, last = 0;

	expect("4 KiB", tg_cost_of(&cost, 4096, true), 6200);
	expect("4 KiB where the head is", tg_cost_of(&cost, 4096, false), 1200);
	expect("a flush", tg_cost_of(&cost, 0, true), 5000);
	expect("least", tg_cost_of(&nothing, 0, false), TG_COST_MIN);
	expect("most", tg_cost_of(&most, U32_MAX, true), U32_MAX);

	for (bytes = 0; bytes < 4 << 20; bytes += 512) {
		expect_between("more bytes", tg_cost_of(&cost, bytes, true), last, U32_MAX);
		last = tg_cost_of(&cost, bytes, true);
	}
}

static u64 work_took(const struct tg_cost costs[TG_OPS], const struct tg_work work[TG_OPS])
{
	u64 ns = 0;
	int op;

	for (op = TG_READ; op < TG_OPS; op++)
		ns += work[op].requests * costs[op].base + work[op].kib * costs[op].per_kib;
	return ns;
}

/* Fill a window with the requests of two jobs. The size and operation of each job are random. */
static void any_window(const struct tg_cost costs[TG_OPS], struct tg_work work[TG_OPS])
{
	const u64 kib[] = { 4ull << any_between(0, 8), 4ull << any_between(0, 8) };
	const int op[] = { any_between(TG_READ, TG_OTHER), any_between(TG_READ, TG_OTHER) };
	const u32 first = any_between(0, 100);

	while (work_took(costs, work) < WINDOW) {
		const int job = any_between(1, 100) > first;

		work[op[job]].requests++;
		work[op[job]].kib += op[job] == TG_OTHER ? 0 : kib[job];
	}
}

static u32 bounded(double ns)
{
	return ns < TG_COST_MIN ? TG_COST_MIN : ns > TG_COST_MAX ? TG_COST_MAX : ns;
}

/*
 * Check that triage learns the costs in @device, if its first guess is @guess times these costs.
 * @noise is the error of the elapsed times in %, @within the allowed relative error of the result.
 */
static void learn(const struct tg_cost device[TG_OPS], double guess, u32 noise, double within)
{
	static const char *const names[] = { "of a read", "of a write", "of another" };
	struct tg_cost costs[TG_OPS];
	int op, i;

	for (op = TG_READ; op < TG_OPS; op++)
		costs[op] = (struct tg_cost){ .base = bounded(device[op].base * guess),
					      .per_kib = bounded(device[op].per_kib * guess) };
	for (i = 0; i < WINDOWS; i++) {
		struct tg_work work[TG_OPS] = {};
		u64 took;

		any_window(device, work);
		took = work_took(device, work);
		tg_cost_learn(costs, work, took * any_between(100 - noise, 100 + noise) / 100);
	}
	for (op = TG_READ; op < TG_OPS; op++) {
		expect_near(names[op], costs[op].base, device[op].base, within);
		if (op != TG_OTHER)
			expect_near(names[op], costs[op].per_kib, device[op].per_kib, within);
	}
}

static void test_learning(void)
{
	static const struct tg_cost devices[][TG_OPS] = {
		{ { 20000, 1000 }, { 20000, 1000 }, { 20000, 1000 } },	/* all operations alike */
		{ { 1500, 150 }, { 4000, 250 }, { 8000, 150 } },	/* fast flash */
		{ { 8000, 1900 }, { 40000, 2200 }, { 40000, 1900 } },	/* SATA */
		{ { 8000000, 6000 }, { 4000000, 6500 }, { 4000000, 6000 } },	/* a disk */
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(devices); i++) {
		learn(devices[i], 1, 0, .1);
		learn(devices[i], .01, 0, .1);
		learn(devices[i], 100, 0, .1);
		learn(devices[i], 1, 10, .25);
	}
}

/* A window does not change the costs of operations that did not occur in it. */
static void test_absent(void)
{
	const struct tg_cost guess = TG_COST_GUESS_FLASH;
	struct tg_cost costs[TG_OPS] = { guess, guess, guess };

	tg_cost_learn(costs, (struct tg_work[TG_OPS]){}, WINDOW);
	expect("base, nothing", costs[TG_READ].base, guess.base);

	tg_cost_learn(costs, (struct tg_work[TG_OPS]){ [TG_WRITE] = { .kib = 4096 } }, WINDOW);
	expect("read base, writes only", costs[TG_READ].base, guess.base);
	expect("read slope, writes only", costs[TG_READ].per_kib, guess.per_kib);
	expect("write base, none paid it", costs[TG_WRITE].base, guess.base);
	expect_between("write slope", costs[TG_WRITE].per_kib, guess.per_kib + 1, TG_COST_MAX);
}

/*
 * tg_cost_raise() is for a window in which urgent requests took twice as long as without bulk, or
 * longer. If the costs of all requests of the window add up to less than a quarter of its length,
 * they rise, to half of its length at most. Otherwise they stay.
 */
static void test_raise(void)
{
	static const struct tg_cost device[TG_OPS] = {
		{ 8000, 1900 }, { 40000, 2200 }, { 40000, 1900 },
	};
	int i, times;

	for (times = 2; times < 2000; times *= 2) {
		struct tg_cost costs[TG_OPS];
		int op;

		for (op = TG_READ; op < TG_OPS; op++)
			costs[op] = (struct tg_cost){ .base = bounded(device[op].base / times),
						      .per_kib = bounded(device[op].per_kib / times) };
		for (i = 0; i < 100; i++) {
			struct tg_work work[TG_OPS] = {};
			u64 before, after, took;

			any_window(device, work);
			took = work_took(device, work);
			before = tg_cost_sum(costs, work);
			tg_cost_raise(costs, work, took);
			after = tg_cost_sum(costs, work);
			if (before >= took / TG_COST_BUSY_PART / 2)
				expect("costs that are about right", after, before);
			else
				expect_between("costs that are far too low", after, before + 1, took / 2);
		}
	}
}

/* If the mix of requests stays the same, their costs rise to a quarter of the time at least. */
static void test_raise_far(void)
{
	u32 i, times;

	for (times = 8; times < 2000; times *= 2) {
		const struct tg_cost low = { bounded(8000. / times), bounded(1900. / times) };
		struct tg_cost costs[TG_OPS] = { low, low, low };
		struct tg_work work[TG_OPS] = {};
		u64 took;

		any_window((struct tg_cost[TG_OPS]){ { 8000, 1900 }, { 8000, 1900 }, { 8000, 1900 } },
			   work);
		took = 8000 * (work[TG_READ].requests + work[TG_WRITE].requests +
			       work[TG_OTHER].requests) +
		       1900 * (work[TG_READ].kib + work[TG_WRITE].kib);
		for (i = 0; i < 100; i++)
			tg_cost_raise(costs, work, took);
		expect_between("the sum at last", tg_cost_sum(costs, work), took / 4, took / 2);
	}
}

/* Return a random number of at most n bits. n is random too, from 1 to @bits. */
static u64 any_size(u32 bits)
{
	return any() >> any_between(64 - bits, 63);
}

static void test_bounds(void)
{
	struct tg_cost costs[TG_OPS] = {
		TG_COST_GUESS_FLASH, TG_COST_GUESS_FLASH, TG_COST_GUESS_FLASH,
	};
	int i, op;

	for (i = 0; i < 200000; i++) {
		const struct tg_work work[TG_OPS] = {
			{ .requests = any_size(32), .kib = any_size(32) },
			{ .requests = any_size(32), .kib = any_size(32) },
			{ .requests = any_size(32) },
		};
		const struct tg_cost before = costs[TG_READ];

		tg_cost_learn(costs, work, any_size(64));
		for (op = TG_READ; op < TG_OPS; op++) {
			expect_between("base", costs[op].base, TG_COST_MIN, TG_COST_MAX);
			expect_between("slope", costs[op].per_kib, TG_COST_MIN, TG_COST_MAX);
		}
		/* Even random windows raise a base or slope by a quarter at most, unless near 0. */
		expect_between("more base", costs[TG_READ].base, 0, before.base +
			       .25 * max_t(double, before.base, 4. * before.per_kib));
		expect_between("more slope", costs[TG_READ].per_kib, 0, before.per_kib +
			       .25 * max_t(double, before.per_kib, before.base / 1024));
	}
}

int main(int argc, char **argv)
{
	begin_tests(argc, argv);
	RUN(test_one());
	RUN(test_learning());
	RUN(test_absent());
	RUN(test_raise());
	RUN(test_raise_far());
	RUN(test_bounds());
	return end_tests("triage cost: costs are learnt from any mixture of requests");
}
