/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Has the inline code that every request passes on its way to the device. device.c and the other
 * parts have the code that only some requests need. device.c also records requests that come back.
 */
#ifndef TG_DEVICE_H
#define TG_DEVICE_H

#include <linux/jiffies.h>
#include <linux/lockdep.h>

#include "triage.h"
#include "yield.h"

/*
 * The largest number of urgent requests that a shard times in one tick, without bulk and beside it.
 * Without bulk their times are alike, so a few suffice. While bulk is gated, a shard times all
 * urgent requests that are not hinted.
 */
#define TG_SAMPLES_ALONE 4
#define TG_SAMPLES_BULK 64

/* If no urgent request came for this long, the budget no longer applies. */
#define TG_QUIET_JIFFIES HZ
/*
 * For this long after the last request of HIGH, sparse flows of NORMAL go within bulk's budget
 * (tg_little_is_bulk()). After this time the budget has doubled twice (tg_depth_lingering()), and
 * will soon protect nothing.
 */
#define TG_HIGH_JIFFIES msecs_to_jiffies(32)

/*
 * If the budget has room for fewer requests than this, bulk is gated: it goes right behind an
 * urgent request, or after a short wait (tg_gate_opens_at()).
 */
#define TG_GATED_REQUESTS 2

void tg_device_init(struct tg_device *device);
void tg_device_exit(struct tg_device *device);
void tg_send_noticed(struct tg_shard *shard, struct request *rq);
void tg_requeue_request(struct request *rq);
void tg_finish_request(struct request *rq);

/*
 * Return how many urgent requests to time in a tick while bulk comes. On a device that answers at
 * once, a few suffice, because bulk delays no request there. A probe needs more, so that it ends
 * soon.
 */
static inline unsigned int tg_samples_beside_bulk(const struct tg_data *tg)
{
	return READ_ONCE(tg->controller.at_once) && !READ_ONCE(tg->controller.probing) ?
	       TG_SAMPLES_ALONE : TG_SAMPLES_BULK;
}

/*
 * Return whether tg_gated() may be true. This check is quicker. It is safe, because
 * tg_budget_now() is never below the budget that the controller has found, unless the user has
 * set the budget.
 */
static inline bool tg_may_be_gated(const struct tg_data *tg)
{
	return READ_ONCE(tg->controller.budget) <
	       TG_GATED_REQUESTS * (u64)READ_ONCE(tg->budget.bulk_cost) ||
	       READ_ONCE(tg->tunables.budget_fixed);
}

/* Return whether tg_send_noticed() has work to do for a request, urgent or of bulk. */
static inline bool tg_notices(const struct tg_data *tg, const struct tg_device *device,
			      struct request *rq)
{
	if (!tg_tag(rq)->urgent)
		return tg_charges_bulk(tg) && !tg_tag(rq)->charged;
	if (likely(!READ_ONCE(tg->budget.bulk_seen)))
		return device->samples < TG_SAMPLES_ALONE;
	return device->samples < tg_samples_beside_bulk(tg) || tg_may_be_gated(tg) ||
	       tg_op(rq) == TG_WRITE;
}

/* Record that a request goes to the device. */
static __always_inline void tg_send(struct tg_shard *shard, struct request *rq)
{
	struct tg_data *tg = shard->tg;
	struct tg_device *device = &shard->device;
	const struct tg_tag *tag = tg_tag(rq);
	struct tg_gauge *gauge = tag->urgent ? &device->urgent : &device->bulk;
	const unsigned long now = jiffies;

	lockdep_assert_held(&shard->lock);

	if (READ_ONCE(device->fewest))
		WRITE_ONCE(device->fewest, min(READ_ONCE(device->fewest),
					       tg_device_has(device)));
	WRITE_ONCE(gauge->sent, gauge->sent + TG_GAUGE_ONE + tag->cost);
	device->unmeasured--;
	if (!device->unmeasured || device->tick != now || tg_notices(tg, device, rq))
		tg_send_noticed(shard, rq);
}

