/* SPDX-License-Identifier: GPL-2.0-only */
/* Keeps the learnt cost of requests on one device. */
#ifndef TG_COSTS_H
#define TG_COSTS_H

#include <linux/spinlock.h>

#include "cost.h"

struct tg_data;

/**
 * struct tg_costs - estimates for one device, learnt over windows of time
 * @of: cost of each kind of request, by enum tg_op; written under @lock, read without a lock
 * @lock: guards all below. Taken with trylock only: if another CPU learns at this moment, this one
 *	need not.
 * @sure: the costs as they were last learnt from a busy device, or the first guesses
 * @window_until: jiffies when the present window ends; also read without the lock
 * @window_began: when the present window began, in ns
 * @window_work: the work of all shards before the window, by enum tg_op (see TG_WORK_ONE)
 * @window_served: the cost of bulk that had come back before the window (tg_bulk_served()), in ns
 * @window_excess: tg_controller.excess before the window, in ns
 */
struct tg_costs {
	struct tg_cost of[TG_OPS];

	spinlock_t lock; /* guards all below */
	struct tg_cost sure[TG_OPS];
	unsigned long window_until;
	u64 window_began;
	u64 window_work[TG_OPS];
	u64 window_served;
	u64 window_excess;
};

void tg_costs_init(struct tg_data *tg);
void tg_costs_learn(struct tg_data *tg);

/* Return the base of requests of @op, in ns: their cost without their data. */
static inline u32 tg_costs_base(const struct tg_costs *costs, enum tg_op op)
{
	return READ_ONCE(costs->of[op].base);
}

#endif
