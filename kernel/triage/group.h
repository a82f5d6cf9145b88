/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shares a device among cgroups by weight, down their tree.
 *
 * Each cgroup has an account: the device time that it has had, divided by its weight. Of the
 * cgroups that wait, the one whose account is lowest is due (start-time fair queueing; Goyal,
 * Vin, Cheng, 1996). A cgroup that comes after a pause begins where the others are.
 *
 * Urgent requests need not wait until their cgroup is due. But a cgroup has urgent requests only
 * while it is within its share: at most a few turns ahead of its part of the device's time, by the
 * weights of the cgroups that ask (tg_account.reach). Beyond its share all its requests are bulk.
 * Bulk uses up a cgroup's share only in the cases that tg_account.used names. So a cgroup whose
 * eager requests take less than its share has short latency, and none gets more of the device by
 * having many processes. Cgroups that ask for nothing have no share.
 *
 * A small budget leaves the device idle while it holds bulk. No cgroup has taken this idle time
 * from the others. So it counts as device time too, as if all cgroups had used their parts of it.
 */
#ifndef TG_GROUP_H
#define TG_GROUP_H

#include <linux/atomic.h>
#include <linux/blk-mq.h>
#include <linux/list.h>

#include "flow.h"

struct tg_data;
struct tg_shard;

/*
 * Cgroups share two things: the device's time, and the pace of bulk's writes (flushes.h). The two
 * have separate accounts: with one account, a cgroup's reads would use up its share of the pace.
 */
enum tg_shared {
	TG_SHARED_DEVICE,
	TG_SHARED_PACE,
	TG_SHARED_COUNT
};

/**
 * struct tg_had - how much of the device's time, or of the pace, a cgroup has used
 * @time: virtual time: the cost of its requests, in ns, times 100, divided by its weight
 * @now: the virtual time at which a child begins after a pause; the child may begin earlier by what
 *	it keeps (tg_account_join()). @now only rises. When bulk goes, @now rises to the @time of
 *	the child that is due (for the pace: of the child that writes). When an urgent request goes,
 *	@now rises to the @time of the child that sends it, less the longest hold. A child that is
 *	beyond its share while no other child asks raises @now to its own @time.
 */
struct tg_had {
	atomic64_t time;
	u64 now;
};

/**
 * struct tg_account - a node of the tree of cgroups
 * @parent: the account above it, of which it has a share; NULL: this account is the whole device's,
 *	or the one above is not known yet
 * @depth: the number of accounts above it
 * @weight: 1 to 10000
 * @had: what it has had of the device's time, and of the pace
 * @used: the virtual time that these requests have used: eager ones, others of a submitter that
 *	asks for little, and any that went while eager ones waited. It stays near the parent's
 *	@reach (tg_account_use()).
 * @reach: the virtual time that each child's share has allowed so far; a child whose @used exceeds
 *	it by more than tg_account_slack() is beyond its share. As device time passes, @reach grows
 *	by this account's part of that time, divided by the weights of the children that ask
 * @reach_at: the time of tg_groups.clock up to which @reach counts
 * @part: its part of the device when it last asked, in units of 1 / TG_WHOLE
 * @asked: number of the interval (TG_ASKS_JIFFIES) in which it last asked for device time
 * @asking: in the upper half, number of the last interval in which a child asked; in the lower
 *	half, the sum of the weights of the children that asked in it
 * @asking_before: the value of @asking before that interval
 *
 * All shards read and write the fields from @had on without a lock, @time, @used, @reach,
 * @reach_at, @asked and @asking atomically. A lost write of another field does little harm: it is
 * soon written again.
 */
struct tg_account {
	struct tg_account *parent;
	u32 depth;
	u32 weight;
	struct tg_had had[TG_SHARED_COUNT];
	atomic64_t used;
	atomic64_t reach;
	atomic64_t reach_at;
	u64 part;
	u32 asked;
	atomic64_t asking;
	u64 asking_before;
};

/*
 * The order in which tg_choose() asks lanes for a request: first the lanes with requests of HIGH,
 * then those with other eager requests, both only if their cgroup is within its share. Then the
 * lane whose turn it is, and then the others.
 */
enum tg_rank {
	TG_RANK_HIGH,
	TG_RANK_SPARSE,
	TG_RANK_TURN,
	TG_RANK_OTHER,
};

/* Whether a lane has so many requests that it must leave tags to others (tg_lane_crowds()). */
enum tg_crowds {
	TG_CROWDS_NOT,
	TG_CROWDS_LESS,	/* it leaves a quarter of the tags to others */
	TG_CROWDS,	/* it leaves half of them */
};

