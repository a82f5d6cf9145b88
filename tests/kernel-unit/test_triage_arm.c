// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guards: bulk's turn of a disk's arm has the length that the settings ask for. It is short beside
 * HIGH, it does not grow while urgent requests pause, and HIGH ends a turn that began without it.
 * arm.c itself runs here. Run with: make -C kernel unit
 */
#include "expect.h"
#include "triage/arm.c"

#define MS 1000000ull
#define SECOND (1000 * MS)

/* The disk's way, and the service time of a slow urgent request without bulk; ns */
#define WAY (12 * MS)
#define ALONE (40 * MS)

static struct tg_data tg;
static bool probe_holds;
/* Somebody sets exchange to 0 just after it has been read. */
static bool exchange_ends;

/* The disk has no urgent request. It has a flush from flush_began_at on, if that is set. */

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

/* As in controller.c */

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

/* Begin with a disk as it is by default, to which urgent requests come that are not of HIGH. */
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

/* Begin a turn of bulk. Return when it ends, in times of @unit from now. */
static double turn(u64 unit)
{
	tg.arm = (struct tg_arm){};
	tg_arm_charge(&tg, 0);
	return (double)(tg_arm_changes_at(&tg) - kernel_now) / unit;
}

/* Return the time from the end of the turn until the next one is due, in times of @unit. */
static double pause(u64 unit)
{
	return (double)(tg_arm_due_at(&tg) - tg_arm_ends_at(&tg)) / unit;
}

/* Without HIGH a turn is the one that is worth most, and the pause is 3 times ALONE. */
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

/* A target decides for everybody. */
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
 * While nothing is known of urgent requests, one request of bulk goes in a turn. tg_budget_now()
 * grows while urgent requests pause: as the length of a turn it would be two hours after 0.4 s.
 * If the user has set a target, the controller's budget grows too.
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

/* A turn ends when bulk has sent as much as fits, or can use no more of it. */
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
	expect("so it does for HIGH", tg_arm_is_held(&tg), false);
	turn(MS);
	probe_holds = true;
	expect("urgent requests are held in a probe", tg_arm_is_held(&tg), false);
	probe_holds = false;
}

/* HIGH that asks during a turn waits until its own turn would end, and has its own pause then. */
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

/* HIGH that comes when bulk has sent more than fits into HIGH's turn ends the turn at once. */
static void test_high_comes_late(void)
{
	begin_disk();
	turn(ALONE);
	tg_arm_charge(&tg, 60 * MS);
	expect("bulk's turn", tg_arm_is_held(&tg), true);
	tg.budget.high_at = jiffies;
	expect("bulk's turn once HIGH has come", tg_arm_is_held(&tg), false);
}

/* A turn that is due waits for a flush, for as long as a slow request takes alone, and no longer. */
static void test_flush(void)
{
	begin_disk();
	turn(ALONE);
	kernel_now = tg_arm_due_at(&tg);
	expect("a turn that is due may begin", tg_arm_is_free(&tg), true);
	expect("urgent requests are held for it", tg_arm_is_held(&tg), true);
	flush_began_at = kernel_now - MS;
	expect("it may during a flush", tg_arm_is_free(&tg), false);
	expect("urgent requests are held during a flush", tg_arm_is_held(&tg), false);
	kernel_now += ALONE;
	expect("it may when it is late", tg_arm_is_free(&tg), true);
	expect("urgent requests are held when it is late", tg_arm_is_held(&tg), true);
	flush_began_at = 0;
}

/*
 * An administrator may set the tunable exchange to 0 at any moment. If tg_arm_length() read it
 * again after the call of tg_exchange(), it would divide by zero.
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
