// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guards: bulk's turn of a disk's arm has the length that the settings ask for. It is short beside
 * HIGH, and does not grow while urgent requests pause. HIGH shortens a turn that began before HIGH
 * asked. The test compiles arm.c itself. Run with: make -C kernel unit
 */
#include "expect.h"
#include "triage/arm.c"

#define MS 1000000ull
#define SECOND (1000 * MS)

/* The time of a seek, and the service time of a slow urgent request without bulk, in ns */
#define WAY (12 * MS)
#define ALONE (40 * MS)

static struct tg_data tg;
static bool probe_holds;
/* If true, an administrator sets the tunable exchange to 0 right after tg_exchange() reads it. */
static bool exchange_ends;

/* Substitutes: the disk has no urgent request. It has a flush if flush_began_at is not 0. */

bool tg_probe_holds(const struct tg_data *data)
{
	return probe_holds;
}

u32 tg_urgent_inside(const struct tg_data *data)
{
	return 0;
}

u64 tg_flush_age(const struct tg_data *data)
{
	return flush_began_at ? kernel_now - flush_began_at : 0;
}

/* These two functions do the same as controller.c's. */

u64 tg_target(const struct tg_data *data)
{
	const unsigned int us = data->tunables.latency_target_us;
	const unsigned int factor = data->tunables.latency_factor ?: TG_FACTOR_ELSE;

	return us ? us * 1000ull : data->controller.tail * factor / 100;
}

unsigned int tg_exchange(const struct tg_data *data)
{
	const unsigned int exchange = data->tunables.exchange;

	if (exchange_ends)
		tg.tunables.exchange = 0;
	return data->tunables.latency_factor || data->tunables.latency_target_us ? 0 : exchange;
}

/* Begin with a disk with default settings, whose urgent requests are not of HIGH. */
static void begin_disk(void)
{
	kernel_now = 100 * SECOND;
	memset(&tg, 0, sizeof(tg));
	tg.rotational = true;
	tg.tunables.exchange = 8;
	tg.tunables.anticipation = 2000;
	tg.controller.tail = ALONE;
	tg.controller.alone = WAY;
	tg.controller.budget = 100 * ALONE;
	tg.costs.of[TG_READ].base = WAY;
	tg.budget.high_at = jiffies - 10 * HZ;
}

/* Begin a turn of bulk. Return its length, as a multiple of @unit. */
static double turn(u64 unit)
{
	tg.arm = (struct tg_arm){};
	tg_arm_charge(&tg, 0);
	return (double)(tg_arm_changes_at(&tg) - kernel_now) / unit;
}

/* Return the time from the end of the turn until the next one is due, as a multiple of @unit. */
static double pause(u64 unit)
{
	return (double)(tg_arm_due_at(&tg) - tg_arm_ends_at(&tg)) / unit;
}

/* Without HIGH, a turn has the length that is worth most, and the pause is 3 times ALONE. */
static void test_default(void)
{
	begin_disk();
	expect_between("turn by default", turn(ALONE), 5.2, 5.4);
	expect("pause by default", pause(ALONE), 3);
}

/* Beside HIGH a turn is at most ALONE, whatever the exchange rate. */
static void test_high(void)
{
	begin_disk();
	tg.budget.high_at = jiffies;
	expect("turn beside HIGH", turn(ALONE), 1);
	expect("pause beside HIGH", pause(ALONE), 18);
	tg.tunables.exchange = 1;
	expect("turn beside HIGH at a low price", turn(ALONE), 1);
	tg.tunables.exchange = 1000;
	expect_between("turn beside HIGH at a high price", turn(ALONE), .3, .5);
	tg.budget.high_at = jiffies - HZ;
	expect_between("turn at a high price", turn(ALONE), .3, .5);
}

/* A target or a fixed budget sets the length of a turn. With neither and exchange 0 it is ALONE. */
static void test_targets(void)
{
	begin_disk();
	tg.tunables.latency_factor = 400;
	expect("turn with a factor of 4", turn(ALONE), 3);
	tg.tunables.latency_factor = 0;
	tg.tunables.latency_target_us = 100000;
	expect("turn with a target of 100 ms", turn(MS), 60);
	tg.tunables.latency_target_us = 1;
	expect("turn with a target that cannot be met", turn(WAY), 1);
	tg.tunables.latency_target_us = 0;
	tg.tunables.exchange = 0;
	expect("turn without a price and a target", turn(ALONE), 1);
	tg.tunables.budget_fixed = 30000;
	expect("turn with a fixed budget", turn(MS), 30);
}

/*
 * While the service time of urgent requests is unknown, a turn has room for one request of bulk,
 * with a target and without. tg_budget_now() must not be the length of a turn: it doubles every
 * 16 ms while urgent requests pause.
 */
