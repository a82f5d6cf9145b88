/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * triage: the structures that hold its parts.
 *
 *	core.c		requests in, requests out, holding and waking: the state machine
 *	order.c		which class is next: returned, aged, reserved, strict
 *	flow.c		which flow of a class is next: sparse flows first, then by deficit
 *	media.c		which request of a flow is next, on flash and on disks
 *	submitter.c	the processes that submit, and the tags that each of them holds
 *	budget.c	how much bulk may be in the device
 *	arm.c		the turns of a disk's arm
 *	controller.c	learns the budget from the latency of urgent requests
 *	costs.c		learns the cost of a request
 *	device.c	a request goes to the device and comes back
 *	limits.c	the rate that the administrator sets for a class
 *	merge.c		bios that join queued requests
 *	tunables.c	sysfs
 *	inspect.c	debugfs and tracepoints
 *	main.c		the elevator's operations
 *
 * Each has a header with its structure, the lock that guards it, and its interface. cost.h,
 * depth.h, detector.h, knee.h, limit.h and share.h make no kernel calls: tests run them in
 * user space.
 *
 * Locks, outermost first:
 *	tg_alive_lock		inspect.c: a scheduler does not exit while debugfs reads it
 *	tg_shard.lock		core.c: all that is queued in a shard
 *	tg_costs.lock		costs.c; taken with a try
 *	tg_controller.lock	controller.c; taken with a try, also in interrupts
 *	tg_submitters.lock	submitter.c: new entries; taken before a request has a shard
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
	TG_RESERVED,	/* its class has not had its guaranteed share */
	TG_ONLY,	/* nothing else was queued */
	TG_STRICT,	/* the only flow of the most urgent class with requests */
	TG_SPARSE,	/* its flow asks for little */
	TG_DEFICIT,	/* it is its flow's turn */
	TG_EXPIRED,	/* a disk's head was elsewhere for too long */
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
 * @class: enum prio_class; from the first time it is looked at under its shard's lock
 * @held: it counts in @submitter's held tags
 * @returned: the driver sent it back and it is inserted again; valid until then
 * @urgent: it goes before bulk and outside bulk's budget
 * @hinted: if it is urgent, then by its flags (tg_flags_hint()): it does not press bulk
 * @timed: the controller learns from its service time; while it is in the device
 * @clean: no bulk was in the device when it was dispatched
 * @measured: its service time goes into a histogram; while it is in the device
 *
 * One owner at a time changes it: the submitter, the holder of the shard's lock, the
 * driver. If @timed or @measured is set, rq->io_start_time_ns holds the time of dispatch;
 * writeback throttling has the core write it again as the driver gets the request.
 * rq->fifo_time cannot: Linux 6.1 uses its place when another CPU completes the request.
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
 * @inbox: requests that submitters have pushed, the newest first; without a lock
 * @state: bits TG_HELD and TG_LIMITED (core.c); atomic
 * @lock: guards all below. Dispatchers, debugfs and sysfs wait for it; bio merging uses
 *	trylock. Never taken in an interrupt.
 * @tg: set once
 * @hctx: the hardware queue to run; also read without the lock
 * @kick: a drain ended a hold: the lock holder runs the hardware queue as it leaves
 * @granted: an urgent request made way for bulk of all shards: a dispatcher that has let
 *	the lock go takes this, without it, and wakes them
 * @queued: requests on @at_head and in @classes, and 1 while the inbox is emptied;
 *	also read without the lock
 * @at_head: requests that go before all others, oldest first
 * @classes: queued requests by class
 * @flows: the flows that requests are queued in
 * @served: cost of all requests, but those from @at_head, in ns
 * @hinted_due: the @served at which hinted requests have had no more than their share
 * @young_until: jiffies; no request in @classes ages before
 * @head: of a disk
 * @device: the requests of this shard in the device
 * @merges_until: jiffies; after it no request is queued that bios could join; also read
 *	without the lock
 * @tried_at: jiffies when a bio was last tried on queued requests; ditto
 * @merged: bios that joined a queued request
 * @watchdog: ends a hold at the latest; its callback takes no lock
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
	u64 hinted_due;
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
 * @queue: set once, like the three below
 * @rotational: the device is a disk, with one arm
 * @whole_depth: limit_depth() limits all tags of a hardware queue, not each word of them
 * @nr_shards: 1: one shard sees all requests
 * @shards: one for each hardware queue, on the request queue's node
 * @nr_held: shards whose TG_HELD is set; atomic
 * @wake_from: the shard that is the next to be woken; any value is safe
 * @alive: on inspect.c's list of schedulers that debugfs may show
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
	struct list_head alive;
};

static inline struct tg_data *tg_of(const struct request_queue *q)
{
	return q->elevator->elevator_data;
}

/* Return whether a request moves data: a discard has a range and moves nothing. */
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
