// SPDX-License-Identifier: GPL-2.0-only
/*
 * Enforces the rates that the administrator sets for classes. A rate also limits guaranteed shares
 * and aged requests, but not a request that the driver sent back.
 *
 * No limit holds requests while a task waits until they are gone: a task that freezes the queue
 * waits for all requests, and a task that takes a CPU offline waits for the requests of that CPU's
 * hardware queue. Bulk's budget does not hold these requests either (order.c).
 */
#include <linux/ktime.h>
#include <linux/lockdep.h>
#include <linux/math.h>
#include <linux/sizes.h>

#include "device.h"
#include "triage.h"

/* Return when a class may send again, in ns. Return 0 if it may send at any time. */
static u64 tg_limit_opens_at(const struct tg_data *tg, enum prio_class class)
{
	const struct tg_limit *limit = &tg->limits.of[class];
	u64 at = 0;

	if (READ_ONCE(tg->tunables.limit_iops[class]))
		at = tg_limit_opens(atomic64_read(&limit->requests_due));
	if (READ_ONCE(tg->tunables.limit_kib[class]))
		at = max_t(u64, at, tg_limit_opens(atomic64_read(&limit->kib_due)));
	return at;
}

/* Return whether a class has used up a rate limit for now. The caller needs no lock. */
bool tg_limit_is_reached(const struct tg_data *tg, enum prio_class class)
{
	return unlikely(READ_ONCE(tg->tunables.limited)) &&
	       ktime_get_ns() < tg_limit_opens_at(tg, class);
}

static bool tg_hctx_is_inactive(const struct blk_mq_hw_ctx *hctx)
{
	return test_bit(BLK_MQ_S_INACTIVE, &hctx->state);
}

/*
 * Return whether a class has a request for a hardware queue that has no CPU online. If one shard
 * serves all hardware queues and one of them has no CPU online, look at each queued request of the
 * class.
 */
static bool tg_class_must_drain(const struct tg_shard *shard, enum prio_class class)
{
	const struct blk_mq_hw_ctx *hctx;
	const struct tg_lane *lane;
	const struct request *rq;
	bool any = false;
	unsigned long i;

	lockdep_assert_held(&shard->lock);

	if (shard->tg->nr_shards > 1)
		return shard->counts[class].queued && tg_hctx_is_inactive(READ_ONCE(shard->hctx));
	queue_for_each_hw_ctx(shard->tg->queue, hctx, i)
		any |= tg_hctx_is_inactive(hctx);
	if (likely(!any))
		return false;
	list_for_each_entry(lane, &shard->lanes, entry)
		hlist_for_each_entry(rq, &lane->classes[class].arrivals.first, hash)
			if (tg_hctx_is_inactive(rq->mq_hctx))
				return true;
	return false;
}

/* Return whether a task waits until a class's requests are gone. Then no limit holds them. */
bool tg_is_waited_out(const struct tg_shard *shard, enum prio_class class)
{
	return READ_ONCE(shard->tg->queue->mq_freeze_depth) ||
	       tg_class_must_drain(shard, class);
}

/*
 * Return whether a rate limit holds a class's requests. tg_limit_holds() calls this only if some
 * class has a limit.
 */
bool tg_limit_is_all(const struct tg_shard *shard, enum prio_class class)
{
	return tg_limit_is_reached(shard->tg, class) && !tg_is_waited_out(shard, class);
}

static void tg_limit_take(atomic64_t *due, u64 now, u32 units, u32 rate)
{
	s64 old = atomic64_read(due);

	while (!atomic64_try_cmpxchg(due, &old, tg_limit_charged(old, now, units, rate)))
		;
}

/*
 * Charge a dispatched request to its class's limits. But while a freeze, or a CPU that goes
 * offline, waits for requests, they go even if their class has reached a limit. Do not charge them
 * then: a whole backlog of them would block the class for minutes.
 */
void tg_limit_charge(struct tg_shard *shard, struct request *rq)
{
	struct tg_data *tg = shard->tg;
	const enum prio_class class = tg_tag(rq)->class;
	const unsigned int iops = READ_ONCE(tg->tunables.limit_iops[class]);
	const unsigned int kib = READ_ONCE(tg->tunables.limit_kib[class]);
	struct tg_limit *limit = &tg->limits.of[class];
	const u64 now = ktime_get_ns();

	/*
	 * tg_is_waited_out() looks only at queued requests, and this one is no longer queued. So
	 * check its own hardware queue here.
	 */
	if (tg_limit_is_reached(tg, class) &&
	    (tg_hctx_is_inactive(rq->mq_hctx) || tg_is_waited_out(shard, class)))
		return;
	if (iops)
		tg_limit_take(&limit->requests_due, now, 1, iops);
	if (kib && tg_moves_data(rq))
		tg_limit_take(&limit->kib_due, now, DIV_ROUND_UP(blk_rq_bytes(rq), SZ_1K), kib);
}

/* Forget the charges under a class's old limits: they do not count under new ones. */
void tg_limit_forget(struct tg_data *tg, enum prio_class class)
{
	atomic64_set(&tg->limits.of[class].requests_due, 0);
	atomic64_set(&tg->limits.of[class].kib_due, 0);
}

/*
 * Return how long a shard has to wait if only rate limits hold its requests, in ns. Return 0 if it
 * has no requests, or if limits do not hold all of them.
 */
u64 tg_limit_wait(const struct tg_shard *shard)
{
	const u64 now = ktime_get_ns();
	u64 first = U64_MAX;
	int class;

	lockdep_assert_held(&shard->lock);

	for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++) {
		u64 at;

		if (!shard->counts[class].queued)
			continue;
		at = tg_limit_opens_at(shard->tg, class);
		if (at <= now || !tg_limit_holds(shard, class))
			return 0;
		first = min(first, at);
	}
	return first == U64_MAX ? 0 : first - now;
}