static void test_unknown(void)
{
	u64 ms;

	for (ms = 0; ms < 1000; ms += 100) {
		begin_disk();
		tg.controller.tail = 0;
		tg.budget.urgent_at = jiffies - ms / (1000 / HZ);
		tg.tunables.latency_target_us = ms % 200 ? 100000 : 0;
		expect("turn while nothing is known", turn(WAY), 1);
		expect("pause while nothing is known", pause(WAY), 3);
		expect("bulk may send a first request", tg_arm_is_held(&tg), true);
		tg_arm_charge(&tg, 1);
		expect("bulk may send a second request", tg_arm_is_held(&tg), false);
	}
}

/* A turn ends when bulk has sent as much as fits, or when no bulk can use the rest. */
static void test_ends(void)
{
	begin_disk();
	tg.tunables.latency_target_us = 100000;		/* so that a turn is 60 ms long */
	turn(MS);
	tg_arm_charge(&tg, 47 * MS);
	expect("the turn goes on at 59 of 60 ms", tg_arm_is_held(&tg), true);
	tg_arm_charge(&tg, 2 * MS);
	expect("the turn goes on at 61 of 60 ms", tg_arm_is_held(&tg), false);
	turn(MS);
	tg_arm_yield(&tg);
	expect("the turn goes on after bulk has yielded", tg_arm_is_held(&tg), false);
	tg.budget.high_at = jiffies;
	expect("the turn goes on beside HIGH after bulk has yielded", tg_arm_is_held(&tg), false);
	turn(MS);
	probe_holds = true;
	expect("urgent requests are held in a probe", tg_arm_is_held(&tg), false);
	probe_holds = false;
}

/* If HIGH asks during a turn, this turn and its pause are as if HIGH had asked before the turn. */
static void test_high_comes(void)
{
	begin_disk();
	expect_between("turn before HIGH comes", turn(ALONE), 5.2, 5.4);
	kernel_now += ALONE / 2;
	expect("bulk's turn", tg_arm_is_held(&tg), true);
	tg.budget.high_at = jiffies;
	expect("bulk's turn for a moment", tg_arm_is_held(&tg), true);
	expect("end of the turn for HIGH", tg_arm_changes_at(&tg) - kernel_now, ALONE / 2);
	kernel_now += ALONE / 2;
	expect("bulk's turn after that", tg_arm_is_held(&tg), false);
	expect("pause after the turn", pause(ALONE), 18);
	kernel_now += 2 * SECOND;
	expect("pause after the turn, HIGH being silent", pause(ALONE), 18);
}

/* If bulk has sent more than fits into a turn beside HIGH, the turn ends as soon as HIGH asks. */
static void test_high_comes_late(void)
{
	begin_disk();
	turn(ALONE);
	tg_arm_charge(&tg, 60 * MS);
	expect("bulk's turn", tg_arm_is_held(&tg), true);
	tg.budget.high_at = jiffies;
	expect("bulk's turn once HIGH has come", tg_arm_is_held(&tg), false);
}

/* A turn that is due waits for a flush, but not longer than a slow urgent request takes alone. */
static void test_flush(void)
{
	begin_disk();
	turn(ALONE);
	kernel_now = tg_arm_due_at(&tg);
	expect("a turn that is due may begin", tg_arm_is_free(&tg), true);
	expect("urgent requests are held for a turn that is due", tg_arm_is_held(&tg), true);
	flush_began_at = kernel_now - MS;
	expect("a turn that is due may begin during a flush", tg_arm_is_free(&tg), false);
	expect("urgent requests are held during a flush", tg_arm_is_held(&tg), false);
	kernel_now += ALONE;
	expect("a turn that is late may begin during a flush", tg_arm_is_free(&tg), true);
	expect("urgent requests are held for a turn that is late", tg_arm_is_held(&tg), true);
	flush_began_at = 0;
}

/*
 * An administrator may set the tunable exchange to 0 at any moment. tg_arm_length() must not read
 * the tunable again after tg_exchange() has: a price of 0 would make it divide by zero.
 */
static void test_exchange_changes(void)
{
	begin_disk();
	exchange_ends = true;
	expect_between("turn while the exchange rate becomes 0", turn(ALONE), 5.2, 5.4);
	exchange_ends = false;
}

int main(int argc, char **argv)
{
	begin_tests(argc, argv);
	RUN(test_default());
	RUN(test_high());
	RUN(test_targets());
	RUN(test_unknown());
	RUN(test_ends());
	RUN(test_high_comes());
	RUN(test_high_comes_late());
	RUN(test_flush());
	RUN(test_exchange_changes());
	return end_tests("triage arm: turns are as long as the settings ask for");
}
