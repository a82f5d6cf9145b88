/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Computes and learns the cost of a request: how long it occupies a busy device, in ns.
 *
 * The cost is not the latency: if a device serves 16 requests side by side, each in 80 us, each
 * of them costs 5 us. A cost is a base, plus a slope times the length. Reads, writes and other
 * requests each have a base and a slope of their own. On a disk, a request that is near the head
 * or continues its flow is charged no base. Triage learns base and slope while the device is busy:
 * then the costs of all requests must add up to the elapsed time. Where few requests keep a device
 * busy, the latency of urgent requests shows roughly whether costs are far too low.
 *
 * Pure functions that also compile in user space, where they are tested.
 */
#ifndef TG_COST_H
#define TG_COST_H

#include "pure.h"

enum tg_op {
	TG_READ,
	TG_WRITE,
	TG_OTHER,	/* moves no data: for example, a discard */
	TG_OPS,
};

/**
 * struct tg_cost - the cost of requests of one kind
 * @base: cost of each request apart from its length, in ns
 * @per_kib: the slope: cost of each KiB of a request's length, in ns
 */
struct tg_cost {
	u32 base;
	u32 per_kib;
};

/*
 * Bounds of base and slope, in ns. MIN is below those of any flash drive, MAX above the time of a
 * disk's seek.
 */
#define TG_COST_MIN 16u
#define TG_COST_MAX 100000000u

/*
 * The first guesses. Triage soon learns what requests cost on average, but the ratio of base to
 * slope only when the mix of sizes changes. So the guesses have the ratio of real devices. On flash
 * the base is the cost of 1.6 to 2.8 KiB of data (SATA: 98 thousand requests of 4 KiB a second and
 * 560 MB/s; PCIe: a million such requests and 7 GB/s). On a disk it is the cost of about a MiB.
 */
#define TG_COST_GUESS_FLASH { .base = 2000, .per_kib = 1000 }
#define TG_COST_GUESS_DISK { .base = 8000000, .per_kib = 6000 }

/**
 * struct tg_work - the requests of one kind dispatched to a device over some time
 * @requests: number of these requests; on a disk, only those that are not near the head count
 * @kib: length of all requests together, in KiB
 */
struct tg_work {
	u64 requests;
	u64 kib;
};

/*
 * A shard counts both fields of struct tg_work in one word, with one addition for each request:
 * @requests times TG_WORK_ONE, plus @kib. The word may wrap, because only differences are used.
 * A difference must be of fewer than 2^24 requests and 2^40 KiB.
 */
#define TG_WORK_SHIFT 40
#define TG_WORK_ONE ((u64)1 << TG_WORK_SHIFT)

/* Return the work between two readings of a word, or of sums of such words. */
static inline struct tg_work tg_work_between(u64 then, u64 now)
{
	return (struct tg_work){
		.requests = (now - then) >> TG_WORK_SHIFT,
		.kib = (now - then) & (TG_WORK_ONE - 1),
	};
}

/**
 * tg_cost_of() - the cost of one request
 * @cost: base and slope of its kind
 * @bytes: its length; 0 if it moves no data
 * @pays_base: the base counts too; on a disk it does not count for a request that is near the
 *	head, or that continues its flow
 *
 * Return: ns, never 0, so that no request is free.
 */
static inline u32 tg_cost_of(const struct tg_cost *cost, u32 bytes, bool pays_base)
{
	const u64 slope = (u64)(bytes >> 10) * cost->per_kib;
	const u64 ns = pays_base ? cost->base + slope : max_t(u64, slope, TG_COST_MIN);

	return min_t(u64, ns, U32_MAX);
}

/* Return the cost of some work by these estimates, in ns. */
static inline u64 tg_cost_sum(const struct tg_cost costs[TG_OPS],
			      const struct tg_work work[TG_OPS])
{
	u64 sum = 0;
	int op;

	for (op = TG_READ; op < TG_OPS; op++)
		sum += work[op].requests * costs[op].base + work[op].kib * costs[op].per_kib;
	return sum;
}

