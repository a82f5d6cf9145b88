// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which flow of a class is next: those that ask for little first, then each for as
 * much cost as its turn allows (deficit round robin).
 *
 * Flows are found by hash in a table of fixed size. A flow without requests can be
 * given to another submitter at any time, and if all that a submitter could have
 * are taken it shares one: it then shares a turn, nothing worse.
 */
#include <linux/hash.h>
#include <linux/ioprio.h>
#include <linux/jiffies.h>
#include <linux/lockdep.h>
#include <linux/sched.h>

#include "triage.h"

/* What sparse flows may have before the backlog gets a turn, in turns. */
#define TG_SPARSE_TURNS_FLASH 16
#define TG_SPARSE_TURNS_DISK 4
/* Who owes so many turns does not ask for little. */
#define TG_SPARSE_DEBT 4

/* The kernel's own threads write for others: go by the cgroup that pays for it. */
static u32 tg_key(const struct request *rq)
{
	const u32 key = tg_tag((struct request *)rq)->key;

#ifdef CONFIG_BLK_CGROUP
	if (!key && rq->bio && rq->bio->bi_blkg)
		return hash_ptr(rq->bio->bi_blkg, 32);
#endif
	return key;
}

/*
 * The flow of a submitter. Looks only: with none of its own, one that it may have,
 * whose key and class then are another's.
 */
struct tg_flow *tg_flow_find(struct tg_shard *shard, u32 key, enum prio_class class)
{
	const u32 set = hash_32(key ^ (u32)class << 30, ilog2(TG_FLOW_SETS));
	struct tg_flow *ways = &shard->flows[set * TG_FLOW_WAYS];
	struct tg_flow *found = NULL;
	int i;

	lockdep_assert_held(&shard->lock);

	for (i = 0; i < TG_FLOW_WAYS; i++) {
		if (ways[i].key == key && ways[i].class == class)
			return &ways[i];
		if (!found && list_empty(&ways[i].fifo))
			found = &ways[i];
	}
	return found ?: &ways[key % TG_FLOW_WAYS];
}

static s64 tg_quantum(const struct tg_shard *shard)
{
	return (s64)READ_ONCE(shard->tg->tunables.quantum) * NSEC_PER_USEC;
}

static struct tg_flow *tg_flow_get(struct tg_shard *shard, u32 key, enum prio_class class)
{
	struct tg_flow *flow = tg_flow_find(shard, key, class);

	if ((flow->key != key || flow->class != class) && list_empty(&flow->fifo)) {
		flow->key = key;
		flow->class = class;
		flow->deficit = tg_quantum(shard);
		flow->detector = (struct tg_detector){};
		if (shard->awaited == flow)
			shard->awaited = NULL;
	}
	return flow;
}

/*
 * A flow that had nothing queued comes first if it asks for little: seldom, and not
 * for several turns at once, which it has to wait for like others. A disk that goes
 * back and forth between streams does nothing else, so there they take turns.
 */
static bool tg_flow_is_sparse(const struct tg_shard *shard, const struct tg_flow *flow,
			      const struct request *rq)
{
	if (flow->class == PRIO_CLASS_LOW || flow->deficit < -TG_SPARSE_DEBT * tg_quantum(shard) ||
	    !tg_tags_few(shard->tg, rq))
		return false;
	return !shard->tg->rotational || !tg_detector_streams(&flow->detector);
}

/*
 * A flow that was empty gets no more than it had left of its turn, or still owes; one
 * that asks for little gets a turn.
 */
static void tg_flow_start(struct tg_shard *shard, struct tg_flow *flow, bool sparse)
{
	struct tg_class *class = &shard->classes[flow->class];

	flow->sparse = sparse;
	if (sparse) {
		flow->deficit = tg_quantum(shard);
		list_add_tail(&flow->turn, &class->sparse);
	} else if (shard->awaited == flow) {
		list_add(&flow->turn, &class->backlog);
	} else {
		list_add_tail(&flow->turn, &class->backlog);
	}
}

/* None has no level: what a process that never asked gets is 4. */
static u8 tg_level(struct request *rq)
{
	const unsigned short ioprio = req_get_ioprio(rq);

	return IOPRIO_PRIO_CLASS(ioprio) == IOPRIO_CLASS_NONE ?
	       IOPRIO_BE_NORM : ioprio & (IOPRIO_NR_LEVELS - 1);
}

/* Whether somebody waits for what a flow has. */
static bool tg_flow_is_urgent(const struct tg_flow *flow)
{
	return flow->sparse || flow->class == PRIO_CLASS_HIGH;
}

