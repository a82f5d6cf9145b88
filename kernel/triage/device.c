// SPDX-License-Identifier: GPL-2.0-only
/*
 * Does the work that only some requests need on their way to the device, and records all requests
 * that come back.
 */
#include <linux/ktime.h>

#include "core.h"
#include "device.h"
#include "triage.h"
#include "yield.h"

/* One request in this many is measured for the histograms. */
#define TG_MEASURED 16

/* Do the work that is due once a tick. @rq is the first request that the shard sends in it. */
static void tg_tick(struct tg_shard *shard, struct request *rq)
{
	struct tg_data *tg = shard->tg;

	shard->device.tick = jiffies;
	shard->device.samples = 0;
	if (READ_ONCE(tg->budget.bulk_seen) &&
	    time_after_eq(jiffies, READ_ONCE(tg->budget.bulk_at) + HZ))
		WRITE_ONCE(tg->budget.bulk_seen, false);
	if (time_after(jiffies, READ_ONCE(tg->costs.window_until)))
		tg_costs_learn(tg);
	if (READ_ONCE(tg->budget.pressed) && time_after(jiffies, READ_ONCE(tg->flushes.look_at)))
		tg_flushes_learn(tg, rq);
}

/* Begin to time an urgent request, so that the controller can learn from it. */
static void tg_time(struct tg_shard *shard, struct request *rq)
{
	struct tg_tag *tag = tg_tag(rq);

	tg_urgent_seen(shard->tg, tag->class);
	shard->device.samples++;
	tag->timed = true;
	tag->clean = !tg_bulk_inside(shard->tg);
	rq->io_start_time_ns = ktime_get_ns();
}

/*
 * Begin to time an urgent request while bulk comes. If bulk is gated, give it a grant to go behind
 * this request. If bulk is not gated, and enough requests were timed in this tick, do nothing.
 */
static void tg_send_before_bulk(struct tg_shard *shard, struct request *rq)
{
	struct tg_data *tg = shard->tg;
	const u64 budget = tg_budget_now(tg);
	const bool gated = tg_gated(tg, budget);

	if (shard->device.samples >= tg_samples_beside_bulk(tg) && !gated)
		return;
	tg_time(shard, rq);
	if (!gated)
		return;
	tg_grant(tg, budget, rq->io_start_time_ns);
	if (tg->nr_shards == 1)
		return;
	yield_point();
	/* Pairs with tg_set_held(): its caller sees the grant, or this dispatcher sees nr_held. */
	smp_mb();
	yield_point();
	WRITE_ONCE(shard->granted, 1);
}

/*
 * Add to a histogram how long a request has waited. Mark the request, so that its service time is
 * added to another one.
 */
static void tg_send_measured(struct tg_shard *shard, struct request *rq)
{
	struct tg_tag *tag = tg_tag(rq);

	shard->device.unmeasured = TG_MEASURED;
	tag->measured = true;
	rq->io_start_time_ns = ktime_get_ns();
	tg_measure(&shard->tg->waits[tag->class],
		   rq->io_start_time_ns - min_t(u64, rq->io_start_time_ns, rq->start_time_ns));
}

/*
 * Return whether a request's service time is typical of other requests. It is not if the request
 * moves no data, or completes only once its data is on the medium.
 */
static bool tg_is_usual(const struct request *rq)
{
	return tg_moves_data(rq) && !(rq->cmd_flags & (REQ_FUA | REQ_PREFLUSH));
}

/* Return whether bulk is timed now, because the room is sought (room.h). */
static bool tg_times_bulk(const struct tg_data *tg)
{
	return tg_shares_room(tg) && time_after_eq(jiffies, READ_ONCE(tg->controller.room_due));
}

/* Begin to time a request of bulk, so that the controller can learn the room from it. */
static void tg_time_bulk(struct request *rq)
{
	tg_tag(rq)->timed = true;
	rq->io_start_time_ns = ktime_get_ns();
}

/* Do what tg_send() has to do only for some requests. */
void tg_send_noticed(struct tg_shard *shard, struct request *rq)
{
	struct tg_device *device = &shard->device;
	struct tg_data *tg = shard->tg;
	struct tg_tag *tag = tg_tag(rq);
	const unsigned long now = jiffies;

	lockdep_assert_held(&shard->lock);

	if (device->tick != now)
		tg_tick(shard, rq);
	if (!device->unmeasured)
		tg_send_measured(shard, rq);
	if (!tag->urgent) {
		if (tg_charges_bulk(tg) && !tag->charged) {
			tag->charged = true;
			tg_bulk_charge(shard, rq);
		}
		if (tg_times_bulk(tg) && tg_is_usual(rq))
			tg_time_bulk(rq);
		return;
	}
	/* Urgent writes beside bulk fill the drive's write buffer too. */
	if (tg_op(rq) == TG_WRITE && READ_ONCE(tg->budget.bulk_seen) && !tag->charged) {
		tag->charged = true;
		tg_flushes_charge(shard, rq);
	}
	if (tag->hinted)
		return;
	if (READ_ONCE(tg->budget.bulk_seen))
		tg_send_before_bulk(shard, rq);
	else if (device->samples < TG_SAMPLES_ALONE)
		tg_time(shard, rq);
}

