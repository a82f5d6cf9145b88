/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Combines the structures of triage's parts. The parts are:
 *
 *	core.c		inserts and dispatches requests, holds shards and wakes them
 *	order.c		chooses the next class
 *	group.c		shares the device among cgroups by weight, and chooses the next lane
 *	flow.c		chooses the next flow of a class: sparse flows first, then others in turn
 *	media.c		chooses the next request of a flow, on flash and on disks
 *	submitter.c	finds the process that submits a request, and limits its tags
 *	budget.c	limits how much bulk may be in the device
 *	arm.c		gives bulk turns of a disk's arm
 *	controller.c	learns the budget from the latency of urgent requests
 *	costs.c		learns the cost of a request
 *	device.c	records requests that go to the device or come back
 *	limits.c	enforces the rate that the administrator sets for a class
 *	flushes.c	paces bulk's writes while processes flush the drive's write buffer
 *	merge.c		merges bios into queued requests
 *	tunables.c	makes the files in sysfs
 *	inspect.c	makes the files in debugfs, and the tracepoints
 *	main.c		sets up and frees the scheduler; has the elevator's operations
 *
 * A part's header declares its functions and its structure; the lock that guards a structure is in
 * it. This header declares the functions of order.c and merge.c. cost.h, depth.h, detector.h,
 * drain.h, knee.h, limit.h, share.h and turn.h make no kernel calls: tests run them in user space.
 *
 * Words that all parts use:
 *	shard		the scheduler of one hardware queue; a disk has one shard in all
 *	submitter	a process that submits requests; all workqueue workers together are
 *			one submitter
 *	lane		the queued requests of one cgroup on one shard
 *	flow		the queued requests of one submitter in one class of a lane; the
 *			submitter's hinted requests are a second flow
 *	asks for little	a submitter asks for little if it holds at most two tags, and did not
 *			take a third one in the last 100 ms
 *	sparse		a flow that has requests, and goes before the other flows of its class
 *	hinted		a request of NORMAL whose flags say that a process waits for it
 *	eager		a request of HIGH or, with exceptions, of a sparse flow
 *			(tg_flow_is_eager())
 *	urgent		an eager request of a cgroup within its share (group.h); it goes before
 *			bulk and outside bulk's budget
 *	bulk		all requests that are not urgent
 *	backlog		the flows of a class that have requests and are not sparse
 *	cost		how long a request occupies a busy device, in ns
 *	quantum		the cost of a flow's turn
 *	turn		the time in which a flow may send requests: until their cost exceeds
 *			the quantum. Then the flow waits for the other flows of the backlog
 *	debt		the cost by which a flow exceeded its turn
 *	stream		a flow that has read or written in sequence for a while (detector.h)
 *	room		the limit on the cost of bulk in a device that is shared (tg_is_shared())
 *	pressed		the device is pressed if an urgent request came in the last second
 *			(tg_pressed()); then the budget applies
 *	budget		the limit on the cost of bulk in a device that is pressed
 *	gap		the time from one request of bulk to the next, while the budget is below
 *			the cost of one. So bulk uses a part of the time: the budget divided by
 *			this cost
 *	pace		the rate at which bulk may write while processes flush (flushes.h)
 *	gated		bulk is gated if it may go only right behind an urgent request
 *	grant		the cost that gated bulk may send behind one urgent request
 *	probe		a time in which bulk is kept out of the device, to learn the latency of
 *			urgent requests without it
 *	hold		a time in which a shard has requests, but none of them may go
 *
 * Locks, outermost first. No task holds tg_submitters.lock and a shard's lock at once.
 *	tg_alive_lock		inspect.c: a scheduler does not exit while debugfs reads it
 *	tg_shard.lock		core.c: all that is queued in a shard
 *	tg_costs.lock		costs.c; trylock only
 *	tg_controller.lock	controller.c; trylock only, also in interrupts
 *	tg_flushes.lock		flushes.c; trylock only
 *	tg_submitters.lock	submitter.c: the table of submitters
 */
#ifndef TG_TRIAGE_H
#define TG_TRIAGE_H

#include <linux/blk-mq.h>
#include <linux/hrtimer.h>
#include <linux/llist.h>
#include <linux/spinlock.h>

#include "iosched.h"
#include "prio-class.h"

