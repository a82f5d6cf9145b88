/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who has had how much: the arithmetic of turns and of guaranteed shares.
 *
 * Pure functions that also compile in user space, where they are tested.
 */
#ifndef TG_SHARE_H
#define TG_SHARE_H

#include "pure.h"

#define TG_LEVELS 8
/* What a flow may owe, in quanta: one huge request is not held against it for ever. */
#define TG_DEBT_MAX 64

/**
 * tg_share_charge() - take from a flow's deficit what it was given
 * @deficit: what it has left of its turn, in ns of cost
 * @cost: of the request, in ns
 * @level: its I/O priority level, 0 to 7: the weight is 8 - level, so 4, which is
 *	what a process has that never asked, pays the cost itself
 * @quantum: a turn, in ns
 */
static inline s64 tg_share_charge(s64 deficit, u32 cost, u8 level, u32 quantum)
{
	const u64 charge = (u64)cost * 4 / (TG_LEVELS - level);

	return max_t(s64, deficit - (s64)charge, -(s64)quantum * TG_DEBT_MAX);
}

/**
 * tg_share_turn() - give a flow its next turn
 * @deficit: what it has left, or owes, in ns of cost; its debt may be of longer turns
 * @quantum: a turn, in ns
 *
 * Return: above 0 after at most TG_DEBT_MAX turns
 */
static inline s64 tg_share_turn(s64 deficit, u32 quantum)
{
	return max_t(s64, deficit, -(s64)quantum * TG_DEBT_MAX + 1) + quantum;
}

/**
 * tg_share_due() - what a waiting class is owed for what went to others
 * @time: of the device that went to others, in ns
 * @percent: of everything, that the class is guaranteed; below 100
 *
 * Of others and itself together it then has @percent.
 */
static inline u64 tg_share_due(u64 time, u32 percent)
{
	return time * percent / (100 - percent);
}

#endif
