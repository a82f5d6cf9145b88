// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which request of a flow is next. On flash the oldest. On a disk the one that its
 * head comes to next, unless the oldest has waited for too long; and for a moment
 * the disk stays with a sequential reader that is about to ask for more, but for what
 * others want right there: several may read one thing together.
 */
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/lockdep.h>

#include "triage.h"

/* Right there: so many sectors on are sooner passed by than gone to, or just were. */
#define TG_NEAR_SECTORS 256
/* Looked for in so many flows. */
#define TG_NEAR_FLOWS 8
/* Who owes so many turns waits for his. */
#define TG_NEAR_DEBT 4

void tg_disk_add(struct tg_shard *shard, struct tg_flow *flow, struct request *rq)
{
	elv_rb_add(&flow->sorted, rq);
	if (shard->awaited == flow)
		shard->awaited_until = 0;
}

void tg_disk_remove(struct tg_shard *shard, struct tg_flow *flow, struct request *rq)
{
	elv_rb_del(&flow->sorted, rq);
	flow->position = blk_rq_pos(rq) + blk_rq_sectors(rq);
	shard->head = flow->position;
}

bool tg_disk_is_near(const struct tg_shard *shard, const struct request *rq)
{
	return blk_rq_pos(rq) + TG_NEAR_SECTORS - shard->head <= 2 * TG_NEAR_SECTORS;
}

/* A flow of the backlog that wants what is next under the head; NULL: none does. */
struct tg_flow *tg_disk_near(struct tg_shard *shard, struct tg_class *class)
{
	const s64 least = -TG_NEAR_DEBT * (s64)READ_ONCE(shard->tg->tunables.quantum) *
			  NSEC_PER_USEC;
	unsigned int looked = 0;
	struct tg_flow *flow;

	list_for_each_entry(flow, &class->backlog, turn) {
		if (flow->deficit > least && tg_disk_is_near(shard, tg_first(&flow->fifo)))
			return flow;
		if (++looked == TG_NEAR_FLOWS)
			break;
	}
	return NULL;
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
	const unsigned int patience = READ_ONCE(shard->tg->tunables.anticipation);

	if (!patience || flow->sparse || flow->deficit <= 0 ||
	    !tg_detector_sequential(&flow->detector))
		return;
	shard->awaited = flow;
	shard->awaited_until = ktime_get_ns() + (u64)patience * NSEC_PER_USEC;
}

bool tg_disk_awaits(struct tg_shard *shard)
{
	if (ktime_get_ns() < shard->awaited_until)
		return true;
	shard->awaited = NULL;
	return false;
}
