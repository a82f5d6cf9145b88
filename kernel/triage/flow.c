// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queues requests in flows, and chooses a class's next flow. Sparse flows go first. The others
 * take turns, each for as much cost as its turn allows (deficit round robin).
 */
#include <linux/hash.h>
#include <linux/ioprio.h>
#include <linux/lockdep.h>
#include <linux/overflow.h>
#include <linux/log2.h>
#include <linux/sched/mm.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "device.h"
#include "triage.h"

/*
 * Sparse flows may use this many quanta before the backlog's first request. From then on, while
 * both wait, sparse flows' requests may cost this many times as much as the backlog's requests.
 */
#define TG_SPARSE_TURNS_FLASH 16
#define TG_SPARSE_TURNS_DISK 4
/*
 * After a pause, this many hinted requests may go before HIGH at once: two commits of a journal. A
 * commit takes one request for its blocks, because they are neighbours and merge, and one request
 * for the record behind the blocks.
 */
#define TG_HINTED_BURST 4
/*
 * After a flow that is not known to be random got a request, triage tries for this long to merge
 * new bios into queued requests.
 */
#define TG_MERGES_JIFFIES msecs_to_jiffies(100)

/* Bounds of a shard's number of flows. struct tg_tag has 16 bits for a flow's index. */
#define TG_FLOWS_MIN 64u
#define TG_FLOWS_MAX 16384u

static s64 tg_quantum(const struct tg_shard *shard)
{
	return (s64)READ_ONCE(shard->tg->tunables.quantum) * NSEC_PER_USEC;
}

static s64 tg_sparse_turns(const struct tg_data *tg)
{
	return tg->rotational ? TG_SPARSE_TURNS_DISK : TG_SPARSE_TURNS_FLASH;
}

static struct hlist_head *tg_flow_bucket(struct tg_flows *flows, u64 key, u64 group,
					 enum prio_class class)
{
	/* Cgroups have small numbers. Shift them to bits that keys do not use. */
	return &flows->buckets[hash_64((key << 2 | class) ^ group << 40, flows->bits)];
}

static struct tg_class *tg_flow_class(const struct tg_flow *flow)
{
	return &flow->lane->classes[flow->class];
}

static void tg_flow_init(struct tg_flow *flow, u16 index)
{
	flow->index = index;
	INIT_LIST_HEAD(&flow->turn);
	INIT_LIST_HEAD(&flow->fifo);
	flow->sorted = RB_ROOT;
}

/* Give a shard's flows a table of @count entries, all without requests. */
static int tg_flows_allocate(struct tg_flows *flows, unsigned int count, int node)
{
	struct hlist_head *buckets;
	struct tg_flow *table;
	unsigned int i;

	table = kvzalloc_node(array_size(count, sizeof(*table)), GFP_KERNEL, node);
	buckets = kvzalloc_node(array_size(count, sizeof(*buckets)), GFP_KERNEL, node);
	if (!table || !buckets) {
		kvfree(table);
		kvfree(buckets);
		return -ENOMEM;
	}
	INIT_LIST_HEAD(&flows->idle);
	for (i = 0; i < count; i++) {
		tg_flow_init(&table[i], i);
		list_add_tail(&table[i].turn, &flows->idle);
	}
	flows->count = count;
	flows->bits = ilog2(count);
	flows->table = table;
	flows->buckets = buckets;
	return 0;
}

static unsigned int tg_flows_wanted(unsigned int tags)
{
	return roundup_pow_of_two(clamp(tags, TG_FLOWS_MIN, TG_FLOWS_MAX));
}

/**
 * tg_flows_init() - set up a shard's flows
 * @shard: a new shard
 * @tags: the largest number of requests that the shard can have queued
 *
 * Return: 0; or -ENOMEM if nothing was allocated
 */
int tg_flows_init(struct tg_shard *shard, unsigned int tags)
{
	int i;

	for (i = PRIO_CLASS_HIGH; i < PRIO_CLASS_COUNT; i++) {
		tg_flow_init(&shard->common[i], TG_FLOW_COMMON);
		shard->common[i].class = i;
		shard->common[i].lane = &shard->lane;
	}
	return tg_flows_allocate(&shard->flows, tg_flows_wanted(tags),
				 shard->tg->queue->node);
}

