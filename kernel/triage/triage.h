/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * triage: what its parts share.
 *
 *	main.c		the elevator's operations
 *	shard.c		from submitters to a dispatcher, without waiting for a lock
 *	order.c		which class is next: returned, aged, owed, strict
 *	flow.c		which flow of a class is next: sparse ones first, then by deficit
 *	media.c		which request of a flow is next, on flash and on disks
 *	arm.c		whose turn of a disk's arm it is
 *	pressure.c	how much bulk is let into the device, and when it is woken
 *	pressure.h	what of it every request passes
 *	limit.c		what a class may send in a second
 *	tags.c		keeps scheduler tags free for flows that hold few
 *	merge.c		what belongs together becomes one request
 *	tunables.c	sysfs
 *	inspect.c	debugfs and tracepoints
 *
 * and, free of kernel calls: cost.h, depth.h, detector.h, limit.h, share.h.
 */
#ifndef TG_TRIAGE_H
#define TG_TRIAGE_H

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/blk-mq.h>
#include <linux/cache.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/rbtree.h>
#include <linux/sched.h>
#include <linux/spinlock.h>

#include "iosched.h"
#include "prio-class.h"

#include "cost.h"
#include "depth.h"
#include "detector.h"
#include "limit.h"
#include "share.h"

/* Why a request was next. The names are in inspect.c. */
enum tg_reason {
	TG_RETURNED,	/* the driver had sent it back */
	TG_AGED,	/* it has waited as long as its class may */
	TG_RESERVED,	/* its class is owed */
	TG_ONLY,	/* nothing else waited */
	TG_STRICT,	/* the only flow of the most urgent class that waits */
	TG_SPARSE,	/* its flow asks for little */
	TG_DEFICIT,	/* it is its flow's turn */
	TG_EXPIRED,	/* a disk's head was elsewhere for too long */
	TG_REASONS,
};

/**
 * struct tg_tag - what is kept with a request, in its elv.priv
 * @cost: what it was charged, in ns; from dispatch on
 * @slot: of its submitter in struct tg_data's @slots
 * @flow: of its shard's; from insertion on, though after dispatch it may be another's
 * @class: enum prio_class; from when it is first looked at under its shard's lock
 * @held: it counts in @slot
 * @returned: the driver sent it back, and it is inserted again; until it is queued
 * @urgent: somebody waits for it: HIGH, or of a sparse flow
 * @timed: while in the device: @clean is known, and the controller learns from it
 * @clean: there was no bulk in the device when it was sent
 * @in_flight: it counts as in the device
 * @measured: while in the device: its service will be counted
 * @on_disk: it goes to a rotational device
 * @key: of its submitter; until dispatch
 * @sent_at: when it was dispatched, in ns; of those @timed or @measured
 *
 * One owner at a time changes it: the submitter, the shard's lock, the driver.
 */
struct tg_tag {
	u32 cost;
	u8 slot;
	u8 flow;
	u8 class;
	u8 held:1;
	u8 returned:1;
	u8 urgent:1;
	u8 clean:1;
	u8 timed:1;
	u8 in_flight:1;
	u8 measured:1;
	u8 on_disk:1;
	union {
		u32 key;
		u64 sent_at;
	};
};

static inline struct tg_tag *tg_tag(struct request *rq)
{
	static_assert(sizeof(struct tg_tag) <= sizeof(rq->elv.priv));
	return (struct tg_tag *)rq->elv.priv;
}

/* One submitter's requests of one class on one shard. Guarded by the shard's lock. */
struct tg_flow {
	struct list_head turn;		/* on a list of its class, while it has any */
	struct list_head fifo;		/* oldest first */
	struct rb_root sorted;		/* by sector, on rotational devices */
	s64 deficit;			/* what is left of its turn, in ns of cost */
	u32 key;
	u8 class;
	u8 level;
	bool sparse;			/* on its class's list of these */
	struct tg_detector detector;
	sector_t position;		/* where its last request ended */
	u64 back_at;			/* when a disk last answered it, in ns; by anybody */
};

