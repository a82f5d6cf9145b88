/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds the turn of bulk that is worth most on a disk's arm.
 *
 * Turns of bulk alternate with pauses. Each turn begins with a seek to bulk's place (@way). A slow
 * urgent request waits for a whole turn, and then takes as long as without bulk (@alone). So at an
 * exchange rate, as in knee.h, a turn is worth
 *
 *	worth = ln((turn - way) / (turn + pause)) - exchange / 100 * (turn + alone) / alone
 *
 * The derivative is zero where
 *
 *	(turn - way) * (turn + pause) = (way + pause) * alone * 100 / exchange
 *
 * Flash has no such formula: how much bulk delays an urgent request there depends on the drive. So
 * trials find its budget.
 *
 * Pure functions that also compile in user space, where they are tested.
 */
#ifndef TG_TURN_H
#define TG_TURN_H

#include "pure.h"

/* Longer times count as this, in us: a minute. So the formula does not overflow. */
#define TG_TURN_LONGEST_US 60000000u

static inline u64 tg_turn_us(u64 ns)
{
	return min_t(u64, div64_u64(ns, 1000), TG_TURN_LONGEST_US);
}

/**
 * tg_turn_worth_most() - the length of bulk's turn that is worth most
 * @way: time of a seek to bulk's place, in ns
 * @pause: time between two turns, in ns; above 0
 * @alone: time of a slow urgent request without bulk, in ns
 * @exchange: the gain of bulk, in %, that is worth a delay of @alone; above 0
 *
 * Return: ns; at least @way, or a minute if that is less
 */
static inline u64 tg_turn_worth_most(u64 way, u64 pause, u64 alone, u32 exchange)
{
	const u64 to = tg_turn_us(way), round = to + tg_turn_us(pause);
	const u64 dear = div64_u64(400 * tg_turn_us(alone), exchange);
	const u64 turn = 500 * (int_sqrt64(round * (round + dear)) + to - tg_turn_us(pause));

	return max_t(u64, turn, min_t(u64, way, TG_TURN_LONGEST_US * 1000ull));
}

#endif