void tg_flows_exit(struct tg_shard *shard)
{
	kvfree(shard->flows.table);
	kvfree(shard->flows.buckets);
}

/*
 * Make the table larger if the number of tags grew, so that each tag has a flow again. The queue
 * is frozen, so no request is queued. If there is no memory, the old table stays. A submitter
 * that then finds no free flow shares the common flow of the class, and the turns of this flow.
 */
void tg_flows_resize(struct tg_shard *shard)
{
	struct blk_mq_hw_ctx *hctx = READ_ONCE(shard->hctx);
	const bool shared = hctx->flags & BLK_MQ_F_TAG_HCTX_SHARED;
	const unsigned int queues = shard->tg->nr_shards == 1 && !shared ?
				    shard->tg->queue->nr_hw_queues : 1;
	/*
	 * If hardware queues share tags, nr_tags is only an upper bound. The depth is the
	 * present number of tags.
	 */
	const unsigned int tags = hctx->sched_tags->bitmap_tags.sb.depth;
	const unsigned int wanted = tg_flows_wanted(tags * queues);
	struct tg_flows old, new;
	unsigned int flags;
	int ret;

	if (wanted <= shard->flows.count)
		return;
	flags = memalloc_noio_save();
	ret = tg_flows_allocate(&new, wanted, shard->tg->queue->node);
	memalloc_noio_restore(flags);
	if (ret)
		return;
	spin_lock(&shard->lock);
	/*
	 * The flows' patterns and debts are lost. This does no harm, because the device was idle.
	 */
	shard->head.awaited = NULL;
	old = shard->flows;
	shard->flows = new;
	list_replace(&new.idle, &shard->flows.idle);
	spin_unlock(&shard->lock);
	kvfree(old.table);
	kvfree(old.buckets);
}

/* Return the flow of @key and cgroup @group in @class, NULL if there is none. */
struct tg_flow *tg_flow_find(struct tg_shard *shard, u64 key, u64 group,
			     enum prio_class class)
{
	struct tg_flow *flow;

	lockdep_assert_held(&shard->lock);

	hlist_for_each_entry(flow, tg_flow_bucket(&shard->flows, key, group, class), node)
		if (flow->key == key && flow->group == group && flow->class == class)
			return flow;
	return NULL;
}

/*
 * Return the flow of @key in @class of a lane. If there is none, reuse the flow that has been
 * idle for longest. If none is idle, return the common flow.
 */
static struct tg_flow *tg_flow_get(struct tg_shard *shard, u64 key, struct tg_lane *lane,
				   enum prio_class class)
{
	struct tg_flow *flow = tg_flow_find(shard, key, lane->id, class);

	if (!flow) {
		flow = list_first_entry_or_null(&shard->flows.idle, struct tg_flow, turn);
		if (unlikely(!flow))
			return &shard->common[class];
		if (shard->head.awaited == flow)
			shard->head.awaited = NULL;
		hlist_del_init(&flow->node);
		hlist_add_head(&flow->node,
			       tg_flow_bucket(&shard->flows, key, lane->id, class));
		flow->key = key;
		flow->group = lane->id;
		flow->class = class;
		flow->deficit = tg_quantum(shard);
		flow->position = shard->head.position;
		flow->detector = (struct tg_detector){};
	}
	/*
	 * While the flow had no requests, the cgroup of its lane may have been freed. So set the
	 * lane anew.
	 */
	flow->lane = lane;
	return flow;
}

/*
 * Return whether a flow that was empty goes before its class's backlog. It does if its new request
 * is @waited_for, unless the flow is of LOW or has a debt of several turns. On a disk a stream
 * never goes first: otherwise the arm would only go back and forth between streams.
 */
static bool tg_flow_is_sparse(const struct tg_shard *shard, const struct tg_flow *flow,
			      bool waited_for)
{
	if (flow->class == PRIO_CLASS_LOW || flow->deficit < -TG_SPARSE_DEBT * tg_quantum(shard))
		return false;
	if (!waited_for)
		return false;
	return !shard->tg->rotational || !tg_detector_streams(&flow->detector);
}

