// SPDX-License-Identifier: GPL-2.0-only
/*
 * Finds the submitter of a request, and keeps scheduler tags free for submitters that
 * hold few.
 *
 * A request needs a scheduler tag before a scheduler sees it. Triage does not decide which
 * of the tasks that wait for a tag gets the next one. So it does not let a submitter that
 * holds many tags take the last free ones.
 */
#include <linux/hash.h>
#include <linux/ioprio.h>
#include <linux/pid.h>
#include <linux/rculist.h>
#include <linux/sbitmap.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "triage.h"

/*
 * While some submitter holds several tags, or cgroups meet and one may crowd the others, a task may
 * take only a part of each 64 tags. A task of HIGH may take all. A task that asks for little and is
 * not of LOW may take LITTLE of 64. Any other task may take FULL, or PRESSED if urgent requests
 * come.
 *
 * A task whose cgroup crowds the others may take at most HALF, or HALF - 1 if its limit would
 * otherwise be FULL or PRESSED. A cgroup gets its share only if one of its requests is queued
 * whenever its turn comes. So half of the tags are left to cgroups that have fewer requests queued.
 * The other half fills the device: by default, a device that takes up to 128 requests has twice as
 * many scheduler tags. If the cgroup has no more than its part of the device, the task may take
 * LESS, unless it asks for little: tags that become free go to whoever waits, so a cgroup of many
 * small processes gets as many as it has tasks that wait.
 *
 * A task that sleeps until it gets a tag keeps the limit with which it began to wait.
 */
#define TG_TAGS_LITTLE 63
#define TG_TAGS_FULL 62
#define TG_TAGS_PRESSED 48
#define TG_TAGS_LESS 48
#define TG_TAGS_HALF 32

/*
 * Replaces 0 in @held when an entry leaves its table. So a CPU that adds to @held later finds it
 * negative, and does not use the entry.
 */
#define TG_GONE INT_MIN
/* An unused entry stays for at least this time. After that, no state in it matters. */
#define TG_SUBMITTER_JIFFIES (10 * HZ)

/* Return the current task's thread group, or NULL for a worker of a workqueue. */
static struct pid *tg_current_pid(void)
{
	return unlikely(current->flags & PF_WQ_WORKER) ? NULL : task_tgid(current);
}

static struct hlist_head *tg_bucket(struct tg_submitters *submitters, const struct pid *pid)
{
	return &submitters->buckets[hash_ptr(pid, TG_SUBMITTER_BITS)];
}

/*
 * Return a process's entry, or NULL if it has none. The caller holds the lock, or has disabled
 * preemption. RCU's grace periods wait for disabled preemption as for rcu_read_lock(). Each request
 * looks up entries several times, and disabling preemption takes only two instructions.
 */
static struct tg_submitter *tg_submitter_find(const struct tg_submitters *submitters,
					      const struct hlist_head *bucket,
					      const struct pid *pid)
{
	struct tg_submitter *submitter;

	hlist_for_each_entry_rcu(submitter, bucket, node,
				 rcu_read_lock_sched_held() ||
				 lockdep_is_held(&submitters->lock))
		if (submitter->pid == pid)
			return submitter;
	return NULL;
}

/*
 * Remove entries that were not used for TG_SUBMITTER_JIFFIES, by @used_at and @several_at. An
 * entry that a request holds stays. A process that comes again later gets a new entry, and
 * begins without debt.
 */
static void tg_bucket_sweep(struct hlist_head *bucket)
{
	struct tg_submitter *submitter;
	struct hlist_node *next;

	hlist_for_each_entry_safe(submitter, next, bucket, node) {
		if (time_before(jiffies, READ_ONCE(submitter->used_at) + TG_SUBMITTER_JIFFIES) ||
		    time_before(jiffies, READ_ONCE(submitter->several_at) + TG_SUBMITTER_JIFFIES))
			continue;
		/*
		 * If this succeeds, tg_submitter_hold() fails on the entry from now on. It
		 * does not succeed while a request holds the entry.
		 */
		if (atomic_cmpxchg(&submitter->held, 0, TG_GONE) != 0)
			continue;
		hlist_del_rcu(&submitter->node);
		put_pid(submitter->pid);
		kfree_rcu(submitter, rcu);
	}
}

static void tg_submitter_init(struct tg_submitter *submitter, struct pid *pid, u64 id)
{
	submitter->pid = pid;
	submitter->id = id;
	submitter->several_at = jiffies - HZ;
	submitter->used_at = jiffies;
}

/*
 * Return the entry of the current task's submitter, or NULL if it has none. The entry is safe to
 * use while preemption is off.
 */
