// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keeps scheduler tags free for flows that hold few.
 *
 * A request needs one of these tags before any scheduler sees it, and waits for it
 * in no order of ours. So who holds many may not take the last ones.
 */
#include <linux/hash.h>
#include <linux/ioprio.h>
#include <linux/sbitmap.h>
#include <linux/sched.h>

#include "triage.h"

/* For who holds many, of each 64: always, and while somebody waits on latency. */
#define TG_TAGS_FULL 62
#define TG_TAGS_PRESSED 48

static u8 tg_slot_of(u32 key)
{
	return hash_32(key, TG_SLOT_BITS);
}

static bool tg_current_is_high(const struct tg_data *tg)
{
	return prio_classify(&tg->tunables.bounds, get_current_ioprio()) ==
	       PRIO_CLASS_HIGH;
}

/* Called before a tag is taken; for whom, only the task tells. */
void tg_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct tg_data *tg = tg_of(data->q);
	const u8 slot = tg_slot_of(tg_key_of_current());

	if (atomic_read(&tg->slots[slot].held) < TG_TAGS_FEW || tg_current_is_high(tg))
		return;
	data->shallow_depth = READ_ONCE(tg->pressed) ? READ_ONCE(tg->depth_pressed) :
						       READ_ONCE(tg->depth_full);
}

/* Called when a hardware queue's number of tags is set; it is the same for all. */
void tg_tags_resized(struct blk_mq_hw_ctx *hctx)
{
	struct tg_data *tg = tg_of(hctx->queue);
	const struct blk_mq_tags *tags = hctx->sched_tags;

	WRITE_ONCE(tg->depth_full, iosched_shallow_depth(tags, TG_TAGS_FULL,
							 tg->whole_depth));
	WRITE_ONCE(tg->depth_pressed, iosched_shallow_depth(tags, TG_TAGS_PRESSED,
							    tg->whole_depth));
	/*
	 * Who waits for a tag is woken by each that becomes free, not by every eighth:
	 * eight that wake together keep the CPU from who waits for an answer.
	 */
	sbitmap_queue_min_shallow_depth(&hctx->sched_tags->bitmap_tags, 1);
}

void tg_prepare_request(struct request *rq)
{
	struct tg_data *tg = tg_of(rq->q);
	const u32 key = tg_key_of_current();
	const u8 slot = tg_slot_of(key);
	int held;

	*tg_tag(rq) = (struct tg_tag){ .key = key, .slot = slot, .held = true };
	held = atomic_inc_return(&tg->slots[slot].held);
	if (held > TG_SPARSE_TAGS)
		WRITE_ONCE(tg->slots[slot].several_at, jiffies);
	if (held == TG_TAGS_FEW + 1)
		atomic_inc(&tg->nr_greedy);
}
