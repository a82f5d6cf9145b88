/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * triage: the structures that combine its parts. The parts are:
 *
 *	core.c		inserts and dispatches requests, holds shards and wakes them
 *	order.c		which class is next: returned, aged, reserved, strict
 *	flow.c		which flow of a class is next: those that ask for little, then in turn
 *	media.c		which request of a flow is next, on flash and on disks
 *	submitter.c	the processes that submit, and the tags that each of them holds
 *	budget.c	how much bulk may be in the device
 *	arm.c		the turns of a disk's arm
 *	controller.c	learns the budget from the latency of urgent requests
 *	costs.c		learns the cost of a request
 *	device.c	notes requests that go to the device or come back
 *	limits.c	the rate that the administrator sets for a class
 *	merge.c		merges bios into queued requests
 *	tunables.c	sysfs
 *	inspect.c	debugfs and tracepoints
 *	main.c		the elevator's operations
 *
 * A part's header has its interface, and its structure with the lock that guards it.
 * order.c and merge.c have theirs here. cost.h, depth.h, detector.h, knee.h, limit.h and
 * share.h make no kernel calls: tests run them in user space.
 *
 * Words that all parts use:
 *	shard		the scheduler of one hardware queue; a disk has one in all
 *	submitter	a process; all workers of workqueues together are one
 *	flow		the queued requests of one submitter in one class
 *	asks for little	a submitter that has held at most two requests for 100 ms
 *	sparse		a flow with requests that goes before the rest of its class
 *	hinted		of NORMAL, with flags that say that a process waits for it
 *	urgent		of HIGH or, mostly, of a sparse flow (tg_flow_is_urgent()): it goes
 *			before bulk and outside bulk's budget
 *	bulk		all requests that are not urgent
 *	backlog		the flows of a class that are not sparse
 *	cost		how long a request occupies a busy device, in ns
 *	stream		a flow that has read or written in sequence for a while (detector.h)
 *	greedy		a submitter that holds more than eight tags
 *	pressed		an urgent request came in the last second, so the budget applies
 *	budget		the limit on the cost of bulk in the device
 *	pace		a budget below one request of bulk: the part of time that bulk may use
 *	gated		bulk that may go only right behind an urgent request
 *	grant		the cost that gated bulk may send there
 *	hold		a time in which a shard has requests, and none of them may go
 *
 * Locks, outermost first; the last is never taken with a shard's lock:
 *	tg_alive_lock		inspect.c: a scheduler does not exit while debugfs reads it
 *	tg_shard.lock		core.c: all that is queued in a shard
 *	tg_costs.lock		costs.c; trylock only
 *	tg_controller.lock	controller.c; trylock only, also in interrupts
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

/* The reason for a dispatch. inspect.c has the names. */
enum tg_reason {
	TG_RETURNED,	/* the driver had sent it back */
	TG_AGED,	/* it has waited as long as its class may */
	TG_RESERVED,	/* its class lacks part of its guaranteed share */
	TG_ONLY,	/* nothing else was queued */
	TG_STRICT,	/* its class is next, and its flow is alone in the backlog there */
	TG_SPARSE,	/* its flow is sparse */
	TG_DEFICIT,	/* it is its flow's turn */
	TG_EXPIRED,	/* a disk's head passed it by for fifo_expire */
	TG_REASONS,
};

#include "arm.h"
#include "budget.h"
#include "controller.h"
#include "costs.h"
#include "flow.h"
#include "gauge.h"
#include "inspect.h"
#include "limits.h"
#include "media.h"
#include "submitter.h"
#include "tunables.h"

/**
 * struct tg_tag - triage's data of a request, in its elv.priv
 * @submitter: the process that took the request's tag
 * @cost: what the request was charged, in ns, while it is in the device; else 0
 * @flow: index of its flow (tg_flow_of()); valid while it is queued
 * @class: enum prio_class; set when a holder of the shard's lock first sees the request
 * @held: the request counts in @submitter's held tags
 * @returned: the driver sent it back; reset when it is queued again, before all others
 * @urgent: it goes before bulk and outside bulk's budget
 * @hinted: only its flags can make it urgent (tg_flags_hint()). Such a request does not make
 *	the budget apply.
 * @timed: the controller learns from its service time; while it is in the device
 * @clean: no bulk was in the device when it was dispatched
 * @measured: its service time goes into a histogram; while it is in the device
 *
 * One owner at a time changes it: the submitter, the holder of the shard's lock, the
 * driver. If @timed or @measured is set, rq->io_start_time_ns is the time of dispatch. With
 * writeback throttling, the core sets this time again when the driver gets the request.
 * rq->fifo_time would not do: Linux 6.1 reuses its place when another CPU completes the
 * request.
 */
