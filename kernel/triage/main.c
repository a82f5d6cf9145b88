// SPDX-License-Identifier: GPL-2.0-only
/*
 * triage: an I/O scheduler. It serves a request that a process waits for almost as fast as an
 * idle device would, lets no request starve, and keeps the device busy. Classes say which
 * processes matter. Flows that ask for little go first without any setting. Requests wait
 * here, not in the device. docs/triage.md says how and why; triage.h lists the parts.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "core.h"
#include "device.h"
#include "triage.h"
#include "version.h"
#include "yield.h"

static void tg_free(struct tg_data *tg)
{
	unsigned int i;

	for (i = 0; i < tg->nr_shards; i++) {
		if (!tg->shards[i])
			continue;
		tg_flows_exit(tg->shards[i]);
		kvfree(tg->shards[i]);
	}
	kfree(tg->shards);
	kvfree(tg);
}

static int tg_shard_make(struct tg_data *tg, unsigned int index, unsigned int tags)
{
	struct tg_shard *shard = kvzalloc_node(sizeof(*shard), GFP_KERNEL, tg->queue->node);

	if (!shard)
		return -ENOMEM;
	tg_core_init(shard, tg);
	shard->index = index;
	tg_device_init(&shard->device);
	tg->shards[index] = shard;
	return tg_flows_init(shard, tags);
}

/* Make a shard for each hardware queue. A disk has one head, so it has one shard in all. */
static int tg_shards_make(struct tg_data *tg)
{
	struct request_queue *q = tg->queue;
	unsigned int tags = q->nr_requests;
	unsigned int i;
	int ret = 0;

	tg->nr_shards = tg->rotational ? 1 : q->nr_hw_queues;
	if (tg->nr_shards == 1)
		tags *= q->nr_hw_queues;
	tg->shards = kcalloc_node(tg->nr_shards, sizeof(*tg->shards), GFP_KERNEL, q->node);
	if (!tg->shards) {
		tg->nr_shards = 0;
		return -ENOMEM;
	}
	for (i = 0; i < tg->nr_shards && !ret; i++)
		ret = tg_shard_make(tg, i, tags);
	return ret;
}

static int tg_init(struct request_queue *q, struct elevator_queue *eq)
{
	struct tg_data *tg;
	bool whole_depth;
	int ret;

	if (iosched_probe_shallow_depth(&whole_depth))
		return -ENOMEM;
	tg = kvzalloc_node(sizeof(*tg), GFP_KERNEL, q->node);
	if (!tg)
		return -ENOMEM;
	tg->queue = q;
	tg->whole_depth = whole_depth;
	tg->rotational = blk_queue_rot(q);
	tg->woken_until = jiffies;
	if (tg_shards_make(tg)) {
		tg_free(tg);
		return -ENOMEM;
	}
	tg->tunables = tg->rotational ? tg_defaults_disk : tg_defaults_flash;
	tg_costs_init(tg);
	tg_budget_init(tg);
	tg_controller_init(tg);
	tg_flushes_init(tg);
	tg_submitters_init(tg);
	ret = tg_groups_init(tg);
	if (ret) {
		tg_free(tg);
		return ret;
	}

	/*
	 * With one shard any hardware queue can dispatch any request, so the block layer need
	 * run only one of them. With several shards it must run each. Set or clear the flag in
	 * any case: the scheduler before triage may have left it either way.
	 */
	if (tg->nr_shards == 1)
		blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	else
		blk_queue_flag_clear(QUEUE_FLAG_SQ_SCHED, q);
	eq->elevator_data = tg;
	tg_inspect_init(tg);
	return 0;
}

IOSCHED_INIT_SCHED(tg_init_sched, tg_init);

/* Check and free the scheduler. Called with the queue frozen: every request has completed. */
static void tg_exit_sched(struct elevator_queue *eq)
{
	struct tg_data *tg = eq->elevator_data;
	unsigned int i;

	tg_inspect_exit(tg);
	tg_core_wait_for_inserters();
	for (i = 0; i < tg->nr_shards; i++) {
		struct tg_shard *shard = tg->shards[i];
		const char *differs;

		tg_core_exit(shard);
		tg_device_exit(&shard->device);
		spin_lock(&shard->lock);
		differs = tg_audit(shard);
		spin_unlock(&shard->lock);
		WARN_ONCE(differs, "triage: at exit %s is wrong\n", differs);
	}
	tg_submitters_exit(tg);
	tg_groups_exit(tg);
	/* A shard is held only while it has requests. */
	WARN_ON_ONCE(atomic_read(&tg->nr_held));
	tg_free(tg);
}

static int tg_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
	struct tg_data *tg = tg_of(hctx->queue);
	struct tg_shard *shard = tg->shards[tg->nr_shards == 1 ? 0 : index];

	hctx->sched_data = shard;
	if (!shard->hctx)
		WRITE_ONCE(shard->hctx, hctx);
	tg_tags_resized(hctx);
	return 0;
}

/*
 * Do nothing: tg_exit_sched() frees the shards. But the block layer resets hctx->sched_data
 * only if a scheduler has this operation. Otherwise, the next scheduler might take a shard for
 * its own data.
 */
static void tg_exit_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
}

IOSCHED_DEPTH_UPDATED(tg_depth_updated, tg_tags_resized);

static struct elevator_type triage = {
	.ops = {
		.init_sched		= tg_init_sched,
		.exit_sched		= tg_exit_sched,
		.init_hctx		= tg_init_hctx,
		.exit_hctx		= tg_exit_hctx,
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
	.elevator_name		= "triage",
	.elevator_owner		= THIS_MODULE,
};

static int __init tg_module_init(void)
{
	int ret;

#ifdef CONFIG_BLK_DEBUG_FS
	triage.queue_debugfs_attrs = tg_debugfs_table();
#endif
	tg_groups_register();
	ret = elv_register(&triage);
	if (ret)
		tg_groups_unregister();
	return ret;
}

static void __exit tg_module_exit(void)
{
	iosched_unregister(&triage);
	tg_groups_unregister();
}

module_init(tg_module_init);
module_exit(tg_module_exit);

MODULE_AUTHOR("The Triage project");
MODULE_LICENSE("GPL");
MODULE_VERSION(TRIAGE_VERSION);
MODULE_DESCRIPTION("I/O scheduler that protects processes that wait, starves no process, and keeps the device busy");