/* Record that a request has come. Call this before tg_detector_see(). */
static inline void tg_media_came(struct tg_shard *shard, struct tg_flow *flow,
				 struct request *rq)
{
	if (shard->tg->rotational)
		tg_disk_came(shard, flow, rq);
}

static inline void tg_media_add(struct tg_shard *shard, struct tg_flow *flow,
				struct request *rq)
{
	if (shard->tg->rotational)
		tg_disk_add(flow, rq);
}

/*
 * Record that a request leaves its flow for the device. Return the time that the request takes
 * beyond its cost, in ns: on a disk, the seek of a stream back to its position.
 */
static inline u64 tg_media_take(struct tg_shard *shard, struct tg_flow *flow,
				struct request *rq)
{
	return shard->tg->rotational ? tg_disk_take(shard, flow, rq) : 0;
}

/* Return the next request of a flow that is not empty. */
static inline struct request *tg_media_next(struct tg_shard *shard, struct tg_flow *flow,
					    enum tg_reason *reason)
{
	if (shard->tg->rotational)
		return tg_disk_next(shard, flow, reason);
	return tg_first(&flow->fifo);
}

/* Call this when a flow's last request has been taken. */
static inline void tg_media_emptied(struct tg_shard *shard, struct tg_flow *flow)
{
	if (shard->tg->rotational)
		tg_disk_emptied(shard, flow);
}

/*
 * Return whether the disk waits for a flow's next request, and the new request @rq of @flow may go
 * meanwhile: @flow is the awaited flow, or @rq is near the head.
 */
static inline bool tg_media_awaited(const struct tg_shard *shard, const struct tg_flow *flow,
				    const struct request *rq)
{
	return shard->head.awaited &&
	       (shard->head.awaited == flow || tg_disk_is_near(shard, rq));
}

/* Return whether a flow's only request stays queued, to wait for bios to merge with. */
static inline bool tg_media_stays(struct tg_shard *shard, struct tg_flow *flow)
{
	return shard->tg->rotational && tg_disk_stays(shard, flow);
}

/*
 * Return how long the disk should wait for a flow's next request, in ns. Return 0 if it should not
 * wait.
 */
static inline u64 tg_media_wait(struct tg_shard *shard)
{
	return shard->head.awaited ? tg_disk_wait(shard) : 0;
}

/* Move the average cost of bulk towards a request's @cost, in ns. */
static inline void tg_bulk_average(struct tg_budget *budget, u32 cost)
{
	const u32 average = READ_ONCE(budget->bulk_cost);
	const u32 next = average - average / 16 + cost / 16;

	/* If all costs are alike, the average stays. Do not write it then: other CPUs read it. */
	if (next != average)
		WRITE_ONCE(budget->bulk_cost, next);
}

/* Return the present limit on bulk in the device, in ns of cost. */
static inline u64 tg_budget_now(const struct tg_data *tg)
{
	const unsigned int fixed = READ_ONCE(tg->tunables.budget_fixed);
	const long quiet = jiffies - READ_ONCE(tg->budget.urgent_at);
	const u64 found = READ_ONCE(tg->controller.budget);

	if (unlikely(fixed))
		return (u64)fixed * NSEC_PER_USEC;
	/* @quiet may be negative, because another CPU may have seen the next tick. */
	return likely(quiet <= 0) ? found : tg_depth_lingering(found, jiffies_to_msecs(quiet));
}

/*
 * Return whether bulk is gated: bulk waits for an urgent request, and goes right behind that
 * request. After a short wait bulk goes anyway (tg_gate_opens_at()). If the budget has room for
 * several requests, a wait would only leave the device idle. A disk has no gate, because it chooses
 * by itself which request it serves first.
 */
static inline bool tg_gated(const struct tg_data *tg, u64 budget)
{
	return !tg->rotational &&
	       budget < TG_GATED_REQUESTS * (u64)READ_ONCE(tg->budget.bulk_cost);
}

