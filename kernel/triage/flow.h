/* SPDX-License-Identifier: GPL-2.0-only */
/* Queues requests in flows: one for each submitter, class and cgroup. */
#ifndef TG_FLOW_H
#define TG_FLOW_H

#include <linux/blk-mq.h>
#include <linux/list.h>
#include <linux/rbtree.h>

#include "detector.h"
#include "share.h"
#include "submitter.h"

struct tg_lane;
struct tg_shard;

/* The index of a class's common flow (used if no flow is free), which is not in tg_flows.table. */
#define TG_FLOW_COMMON U16_MAX

/**
 * struct tg_flow - queued requests of one submitter, cgroup and class on one shard: those with
 *	hinting flags (tg_flags_hint()), or those without
 * @turn: entry in a list of its class while it has requests; else in tg_flows.idle. A common flow
 *	without requests is in no list
 * @node: entry in a list of tg_flows.buckets, once a submitter has used the flow. A common flow is
 *	in no such list
 * @key: see tg_flow_key(); unique in its class and @group
 * @group: number of the cgroup (tg_lane.id) of its requests
 * @lane: this cgroup's lane; valid while the flow has requests
 * @fifo: requests, oldest first
 * @sorted: the same requests by sector, on rotational devices
 * @deficit: the rest of its turn, or its debt (below 0), in ns of cost
 * @position: the sector behind its last dispatched request; on rotational devices
 * @detector: the pattern of its requests
 * @index: index in tg_flows.table, or TG_FLOW_COMMON; set once
 * @class: enum prio_class of all its requests
 * @level: I/O priority level, 0 to 7, of its latest request
 * @sparse: it is on its class's list @hinted or @sparse, not on @backlog; valid while it has
 *	requests
 * @started: its class's @started when it last joined @hinted or @sparse; the flow with the lower
 *	number goes first
 *
 * Guarded by the shard's lock.
 */
struct tg_flow {
	struct list_head turn;
	struct hlist_node node;
	u64 key;
	u64 group;
	struct tg_lane *lane;
	struct list_head fifo;
	struct rb_root sorted;
	s64 deficit;
	sector_t position;
	struct tg_detector detector;
	u16 index;
	u8 class;
	u8 level;
	bool sparse;
	u32 started;
};

/**
 * struct tg_flows - the flows of a shard: one for each tag, so that no two submitters have
 *	to share a flow
 * @count: the length of @table and of @buckets
 * @bits: log2 of @count
 * @table: all flows but the common ones
 * @buckets: the flows that submitters have used, by hash of key, cgroup and class
 * @idle: flows without requests, the longest idle first
 *
 * A flow keeps its submitter's state until another submitter needs the flow. Guarded by
 * the shard's lock; resized with the queue frozen.
 */
struct tg_flows {
	unsigned int count;
	unsigned int bits;
	struct tg_flow *table;
	struct hlist_head *buckets;
	struct list_head idle;
};

/*
 * The queued requests of a class in the order in which they came: an hlist with its last node. They
 * are linked through rq->hash. This node is free, because triage does not use the hash table in
 * which the block layer looks for merges.
 */
struct tg_arrivals {
	struct hlist_head first;
	struct hlist_node *last;
};

/**
 * struct tg_class - queued requests of one class and cgroup on one shard
 * @hinted: sparse flows of hinted requests, in the order in which they joined; only NORMAL has any
 * @sparse: the other sparse flows, in the order in which they joined
 * @backlog: all other flows with requests, in the order of their turns
 * @nr_backlog: number of flows in @backlog
 * @arrivals: the requests of all flows in these three lists
 * @queued: number of requests in @arrivals; also read without the lock
 * @owed: device time that the class lacks of its guaranteed share, in ns; below 0: device time that
 *	it had beyond the share, because one request took longer than what the class lacked
 * @started: number of flows that have joined @hinted or @sparse so far
 * @sparse_leads: cost that sparse flows have sent since the backlog began to wait, less what the
 *	backlog's requests allow them, in ns (tg_class_count()). Below 0: cost that the backlog's
 *	last request still allows sparse flows, because that request was large
 * @paced: the pace held the whole backlog when tg_flow_next_bulk() last looked
 * @paced_at: jiffies when the pace last held a write of the class
 *
 * Guarded by the shard's lock.
 */
struct tg_class {
	struct list_head hinted;
	struct list_head sparse;
	struct list_head backlog;
	unsigned int nr_backlog;
	struct tg_arrivals arrivals;
	unsigned int queued;
	s64 owed;
	u32 started;
	s64 sparse_leads;
	bool paced;
	unsigned long paced_at;
};

/**
 * struct tg_counts - the requests of one class on one shard, of all cgroups
 * @queued: number of requests in the lanes
 * @inserted: number of requests that came so far
 * @reasons: number of requests dispatched so far, by reason
 *
 * @inserted less the sum of @reasons is @queued plus the number of the class's requests on
 * tg_shard.at_head. Guarded by the shard's lock.
 */
struct tg_counts {
	unsigned int queued;
	unsigned long inserted;
	unsigned long reasons[TG_REASONS];
};

int tg_flows_init(struct tg_shard *shard, unsigned int count);
void tg_flows_resize(struct tg_shard *shard);
void tg_flows_exit(struct tg_shard *shard);
struct tg_flow *tg_flow_find(struct tg_shard *shard, u64 key, u64 group,
			     enum prio_class class);
bool tg_class_writes(struct tg_class *class);
bool tg_class_is_paced(struct tg_shard *shard, struct tg_lane *lane, enum prio_class of);
bool tg_flow_add(struct tg_shard *shard, struct request *rq);
struct request *tg_flow_next(struct tg_shard *shard, struct tg_lane *lane,
			     enum prio_class class, bool bulk, enum tg_reason *reason);
struct request *tg_flow_next_hinted(struct tg_shard *shard, struct tg_lane *lane,
				    enum tg_reason *reason);
struct request *tg_flow_next_bulk(struct tg_shard *shard, struct tg_lane *lane,
				  enum prio_class class, enum tg_reason *reason);
u64 tg_flow_take(struct tg_shard *shard, struct request *rq);

/*
 * Return the key of a submitter's flow for requests with @flags. @owner is the submitter's id.
 * Requests whose flags say that a process waits for them have a key and a flow of their own. So
 * they do not queue behind the submitter's bulk.
 */
static inline u64 tg_flow_key(u64 owner, blk_opf_t flags)
{
	return owner << 1 | tg_flags_hint(flags);
}

/* Return whether a flow's requests are of NORMAL and have hinting flags. */
static inline bool tg_flow_is_hinted(const struct tg_flow *flow)
{
	return flow->class == PRIO_CLASS_NORMAL && (flow->key & 1);
}

static inline unsigned long tg_dispatched(const struct tg_counts *counts)
{
	unsigned long sum = 0;
	int reason;

	for (reason = 0; reason < TG_REASONS; reason++)
		sum += counts->reasons[reason];
	return sum;
}

static inline struct request *tg_first(struct list_head *list)
{
	return list_first_entry_or_null(list, struct request, queuelist);
}

/* Return the oldest queued request of a class, NULL if there is none. */
static inline struct request *tg_oldest(const struct tg_class *class)
{
	return hlist_entry_safe(class->arrivals.first.first, struct request, hash);
}

#endif
