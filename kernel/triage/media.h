/* SPDX-License-Identifier: GPL-2.0-only */
/* Chooses a flow's next request: on flash the oldest, on a disk by sector (media.c). */
#ifndef TG_MEDIA_H
#define TG_MEDIA_H

#include <linux/blk-mq.h>

#include "flow.h"

struct tg_shard;

/**
 * struct tg_head - a disk's head
 * @position: the sector behind the last request that was dispatched
 * @awaited: the flow for whose next request the disk waits, with its head in place; NULL: the disk
 *	does not wait
 * @awaited_at: when the disk began to wait, in ns
 * @back_at: when a request last came back from the disk, in ns; written by completions
 *
 * The shard's lock guards all fields except @back_at.
 */
struct tg_head {
	sector_t position;
	struct tg_flow *awaited;
	u64 awaited_at;
	u64 back_at;
};

void tg_disk_came(struct tg_shard *shard, struct tg_flow *flow, struct request *rq);
void tg_disk_add(struct tg_flow *flow, struct request *rq);
void tg_disk_back(struct tg_shard *shard, struct request *rq);
u64 tg_disk_take(struct tg_shard *shard, struct tg_flow *flow, struct request *rq);
struct request *tg_disk_next(struct tg_shard *shard, struct tg_flow *flow,
			     enum tg_reason *reason);
void tg_disk_emptied(struct tg_shard *shard, struct tg_flow *flow);
bool tg_disk_is_near(const struct tg_shard *shard, const struct request *rq);
struct tg_flow *tg_disk_near(struct tg_shard *shard, struct tg_class *class);
bool tg_disk_stays(struct tg_shard *shard, struct tg_flow *flow);
u64 tg_disk_wait(struct tg_shard *shard);

#endif
