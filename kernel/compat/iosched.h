/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The header that a scheduler includes after <linux/...>. It has the block layer's
 * private types for the kernel that the scheduler is built for, and it hides every
 * difference between kernel versions.
 *
 * A scheduler is written for the newest interface. Each block below imitates that
 * interface on older kernels, and names the change that it covers. Remove a block when
 * no kernel from before that change is supported.
 *
 * Two differences need no block. Until late in the 6.12 stable series a request has a priority
 * field; req_get_ioprio() in <linux/blk-mq.h> covers both cases. Since 6.18 elevator_attrs is
 * const; a table that is not const suits all kernels.
 */
#ifndef IOSCHED_H
#define IOSCHED_H

#include <linux/blk-cgroup.h>
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/cgroup.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/sbitmap.h>
#include <linux/sysfs.h>

#include "features.h"
#include "timers.h"

/*
 * insert_requests() takes flags since 6.4 ("blk-mq: pass a flags argument to
 * elevator_type->insert_requests"). Until then it takes one bool, "at head". private.h
 * is made from BTF, which has no macros, so the flag is defined here.
 */
#ifdef IOSCHED_INSERT_TAKES_FLAGS
typedef unsigned int __bitwise blk_insert_t;
#define BLK_MQ_INSERT_AT_HEAD ((__force blk_insert_t)0x01)
#else
typedef bool blk_insert_t;
#define BLK_MQ_INSERT_AT_HEAD true
#endif

#include "private.h"

/*
 * IOSCHED_INIT_SCHED(op, init) - define a function @op for .init_sched, which calls @init
 * @init: int init(struct request_queue *q, struct elevator_queue *eq). It sets
 *        eq->elevator_data and returns 0. If it fails, it frees all that it has
 *        allocated, and returns a negative errno.
 *
 * Since 6.17 ("block: move elevator queue allocation logic into
 * blk_mq_init_sched") the core allocates the elevator_queue and frees it on
 * failure. Until then the scheduler allocates it with elevator_alloc().
 *
 * The queue is frozen, so an allocation must not wait for I/O of that queue. Since 6.14
 * ("block: force noio scope in blk_mq_freeze_queue") the core ensures that.
 */
#ifdef IOSCHED_MUST_ALLOC
#define IOSCHED_INIT_SCHED(op, init)					\
static int op(struct request_queue *q, struct elevator_type *type)	\
{									\
	const unsigned int flags = memalloc_noio_save();		\
	struct elevator_queue *eq = elevator_alloc(q, type);		\
	int ret = eq ? init(q, eq) : -ENOMEM;				\
									\
	memalloc_noio_restore(flags);					\
	if (!ret)							\
		q->elevator = eq;					\
	else if (eq)							\
		kobject_put(&eq->kobj);					\
	return ret;							\
}
#else
#define IOSCHED_INIT_SCHED(op, init)					\
static int op(struct request_queue *q, struct elevator_queue *eq)	\
{									\
	int ret = init(q, eq);						\
									\
	if (!ret)							\
		q->elevator = eq;					\
	return ret;							\
}
#endif

/*
 * IOSCHED_DEPTH_UPDATED(op, update) - define a function @op for .depth_updated, which calls
 *                                     @update once for each hardware context
 * @update: void update(struct blk_mq_hw_ctx *hctx)
 *
 * Since 6.18 ("blk-mq: fix elevator depth_updated method") the core calls @op once,
 * with the queue. Until then it calls @op once for each hardware context.
 */
#ifdef IOSCHED_DEPTH_TAKES_HCTX
#define IOSCHED_DEPTH_UPDATED(op, update)				\
static void op(struct blk_mq_hw_ctx *hctx)				\
{									\
	update(hctx);							\
}
#else
#define IOSCHED_DEPTH_UPDATED(op, update)				\
static void op(struct request_queue *q)					\
{									\
	struct blk_mq_hw_ctx *hctx;					\
	unsigned long i;						\
									\
	queue_for_each_hw_ctx(q, hctx, i)				\
		update(hctx);						\
}
#endif

/*
 * iosched_probe_shallow_depth() - find out what the limit of limit_depth() counts
 * @whole: set to true if the limit counts all tags, to false if it counts the tags in
 *         each word of the bitmap
 *
 * Until 6.18 ("lib/sbitmap: make sbitmap_get_shallow() work as documented") a task may
 * take only the first tags of each word, as many as the limit says. Since then it may take
 * a tag only while fewer tags than the limit are taken. Each stable series changed at a
 * release of its own, and the headers do not show the change. So this function tries the
 * limit on a small bitmap.
 *
 * Return: 0, or -ENOMEM
 */
