// SPDX-License-Identifier: GPL-2.0-only
/*
 * The core: takes requests in, hands them out, holds them, and wakes whoever has to run.
 *
 * The kernel runs a hardware queue after each insertion: it asks tg_has_work() and, if
 * that says yes, tg_dispatch_request() until it has no more. A request is lost for good
 * if it is queued, and nobody will run its queue. So:
 *
 *  1. A request is always in sight. It is in the inbox; or shard->queued counts it; or
 *     a dispatcher has it, and that one asks again. tg_take_in() counts one request too
 *     many while it moves requests from the inbox to the lists.
 *  2. A shard is held (TG_HELD), and tg_has_work() says no, only while its watchdog is
 *     armed. The watchdog ends the hold and runs the queue.
 *  3. What may end a hold sooner is not overlooked: an insertion pushes and then looks at
 *     TG_HELD, a completion changes a gauge and then looks at nr_held, and so does an
 *     urgent request that makes way for bulk (tg_grant()). A dispatcher sets both
 *     (tg_set_held()) and then looks at inbox, gauges and grant. Each has a full barrier in
 *     between, so one of two sees the other. What time alone changes (a limit, a pace, that
 *     HIGH has not come for a while) is left to the watchdog.
 *  4. Whoever ends a hold has the queue run: an insertion's submitter and a dispatcher do
 *     that anyway, watchdog and completion ask for it, and a lock holder that does
 *     neither does so in tg_shard_leave().
 *  5. A dispatch looks for a request twice, then it holds.
 *  6. An inserter has nothing but its requests to keep the scheduler alive: once pushed, they
 *     may complete, and the scheduler may be left. So it pushes and looks with preemption
 *     off, for which tg_core_wait_for_inserters() waits; its way out of the module's code
 *     is waited for by iosched_unregister(). All others are waited for by the block layer:
 *     a dispatcher, a completion, a merge, a file.
 *
 * tests/proof/core.pml is a model of this file; names and numbers of the rules are the
 * same there.
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
#define TG_LIMITED 1	/* limits alone hold it: a completion changes nothing; if TG_HELD */

/* A held shard looks again after this, whatever happens. */
#define TG_WATCHDOG_NS (10 * NSEC_PER_MSEC)
/*
 * A policy that says twice in a row that something may go, and finds nothing, contradicts
 * itself. That costs this time, in which a busy device takes ten requests more, not a CPU.
 */
#define TG_REST_NS NSEC_PER_MSEC

static struct llist_node *tg_node(struct request *rq)
{
	/* Until a request is completed only its scheduler uses this one. */
	return &rq->ipi_list;
}

/* End a hold. The caller has the hardware queue run (rule 4). Needs no lock. */
static bool tg_release(struct tg_shard *shard)
{
	if (!test_and_clear_bit(TG_HELD, &shard->state))
		return false;
	atomic_dec(&shard->tg->nr_held);
	return true;
}

/*
 * Return whether a request that is about to be inserted may go though what is queued may
 * not. On a disk any may: it can be near the head. Under limits one of another class may.
 */
static noinline bool tg_ends_hold(const struct tg_shard *shard, struct request *rq)
{
	const struct tg_data *tg = shard->tg;
	const enum prio_class class = tg_class_of(tg, rq);

	if (tg_tag(rq)->returned || tg->rotational || tg_is_urgent(tg, class, rq))
		return true;
	if (class == PRIO_CLASS_NORMAL && tg_flags_hint(rq->cmd_flags))
		return true;
	return READ_ONCE(tg->tunables.limited) && !tg_limit_is_reached(tg, class);
}

/*
 * Called for new requests, and again for those that the driver sent back
 * (tg_requeue_request()). These are inserted at head, as is data that had to wait for a
 * flush, which is new to us. Called from a task, without a lock.
 */
void tg_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
			blk_insert_t flags)
{
	struct tg_shard *shard = hctx->sched_data;
	struct request *rq = list_first_entry(list, struct request, queuelist);
	struct llist_node *newest = NULL, *const oldest = tg_node(rq);
	/* A hold that begins meanwhile has not seen these requests: any of them ends it. */
	bool ends = !test_bit(TG_HELD, &shard->state);

	list_for_each_entry(rq, list, queuelist) {
		if (!iosched_was_prepared(rq)) {
			*tg_tag(rq) = (struct tg_tag){
				.submitter = &shard->tg->submitters.others,
				.returned = !!(flags & BLK_MQ_INSERT_AT_HEAD),
			};
			iosched_set_prepared(rq);
		}
		rq->fifo_time = jiffies;
		trace_block_rq_insert(rq);
		ends = ends || tg_ends_hold(shard, rq);
		tg_node(rq)->next = newest;
		newest = tg_node(rq);
	}
	if (!newest)
		return;
	INIT_LIST_HEAD(list);
	yield_point();
	/* The shard may outlive these requests by no more than this section (rule 6). */
	preempt_disable();
	/* A full barrier. From here on the requests are the dispatcher's. */
	llist_add_batch(newest, oldest, &shard->inbox);
	yield_point();
	/* A hold that began meanwhile may not have seen them (rule 3). */
	if (unlikely(test_bit(TG_HELD, &shard->state)) && ends)
		tg_release(shard);
	yield_point();
	preempt_enable();
	yield_point();
}