/* Count @flows more flows in a class's backlog. */
static void tg_backlog_count(struct tg_shard *shard, struct tg_class *class, int flows)
{
	class->nr_backlog += flows;
	WRITE_ONCE(shard->nr_backlog, shard->nr_backlog + flows);
}

/*
 * Put a flow that was empty on a list of its class. A sparse flow gets a new turn. Any other flow
 * keeps the rest of its turn, or its debt. It goes to the end of the backlog, but to the front if
 * the disk waits for it.
 */
static void tg_flow_start(struct tg_shard *shard, struct tg_flow *flow, bool sparse)
{
	struct tg_class *class = tg_flow_class(flow);

	flow->sparse = sparse;
	if (sparse) {
		flow->deficit = tg_quantum(shard);
		flow->started = ++class->started;
		list_move_tail(&flow->turn, tg_flow_is_hinted(flow) ? &class->hinted :
								      &class->sparse);
		return;
	}
	tg_backlog_count(shard, class, 1);
	if (shard->head.awaited == flow)
		list_move(&flow->turn, &class->backlog);
	else
		list_move_tail(&flow->turn, &class->backlog);
}

/* Return the level of a request's I/O priority, or 4 if the request has no priority. */
static u8 tg_level(struct request *rq)
{
	const unsigned short ioprio = req_get_ioprio(rq);

	return IOPRIO_PRIO_CLASS(ioprio) == IOPRIO_CLASS_NONE ?
	       IOPRIO_BE_NORM : ioprio & (IOPRIO_NR_LEVELS - 1);
}

/* Return the cost of all requests that all shards have dispatched so far, in ns. */
static u64 tg_served(const struct tg_data *tg)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < tg->nr_shards; i++)
		sum += READ_ONCE(tg->shards[i]->served);
	return sum;
}

/*
 * Return true if hinted requests may go before HIGH, and outside bulk's budget while HIGH comes.
 * They may if NORMAL has a share, and the hinted requests that did so (tg_hinted_charge()) cost no
 * more than this share of the cost of all requests. After a pause TG_HINTED_BURST requests may go
 * at once; the rest of the unused share is lost. Both are sums of costs, so a common error in the
 * estimates cancels.
 */
static bool tg_hinted_may_go(const struct tg_shard *shard)
{
	const struct tg_data *tg = shard->tg;

	return READ_ONCE(tg->tunables.share_normal) &&
	       tg_served(tg) >= READ_ONCE(tg->hinted_due);
}

/* Charge a hinted request to NORMAL's share. */
static void tg_hinted_charge(struct tg_shard *shard, u32 cost)
{
	struct tg_data *tg = shard->tg;
	const struct tg_costs *costs = &tg->costs;
	const struct tg_cost one = {
		.base = tg_costs_base(costs, TG_WRITE),
		.per_kib = READ_ONCE(costs->of[TG_WRITE].per_kib),
	};

	lockdep_assert_held(&shard->lock);

	WRITE_ONCE(tg->hinted_due,
		   tg_share_spent(READ_ONCE(tg->hinted_due), tg_served(tg),
				  TG_HINTED_BURST * tg_cost_of(&one, SZ_4K, true), cost,
				  max(READ_ONCE(tg->tunables.share_normal), 1u)));
}

/*
 * Return whether a flow's requests are eager. @hinted says that they are hinted and may go before
 * HIGH.
 */
static bool tg_flow_is_eager(const struct tg_shard *shard, const struct tg_flow *flow,
			     bool hinted)
{
	if (flow->class == PRIO_CLASS_HIGH || !flow->sparse)
		return flow->class == PRIO_CLASS_HIGH;
	return !tg_little_is_bulk(shard->tg) || hinted;
}

static void tg_arrivals_add(struct tg_arrivals *arrivals, struct request *rq)
{
	if (arrivals->last)
		hlist_add_behind(&rq->hash, arrivals->last);
	else
		hlist_add_head(&rq->hash, &arrivals->first);
	arrivals->last = &rq->hash;
}

