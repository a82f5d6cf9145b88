/* SPDX-License-Identifier: GPL-2.0-only */
/* Paces bulk's writes while processes flush the drive's write buffer. */
#ifndef TG_FLUSHES_H
#define TG_FLUSHES_H

#include <linux/atomic.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "drain.h"
#include "prio-class.h"

/*
 * A shard or a cgroup that waits for the pace may lag behind the others by this much at most. It is
 * the length of the longest hold (TG_WATCHDOG_NS). A shard or cgroup that sends nothing for longer
 * loses what it did not use.
 */
#define TG_PACE_LAG_NS (10 * NSEC_PER_MSEC)

struct request;
struct tg_data;
struct tg_lane;
struct tg_shard;

/**
 * struct tg_flushes - the pace of bulk's writes
 * @pace: the rate at which bulk may write, in KiB/s; 0: any
 * @limited: the pace has held a write of bulk since tg_drain_see() last began a period
 * @look_at: jiffies when the flushes are next counted
 * @due: when bulk at exactly the pace would have written all that the pace was charged for, in ns
 *	(tg_limit_charged()); any CPU may update it without a lock
 * @passed_at: the time up to which writes that the pace never holds have used up their part of it,
 *	in ns (tg_drain_passes()); any CPU may update it without a lock
 * @turn: the virtual time at which a shard that joins the others begins, in ns. Each charged write
 *	sets it to the least tg_shard.pace_turn of the sender and of the waiting shards, but at most
 *	TG_PACE_LAG_NS behind the sender's. Any CPU may update it without a lock. If a race loses
 *	an update, a shard waits a little longer.
 * @lock: guards all below, and writes of @pace. Taken with trylock only: if another shard learns at
 *	this moment, this one need not.
 * @drain: the search for the pace
 * @busy: number of calls of tg_flushes_learn() that found bulk in the device, or a held shard
 * @idle: number of its other calls
 */
struct tg_flushes {
	u32 pace;
	bool limited;
	unsigned long look_at;
	atomic64_t due ____cacheline_aligned_in_smp;
	atomic64_t passed_at;
	u64 turn;

	spinlock_t lock; /* guards all below */
	struct tg_drain drain;
	u64 busy;
	u64 idle;
};

/* The state of the pace for one choice of a request. */
enum tg_pace_state {
	TG_PACE_UNKNOWN,	/* not looked up yet */
	TG_PACE_NONE,		/* any bulk may write: the pace is unused, or does not apply now */
	TG_PACE_OPEN,		/* bulk may write, first the class and cgroup that are due */
	TG_PACE_CLOSED,		/* bulk may not write */
};

void tg_flushes_init(struct tg_data *tg);
u64 tg_flush_age(const struct tg_data *tg);
void tg_flushes_learn(struct tg_data *tg, struct request *rq);
void tg_flushes_charge(struct tg_shard *shard, struct request *rq);
void tg_pace_charge_lane(struct tg_shard *shard, struct tg_lane *lane, struct request *rq,
			 u32 pace);
bool tg_pace_is_closed_now(struct tg_shard *shard, struct tg_lane *lane, enum prio_class class);
void tg_pace_has_held(struct tg_shard *shard, struct tg_lane *lane, enum prio_class class);
void tg_pace_tell(struct tg_shard *shard);
u64 tg_pace_opens_at(const struct tg_data *tg);

#endif
