// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which request of a flow is next. On flash the oldest. On a disk the one that its
 * head comes to next, unless the oldest has waited for too long; and for a moment
 * the disk stays with a sequential reader that is about to ask for more.
 */
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/lockdep.h>

#include "triage.h"

void tg_media_add(struct tg_shard *shard, struct tg_flow *flow, struct request *rq)
{
	if (shard->tg->rotational)
		elv_rb_add(&flow->sorted, rq);
	if (shard->awaited == flow)
		shard->awaited_until = 0;
}

void tg_media_remove(struct tg_shard *shard, struct tg_flow *flow, struct request *rq)
{
	if (shard->tg->rotational)
		elv_rb_del(&flow->sorted, rq);
	flow->position = blk_rq_pos(rq) + blk_rq_sectors(rq);
}

/* The first request at or after a sector, else the first of all. */
static struct request *tg_media_after(const struct rb_root *sorted, sector_t sector)
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

/* The request that is next in a flow that has some. */
struct request *tg_media_next(struct tg_shard *shard, struct tg_flow *flow,
			      enum tg_reason *reason)
{
	struct request *oldest = tg_first(&flow->fifo);
	const unsigned int expire = READ_ONCE(shard->tg->tunables.fifo_expire);

	if (!shard->tg->rotational)
		return oldest;
	if (time_after(jiffies, (unsigned long)oldest->fifo_time +
				msecs_to_jiffies(expire))) {
		*reason = TG_EXPIRED;
		return oldest;
	}
	return tg_media_after(&flow->sorted, flow->position);
}

/* Called when a flow's last request has been taken. */
void tg_media_emptied(struct tg_shard *shard, struct tg_flow *flow)
{
	const unsigned int patience = READ_ONCE(shard->tg->tunables.anticipation);

	if (!shard->tg->rotational || !patience || flow->sparse || flow->deficit <= 0 ||
	    !tg_detector_sequential(&flow->detector))
		return;
	shard->awaited = flow;
	shard->awaited_until = ktime_get_ns() + (u64)patience * NSEC_PER_USEC;
}

/* Whether the disk should stay where it is until a flow's next request comes. */
bool tg_media_awaits(struct tg_shard *shard)
{
	if (!shard->awaited)
		return false;
	if (ktime_get_ns() < shard->awaited_until)
		return true;
	shard->awaited = NULL;
	return false;
}

/* What a request costs that is taken from a flow; NULL: from none. In ns. */
u32 tg_media_cost(struct tg_shard *shard, struct tg_flow *flow, const struct request *rq)
{
	const struct tg_cost *cost = &shard->tg->costs[tg_op(rq)];
	const bool moves_data = req_op(rq) == REQ_OP_READ || req_op(rq) == REQ_OP_WRITE;
	const bool pays_base = !shard->tg->rotational || !flow ||
			       blk_rq_pos(rq) != flow->position;
	const u32 bytes = moves_data ? blk_rq_bytes(rq) : 0;

	lockdep_assert_held(&shard->lock);

	shard->work.requests[tg_op(rq)] += pays_base;
	shard->work.kib[tg_op(rq)] += bytes >> 10;
	return tg_cost_of(cost, bytes, pays_base);
}