static void tg_arrivals_del(struct tg_arrivals *arrivals, struct request *rq)
{
	if (arrivals->last == &rq->hash)
		arrivals->last = rq->hash.pprev == &arrivals->first.first ?
				 NULL : container_of(rq->hash.pprev, struct hlist_node, next);
	hlist_del_init(&rq->hash);
}

/* Queue a new request. Return true if it may go even while bulk may not. */
bool tg_flow_add(struct tg_shard *shard, struct request *rq)
{
	struct tg_tag *tag = tg_tag(rq);
	/* Ask only once: the answer may change at any time. */
	const bool little = tg_is_waited_for(rq);
	struct tg_class *class;
	struct tg_flow *flow;
	bool urgent;

	lockdep_assert_held(&shard->lock);

	/* Decide class and flow only here: rq->bio, on which they depend, may change later. */
	tag->class = tg_class_of(shard->tg, rq);
	flow = tg_flow_get(shard, tg_flow_key(tag->submitter->id, rq->cmd_flags),
			   tg_lane_of(shard, rq), tag->class);
	class = tg_flow_class(flow);
	flow->level = tg_level(rq);
	tag->flow = flow->index;
	tag->hinted = tag->class == PRIO_CLASS_NORMAL && tg_flags_hint(rq->cmd_flags) &&
		      (!little || tg_little_is_bulk(shard->tg));

	tg_media_came(shard, flow, rq);
	tg_detector_see(&flow->detector, blk_rq_pos(rq), blk_rq_sectors(rq));
	if (tg_detector_maybe_sequential(&flow->detector))
		WRITE_ONCE(shard->merges_until, jiffies + TG_MERGES_JIFFIES);
	if (list_empty(&flow->fifo))
		tg_flow_start(shard, flow, tg_flow_is_sparse(shard, flow, little || tag->hinted));
	tg_lane_add(shard, flow->lane);
	if (unlikely(tag->submitter == &shard->tg->submitters.workers) &&
	    tg_groups_shared(shard->tg))
		WRITE_ONCE(shard->workers_crowd,
			   tg_lane_crowds(shard, flow->lane, tag->class));
	urgent = tg_flow_is_eager(shard, flow,
				  tg_flow_is_hinted(flow) && tg_hinted_may_go(shard)) &&
		 !tg_lane_exceeds_share(shard, flow->lane);

	list_add_tail(&rq->queuelist, &flow->fifo);
	tg_arrivals_add(&class->arrivals, rq);
	tg_media_add(shard, flow, rq);
	WRITE_ONCE(class->queued, class->queued + 1);
	shard->counts[tag->class].queued++;
	shard->counts[tag->class].inserted++;
	WRITE_ONCE(shard->queued, shard->queued + 1);

	if (urgent && !tag->hinted)
		tg_urgent_seen(shard->tg, tag->class);
	return urgent || tg_media_awaited(shard, flow, rq);
}

/*
 * Give all flows of a backlog the same number of turns: the least number after which at
 * least one flow may go.
 */
static void tg_flow_rounds(struct tg_class *class, s64 quantum)
{
	s64 least = S64_MAX;
	struct tg_flow *flow;

	list_for_each_entry(flow, &class->backlog, turn)
		least = min(least, tg_share_rounds(flow->deficit, quantum));
	list_for_each_entry(flow, &class->backlog, turn)
		flow->deficit += least * quantum;
}

/*
 * Return the flow of the backlog whose turn it is. The flows before that flow have used up their
 * turns: give each a new turn and move it to the end. Look at each flow four times at most.
 */
static struct tg_flow *tg_flow_turn(struct tg_shard *shard, struct tg_class *class)
{
	struct tg_flow *flow = list_first_entry(&class->backlog, struct tg_flow, turn);
	const struct tg_flow *last = list_last_entry(&class->backlog, struct tg_flow, turn);
	const s64 quantum = tg_quantum(shard);

	if (likely(flow->deficit > 0))
		return flow;
	for (;;) {
		const bool round_ends = flow == last;

		flow->deficit = tg_share_turn(flow->deficit, quantum);
		list_move_tail(&flow->turn, &class->backlog);
		flow = list_first_entry(&class->backlog, struct tg_flow, turn);
		if (flow->deficit > 0)
			return flow;
		if (round_ends)
			break;
	}
	tg_flow_rounds(class, quantum);
	list_for_each_entry(flow, &class->backlog, turn)
		if (flow->deficit > 0)
			break;
	list_rotate_to_front(&flow->turn, &class->backlog);
	return flow;
}

