// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guards: bulk's turn of a disk's arm has the length that is worth most, whatever the disk and the
 * exchange rate. Run with: make -C kernel unit
 */
#include <math.h>

#include "expect.h"
#include "triage/turn.h"

#define MS 1000000ull

/* Return a turn's worth; all times are in ns. */
static double worth(double turn, double way, double pause, double alone, double exchange)
{
	return log((turn - way) / (turn + pause)) - exchange / 100 * (turn + alone) / alone;
}

/* No longer or shorter turn is worth more. */
static void test_worth_most(void)
{
	int i, j;

	for (i = 0; i < 1000; i++) {
		const u64 way = any_between(0, 30 * MS), alone = any_between(MS / 10, 2000 * MS);
		const u64 pause = any_between(1, 20) * max_t(u64, way, alone);
		const u32 exchange = any_between(1, 100);
		const u64 turn = tg_turn_worth_most(way, pause, alone, exchange);
		const double best = worth(turn, way, pause, alone, exchange);

		expect_between("turn without the seek, ns", turn - way, 1, 1e18);
		for (j = 0; j < 20; j++) {
			const u64 other = way + any_between(1, 4 * turn);

			expect_between("worth of another turn",
				       worth(other, way, pause, alone, exchange), -1e9,
				       best + 1e-3);
		}
	}
}

/* Slow urgent requests take 40 ms alone, a seek takes 12 ms, and the exchange rate is 8 %. */
static void test_disk(void)
{
	expect_between("turn, in times of a slow urgent request alone",
		       tg_turn_worth_most(12 * MS, 120 * MS, 40 * MS, 8) / (40. * MS), 5.2, 5.4);
}

/* Extreme times do not overflow. With the longest times, bulk still has a turn. */
static void test_extremes(void)
{
	const u64 longest = TG_TURN_LONGEST_US * 1000ull;

	expect_between("turn with the longest times, s",
		       tg_turn_worth_most(U64_MAX, U64_MAX, U64_MAX, 1) / 1e9, 60, 900);
	expect("turn beyond the longest times",
	       tg_turn_worth_most(U64_MAX, U64_MAX, U64_MAX, 1),
	       tg_turn_worth_most(longest, longest, longest, 1));
	expect_between("turn where nothing takes time", tg_turn_worth_most(0, 1000, 0, 100), 0, 1000);
}

int main(int argc, char **argv)
{
	begin_tests(argc, argv);
	RUN(test_worth_most());
	RUN(test_disk());
	RUN(test_extremes());
	return end_tests("triage turn: no other turn of the arm is worth more");
}
