// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a class may send in a second, where the administrator has set it. It holds
 * against everything but a request that the driver sent back: against a guaranteed
 * share and against aging too. It ends when the queue is frozen, as for another
 * scheduler: who waits for that must not wait for what a limit lets through.
 */
#include <linux/ktime.h>
#include <linux/lockdep.h>
#include <linux/math.h>
#include <linux/sizes.h>

#include "triage.h"

/* When a class may send again; ns, 0: any time. */
u64 tg_limit_opens_at(const struct tg_data *tg, enum prio_class class)
{
	const struct tg_limit *limit = &tg->limits[class];
	u64 at = 0;

	if (READ_ONCE(tg->queue->mq_freeze_depth))
		return 0;
	if (READ_ONCE(tg->tunables.limit_iops[class]))
		at = tg_limit_opens(atomic64_read(&limit->requests_due));
	if (READ_ONCE(tg->tunables.limit_kib[class]))
		at = max_t(u64, at, tg_limit_opens(atomic64_read(&limit->kib_due)));
	return at;
}

static void tg_limit_take(atomic64_t *due, u64 now, u32 units, u32 rate)
{
	s64 old = atomic64_read(due);

	while (!atomic64_try_cmpxchg(due, &old, tg_limit_charged(old, now, units, rate)))
		;
}

/* A request of a class that has limits is sent. */
void tg_limit_charge(struct tg_data *tg, const struct request *rq)
{
	const enum prio_class class = tg_tag((struct request *)rq)->class;
	const unsigned int iops = READ_ONCE(tg->tunables.limit_iops[class]);
	const unsigned int kib = READ_ONCE(tg->tunables.limit_kib[class]);
	struct tg_limit *limit = &tg->limits[class];
	const u64 now = ktime_get_ns();

	if (iops)
		tg_limit_take(&limit->requests_due, now, 1, iops);
	if (kib && tg_moves_data(rq))
		tg_limit_take(&limit->kib_due, now, DIV_ROUND_UP(blk_rq_bytes(rq), SZ_1K), kib);
}

/* What a class was charged by its old limits does not count against new ones. */
void tg_limit_forget(struct tg_data *tg, enum prio_class class)
{
	atomic64_set(&tg->limits[class].requests_due, 0);
	atomic64_set(&tg->limits[class].kib_due, 0);
}

/*
 * For how long a shard has to wait if limits are all that holds it; 0: something else
 * does. In ns.
 */
u64 tg_limit_wait(const struct tg_shard *shard)
{
	const u64 now = ktime_get_ns();
	u64 first = U64_MAX;
	int class;

	lockdep_assert_held(&shard->lock);

	for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++) {
		u64 at;

		if (!shard->classes[class].queued)
			continue;
		at = tg_limit_opens_at(shard->tg, class);
		if (at <= now)
			return 0;
		first = min(first, at);
	}
	return first - now;
}