/*
 * Return whether a flow's oldest request is a write. Only the pace asks this. There is no pace on
 * disks, and on flash the oldest request is the next one.
 */
static bool tg_flow_writes(struct tg_flow *flow)
{
	return tg_op(tg_first(&flow->fifo)) == TG_WRITE;
}

/* Return whether the next request of any flow in a class's backlog is a write. */
bool tg_class_writes(struct tg_class *class)
{
	struct tg_flow *flow;

	list_for_each_entry(flow, &class->backlog, turn)
		if (tg_flow_writes(flow))
			return true;
	return false;
}

/* Return whether the pace holds all requests of a class in a lane. */
bool tg_class_is_paced(struct tg_shard *shard, struct tg_lane *lane, enum prio_class of)
{
	struct tg_class *class = &lane->classes[of];
	struct tg_flow *flow;

	lockdep_assert_held(&shard->lock);

	if (!READ_ONCE(shard->tg->flushes.pace) || !list_empty(&class->sparse) ||
	    !list_empty(&class->hinted))
		return false;
	list_for_each_entry(flow, &class->backlog, turn)
		if (!tg_flow_writes(flow))
			return false;
	return tg_pace_is_closed(shard, lane, of);
}

/*
 * Of the backlog's flows whose next request is no write, return the first one whose turn is not
 * over. If the turns of all these flows are over, give each the same number of new turns. So they
 * take turns as if the flows that wait for the pace were not there. Return NULL if the next request
 * of each flow is a write.
 */
static struct tg_flow *tg_flow_turn_of_others(struct tg_shard *shard, struct tg_class *class)
{
	const s64 quantum = tg_quantum(shard);
	struct tg_flow *flow, *found = NULL;
	s64 least = S64_MAX;

	list_for_each_entry(flow, &class->backlog, turn) {
		const s64 rounds = tg_share_rounds(flow->deficit, quantum);

		if (tg_flow_writes(flow) || rounds >= least)
			continue;
		least = rounds;
		found = flow;
	}
	if (!found || !least)
		return found;
	list_for_each_entry(flow, &class->backlog, turn)
		if (!tg_flow_writes(flow))
			flow->deficit += least * quantum;
	return found;
}

/*
 * Return the next request of a class's backlog. Return NULL in three cases:
 * - The backlog is empty, or the pace holds all of it.
 * - The disk waits (tg_head.awaited) for a flow of this class, of a more urgent class or of another
 *   cgroup, and no flow of the backlog is near the head (tg_disk_near()).
 * - The next flow's only request stays queued, to wait for bios to merge with (tg_media_stays()).
 */
struct request *tg_flow_next_bulk(struct tg_shard *shard, struct tg_lane *lane,
				  enum prio_class of, enum tg_reason *reason)
{
	struct tg_class *class = &lane->classes[of];
	struct tg_flow *flow;

	lockdep_assert_held(&shard->lock);

	class->paced = false;
	if (list_empty(&class->backlog))
		return NULL;
	flow = shard->tg->rotational ? tg_disk_near(shard, class) : NULL;
	if (!flow && tg_media_wait(shard) &&
	    (shard->head.awaited->group != lane->id || shard->head.awaited->class <= of))
		return NULL;
	if (!flow)
		flow = tg_flow_turn(shard, class);
	if (tg_pace_holds(shard, lane, of, tg_first(&flow->fifo))) {
		flow = tg_flow_turn_of_others(shard, class);
		if (!flow) {
			class->paced = true;
			shard->paced = true;
			return NULL;
		}
	}
	if (tg_media_stays(shard, flow))
		return NULL;
	*reason = list_is_singular(&class->backlog) ? TG_STRICT : TG_DEFICIT;
	return tg_media_next(shard, flow, reason);
}

/*
 * Move a sparse flow to the backlog, with a new turn. It has used up its turn, so it asks for
 * more than little.
 */