/* Record that an urgent request has come. Write once a tick: many CPUs read these fields. */
static inline void tg_urgent_seen(struct tg_data *tg, enum prio_class class)
{
	const unsigned long now = jiffies;

	if (class == PRIO_CLASS_HIGH && READ_ONCE(tg->budget.high_at) != now)
		WRITE_ONCE(tg->budget.high_at, now);
	if (likely(READ_ONCE(tg->budget.urgent_at) == now))
		return;
	if (!tg_pressed(tg))
		WRITE_ONCE(tg->budget.spells, READ_ONCE(tg->budget.spells) + 1);
	WRITE_ONCE(tg->budget.urgent_at, now);
	if (!READ_ONCE(tg->budget.pressed))
		WRITE_ONCE(tg->budget.pressed, true);
}

/* Return whether a request of HIGH came in the last @ticks jiffies. */
static inline bool tg_high_came_within(const struct tg_data *tg, unsigned long ticks)
{
	/* @high_at may be a tick ahead, because another CPU may have seen the next tick. */
	return (long)(jiffies - READ_ONCE(tg->budget.high_at)) < (long)ticks;
}

/*
 * Return whether sparse flows of NORMAL go within bulk's budget. They do if HIGH came lately,
 * because outside the budget they would delay HIGH as bulk does. They do not on a disk, where turns
 * of the arm protect HIGH, or on a device that answers at once, where nothing delays HIGH.
 */
static inline bool tg_little_is_bulk(const struct tg_data *tg)
{
	return tg_high_came_within(tg, TG_HIGH_JIFFIES) && !tg->rotational &&
	       !READ_ONCE(tg->controller.at_once);
}

/* Return whether a new request is eager even without its hinting flags (tg_flags_hint()). */
static inline bool tg_is_eager(const struct tg_data *tg, enum prio_class class,
			       struct request *rq)
{
	return class == PRIO_CLASS_HIGH ||
	       (class == PRIO_CLASS_NORMAL && tg_is_waited_for(rq) && !tg_little_is_bulk(tg));
}

/*
 * Return whether a rate limit holds a class's requests. None does while a task waits until they are
 * gone.
 */
static inline bool tg_limit_holds(const struct tg_shard *shard, enum prio_class class)
{
	return unlikely(READ_ONCE(shard->tg->tunables.limited)) && tg_limit_is_all(shard, class);
}

/*
 * Return whether the pace holds the writes of a class in a lane (flushes.h). It never holds writes
 * of HIGH. @lane is NULL if the pace need not be shared with other classes and cgroups: nothing
 * else is queued on the shard, or the write has aged.
 */
static inline bool tg_pace_is_closed(struct tg_shard *shard, struct tg_lane *lane,
				     enum prio_class class)
{
	return unlikely(READ_ONCE(shard->tg->flushes.pace)) && class != PRIO_CLASS_HIGH &&
	       tg_pace_is_closed_now(shard, lane, class);
}

/* Return whether the pace holds a request of bulk. If it does, record that. */
static inline bool tg_pace_holds(struct tg_shard *shard, struct tg_lane *lane,
				 enum prio_class class, const struct request *rq)
{
	if (likely(!READ_ONCE(shard->tg->flushes.pace)) || tg_op(rq) != TG_WRITE ||
	    !tg_pace_is_closed(shard, lane, class))
		return false;
	tg_pace_has_held(shard, lane, class);
	return true;
}

/*
 * Return whether the pace never holds a new request. It holds only writes: those of LOW, and those
 * of NORMAL for which no process waits (tg_is_waited_for()).
 */
static inline bool tg_passes_pace(enum prio_class class, struct request *rq)
{
	return tg_op(rq) != TG_WRITE || class == PRIO_CLASS_HIGH ||
	       (class == PRIO_CLASS_NORMAL && tg_is_waited_for(rq));
}

