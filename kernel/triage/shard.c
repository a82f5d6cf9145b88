// SPDX-License-Identifier: GPL-2.0-only
/*
 * From submitters to a dispatcher, without waiting for a lock.
 *
 * A submitter pushes requests on its shard's inbox. Whoever runs the hardware queue
 * tries the shard's lock; who finds it taken leaves, as the one who has it will look
 * at the inbox again before it rests.
 */
#include <linux/jiffies.h>
#include <linux/lockdep.h>

#include <trace/events/block.h>

#include "pressure.h"
#include "trace.h"
#include "triage.h"

static struct llist_node *tg_node(struct request *rq)
{
	/* Until a request is completed only its scheduler uses this one. */
	return &rq->ipi_list;
}

/*
 * Called for new requests, and again for those that the driver has sent back
 * (tg_requeue_request()). At head come these, and what is new to us too: data that had
 * to wait for a flush.
 */
void tg_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
			blk_insert_t flags)
{
	struct tg_shard *shard = hctx->sched_data;
	struct request *rq = list_first_entry(list, struct request, queuelist);
	struct llist_node *newest = NULL, *const oldest = tg_node(rq);

	list_for_each_entry(rq, list, queuelist) {
		if (!iosched_was_prepared(rq)) {
			*tg_tag(rq) = (struct tg_tag){
				.key = tg_key_of_current(),
				.returned = !!(flags & BLK_MQ_INSERT_AT_HEAD),
			};
			iosched_set_prepared(rq);
		}
		rq->fifo_time = jiffies;
		trace_block_rq_insert(rq);
		tg_node(rq)->next = newest;
		newest = tg_node(rq);
	}
	if (!newest)
		return;
	INIT_LIST_HEAD(list);
	llist_add_batch(newest, oldest, &shard->inbox);
}

/* Queue what the driver has sent back: before all else, in the order in which it came. */
static void tg_add_at_head(struct tg_shard *shard, struct request *rq)
{
	struct tg_tag *tag = tg_tag(rq);

	tag->returned = false;
	tag->class = tg_class_of(shard->tg, rq);
	tag->urgent = tag->class == PRIO_CLASS_HIGH;
	shard->classes[tag->class].inserted++;
	list_add_tail(&rq->queuelist, &shard->at_head);
	WRITE_ONCE(shard->queued, shard->queued + 1);
	tg_unthrottle(shard);
}

/* Queue what submitters have left, the newest first. */
static void tg_sort(struct tg_shard *shard, struct llist_node *list)
{
	struct request *rq, *next;

	list = llist_reverse_order(list);
	llist_for_each_entry_safe(rq, next, list, ipi_list) {
		if (tg_tag(rq)->returned)
			tg_add_at_head(shard, rq);
		else
			tg_flow_add(shard, rq);
	}
}

/* Move what submitters have left to where it can be chosen from. */
void tg_drain(struct tg_shard *shard)
{
	lockdep_assert_held(&shard->lock);

	if (!llist_empty(&shard->inbox))
		tg_sort(shard, llist_del_all(&shard->inbox));
}

static bool tg_mail(const struct tg_shard *shard)
{
	return !llist_empty(&shard->inbox);
}

/* Whether there may be something to choose, or to choose it by. */
static bool tg_several(const struct tg_shard *shard)
{
	return READ_ONCE(shard->queued) || shard->tg->rotational ||
	       READ_ONCE(shard->tg->tunables.limited);
}

/*
 * Send the only request there is, if it may go: nobody waits, so there is nothing to
 * choose and nobody to account to. On flash most requests of a device that keeps up
 * are such.
 */
static struct request *tg_send_only(struct tg_shard *shard)
{
	struct tg_data *tg = shard->tg;
	enum prio_class class;
	struct llist_node *list;
	struct request *rq;
	struct tg_tag *tag;
	bool urgent;

	lockdep_assert_held(&shard->lock);

	if (shard->queued)
		return NULL;
	list = llist_del_all(&shard->inbox);
	if (!list)
		return NULL;
	rq = llist_entry(list, struct request, ipi_list);
	tag = tg_tag(rq);
	class = tg_class_of(tg, rq);
	urgent = tg_is_urgent(tg, rq, class);
	if (list->next || tag->returned || (!urgent && !tg_bulk_may_go(tg))) {
		tg_sort(shard, list);
		return NULL;
	}
	tag->class = class;
	tag->cost = tg_media_cost(shard, NULL, rq);
	shard->classes[class].inserted++;
	shard->classes[class].reasons[TG_ONLY]++;
	tg_send(shard, rq, urgent);
	if (trace_triage_dispatch_enabled())
		tg_trace_dispatch(shard, rq, TG_ONLY);
	return rq;
}

/* Who has found the lock taken leaves word and tries once more; then he may go. */
static void tg_leave_word(struct tg_shard *shard)
{
	set_bit(TG_MISSED, &shard->state);
	/* Pairs with tg_leave(): it sees the bit, or the second try succeeds. */
	smp_mb__after_atomic();
}