/**
 * struct tg_lane - the queued requests of one cgroup on one shard
 * @entry: entry in tg_shard.lanes while it has requests
 * @account: account of the cgroup's own requests, without those of cgroups below it
 * @id: the cgroup's number (serial_nr), which no other cgroup gets
 * @queued: number of requests in @classes
 * @asked: tg_shard.asked when tg_choose() last asked it for a request
 * @rank: its place in the order of asking, at the last choice among several lanes
 * @exceeds: at the last choice its cgroup was beyond its share (tg_lane_exceeds_share())
 * @owes_urgent: the requests of @owes were urgent
 * @owes: the device time of requests for which its account is not charged yet, in ns
 * @owes_eager: the part of @owes that its account has to count as @used
 * @owes_since: jiffies; all requests of @owes went in this tick
 * @young_until: jiffies; before this time, tg_next_aged() need not look for aged requests
 * @pace_due: what LOW lacks of its part of the pace, in ns; below 0: what NORMAL lacks of its part
 * @classes: queued requests by class
 *
 * Guarded by the shard's lock. A lane exists at least while it has a request, because the request's
 * bio holds the cgroup. A reader with neither such a request nor the lock needs RCU
 * (tg_lane_of_current()).
 */
struct tg_lane {
	struct list_head entry;
	struct tg_account *account;
	u64 id;
	unsigned int queued;
	u32 asked;
	enum tg_rank rank;
	bool exceeds;
	bool owes_urgent;
	u64 owes;
	u64 owes_eager;
	unsigned long owes_since;
	unsigned long young_until;
	s64 pace_due;
	struct tg_class classes[PRIO_CLASS_COUNT];
};

/**
 * struct tg_groups - the cgroups of one device
 * @all: account of the whole device
 * @own: account of the requests of the root cgroup, and of those without a cgroup
 * @active: the policy is active for the device, so the cgroups have weights
 * @shared_at: jiffies when requests of two cgroups last met (one came after the other, or both were
 *	queued on a shard), or a cgroup was last beyond its share; written once a tick by any shard
 * @bulk_at: jiffies when bulk last went while cgroups shared the device; written once a tick by any
 *	shard
 * @seen: the cgroup whose request came last, as far as shards have noticed; only compared, because
 *	it may have been freed. It has its own cache line, because each request may write it.
 * @clock: the device's time that has passed while cgroups share it, in ns
 * @done: tg_groups_done() when @clock was last advanced
 * @held_from: when a small budget began to hold bulk, or when @clock was advanced during this hold,
 *	in ns; 0: a small budget has not held bulk since bulk last went
 */
struct tg_groups {
	struct tg_account all;
	struct tg_account own;
	bool active;
	unsigned long shared_at;
	unsigned long bulk_at;
	const void *seen ____cacheline_aligned_in_smp;
	atomic64_t clock ____cacheline_aligned_in_smp;
	atomic64_t done;
	atomic64_t held_from;
};

/* Return whether a lane counts no request in any class. */
static inline bool tg_lane_is_empty(const struct tg_lane *lane)
{
	int class;

	for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++)
		if (lane->classes[class].queued)
			return false;
	return true;
}

void tg_groups_register(void);
void tg_groups_unregister(void);
int tg_groups_init(struct tg_data *tg);
void tg_groups_exit(struct tg_data *tg);

void tg_lane_init(struct tg_lane *lane);
struct tg_lane *tg_lane_of(struct tg_shard *shard, struct request *rq);
struct tg_lane *tg_lane_of_current(struct tg_shard *shard);
u64 tg_group_id(struct tg_data *tg, const struct bio *bio);
void tg_lane_add(struct tg_shard *shard, struct tg_lane *lane);
void tg_lane_take(struct tg_shard *shard, struct tg_lane *lane, struct request *rq, bool eager,
		  u64 time);
void tg_lane_join(struct tg_shard *shard, struct tg_lane *lane);
bool tg_lane_only_exceeds(struct tg_shard *shard, struct tg_lane *lane);
void tg_lane_charge_only(struct tg_shard *shard, struct tg_lane *lane, struct request *rq,
			 bool eager);
void tg_lane_join_pace(struct tg_shard *shard, struct tg_lane *lane);
void tg_lane_charge_pace(struct tg_shard *shard, struct tg_lane *lane, u64 cost);
bool tg_lane_leads_pace(const struct tg_lane *lane, const struct tg_lane *other);
void tg_lane_turn(struct tg_shard *shard);
void tg_lanes_rank(struct tg_shard *shard);
struct tg_lane *tg_lane_pick(struct tg_shard *shard);
void tg_groups_hold_bulk(struct tg_shard *shard);
bool tg_lane_exceeds_share(const struct tg_shard *shard, const struct tg_lane *lane);
bool tg_lanes_may_crowd(const struct tg_shard *shard);
enum tg_crowds tg_lane_crowds(const struct tg_shard *shard, const struct tg_lane *lane,
			      enum prio_class of);
bool tg_lane_precedes(const struct tg_shard *shard, const struct tg_lane *lane);
void tg_lane_is_due(struct tg_shard *shard, const struct tg_lane *lane);
bool tg_groups_yield(const struct tg_shard *shard, const struct tg_shard *to);
bool tg_groups_precede(const struct tg_shard *shard, const struct tg_shard *other);
void tg_groups_met(struct tg_shard *shard, const void *group);

#endif
