// SPDX-License-Identifier: GPL-2.0-only
/*
 * Chooses the next request: first the lane of a cgroup (group.h), then a class of this lane. flow.c
 * chooses the flow. A lane's classes go in strict order, with four exceptions:
 * - A request goes first in its lane once it has waited as long as its class may.
 * - A waiting class gets its guaranteed share.
 * - Bulk has turns of a disk's arm.
 * - Hinted requests of NORMAL may use NORMAL's share before HIGH.
 *
 * A class that has reached its rate limit has to wait, however long its requests have waited. So do
 * writes of bulk while the pace holds them. A request that the driver sent back goes before all
 * others, and has no limit.
 */
#include <linux/jiffies.h>
#include <linux/lockdep.h>

#include "device.h"
#include "triage.h"

/* Return how long a request of NORMAL or LOW waits until it has aged, in jiffies. */
static unsigned long tg_aging_expire(const struct tg_data *tg, enum prio_class class)
{
	return msecs_to_jiffies(class == PRIO_CLASS_NORMAL ?
				READ_ONCE(tg->tunables.aging_expire_normal) :
				READ_ONCE(tg->tunables.aging_expire_low));
}

/*
 * Return the request that was the first to exceed its class's aging time. Return NULL if no request
 * has. Leave out a class that has reached its rate limit, and a class whose oldest request the pace
 * holds. So aged writes do not exceed the pace, and go oldest first.
 */
static struct request *tg_next_aged(struct tg_shard *shard, struct tg_lane *lane)
{
	struct request *found = NULL;
	unsigned long due = jiffies;
	bool paced = false;
	int class;

	if (time_before(due, lane->young_until))
		return NULL;
	for (class = PRIO_CLASS_NORMAL; class < PRIO_CLASS_COUNT; class++) {
		struct request *rq = tg_oldest(&lane->classes[class]);
		unsigned long at;

		if (!rq)
			continue;
		at = (unsigned long)rq->fifo_time + tg_aging_expire(shard->tg, class);
		if (!time_before(at, due) || tg_limit_holds(shard, class))
			continue;
		if (tg_pace_holds(shard, NULL, class, rq)) {
			paced = true;
			continue;
		}
		due = at;
		found = rq;
	}
	/* No request can exceed its aging time before the next tick. */
	if (!found && !paced)
		lane->young_until = jiffies + 1;
	return found;
}

/*
 * Return a request of a class that lacks more than a quantum of its guaranteed share. Return NULL
 * if none may go.
 */
static struct request *tg_next_reserved(struct tg_shard *shard, struct tg_lane *lane,
					enum tg_reason *reason)
{
	const s64 turn = (s64)READ_ONCE(shard->tg->tunables.quantum) * NSEC_PER_USEC;
	struct request *rq;
	int class;

	for (class = PRIO_CLASS_NORMAL; class < PRIO_CLASS_COUNT; class++) {
		const struct tg_class *c = &lane->classes[class];

		if (!c->queued || c->owed <= turn || tg_limit_holds(shard, class))
			continue;
		rq = tg_flow_next(shard, lane, class, true, reason);
		if (rq)
			return rq;
	}
	return NULL;
}

/*
 * Charge the class @served of a lane for @time ns of the device, and credit the lane's other
 * classes that wait.
 *
 * A share is a guarantee and no limit. So a request that did not go as part of the share only uses
 * up what its class is owed. But a request that did (@reserved) is charged in full. Otherwise a
 * class whose requests are longer than a quantum would have a multiple of its share.
 *
 * A class without requests, or one that its rate limit holds, saves up nothing. A class that the
 * pace holds saves up at most two quanta of its share: enough to go first when it may write.
 */
static void tg_settle(struct tg_shard *shard, struct tg_lane *lane, enum prio_class served,
		      s64 time, bool reserved)
{
	const struct tg_tunables *tunables = &shard->tg->tunables;
	const s64 next = 2 * (s64)READ_ONCE(tunables->quantum) * NSEC_PER_USEC;
	int class;

	for (class = PRIO_CLASS_NORMAL; class < PRIO_CLASS_COUNT; class++) {
		struct tg_class *c = &lane->classes[class];

		if (class == served)
			c->owed -= reserved ? time : clamp_t(s64, c->owed, 0, time);
		else
			c->owed += tg_share_due(time, class == PRIO_CLASS_NORMAL ?
						READ_ONCE(tunables->share_normal) :
						READ_ONCE(tunables->share_low));
		if (!c->queued || tg_limit_holds(shard, class))
			c->owed = min_t(s64, c->owed, 0);
		else if (c->owed > next && tg_class_is_paced(shard, lane, class))
			c->owed = next;
	}
}