struct tg_tag {
	struct tg_submitter *submitter;
	u32 cost;
	u16 flow;
	u8 class;
	u8 held:1;
	u8 returned:1;
	u8 urgent:1;
	u8 hinted:1;
	u8 timed:1;
	u8 clean:1;
	u8 measured:1;
};

static inline struct tg_tag *tg_tag(struct request *rq)
{
	/* 32-bit kernels have too little room in a request. */
	static_assert(sizeof(struct tg_tag) <= sizeof(rq->elv.priv));
	return (struct tg_tag *)rq->elv.priv;
}

/**
 * struct tg_shard - the scheduler of one hardware queue, or of all (tg_data.nr_shards)
 * @inbox: requests that submitters have pushed without a lock, the newest first
 * @state: bits TG_HELD and TG_LIMITED (core.c); atomic
 * @lock: guards all below. Dispatchers, debugfs and sysfs wait for it; bio merging uses
 *	trylock. Never taken in an interrupt.
 * @tg: set once
 * @hctx: the hardware queue to run; also read without the lock
 * @kick: tg_drain() ended a hold, so tg_shard_leave() runs the hardware queue
 * @granted: 1: an urgent request of this shard made way for bulk of any shard. A
 *	dispatcher resets it after it has unlocked, and wakes one held shard.
 * @queued: number of requests on @at_head and in @classes, plus 1 while the inbox is
 *	emptied; also read without the lock
 * @at_head: requests that go before all others, oldest first
 * @classes: queued requests by class
 * @flows: the flows that requests are queued in
 * @served: cost of all requests dispatched so far but those from @at_head, in ns; also read
 *	without the lock
 * @bulk_turn: a virtual time in ns: that of the other shards when it last joined them, plus
 *	the cost of its bulk that went since then while urgent requests came
 *	(tg_turn_charge()); also read without the lock
 * @woken_until: jiffies; until then it counts as waiting if it has requests, though its hold has
 *	ended, because it has not dispatched since; 0: it has. tg_wake() and the watchdog also
 *	write this, without the lock.
 * @young_until: jiffies; no request in @classes exceeds its aging time before this
 * @head: where a disk's head is, and the flow that it waits for
 * @device: the requests of this shard in the device
 * @merges_until: jiffies; a sequential flow got a request lately, so bios are tried on
 *	queued requests until then (merge.c); also read without the lock
 * @tried_at: jiffies when a bio was last tried on queued requests; ditto
 * @merged: number of bios that joined a queued request
 * @watchdog: the timer that ends a hold at the latest; its callback takes no lock
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
	struct list_head at_head;
	struct tg_class classes[PRIO_CLASS_COUNT];
	struct tg_flows flows;
	u64 served;
	u64 bulk_turn;
	unsigned long woken_until;
	unsigned long young_until;
	struct tg_head head;
	struct tg_device device;
	unsigned long merges_until;
	unsigned long tried_at;
	u64 merged;
	struct hrtimer watchdog;
};

/**
 * struct tg_data - the scheduler of one device
 * @queue: set once, like the four below
 * @rotational: the device is a disk, with one arm
 * @whole_depth: limit_depth() limits all tags of a hardware queue, not each word of them
 * @nr_shards: number of @shards; if it is 1, that shard has all requests
 * @shards: one for each hardware queue, or one in all; on the request queue's NUMA node
 * @nr_held: number of shards whose TG_HELD is set; atomic
 * @wake_from: index of the shard with which tg_wake() begins; any value is safe
 * @hinted_due: the sum of all shards' @served from which hinted requests may go before HIGH
 *	again. Dispatchers of all shards write it without a common lock. If two write at once,
 *	one charge is lost, and one more request goes. If an interrupt delays a dispatcher
 *	between its read and its write, up to TG_HINTED_BURST more go.
 * @alive: on inspect.c's list of schedulers that debugfs may show
 *
 * The other fields are those of single parts: see their headers.
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
	struct tg_histogram waits[PRIO_CLASS_COUNT];	/* from allocation to dispatch */
	struct tg_histogram services[PRIO_CLASS_COUNT];	/* from dispatch to completion */

	atomic_t nr_held ____cacheline_aligned_in_smp;
	unsigned int wake_from;
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

/* Return whether a request moves data. A discard, for example, has a range and moves none. */
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

/* Return whether a request's submitter asks for little, and waits for this request. */
static inline bool tg_is_waited_for(struct request *rq)
{
	return !(rq->cmd_flags & REQ_BACKGROUND) && tg_asks_little(tg_tag(rq)->submitter);
}

/* order.c */
struct request *tg_next(struct tg_shard *shard, enum tg_reason *reason);

/* merge.c */
bool tg_merges(const struct tg_data *tg, struct request *rq);
bool tg_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs);
bool tg_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio);

#endif
