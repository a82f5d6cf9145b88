// SPDX-License-Identifier: GPL-2.0-only
/*
 * Merges bios into queued requests of their flow, and so of their class and cgroup.
 *
 * A submitter's plug has already merged the bios that it submitted at once. This part tries to
 * merge a bio into the queued requests of its flow, unless the flow is known to be random. Requests
 * are queued only if the device is busy, and then the search delays no request.
 */
#include <linux/lockdep.h>
#include <linux/sizes.h>

#include "core.h"
#include "device.h"
#include "triage.h"

/* On flash, merges make no request longer than this while urgent requests come; sectors. */
#define TG_MERGED_MAX (SZ_64K >> SECTOR_SHIFT)

/* Return whether bios may be merged into @rq while it is queued. */
bool tg_merges(const struct tg_data *tg, struct request *rq)
{
	return READ_ONCE(tg->tunables.merge) && tg_tag(rq)->held &&
	       tg_moves_data(rq) && !(rq->cmd_flags & REQ_NOMERGE_FLAGS);
}

static noinline bool tg_bio_merge_queued(struct tg_shard *shard, struct request_queue *q,
					 struct bio *bio, unsigned int nr_segs)
{
	const u64 id = tg_submitter_id_of_current(shard->tg);
	struct tg_flow *flow;
	enum prio_class class;
	bool merged = false;

	/* Do not wait for the lock: a merge is not worth the wait. */
	if (!id || !READ_ONCE(shard->tg->tunables.merge) || !spin_trylock(&shard->lock))
		return false;
	WRITE_ONCE(shard->tried_at, jiffies);
	tg_drain(shard);
	class = prio_classify(&shard->tg->tunables.bounds, bio->bi_ioprio);
	flow = tg_flow_find(shard, tg_flow_key(id, bio->bi_opf),
			    tg_group_id(shard->tg, bio), class);
	if (flow && !list_empty(&flow->fifo) && tg_detector_maybe_sequential(&flow->detector))
		merged = blk_bio_list_merge(q, &flow->fifo, bio, nr_segs);
	if (merged) {
		tg_detector_measure(&flow->detector, bio->bi_iter.bi_sector,
				    bio_sectors(bio));
		tg_detector_see(&flow->detector, bio->bi_iter.bi_sector, bio_sectors(bio));
		WRITE_ONCE(shard->merged, shard->merged + 1);
	}
	tg_shard_leave(shard);
	return merged;
}

/*
 * Return whether to search for a queued request that a bio can join. Search if requests are queued
 * or in the inbox, and a flow that is not known to be random got a request lately. Otherwise search
 * once a tick while the inbox has requests.
 */
static bool tg_may_merge(const struct tg_shard *shard)
{
	const unsigned long now = jiffies;

	if (llist_empty(&shard->inbox))
		return READ_ONCE(shard->queued) &&
		       time_before_eq(now, READ_ONCE(shard->merges_until));
	return time_before_eq(now, READ_ONCE(shard->merges_until)) ||
	       now != READ_ONCE(shard->tried_at);
}

/*
 * Try to merge a bio into a queued request. Called for each bio before it gets a request. A
 * polled bio gets a request of a hardware queue for polling. If that queue has a shard of its
 * own, this function does not search that shard, so no bio joins a request there.
 */
bool tg_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs)
{
	struct tg_shard *shard = tg_hctx_of_cpu(q, bio_op(bio))->sched_data;

	return tg_may_merge(shard) && tg_bio_merge_queued(shard, q, bio, nr_segs);
}

/*
 * Return whether a bio may join a request. On a disk requests are sorted by their first sector,
 * so only their end may grow. On flash, longer requests gain nothing while urgent requests
 * come, and delay them.
 */
bool tg_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio)
{
	const struct tg_data *tg = tg_of(q);

	if (tg->rotational)
		return bio->bi_iter.bi_sector >= blk_rq_pos(rq);
	return !tg_pressed(tg) || blk_rq_sectors(rq) + bio_sectors(bio) <= TG_MERGED_MAX;
}