/* Return whether NORMAL or LOW has a backlog that the class's rate limit does not hold. */
static bool tg_bulk_waits(const struct tg_shard *shard)
{
	const struct tg_lane *lane;
	int class;

	list_for_each_entry(lane, &shard->lanes, entry)
		for (class = PRIO_CLASS_NORMAL; class < PRIO_CLASS_COUNT; class++)
			if (!list_empty(&lane->classes[class].backlog) &&
			    !tg_limit_holds(shard, class))
				return true;
	return false;
}

/* Return a request of bulk for bulk's turn of a disk's arm. Return NULL if none may go. */
static struct request *tg_next_in_turn(struct tg_shard *shard, struct tg_lane *lane,
				       enum tg_reason *reason)
{
	struct request *rq;
	int class;

	if (!tg_bulk_may_go(shard))
		return NULL;
	for (class = PRIO_CLASS_NORMAL; class < PRIO_CLASS_COUNT; class++) {
		if (tg_limit_holds(shard, class))
			continue;
		rq = tg_flow_next_bulk(shard, lane, class, reason);
		if (rq)
			return rq;
	}
	return NULL;
}

/*
 * Return a hinted request of NORMAL that may go before HIGH. Return NULL if none may go. A process
 * of HIGH may wait for such a request. For example, a journal's commit holds up every process that
 * writes to its file system. So a hinted request inherits the priority of HIGH, like the holder of
 * a lock. NORMAL's guaranteed share limits such requests.
 */
static struct request *tg_next_hinted(struct tg_shard *shard, struct tg_lane *lane,
				      enum tg_reason *reason)
{
	if (!lane->classes[PRIO_CLASS_HIGH].queued || tg_limit_holds(shard, PRIO_CLASS_NORMAL))
		return NULL;
	return tg_flow_next_hinted(shard, lane, reason);
}

/*
 * Return a hinted request that may go before HIGH. If there is none, return a request of the most
 * urgent class that may send one. Return NULL if no request may go.
 */
static struct request *tg_next_strict(struct tg_shard *shard, struct tg_lane *lane,
				      enum tg_reason *reason)
{
	struct request *rq = tg_next_hinted(shard, lane, reason);
	bool bulk = true;
	int class;

	if (rq)
		return rq;
	for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++) {
		if (!lane->classes[class].queued || tg_limit_holds(shard, class))
			continue;
		if (class != PRIO_CLASS_HIGH && bulk) {
			bulk = tg_bulk_may_go(shard);
			shard->denied |= !bulk;
		}
		rq = tg_flow_next(shard, lane, class, bulk || tg_is_waited_out(shard, class),
				  reason);
		if (rq)
			return rq;
	}
	return NULL;
}

/* Return whether a task waits until requests of a lane are gone (tg_is_waited_out()). */
static bool tg_lane_is_waited_out(const struct tg_shard *shard, const struct tg_lane *lane)
{
	int class;

	for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++)
		if (lane->classes[class].queued && tg_is_waited_out(shard, class))
			return true;
	return false;
}

/* Choose the next request of a lane, and leave it queued. Return NULL if no request may go. */
static struct request *tg_choose_in(struct tg_shard *shard, struct tg_lane *lane,
				    enum tg_reason *reason)
{
	struct tg_data *tg = shard->tg;
	struct request *rq;

	/* All requests of a cgroup beyond its share are bulk. */
	if (lane->exceeds && !tg_bulk_may_go(shard) &&
	    !tg_lane_is_waited_out(shard, lane)) {
		shard->denied = true;
		shard->exceeded = true;
		return NULL;
	}
	rq = tg_next_aged(shard, lane);
	if (rq) {
		*reason = TG_AGED;
		return rq;
	}
	rq = tg_next_reserved(shard, lane, reason);
	if (rq) {
		*reason = TG_RESERVED;
		return rq;
	}
	if (tg->rotational && tg_pressed(tg) && tg_arm_is_held(tg)) {
		rq = tg_next_in_turn(shard, lane, reason);
		if (rq || tg_media_wait(shard) || tg_bulk_waits(shard))
			return rq;
		tg_arm_yield(tg);
	}
	return tg_next_strict(shard, lane, reason);
}

