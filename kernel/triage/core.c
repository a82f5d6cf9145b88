// SPDX-License-Identifier: GPL-2.0-only
/*
 * Inserts requests, dispatches them, holds shards, and runs the hardware queues.
 *
 * The block layer runs a hardware queue after each insertion: it calls tg_has_work() and, if
 * that returns true, tg_dispatch_request(), until no request may go. A request is lost for
 * good if it is queued and nothing will run its hardware queue. So:
 *
 *  1. tg_has_work() sees each queued request: it is in the inbox, or shard->queued counts it.
 *     Once a dispatcher has taken the request, this no longer matters: the block layer sends
 *     the request, and calls the dispatcher again. tg_take_in() counts one request too many
 *     while it moves requests from the inbox to the lists.
 *  2. If no queued request may go, the shard is held: TG_HELD is set, and tg_has_work()
 *     returns false. The dispatcher that begins the hold arms the shard's watchdog, a timer
 *     that ends the hold and runs the hardware queue.
 *  3. No event that may end a hold sooner is missed. An insertion pushes its requests, and
 *     then looks at TG_HELD. Three other events look at nr_held: a completion, after it has
 *     changed a gauge; a completion, after it has ended the sharing (tg_sharing_ends()); and
 *     the dispatch of an urgent request, after it has given bulk a grant (tg_grant()). A
 *     dispatcher that begins a hold sets nr_held and TG_HELD (tg_set_held()), and then looks
 *     at inbox, gauges, sharing and grant. Both the event and the dispatcher have a full
 *     barrier between their two steps. So if an event and a hold meet, at least one side sees
 *     the other.
 *     After other events only the watchdog ends the hold:
 *     - time alone lets a request go: a limit or the pace opens, a gap or a narrow room ends,
 *       or HIGH has not come for a while;
 *     - a disk's flush ends;
 *     - a tunable changes;
 *     - a task begins to wait until requests are gone;
 *     - another shard no longer waits until bulk may go or the pace opens, or has sent so much
 *       that it is this shard's turn (tg_bulk_is_due(), tg_pace_is_closed()).
 *     If the event lets bulk of another shard go, the watchdog wakes that shard too.
 *  4. The CPU that ends a hold has the hardware queue run. After an insertion or a dispatch,
 *     the block layer runs it anyway. The watchdog and tg_wake() call tg_run(). A lock holder
 *     that does not dispatch calls tg_shard_leave(), which runs it.
 *  5. A dispatcher that finds no request sets TG_HELD and looks once more.
 *  6. While a task inserts requests, only these requests keep the scheduler alive. Once pushed,
 *     they may complete, and the queue may change to another scheduler. So the task pushes them
 *     and looks at TG_HELD with preemption off, and tg_core_wait_for_inserters() waits until
 *     such a task has enabled preemption. iosched_unregister() waits until the task has left the
 *     module's code. The block layer waits for dispatchers, completions, merges, and users of
 *     the files in sysfs. inspect.c waits for readers of the files in debugfs.
 *
 * tests/proof/core.pml is a model of this file, with the same names and numbers of rules.
 */
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/lockdep.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>

#include <trace/events/block.h>

#include "core.h"
#include "device.h"
#include "trace.h"
#include "triage.h"
#include "yield.h"

/* Bits of a shard's state: */
#define TG_HELD 0	/* no queued request may go yet; the watchdog is armed */
#define TG_LIMITED 1	/* held only by rate limits or the pace: no completion ends the hold */

/* The longest hold. Then the watchdog ends it and runs the hardware queue. */
#define TG_WATCHDOG_NS (10 * NSEC_PER_MSEC)
/*
 * The shortest hold for the pace. Four other holds last for at most this time:
 * - A shard leaves the device to the bulk of other shards, but no bulk is in the device, so no
 *   completion ends the hold.
 * - A cgroup is beyond its share, and a small budget holds bulk. The time of such a hold counts as
 *   if all cgroups had used their parts of it, so this cgroup is soon within its share again.
 * - Bulk may have a disk's arm, but no request could go a moment ago: a probe keeps bulk out, a
 *   flush has just ended, or the disk waits for a flow's next request.
 * - The policy says twice that a request may go, but finds none. This is a bug. The hold keeps the
 *   CPU from looping.
 */
#define TG_REST_NS NSEC_PER_MSEC

