// SPDX-License-Identifier: GPL-2.0-only
/*
 * triage: whoever waits is served almost as on an idle device, nobody starves, and
 * the device stays busy. Classes say who matters, flows that ask for little go first
 * without being told, and the queue is kept here, not in the device.
 * docs/triage.md says how and why; triage.h, where.
 */
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/slab.h>

#include "pressure.h"
#include "triage.h"

static void tg_shard_init(struct tg_shard *shard, struct tg_data *tg)
{
	unsigned int i;

	init_llist_head(&shard->inbox);
	spin_lock_init(&shard->lock);
	shard->tg = tg;
	INIT_LIST_HEAD(&shard->at_head);
	for (i = 0; i < PRIO_CLASS_COUNT; i++) {
		INIT_LIST_HEAD(&shard->classes[i].sparse);
		INIT_LIST_HEAD(&shard->classes[i].backlog);
	}
	for (i = 0; i < TG_FLOWS; i++) {
		INIT_LIST_HEAD(&shard->flows[i].turn);
		INIT_LIST_HEAD(&shard->flows[i].fifo);
		shard->flows[i].sorted = RB_ROOT;
	}
	shard->young_until = jiffies;
	tg_pressure_init(shard);
}

static int tg_init(struct request_queue *q, struct elevator_queue *eq)
{
	struct tg_data *tg;
	bool whole_depth;
	unsigned int i;

	if (iosched_probe_shallow_depth(&whole_depth))
		return -ENOMEM;
	tg = kvzalloc_node(sizeof(*tg), GFP_KERNEL, q->node);
	if (!tg)
		return -ENOMEM;

	tg->queue = q;
	tg->whole_depth = whole_depth;
	tg->rotational = !blk_queue_nonrot(q);
	tg->tunables = tg->rotational ? tg_defaults_disk : tg_defaults_flash;
	/* One head has one queue: all that a disk is asked for is seen together. */
	tg->nr_shards = tg->rotational ? 1 : q->nr_hw_queues;
	tg->shards = kvzalloc_node(array_size(tg->nr_shards, sizeof(*tg->shards)),
				   GFP_KERNEL, q->node);
	if (!tg->shards) {
		kvfree(tg);
		return -ENOMEM;
	}
	for (i = 0; i < tg->nr_shards; i++)
		tg_shard_init(&tg->shards[i], tg);

	for (i = 0; i < TG_OPS; i++)
		tg->costs[i] = tg->rotational ? (struct tg_cost)TG_COST_GUESS_DISK :
						(struct tg_cost)TG_COST_GUESS_FLASH;
	tg->bulk_cost = tg->costs[TG_READ].base;
	for (i = 0; i < ARRAY_SIZE(tg->slots); i++)
		tg->slots[i].several_at = jiffies - HZ;
	spin_lock_init(&tg->control);
	tg->depth.budget = TG_DEPTH_FIRST;
	tg->probe_began = jiffies;
	tg->probe_next = jiffies;
	tg->bulk_at = jiffies - HZ;
	tg->written_at = jiffies - HZ;
	tg->shared_at = jiffies - HZ;
	tg->window_until = jiffies;
	tg->window_began = ktime_get_ns();

	/*
	 * With one shard any hardware queue may be given any request, with several each
	 * has to be run for its own; the flag is as the scheduler before has left it.
	 */
	if (tg->nr_shards == 1)
		blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	else
		blk_queue_flag_clear(QUEUE_FLAG_SQ_SCHED, q);
	eq->elevator_data = tg;
	return 0;
}

IOSCHED_INIT_SCHED(tg_init_sched, tg_init);

/* Called with the queue frozen: every request has come and gone. */
static void tg_exit_sched(struct elevator_queue *eq)
{
	struct tg_data *tg = eq->elevator_data;
	unsigned int i;
	int class;

	for (i = 0; i < tg->nr_shards; i++) {
		struct tg_shard *shard = &tg->shards[i];

		tg_pressure_exit(shard);
		WARN_ON_ONCE(!llist_empty(&shard->inbox));
		WARN_ON_ONCE(!list_empty(&shard->at_head));
		WARN_ON_ONCE(shard->queued);
		for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++) {
			const struct tg_class *c = &shard->classes[class];

			WARN_ON_ONCE(!list_empty(&c->sparse));
			WARN_ON_ONCE(!list_empty(&c->backlog));
			WARN_ONCE(c->inserted != tg_class_dispatched(c),
				  "triage: class %d: %lu inserted, %lu dispatched\n",
				  class, c->inserted, tg_class_dispatched(c));
		}
	}
	for (i = 0; i < ARRAY_SIZE(tg->slots); i++)
		WARN_ON_ONCE(atomic_read(&tg->slots[i].held));
	kvfree(tg->shards);
	kvfree(tg);
}

static int tg_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
	struct tg_data *tg = tg_of(hctx->queue);
	struct tg_shard *shard = &tg->shards[tg->nr_shards == 1 ? 0 : index];

	hctx->sched_data = shard;
	if (!shard->hctx)
		shard->hctx = hctx;
	tg_tags_resized(hctx);
	return 0;
}

IOSCHED_DEPTH_UPDATED(tg_depth_updated, tg_tags_resized);

/* The driver sends a request back: it was in the device, and will be inserted again. */
static void tg_requeue_request(struct request *rq)
{
	if (!iosched_was_prepared(rq) || !tg_tag(rq)->in_flight)
		return;
	tg_back(rq->mq_hctx->sched_data, rq, false);
	tg_tag(rq)->returned = true;
}

/*
 * The last that is heard of a request. The core calls this right behind
 * completed_request(), which would be one call more.
 */
static void tg_finish_request(struct request *rq)
{
	struct tg_shard *shard = rq->mq_hctx->sched_data;
	const struct tg_tag *tag = tg_tag(rq);

	tg_tags_put(shard->tg, tag);
	if (likely(tag->in_flight))
		tg_back(shard, rq, true);
}

static struct elevator_type triage = {
	.ops = {
		.init_sched		= tg_init_sched,
		.exit_sched		= tg_exit_sched,
		.init_hctx		= tg_init_hctx,
		.depth_updated		= tg_depth_updated,
		.limit_depth		= tg_limit_depth,
		.prepare_request	= tg_prepare_request,
		.allow_merge		= tg_allow_merge,
		.bio_merge		= tg_bio_merge,
		.insert_requests	= tg_insert_requests,
		.has_work		= tg_has_work,
		.dispatch_request	= tg_dispatch_request,
		.requeue_request	= tg_requeue_request,
		.finish_request		= tg_finish_request,
	},
	.elevator_attrs		= tg_attrs,
#ifdef CONFIG_BLK_DEBUG_FS
	.queue_debugfs_attrs	= tg_debugfs_attrs,
#endif
	.elevator_name		= "triage",
	.elevator_owner		= THIS_MODULE,
};

static int __init tg_module_init(void)
{
	return elv_register(&triage);
}

static void __exit tg_module_exit(void)
{
	elv_unregister(&triage);
}

module_init(tg_module_init);
module_exit(tg_module_exit);

MODULE_AUTHOR("The Triage project");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("I/O scheduler that protects who waits, starves nobody, and keeps the device busy");