/* Begin to dispatch: nobody else has to, nor to look at what word was left of. */
static void tg_serve(struct tg_shard *shard)
{
	lockdep_assert_held(&shard->lock);

	WRITE_ONCE(shard->serving, true);
	if (unlikely(test_bit(TG_MISSED, &shard->state)))
		clear_bit(TG_MISSED, &shard->state);
}

/*
 * Leave a shard's lock, after doing something else than dispatching. Not for who holds
 * the queue's lock, which blk_mq_run_hw_queue() takes.
 */
void tg_leave(struct tg_shard *shard)
	__releases(&shard->lock)
{
	lockdep_assert_not_held(&shard->tg->queue->queue_lock);

	spin_unlock(&shard->lock);
	/* Pairs with the barrier in tg_leave_word(). */
	smp_mb();
	if (test_and_clear_bit(TG_MISSED, &shard->state))
		blk_mq_run_hw_queue(shard->hctx, true);
}

/* Have all that has come so far judged by the tunables as they are. */
void tg_drain_all(struct tg_data *tg)
{
	unsigned int i;

	for (i = 0; i < tg->nr_shards; i++) {
		struct tg_shard *shard = &tg->shards[i];

		spin_lock(&shard->lock);
		tg_drain(shard);
		tg_leave(shard);
	}
}

/*
 * Whether to choose once more: whoever left something, or unthrottled the shard, while
 * it was served has run its hardware queue in vain.
 */
static bool tg_go_on(const struct tg_shard *shard)
{
	/* Pairs with the barrier in tg_is_served(). */
	smp_mb();
	return tg_mail(shard) ||
	       (READ_ONCE(shard->queued) && !test_bit(TG_THROTTLED, &shard->state));
}

/* Choose among those that wait, until something may go or nothing does. */
static noinline struct request *tg_dispatch_chosen(struct blk_mq_hw_ctx *hctx)
{
	struct tg_shard *shard = hctx->sched_data;
	enum tg_reason reason;
	struct request *rq;

	do {
		if (!spin_trylock(&shard->lock)) {
			tg_leave_word(shard);
			if (!spin_trylock(&shard->lock))
				return NULL;
		}
		tg_serve(shard);
		tg_drain(shard);
		rq = tg_next(shard, &reason);
		if (rq) {
			tg_send(shard, rq, tg_tag(rq)->urgent);
			if (trace_triage_dispatch_enabled())
				tg_trace_dispatch(shard, rq, reason);
		} else if (shard->queued) {
			shard->hctx = hctx;
			tg_throttle(shard);
		}
		WRITE_ONCE(shard->serving, false);
		spin_unlock(&shard->lock);
	} while (!rq && tg_go_on(shard));
	return rq;
}

struct request *tg_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct tg_shard *shard = hctx->sched_data;
	struct request *rq;

	if (tg_several(shard))
		return tg_dispatch_chosen(hctx);
	if (!spin_trylock(&shard->lock)) {
		tg_leave_word(shard);
		if (!spin_trylock(&shard->lock))
			return NULL;
	}
	tg_serve(shard);
	rq = tg_send_only(shard);
	WRITE_ONCE(shard->serving, false);
	spin_unlock(&shard->lock);
	return rq ?: tg_dispatch_chosen(hctx);
}

/*
 * The kernel takes it badly (a delay of 3 ms, and all hardware queues run) when
 * tg_has_work() promises and dispatch does not keep. Hence the next two.
 */

/*
 * Whether somebody dispatches who will look again. After a request the core always
 * asks once more, and has taken a tag for that one before: a barrier.
 */
static noinline bool tg_is_served(struct tg_shard *shard)
{
	/* Pairs with the barrier in tg_go_on(). */
	smp_mb();
	return READ_ONCE(shard->serving);
}

/* What has come while the shard is throttled is looked at: only what is urgent ends it. */
static noinline bool tg_may_go_on(struct tg_shard *shard)
{
	if (tg_mail(shard)) {
		if (in_hardirq() || !spin_trylock(&shard->lock))
			return true;
		tg_drain(shard);
		spin_unlock(&shard->lock);
		/*
		 * As in tg_leave(), but whoever asks may hold the queue's lock, which
		 * blk_mq_run_hw_queue() takes: he runs the queue when told that it has work.
		 */
		smp_mb();
		if (test_and_clear_bit(TG_MISSED, &shard->state))
			return true;
	}
	return !test_bit(TG_THROTTLED, &shard->state);
}

/* Called without the lock, several times for each request, and in interrupts. */
bool tg_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct tg_shard *shard = hctx->sched_data;

	if (!tg_mail(shard) && !READ_ONCE(shard->queued))
		return false;
	if (unlikely(READ_ONCE(shard->serving)) && tg_is_served(shard))
		return false;
	return likely(!test_bit(TG_THROTTLED, &shard->state)) || tg_may_go_on(shard);
}