/*
 * Choose the next request among all lanes, and leave it queued. Return NULL if no request may go.
 */
static struct request *tg_choose(struct tg_shard *shard, enum tg_reason *reason)
{
	struct request *rq = NULL;
	struct tg_lane *lane;

	if (list_empty(&shard->lanes))
		return NULL;
	if (likely(list_is_singular(&shard->lanes))) {
		lane = list_first_entry(&shard->lanes, struct tg_lane, entry);
		tg_lane_is_due(shard, lane);
		lane->exceeds = tg_lane_exceeds_share(shard, lane);
		return tg_choose_in(shard, lane, reason);
	}
	tg_lane_turn(shard);
	tg_lanes_rank(shard);
	shard->asked++;
	while (!rq && (lane = tg_lane_pick(shard)))
		rq = tg_choose_in(shard, lane, reason);
	return rq;
}

/*
 * Record that bulk of a shard waits: a submitter all of whose tags are queued takes no more tags,
 * but shares the device all the same. If all of it is of one submitter, another shard may have
 * another one's.
 */
static void tg_waiting_meet(struct tg_shard *shard)
{
	struct tg_submitters *submitters = &shard->tg->submitters;
	const struct tg_submitter *first = NULL, *submitter;
	const struct tg_lane *lane;
	struct tg_flow *flow;
	int class;

	list_for_each_entry(lane, &shard->lanes, entry) {
		for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++) {
			list_for_each_entry(flow, &lane->classes[class].backlog, turn) {
				submitter = tg_tag(tg_first(&flow->fifo))->submitter;
				if (first && submitter != first) {
					WRITE_ONCE(submitters->met_at,
						   READ_ONCE(submitters->answered));
					return;
				}
				first = submitter;
			}
		}
	}
	tg_submitters_meet(submitters, first);
}

/*
 * While submitters share the device, look once a period whether more than one still does. Called
 * after each choice. If it @found a request, this request does not count as waiting.
 */
static void tg_sharing_goes_on(struct tg_shard *shard, bool found)
{
	const struct tg_submitters *submitters = &shard->tg->submitters;

	if (likely(!READ_ONCE(submitters->share)) ||
	    READ_ONCE(submitters->met_at) == READ_ONCE(submitters->answered))
		return;
	if (shard->nr_backlog > found)
		tg_waiting_meet(shard);
}

/* Take the next request from its queue. Return NULL if no request may go. */
struct request *tg_next(struct tg_shard *shard, enum tg_reason *reason)
{
	struct request *rq = tg_first(&shard->at_head);
	struct tg_lane *lane;
	u64 time;

	lockdep_assert_held(&shard->lock);

	shard->paced = false;
	shard->denied = false;
	shard->exceeded = false;
	shard->pace = TG_PACE_UNKNOWN;
	if (rq) {
		*reason = TG_RETURNED;
		list_del_init(&rq->queuelist);
		WRITE_ONCE(shard->queued, shard->queued - 1);
		tg_tag(rq)->cost = tg_costs_charge(shard, NULL, rq);
		shard->head.position = blk_rq_pos(rq) + blk_rq_sectors(rq);
	} else {
		rq = tg_choose(shard, reason);
		tg_sharing_goes_on(shard, rq);
		if (shard->denied)
			tg_groups_hold_bulk(shard);
		if (!rq) {
			tg_pace_tell(shard);
			return NULL;
		}
		lane = tg_flow_of(shard, rq)->lane;
		time = tg_flow_take(shard, rq);
		tg_settle(shard, lane, tg_tag(rq)->class, time, *reason == TG_RESERVED);
		if (unlikely(READ_ONCE(shard->tg->tunables.limited)))
			tg_limit_charge(shard, rq);
	}
	tg_pace_tell(shard);
	shard->counts[tg_tag(rq)->class].reasons[*reason]++;
	return rq;
}
