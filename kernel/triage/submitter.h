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
 * @share: submitters share the device
 * @answered: number of periods that ended (tg_period_ends()); the clock of sharing. It begins at
 *	TG_SHARED_PERIODS
 * @answered_at: jiffies when @answered last rose
 * @asked_by: the submitter that last asked for more than little, as far as is noted
 *	(tg_submitters_meet()); only compared, because it may have been freed
 * @asked_at: jiffies then
 * @met_at: @answered when another submitter than @asked_by last did so, or several flows last
 *	waited on a shard
 * @behind_until: jiffies; until then, the requests of one submitter may be behind those that the
 *	device had of another when they met
 * @workers: the entry of all workqueue workers
 * @others: the entry of processes for which there was no memory. Requests that came without
 *	tg_prepare_request() have this entry too, but it does not count them.
 */
struct tg_submitters {
	spinlock_t lock; /* guards buckets, last_id and unknown */
	u64 last_id;
	unsigned long unknown;
	atomic_t nr_several;
	bool share;
	u32 answered;
	unsigned long answered_at;
	const struct tg_submitter *asked_by;
	unsigned long asked_at;
	u32 met_at;
	unsigned long behind_until;
	struct tg_submitter workers;
	struct tg_submitter others;
	struct hlist_head buckets[1 << TG_SUBMITTER_BITS];
};

/*
 * A submitter asks for little if it holds at most this many tags, and has not taken a further one
 * for this long.
 */
#define TG_SPARSE_TAGS 2
#define TG_SPARSE_JIFFIES msecs_to_jiffies(100)
/*
 * Submitters share the device if two of them asked for more than little in this many periods of
 * 4 ms: they took tags beyond TG_SPARSE_TAGS, or their bulk waited. Only periods in which the
 * device answers count. So a submitter whose requests never come back does not limit others for
 * long, and no pause of the device ends the sharing.
 *
 * Sharing lasts longer if the device had much bulk when they last met: the requests of one may be
 * behind many of the other's, so that it cannot ask. A cost is a time, so the device needs as long
 * as the cost of what it had; twice that, because costs are estimates. After that time these
 * requests are stuck, and not slow.
 */
#define TG_SHARED_PERIODS 25
#define TG_SHARED_TIMES 2
#define TG_SHARED_PERIOD msecs_to_jiffies(4)

void tg_submitters_init(struct tg_data *tg);
void tg_submitters_exit(struct tg_data *tg);
void tg_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data);
void tg_tags_resized(struct blk_mq_hw_ctx *hctx);
void tg_prepare_request(struct request *rq);
u64 tg_submitter_id_of_current(struct tg_data *tg);

/* Record that a request's tag is free again. The entry may be gone afterwards. */
static inline void tg_submitter_put(struct tg_submitters *submitters,
				    struct tg_submitter *submitter)
{
	if (unlikely(atomic_dec_return(&submitter->held) == TG_SPARSE_TAGS))
		atomic_dec(&submitters->nr_several);
}

/*
 * Record that a submitter asks for more than little. It shares the device with the one that asked
 * before, if that was lately, or if both hold several tags: the device may have paused. If neither
 * is true, the sharing is over: the device was idle, and no period counted. Write each field at
 * most once a tick, because all CPUs read them.
 */
static inline void tg_submitters_meet(struct tg_submitters *submitters,
				      const struct tg_submitter *submitter)
{
	const bool same = READ_ONCE(submitters->asked_by) == submitter;
	const u32 answered = READ_ONCE(submitters->answered);
	const unsigned long asked_at = READ_ONCE(submitters->asked_at);
	const unsigned long now = jiffies;

	if (asked_at == now && (same || READ_ONCE(submitters->met_at) == answered))
		return;
	if (now - asked_at >= TG_SPARSE_JIFFIES && atomic_read(&submitters->nr_several) < 2) {
		if (READ_ONCE(submitters->share))
			WRITE_ONCE(submitters->share, false);
	} else if (!same) {
		WRITE_ONCE(submitters->met_at, answered);
		WRITE_ONCE(submitters->share, true);
	}
	WRITE_ONCE(submitters->asked_by, submitter);
	WRITE_ONCE(submitters->asked_at, now);
}

/*
 * Record that the device has answered. Return whether a period has ended. If two CPUs do this at
 * once, or one of them while submitters meet, a period or a meeting may be lost.
 */
static inline bool tg_period_ends(struct tg_submitters *submitters)
{
	const unsigned long now = jiffies;

	if (time_before(now, READ_ONCE(submitters->answered_at) + TG_SHARED_PERIOD))
		return false;
	WRITE_ONCE(submitters->answered_at, now);
	WRITE_ONCE(submitters->answered, READ_ONCE(submitters->answered) + 1);
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
