// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guards: prio-adaptive's detector tells sequential from random loads, and soon notices a
 * change. Run with: make -C kernel unit
 */
#include "expect.h"
#include "prio-adaptive/detector.h"

#define GAP 64
#define MAX 32
#define LENGTH 8

static void expect_scores(const char *what, const struct detector *d,
			  unsigned int seq, unsigned int rand)
{
	expect(what, d->seq_score, seq);
	expect(what, d->rand_score, rand);
}

static struct detector fresh(void)
{
	return (struct detector){ .seq_gap_sectors = GAP, .score_max = MAX };
}

/* Feed the detector a request that begins @gap sectors after the end of the one before. */
static void feed_after(struct detector *d, long gap)
{
	detector_feed(d, d->end + gap, LENGTH);
}

/* A gap up to the bound, forward or back, is sequential. A larger gap is random. */
static void test_gap(void)
{
	static const struct {
		long gap;
		unsigned int near;
	} cases[] = {
		{ 0, 1 }, { 1, 1 }, { GAP, 1 }, { GAP + 1, 0 }, { 1l << 40, 0 },
		{ -1, 1 }, { -LENGTH, 1 }, { -GAP, 1 }, { -GAP - 1, 0 },
	};
	unsigned int i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct detector d = fresh();

		d.end = 1l << 20;
		feed_after(&d, cases[i].gap);
		expect_scores("gap", &d, cases[i].near, !cases[i].near);
		expect("end", d.end, (1l << 20) + cases[i].gap + LENGTH);
	}
}

static void test_scores(void)
{
	struct detector d = fresh();
	int i;

	expect("mode at first", detector_sequential(&d), 1);

	/* A request raises one score and lowers the other one. Equal scores mean sequential. */
	feed_after(&d, 0);
	feed_after(&d, 0);
	expect_scores("two sequential", &d, 2, 0);
	feed_after(&d, 1000);
	expect_scores("and one random", &d, 1, 1);
	expect("mode on equal scores", detector_sequential(&d), 1);
	feed_after(&d, -1000);
	expect_scores("and two random", &d, 0, 2);
	expect("mode with more random", detector_sequential(&d), 0);
	feed_after(&d, 1000);
	expect_scores("and three random", &d, 0, 3);

	for (i = 0; i < 10 * MAX; i++)
		feed_after(&d, 0);
	expect_scores("very sequential", &d, MAX, 0);
}

/* About score_max / 2 requests of one kind change the mode, however many others came before. */
static void test_change(void)
{
	unsigned int max, n;

	for (max = 1; max <= MAX; max++) {
		struct detector d = fresh();

		d.score_max = max;
		for (n = 0; n < 10 * MAX; n++)
			feed_after(&d, 0);
		for (n = 0; detector_sequential(&d); n++)
			feed_after(&d, 1000);
		expect("random ones until the mode is random", n, max / 2 + 1);

		for (n = 0; n < 10 * MAX; n++)
			feed_after(&d, 1000);
		for (n = 0; !detector_sequential(&d); n++)
			feed_after(&d, 0);
		expect("sequential ones until it is sequential", n, (max + 1) / 2);
	}
}

/* A lowered score_max bounds the scores from the next request on, sequential or random. */
static void test_lowered_bound(void)
{
	const struct detector high = { .seq_score = MAX, .seq_gap_sectors = GAP, .score_max = 4 };
	struct detector d = high;

	feed_after(&d, 0);
	expect_scores("one more, above the bound", &d, 4, 0);
	d = high;
	feed_after(&d, 1000);
	expect_scores("one less, above the bound", &d, 4, 1);
}

int main(int argc, char **argv)
{
	begin_tests(argc, argv);
	RUN(test_gap());
	RUN(test_scores());
	RUN(test_change());
	RUN(test_lowered_bound());
	return end_tests("detector: every gap is judged right, every change is noticed");
}