/* The reason why a request was dispatched. inspect.c has the names. */
enum tg_reason {
	TG_RETURNED,	/* the driver had sent it back */
	TG_AGED,	/* it has waited as long as its class may */
	TG_RESERVED,	/* its class lacks part of its guaranteed share */
	TG_ONLY,	/* nothing else was queued */
	TG_STRICT,	/* its class is next, and the backlog has only its flow */
	TG_SPARSE,	/* its flow is sparse */
	TG_DEFICIT,	/* its class is next, and it is its flow's turn */
	TG_EXPIRED,	/* it has waited longer than fifo_expire for a disk's head */
	TG_REASONS,
};

#include "arm.h"
#include "budget.h"
#include "clock.h"
#include "controller.h"
#include "costs.h"
#include "flow.h"
#include "flushes.h"
#include "gauge.h"
#include "group.h"
#include "inspect.h"
#include "limits.h"
#include "media.h"
#include "submitter.h"
#include "tunables.h"

/**
 * struct tg_tag - triage's data for a request, in rq->elv.priv
 * @submitter: the process that took the request's tag
 * @cost: the cost that was charged for the request when it went to the device, in ns; 0 before, and
 *	after the driver sent it back
 * @flow: index of its flow (tg_flow_of()); valid while the request is queued in a lane
 * @class: enum prio_class; set when it is queued, or goes at once (tg_take_only())
 * @paced: the request is a write that obeys the pace (flushes.h), so it is charged to the pace in
 *	full; set when the request is dispatched
 * @held: the request is counted in @submitter->held
 * @returned: the driver sent the request back; reset when it is queued on tg_shard.at_head
 * @urgent: it goes before bulk and outside bulk's budget
 * @hinted: only its flags can make it urgent (tg_flags_hint()). Such a request does not make
 *	the budget apply.
 * @timed: the controller may learn from its service time; set only while it is in the device
 * @clean: no bulk was in the device when the request was dispatched; valid if @timed
 * @charged: tg_bulk_charge() was called for the request, or is not needed (tg_run_take()); or, if
 *	it is an urgent write, tg_flushes_charge() was called. This stays set if the driver sends
 *	the request back, so that no request is charged twice
 * @measured: its service time will be counted in a histogram; set only while it is in the device
 *
 * Only the request's owner writes this structure: first the submitter, then the holder of the
 * shard's lock, then the driver. If @timed or @measured is set, rq->io_start_time_ns is the time of
 * dispatch. With writeback throttling, the block layer sets this time again when the driver
 * starts the request. rq->fifo_time cannot hold the time of dispatch: Linux 6.1 overwrites
 * it when another CPU completes the request.
 */
struct tg_tag {
	struct tg_submitter *submitter;
	u32 cost;
	u16 flow;
	u8 class:4;
	u8 paced:1;
	u8 held:1;
	u8 returned:1;
	u8 urgent:1;
	u8 hinted:1;
	u8 timed:1;
	u8 clean:1;
	u8 charged:1;
	u8 measured:1;
};

static inline struct tg_tag *tg_tag(struct request *rq)
{
	/* On a 32-bit kernel the build fails here, because elv.priv is too small. */
	static_assert(sizeof(struct tg_tag) <= sizeof(rq->elv.priv));
	return (struct tg_tag *)rq->elv.priv;
}