static inline int iosched_probe_shallow_depth(bool *whole)
{
	enum { BITS = 256, BITS_SHIFT = 6, LIMIT = 4 };
	struct sbitmap_queue tags;
	unsigned int taken = 0;
	int ret;

	ret = sbitmap_queue_init_node(&tags, BITS, BITS_SHIFT, false, GFP_KERNEL,
				      NUMA_NO_NODE);
	if (ret)
		return ret;
	sbitmap_queue_min_shallow_depth(&tags, LIMIT);
	while (taken <= LIMIT && sbitmap_queue_get_shallow(&tags, LIMIT) >= 0)
		taken++;
	sbitmap_queue_free(&tags);
	*whole = taken <= LIMIT;
	return 0;
}

/*
 * iosched_shallow_depth() - convert a part of all tags to a limit for limit_depth()
 * @tags: a hardware context's sched_tags
 * @part: the part, in 64ths
 * @whole: the result of iosched_probe_shallow_depth()
 *
 * If the number of tags is lowered, the words keep their size. So a word may have more bits than
 * there are tags. Without @whole, the limit is a part of a word's bits or of all tags, whichever
 * are fewer. The limit is at least 1.
 */
static inline unsigned int iosched_shallow_depth(const struct blk_mq_tags *tags,
						 unsigned int part, bool whole)
{
	const struct sbitmap *map = &tags->bitmap_tags.sb;
	const unsigned int bits = whole ? map->depth : min(1U << map->shift, map->depth);

	return max(bits * part / 64, 1U);
}

/*
 * iosched_was_prepared() - tell whether a request's elv.priv belongs to the scheduler
 *
 * Since 6.5 ("blk-mq: use the I/O scheduler for writes from the flush state machine") the core
 * calls prepare_request() for every request that it inserts. Until then it does not call
 * prepare_request() for a write that belongs to a flush. The core sends this write past the
 * scheduler, but tells the scheduler of its completion. elv.priv then has a value of the flush
 * state machine. If the driver sends the write back, the core does insert it: see
 * iosched_set_prepared().
 */
static inline bool iosched_was_prepared(const struct request *rq)
{
#ifdef RQF_ELVPRIV
	return rq->rq_flags & RQF_ELVPRIV;
#else
	return true;
#endif
}

/* iosched_set_prepared() - note that elv.priv belongs to the scheduler from now on */
static inline void iosched_set_prepared(struct request *rq)
{
#ifdef RQF_ELVPRIV
	rq->elv.icq = NULL;
	rq->rq_flags |= RQF_ELVPRIV;
#endif
}

/*
 * iosched_unregister() - unregister a scheduler that no queue uses any more
 *
 * A module calls this when it is unloaded. The core waits for all of a scheduler's operations
 * except insertions. Inserted requests may complete, and the queue may leave the scheduler,
 * while the task that inserted them is preempted inside the module's code. This function
 * waits for that task.
 */
static inline void iosched_unregister(struct elevator_type *type)
{
	elv_unregister(type);
	synchronize_rcu_tasks();
}

/*
 * iosched_flush_began() - return the start time of a hardware context's flush
 *
 * Flushes bypass the scheduler. The core sends one at a time for each hardware context. The caller
 * needs no lock: the result may be out of date at once anyway. While the core prepares a flush, the
 * result may be 0, or the start time of the flush before.
 *
 * Return: ns, as ktime_get_ns(); 0 if there is no flush
 */
static inline u64 iosched_flush_began(const struct blk_mq_hw_ctx *hctx)
{
	const struct blk_flush_queue *fq = hctx->fq;

	/* The core writes both under fq->mq_flush_lock. A result just out of date does no harm. */
	if (data_race(fq->flush_pending_idx == fq->flush_running_idx))
		return 0;
	/* blk_rq_init() writes this word without WRITE_ONCE(). An old value does no harm. */
	return data_race(READ_ONCE(fq->flush_rq->start_time_ns));
}

#ifdef CONFIG_BLK_CGROUP
/* Since 6.3 the functions of a cgroup policy take the disk. Until then they take its queue. */
static inline int iosched_activate_policy(struct request_queue *q,
					  const struct blkcg_policy *policy)
{
#ifdef IOSCHED_POLICY_TAKES_QUEUE
	return blkcg_activate_policy(q, policy);
#else
	return blkcg_activate_policy(q->disk, policy);
#endif
}

static inline void iosched_deactivate_policy(struct request_queue *q,
					     const struct blkcg_policy *policy)
{
#ifdef IOSCHED_POLICY_TAKES_QUEUE
	blkcg_deactivate_policy(q, policy);
#else
	blkcg_deactivate_policy(q->disk, policy);
#endif
}

