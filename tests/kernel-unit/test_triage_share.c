// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guards: triage's flows get parts of a device in proportion to their weights, and
 * classes get their guaranteed shares, whatever the sizes of requests. Run with:
 * make -C kernel unit
 */
#include "expect.h"
#include "triage/share.h"

#define QUANTUM 200000u

static void test_charge(void)
{
	u8 level;

	expect("deficit of a flow that never asked", tg_share_charge(0, 1000, 4, QUANTUM), -1000);
	expect("deficit after a part of the turn", tg_share_charge(5000, 1000, 4, QUANTUM), 4000);
	for (level = 0; level < TG_LEVELS; level++)
		expect_between("weighted charge",
			       -tg_share_charge(0, 1000000, level, U32_MAX) * (TG_LEVELS - level),
			       4000000 - TG_LEVELS, 4000000);
}

static void test_debt(void)
{
	const s64 least = -(s64)QUANTUM * TG_DEBT_MAX;
	s64 deficit = QUANTUM;
	int i;

	for (i = 0; i < 1000; i++) {
		deficit = tg_share_charge(deficit, any(), any_between(0, 7), QUANTUM);
		expect_between("debt", deficit, least, QUANTUM);
	}
	expect("a huge request", tg_share_charge(0, U32_MAX, 7, QUANTUM), least);
	expect("a huge quantum", tg_share_charge(0, U32_MAX, 7, U32_MAX), -4. * U32_MAX);
}

/* If turns get shorter, an old debt counts as at most TG_DEBT_MAX of the shorter turns. */
static void test_turns(void)
{
	s64 deficit = tg_share_charge(0, U32_MAX, 7, QUANTUM);
	u32 turns = 0;

	expect("a turn", tg_share_turn(-5, QUANTUM), QUANTUM - 5.);
	for (; deficit <= 0 && turns < 1000; turns++)
		deficit = tg_share_turn(deficit, 10);
	expect("turns until it may send", turns, TG_DEBT_MAX);
}

/* tg_share_due() credits a class with its guaranteed share, or a little less by rounding. */
static void test_due(void)
{
	u32 percent;
	int i;

	for (percent = 0; percent < 100; percent++) {
		u64 others = 0, due = 0;

		for (i = 0; i < 1000; i++) {
			const u32 cost = any() >> any_between(32, 50);

			others += cost;
			due += tg_share_due(cost, percent);
		}
		expect_between("due", due, others * (percent / (100. - percent)) - 1000,
			       others * (percent / (100. - percent)));
		expect_near("part of all", due, (due + others) * percent / 100., .001);
	}
	expect("most that is due", tg_share_due(U32_MAX, 99), 99. * U32_MAX);
}

struct flow {
	u8 level;
	u32 least;	/* least and largest cost of its requests, in ns */
	u32 most;
	s64 deficit;
	u64 served;
};

/* Serve flows by deficit round robin, as flow.c does. All flows always have requests. */
static void serve(struct flow *flows, u32 count, u64 until)
{
	struct flow *flow = flows;
	u64 served = 0;

	while (served < until) {
		while (flow->deficit > 0) {
			const u32 cost = any_between(flow->least, flow->most);

			flow->deficit = tg_share_charge(flow->deficit, cost, flow->level, QUANTUM);
			flow->served += cost;
			served += cost;
		}
		flow->deficit = tg_share_turn(flow->deficit, QUANTUM);
		flow = flow + 1 < flows + count ? flow + 1 : flows;
	}
}

static void test_equal(void)
{
	struct flow flows[] = {
		{ .level = 4, .least = 500, .most = 500 },
		{ .level = 4, .least = 5000, .most = 6000 },
		{ .level = 4, .least = 20000, .most = 1000000 },
		{ .level = 4, .least = 3000000, .most = 3000000 },
		/* small requests of many sizes */
		{ .level = 4, .least = 1000, .most = 8000 },
	};
	const u64 each = 2000000000;
	u32 i;

	serve(flows, ARRAY_SIZE(flows), each * ARRAY_SIZE(flows));
	for (i = 0; i < ARRAY_SIZE(flows); i++)
		expect_near("part of an equal", flows[i].served, each, .01);
}