/**
 * struct tg_shard - the scheduler of one hardware queue, or of all of them (tg_data.nr_shards)
 * @inbox: requests that submitters have pushed without a lock, the newest first
 * @state: bits TG_HELD and TG_LIMITED (core.c); atomic
 * @lock: guards all fields below. Dispatchers, debugfs and sysfs wait for it; bio merging uses
 *	trylock. Never taken in an interrupt.
 * @tg: the scheduler of the device; set once
 * @hctx: the hardware queue to run; also read without the lock
 * @kick: tg_drain() ended a hold, so tg_shard_leave() runs the hardware queue
 * @granted: 1 if an urgent request of this shard gave bulk a grant that another shard may use.
 *	After the dispatcher has unlocked, it resets this field and wakes one held shard.
 * @queued: number of requests on @at_head and in @lanes, plus 1 while the inbox is
 *	emptied; also read without the lock
 * @index: its index in tg_data.shards; set once
 * @at_head: requests that the driver sent back, in the order in which they were inserted again;
 *	they go before all others
 * @lanes: lanes that have requests, in any order
 * @nr_lanes: number of lanes in @lanes; also read without the lock
 * @workers_crowd: tg_lane_crowds() for the latest request of a workqueue's worker. Updated while
 *	cgroups share the device; also read without the lock
 * @lane: the lane of the root cgroup, and of requests without a cgroup
 * @turn: id of the lane whose turn it is; this lane may have no requests now
 * @turn_left: the rest of this turn, in ns of cost
 * @due: account of the lane whose cgroup was due (group.h) at the last choice; NULL: none was due,
 *	or that lane has run empty. A reader without the lock needs RCU, unless it only compares the
 *	pointer.
 * @paced: the last choice found a backlog that the pace holds as a whole (flushes.h)
 * @denied: the last choice left bulk out, because it may not go (tg_bulk_may_go())
 * @exceeded: the last choice left out a cgroup that is beyond its share
 * @pace: the state of the pace, looked up once for each choice (tg_pace_is_closed_now())
 * @pace_first: while @pace is TG_PACE_OPEN: of the lanes that wait for the pace, the one whose
 *	cgroup has had least of the pace; NULL if none waits, or only one lane has requests
 * @awaits_pace: the shard waits for the pace (tg_pace_tell()); also read without the lock
 * @pace_at: jiffies at the last choice that set @paced; also read without the lock
 * @asked: counts the choices among several lanes (tg_lane_pick())
 * @seen: the cgroup of the request that came last; only compared, because it may have been freed
 * @seen_at: jiffies when tg_groups_met() was last called
 * @common: a flow for each class, for requests for which no flow was free; see
 *	tg_flows_resize(). These requests count as the root cgroup's.
 * @counts: numbers of requests by class
 * @flows: all flows of this shard
 * @served: cost of all requests dispatched so far, except those from @at_head, in ns; also read
 *	without the lock
 * @nr_backlog: number of flows in the backlogs of all lanes; also read without the lock
 * @bulk_flows: number of this shard's flows whose bulk waits, as of the last choice; 1 to
 *	TG_FLOWS_MOST. Also read without the lock
 * @only_low: these flows are of LOW; otherwise those of LOW do not count. Also read without the
 *	lock
 * @bulk_turn: this shard's virtual time of fair queueing, in ns (tg_turn_charge()). While
 *	urgent requests come, or the device is shared, it grows by the cost of this shard's bulk, by
 *	weight (tg_share_of_queue()), and the waiting shard with the least virtual time goes first.
 *	Also read without the lock.
 * @low_turn: the same while @only_low is set. A virtual time of its own, because LOW's runs faster
 *	than NORMAL's, and NORMAL must not wait for what LOW has had
 * @pace_turn: the same for the pace, in ns: it grows by the time that each charged write of this
 *	shard takes at the pace. Also read without the lock.
 * @woken_until: jiffies; set when the shard is woken, reset to 0 when a dispatcher chooses a
 *	request. Before this time, tg_waits_for_bulk() treats a woken shard that has requests as if
 *	it were still held. tg_wake() and the watchdog also write this, without the lock.
 * @sends: the shard, which is one of several, has sent bulk since it was last held. Also read
 *	without the lock
 * @run: the shard's run of bulk (tg_run_lasts())
 * @head: where a disk's head is, and which flow the disk waits for
 * @device: this shard's requests in the device
 * @merges_until: jiffies; until then, triage tries to merge new bios into queued requests, because
 *	a flow not known to be random got a request lately (merge.c); also read without the lock
 * @tried_at: jiffies when triage last tried to merge a bio into a queued request; also read
 *	without the lock
 * @merged: number of bios merged into queued requests; also read without the lock
 * @watchdog: the timer that ends a hold if nothing else does; its callback takes no lock of triage
 */
struct tg_shard {
	struct llist_head inbox;
	unsigned long state;

