// SPDX-License-Identifier: GPL-2.0-only
/*
 * Paces bulk's writes while processes flush the drive's write buffer.
 *
 * A flush does not pass the scheduler: the block layer sends it to the driver by itself. But the
 * block layer counts the flushes of a disk and their time, for /proc/diskstats. From these two sums
 * and from what bulk has written, drain.h learns a pace.
 *
 * The pace holds writes only: other requests do not fill the buffer. It gives way like the limits
 * that the administrator sets (limits.c).
 */
#include <linux/blkdev.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/lockdep.h>
#include <linux/math.h>
#include <linux/part_stat.h>
#include <linux/sizes.h>

#include "device.h"
#include "triage.h"

#define TG_LOOK_JIFFIES nsecs_to_jiffies(TG_DRAIN_PERIOD)
/*
 * The largest burst: what the pace allows in this time. A hold for the pace lasts for a millisecond
 * (TG_REST_NS), and a timer may be late. A flush waits for a burst, so it is no larger.
 */
#define TG_PACE_BURST_NS (2 * NSEC_PER_MSEC)

void tg_flushes_init(struct tg_data *tg)
{
	spin_lock_init(&tg->flushes.lock);
	tg->flushes.look_at = jiffies;
}

/* Return the length of all writes of bulk while the device was pressed, in KiB. */
static u64 tg_bulk_written(const struct tg_data *tg)
{
	u64 sum = 0;
	unsigned int i;

	for (i = 0; i < tg->nr_shards; i++)
		sum += READ_ONCE(tg->shards[i]->device.written);
	return sum;
}

/*
 * Learn the pace. Forget it if the administrator wants a latency and not an exchange rate. Called
 * once a tick at most, while the device is pressed.
 */
noinline void tg_flushes_learn(struct tg_data *tg)
{
	const struct block_device *disk = tg->queue->disk->part0;
	struct tg_flushes *flushes = &tg->flushes;
	struct tg_drain_seen seen;

	if (!spin_trylock(&flushes->lock))
		return;
	WRITE_ONCE(flushes->look_at, jiffies + TG_LOOK_JIFFIES);
	if (tg_finds_knee(tg)) {
		seen = (struct tg_drain_seen){
			.now = ktime_get_ns(),
			.flushes = part_stat_read(disk, ios[STAT_FLUSH]),
			.flush_ns = part_stat_read(disk, nsecs[STAT_FLUSH]),
			.kib = tg_bulk_written(tg),
			.pauses = 2 * (u64)READ_ONCE(tg->controller.probes) +
				  READ_ONCE(tg->controller.probing),
		};
		if (tg_drain_see(&flushes->drain, &seen, READ_ONCE(flushes->limited),
				 READ_ONCE(tg->tunables.exchange)))
			WRITE_ONCE(flushes->limited, false);
	} else {
		flushes->drain = (struct tg_drain){};
	}
	WRITE_ONCE(flushes->pace, flushes->drain.pace);
	spin_unlock(&flushes->lock);
}

/* Count a write of bulk that is dispatched while the device is pressed, and charge the pace. */
void tg_flushes_charge(struct tg_shard *shard, const struct request *rq)
{
	const u32 kib = DIV_ROUND_UP(blk_rq_bytes(rq), SZ_1K);
	struct tg_flushes *flushes = &shard->tg->flushes;
	const u32 pace = READ_ONCE(flushes->pace);
	s64 old;

	lockdep_assert_held(&shard->lock);

	WRITE_ONCE(shard->device.written, shard->device.written + kib);
	if (!pace)
		return;
	old = atomic64_read(&flushes->due);
	while (!atomic64_try_cmpxchg(&flushes->due, &old,
				     tg_limit_charged(old, ktime_get_ns(), kib, pace)))
		;
}

/* Return when bulk may write again, in ns. */
u64 tg_pace_opens_at(const struct tg_data *tg)
{
	const u64 due = atomic64_read(&tg->flushes.due);

	return due - min_t(u64, due, TG_PACE_BURST_NS);
}

/*
 * Return whether the pace holds the writes of a class. tg_pace_is_closed() calls this only if there
 * is a pace.
 */
noinline bool tg_pace_is_closed_now(struct tg_shard *shard, enum prio_class class)
{
	struct tg_flushes *flushes = &shard->tg->flushes;

	lockdep_assert_held(&shard->lock);

	if (ktime_get_ns() >= tg_pace_opens_at(shard->tg) || !tg_pressed(shard->tg) ||
	    tg_is_waited_out(shard, class))
		return false;
	if (!READ_ONCE(flushes->limited))
		WRITE_ONCE(flushes->limited, true);
	return true;
}