/* Return whether a shard may dispatch a request of bulk. */
static inline bool tg_bulk_may_go(const struct tg_shard *shard)
{
	const struct tg_data *tg = shard->tg;

	/* No urgent request came lately, and the device is not shared: no limit. */
	if (likely(!READ_ONCE(tg->budget.pressed)) && likely(!tg_is_shared(tg)))
		return true;
	return tg_bulk_may_go_limited(shard);
}

/* Return the cost of a request on flash, in ns. */
static inline u32 tg_cost_on_flash(const struct tg_data *tg, const struct request *rq)
{
	const struct tg_cost *of = &tg->costs.of[tg_op(rq)];
	const struct tg_cost cost = {
		.base = READ_ONCE(of->base),
		.per_kib = READ_ONCE(of->per_kib),
	};

	return tg_cost_of(&cost, tg_moves_data(rq) ? blk_rq_bytes(rq) : 0, true);
}

/*
 * Return whether something ends runs of bulk, or keeps them from beginning: bulk waits on a shard,
 * the budget limits bulk, or a probe keeps it out.
 */
static inline bool tg_runs_end(const struct tg_data *tg)
{
	return tg_some_may_wait(tg) || READ_ONCE(tg->controller.probing) ||
	       (READ_ONCE(tg->budget.pressed) &&
		READ_ONCE(tg->controller.budget) < TG_DEPTH_MAX);
}

/*
 * Return whether a shard's only request, which is bulk, may go in the shard's run (tg_run). A
 * request that is too large for the rest of the run does not: if all shards sent one, the device
 * would have many times its room.
 */
static inline bool tg_run_lasts(const struct tg_shard *shard, const struct request *rq)
{
	const unsigned long now = jiffies;

	return shard->run.left && shard->run.tick == now && tg_op(rq) == TG_READ &&
	       tg_cost_on_flash(shard->tg, rq) <= shard->run.left && !tg_runs_end(shard->tg);
}

/* Record that a request goes in a shard's run, so that tg_bulk_charge() is not called for it. */
static inline void tg_run_take(struct tg_shard *shard, struct request *rq)
{
	struct tg_tag *tag = tg_tag(rq);

	lockdep_assert_held(&shard->lock);

	tag->charged = true;
	/* The cost may have been learnt anew since tg_run_lasts(). */
	shard->run.left -= min(shard->run.left, tag->cost);
	tg_bulk_average(&shard->tg->budget, tag->cost);
}

/*
 * Add a request to the device's work, and return its cost, in ns. @flow is the flow from which the
 * request is taken, or NULL.
 */
static inline u32 tg_costs_charge(struct tg_shard *shard, const struct tg_flow *flow,
				  const struct request *rq)
{
	const struct tg_cost *of = &shard->tg->costs.of[tg_op(rq)];
	const struct tg_cost cost = {
		.base = READ_ONCE(of->base),
		.per_kib = READ_ONCE(of->per_kib),
	};
	const u32 bytes = tg_moves_data(rq) ? blk_rq_bytes(rq) : 0;
	u64 *work = &shard->device.work[tg_op(rq)];
	const u64 kib = bytes >> 10;

	lockdep_assert_held(&shard->lock);

	if (likely(!shard->tg->rotational)) {
		WRITE_ONCE(*work, *work + TG_WORK_ONE + kib);
		return tg_cost_of(&cost, bytes, true);
	}
	if (tg_disk_is_near(shard, rq)) {
		WRITE_ONCE(*work, *work + kib);
		return tg_cost_of(&cost, bytes, false);
	}
	WRITE_ONCE(*work, *work + TG_WORK_ONE + kib);
	return tg_cost_of(&cost, bytes, !flow || blk_rq_pos(rq) != flow->position);
}

/* Return the flow of a queued request. */
static inline struct tg_flow *tg_flow_of(struct tg_shard *shard, struct request *rq)
{
	const struct tg_tag *tag = tg_tag(rq);

	lockdep_assert_held(&shard->lock);

	return likely(tag->flow != TG_FLOW_COMMON) ? &shard->flows.table[tag->flow] :
						     &shard->common[tag->class];
}

#endif