/*
 * A woken shard counts as waiting until it dispatches, but for two ticks at most: if its driver
 * takes nothing, it may never dispatch. One tick would not suffice: the present one may be nearly
 * over.
 */
#define TG_WOKEN_JIFFIES 2

static struct llist_node *tg_node(struct request *rq)
{
	/* Only a request's scheduler uses this node before the request completes. */
	return &rq->ipi_list;
}

/*
 * Return whether a shard waits until bulk may go: it is held without TG_LIMITED, or it was
 * woken and has not dispatched since. The caller needs no lock: the result may be out of
 * date at once anyway.
 */
bool tg_waits_for_bulk(const struct tg_shard *shard)
{
	unsigned long until;

	if (test_bit(TG_HELD, &shard->state))
		return !test_bit(TG_LIMITED, &shard->state);
	/* Pairs with tg_release(): a CPU that sees the hold's end sees that the shard was woken. */
	smp_rmb();
	until = READ_ONCE(shard->woken_until);
	/* A woken shard may have dispatched all its requests by now. Then it does not wait. */
	return until && time_before(jiffies, until) &&
	       (READ_ONCE(shard->queued) || !llist_empty(&shard->inbox));
}

/*
 * End a hold. Return false if the shard was not held. Otherwise the caller must have the
 * hardware queue run (rule 4). The caller needs no lock.
 */
static bool tg_release(struct tg_shard *shard)
{
	if (!test_and_clear_bit(TG_HELD, &shard->state))
		return false;
	atomic_dec(&shard->tg->nr_held);
	return true;
}

/*
 * Return true if a request that is about to be inserted may go even while the queued requests may
 * not. It may in any of these cases:
 * - the driver sent it back;
 * - the device is a disk: the request can be near the head;
 * - cgroups share the device, and its cgroup is due before the one that was due at the last choice,
 *   or none was due then;
 * - it is eager, and its cgroup is within its share;
 * - it is hinted;
 * - it is of NORMAL, and the shard has only bulk of LOW: other shards leave more to NORMAL;
 * - there is a pace, but the pace never holds this request, and TG_LIMITED is set;
 * - there are rate limits, and its class has not reached its limit.
 */
static bool tg_ends_hold(struct tg_shard *shard, struct request *rq)
{
	const struct tg_data *tg = shard->tg;
	const enum prio_class class = tg_class_of(tg, rq);
	bool within = true;

	if (unlikely(tg_groups_shared(tg))) {
		const struct tg_lane *lane = tg_lane_of(shard, rq);

		if (tg_lane_precedes(shard, lane))
			return true;
		within = !tg_lane_exceeds_share(shard, lane);
	}
	if (tg_tag(rq)->returned || tg->rotational || (within && tg_is_eager(tg, class, rq)))
		return true;
	if (class == PRIO_CLASS_NORMAL &&
	    (tg_flags_hint(rq->cmd_flags) ||
	     (READ_ONCE(shard->only_low) &&
	      !READ_ONCE(shard->counts[PRIO_CLASS_NORMAL].queued))))
		return true;
	/*
	 * If a hold for the pace begins right now, TG_LIMITED may not be set yet. Then the request
	 * waits until this hold ends, for TG_WATCHDOG_NS at most.
	 */
	if (READ_ONCE(tg->flushes.pace) && tg_passes_pace(class, rq) &&
	    test_bit(TG_LIMITED, &shard->state))
		return true;
	return READ_ONCE(tg->tunables.limited) && !tg_limit_is_reached(tg, class);
}

/* Return true if any request on @list may go even while the queued requests may not. */
static noinline bool tg_some_ends_hold(struct tg_shard *shard, struct list_head *list)
{
	struct request *rq;

	list_for_each_entry(rq, list, queuelist)
		if (tg_ends_hold(shard, rq))
			return true;
	return false;
}

/* Trace insertions. Call this before the requests are pushed: a dispatcher owns pushed requests. */
static noinline void tg_trace_insertions(struct list_head *list)
{
	struct request *rq;

	list_for_each_entry(rq, list, queuelist)
		trace_block_rq_insert(rq);
}

/*
 * Do what llist_add_batch() does, but inline: in older kernels that is a call, and every request
 * takes this step.
 */
static __always_inline void tg_push(struct llist_head *inbox, struct llist_node *newest,
				    struct llist_node *oldest)
{
	struct llist_node *first = READ_ONCE(inbox->first);

