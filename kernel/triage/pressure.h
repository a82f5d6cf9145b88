/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What every request passes on its way to the device and back; what is done for some
 * only is in pressure.c.
 */
#ifndef TG_PRESSURE_H
#define TG_PRESSURE_H

#include <linux/jiffies.h>
#include <linux/lockdep.h>

#include "triage.h"

/* Without bulk urgent requests are timed, at most so many a tick: they are alike. */
#define TG_SAMPLES_ALONE 4
/* One request of so many is measured for the histograms. */
#define TG_MEASURED 16

void tg_send_noticed(struct tg_shard *shard, struct request *rq);
void tg_back_noticed(struct tg_shard *shard, struct tg_tag *tag, bool done);

/* Take note that a request goes to the device; @urgent: somebody waits for it. */
static inline void tg_send(struct tg_shard *shard, struct request *rq, bool urgent)
{
	struct tg_data *tg = shard->tg;
	struct tg_tag *tag = tg_tag(rq);
	struct tg_gauge *gauge = urgent ? &shard->urgent : &shard->bulk;
	const unsigned long now = jiffies;

	lockdep_assert_held(&shard->lock);

	if (shard->fewest)
		shard->fewest = min(shard->fewest, tg_gauge_count(&shard->bulk) +
						   tg_gauge_count(&shard->urgent));
	WRITE_ONCE(gauge->sent, gauge->sent + TG_GAUGE_ONE + tag->cost);
	tag->urgent = urgent;
	tag->in_flight = true;
	shard->unmeasured--;
	if (!shard->unmeasured || shard->tick != now ||
	    (urgent ? READ_ONCE(tg->bulk_seen) || shard->samples < TG_SAMPLES_ALONE :
		      READ_ONCE(tg->pressed)))
		tg_send_noticed(shard, rq);
}

/* A request that was in the device no longer is: @done, or sent back. By anybody. */
static inline void tg_back(struct tg_shard *shard, struct request *rq, bool done)
{
	struct tg_tag *tag = tg_tag(rq);
	struct tg_data *tg = shard->tg;

	tag->in_flight = false;
	atomic64_add(TG_GAUGE_ONE + tag->cost,
		     tag->urgent ? &shard->urgent.back : &shard->bulk.back);
	/* Pairs with the barrier in tg_throttle(). */
	smp_mb__after_atomic();
	if (unlikely(atomic_read(&tg->nr_throttled)) || tag->timed || tag->measured ||
	    tag->on_disk)
		tg_back_noticed(shard, tag, done);
}

#endif