static inline u32 tg_cost_moved(u32 value, u64 scale, u64 part, u64 whole, s64 error)
{
	/* Correct a quarter of the error, in proportion to this estimate's part in the sum. */
	const s64 step = (s64)scale * error / 1024 *
			 (s64)div64_u64(part * 1024, whole) / 4096;

	return clamp_t(s64, value + step, TG_COST_MIN, TG_COST_MAX);
}

/**
 * tg_cost_learn() - learn from a time in which the device was always busy
 * @costs: estimates by enum tg_op; updated
 * @work: requests dispatched to the device, by enum tg_op
 * @elapsed: the length of that time, in ns
 *
 * Each base and each slope moves in proportion to its value and to its part in the sum
 * (exponentiated gradient descent). So a disk's estimates converge as fast as those of flash,
 * and the cost of an operation that did not occur does not change. But an estimate near zero
 * would stay there for ever. So a base moves as if its value were at least the cost of 4 KiB
 * of data, and a slope as if its value were at least 1/1024 of the base.
 */
static inline void tg_cost_learn(struct tg_cost costs[TG_OPS],
				 const struct tg_work work[TG_OPS], u64 elapsed)
{
	const u64 sum = tg_cost_sum(costs, work);
	u64 base[TG_OPS], slope[TG_OPS], whole = 0, off;
	s64 error;
	int op;

	for (op = TG_READ; op < TG_OPS; op++) {
		base[op] = max_t(u64, costs[op].base, 4ull * costs[op].per_kib);
		slope[op] = max_t(u64, costs[op].per_kib, costs[op].base / 1024);
		whole += work[op].requests * base[op] + work[op].kib * slope[op];
	}
	if (!whole)
		return;

	/* The relative error in 1/1024, bounded: one unusual measurement must not spoil much. */
	off = max_t(u64, elapsed, sum) - min_t(u64, elapsed, sum);
	off = div64_u64(min_t(u64, off, 2 * whole) * 1024, whole);
	error = elapsed < sum ? -min_t(s64, off, 512) : min_t(s64, off, 1024);
	for (op = TG_READ; op < TG_OPS; op++) {
		costs[op].base = tg_cost_moved(costs[op].base, base[op],
					       work[op].requests * base[op], whole, error);
		costs[op].per_kib = tg_cost_moved(costs[op].per_kib, slope[op],
						  work[op].kib * slope[op], whole, error);
	}
}

/*
 * Slow flash is busy with fewer requests than TG_BUSY_FLASH (costs.c), and the budget may never let
 * more in. But if urgent requests take at least twice as long as without bulk, the device was at
 * work for at least 1 / TG_COST_BUSY_PART of the time.
 */
#define TG_COST_BUSY_PART 2

/**
 * tg_cost_raise() - learn from a time in which urgent requests found a queue in the device
 * @costs: estimates by enum tg_op; updated
 * @work: requests dispatched to the device, by enum tg_op
 * @elapsed: the length of that time, in ns
 *
 * The latency of urgent requests shows only roughly how busy the device was. It must not change
 * costs that are about right. So costs only rise, and only if the costs of @work add up to less
 * than half of the time for which the device was surely at work (TG_COST_BUSY_PART).
 */
static inline void tg_cost_raise(struct tg_cost costs[TG_OPS],
				 const struct tg_work work[TG_OPS], u64 elapsed)
{
	const u64 busy = elapsed / TG_COST_BUSY_PART;

	if (tg_cost_sum(costs, work) < busy / 2)
		tg_cost_learn(costs, work, busy);
}

/**
 * tg_cost_return() - lower a raised cost again
 * @cost: the cost of one kind of requests; updated
 * @sure: the cost of this kind as last learnt from a busy device
 *
 * The device may have been slow for a moment, for another reason than its requests. So take back a
 * sixteenth of what tg_cost_raise() has added. This is slower than a rise, which may be a quarter
 * at once.
 */
static inline void tg_cost_return(struct tg_cost *cost, const struct tg_cost *sure)
{
	cost->base -= (cost->base - min_t(u32, cost->base, sure->base) + 15) / 16;
	cost->per_kib -= (cost->per_kib - min_t(u32, cost->per_kib, sure->per_kib) + 15) / 16;
}

#endif
