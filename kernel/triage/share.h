/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Computes turns of flows and guaranteed shares of classes.
 *
 * Pure functions that also compile in user space, where they are tested.
 */
#ifndef TG_SHARE_H
#define TG_SHARE_H

#include "pure.h"

#define TG_LEVELS 8
/* A flow's largest debt, in quanta, so that one huge request does not count for ever. */
#define TG_DEBT_MAX 64
/* A flow with a debt of more turns than this is not sparse. */
#define TG_SPARSE_DEBT 4

/**
 * tg_share_charge() - charge a flow for a request
 * @deficit: the rest of the flow's turn, in ns of cost; below 0: its debt
 * @cost: of the request, in ns
 * @level: I/O priority level, 0 to 7. The flow's weight is 8 - level; at level 4, the default, the
 *	charge is the cost itself
 * @quantum: a turn, in ns
 *
 * Return: the new deficit
 */
static inline s64 tg_share_charge(s64 deficit, u32 cost, u8 level, u32 quantum)
{
	const u64 charge = (u64)cost * 4 / (TG_LEVELS - level);

	return max_t(s64, deficit - (s64)charge, -(s64)quantum * TG_DEBT_MAX);
}

/**
 * tg_share_turn() - give a flow its next turn
 * @deficit: the rest of the flow's turn, or its debt (below 0), in ns of cost; the debt may
 *	come from a time when the quantum was longer
 * @quantum: a turn, in ns
 *
 * Return: the new deficit; it is above 0 after at most TG_DEBT_MAX turns
 */
static inline s64 tg_share_turn(s64 deficit, u32 quantum)
{
	return max_t(s64, deficit, -(s64)quantum * TG_DEBT_MAX + 1) + quantum;
}

/**
 * tg_share_rounds() - the number of turns that a flow needs until it may send
 * @deficit: the rest of its turn, or its debt, in ns of cost
 * @quantum: a turn, in ns
 */
static inline s64 tg_share_rounds(s64 deficit, u32 quantum)
{
	return deficit > 0 ? 0 : (s64)div64_u64(-deficit, quantum) + 1;
}

/**
 * tg_share_due() - the device time that a waiting class is due after another class was served
 * @time: device time that the other class had, in ns
 * @percent: the share of all device time that the class is guaranteed; below 100
 *
 * Return: ns. This time is @percent of the sum of itself and @time.
 */
static inline u64 tg_share_due(u64 time, u32 percent)
{
	return time * percent / (100 - percent);
}

/**
 * tg_share_time() - the virtual time that a cost takes
 * @cost: in ns
 * @weight: 1 to 10000; at 100 the virtual time is the cost itself
 *
 * Return: ns
 */
static inline u64 tg_share_time(u64 cost, u32 weight)
{
	return cost * 100 / weight;
}

/* The weight of a flow of NORMAL among those of other hardware queues. */
#define TG_FLOW_WEIGHT 4096
/* A hardware queue counts at most this many flows, so that costs times weights fit 64 bits. */
#define TG_FLOWS_MOST 64

/**
 * struct tg_flows_waiting - flows whose bulk waits for the device, of several hardware queues
 * @normal: number of flows on the queues that have flows of NORMAL
 * @low: number of flows on the queues that have only flows of LOW
 */
struct tg_flows_waiting {
	u32 normal;
	u32 low;
};

/**
 * tg_share_low() - the weight of all flows of LOW together
 * @waiting: the flows that wait
 * @percent: the share of all device time that LOW is guaranteed; below 100
 */
static inline u32 tg_share_low(const struct tg_flows_waiting *waiting, u32 percent)
{
	return max_t(u64, tg_share_due(max_t(u32, waiting->normal, 1) * TG_FLOW_WEIGHT, percent),
		     1);
}

/**
 * tg_share_of_queue() - the weight of a hardware queue's bulk
 * @waiting: the flows that wait on all hardware queues
 * @flows: number of this queue's flows that wait; above 0
 * @only_low: all of them are of LOW
 * @percent: the share of all device time that LOW is guaranteed; below 100
 *
 * Return: the weight. By it hardware queues share the device as the flows would on one queue: those
 * of NORMAL have equal parts of the device, those of LOW have equal parts of LOW's share.
 */
static inline u32 tg_share_of_queue(const struct tg_flows_waiting *waiting, u32 flows,
				    bool only_low, u32 percent)
{
	if (!only_low)
		return flows * TG_FLOW_WEIGHT;
	return max_t(u64, (u64)tg_share_low(waiting, percent) * flows /
		     max_t(u32, waiting->low, flows), 1);
}

/**
 * tg_share_spent() - charge a class's guaranteed share for a request that goes out of turn
 * @due: this request was allowed to go out of turn once @served reached this, in ns
 * @served: cost of all requests so far, in ns
 * @burst: cost that may go out of turn at once after a pause, in ns
 * @cost: of this request, in ns
 * @percent: the share; above 0
 *
 * Return: the new @due, for the next request
 */
static inline u64 tg_share_spent(u64 due, u64 served, u64 burst, u32 cost, u32 percent)
{
	const u64 paused = div64_u64(burst * 100, percent);

	return max_t(u64, due, served - min_t(u64, served, paused)) +
	       div64_u64((u64)cost * 100, percent);
}

#endif