	do
		oldest->next = first;
	while (!try_cmpxchg(&inbox->first, &first, newest));
}

/*
 * Insert new requests, or requests that the driver sent back (tg_requeue_request()). Called from a
 * task, without a lock.
 *
 * The block layer sets BLK_MQ_INSERT_AT_HEAD for requests that the driver sent back, but also for
 * new writes that had to wait for a flush. tg_prepare_request() has seen all of these writes. So
 * ignore the flag of a request that tg_prepare_request() has seen (iosched_was_prepared()): if the
 * driver sent the request back, tg_requeue_request() has set tg_tag.returned.
 */
void tg_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
			blk_insert_t flags)
{
	struct tg_shard *shard = hctx->sched_data;
	struct request *rq = list_first_entry(list, struct request, queuelist);
	struct llist_node *newest = NULL, *const oldest = tg_node(rq);
	bool ends;

	list_for_each_entry(rq, list, queuelist) {
		if (!iosched_was_prepared(rq)) {
			*tg_tag(rq) = (struct tg_tag){
				.submitter = &shard->tg->submitters.others,
				.returned = !!(flags & BLK_MQ_INSERT_AT_HEAD),
			};
			iosched_set_prepared(rq);
		}
		rq->fifo_time = jiffies;
		tg_node(rq)->next = newest;
		newest = tg_node(rq);
	}
	if (!newest)
		return;
	if (trace_block_rq_insert_enabled())
		tg_trace_insertions(list);
	/*
	 * If the shard is not held now, a dispatcher that begins a hold later may not have seen
	 * these requests. So any of them ends that hold.
	 */
	ends = likely(!test_bit(TG_HELD, &shard->state)) || tg_some_ends_hold(shard, list);
	INIT_LIST_HEAD(list);
	yield_point();
	/* Once these requests complete, only disabled preemption keeps the shard alive (rule 6). */
	preempt_disable();
	/* A full barrier. From here on the requests are the dispatcher's. */
	tg_push(&shard->inbox, newest, oldest);
	yield_point();
	/* The dispatcher that held the shard may not have seen the requests (rule 3). */
	if (unlikely(test_bit(TG_HELD, &shard->state)) && ends)
		tg_release(shard);
	yield_point();
	preempt_enable();
	yield_point();
}

/*
 * Queue a request that the driver sent back, behind those sent back earlier and before all
 * others.
 */
static void tg_add_at_head(struct tg_shard *shard, struct request *rq)
{
	struct tg_tag *tag = tg_tag(rq);

	tag->returned = false;
	tag->class = tg_class_of(shard->tg, rq);
	tag->urgent = tag->class == PRIO_CLASS_HIGH;
	shard->counts[tag->class].inserted++;
	list_add_tail(&rq->queuelist, &shard->at_head);
	WRITE_ONCE(shard->queued, shard->queued + 1);
}

/*
 * Queue the requests on @list, which come from the inbox with the newest first. Return true if one
 * of them may go even while bulk may not.
 */
static bool tg_sort(struct tg_shard *shard, struct llist_node *list)
{
	struct request *rq, *next;
	bool urgent = false;

	list = llist_reverse_order(list);
	llist_for_each_entry_safe(rq, next, list, ipi_list) {
		if (tg_tag(rq)->returned) {
			tg_add_at_head(shard, rq);
			urgent = true;
		} else {
			tg_groups_see(shard, rq);
			urgent |= tg_flow_add(shard, rq);
		}
	}
	return urgent;
}

/*
 * Move the requests in the inbox to the lists. tg_has_work() sees them all the time (rule 1).
 * Return true if one of them may go even while bulk may not. Dispatchers call this, and then choose
 * a request or hold the shard. Other lock holders call tg_drain().
 */
static bool tg_take_in(struct tg_shard *shard)
{
	bool urgent;

	lockdep_assert_held(&shard->lock);

	if (llist_empty(&shard->inbox))
		return false;
	WRITE_ONCE(shard->queued, shard->queued + 1);
	yield_point();
	/* A full barrier: a CPU that finds the inbox empty sees the count. */
	urgent = tg_sort(shard, llist_del_all(&shard->inbox));
	yield_point();
	WRITE_ONCE(shard->queued, shard->queued - 1);
	return urgent;
}

/*
 * Empty the inbox for a lock holder that does not dispatch. The holder must unlock with
 * tg_shard_leave(), which runs the queue if a request from the inbox ended a hold.
 */
