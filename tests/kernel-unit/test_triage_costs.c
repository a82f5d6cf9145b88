// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guards: triage learns costs from a window in which flash always had eight requests or more. If
 * flash had fewer, but urgent requests found a queue there, triage raises costs that are far too
 * low. Raised costs go back once urgent requests find no queue. Triage learns nothing from a device
 * that was idle, or in which bulk is stuck. The test compiles costs.c itself.
 * Run with: make -C kernel unit
 */
#include "expect.h"
#include "triage/costs.c"

#define MS 1000000ull
#define KIB 128		/* length of a request of bulk */
#define SERVICE (2 * MS)	/* the device's time for a request of bulk, in ns */

static struct tg_data tg;
static struct tg_shard shard;
static struct tg_shard *all[] = { &shard };

/* Substitutes for functions of budget.c, for one shard */

u64 tg_bulk_inside(const struct tg_data *data)
{
	return tg_gauge_cost(&shard.device.bulk);
}

u64 tg_bulk_served(const struct tg_data *data)
{
	return atomic64_read(&shard.device.bulk.back) & TG_GAUGE_COST;
}

static u32 cost(void)
{
	return tg_cost_of(&tg.costs.of[TG_READ], KIB * 1024, true);
}

static void send(void)
{
	struct tg_device *device = &shard.device;

	device->fewest = min(device->fewest, tg_device_has(device));
	device->work[TG_READ] += TG_WORK_ONE + KIB;
	device->bulk.sent += TG_GAUGE_ONE + cost();
}

static void begin(u32 inside)
{
	kernel_now = 100 * MS;
	memset(&tg, 0, sizeof(tg));
	memset(&shard, 0, sizeof(shard));
	tg.shards = all;
	tg.nr_shards = 1;
	tg_costs_init(&tg);
	shard.device.fewest = U32_MAX;
	while (inside--)
		send();
	/* The device was idle when the first window began. End it before the test's own windows. */
	kernel_now += 60 * MS;
	tg_costs_learn(&tg);
}

/*
 * Let @nr windows pass. The device serves one request at a time, and the number of requests in it
 * stays the same. Each urgent request takes @late ns longer than twice its time without bulk. If
 * bulk is @stuck, only urgent requests come back, which cost almost nothing. Return the learnt cost
 * of a request of bulk, in ns.
 */
static u32 windows(u32 nr, s64 late, bool stuck)
{
	struct tg_device *device = &shard.device;
	u32 i;

	while (nr--) {
		for (i = 0; i < 60 * MS / SERVICE; i++) {
			kernel_now += SERVICE;
			if (stuck) {
				device->fewest = min(device->fewest, tg_device_has(device));
				device->work[TG_READ] += TG_WORK_ONE;
				device->urgent.sent += TG_GAUGE_ONE;
				atomic64_add(TG_GAUGE_ONE, &device->urgent.back);
				continue;
			}
			send();
			atomic64_add(tg_gauge_inside(&device->bulk) / tg_device_has(device),
				     &device->bulk.back);
		}
		tg.controller.excess += 8 * late;
		tg_costs_learn(&tg);
	}
	return cost();
}

static void test_flash(void)
{
	const struct tg_cost guess = TG_COST_GUESS_FLASH;
	const u32 first = tg_cost_of(&guess, KIB * 1024, true);

	begin(12);
	expect_near("cost, twelve inside", windows(100, 0, false), SERVICE, .1);
	begin(2);
	expect("cost, two inside, no queue", windows(100, -100000, false), first);
	begin(2);
	expect("cost, two inside, nothing urgent", windows(100, 0, false), first);
	begin(2);
	expect_between("cost, two inside, a queue", windows(100, 100000, false), SERVICE / 5,
		       SERVICE / 2);
	expect("cost, no queue any more", windows(200, -100000, false), first);
	begin(0);
	expect("cost, idle at times", windows(100, 100000, false), first);
	begin(2);
	expect("cost, bulk is stuck", windows(100, 100000, true), first);
}

int main(int argc, char **argv)
{
	begin_tests(argc, argv);
	RUN(test_flash());
	return end_tests("triage costs: learnt from a busy device, raised if urgent requests queue");
}