/*
 * IOSCHED_ALLOC_PD(op, alloc) - define a function @op for .pd_alloc_fn, which calls @alloc
 * @alloc: struct blkg_policy_data *alloc(struct request_queue *q, gfp_t gfp)
 *
 * Since 6.3 the core calls @op with the disk. Until then it calls @op with the queue.
 */
#ifdef IOSCHED_ALLOC_PD_TAKES_QUEUE
#define IOSCHED_ALLOC_PD(op, alloc)					\
static struct blkg_policy_data *(op)(gfp_t gfp, struct request_queue *q, \
				     struct blkcg *blkcg)		\
{									\
	return alloc(q, gfp);						\
}
#else
#define IOSCHED_ALLOC_PD(op, alloc)					\
static struct blkg_policy_data *(op)(struct gendisk *disk,		\
				     struct blkcg *blkcg, gfp_t gfp)	\
{									\
	return alloc(disk->queue, gfp);					\
}
#endif

/*
 * iosched_conf_begin() - parse a line written to a cgroup's file, and find the device in it
 * @ctx: filled in; @ctx->body is the rest of the line, @ctx->blkg the cgroup on this device
 * @line: "MAJOR:MINOR VALUE"; the core changes the text
 *
 * Since 6.4 ("blkcg: Restructure blkg_conf_prep() and friends") the context is set up first.
 * Since 7.2 opening the device and taking the lock are two steps.
 *
 * Return: 0 with the queue's lock held, until iosched_conf_end(); or a negative errno
 */
static inline int iosched_conf_begin(struct blkg_conf_ctx *ctx, struct blkcg *blkcg,
				     const struct blkcg_policy *policy, char *line)
{
#ifndef IOSCHED_CONF_HAS_INIT
	return blkg_conf_prep(blkcg, policy, line, ctx);
#else
	int ret;

	blkg_conf_init(ctx, line);
#ifdef IOSCHED_CONF_HAS_UNPREP
	ret = blkg_conf_open_bdev(ctx);
	if (ret)
		return ret;
	ret = blkg_conf_prep(blkcg, policy, ctx);
	if (ret)
		blkg_conf_close_bdev(ctx);
#else
	ret = blkg_conf_prep(blkcg, policy, ctx);
	if (ret)
		blkg_conf_exit(ctx);
#endif
	return ret;
#endif
}

static inline void iosched_conf_end(struct blkg_conf_ctx *ctx)
{
#ifndef IOSCHED_CONF_HAS_INIT
	blkg_conf_finish(ctx);
#elif defined(IOSCHED_CONF_HAS_UNPREP)
	blkg_conf_unprep(ctx);
	blkg_conf_close_bdev(ctx);
#else
	blkg_conf_exit(ctx);
#endif
}
#endif

/* blk_queue_rot() replaced its opposite, blk_queue_nonrot(), in 7.0. Both are macros. */
#ifndef blk_queue_rot
#define blk_queue_rot(q) (!blk_queue_nonrot(q))
#endif

/*
 * The queues that a scheduler has now. Its files in debugfs show only these. Since 6.16 the core
 * removes the files only after exit_sched(). In between, a file that used q->elevator would find
 * NULL, freed memory, or the data of the next scheduler.
 */
struct iosched_alive {
	/* Guards the list. Hold it to show a file: the scheduler cannot leave a queue meanwhile. */
	struct mutex lock;
	struct list_head queues;
};

#define IOSCHED_ALIVE(name)						\
	struct iosched_alive name = {					\
		.lock	= __MUTEX_INITIALIZER(name.lock),		\
		.queues	= LIST_HEAD_INIT(name.queues),			\
	}

/* An entry in the list of struct iosched_alive. It is part of a scheduler's data for a queue. */
struct iosched_queue {
	struct list_head list;
	struct request_queue *q;
};

static inline void iosched_begin(struct iosched_alive *alive,
				 struct iosched_queue *queue,
				 struct request_queue *q)
{
	queue->q = q;
	mutex_lock(&alive->lock);
	list_add(&queue->list, &alive->queues);
	mutex_unlock(&alive->lock);
}

/* iosched_end() - remove a queue from the list: no file in debugfs finds it from now on */
static inline void iosched_end(struct iosched_alive *alive,
			       struct iosched_queue *queue)
{
	mutex_lock(&alive->lock);
	list_del(&queue->list);
	mutex_unlock(&alive->lock);
}

/* iosched_find() - return the entry of @q, NULL if @q has left the scheduler */
static inline struct iosched_queue *iosched_find(struct iosched_alive *alive,
						 const struct request_queue *q)
{
	struct iosched_queue *queue;

	lockdep_assert_held(&alive->lock);

	list_for_each_entry(queue, &alive->queues, list)
		if (queue->q == q)
			return queue;
	return NULL;
}

#endif
