/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Computes a rate limit: a token bucket, kept as the time at which it would be full again
 * (the generic cell rate algorithm, ITU-T I.371).
 *
 * Pure functions that also compile in user space, where they are tested.
 */
#ifndef TG_LIMIT_H
#define TG_LIMIT_H

#include "pure.h"

/* The largest burst: what the rate allows in this time, in ns. */
#define TG_LIMIT_BURST_NS 10000000ull

/**
 * tg_limit_opens() - when the next request may go
 * @due: the time at which a sender at exactly the rate would have sent all requests so far, in ns
 *
 * Return: ns
 */
static inline u64 tg_limit_opens(u64 due)
{
	return due - min_t(u64, due, TG_LIMIT_BURST_NS);
}

/**
 * tg_limit_charged() - charge a request
 * @due: as for tg_limit_opens()
 * @now: ns
 * @units: 1 for the request, or its length in KiB
 * @rate: units a second; above 0
 *
 * Unused time is lost, except for one burst: otherwise a class that was idle for an hour
 * might send an hour's worth at once.
 *
 * Return: the new @due, in ns
 */
static inline u64 tg_limit_charged(u64 due, u64 now, u32 units, u32 rate)
{
	return max_t(u64, due, now) + div64_u64((u64)units * 1000000000ull, rate);
}

#endif
