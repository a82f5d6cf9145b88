/* SPDX-License-Identifier: GPL-2.0-only */
/* Counts a shard's requests in the device, as they go and as they come back. */
#ifndef TG_GAUGE_H
#define TG_GAUGE_H

#include <linux/atomic.h>
#include <linux/bits.h>

#include "costs.h"

/*
 * The requests in the device are @sent minus @back. For each request, each of the two grows by
 * TG_GAUGE_ONE plus its cost, so that one addition counts both the request and its cost.
 */
struct tg_gauge {
	u64 sent;			/* the shard's lock guards writes; readers need no lock */
	atomic64_t back;		/* a request adds to it when it completes or is sent back */
};

#define TG_GAUGE_SHIFT 40
#define TG_GAUGE_ONE BIT_ULL(TG_GAUGE_SHIFT)
#define TG_GAUGE_COST (TG_GAUGE_ONE - 1)

static inline u64 tg_gauge_inside(const struct tg_gauge *gauge)
{
	const u64 back = atomic64_read(&gauge->back);

	/*
	 * Read @back before @sent: a request comes back only after it was sent, so the
	 * difference is never negative.
	 */
	smp_rmb();
	return READ_ONCE(gauge->sent) - back;
}

static inline u32 tg_gauge_count(const struct tg_gauge *gauge)
{
	return tg_gauge_inside(gauge) >> TG_GAUGE_SHIFT;
}

/* Return the cost of the requests inside, in ns. */
static inline u64 tg_gauge_cost(const struct tg_gauge *gauge)
{
	return tg_gauge_inside(gauge) & TG_GAUGE_COST;
}

/**
 * struct tg_device - one shard's requests in the device
 * @bulk: bulk in the device
 * @urgent: urgent requests in the device
 * @work: number and length of the requests that the shard has dispatched so far, in one word for
 *	each enum tg_op (TG_WORK_ONE); also read without the lock
 * @written: length of the writes that the shard has dispatched while the device was pressed: those
 *	of bulk, and urgent ones beside bulk; in KiB; also read without the lock
 * @fewest: least number of the shard's requests in the device since costs were learnt last, or
 *	U32_MAX if the shard has sent none since. The CPU that learns costs reads and resets it,
 *	without this shard's lock.
 * @learnt_back: sum of both gauges' @back when costs were learnt last; guarded by tg_costs.lock
 * @tick: jiffies when the last request was sent
 * @samples: number of urgent requests that were timed in that tick
 * @unmeasured: number of requests until the next one is measured
 * @returned: the part of both gauges' @back that comes from requests that the driver sent back
 *
 * The shard's lock guards all fields but @fewest, @learnt_back, @returned and the gauges' @back.
 */
struct tg_device {
	struct tg_gauge bulk;
	struct tg_gauge urgent;
	u64 work[TG_OPS];
	u64 written;
	u32 fewest;
	u64 learnt_back;
	unsigned long tick;
	unsigned int samples;
	unsigned int unmeasured;
	atomic64_t returned;
};

static inline u32 tg_device_has(const struct tg_device *device)
{
	return tg_gauge_count(&device->bulk) + tg_gauge_count(&device->urgent);
}

#endif
