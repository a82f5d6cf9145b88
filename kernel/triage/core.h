/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Inserts, dispatches and holds requests, and runs the hardware queues. core.c explains its
 * rules. The other parts of triage make the decisions: for example, which request is next, and
 * how much bulk may be in the device.
 */
#ifndef TG_CORE_H
#define TG_CORE_H

#include <linux/blk-mq.h>

#include "iosched.h"

struct tg_data;
struct tg_shard;

/* Operations of the elevator, for main.c: */
void tg_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
			blk_insert_t flags);
struct request *tg_dispatch_request(struct blk_mq_hw_ctx *hctx);
bool tg_has_work(struct blk_mq_hw_ctx *hctx);

/* For code that takes a shard's lock but does not dispatch: */
void tg_drain(struct tg_shard *shard);
void tg_shard_enter(struct tg_shard *shard) __acquires(&shard->lock);
void tg_shard_leave(struct tg_shard *shard) __releases(&shard->lock);

bool tg_waits_for_bulk(const struct tg_shard *shard);
void tg_watch_others(struct tg_shard *shard, u64 ns);
void tg_wake(struct tg_data *tg, unsigned int most);
void tg_core_init(struct tg_shard *shard, struct tg_data *tg);
void tg_core_wait_for_inserters(void);
void tg_core_exit(struct tg_shard *shard);

#endif