	spinlock_t lock ____cacheline_aligned_in_smp;
	struct tg_data *tg;
	struct blk_mq_hw_ctx *hctx;
	bool kick;
	unsigned int granted;
	unsigned int queued;
	unsigned int index;
	struct list_head at_head;
	struct list_head lanes;
	unsigned int nr_lanes;
	enum tg_crowds workers_crowd;
	struct tg_lane lane;
	u64 turn;
	s64 turn_left;
	struct tg_account *due;
	bool paced;
	bool denied;
	bool exceeded;
	enum tg_pace_state pace;
	const struct tg_lane *pace_first;
	bool awaits_pace;
	unsigned long pace_at;
	u32 asked;
	const void *seen;
	unsigned long seen_at;
	struct tg_flow common[PRIO_CLASS_COUNT];
	struct tg_counts counts[PRIO_CLASS_COUNT];
	struct tg_flows flows;
	u64 served;
	unsigned int nr_backlog;
	u32 bulk_flows;
	bool only_low;
	u64 bulk_turn;
	u64 low_turn;
	u64 pace_turn;
	unsigned long woken_until;
	bool sends;
	struct tg_run run;
	struct tg_head head;
	struct tg_device device;
	unsigned long merges_until;
	unsigned long tried_at;
	u64 merged;
	struct hrtimer watchdog;
};

/**
 * struct tg_data - the scheduler of one device
 * @queue: the device's queue; this field and the next four are set once
 * @rotational: the device is a disk, with one arm
 * @whole_depth: the limit from limit_depth() is on the tags of a whole hardware queue. If false, it
 *	is on the tags in each word of the bitmap (iosched_probe_shallow_depth()).
 * @nr_shards: number of @shards; if it is 1, that shard has all requests
 * @shards: one for each hardware queue, or one in all; on the request queue's NUMA node
 * @nr_held: number of shards with TG_HELD set; atomic
 * @woken_until: jiffies; the latest tg_shard.woken_until. Any CPU that wakes a shard may write
 *	this, once a tick. After this time, only held shards wait for bulk (tg_some_may_wait()).
 * @wake_from: index of the shard with which tg_wake() begins; any value is safe
 * @hinted_due: hinted requests may go before HIGH again once the sum of all shards' @served
 *	reaches this. Dispatchers of all shards write it without a common lock. If two write at
 *	once, one charge is lost, and one more request goes. If an interrupt delays a dispatcher
 *	between its read and its write, up to TG_HINTED_BURST more requests go.
 * @alive: entry in inspect.c's list of schedulers that debugfs may show
 *
 * Each other field belongs to one part, whose header describes it.
 */
struct tg_data {
	struct request_queue *queue;
	bool rotational;
	bool whole_depth;
	unsigned int nr_shards;
	struct tg_shard **shards;

	struct tg_tunables tunables;
	struct tg_costs costs;
	struct tg_limits limits;
	struct tg_flushes flushes;
	struct tg_histogram waits[PRIO_CLASS_COUNT];	/* from allocation to dispatch */
	struct tg_histogram services[PRIO_CLASS_COUNT];	/* from dispatch to completion */

	atomic_t nr_held ____cacheline_aligned_in_smp;
	unsigned long woken_until;
	unsigned int wake_from;
	struct tg_groups groups ____cacheline_aligned_in_smp;
	struct tg_budget budget ____cacheline_aligned_in_smp;
	struct tg_arm arm;
	struct tg_controller controller;
	struct tg_submitters submitters;
	u64 hinted_due;
	struct list_head alive;
};

static inline struct tg_data *tg_of(const struct request_queue *q)
{
	return q->elevator->elevator_data;
}

/*
 * Return the hardware queue of an operation that this CPU submits now. A polled request may go to
 * another hardware queue.
 */
static inline struct blk_mq_hw_ctx *tg_hctx_of_cpu(const struct request_queue *q, enum req_op op)
{
	const struct blk_mq_ctx *ctx = raw_cpu_ptr(q->queue_ctx);

	return ctx->hctxs[op == REQ_OP_READ ? HCTX_TYPE_READ : HCTX_TYPE_DEFAULT];
}

/*
 * Return whether a request moves data. A discard, for example, has a range of sectors, but
 * moves no data.
 */
static inline bool tg_moves_data(const struct request *rq)
{
	return req_op(rq) == REQ_OP_READ || req_op(rq) == REQ_OP_WRITE ||
	       req_op(rq) == REQ_OP_ZONE_APPEND;
}

static inline enum tg_op tg_op(const struct request *rq)
{
	if (req_op(rq) == REQ_OP_READ)
		return TG_READ;
	return tg_moves_data(rq) ? TG_WRITE : TG_OTHER;
}

