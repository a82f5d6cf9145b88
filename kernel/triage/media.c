// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which request of a flow is next. On flash the oldest. On a disk the one that its
 * head comes to next, unless the oldest has waited for too long; and for a moment
 * the disk stays with a sequential reader that is about to ask for more, or whose small
 * request is about to grow, but for what others want right there: several may read one
 * thing together.
 */
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/lockdep.h>
#include <linux/sizes.h>

#include "triage.h"

/* A stream's request waits for what it merges with until it is so long, in sectors, */
#define TG_GATHERED (SZ_64K >> SECTOR_SHIFT)
/* until the disk has fewer than these to go on with, */
#define TG_GATHER_BEHIND 2
/* or for so long, whatever the disk does. */
#define TG_GATHER_JIFFIES msecs_to_jiffies(8)
/* Right there: so many sectors on are sooner passed by than gone to, or just were. */
#define TG_NEAR_SECTORS 2048
/* Looked for in so many flows. */
#define TG_NEAR_FLOWS 8
/* Who owes so many turns waits for his. */
#define TG_NEAR_DEBT 6
/* A disk that has not answered for so long has other troubles than going to and fro. */
#define TG_BUSY_NS (NSEC_PER_SEC / 4)
/* Nor is one awaited for longer, whatever the disk does for others meanwhile. */
#define TG_STAY_NS ((u64)NSEC_PER_SEC)

/* Who had nothing with the kernel for a moment did something else than read on. */
void tg_disk_came(struct tg_shard *shard, struct tg_flow *flow, struct request *rq)
{
	const u64 patience = (u64)READ_ONCE(shard->tg->tunables.anticipation) * NSEC_PER_USEC;

	tg_tag(rq)->on_disk = true;
	if (tg_tags_one(shard->tg, rq) && ktime_get_ns() > READ_ONCE(flow->back_at) + patience)
		tg_detector_pause(&flow->detector);
	tg_detector_measure(&flow->detector, blk_rq_pos(rq), blk_rq_sectors(rq));
}

void tg_disk_add(struct tg_shard *shard, struct tg_flow *flow, struct request *rq)
{
	elv_rb_add(&flow->sorted, rq);
}

/*
 * Take a request out, to which the head goes. Return: what that takes beyond its cost, in
 * ns: a stream does not pay for the way back to where others sent the arm away.
 */
u64 tg_disk_take(struct tg_shard *shard, struct tg_flow *flow, struct request *rq)
{
	const bool back = blk_rq_pos(rq) == flow->position && !tg_disk_is_near(shard, rq);

	elv_rb_del(&flow->sorted, rq);
	flow->position = blk_rq_pos(rq) + blk_rq_sectors(rq);
	shard->head = flow->position;
	return back ? shard->tg->costs[tg_op(rq)].base : 0;
}

bool tg_disk_is_near(const struct tg_shard *shard, const struct request *rq)
{
	return blk_rq_pos(rq) + TG_NEAR_SECTORS - shard->head <= 2 * TG_NEAR_SECTORS;
}

/*
 * A flow of the backlog that wants what is next under the head; NULL: none does. Not
 * at the expense of others: where nobody else waits its turns cost nobody anything.
 */
struct tg_flow *tg_disk_near(struct tg_shard *shard, struct tg_class *class)
{
	const s64 quantum = (s64)READ_ONCE(shard->tg->tunables.quantum) * NSEC_PER_USEC;
	struct tg_flow *flow, *indebted = NULL;
	unsigned int looked = 0;
	bool far = false;

	list_for_each_entry(flow, &class->backlog, turn) {
		if (++looked > TG_NEAR_FLOWS)
			return NULL;
		if (!tg_disk_is_near(shard, tg_first(&flow->fifo)))
			far = true;
		else if (flow->deficit > -TG_NEAR_DEBT * quantum)
			return flow;
		else if (!indebted)
			indebted = flow;
	}
	if (far || !indebted)
		return NULL;
	indebted->deficit += quantum;
	return indebted;
}

