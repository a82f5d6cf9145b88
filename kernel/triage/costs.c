// SPDX-License-Identifier: GPL-2.0-only
/* Learns the cost of requests from a busy device. */
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/lockdep.h>
#include <linux/string.h>

#include "triage.h"

/* Costs are learnt over windows of this length. */
#define TG_WINDOW_JIFFIES msecs_to_jiffies(50)
/*
 * A device that has at least this many requests throughout a window is busy. Flash needs several,
 * because it has many dies.
 */
#define TG_BUSY_FLASH 8
#define TG_BUSY_DISK 1

void tg_costs_init(struct tg_data *tg)
{
	struct tg_costs *costs = &tg->costs;
	int op;

	spin_lock_init(&costs->lock);
	for (op = TG_READ; op < TG_OPS; op++)
		costs->of[op] = tg->rotational ? (struct tg_cost)TG_COST_GUESS_DISK :
						 (struct tg_cost)TG_COST_GUESS_FLASH;
	memcpy(costs->sure, costs->of, sizeof(costs->sure));
	costs->window_until = jiffies;
	costs->window_began = ktime_get_ns();
}

/*
 * Return the least number of requests that a shard had in the device since costs were learnt last,
 * and begin to count anew. Return 0 if no request came back, because the device may be stuck then.
 * Also return 0 if the shard sent none: work is counted when a request is sent, so nothing was
 * counted for the work that the device did in this time.
 */
static u64 tg_costs_fewest(struct tg_device *device)
{
	const u64 back = atomic64_read(&device->bulk.back) + atomic64_read(&device->urgent.back);
	const bool moves = back != device->learnt_back;
	const u32 fewest = READ_ONCE(device->fewest);

	device->learnt_back = back;
	/* If the shard writes this number right now, the next window may not count as busy. */
	WRITE_ONCE(device->fewest, U32_MAX);
	/* Since the shard sent its last request, it has never had fewer in the device than now. */
	return moves && fewest != U32_MAX ? min(fewest, tg_device_has(device)) : 0;
}

/*
 * Sum up the work of all shards. Return a lower bound of the number of requests that the device had
 * since the last call: the sum of the shards' least numbers. Begin to count these anew.
 */
static u64 tg_costs_sum(struct tg_data *tg, u64 sum[TG_OPS])
{
	u64 fewest = 0;
	unsigned int i;
	int op;

	lockdep_assert_held(&tg->costs.lock);

	for (i = 0; i < tg->nr_shards; i++) {
		struct tg_device *device = &tg->shards[i]->device;

		for (op = TG_READ; op < TG_OPS; op++)
			sum[op] += READ_ONCE(device->work[op]);
		fewest += tg_costs_fewest(device);
	}
	return fewest;
}

static void tg_costs_publish(struct tg_costs *costs, const struct tg_cost learnt[TG_OPS])
{
	int op;

	lockdep_assert_held(&costs->lock);

	for (op = TG_READ; op < TG_OPS; op++) {
		WRITE_ONCE(costs->of[op].base, learnt[op].base);
		WRITE_ONCE(costs->of[op].per_kib, learnt[op].per_kib);
	}
}

/*
 * Return how much tg_controller.excess has grown since the last call, in ns. If it has not grown,
 * urgent requests found no queue in the device, on average.
 */
static s64 tg_costs_excess(struct tg_data *tg)
{
	const u64 excess = READ_ONCE(tg->controller.excess);
	const u64 before = tg->costs.window_excess;

	lockdep_assert_held(&tg->costs.lock);

	tg->costs.window_excess = excess;
	return excess - before;
}

/*
 * Return whether the bulk that came back since the last call costs at least as much as the bulk in
 * the device. If it costs less, some bulk may be stuck in the device, and the elapsed time tells
 * nothing about costs.
 */
static bool tg_costs_move(struct tg_data *tg)
{
	const u64 served = tg_bulk_served(tg);
	const u64 before = tg->costs.window_served;

	lockdep_assert_held(&tg->costs.lock);

	tg->costs.window_served = served;
	return ((served - before) & TG_GAUGE_COST) >= tg_bulk_inside(tg);
}

/* Update the costs if a window is over. */
noinline void tg_costs_learn(struct tg_data *tg)
{
	struct tg_costs *costs = &tg->costs;
	struct tg_cost learnt[TG_OPS];
	struct tg_work work[TG_OPS];
	u64 now[TG_OPS] = {};
	u64 time, fewest;
	s64 excess;
	bool moves;
	int op;

	if (!spin_trylock(&costs->lock))
		return;
	/* Another shard may have learnt from this window already. */
	if (!time_after(jiffies, costs->window_until))
		goto unlock;
	time = ktime_get_ns();
	fewest = tg_costs_sum(tg, now);
	excess = tg_costs_excess(tg);
	moves = tg_costs_move(tg);
	for (op = TG_READ; op < TG_OPS; op++) {
		learnt[op] = costs->of[op];
		work[op] = tg_work_between(costs->window_work[op], now[op]);
		costs->window_work[op] = now[op];
	}
	if (fewest >= (tg->rotational ? TG_BUSY_DISK : TG_BUSY_FLASH)) {
		tg_cost_learn(learnt, work, time - costs->window_began);
		memcpy(costs->sure, learnt, sizeof(learnt));
	} else if (excess <= 0) {
		for (op = TG_READ; op < TG_OPS; op++)
			tg_cost_return(&learnt[op], &costs->sure[op]);
	} else if (fewest && moves) {
		tg_cost_raise(learnt, work, time - costs->window_began);
	}
	tg_costs_publish(costs, learnt);
	costs->window_began = time;
	WRITE_ONCE(costs->window_until, jiffies + TG_WINDOW_JIFFIES);
unlock:
	spin_unlock(&costs->lock);
}
