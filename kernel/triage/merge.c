// SPDX-License-Identifier: GPL-2.0-only
/*
 * What belongs together becomes one request: inside a flow, so inside a class.
 *
 * A submitter's plug has merged what came at once. Here a sequential flow's bio is
 * tried on what of the flow still waits, which is something only if the device is
 * busy; looking there then costs nobody's time.
 */
#include <linux/lockdep.h>
#include <linux/sizes.h>

#include "triage.h"

/* What requests may grow to while somebody waits on latency, in sectors. */
#define TG_MERGED_MAX (SZ_64K >> SECTOR_SHIFT)

/* Whether a bio might be merged with a request that waits. */
bool tg_merges(const struct tg_data *tg, struct request *rq)
{
	return READ_ONCE(tg->tunables.merge) && tg_tag(rq)->key &&
	       tg_moves_data(rq) && !(rq->cmd_flags & REQ_NOMERGE_FLAGS);
}

static noinline bool tg_bio_merge_queued(struct tg_shard *shard, struct request_queue *q,
					 struct bio *bio, unsigned int nr_segs)
{
	const enum prio_class class = prio_classify(&shard->tg->tunables.bounds,
						    bio->bi_ioprio);
	const u32 key = tg_key_of_current();
	struct tg_flow *flow;
	bool merged = false;

	if (!key || !READ_ONCE(shard->tg->tunables.merge) || !spin_trylock(&shard->lock))
		return false;
	tg_drain(shard);
	flow = tg_flow_find(shard, key, class);
	if (flow->key == key && flow->class == class && !list_empty(&flow->fifo) &&
	    tg_detector_maybe_sequential(&flow->detector))
		merged = blk_bio_list_merge(q, &flow->fifo, bio, nr_segs);
	if (merged) {
		tg_detector_measure(&flow->detector, bio->bi_iter.bi_sector,
				    bio_sectors(bio));
		tg_detector_see(&flow->detector, bio->bi_iter.bi_sector, bio_sectors(bio));
		shard->merged++;
	}
	tg_leave(shard);
	return merged;
}

/* Called for each bio before it gets a request. */
bool tg_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs)
{
	const struct blk_mq_ctx *ctx = raw_cpu_ptr(q->queue_ctx);
	const enum hctx_type type = bio_op(bio) == REQ_OP_READ ? HCTX_TYPE_READ :
								 HCTX_TYPE_DEFAULT;
	struct tg_shard *shard = ctx->hctxs[type]->sched_data;

	return (READ_ONCE(shard->queued) || !llist_empty(&shard->inbox)) &&
	       tg_bio_merge_queued(shard, q, bio, nr_segs);
}

/*
 * On a disk requests are sorted by where they begin, so only their end may grow. On
 * flash nothing is won by length while somebody waits on latency, and a long request
 * is in the way for long.
 */
bool tg_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio)
{
	const struct tg_data *tg = tg_of(q);

	if (tg->rotational)
		return bio->bi_iter.bi_sector >= blk_rq_pos(rq);
	return !tg_pressed(tg) || blk_rq_sectors(rq) + bio_sectors(bio) <= TG_MERGED_MAX;
}