/* Queue a request that the driver sent back: before all others, in the order of return. */
static void tg_add_at_head(struct tg_shard *shard, struct request *rq)
{
	struct tg_tag *tag = tg_tag(rq);

	tag->returned = false;
	tag->class = tg_class_of(shard->tg, rq);
	tag->urgent = tag->class == PRIO_CLASS_HIGH;
	shard->classes[tag->class].inserted++;
	list_add_tail(&rq->queuelist, &shard->at_head);
	WRITE_ONCE(shard->queued, shard->queued + 1);
}

/*
 * Queue requests from the inbox, the newest first there. Return whether one may go though
 * bulk may not.
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
			urgent |= tg_flow_add(shard, rq);
		}
	}
	return urgent;
}

/*
 * Empty the inbox into the lists, all the while in sight of tg_has_work() (rule 1). Return
 * whether a request came that may go though bulk may not. A dispatcher then chooses one or
 * holds; other lock holders call tg_drain().
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

/* Empty the inbox, for a lock holder that does not dispatch: it ends with tg_shard_leave(). */
void tg_drain(struct tg_shard *shard)
{
	if (tg_take_in(shard) && test_bit(TG_HELD, &shard->state))
		shard->kick |= tg_release(shard);
}

/*
 * Take the only request there is, if it may go: there is nothing to choose, and nobody
 * to charge for it. On flash most requests of a device that keeps up are such. NULL: have
 * the inbox drained.
 */
static struct request *tg_take_only(struct tg_shard *shard)
{
	struct tg_data *tg = shard->tg;
	struct llist_node *list;
	enum prio_class class;
	struct request *rq;
	struct tg_tag *tag;
	bool urgent;

	lockdep_assert_held(&shard->lock);

	list = READ_ONCE(shard->inbox.first);
	if (!list || READ_ONCE(list->next))
		return NULL;
	rq = llist_entry(list, struct request, ipi_list);
	tag = tg_tag(rq);
	class = tg_class_of(tg, rq);
	urgent = tg_is_urgent(tg, class, rq);
	if (tag->returned || (!urgent && !tg_bulk_may_go(tg)))
		return NULL;
	/* Only this CPU removes from the inbox; a request that came meanwhile is newer. */
	if (cmpxchg(&shard->inbox.first, list, NULL) != list)
		return NULL;
	tag->class = class;
	if (urgent)
		tag->urgent = true;
	if (class == PRIO_CLASS_HIGH)
		tg_urgent_seen(tg, class);
	tag->cost = tg_costs_charge(shard, NULL, rq);
	shard->served += tag->cost;
	shard->classes[class].inserted++;
	shard->classes[class].reasons[TG_ONLY]++;
	tg_send(shard, rq);
	if (trace_triage_dispatch_enabled())
		tg_trace_dispatch(shard, rq, TG_ONLY);
	return rq;
}

/* Take what the policy says is next, if anything may go. */
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
 * Return for how long what is queued has to wait if nothing else happens, in ns; 0: it
 * need not.
 */
static u64 tg_wait(struct tg_shard *shard, bool *limited)
{
	const u64 limits = READ_ONCE(shard->tg->tunables.limited) ? tg_limit_wait(shard) : 0;
	u64 awaited, opens_at, now;

	*limited = limits;
	if (limits)
		return limits;
	awaited = tg_media_wait(shard);
	/* First: a time that has passed by now has had its say in tg_bulk_may_go(). */
	now = ktime_get_ns();
	if (!awaited && tg_bulk_may_go(shard->tg))
		return 0;
	opens_at = tg_bulk_opens_at(shard->tg);
	return min(opens_at > now ? opens_at - now : TG_WATCHDOG_NS,
		   awaited ?: TG_WATCHDOG_NS);
}

/* Arm the watchdog, unless it is armed and soon enough. */
static void tg_watch(struct tg_shard *shard, u64 ns)
{
	if (ns < TG_WATCHDOG_NS || !hrtimer_is_queued(&shard->watchdog))
		hrtimer_start(&shard->watchdog, ns_to_ktime(min(ns, TG_WATCHDOG_NS)),
			      HRTIMER_MODE_REL);
}

/*
 * Begin a hold. From here on an insertion or a completion that may end it sees it; the
 * caller then looks at those that came before (rule 3).
 */
static void tg_set_held(struct tg_shard *shard)
{
	/* Only lock holders set this bit. First: a hold does not begin with an old one. */
	clear_bit(TG_LIMITED, &shard->state);
	/* First too: never fewer are counted than are held. */
	atomic_inc(&shard->tg->nr_held);
	/* A full barrier. */
	if (test_and_set_bit(TG_HELD, &shard->state))
		atomic_dec(&shard->tg->nr_held);
	yield_point();
}

