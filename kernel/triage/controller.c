// SPDX-License-Identifier: GPL-2.0-only
/*
 * Learns bulk's budget from the latency of urgent requests.
 *
 * Now and then a probe keeps bulk out of the device, to learn the latency of urgent requests
 * without bulk. On flash, trials between probes find the budget that is worth most (knee.h). With
 * a target, there are no trials: an urgent request that takes longer than the target lowers the
 * budget, and the others raise it (depth.h). On a disk this budget limits nothing: bulk gets turns
 * of the arm (arm.c).
 */
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/lockdep.h>

#include "core.h"
#include "device.h"
#include "triage.h"

/*
 * A probe that lacks samples ends after this time. On a disk this time is longer, because the disk
 * first has to serve the requests that it has.
 */
#define TG_PROBE_JIFFIES_FLASH msecs_to_jiffies(100)
#define TG_PROBE_JIFFIES_DISK msecs_to_jiffies(1000)
/*
 * A probe lets bulk in once no urgent request is in the device, and none has come or come back for
 * this long, in jiffies. On flash this is about 30 ms: if requests come nearly that far apart, a
 * probe must hold bulk between them. Otherwise each would meet bulk, and their latency without bulk
 * would stay unknown. On a disk so long a wait would cost bulk too much.
 */
#define TG_PAUSE_FLASH msecs_to_jiffies(32)
#define TG_PAUSE_DISK 2
/*
 * Requests that are in the device when a trial begins leave it within this multiple of
 * tg_controller.tail.
 */
#define TG_GONE_TIMES 4
/* A trial measures bulk's throughput over at least this many requests of average cost. */
#define TG_ENOUGH_REQUESTS 8
/*
 * The first budget of the search for the knee, as a multiple of tg_controller.alone. A multiple of
 * 1 would keep the device just busy (Little's law).
 */
#define TG_FIRST_TIMES 2
/* For this long after the last write, a drive may still write its buffer to the flash. */
#define TG_SETTLE_JIFFIES msecs_to_jiffies(32)
/* Bulk may still delay urgent requests for this long after bulk was last dispatched. */
#define TG_FELT_JIFFIES msecs_to_jiffies(100)

void tg_controller_init(struct tg_data *tg)
{
	struct tg_controller *controller = &tg->controller;

	spin_lock_init(&controller->lock);
	controller->depth.budget = TG_DEPTH_FIRST;
	controller->budget = TG_DEPTH_FIRST;
	controller->probe_began = jiffies;
	controller->probe_next = jiffies;
	controller->probe_soonest = jiffies;
	tg_room_init(&controller->search);
	controller->room = controller->search.room;
	controller->room_had = controller->search.had;
	controller->narrow_until = jiffies;
	controller->room_due = jiffies;
}

/* Return the latency that few urgent requests should exceed, in ns; 0 if it is not known yet. */
u64 tg_target(const struct tg_data *tg)
{
	const unsigned int target_us = READ_ONCE(tg->tunables.latency_target_us);

	if (target_us)
		return (u64)target_us * NSEC_PER_USEC;
	return div64_u64(READ_ONCE(tg->controller.tail) *
			 (READ_ONCE(tg->tunables.latency_factor) ?: TG_FACTOR_ELSE), 100);
}

/* Return the exchange rate, in %, if it limits bulk. Return 0 if a target does. */
unsigned int tg_exchange(const struct tg_data *tg)
{
	if (READ_ONCE(tg->tunables.latency_factor) || READ_ONCE(tg->tunables.latency_target_us))
		return 0;
	return READ_ONCE(tg->tunables.exchange);
}

/* Return whether trials find the budget (knee.h). A disk's arm has turns instead (turn.h). */
bool tg_finds_knee(const struct tg_data *tg)
{
	return tg_exchange(tg) && !tg->rotational;
}

/* Return whether a probe keeps bulk out now. It lets bulk in while urgent requests pause. */
bool tg_probe_holds(const struct tg_data *tg)
{
	const struct tg_controller *controller = &tg->controller;
	const unsigned long pause = tg->rotational ? TG_PAUSE_DISK : TG_PAUSE_FLASH;

	return READ_ONCE(controller->probing) &&
	       time_before(jiffies, READ_ONCE(controller->probe_until)) &&
	       (tg_urgent_inside(tg) ||
		time_before(jiffies, READ_ONCE(tg->budget.urgent_at) + pause));
}

/* Copy the estimates in @depth to the fields that are read without the lock. */
static void tg_publish_alone(struct tg_controller *controller)
{
	const struct tg_depth *depth = &controller->depth;

	lockdep_assert_held(&controller->lock);

	WRITE_ONCE(controller->alone, depth->mean);
	WRITE_ONCE(controller->tail, tg_depth_target(depth, 100));
	WRITE_ONCE(controller->at_once, depth->at_once);
	WRITE_ONCE(controller->confirmed, depth->confirmed);
}