#define TG_FLOW_WAYS 4
#define TG_FLOW_SETS 64
#define TG_FLOWS (TG_FLOW_SETS * TG_FLOW_WAYS)

/* Guarded by the shard's lock. inserted = the sum of reasons + queued. */
struct tg_class {
	struct list_head sparse;	/* flows that ask for little */
	struct list_head backlog;	/* the others, in the order of their turns */
	unsigned int queued;
	u64 owed;			/* of its guaranteed share, in ns of the device's time */
	u64 sparse_had;			/* since the backlog's last turn, in ns of cost */
	unsigned long inserted;
	unsigned long reasons[TG_REASONS];	/* dispatched for each */
};

static inline unsigned long tg_class_dispatched(const struct tg_class *class)
{
	unsigned long sum = 0;
	int reason;

	for (reason = 0; reason < TG_REASONS; reason++)
		sum += class->reasons[reason];
	return sum;
}

/*
 * What is in the device: what was sent less what came back, each the sum of
 * TG_GAUGE_ONE + cost over requests. So one addition counts both.
 */
struct tg_gauge {
	u64 sent;			/* guarded by the shard's lock */
	atomic64_t back;
};

#define TG_GAUGE_SHIFT 40
#define TG_GAUGE_ONE BIT_ULL(TG_GAUGE_SHIFT)
#define TG_GAUGE_COST (TG_GAUGE_ONE - 1)

static inline u64 tg_gauge_inside(const struct tg_gauge *gauge)
{
	const u64 back = atomic64_read(&gauge->back);

	/* What has come back was sent before: in this order it is never more. */
	smp_rmb();
	return READ_ONCE(gauge->sent) - back;
}

static inline u32 tg_gauge_count(const struct tg_gauge *gauge)
{
	return tg_gauge_inside(gauge) >> TG_GAUGE_SHIFT;
}

/* Bits of a shard's state: */
#define TG_MISSED 0	/* somebody found the lock taken, and left */
#define TG_THROTTLED 1	/* what is queued may not go yet */
#define TG_LIMITED 2	/* and only because of limits: what comes back changes nothing */

/* One hardware queue's share of the scheduler, or all of it (struct tg_data). */
struct tg_shard {
	/* Filled by submitters, without a lock; the newest first. */
	struct llist_head inbox;

	/*
	 * Guards all below. Taken with a try only, by who dispatches, who looks
	 * whether there is work, and who merges, so that nobody ever waits for
	 * it: see tg_leave(). Waited for by debugfs and sysfs alone, which no
	 * interrupt is. So interrupts may try it too, and need not be off.
	 */
	spinlock_t lock ____cacheline_aligned_in_smp;
	struct tg_data *tg;
	bool serving;			/* its holder dispatches; read by anybody */
	struct blk_mq_hw_ctx *hctx;	/* the one to run */
	struct list_head at_head;	/* before all else, oldest first */
	struct tg_class classes[PRIO_CLASS_COUNT];
	unsigned int queued;		/* on at_head and in classes; read by anybody */
	unsigned long state;		/* TG_MISSED and the like; changed by anybody */
	unsigned long young_until;	/* jiffies; nothing ages before */
	struct tg_flow *awaited;	/* a disk stays with it for a moment */
	u64 awaited_at;			/* when it was sent the last it had; ns */
	sector_t head;			/* of a disk, after what was last sent */
	struct tg_gauge bulk;
	struct tg_gauge urgent;
	struct tg_work work[TG_OPS];	/* all it was given */
	u32 fewest;			/* in the device, since the estimates were looked at */
	unsigned long tick;		/* jiffies, when something was last sent */
	unsigned int samples;		/* urgent requests that were timed in that tick */
	unsigned int unmeasured;	/* requests, until one is measured */
	struct hrtimer watchdog;	/* ends every state in which it is throttled */
	u64 merged;
	struct tg_flow flows[TG_FLOWS];
};

