/* SPDX-License-Identifier: GPL-2.0-only */
/* The cost of requests on one device, and how it is learnt. */
#ifndef TG_COSTS_H
#define TG_COSTS_H

#include <linux/spinlock.h>

#include "cost.h"

struct tg_data;

/**
 * struct tg_costs - estimates for one device
 * @of: by enum tg_op; written under @lock, read by anybody, each field by itself
 * @lock: guards all below; taken with a try by whoever sends the first request of a tick
 * @window_until: jiffies; also read without the lock
 * @window_began: ns
 * @window_work: what shards had been given when the window began
 */
struct tg_costs {
	struct tg_cost of[TG_OPS];

	spinlock_t lock; /* guards all below */
	unsigned long window_until;
	u64 window_began;
	struct tg_work window_work[TG_OPS];
};

void tg_costs_init(struct tg_data *tg);
void tg_costs_learn(struct tg_data *tg);

/* Return the cost of turning to a request of @op without moving its data, in ns. */
static inline u32 tg_costs_base(const struct tg_costs *costs, enum tg_op op)
{
	return READ_ONCE(costs->of[op].base);
}

#endif