static void tg_probe_begin(struct tg_data *tg)
{
	struct tg_controller *controller = &tg->controller;

	lockdep_assert_held(&controller->lock);

	controller->probe_began = jiffies;
	if (time_before(jiffies, READ_ONCE(tg->budget.written_at) + TG_SETTLE_JIFFIES))
		controller->probe_began += TG_SETTLE_JIFFIES;
	WRITE_ONCE(controller->probe_until,
		   controller->probe_began + (tg->rotational ? TG_PROBE_JIFFIES_DISK :
							       TG_PROBE_JIFFIES_FLASH));
	WRITE_ONCE(controller->probing, true);
}

/*
 * End a probe, and set the time of the next one: a multiple of this probe's length from now. The
 * length runs from @probe_began, when the device had settled, to now, or to @probe_until if that is
 * earlier.
 */
static void tg_probe_end(struct tg_data *tg)
{
	struct tg_controller *controller = &tg->controller;
	struct tg_depth *depth = &controller->depth;
	const unsigned long until = controller->probe_until;
	const unsigned long ended = time_before(jiffies, until) ? jiffies : until;
	const unsigned long length = ended - controller->probe_began + 1;
	const u32 least = tg_finds_knee(tg) ? TG_DEPTH_SPACING_PRICE : TG_DEPTH_SPACING_UNSURE;

	lockdep_assert_held(&controller->lock);

	WRITE_ONCE(controller->probes, controller->probes + 1);
	WRITE_ONCE(controller->probing, false);
	controller->probe_next = jiffies + length * tg_depth_spacing(depth, least);
	controller->probe_soonest = jiffies + length * tg_depth_soonest(depth);
}

/*
 * Learn the latency of an urgent request, if it met no bulk (@clean). End a probe that has all its
 * samples, or whose time is over. While the estimate is not confirmed, the search for the knee
 * begins anew with each result, because that search measures delays in multiples of the estimate.
 */
static void tg_learn_alone(struct tg_data *tg, bool clean, u64 latency)
{
	struct tg_controller *controller = &tg->controller;

	lockdep_assert_held(&controller->lock);

	if (clean && time_after_eq(jiffies, controller->probe_began) &&
	    tg_depth_alone(&controller->depth, latency, controller->probing)) {
		tg_publish_alone(controller);
		if (!controller->depth.confirmed)
			tg_knee_forget(&controller->knee);
		if (controller->probing)
			tg_probe_end(tg);
	} else if (controller->probing && time_after(jiffies, controller->probe_until)) {
		tg_probe_end(tg);
	}
}

/* Return how long requests from before a trial may still affect the device, in ns. */
static u64 tg_felt_for(const struct tg_data *tg)
{
	if (time_before(jiffies, READ_ONCE(tg->budget.written_at) + TG_SETTLE_JIFFIES))
		return jiffies_to_nsecs(TG_SETTLE_JIFFIES);
	return TG_GONE_TIMES * READ_ONCE(tg->controller.tail);
}

/* Return whether any shard waits until bulk may go, not for a rate limit or the pace. */
static bool tg_any_waits_for_bulk(const struct tg_data *tg)
{
	unsigned int i;

	if (!atomic_read(&tg->nr_held))
		return false;
	for (i = 0; i < tg->nr_shards; i++)
		if (tg_waits_for_bulk(tg->shards[i]))
			return true;
	return false;
}

/*
 * Learn from an urgent request what the present budget is worth (knee.h). Return the new budget,
 * in ns of cost.
 */
static u64 tg_learn_knee(struct tg_data *tg, u64 latency, bool limited, u64 least)
{
	struct tg_controller *controller = &tg->controller;
	struct tg_knee *knee = &controller->knee;
	const struct tg_knee_sample sample = {
		.latency = latency,
		.alone = controller->tail,
		.limited = limited || tg_any_waits_for_bulk(tg),
		.now = ktime_get_ns(),
		.work = tg_bulk_served(tg),
		.enough = TG_ENOUGH_REQUESTS * (u64)READ_ONCE(tg->budget.bulk_cost),
		.least = least,
		.settle = tg_felt_for(tg),
		.exchange = READ_ONCE(tg->tunables.exchange),
	};

	lockdep_assert_held(&controller->lock);

	if (controller->at_once)
		return TG_DEPTH_MAX;
	if (!knee->budget)
		knee->budget = TG_FIRST_TIMES * controller->alone;
	tg_knee_see(knee, &sample);
	return tg_knee_budget(knee);
}