static __always_inline struct tg_submitter *tg_submitter_of_current(struct tg_data *tg)
{
	const struct pid *pid = tg_current_pid();

	return pid ? tg_submitter_find(&tg->submitters, tg_bucket(&tg->submitters, pid), pid) :
		     &tg->submitters.workers;
}

/* Return the @id of the current task's submitter, or 0 if it has no entry of its own. */
u64 tg_submitter_id_of_current(struct tg_data *tg)
{
	const struct tg_submitter *submitter;
	u64 id = 0;

	rcu_read_lock_sched();
	submitter = tg_submitter_of_current(tg);
	if (submitter && submitter->pid)
		id = submitter->id;
	rcu_read_unlock_sched();
	return id;
}

/* Count one more held tag. Return the new number, or 0 if the entry has left its table. */
static __always_inline int tg_submitter_hold(struct tg_submitter *submitter)
{
	const int held = atomic_inc_return(&submitter->held);

	if (likely(held > 0))
		return held;
	atomic_dec(&submitter->held);
	return 0;
}

/*
 * Record that a submitter holds several tags now, @held of them. Write the time at most once a
 * tick, because the submitter's threads on other CPUs read it.
 */
static noinline void tg_submitter_holds_several(struct tg_data *tg, struct tg_submitter *submitter,
						int held)
{
	const unsigned long now = jiffies;

	if (READ_ONCE(submitter->several_at) != now)
		WRITE_ONCE(submitter->several_at, now);
	if (held == TG_SPARSE_TAGS + 1)
		atomic_inc(&tg->submitters.nr_several);
	tg_submitters_meet(&tg->submitters, submitter);
}

/* Record that a request has one of the @held tags of its submitter. */
static __always_inline void tg_submitter_holds(struct tg_data *tg, struct request *rq,
					       struct tg_submitter *submitter, int held)
{
	*tg_tag(rq) = (struct tg_tag){ .submitter = submitter, .held = true };
	if (held == 1)
		WRITE_ONCE(submitter->used_at, jiffies);
	else if (unlikely(held > TG_SPARSE_TAGS))
		tg_submitter_holds_several(tg, submitter, held);
}

/*
 * Make an entry for a process that had none, and count a request's tag in it. If there is no
 * memory for a new entry, use @others.
 */
static noinline void tg_submitter_make(struct tg_data *tg, struct request *rq)
{
	struct tg_submitters *submitters = &tg->submitters;
	struct pid *pid = task_tgid(current);
	struct hlist_head *bucket = tg_bucket(submitters, pid);
	struct tg_submitter *submitter, *new;
	int held;

	/* Do not wait for memory: the kernel may have to write to this queue to free some. */
	new = kzalloc_node(sizeof(*new), GFP_NOWAIT | __GFP_NOWARN, tg->queue->node);
	spin_lock(&submitters->lock);
	tg_bucket_sweep(bucket);
	submitter = tg_submitter_find(submitters, bucket, pid);
	if (!submitter && new) {
		submitter = new;
		tg_submitter_init(new, get_pid(pid), ++submitters->last_id);
		hlist_add_head_rcu(&new->node, bucket);
		new = NULL;
	} else if (!submitter) {
		/* There is no memory, and no other thread of the process has made an entry. */
		submitter = &submitters->others;
		submitters->unknown++;
	}
	/* Count the tag under the lock, so that no sweep removes the entry first. */
	held = tg_submitter_hold(submitter);
	spin_unlock(&submitters->lock);
	kfree(new);
	tg_submitter_holds(tg, rq, submitter, held);
}

/*
 * Count a request's tag for its submitter. Called when a request that will be inserted gets its
 * tag, from a task, without a lock of triage.
 */
void tg_prepare_request(struct request *rq)
{
	struct tg_data *tg = tg_of(rq->q);
	struct tg_submitter *submitter;
	int held = 0;

	rcu_read_lock_sched();
	submitter = tg_submitter_of_current(tg);
	if (likely(submitter))
		held = tg_submitter_hold(submitter);
	rcu_read_unlock_sched();
	if (likely(held))
		tg_submitter_holds(tg, rq, submitter, held);
	else
		tg_submitter_make(tg, rq);
}

/* Return whether the current task's cgroup crowds the others, for requests of a class. */
static enum tg_crowds tg_current_crowds(struct tg_shard *shard, enum prio_class class)
{
	enum tg_crowds crowds;

	if (likely(!tg_groups_meet(shard->tg)))
		return TG_CROWDS_NOT;
	if (current->flags & PF_WQ_WORKER)
		return READ_ONCE(shard->workers_crowd);
	rcu_read_lock_sched();
	crowds = tg_lane_crowds(shard, tg_lane_of_current(shard), class);
	rcu_read_unlock_sched();
	return crowds;
}