/* Queue a new request. */
void tg_flow_add(struct tg_shard *shard, struct request *rq)
{
	struct tg_tag *tag = tg_tag(rq);
	struct tg_class *class;
	struct tg_flow *flow;
	bool urgent;

	lockdep_assert_held(&shard->lock);

	/* Decided once, here: rq->bio may change after it. */
	tag->class = tg_class_of(shard->tg, rq);
	class = &shard->classes[tag->class];
	flow = tg_flow_get(shard, tg_key(rq), tag->class);
	flow->level = tg_level(rq);
	tag->flow = flow - shard->flows;

	tg_media_came(shard, flow, rq);
	tg_detector_see(&flow->detector, blk_rq_pos(rq), blk_rq_sectors(rq));
	if (list_empty(&flow->fifo))
		tg_flow_start(shard, flow, tg_flow_is_sparse(shard, flow, rq));
	urgent = tg_flow_is_urgent(flow);

	list_add_tail(&rq->queuelist, &flow->fifo);
	tg_media_add(shard, flow, rq);
	class->queued++;
	class->inserted++;
	WRITE_ONCE(shard->queued, shard->queued + 1);

	if (urgent)
		tg_urgent_seen(shard->tg);
	if (urgent || tg_media_awaited(shard, flow, rq) || test_bit(TG_LIMITED, &shard->state))
		tg_unthrottle(shard);
}

/* The backlog's flow whose turn it is; those that have had theirs go to its end. */
static struct tg_flow *tg_flow_turn(struct tg_shard *shard, struct tg_class *class)
{
	const s64 quantum = tg_quantum(shard);
	struct tg_flow *flow;

	for (;;) {
		flow = list_first_entry(&class->backlog, struct tg_flow, turn);
		if (flow->deficit > 0)
			return flow;
		flow->deficit = tg_share_turn(flow->deficit, quantum);
		list_move_tail(&flow->turn, &class->backlog);
	}
}

/*
 * The next request of a class's backlog; NULL: it has none, or is to wait for a reader
 * of this class or a more urgent one.
 */
struct request *tg_flow_next_bulk(struct tg_shard *shard, struct tg_class *class,
				  enum tg_reason *reason)
{
	struct tg_flow *flow;

	lockdep_assert_held(&shard->lock);

	if (list_empty(&class->backlog))
		return NULL;
	flow = shard->tg->rotational ? tg_disk_near(shard, class) : NULL;
	if (!flow && tg_media_wait(shard) && &shard->classes[shard->awaited->class] <= class)
		return NULL;
	if (!flow)
		flow = tg_flow_turn(shard, class);
	if (tg_media_stays(shard, flow))
		return NULL;
	*reason = list_is_singular(&class->backlog) ? TG_STRICT : TG_DEFICIT;
	return tg_media_next(shard, flow, reason);
}

/*
 * The next request of a class; NULL: none may go. @bulk: whether those of the backlog
 * may.
 */
struct request *tg_flow_next(struct tg_shard *shard, struct tg_class *class,
			     bool bulk, enum tg_reason *reason)
{
	const s64 quantum = tg_quantum(shard);
	struct tg_flow *flow;

	lockdep_assert_held(&shard->lock);

	if (!bulk || list_empty(&class->backlog))
		class->sparse_had = 0;
	while (!list_empty(&class->sparse) &&
	       class->sparse_had <= quantum * (shard->tg->rotational ?
					       TG_SPARSE_TURNS_DISK :
					       TG_SPARSE_TURNS_FLASH)) {
		flow = list_first_entry(&class->sparse, struct tg_flow, turn);
		if (flow->deficit > 0) {
			*reason = TG_SPARSE;
			return tg_media_next(shard, flow, reason);
		}
		/* It asked for more than little after all. */
		flow->sparse = false;
		flow->deficit += quantum;
		list_move_tail(&flow->turn, &class->backlog);
	}
	/* Only now: the backlog may just have got its first. */
	return bulk ? tg_flow_next_bulk(shard, class, reason) : NULL;
}

/*
 * Take a request that was chosen from its flow, which pays for it. Return: for how long it
 * keeps the device from others, in ns.
 */
u64 tg_flow_take(struct tg_shard *shard, struct request *rq)
{
	struct tg_flow *flow = &shard->flows[tg_tag(rq)->flow];
	struct tg_class *class = &shard->classes[flow->class];
	const u32 cost = tg_media_cost(shard, flow, rq);

	lockdep_assert_held(&shard->lock);

	tg_tag(rq)->cost = cost;
	/* By now it may have turned out that its flow asks for more than little. */
	tg_tag(rq)->urgent = tg_flow_is_urgent(flow);
	flow->deficit = tg_share_charge(flow->deficit, cost, flow->level,
					tg_quantum(shard));
	if (flow->sparse)
		class->sparse_had += cost;
	else
		class->sparse_had = 0;

	list_del_init(&rq->queuelist);
	class->queued--;
	WRITE_ONCE(shard->queued, shard->queued - 1);
	if (list_empty(&flow->fifo)) {
		list_del_init(&flow->turn);
		tg_media_emptied(shard, flow);
	}
	return cost + tg_media_take(shard, flow, rq);
}