/*
 * Add to @excess how much longer than TG_QUEUES_TIMES * @alone an urgent request took, but no more
 * than this multiple: a few very slow requests must not outweigh all others. A faster request
 * lowers @excess. Call this only while the budget holds bulk. Otherwise the device may be idle for
 * want of requests, and then slow requests tell nothing about costs.
 */
static void tg_learn_excess(struct tg_controller *controller, u64 latency)
{
	const u64 usual = TG_QUEUES_TIMES * controller->alone;

	lockdep_assert_held(&controller->lock);

	WRITE_ONCE(controller->excess, controller->excess + min(latency, 2 * usual) - usual);
}

/*
 * Adapt the budget to the latency of an urgent request that bulk may have delayed. Begin a
 * probe if one is due.
 */
static void tg_learn_budget(struct tg_data *tg, u64 latency)
{
	struct tg_controller *controller = &tg->controller;
	const u64 least = (u64)READ_ONCE(tg->budget.bulk_cost) *
			  max(READ_ONCE(tg->tunables.share_low), 1u) / 100;
	const bool limited = READ_ONCE(tg->budget.limited);
	const u64 target = tg_target(tg);
	const bool late = latency > target;
	bool rests = true;
	u64 budget;

	lockdep_assert_held(&controller->lock);

	if (limited && controller->confirmed)
		tg_learn_excess(controller, latency);
	/* On a disk, latency depends more on the arm's place than on bulk: call for no probe. */
	if (!tg->rotational && tg_depth_beside(&controller->depth, latency) &&
	    time_before(controller->probe_soonest, controller->probe_next))
		controller->probe_next = controller->probe_soonest;
	if (target) {
		WRITE_ONCE(controller->judged, controller->judged + 1);
		if (late)
			WRITE_ONCE(controller->late, controller->late + 1);
		if (tg_finds_knee(tg)) {
			budget = tg_learn_knee(tg, latency, limited, least);
			rests = tg_knee_rests(&controller->knee, controller->at_once);
		} else {
			tg_depth_judge(&controller->depth, late, limited, least);
			budget = controller->depth.budget;
		}
		WRITE_ONCE(controller->budget, budget);
		WRITE_ONCE(tg->budget.limited, false);
	}
	if (rests && time_after_eq(jiffies, controller->probe_next))
		tg_probe_begin(tg);
}

/* Learn from an urgent request that took @latency ns. @clean says that it met no bulk. */
void tg_learn_urgent(struct tg_data *tg, enum prio_class class, bool clean, u64 latency)
{
	const bool felt = time_before(jiffies,
				      READ_ONCE(tg->budget.bulk_at) + TG_FELT_JIFFIES);
	struct tg_controller *controller = &tg->controller;
	const bool narrow = tg_room_is_narrow(tg);
	unsigned long flags;

	if (!spin_trylock_irqsave(&controller->lock, flags))
		return;
	tg_urgent_seen(tg, class);
	/* Requests beside a narrow room say nothing of the budget (tg_knee_interrupt()). */
	if (controller->probing || !felt || narrow)
		tg_knee_interrupt(&controller->knee);
	if (controller->probing || !felt)
		tg_learn_alone(tg, clean, latency);
	else if (!narrow)
		tg_learn_budget(tg, latency);
	spin_unlock_irqrestore(&controller->lock, flags);
}

/*
 * Return a tick by which @at has come, or the present one if @at was before @now; both are in ns.
 * The next tick may be near, so that it comes too soon.
 */
static unsigned long tg_tick_after(u64 at, u64 now)
{
	return jiffies + (at > now ? nsecs_to_jiffies(at - now) + 2 : 0);
}

/* Learn the room from a request of bulk of @cost ns that took @took ns, and came back at @now. */
void tg_learn_bulk(struct tg_data *tg, u64 now, u64 took, u32 cost)
{
	/* This visits all shards, so do it before the lock is taken. */
	const u64 inside = tg_room_taken(tg);
	struct tg_controller *controller = &tg->controller;
	struct tg_room *search = &controller->search;
	unsigned long flags;
	u8 at;

	if (!spin_trylock_irqsave(&controller->lock, flags))
		return;
	at = search->at;
	tg_room_see(search, now, took, inside, cost, READ_ONCE(tg->budget.bulk_cost));
	if (search->at != at) {
		const bool narrow = search->at == TG_ROOM_NARROW;

		WRITE_ONCE(controller->room, search->room);
		WRITE_ONCE(controller->room_had, search->had);
		WRITE_ONCE(controller->room_narrow, tg_room_at_narrow(search));
		WRITE_ONCE(controller->narrow_until,
			   tg_tick_after(narrow ? search->until : now, now));
		/* At NARROW, time bulk at once: a fast device is done with it within a tick. */
		WRITE_ONCE(controller->room_due,
			   tg_tick_after(narrow ? now : search->from, now));
	}
	spin_unlock_irqrestore(&controller->lock, flags);
}