static void test_weighted(void)
{
	/* The largest cost of a request: in flows with large weights, in those with small ones. */
	const u32 costs[][2] = { { 1000000, 5000 }, { 5000, 1000000 }, { 80000, 80000 } };
	const u64 each = 500000000;
	u32 i;
	u8 level;

	for (i = 0; i < ARRAY_SIZE(costs); i++) {
		struct flow flows[TG_LEVELS] = {};

		for (level = 0; level < TG_LEVELS; level++) {
			const u32 cost = costs[i][level >= TG_LEVELS / 2];

			flows[level] = (struct flow){ level, cost / 2, cost, 0, 0 };
		}
		serve(flows, TG_LEVELS, each * (1 + 2 + 3 + 4 + 5 + 6 + 7 + 8));
		for (level = 0; level < TG_LEVELS; level++)
			expect_near("part by weight", flows[level].served,
				    (TG_LEVELS - level) * each, .05);
	}
}

/*
 * Requests that go out of turn get their share of all service. After a pause they get one
 * burst, however long the pause was. If a request is larger than the burst, the next one waits
 * until the share covers the rest.
 */
static void test_spent(void)
{
	const u32 cost = 10000, percent = 10;
	const u64 burst = 4 * cost, length = 1000000000;
	u64 due = 0, now = length, begun = now, had = 0;
	u32 at_once = 0;

	while (due <= now && at_once < 100) {
		due = tg_share_spent(due, now, burst, cost, percent);
		at_once++;
	}
	expect("requests at once after a pause", at_once, 5);

	for (; now < begun + length; now += cost)
		if (due <= now) {
			due = tg_share_spent(due, now, burst, cost, percent);
			had += cost;
		}
	expect_between("part of the time, in %", had * 100. / length, 9.9, 10.1);

	due = tg_share_spent(0, now, burst, 100 * cost, percent);
	expect("a debt is paid in full", due - now, (100. - 4) * cost * 100 / percent);
}

/* If the cgroup with the lowest virtual time is always served next, cgroups share by weight. */
static void test_time(void)
{
	const u32 weights[] = {1, 100, 250, 10000};
	u64 time[4] = {}, had[4] = {}, sum = 0;
	int i, n;

	expect("virtual time at weight 100", tg_share_time(12345, 100), 12345);
	expect("virtual time of a long turn at weight 1", tg_share_time(4000000000, 1), 4e11);
	for (n = 0; n < 1000000; n++) {
		const u32 cost = any_between(10000, 5000000);
		int due = 0;

		for (i = 1; i < 4; i++)
			if (time[i] < time[due])
				due = i;
		time[due] += tg_share_time(cost, weights[due]);
		had[due] += cost;
		sum += cost;
	}
	for (i = 0; i < 4; i++)
		expect_between("part of a cgroup, in parts of what is due",
			       (double)had[i] / sum * 10351 / weights[i], 0.97, 1.03);
}

/*
 * Hardware queues have weights by their flows: those of NORMAL have equal parts, and those of LOW
 * have the percentage of all that LOW is guaranteed, whatever the numbers of flows and queues.
 */
static void test_queues(void)
{
	static const u32 numbers[] = { 1, 3, 64 }, percents[] = { 1, 5, 50, 90 };
	u32 i, k, p;

	for (i = 0; i < ARRAY_SIZE(numbers); i++)
		for (k = 0; k < ARRAY_SIZE(numbers); k++)
			for (p = 0; p < ARRAY_SIZE(percents); p++) {
				const u32 normal = numbers[i], low = numbers[k], percent = percents[p];
				/* One more queue of each kind, with one flow. */
				const struct tg_flows_waiting all = { normal + 1, low + 1 };
				const double parts[] = {
					tg_share_of_queue(&all, normal, false, percent),
					tg_share_of_queue(&all, 1, false, percent),
					tg_share_of_queue(&all, low, true, percent),
					tg_share_of_queue(&all, 1, true, percent),
				};
				const double sum = parts[0] + parts[1] + parts[2] + parts[3];

				expect_near("flows of NORMAL", parts[0], normal * parts[1], 0);
				expect_near("LOW's part", (parts[2] + parts[3]) / sum,
					    percent / 100., .05);
				if (percent >= 5)
					expect_near("flows of LOW", parts[2], low * parts[3], .15);
			}
	expect_between("LOW without a share",
		       tg_share_of_queue(&(struct tg_flows_waiting){ 1, 1 }, 1, true, 0), 1, 1);
}

int main(int argc, char **argv)
{
	begin_tests(argc, argv);
	RUN(test_time());
	RUN(test_spent());
	RUN(test_charge());
	RUN(test_debt());
	RUN(test_turns());
	RUN(test_due());
	RUN(test_equal());
	RUN(test_weighted());
	RUN(test_queues());
	return end_tests("triage share: flows, classes and cgroups get their parts");
}