/* A submitter's tags; a line for each, as each has CPUs of its own. */
struct tg_slot {
	atomic_t held;
	unsigned long several_at;	/* when it last held several, in jiffies */
} ____cacheline_aligned_in_smp;

#define TG_SLOT_BITS 8

/* Times in ns, as limit.h has them; changed by anybody. */
struct tg_limit {
	atomic64_t requests_due;
	atomic64_t kib_due;
};

/* Powers of two of 1 us: the last bucket holds what took 8 s or more. */
#define TG_HISTOGRAM_BUCKETS 24

/* How long requests took, of those that are measured; counted by anybody. */
struct tg_histogram {
	atomic_t counts[TG_HISTOGRAM_BUCKETS];
};

/* Set in sysfs, read by anybody; each is one word, and any value of it is safe. */
struct tg_tunables {
	struct prio_bounds bounds;
	bool limited;				/* any of these is set */
	unsigned int limit_iops[PRIO_CLASS_COUNT];	/* 0: none */
	unsigned int limit_kib[PRIO_CLASS_COUNT];	/* KiB/s; 0: none */
	unsigned int latency_factor;		/* hundredths */
	unsigned int latency_target_us;		/* 0: by factor */
	unsigned int budget_fixed;		/* us of cost; 0: by the controller */
	unsigned int quantum;			/* us of cost */
	unsigned int share_normal;		/* % */
	unsigned int share_low;			/* % */
	unsigned int aging_expire_normal;	/* ms */
	unsigned int aging_expire_low;		/* ms */
	unsigned int fifo_expire;		/* ms, rotational */
	unsigned int anticipation;		/* us, rotational */
	unsigned int merge;			/* 0, 1 */
};

/* What the scheduler knows of one device. */
struct tg_data {
	struct request_queue *queue;
	struct tg_tunables tunables;
	bool rotational;
	unsigned int nr_shards;		/* 1: it sees all requests */
	struct tg_shard *shards;

	struct tg_limit limits[PRIO_CLASS_COUNT];
	struct tg_histogram waits[PRIO_CLASS_COUNT];	/* from allocation to dispatch */
	struct tg_histogram services[PRIO_CLASS_COUNT];	/* from there to completion */

	struct tg_cost costs[TG_OPS];	/* written under control, read by anybody */
	bool whole_depth;		/* limits are for all tags of a hardware queue */
	unsigned int depth_full;	/* for who holds many tags; read by anybody */
	unsigned int depth_pressed;	/* the same while somebody waits on latency */

	/* When somebody last waited on latency, in jiffies; written and read by anybody. */
	unsigned long urgent_at ____cacheline_aligned_in_smp;
	unsigned long bulk_at;		/* when bulk was last sent, in jiffies */
	unsigned long written_at;	/* the same, of writes */
	unsigned long shared_at;	/* when bulk was last sent that others share with */
	bool pressed;			/* urgent_at has a meaning */
	bool bulk_seen;			/* bulk_at has a meaning */
	bool probing;			/* bulk is kept out; written under control */
	bool limited;			/* bulk would have used more than it may */
	u32 bulk_cost;			/* of a request, a moving average, in ns */
	u64 bulk_next_at;		/* not before; ns */
	s64 granted;			/* cost that bulk may send now, in ns */
	u64 arm_until;			/* bulk's turn of a disk's arm; ns */
	u64 disk_back_at;		/* when a disk last answered; ns */
	u64 granted_at;			/* when an urgent request last made way; ns */
	u64 urgent_back_at;		/* when one last came back; ns */
	u64 high_back_at;		/* the same, of class HIGH */
	atomic_t nr_greedy;		/* submitters that hold many tags */
	atomic_t nr_throttled;		/* shards that wait to be woken */