void tg_drain(struct tg_shard *shard)
{
	if (tg_take_in(shard) && test_bit(TG_HELD, &shard->state))
		shard->kick |= tg_release(shard);
}

/*
 * Return whether the only request of a shard may go, which is bulk. @lane is its lane while cgroups
 * share the device, or else NULL.
 */
static bool tg_only_may_go(struct tg_shard *shard, const struct tg_lane *lane,
			   enum prio_class class, struct request *rq)
{
	const struct tg_data *tg = shard->tg;
	bool may_go;

	if (unlikely(lane))
		tg_lane_is_due(shard, lane);
	/* Its lane does not count the request yet. */
	if (tg->nr_shards > 1)
		tg_shard_waits(shard, class != PRIO_CLASS_LOW, 1);
	shard->pace = TG_PACE_UNKNOWN;
	may_go = tg_bulk_may_go(shard) &&
		 (!READ_ONCE(tg->flushes.pace) || tg_passes_pace(class, rq) ||
		  !tg_pace_holds(shard, NULL, class, rq));
	if (unlikely(lane))
		tg_lane_is_due(shard, NULL);
	return may_go;
}

/*
 * Take the inbox's only request, and do not queue it in a flow: there is no other request to
 * choose, or to be fair to. Call this only if nothing is queued. Return NULL if the request may not
 * go or was sent back, or if the inbox is empty or has several requests. The caller then empties
 * the inbox. While a flash device keeps up, most requests go this way.
 */
static struct request *tg_take_only(struct tg_shard *shard)
{
	struct tg_data *tg = shard->tg;
	struct llist_node *list;
	enum prio_class class;
	struct request *rq;
	struct tg_tag *tag;
	struct tg_lane *lane = NULL;
	bool eager, urgent, runs;

	lockdep_assert_held(&shard->lock);

	list = READ_ONCE(shard->inbox.first);
	if (!list || READ_ONCE(list->next))
		return NULL;
	rq = llist_entry(list, struct request, ipi_list);
	tag = tg_tag(rq);
	class = tg_class_of(tg, rq);
	eager = tg_is_eager(tg, class, rq);
	urgent = eager;
	tg_groups_see(shard, rq);
	if (unlikely(tg_groups_shared(tg))) {
		lane = tg_lane_of(shard, rq);
		urgent = !tg_lane_only_exceeds(shard, lane) && eager;
	}
	runs = !urgent && tg_run_lasts(shard, rq);
	if (tag->returned || !(urgent || runs || tg_only_may_go(shard, lane, class, rq)))
		return NULL;
	/*
	 * Only the lock holder removes from the inbox, so this fails only if another request
	 * came.
	 */
	if (cmpxchg(&shard->inbox.first, list, NULL) != list)
		return NULL;
	tag->class = class;
	tag->paced = !tg_passes_pace(class, rq);
	if (urgent)
		tag->urgent = true;
	if (urgent && class == PRIO_CLASS_HIGH)
		tg_urgent_seen(tg, class);
	tag->cost = tg_costs_charge(shard, NULL, rq);
	WRITE_ONCE(shard->served, shard->served + tag->cost);
	if (unlikely(lane))
		tg_lane_charge_only(shard, lane, rq, eager);
	if (runs)
		tg_run_take(shard, rq);
	shard->counts[class].inserted++;
	shard->counts[class].reasons[TG_ONLY]++;
	tg_send(shard, rq);
	if (tag->charged && !urgent && !runs && tg_op(rq) == TG_READ)
		tg_run_begin(shard, tag->cost);
	if (trace_triage_dispatch_enabled())
		tg_trace_dispatch(shard, rq, TG_ONLY);
	return rq;
}

/*
 * Take the request that the policy chooses (order.c), and record that it is sent. Return NULL if no
 * request may go.
 */
static struct request *tg_take_next(struct tg_shard *shard)
{
	enum tg_reason reason;
	struct request *rq;

	rq = tg_next(shard, &reason);
	if (!rq)
		return NULL;
	tg_send(shard, rq);
	if (trace_triage_dispatch_enabled())
		tg_trace_dispatch(shard, rq, reason);
	return rq;
}

/*
 * Called if a shard's bulk may not go. Return whether the shard waits only for its turn among the
 * shards, and no bulk is in the device. Then no completion ends the hold, and the shards before it
 * may be unable to send.
 */
