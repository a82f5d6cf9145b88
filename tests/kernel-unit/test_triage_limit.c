// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guards: a class with a rate limit gets this rate, and one burst more at most, whatever the
 * sizes of its requests and whenever it sends them. Run with: make -C kernel unit
 */
#include "expect.h"
#include "triage/limit.h"

#define SECOND 1000000000ull

/* A class that always has requests gets its rate, and one burst at first. */
static void test_rate(void)
{
	int i;

	for (i = 0; i < 200; i++) {
		const u32 rate = any_between(10, 1000000);
		const u32 most = any_between(1, 1024);
		const u64 begin = any(), end = begin + SECOND;
		u64 due = 0, now = begin, units = 0, last = 0;

		while (now < end) {
			last = any_between(1, most);
			due = tg_limit_charged(due, now, last, rate);
			units += last;
			now = max_t(u64, now, tg_limit_opens(due));
			/* Timers are late, so the class sends its next request a little late. */
			now += any_between(0, 1000);
		}
		expect_between("units in a second", units,
			       .99 * rate - .01 * rate - most,
			       1.02 * rate + 2. * most);
	}
}

/* After an hour without requests a class gets one burst, not more. */
static void test_idle(void)
{
	u64 due = tg_limit_charged(0, SECOND, 1, 1000), now = 3600 * SECOND;
	int sent = 0;

	while (tg_limit_opens(due) <= now) {
		due = tg_limit_charged(due, now, 1, 1000);
		sent++;
	}
	expect("requests at once", sent, 1 + TG_LIMIT_BURST_NS / (SECOND / 1000));
}

static void test_opens(void)
{
	expect("a limit that was never used opens at", tg_limit_opens(0), 0);
	expect("a limit within its burst opens at", tg_limit_opens(TG_LIMIT_BURST_NS), 0);
	expect("a limit beyond its burst opens at", tg_limit_opens(TG_LIMIT_BURST_NS + 5), 5);
	expect("a huge request", tg_limit_charged(0, 0, U32_MAX, 1), (double)U32_MAX * SECOND);
}

int main(int argc, char **argv)
{
	begin_tests(argc, argv);
	RUN(test_rate());
	RUN(test_idle());
	RUN(test_opens());
	return end_tests("triage limit: a class gets its rate, whatever the sizes, and one burst");
}
