/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Learns bulk's budget from the latency of urgent requests (depth.h, knee.h), and the room from the
 * latency of bulk (room.h).
 */
#ifndef TG_CONTROLLER_H
#define TG_CONTROLLER_H

#include <linux/cache.h>
#include <linux/spinlock.h>

#include "depth.h"
#include "knee.h"
#include "room.h"

/* The latency factor if none is set, in hundredths: a reader hardly notices twice the latency. */
#define TG_FACTOR_ELSE 200

/*
 * An urgent request that takes this many times as long as without bulk has found a queue in the
 * device: it has waited for as long as the device served it.
 */
#define TG_QUEUES_TIMES 2

struct tg_data;

/**
 * struct tg_controller - what triage has learnt about urgent requests, and about bulk
 * @budget: limit on bulk in the device, in ns of cost
 * @alone: mean service time of urgent requests without bulk, in ns
 * @tail: estimated 99th percentile of that service time, in ns (tg_depth_target())
 * @confirmed: a second result has confirmed @alone and @tail (TG_DEPTH_CONFIRMED)
 * @at_once: the device has no queue (TG_DEPTH_AT_ONCE)
 * @probing: a probe keeps bulk out for a moment, to learn @alone and @tail
 * @probe_until: jiffies when a probe ends even if it lacks samples
 * @room: limit on bulk in the device while the device is shared (tg_is_shared()), in ns of cost
 * @room_had: what the device had with that limit, in ns of cost (tg_room.had)
 * @room_narrow: the limit that replaces @room for a moment, to find @room (TG_ROOM_NARROW)
 * @narrow_until: jiffies when @room applies again
 * @room_due: jiffies; from then on, bulk of a shared device is timed to find @room
 * @excess: a sum over urgent requests that came back while the budget held bulk: how much longer
 *	each took than TG_QUEUES_TIMES * @alone, in ns (tg_learn_excess()). It wraps, so use only
 *	differences; these may be negative
 * @lock: guards all below, and writes of all above. No lock is taken by readers of all above, by
 *	tg_flushes_learn() for @probes, and by inspect.c for what it shows. Taken with trylock
 *	only, also in interrupts. If the trylock fails, a sample is left out.
 * @depth: the results of probes, and the budget for a target
 * @knee: the search for the budget that is worth most at an exchange rate
 * @probe_began: jiffies; samples count from this time on
 * @probe_next: jiffies when the next probe is due
 * @probe_soonest: jiffies when the next probe is due if requests beside bulk call for one
 *	(tg_depth_beside())
 * @probes: number of probes that have ended
 * @judged: number of urgent requests from which the controller learnt the budget
 * @late: number of these requests that took longer than the target
 * @search: the search for @room
 */
struct tg_controller {
	u64 budget;
	u64 alone;
	u64 tail;
	bool confirmed;
	bool at_once;
	bool probing;
	unsigned long probe_until;
	u64 room;
	u64 room_had;
	u64 room_narrow;
	unsigned long narrow_until;
	unsigned long room_due;
	u64 excess;

	spinlock_t lock ____cacheline_aligned_in_smp;
	struct tg_depth depth;
	struct tg_knee knee;
	unsigned long probe_began;
	unsigned long probe_next;
	unsigned long probe_soonest;
	unsigned long probes;
	unsigned long judged;
	unsigned long late;
	struct tg_room search;
};

void tg_controller_init(struct tg_data *tg);
u64 tg_target(const struct tg_data *tg);
unsigned int tg_exchange(const struct tg_data *tg);
bool tg_finds_knee(const struct tg_data *tg);
bool tg_probe_holds(const struct tg_data *tg);
void tg_learn_urgent(struct tg_data *tg, enum prio_class class, bool clean, u64 latency);
void tg_learn_bulk(struct tg_data *tg, u64 now, u64 took, u32 cost);

#endif