static bool tg_waits_for_shards(struct tg_data *tg)
{
	bool patient;

	return tg->nr_shards > 1 && !tg_bulk_inside(tg) && tg_bulk_is_worth_waking(tg, &patient);
}

/*
 * Return how long the queued requests must wait if nothing else happens, in ns. Return 0 if they
 * need not wait. Set @limited if only rate limits or the pace hold them. A hold for the pace lasts
 * for TG_REST_NS at least, so that the pace then lets several writes go (TG_PACE_BURST_NS).
 */
static u64 tg_wait(struct tg_shard *shard, bool *limited)
{
	const u64 limits = READ_ONCE(shard->tg->tunables.limited) ? tg_limit_wait(shard) : 0;
	u64 awaited, opens_at, now, longest = TG_WATCHDOG_NS;

	*limited = limits;
	if (limits)
		return limits;
	awaited = tg_media_wait(shard);
	/* Read the clock first, so that tg_bulk_may_go() sees all times up to @now as past. */
	now = ktime_get_ns();
	if (!awaited && tg_bulk_may_go(shard)) {
		/* The last choice left bulk out. Bulk may go now, so choose again. */
		if (shard->denied)
			return 0;
		*limited = shard->paced;
		return shard->paced ? max_t(s64, tg_pace_opens_at(shard->tg) - now, TG_REST_NS) :
				      0;
	}
	opens_at = tg_bulk_opens_at(shard->tg);
	if (opens_at > now)
		longest = opens_at - now;
	else if (shard->tg->rotational || tg_waits_for_shards(shard->tg))
		longest = TG_REST_NS;
	if (shard->exceeded && atomic64_read(&shard->tg->groups.held_from))
		longest = min_t(u64, longest, TG_REST_NS);
	return min(longest, awaited ?: TG_WATCHDOG_NS);
}

/*
 * Arm the watchdog for @ns, or for TG_WATCHDOG_NS if that is less. If it is armed already, only
 * an @ns below TG_WATCHDOG_NS sets it again.
 */
static void tg_watch(struct tg_shard *shard, u64 ns)
{
	if (ns < TG_WATCHDOG_NS || !hrtimer_is_queued(&shard->watchdog))
		hrtimer_start(&shard->watchdog, ns_to_ktime(min(ns, TG_WATCHDOG_NS)),
			      HRTIMER_MODE_REL);
}

/*
 * If any shard is held, arm this shard's watchdog to fire after @ns, when bulk may go again. This
 * shard has just sent bulk, and the watchdogs of held shards may fire too late. A hold that begins
 * from now on uses the new time anyway.
 */
void tg_watch_others(struct tg_shard *shard, u64 ns)
{
	lockdep_assert_held(&shard->lock);

	/* Pairs with tg_set_held(): this sees the hold, or the holder sees the new time. */
	smp_mb();
	if (atomic_read(&shard->tg->nr_held))
		tg_watch(shard, ns);
}

/*
 * Begin a hold. Any later insertion or completion sees the hold, and may end it. The caller then
 * looks for insertions and completions that came before the hold (rule 3).
 */
static void tg_set_held(struct tg_shard *shard)
{
	/*
	 * Clear this bit before TG_HELD is set, so that no hold inherits the bit.
	 * Only lock holders set this bit.
	 */
	clear_bit(TG_LIMITED, &shard->state);
	/* Count the hold before TG_HELD is set, so that nr_held is never too small. */
	atomic_inc(&shard->tg->nr_held);
	/* A full barrier. */
	if (test_and_set_bit(TG_HELD, &shard->state))
		atomic_dec(&shard->tg->nr_held);
	yield_point();
}

/* Have the watchdog end the hold after @ns. @limited is what tg_wait() has set. */
static void tg_keep_held(struct tg_shard *shard, u64 ns, bool limited)
{
	if (limited)
		set_bit(TG_LIMITED, &shard->state);
	if (READ_ONCE(shard->sends))
		WRITE_ONCE(shard->sends, false);
	if (trace_triage_hold_enabled())
		tg_trace_hold(shard);
	tg_watch(shard, ns);
}

/*
 * Return the queued request that the policy chooses. If it finds none, begin a hold and look once
 * more (rule 5). Return NULL if nothing is queued, or if the shard is held.
 */
static noinline struct request *tg_dispatch_chosen(struct tg_shard *shard,
						   struct blk_mq_hw_ctx *hctx)
{
	struct request *rq;
	bool limited;
	u64 wait;