	/*
	 * Guards what is learnt: the fields below up to slots, and changes of costs.
	 * Taken with a try only, also by interrupts: who finds it taken leaves a
	 * sample out.
	 */
	spinlock_t control;
	struct tg_depth depth;
	unsigned long probe_began;	/* jiffies; samples count from then on */
	unsigned long probe_until;	/* jiffies */
	unsigned long probe_next;	/* jiffies */
	unsigned long probes;		/* how many there were */
	unsigned long judged;		/* urgent requests that taught the controller */
	unsigned long late;		/* of these, longer than the target */
	unsigned long window_until;	/* jiffies; read by anybody */
	u64 window_began;		/* ns */
	struct tg_work window_work[TG_OPS];	/* what shards had been given then */

	struct tg_slot slots[1 << TG_SLOT_BITS];
};

static inline struct tg_data *tg_of(const struct request_queue *q)
{
	return q->elevator->elevator_data;
}

static inline enum tg_op tg_op(const struct request *rq)
{
	return req_op(rq) == REQ_OP_READ ? TG_READ : TG_WRITE;
}

/* Whether a request's length is data: a discard, say, has a range and moves nothing. */
static inline bool tg_moves_data(const struct request *rq)
{
	return req_op(rq) == REQ_OP_READ || req_op(rq) == REQ_OP_WRITE ||
	       req_op(rq) == REQ_OP_ZONE_APPEND;
}

static inline struct request *tg_first(struct list_head *list)
{
	return list_first_entry_or_null(list, struct request, queuelist);
}

/* Whose requests come now: a process; 0 for the kernel's threads (see tg_key()). */
static inline u32 tg_key_of_current(void)
{
	return current->flags & PF_KTHREAD ? 0 : current->tgid;
}

/* shard.c */
void tg_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
			blk_insert_t flags);
struct request *tg_dispatch_request(struct blk_mq_hw_ctx *hctx);
bool tg_has_work(struct blk_mq_hw_ctx *hctx);
void tg_drain(struct tg_shard *shard);
void tg_drain_all(struct tg_data *tg);
void tg_leave(struct tg_shard *shard) __releases(&shard->lock);

/* order.c */
struct request *tg_next(struct tg_shard *shard, enum tg_reason *reason);

/* flow.c */
struct tg_flow *tg_flow_find(struct tg_shard *shard, u32 key, enum prio_class class);
void tg_flow_add(struct tg_shard *shard, struct request *rq);
struct request *tg_flow_next(struct tg_shard *shard, struct tg_class *class,
			     bool bulk, enum tg_reason *reason);
struct request *tg_flow_next_bulk(struct tg_shard *shard, struct tg_class *class,
				  enum tg_reason *reason);
u64 tg_flow_take(struct tg_shard *shard, struct request *rq);

/* media.c: on flash a flow is a queue, and there is nothing to do. */
void tg_disk_came(struct tg_shard *shard, struct tg_flow *flow, struct request *rq);
void tg_disk_add(struct tg_shard *shard, struct tg_flow *flow, struct request *rq);
u64 tg_disk_take(struct tg_shard *shard, struct tg_flow *flow, struct request *rq);
struct request *tg_disk_next(struct tg_shard *shard, struct tg_flow *flow,
			     enum tg_reason *reason);
void tg_disk_emptied(struct tg_shard *shard, struct tg_flow *flow);
bool tg_disk_is_near(const struct tg_shard *shard, const struct request *rq);
struct tg_flow *tg_disk_near(struct tg_shard *shard, struct tg_class *class);
bool tg_disk_stays(struct tg_shard *shard, struct tg_flow *flow);
u64 tg_disk_wait(struct tg_shard *shard);

/* Called when a request has come, before the flow's detector has seen it. */
static inline void tg_media_came(struct tg_shard *shard, struct tg_flow *flow,
				 struct request *rq)
{
	if (shard->tg->rotational)
		tg_disk_came(shard, flow, rq);
}

static inline void tg_media_add(struct tg_shard *shard, struct tg_flow *flow,
				struct request *rq)
{
	if (shard->tg->rotational)
		tg_disk_add(shard, flow, rq);
}