/* Have the watchdog end the hold after a time in ns; @limited: limits alone cause it. */
static void tg_keep_held(struct tg_shard *shard, u64 ns, bool limited)
{
	if (limited)
		set_bit(TG_LIMITED, &shard->state);
	if (trace_triage_hold_enabled())
		tg_trace_hold(shard);
	tg_watch(shard, ns);
}

/*
 * Look, hold, look again: choose among what is queued. NULL: nothing is queued, or the
 * shard is held.
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
	if (rq)
		goto found;
	WRITE_ONCE(shard->hctx, hctx);
	tg_set_held(shard);
	wait = tg_wait(shard, &limited);
	if (wait && llist_empty(&shard->inbox)) {
		tg_keep_held(shard, wait, limited);
		return NULL;
	}
	/* A request came, or something came back, before the hold could be seen. */
	tg_take_in(shard);
	rq = tg_take_next(shard);
	if (rq)
		goto found;
	wait = tg_wait(shard, &limited);
	tg_keep_held(shard, wait ?: TG_REST_NS, limited);
	return NULL;
found:
	/* Something may go: bulk then has to ask again, not wait. */
	if (unlikely(test_bit(TG_HELD, &shard->state)))
		tg_release(shard);
	return rq;
}

/*
 * Called by whoever runs the hardware queue, from a task. Returns a request for the
 * device, or NULL, and then nothing is queued or the shard is held.
 */
struct request *tg_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct tg_shard *shard = hctx->sched_data;
	struct tg_data *tg = shard->tg;
	struct request *rq = NULL;

	spin_lock(&shard->lock);
	yield_point();
	if (!shard->queued && !tg->rotational && !READ_ONCE(tg->tunables.limited))
		rq = tg_take_only(shard);
	if (!rq)
		rq = tg_dispatch_chosen(shard, hctx);
	spin_unlock(&shard->lock);
	yield_point();
	/*
	 * A grant is worth one request or two, so one shard. It may be quicker than the urgent
	 * request, which goes to the driver only after this.
	 */
	if (unlikely(READ_ONCE(shard->granted)) && xchg(&shard->granted, 0) &&
	    atomic_read(&tg->nr_held))
		tg_wake(tg, 1);
	return rq;
}

/*
 * Called without the lock, several times for each request, also in interrupts. A promise
 * that dispatch does not keep costs 3 ms and a run of all hardware queues.
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

/* Run a shard's hardware queue, soon. Not with queue_lock held, which that takes. */
static void tg_run(struct tg_shard *shard)
{
	blk_mq_run_hw_queue(READ_ONCE(shard->hctx), true);
}

static enum hrtimer_restart tg_watchdog(struct hrtimer *timer)
{
	struct tg_shard *shard = container_of(timer, struct tg_shard, watchdog);

	yield_point();
	tg_release(shard);
	tg_run(shard);
	return HRTIMER_NORESTART;
}

/*
 * Wake at @most so many held shards that may send, one after the other as long as there is
 * room. Called without a shard's lock, in any context.
 */
void tg_wake(struct tg_data *tg, unsigned int most)
{
	unsigned int i, at = READ_ONCE(tg->wake_from);

	for (i = 0; most && i < tg->nr_shards; i++, at++) {
		struct tg_shard *shard;

		if (at >= tg->nr_shards)
			at = 0;
		shard = tg->shards[at];
		if (!test_bit(TG_HELD, &shard->state) ||
		    test_bit(TG_LIMITED, &shard->state))
			continue;
		if (!tg_bulk_is_worth_waking(tg))
			break;
		yield_point();
		if (tg_release(shard)) {
			tg_run(shard);
			most--;
		}
	}
	/* The next to be woken is the one that was not. */
	if (tg->nr_shards > 1)
		WRITE_ONCE(tg->wake_from, at);
}

/* Get a shard's lock and drain its inbox, to look at what is queued. */
void tg_shard_enter(struct tg_shard *shard)
	__acquires(&shard->lock)
{
	spin_lock(&shard->lock);
	tg_drain(shard);
}

/* Leave a shard without having dispatched (rule 4). */
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
	shard->tg = tg;
	INIT_LIST_HEAD(&shard->at_head);
	shard->young_until = jiffies;
	shard->merges_until = jiffies;
	shard->tried_at = jiffies;
	hrtimer_setup(&shard->watchdog, tg_watchdog, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
}

/*
 * Wait for inserters whose requests have come and gone already (rule 6). Called with the
 * queue frozen. A queue whose driver may sleep is quiesced without this.
 */
void tg_core_wait_for_inserters(void)
{
	synchronize_rcu();
}

/* Called with the queue frozen: no request is left, and none comes. */
void tg_core_exit(struct tg_shard *shard)
{
	hrtimer_cancel(&shard->watchdog);
	WARN_ON_ONCE(!llist_empty(&shard->inbox));
	WARN_ON_ONCE(!list_empty(&shard->at_head));
	WARN_ON_ONCE(shard->queued);
}
