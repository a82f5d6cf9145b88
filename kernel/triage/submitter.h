/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Knows the processes that submit requests, and counts the scheduler tags that each holds.
 *
 * A submitter is a thread group, known by its struct pid. Its entry holds a reference to that pid,
 * so no two processes share an entry, even if a process id is reused. A kernel thread is a
 * submitter too. All workers of workqueues are one submitter, because each works for any process.
 * flow.c tells their requests apart by cgroup.
 */
#ifndef TG_SUBMITTER_H
#define TG_SUBMITTER_H

#include <linux/atomic.h>
#include <linux/blk-mq.h>
#include <linux/cache.h>
#include <linux/list.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>

#include "clock.h"

struct pid;
struct tg_data;

/**
 * struct tg_submitter - one submitter on one device
 * @node: entry in its bucket; written under tg_submitters.lock, read with preemption off
 * @pid: of the thread group, with a reference; NULL for the two common entries
 * @id: its number, which no other submitter of this device ever gets
 * @held: number of its requests with a tag; TG_GONE when the entry has left its table
 * @several_at: jiffies when it last took a tag beyond TG_SPARSE_TAGS; any value is safe
 * @used_at: jiffies when it last took a tag while it held none; any value is safe
 * @back_at: when one of its requests last came back from a disk, in ns; any value is safe
 * @rcu: for kfree_rcu()
 *
 * Each entry has its own cache lines, because processes run on different CPUs.
 */
struct tg_submitter {
	struct hlist_node node;
	struct pid *pid;
	u64 id;
	atomic_t held;
	unsigned long several_at;
	unsigned long used_at;
	u64 back_at;
	struct rcu_head rcu;
} ____cacheline_aligned_in_smp;

/* 1024 buckets: with ten thousand processes a bucket's list has ten. */
#define TG_SUBMITTER_BITS 10

/**
 * struct tg_submitters - all submitters of one device
 * @lock: guards writes of @buckets; taken for a process's first request and by debugfs, never
 *	in an interrupt
 * @buckets: by hash of the struct pid's address
 * @last_id: the last @id given to a submitter; guarded by @lock
 * @unknown: how often there was no memory for an entry; guarded by @lock
 * @nr_several: number of submitters that hold more than TG_SPARSE_TAGS tags; atomic
 * @nr_greedy: number of submitters that hold more than TG_TAGS_FEW tags; atomic
 * @workers: the entry of all workqueue workers
 * @others: the entry of processes for which there was no memory. Requests that came without
 *	tg_prepare_request() have this entry too, but it does not count them.
 */
struct tg_submitters {
	spinlock_t lock; /* guards buckets, last_id and unknown */
	u64 last_id;
	unsigned long unknown;
	atomic_t nr_several;
	atomic_t nr_greedy;
	struct tg_submitter workers;
	struct tg_submitter others;
	struct hlist_head buckets[1 << TG_SUBMITTER_BITS];
};

/*
 * A submitter that holds more tags than this is greedy. If two or more submitters are greedy, bulk
 * in a flash device is limited, so that they take turns (tg_bulk_may_share()).
 */
#define TG_TAGS_FEW 8
/*
 * A submitter asks for little if it holds at most this many tags, and has not taken a further one
 * for this long.
 */
#define TG_SPARSE_TAGS 2
#define TG_SPARSE_JIFFIES msecs_to_jiffies(100)

void tg_submitters_init(struct tg_data *tg);
void tg_submitters_exit(struct tg_data *tg);
void tg_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data);
void tg_tags_resized(struct blk_mq_hw_ctx *hctx);
void tg_prepare_request(struct request *rq);
u64 tg_submitter_id_of_current(struct tg_data *tg);

/*
 * Record that a request's tag is free again. The entry may be gone afterwards. Return whether one
 * submitter fewer is greedy. If so, this function has executed a full barrier.
 */
static inline bool tg_submitter_put(struct tg_submitters *submitters,
				    struct tg_submitter *submitter)
{
	const int held = atomic_dec_return(&submitter->held);

	if (likely(held < TG_SPARSE_TAGS))
		return false;
	if (held == TG_SPARSE_TAGS)
		atomic_dec(&submitters->nr_several);
	if (held != TG_TAGS_FEW)
		return false;
	atomic_dec(&submitters->nr_greedy);
	/* Pairs with tg_set_held(): the holder sees nr_greedy, or our caller sees nr_held. */
	smp_mb__after_atomic();
	return true;
}

/* Return whether a submitter asks for little, by the tags that it holds and has held. */
static inline bool tg_asks_little(const struct tg_submitter *submitter)
{
	return atomic_read(&submitter->held) <= TG_SPARSE_TAGS &&
	       time_after(tg_now(), READ_ONCE(submitter->several_at) + TG_SPARSE_JIFFIES);
}

/*
 * Return whether a request's flags say that a process waits for it, however many tags its submitter
 * holds. The flags of metadata and swap do, except for read-ahead and background writeback. So do
 * those of writes of fsync() and of a journal. Direct writes are REQ_SYNC too, but also REQ_IDLE:
 * their submitter does not wait for each.
 */
static inline bool tg_flags_hint(blk_opf_t flags)
{
	if (flags & (REQ_META | REQ_PRIO | REQ_SWAP))
		return !(flags & (REQ_RAHEAD | REQ_BACKGROUND));
	return op_is_write(flags) && (flags & (REQ_SYNC | REQ_IDLE)) == REQ_SYNC;
}

#endif
