/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a scheduler includes, beside <linux/...>: the block layer's private types
 * for the kernel it is built for, and every difference between kernel versions.
 *
 * A scheduler is written for the newest interface. Each block below makes an older
 * kernel look like that, names the change it covers, and can go with the kernels
 * before that change.
 *
 * No help is needed for: the priority of a request, a field of its own until
 * the 6.12 stable series took it away (req_get_ioprio() in <linux/blk-mq.h>
 * covers both), and elevator_attrs, const since 6.18 (a table that is not const
 * suits both).
 */
#ifndef IOSCHED_H
#define IOSCHED_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/hrtimer.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/sbitmap.h>
#include <linux/sysfs.h>

#include "features.h"

/*
 * insert_requests() takes flags since 6.4 ("blk-mq: pass a flags argument to
 * elevator_type->insert_requests"), until then one bool, "at head". The flag's
 * value is a macro, which BTF does not have.
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
 * IOSCHED_INIT_SCHED(op, init) - define @op, to be given as .init_sched, from
 * int @init(struct request_queue *q, struct elevator_queue *eq), which sets
 * eq->elevator_data, or returns a negative errno and leaves nothing behind.
 *
 * Since 6.17 ("block: move elevator queue allocation logic into
 * blk_mq_init_sched") the core allocates the elevator_queue and frees it on
 * failure; until then the scheduler did, with elevator_alloc().
 */
#ifdef IOSCHED_MUST_ALLOC
#define IOSCHED_INIT_SCHED(op, init)					\
static int op(struct request_queue *q, struct elevator_type *type)	\
{									\
	struct elevator_queue *eq = elevator_alloc(q, type);		\
	int ret;							\
									\
	if (!eq)							\
		return -ENOMEM;						\
	ret = init(q, eq);						\
	if (ret)							\
		kobject_put(&eq->kobj);					\
	else								\
		q->elevator = eq;					\
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
 * IOSCHED_DEPTH_UPDATED(op, update) - define @op, to be given as .depth_updated,
 * from void @update(struct blk_mq_hw_ctx *hctx).
 *
 * Since 6.18 ("blk-mq: fix elevator depth_updated method") the core calls it once,
 * with the queue; until then once for each hardware context of the queue.
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
 * iosched_probe_shallow_depth() - whether limit_depth() sets a limit for all tags
 * @whole: true: for all; false: for each word of their bitmap
 *
 * It was for each word until 6.18 ("lib/sbitmap: make sbitmap_get_shallow() work as
 * documented" and what came with it), and in stable series until some day within
 * them. Nothing in the interface tells, so a bitmap is asked.
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
 * iosched_shallow_depth() - what limit_depth() has to set for a part of all tags
 * @tags: a hardware context's sched_tags
 * @part: of 64
 * @whole: what iosched_probe_shallow_depth() has found
 */
static inline unsigned int iosched_shallow_depth(const struct blk_mq_tags *tags,
						 unsigned int part, bool whole)
{
	const struct sbitmap *map = &tags->bitmap_tags.sb;
	const unsigned int bits = whole ? map->depth : 1U << map->shift;

	return max(bits * part / 64, 1U);
}

/*
 * iosched_was_prepared() - whether a request's elv.priv is the scheduler's
 *
 * Since 6.5 ("blk-mq: use the I/O scheduler for writes from the flush state
 * machine") prepare_request() is called for all that are inserted. Until then not for
 * the data of one with a flush: that bypasses the scheduler, which hears of its
 * completion all the same, and finds what the flush state machine left there. Given
 * back by the driver it is inserted after all, see iosched_set_prepared().
 */
static inline bool iosched_was_prepared(const struct request *rq)
{
#ifdef RQF_ELVPRIV
	return rq->rq_flags & RQF_ELVPRIV;
#else
	return true;
#endif
}

/* iosched_set_prepared() - elv.priv is the scheduler's from now on, to the end */
static inline void iosched_set_prepared(struct request *rq)
{
#ifdef RQF_ELVPRIV
	rq->elv.icq = NULL;
	rq->rq_flags |= RQF_ELVPRIV;
#endif
}

/* hrtimer_setup() replaced hrtimer_init() and setting .function in 6.13 to 6.15. */
#ifndef IOSCHED_HAS_HRTIMER_SETUP
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

#endif