/* The first request at or after a sector, else the first of all. */
static struct request *tg_disk_after(const struct rb_root *sorted, sector_t sector)
{
	struct rb_node *node = sorted->rb_node;
	struct request *found = NULL;

	while (node) {
		struct request *rq = rb_entry(node, struct request, rb_node);

		if (blk_rq_pos(rq) >= sector) {
			found = rq;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return found ?: rb_entry(rb_first(sorted), struct request, rb_node);
}

struct request *tg_disk_next(struct tg_shard *shard, struct tg_flow *flow,
			     enum tg_reason *reason)
{
	struct request *oldest = tg_first(&flow->fifo);
	const unsigned int expire = READ_ONCE(shard->tg->tunables.fifo_expire);

	if (time_after(jiffies, (unsigned long)oldest->fifo_time +
				msecs_to_jiffies(expire))) {
		*reason = TG_EXPIRED;
		return oldest;
	}
	return tg_disk_after(&flow->sorted, flow->position);
}

void tg_disk_emptied(struct tg_shard *shard, struct tg_flow *flow)
{
	if (flow->sparse || flow->deficit <= 0 || !tg_detector_sequential(&flow->detector))
		return;
	shard->awaited = flow;
	shard->awaited_at = ktime_get_ns();
}

static u32 tg_disk_has(const struct tg_shard *shard)
{
	return tg_gauge_count(&shard->bulk) + tg_gauge_count(&shard->urgent);
}

/*
 * Whether a flow's latest request is to wait for what merges with it. It begins where
 * the one before ended, of who asks for several at once, so more comes; and the disk
 * goes on meanwhile with what it has, so that costs nobody anything. Not of HIGH, by
 * whose requests the turns of the arm are measured.
 */
static bool tg_disk_gathers(const struct tg_shard *shard, const struct tg_flow *flow)
{
	const struct tg_data *tg = shard->tg;
	struct request *rq;

	if (flow->class == PRIO_CLASS_HIGH || !READ_ONCE(tg->tunables.anticipation) ||
	    !list_is_singular(&flow->fifo) || tg_disk_has(shard) < TG_GATHER_BEHIND)
		return false;
	rq = list_first_entry(&flow->fifo, struct request, queuelist);
	return blk_rq_pos(rq) == flow->position && blk_rq_sectors(rq) < TG_GATHERED &&
	       tg_merges(tg, rq) && tg_tags_held(tg, rq) > TG_GATHER_BEHIND &&
	       time_before(jiffies, (unsigned long)rq->fifo_time + TG_GATHER_JIFFIES);
}

/* Whether a flow whose turn it is waits for what merges; the disk then stays with it. */
bool tg_disk_stays(struct tg_shard *shard, struct tg_flow *flow)
{
	if (!tg_disk_gathers(shard, flow))
		return false;
	shard->awaited = flow;
	shard->awaited_at = ktime_get_ns();
	return true;
}

/*
 * For how long the disk should stay where it is until the reader's next request comes,
 * in ns; 0: it should not. He has nothing to ask for before the disk has answered.
 */
u64 tg_disk_wait(struct tg_shard *shard)
{
	const u64 patience = (u64)READ_ONCE(shard->tg->tunables.anticipation) * NSEC_PER_USEC;
	const u64 now = ktime_get_ns();
	u64 until;

	if (patience && (list_empty(&shard->awaited->fifo) ||
			 tg_disk_gathers(shard, shard->awaited))) {
		until = max(shard->awaited_at, READ_ONCE(shard->tg->disk_back_at)) +
			(tg_disk_has(shard) ? TG_BUSY_NS : patience);
		until = min(until, shard->awaited_at + TG_STAY_NS);
		if (now < until)
			return until - now;
	}
	shard->awaited = NULL;
	return 0;
}