/* Take a request out of its flow. Return: what the device takes beyond its cost, in ns. */
static inline u64 tg_media_take(struct tg_shard *shard, struct tg_flow *flow,
				struct request *rq)
{
	return shard->tg->rotational ? tg_disk_take(shard, flow, rq) : 0;
}

/* The request that is next in a flow that has some. */
static inline struct request *tg_media_next(struct tg_shard *shard, struct tg_flow *flow,
					    enum tg_reason *reason)
{
	if (shard->tg->rotational)
		return tg_disk_next(shard, flow, reason);
	return tg_first(&flow->fifo);
}

/* Called when a flow's last request has been taken. */
static inline void tg_media_emptied(struct tg_shard *shard, struct tg_flow *flow)
{
	if (shard->tg->rotational)
		tg_disk_emptied(shard, flow);
}

/* Whether a new request ends that a disk stays where it is. */
static inline bool tg_media_awaited(const struct tg_shard *shard, const struct tg_flow *flow,
				    const struct request *rq)
{
	return shard->awaited && (shard->awaited == flow || tg_disk_is_near(shard, rq));
}

/* Whether a flow whose turn it is waits for what merges. */
static inline bool tg_media_stays(struct tg_shard *shard, struct tg_flow *flow)
{
	return shard->tg->rotational && tg_disk_stays(shard, flow);
}

/* For how long the device should wait for a flow's next request, in ns; 0: not. */
static inline u64 tg_media_wait(struct tg_shard *shard)
{
	return shard->awaited ? tg_disk_wait(shard) : 0;
}

/* What a request costs that is taken from a flow; NULL: from none. In ns. */
static inline u32 tg_media_cost(struct tg_shard *shard, struct tg_flow *flow,
				const struct request *rq)
{
	const struct tg_cost *cost = &shard->tg->costs[tg_op(rq)];
	struct tg_work *work = &shard->work[tg_op(rq)];
	const bool moves = !shard->tg->rotational || !tg_disk_is_near(shard, rq);
	const bool pays_base = moves && (!shard->tg->rotational || !flow ||
					 blk_rq_pos(rq) != flow->position);
	const u32 bytes = tg_moves_data(rq) ? blk_rq_bytes(rq) : 0;

	lockdep_assert_held(&shard->lock);

	work->requests += moves;
	work->kib += bytes >> 10;
	return tg_cost_of(cost, bytes, pays_base);
}

/* arm.c */
bool tg_arm_is_held(const struct tg_data *tg);
bool tg_arm_is_free(const struct tg_data *tg);
u64 tg_arm_changes_at(const struct tg_data *tg);
void tg_arm_charge(struct tg_data *tg, u32 cost);
void tg_arm_yield(struct tg_data *tg);

/* pressure.c */
u64 tg_target(const struct tg_data *tg);
u32 tg_urgent_inside(const struct tg_data *tg);
bool tg_probe_holds(const struct tg_data *tg);
bool tg_bulk_may_go_pressed(struct tg_data *tg);
bool tg_bulk_may_share(struct tg_data *tg);
bool tg_pressed(const struct tg_data *tg);
u64 tg_budget(const struct tg_data *tg);
void tg_throttle(struct tg_shard *shard);
void tg_pressure_init(struct tg_shard *shard);
void tg_pressure_exit(struct tg_shard *shard);

/* Somebody waits on latency now. */
static inline void tg_urgent_seen(struct tg_data *tg)
{
	const unsigned long now = jiffies;

	/* Written once a tick: many CPUs read them. */
	if (likely(READ_ONCE(tg->urgent_at) == now))
		return;
	WRITE_ONCE(tg->urgent_at, now);
	if (!READ_ONCE(tg->pressed))
		WRITE_ONCE(tg->pressed, true);
}

static inline void tg_unthrottle(struct tg_shard *shard)
{
	if (test_bit(TG_THROTTLED, &shard->state) &&
	    test_and_clear_bit(TG_THROTTLED, &shard->state))
		atomic_dec(&shard->tg->nr_throttled);
}