static void tg_flow_demote(struct tg_shard *shard, struct tg_class *class,
			   struct tg_flow *flow)
{
	flow->sparse = false;
	flow->deficit += tg_quantum(shard);
	tg_backlog_count(shard, class, 1);
	list_move_tail(&flow->turn, &class->backlog);
}

/* Return the next hinted request that may go before HIGH. Return NULL if none may. */
struct request *tg_flow_next_hinted(struct tg_shard *shard, struct tg_lane *lane,
				    enum tg_reason *reason)
{
	struct tg_class *class = &lane->classes[PRIO_CLASS_NORMAL];
	struct tg_flow *flow;

	lockdep_assert_held(&shard->lock);

	if (likely(list_empty(&class->hinted)) || !tg_hinted_may_go(shard))
		return NULL;
	while ((flow = list_first_entry_or_null(&class->hinted, struct tg_flow, turn))) {
		if (flow->deficit > 0) {
			*reason = TG_SPARSE;
			return tg_media_next(shard, flow, reason);
		}
		tg_flow_demote(shard, class, flow);
	}
	return NULL;
}

/*
 * Return the next sparse flow of a class, from its lists @hinted and @sparse. Return NULL if none
 * may go. With @little all sparse flows may go. Without it only hinted ones may, and only if
 * tg_hinted_may_go() returns true.
 */
static struct tg_flow *tg_flow_first(struct tg_shard *shard, struct tg_class *class,
				     bool little)
{
	struct tg_flow *hinted = list_first_entry_or_null(&class->hinted, struct tg_flow, turn);
	struct tg_flow *sparse = list_first_entry_or_null(&class->sparse, struct tg_flow, turn);

	if (!little)
		return hinted && tg_hinted_may_go(shard) ? hinted : NULL;
	if (!hinted || !sparse)
		return hinted ?: sparse;
	return (s32)(hinted->started - sparse->started) < 0 ? hinted : sparse;
}

/*
 * Return the next request of a class in a lane. Return NULL if none may go. Without @bulk, leave
 * out the backlog, and sparse flows that go within bulk's budget. The caller has decided whether
 * bulk may go; for HIGH, @bulk is always true.
 */
struct request *tg_flow_next(struct tg_shard *shard, struct tg_lane *lane,
			     enum prio_class of, bool bulk, enum tg_reason *reason)
{
	struct tg_class *class = &lane->classes[of];
	const s64 most = tg_quantum(shard) * tg_sparse_turns(shard->tg);
	/*
	 * If @apart is true, the class's sparse flows go outside bulk's budget. While bulk may not
	 * go, such flows do not delay the backlog, because the backlog waits for the budget.
	 */
	const bool apart = of == PRIO_CLASS_HIGH || !tg_little_is_bulk(shard->tg);
	const bool little = bulk || apart;
	struct request *rq;
	struct tg_flow *flow;

	lockdep_assert_held(&shard->lock);

	if (list_empty(&class->backlog) || (!bulk && apart))
		class->sparse_leads = min_t(s64, class->sparse_leads, 0);
	for (;;) {
		/*
		 * This limit keeps sparse flows from delaying the backlog for long. If @little is
		 * false, the backlog waits anyway, so hinted requests need no limit.
		 */
		while ((!little || class->sparse_leads <= most) &&
		       (flow = tg_flow_first(shard, class, little))) {
			if (flow->deficit > 0) {
				*reason = TG_SPARSE;
				return tg_media_next(shard, flow, reason);
			}
			tg_flow_demote(shard, class, flow);
		}
		/* Look at the backlog only now: the loop may have moved a flow to it. */
		rq = bulk ? tg_flow_next_bulk(shard, lane, of, reason) : NULL;
		if (rq || !bulk || !class->paced || class->sparse_leads <= 0)
			return rq;
		/* Sparse flows do not delay a backlog that the pace holds. */
		class->sparse_leads = 0;
	}
}