/* Learn from a request that was timed or measured, unless the driver sent it back. */
static void tg_learn_back(struct tg_data *tg, struct request *rq, bool done)
{
	struct tg_tag *tag = tg_tag(rq);
	const u64 now = ktime_get_ns();
	const u64 took = now - min_t(u64, now, rq->io_start_time_ns);

	if (tag->measured && done)
		tg_measure(&tg->services[tag->class], took);
	if (tag->timed && done && !tag->urgent)
		tg_learn_bulk(tg, now, took, tag->cost);
	if (tag->timed && done && tag->urgent) {
		WRITE_ONCE(tg->budget.urgent_back_at, now);
		if (tg_is_usual(rq))
			tg_learn_urgent(tg, tag->class, tag->clean && !tg_bulk_inside(tg), took);
	}
	tag->measured = false;
	tag->timed = false;
}

/*
 * Subtract a request from its gauge: it is @done, or the driver sent it back. Return whether the
 * caller must call tg_back_noticed() next. On flash only a few requests need that.
 */
static __always_inline bool tg_back(struct tg_shard *shard, struct request *rq, bool done)
{
	/* Nothing else writes the tag at this moment. */
	const struct tg_tag tag = *tg_tag(rq);
	struct tg_data *tg = shard->tg;

	atomic64_add(TG_GAUGE_ONE + tag.cost, tag.urgent ? &shard->device.urgent.back :
							   &shard->device.bulk.back);
	if (!done)
		atomic64_add(TG_GAUGE_ONE + tag.cost, &shard->device.returned);
	/* Pairs with tg_set_held(): its caller sees the gauge, or this sees nr_held. */
	smp_mb__after_atomic();
	yield_point();
	return unlikely(atomic_read(&tg->nr_held)) || tag.timed || tag.measured ||
	       tg->rotational;
}

/*
 * A period has ended. Return whether submitters no longer share the device: none has met another
 * for TG_SHARED_PERIODS, and the device has had the time for all bulk that it had when they last
 * met.
 */
static bool tg_sharing_ends(struct tg_data *tg)
{
	struct tg_submitters *submitters = &tg->submitters;
	/* Below 0 if another CPU has just counted, or lost, a period. */
	const s32 passed = READ_ONCE(submitters->answered) - READ_ONCE(submitters->met_at);

	if (!READ_ONCE(submitters->share))
		return false;
	/* A meeting and the end of a period may be noted in either order. */
	if (passed <= 2)
		WRITE_ONCE(submitters->behind_until,
			   jiffies + nsecs_to_jiffies(TG_SHARED_TIMES * tg_bulk_inside(tg)));
	if (passed < TG_SHARED_PERIODS ||
	    time_before(jiffies, READ_ONCE(submitters->behind_until)))
		return false;
	WRITE_ONCE(submitters->share, false);
	return true;
}

/* Learn from a request that has left its gauge, and wake held shards. */
static void tg_back_noticed(struct tg_shard *shard, struct request *rq, bool done)
{
	const struct tg_tag *tag = tg_tag(rq);
	struct tg_data *tg = shard->tg;

	if (tag->timed || tag->measured) {
		tg_learn_back(tg, rq, done);
		yield_point();
		/* Pairs with tg_set_held(): its caller sees the result, or this sees nr_held. */
		smp_mb();
		yield_point();
	}
	if (tg_period_ends(&tg->submitters) && tg_sharing_ends(tg)) {
		/* Pairs with tg_set_held(): its caller sees the end, or this sees nr_held. */
		smp_mb();
		yield_point();
	}
	if (tg->rotational)
		tg_disk_back(shard, rq);
	if (atomic_read(&tg->nr_held))
		tg_wake(tg, tg->nr_shards);
}

/* Record that the driver sends a request back. It is inserted again later. */
void tg_requeue_request(struct request *rq)
{
	struct tg_shard *shard = rq->mq_hctx->sched_data;

	if (!iosched_was_prepared(rq) || !tg_tag(rq)->cost)
		return;
	if (tg_back(shard, rq, false))
		tg_back_noticed(shard, rq, false);
	tg_tag(rq)->cost = 0;
	tg_tag(rq)->returned = true;
}

/* Subtract a request's tag from those of its submitter, if it was counted. */
static __always_inline void tg_put_tag(struct tg_data *tg, struct request *rq)
{
	const struct tg_tag *tag = tg_tag(rq);

	yield_point();
	if (likely(tag->held))
		tg_submitter_put(&tg->submitters, tag->submitter);
}

/*
 * Do the rest of tg_finish_request() for a request that needs tg_back_noticed(). A function of its
 * own, so that the other requests do not pay for saved registers.
 */
static noinline void tg_finish_noticed(struct tg_shard *shard, struct request *rq)
{
	tg_back_noticed(shard, rq, true);
	tg_put_tag(shard->tg, rq);
}

/*
 * Record that a request is done and gives its tag back. This is the last call for a request, in any
 * context, without a lock. There is no completed_request(), because the block layer would call it
 * right before this.
 */
void tg_finish_request(struct request *rq)
{
	struct tg_shard *shard = rq->mq_hctx->sched_data;

	if (likely(tg_tag(rq)->cost) && tg_back(shard, rq, true))
		tg_finish_noticed(shard, rq);
	else
		tg_put_tag(shard->tg, rq);
}

void tg_device_init(struct tg_device *device)
{
	device->fewest = U32_MAX;
	device->unmeasured = 1;
}

void tg_device_exit(struct tg_device *device)
{
	WARN_ON_ONCE(tg_gauge_inside(&device->bulk));
	WARN_ON_ONCE(tg_gauge_inside(&device->urgent));
}