	lockdep_assert_held(&shard->lock);

	tg_take_in(shard);
	if (!shard->queued)
		return NULL;
	rq = tg_take_next(shard);
	/*
	 * A woken shard has requests in its lists, so it dispatches here, not by tg_take_only(). If
	 * it has sent bulk, it counts as sending by now.
	 */
	if (READ_ONCE(shard->woken_until))
		WRITE_ONCE(shard->woken_until, 0);
	if (rq)
		goto found;
	WRITE_ONCE(shard->hctx, hctx);
	tg_set_held(shard);
	wait = tg_wait(shard, &limited);
	if (wait && llist_empty(&shard->inbox)) {
		tg_keep_held(shard, wait, limited);
		return NULL;
	}
	/*
	 * A request came, or a queued one may go now. Perhaps other CPUs did not see TG_HELD in
	 * time to end the hold, so look once more.
	 */
	tg_take_in(shard);
	rq = tg_take_next(shard);
	if (rq)
		goto found;
	wait = tg_wait(shard, &limited);
	tg_keep_held(shard, wait ?: TG_REST_NS, limited);
	return NULL;
found:
	/*
	 * End the hold. The hardware queue need not be run: the block layer asks again after this
	 * request, and that call may begin a new hold.
	 */
	if (unlikely(test_bit(TG_HELD, &shard->state)))
		tg_release(shard);
	return rq;
}

/*
 * Return a request for the device. Return NULL if nothing is queued, or if the shard is held. The
 * block layer calls this from a task, when it runs the hardware queue.
 */
struct request *tg_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct tg_shard *shard = hctx->sched_data;
	struct tg_data *tg = shard->tg;
	struct request *rq = NULL;
	bool limited = false;

	spin_lock(&shard->lock);
	yield_point();
	if (!shard->queued && !tg->rotational && !READ_ONCE(tg->tunables.limited))
		rq = tg_take_only(shard);
	if (!rq) {
		const bool competed = READ_ONCE(shard->woken_until) || READ_ONCE(shard->sends);

		rq = tg_dispatch_chosen(shard, hctx);
		limited = competed && !rq && test_bit(TG_HELD, &shard->state) &&
			  test_bit(TG_LIMITED, &shard->state);
	}
	spin_unlock(&shard->lock);
	yield_point();
	/*
	 * A grant is enough for one or two requests, so wake one shard. That shard's request may
	 * reach the driver before the urgent one: the block layer takes the urgent one there only
	 * after this function has returned.
	 */
	if (unlikely(READ_ONCE(shard->granted)) && xchg(&shard->granted, 0) &&
	    atomic_read(&tg->nr_held))
		tg_wake(tg, 1);
	/*
	 * Other shards may have left the device to this one, whose bulk was due. Now the pace or
	 * rate limits hold this shard, so it sends nothing: wake another one.
	 */
	if (unlikely(limited)) {
		/* Pairs with tg_set_held(): a shard held later sees TG_LIMITED, or is counted. */
		smp_mb();
		if (atomic_read(&tg->nr_held) > 1)
			tg_wake(tg, 1);
	}
	return rq;
}

/*
 * Return whether the block layer should call tg_dispatch_request(). If this returns true, but the
 * first tg_dispatch_request() of a run returns NULL, the block layer runs all hardware queues 3 ms
 * later. Called without the lock, several times for each request, also in interrupts.
 */
bool tg_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct tg_shard *shard = hctx->sched_data;

	if (llist_empty(&shard->inbox)) {
		yield_point();
		/* Pairs with tg_take_in() (rule 1). */
		smp_rmb();
		if (!READ_ONCE(shard->queued))
			return false;
	}
	return likely(!test_bit(TG_HELD, &shard->state));
}

/*
 * Have a shard's hardware queue run soon. Must not be called with queue_lock held:
 * blk_mq_run_hw_queue() takes it.
 */
static void tg_run(struct tg_shard *shard)
{
	blk_mq_run_hw_queue(READ_ONCE(shard->hctx), true);
}

/*
 * Record that a shard is about to be woken. Call this before its hold ends: other CPUs must see
 * it as woken by then.
 */
static void tg_note_woken(struct tg_shard *shard)
{
	const unsigned long until = jiffies + TG_WOKEN_JIFFIES;

	WRITE_ONCE(shard->woken_until, until);
	if (READ_ONCE(shard->tg->woken_until) != until)
		WRITE_ONCE(shard->tg->woken_until, until);
}

