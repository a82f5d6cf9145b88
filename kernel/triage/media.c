// SPDX-License-Identifier: GPL-2.0-only
/*
 * Chooses a flow's next request. On flash it is the oldest. On a disk it is the next one by sector
 * behind the flow's last request, unless the oldest has waited for too long. The disk waits for a
 * moment for a sequential flow, if the flow's submitter is about to ask for more, or if more bios
 * are about to join the flow's small request. Meanwhile it serves requests of other flows near the
 * head, because several submitters may read one file together.
 */
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/lockdep.h>
#include <linux/sizes.h>

#include "device.h"
#include "triage.h"

/* A sequential request waits for bios to merge with until it has this length, in sectors. */
#define TG_GATHERED (SZ_64K >> SECTOR_SHIFT)
/*
 * A request does not wait for bios if the disk has fewer requests than this, or if the
 * request's submitter holds no more tags than this.
 */
#define TG_GATHER_BEHIND 2
/* A request does not wait for bios for longer than this. */
#define TG_GATHER_JIFFIES msecs_to_jiffies(8)
/*
 * A request is near if it is at most this far from the head: the head gets there in less time than
 * a seek takes.
 */
#define TG_NEAR_SECTORS 2048
/* tg_disk_near() looks for a near request in at most this many flows. */
#define TG_NEAR_FLOWS 8
/* A flow with a debt of this many turns has to wait for its turn, even if its request is near. */
#define TG_NEAR_DEBT 6
/*
 * While the disk has requests, its wait for a flow ends if none of them completes for this
 * long.
 */
#define TG_BUSY_NS (NSEC_PER_SEC / 4)
/* The disk waits no longer than this for a flow, even if it serves other requests meanwhile. */
#define TG_STAY_NS ((u64)NSEC_PER_SEC)

/*
 * Record that a request has come. If its submitter had no other request for longer than the
 * tunable anticipation, the submitter has paused, and the flow's run in sequence has ended.
 */
void tg_disk_came(struct tg_shard *shard, struct tg_flow *flow, struct request *rq)
{
	const u64 patience = (u64)READ_ONCE(shard->tg->tunables.anticipation) * NSEC_PER_USEC;
	const struct tg_submitter *submitter = tg_tag(rq)->submitter;

	if (atomic_read(&submitter->held) <= 1 &&
	    ktime_get_ns() > READ_ONCE(submitter->back_at) + patience)
		tg_detector_pause(&flow->detector);
	tg_detector_measure(&flow->detector, blk_rq_pos(rq), blk_rq_sectors(rq));
}

void tg_disk_add(struct tg_flow *flow, struct request *rq)
{
	elv_rb_add(&flow->sorted, rq);
}

/* Record that a request came back from the disk. Called in any context, without a lock. */
void tg_disk_back(struct tg_shard *shard, struct request *rq)
{
	const u64 now = ktime_get_ns();

	WRITE_ONCE(shard->head.back_at, now);
	if (tg_tag(rq)->held)
		WRITE_ONCE(tg_tag(rq)->submitter->back_at, now);
}

/*
 * Take a request out of its flow, and record that the head moves to it. Return the time that
 * the request takes beyond its cost, in ns: the cost leaves out the seek of a stream back to
 * its position.
 */
u64 tg_disk_take(struct tg_shard *shard, struct tg_flow *flow, struct request *rq)
{
	const bool back = blk_rq_pos(rq) == flow->position && !tg_disk_is_near(shard, rq);

	elv_rb_del(&flow->sorted, rq);
	flow->position = blk_rq_pos(rq) + blk_rq_sectors(rq);
	shard->head.position = flow->position;
	return back ? tg_costs_base(&shard->tg->costs, tg_op(rq)) : 0;
}

/* Return whether a request is near the head. */
bool tg_disk_is_near(const struct tg_shard *shard, const struct request *rq)
{
	return blk_rq_pos(rq) + TG_NEAR_SECTORS - shard->head.position <= 2 * TG_NEAR_SECTORS;
}

/*
 * Return a flow of the backlog whose oldest request is near the head, and whose debt is not too
 * large. Look only at the first TG_NEAR_FLOWS flows. Return NULL if there is no such flow. But if
 * all flows of the backlog are near and too far in debt, there is no other flow to serve: return
 * the first one, and give it a turn, which lowers its debt.
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

/*
 * Return the first request at or after a sector. If there is none, return the request with the
 * lowest sector.
 */
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

/*
 * Return the next request of a flow that is not empty: the first one behind its last request, or
 * the oldest request if that has waited for longer than fifo_expire.
 */
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

/*
 * Called when a flow has run empty. If the flow was in the backlog, is sequential, and has not used
 * up its turn, have the disk wait for its next request.
 */
void tg_disk_emptied(struct tg_shard *shard, struct tg_flow *flow)
{
	if (flow->sparse || flow->deficit <= 0 || !tg_detector_sequential(&flow->detector))
		return;
	shard->head.awaited = flow;
	shard->head.awaited_at = ktime_get_ns();
}

/*
 * Return whether a flow's only request waits for bios to merge with. It does if it is small and
 * begins where the flow's last request ended, and its submitter holds several tags: then more bios
 * will come. The disk must have other requests, so the wait costs nothing. Requests of HIGH do not
 * wait: their latency sets the length of bulk's turns of the arm.
 */
static bool tg_disk_gathers(const struct tg_shard *shard, const struct tg_flow *flow)
{
	const struct tg_data *tg = shard->tg;
	struct request *rq;

	if (flow->class == PRIO_CLASS_HIGH || !READ_ONCE(tg->tunables.anticipation) ||
	    !list_is_singular(&flow->fifo) || tg_device_has(&shard->device) < TG_GATHER_BEHIND)
		return false;
	rq = list_first_entry(&flow->fifo, struct request, queuelist);
	return blk_rq_pos(rq) == flow->position && blk_rq_sectors(rq) < TG_GATHERED &&
	       tg_merges(tg, rq) && atomic_read(&tg_tag(rq)->submitter->held) > TG_GATHER_BEHIND &&
	       time_before(jiffies, (unsigned long)rq->fifo_time + TG_GATHER_JIFFIES);
}

/*
 * Return whether a flow's only request stays queued, to wait for bios to merge with. If so,
 * make the disk wait for this flow.
 */
bool tg_disk_stays(struct tg_shard *shard, struct tg_flow *flow)
{
	if (!tg_disk_gathers(shard, flow))
		return false;
	shard->head.awaited = flow;
	shard->head.awaited_at = ktime_get_ns();
	return true;
}

/*
 * Return how long the disk should wait for the awaited flow's next request, in ns. If it should not
 * wait, forget the flow and return 0. The wait begins anew with each request that the disk
 * completes: a reader asks for more only after that.
 */
u64 tg_disk_wait(struct tg_shard *shard)
{
	const u64 patience = (u64)READ_ONCE(shard->tg->tunables.anticipation) * NSEC_PER_USEC;
	const u64 now = ktime_get_ns();
	u64 until;

	if (patience && (list_empty(&shard->head.awaited->fifo) ||
			 tg_disk_gathers(shard, shard->head.awaited))) {
		until = max(shard->head.awaited_at, READ_ONCE(shard->head.back_at)) +
			(tg_device_has(&shard->device) ? TG_BUSY_NS : patience);
		until = min(until, shard->head.awaited_at + TG_STAY_NS);
		if (now < until)
			return until - now;
	}
	shard->head.awaited = NULL;
	return 0;
}