static inline enum prio_class tg_class_of(const struct tg_data *tg,
					  const struct request *rq)
{
	return prio_classify(&tg->tunables.bounds, req_get_ioprio((struct request *)rq));
}

/*
 * Return whether a process waits for a request: its submitter asks for little, and the request
 * is not marked as background I/O.
 */
static inline bool tg_is_waited_for(struct request *rq)
{
	return !(rq->cmd_flags & REQ_BACKGROUND) && tg_asks_little(tg_tag(rq)->submitter);
}

/*
 * Return whether requests of two cgroups met (tg_groups.shared_at) in the last second, or a cgroup
 * was beyond its share. If so, cgroups share the device by their accounts (group.h).
 */
static inline bool tg_groups_shared(const struct tg_data *tg)
{
	return time_before(tg_now(), READ_ONCE(tg->groups.shared_at) + HZ);
}

/*
 * Return whether requests of two cgroups met in this tick or in one of the last two. This tick
 * alone would not suffice: it may have just begun.
 */
static inline bool tg_groups_meet(const struct tg_data *tg)
{
	return time_before_eq(tg_now(), READ_ONCE(tg->groups.shared_at) + 2);
}

/*
 * Return whether the device is shared: by submitters (submitter.h), or because requests of two
 * cgroups met in the last second.
 */
static inline bool tg_is_shared(const struct tg_data *tg)
{
	return READ_ONCE(tg->submitters.share) || tg_groups_shared(tg);
}

/* Return whether the room limits bulk: the device is flash, and it is shared. */
static inline bool tg_shares_room(const struct tg_data *tg)
{
	return !tg->rotational && tg_is_shared(tg);
}

/* Return whether the room is narrow for a moment, to find out how large it has to be (room.h). */
static inline bool tg_room_is_narrow(const struct tg_data *tg)
{
	return tg_shares_room(tg) && time_before(jiffies, READ_ONCE(tg->controller.narrow_until));
}

/* Return the room: the limit on bulk in a shared flash device, in ns of cost. */
static inline u64 tg_room_now(const struct tg_data *tg)
{
	return unlikely(time_before(jiffies, READ_ONCE(tg->controller.narrow_until))) ?
		       READ_ONCE(tg->controller.room_narrow) :
		       READ_ONCE(tg->controller.room);
}

/*
 * Return false only if no shard waits until bulk may go (tg_waits_for_bulk()). This is quick: it
 * visits no shard. So it may return true although no shard waits.
 */
static inline bool tg_some_may_wait(const struct tg_data *tg)
{
	if (atomic_read(&tg->nr_held))
		return true;
	/* Pairs with tg_release(): a CPU that sees the hold's end sees that a shard was woken. */
	smp_rmb();
	return time_before(jiffies, READ_ONCE(tg->woken_until));
}

/* Return whether bulk is charged: urgent requests come, or the device is shared. */
static inline bool tg_charges_bulk(const struct tg_data *tg)
{
	return READ_ONCE(tg->budget.pressed) || tg_is_shared(tg);
}

/*
 * Record how many flows of NORMAL and of LOW have bulk that waits on a shard. The caller holds the
 * shard's lock.
 */
static inline void tg_shard_waits(struct tg_shard *shard, u32 normal, u32 low)
{
	WRITE_ONCE(shard->bulk_flows, clamp_t(u32, normal ?: low, 1, TG_FLOWS_MOST));
	WRITE_ONCE(shard->only_low, !normal && low);
}

/*
 * Notice if requests of two cgroups meet. A dispatcher calls this for each new request in the
 * inbox.
 */
static inline void tg_groups_see(struct tg_shard *shard, const struct request *rq)
{
#ifdef CONFIG_BLK_CGROUP
	const void *group = rq->bio ? rq->bio->bi_blkg : NULL;

	if (group && unlikely(shard->seen != group || time_after(tg_now(), shard->seen_at)))
		tg_groups_met(shard, group);
#endif
}

/* order.c */
struct request *tg_next(struct tg_shard *shard, enum tg_reason *reason);

/* merge.c */
bool tg_merges(const struct tg_data *tg, struct request *rq);
bool tg_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs);
bool tg_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio);

#endif