/*
 * If bulk may go, wake held shards whose bulk is due, one after the other, @most of them at most.
 * Called without a shard's lock, in any context.
 */
void tg_wake(struct tg_data *tg, unsigned int most)
{
	const unsigned int from = READ_ONCE(tg->wake_from);
	unsigned int i, at = from, next = from;
	struct tg_parts parts;
	bool looked = false;

	for (i = 0; most && i < tg->nr_shards; i++, at++) {
		struct tg_shard *shard;

		if (at >= tg->nr_shards)
			at = 0;
		shard = tg->shards[at];
		if (!test_bit(TG_HELD, &shard->state) ||
		    test_bit(TG_LIMITED, &shard->state))
			continue;
		/* Look only once for the whole loop, because tg_parts_look() visits each shard. */
		if (!looked) {
			bool patient = false;

			if (!tg_bulk_is_worth_waking(tg, &patient))
				break;
			tg_parts_look(tg, NULL, &parts);
			parts.patient = patient;
			/*
			 * A grant is for one shard. Otherwise wake no more shards than there is
			 * room for: without room, a woken shard would send nothing.
			 */
			most = min(most, parts.gated ? 1 : tg_bulk_has_room_for(tg, &parts));
			looked = true;
		}
		if (!tg_bulk_is_due(&parts, shard))
			continue;
		yield_point();
		tg_note_woken(shard);
		if (tg_release(shard)) {
			tg_run(shard);
			most--;
			next = at + 1;
		}
	}
	/* The next call begins behind the last shard that this call has woken. */
	if (next != from)
		WRITE_ONCE(tg->wake_from, next);
}

static enum hrtimer_restart tg_watchdog(struct hrtimer *timer)
{
	struct tg_shard *shard = container_of(timer, struct tg_shard, watchdog);

	yield_point();
	/* The watchdog may still be armed for a hold that has ended. */
	if (tg_waits_for_bulk(shard))
		tg_note_woken(shard);
	tg_release(shard);
	tg_run(shard);
	/* Bulk of another shard may be due, and that shard's watchdog may fire later. */
	if (atomic_read(&shard->tg->nr_held))
		tg_wake(shard->tg, 1);
	return HRTIMER_NORESTART;
}

/* Take a shard's lock and empty its inbox, to look at the queued requests. */
void tg_shard_enter(struct tg_shard *shard)
	__acquires(&shard->lock)
{
	spin_lock(&shard->lock);
	tg_drain(shard);
}

/*
 * Unlock a shard for a holder that did not dispatch. If the holder ended a hold, run the
 * hardware queue (rule 4).
 */
void tg_shard_leave(struct tg_shard *shard)
	__releases(&shard->lock)
{
	const bool kick = shard->kick;

	lockdep_assert_not_held(&shard->tg->queue->queue_lock);

	shard->kick = false;
	spin_unlock(&shard->lock);
	yield_point();
	if (kick)
		tg_run(shard);
}

void tg_core_init(struct tg_shard *shard, struct tg_data *tg)
{
	init_llist_head(&shard->inbox);
	spin_lock_init(&shard->lock);
	shard->bulk_flows = 1;
	shard->tg = tg;
	INIT_LIST_HEAD(&shard->at_head);
	INIT_LIST_HEAD(&shard->lanes);
	tg_lane_init(&shard->lane);
	shard->merges_until = jiffies;
	shard->tried_at = jiffies;
	hrtimer_setup(&shard->watchdog, tg_watchdog, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
}

/*
 * Wait for inserting tasks whose requests have completed already (rule 6). Called with the
 * queue frozen. The block layer's own wait does not suffice: when it quiesces the queue of a
 * driver that may sleep, it waits for SRCU, not for RCU.
 */
void tg_core_wait_for_inserters(void)
{
	synchronize_rcu();
}

/* Stop the watchdog. Called with the queue frozen: no request is left, and none comes. */
void tg_core_exit(struct tg_shard *shard)
{
	hrtimer_cancel(&shard->watchdog);
	WARN_ON_ONCE(!llist_empty(&shard->inbox));
	WARN_ON_ONCE(!list_empty(&shard->at_head));
	WARN_ON_ONCE(!list_empty(&shard->lanes));
	WARN_ON_ONCE(shard->queued);
}