/*
 * Count a request of @cost that a flow of the class sends, for the limit on sparse flows. Once
 * sparse flows have had all that they may (@most), each request of the backlog lets them send
 * tg_sparse_turns() times its cost. So the backlog's part does not depend on the sizes of requests.
 * If the backlog sends a request before sparse flows have had @most, the count begins again.
 *
 * Hinted requests may exceed the limit, and a user may lower the limit. So count at most twice the
 * limit: otherwise the backlog would keep sparse flows back for long.
 */
static void tg_class_count(const struct tg_shard *shard, struct tg_class *class, bool sparse,
			   u32 cost)
{
	const s64 turns = tg_sparse_turns(shard->tg);
	const s64 most = turns * tg_quantum(shard);

	if (sparse)
		class->sparse_leads += cost;
	else if (class->sparse_leads > most)
		class->sparse_leads = min(class->sparse_leads, 2 * most) - turns * cost;
	else
		class->sparse_leads = min_t(s64, class->sparse_leads, 0);
}

/* Take a flow that ran empty off its class's list. A disk may wait for the flow's next request. */
static void tg_flow_emptied(struct tg_shard *shard, struct tg_flow *flow)
{
	tg_media_emptied(shard, flow);
	if (!flow->sparse)
		tg_backlog_count(shard, tg_flow_class(flow), -1);
	if (flow->index == TG_FLOW_COMMON)
		list_del_init(&flow->turn);
	else
		list_move_tail(&flow->turn, &shard->flows.idle);
}

/*
 * Take a chosen request from its flow, and charge the flow. Return how long the request keeps
 * the device busy, in ns.
 */
u64 tg_flow_take(struct tg_shard *shard, struct request *rq)
{
	struct tg_flow *flow = tg_flow_of(shard, rq);
	struct tg_class *class = tg_flow_class(flow);
	const u32 cost = tg_costs_charge(shard, flow, rq);
	const u32 pace = READ_ONCE(shard->tg->flushes.pace);
	/* Ask only once: other shards change the answer. */
	const bool hinted = flow->sparse && tg_flow_is_hinted(flow) && tg_hinted_may_go(shard);
	/* Decide again: the flow may have moved to the backlog since the request came. */
	const bool eager = tg_flow_is_eager(shard, flow, hinted);
	/*
	 * A submitter that asks for little may have a flow in the backlog, after some long
	 * requests. Its requests still count as eager in its cgroup's account (tg_account_use()).
	 * But one request of more than TG_SPARSE_DEBT turns counts as the cgroup's own bulk.
	 */
	const bool little = tg_is_eager(shard->tg, flow->class, rq) &&
			    cost <= TG_SPARSE_DEBT * tg_quantum(shard);
	u64 time;

	lockdep_assert_held(&shard->lock);

	tg_tag(rq)->cost = cost;
	tg_tag(rq)->urgent = eager && !tg_lane_exceeds_share(shard, flow->lane);
	flow->deficit = tg_share_charge(flow->deficit, cost, flow->level,
					tg_quantum(shard));
	tg_class_count(shard, class, flow->sparse, cost);
	/*
	 * Charge NORMAL's share only if this request needed the share to go: before HIGH, or
	 * outside bulk's budget. Each shard exceeds the share by one request at most.
	 */
	if (hinted &&
	    (shard->counts[PRIO_CLASS_HIGH].queued || tg_little_is_bulk(shard->tg)))
		tg_hinted_charge(shard, cost);
	WRITE_ONCE(shard->served, shard->served + cost);

	list_del_init(&rq->queuelist);
	tg_arrivals_del(&class->arrivals, rq);
	WRITE_ONCE(class->queued, class->queued - 1);
	shard->counts[flow->class].queued--;
	WRITE_ONCE(shard->queued, shard->queued - 1);
	if (list_empty(&flow->fifo))
		tg_flow_emptied(shard, flow);
	tg_tag(rq)->paced = pace && tg_op(rq) == TG_WRITE && !flow->sparse &&
			    flow->class != PRIO_CLASS_HIGH &&
			    !tg_is_waited_out(shard, flow->class);
	if (tg_tag(rq)->paced)
		tg_pace_charge_lane(shard, flow->lane, rq, pace);
	time = cost + tg_media_take(shard, flow, rq);
	tg_lane_take(shard, flow->lane, rq, eager || little, time);
	return time;
}