/* Return whether the current task's submitter asks for little. */
static bool tg_current_asks_little(struct tg_data *tg)
{
	const struct tg_submitter *submitter;
	bool little;

	rcu_read_lock_sched();
	submitter = tg_submitter_of_current(tg);
	little = !submitter || tg_asks_little(submitter);
	rcu_read_unlock_sched();
	return little;
}

/*
 * Return how many tags of each 64 the current task may use for requests of a class. @little says
 * that its submitter asks for little.
 */
static unsigned int tg_tags_of_current(const struct tg_data *tg, enum prio_class class, bool little)
{
	if (class == PRIO_CLASS_HIGH)
		return 64;
	if (little && class != PRIO_CLASS_LOW)
		return TG_TAGS_LITTLE;
	return READ_ONCE(tg->budget.pressed) ? TG_TAGS_PRESSED : TG_TAGS_FULL;
}

/*
 * Limit the tags that the current task may take. @several says that some submitter holds several
 * tags. If none does, cgroups meet, and a limit is needed only if one of them may crowd the others.
 */
static noinline void tg_limit_tags(blk_opf_t opf, struct blk_mq_alloc_data *data, bool several)
{
	struct tg_data *tg = tg_of(data->q);
	const struct blk_mq_hw_ctx *hctx = tg_hctx_of_cpu(data->q, opf & REQ_OP_MASK);
	enum prio_class class;
	enum tg_crowds crowds;
	unsigned int part;
	bool little;

	if (!several && !tg_lanes_may_crowd(hctx->sched_data))
		return;
	class = prio_classify(&tg->tunables.bounds, get_current_ioprio());
	little = tg_current_asks_little(tg);
	part = tg_tags_of_current(tg, class, little);
	crowds = tg_current_crowds(hctx->sched_data, class);
	if (crowds == TG_CROWDS || (crowds && little))
		part = min(part, part > TG_TAGS_FULL ? TG_TAGS_HALF : TG_TAGS_HALF - 1);
	else if (crowds)
		part = min(part, TG_TAGS_LESS);
	if (part < 64)
		data->shallow_depth = iosched_shallow_depth(hctx->sched_tags, part,
							    tg->whole_depth);
}

/*
 * Limit the tags that the current task may take. Called before a request gets its tag: only the
 * current task then shows which process the request is for.
 */
void tg_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	const struct tg_data *tg = tg_of(data->q);
	const bool several = atomic_read(&tg->submitters.nr_several);

	if (unlikely(several || tg_groups_meet(tg)))
		tg_limit_tags(opf, data, several);
}

/* Adapt to a hardware queue's new number of tags. Called with the queue frozen. */
void tg_tags_resized(struct blk_mq_hw_ctx *hctx)
{
	/*
	 * Have each tag that becomes free wake one task that waits for a tag. (Until 6.18, with
	 * 1024 tags or more, tasks are woken in groups: n tasks for every n tags that become free.)
	 * By default every eighth such tag wakes eight tasks. These eight would keep the CPU from a
	 * task that waits for an answer.
	 */
	sbitmap_queue_min_shallow_depth(&hctx->sched_tags->bitmap_tags, 1);
	tg_flows_resize(hctx->sched_data);
}

void tg_submitters_init(struct tg_data *tg)
{
	struct tg_submitters *submitters = &tg->submitters;
	unsigned int i;

	spin_lock_init(&submitters->lock);
	submitters->answered = TG_SHARED_PERIODS;
	submitters->answered_at = jiffies;
	for (i = 0; i < ARRAY_SIZE(submitters->buckets); i++)
		INIT_HLIST_HEAD(&submitters->buckets[i]);
	tg_submitter_init(&submitters->workers, NULL, ++submitters->last_id);
	tg_submitter_init(&submitters->others, NULL, ++submitters->last_id);
}

/* Free the entries. Called with the queue frozen: no request is left, no task looks for entries. */
void tg_submitters_exit(struct tg_data *tg)
{
	struct tg_submitters *submitters = &tg->submitters;
	struct tg_submitter *submitter;
	struct hlist_node *next;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(submitters->buckets); i++) {
		hlist_for_each_entry_safe(submitter, next, &submitters->buckets[i], node) {
			WARN_ON_ONCE(atomic_read(&submitter->held));
			put_pid(submitter->pid);
			kfree(submitter);
		}
	}
	WARN_ON_ONCE(atomic_read(&submitters->workers.held));
	WARN_ON_ONCE(atomic_read(&submitters->others.held));
	WARN_ON_ONCE(atomic_read(&submitters->nr_several));
}