/* Whether the backlog may send a request. */
static inline bool tg_bulk_may_go(struct tg_data *tg)
{
	if (unlikely(READ_ONCE(tg->pressed)) && !tg_bulk_may_go_pressed(tg))
		return false;
	return likely(atomic_read(&tg->nr_greedy) < 2) || tg_bulk_may_share(tg);
}

/* limit.c */
u64 tg_limit_opens_at(const struct tg_data *tg, enum prio_class class);
u64 tg_limit_wait(const struct tg_shard *shard);
void tg_limit_charge(struct tg_data *tg, const struct request *rq);
void tg_limit_forget(struct tg_data *tg, enum prio_class class);

/* Whether a class has sent what it may, for now. */
static inline bool tg_limit_holds(const struct tg_data *tg, enum prio_class class)
{
	return unlikely(READ_ONCE(tg->tunables.limited)) &&
	       ktime_get_ns() < tg_limit_opens_at(tg, class);
}

/* tags.c */
void tg_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data);
void tg_tags_resized(struct blk_mq_hw_ctx *hctx);
void tg_prepare_request(struct request *rq);

/* Who holds no more tags than this may have any. */
#define TG_TAGS_FEW 8

/* Called for the last time that is heard of a request. */
static inline void tg_tags_put(struct tg_data *tg, const struct tg_tag *tag)
{
	if (tag->held && atomic_dec_return(&tg->slots[tag->slot].held) == TG_TAGS_FEW)
		atomic_dec(&tg->nr_greedy);
}

/* How many a request's submitter has with the kernel. */
static inline int tg_tags_held(const struct tg_data *tg, const struct request *rq)
{
	return atomic_read(&tg->slots[tg_tag((struct request *)rq)->slot].held);
}

/* Who holds no more tags than this, and has not for a while, waits for each answer. */
#define TG_SPARSE_TAGS 2
#define TG_SPARSE_JIFFIES msecs_to_jiffies(100)

/* Whether a request's submitter, by all that it has with the kernel, asks for little. */
static inline bool tg_tags_few(const struct tg_data *tg, const struct request *rq)
{
	const struct tg_slot *slot = &tg->slots[tg_tag((struct request *)rq)->slot];

	return tg_tags_held(tg, rq) <= TG_SPARSE_TAGS &&
	       time_after(jiffies, READ_ONCE(slot->several_at) + TG_SPARSE_JIFFIES);
}

/* Whether it has nothing else with the kernel. */
static inline bool tg_tags_one(const struct tg_data *tg, const struct request *rq)
{
	return tg_tags_held(tg, rq) <= 1;
}

static inline enum prio_class tg_class_of(const struct tg_data *tg,
					  const struct request *rq)
{
	return prio_classify(&tg->tunables.bounds, req_get_ioprio((struct request *)rq));
}

/* Whether somebody waits for a new request. */
static inline bool tg_is_urgent(const struct tg_data *tg, const struct request *rq,
				enum prio_class class)
{
	return class == PRIO_CLASS_HIGH ||
	       (class == PRIO_CLASS_NORMAL && tg_tags_few(tg, rq));
}

/* merge.c */
bool tg_merges(const struct tg_data *tg, struct request *rq);
bool tg_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs);
bool tg_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio);

/* tunables.c */
extern const struct tg_tunables tg_defaults_flash, tg_defaults_disk;
extern struct elv_fs_entry tg_attrs[];

/* inspect.c */
#ifdef CONFIG_BLK_DEBUG_FS
extern const struct blk_mq_debugfs_attr tg_debugfs_attrs[];
#endif
void tg_trace_dispatch(struct tg_shard *shard, struct request *rq, enum tg_reason reason);
void tg_trace_hold(struct tg_shard *shard, u64 budget, u64 inside);
void tg_measure(struct tg_histogram *histogram, u64 ns);

#endif
