// SPDX-License-Identifier: GPL-2.0-only
/*
 * Paces bulk's writes while processes flush the drive's write buffer.
 *
 * A flush does not pass the scheduler: the block layer sends it to the driver by itself. But the
 * block layer counts the flushes of a disk and their time, for /proc/diskstats. From these two sums
 * and from what bulk has written, drain.h learns a pace.
 *
 * The pace holds writes only: other requests do not fill the buffer. A task that waits for the end
 * of all requests ends a hold, as with the limits that the administrator sets (limits.c).
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
/*
 * A shard may be ahead of another by this much of the pace. A shard that waits looks again within a
 * millisecond, and by then the pace allows this much.
 */
#define TG_PACE_LEAD_NS NSEC_PER_MSEC
/*
 * A shard that waits may lag behind by this much at most: as long as the longest hold
 * (TG_WATCHDOG_NS). If its driver takes nothing for longer, it loses what it did not use. Nor does
 * it count as waiting then, give or take two ticks.
 */
#define TG_PACE_LAG_NS (10 * NSEC_PER_MSEC)
#define TG_PACE_WAIT_JIFFIES (nsecs_to_jiffies(TG_PACE_LAG_NS) + 2)

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
			.spells = READ_ONCE(tg->budget.spells),
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

/*
 * Return a shard's virtual time of fair queueing for the pace, in ns. A shard that joins the others
 * begins at the least of theirs.
 */
static u64 tg_pace_turn(const struct tg_shard *shard)
{
	return max(READ_ONCE(shard->pace_turn), READ_ONCE(shard->tg->flushes.turn));
}

/*
 * Tell other shards whether this one waits for the pace, once it has chosen the request @rq, or
 * NULL for none. If it chose without a look at the writes that the pace held, it still waits.
 */
void tg_pace_tell(struct tg_shard *shard, struct request *rq)
{
	lockdep_assert_held(&shard->lock);

	if (shard->paced && shard->queued) {
		WRITE_ONCE(shard->pace_at, jiffies);
		WRITE_ONCE(shard->awaits_pace, true);
	} else if (shard->awaits_pace &&
		   (!shard->queued || (rq && tg_op(rq) == TG_WRITE && !tg_tag(rq)->urgent))) {
		WRITE_ONCE(shard->awaits_pace, false);
	}
}

/*
 * Return whether a shard waits for the pace. A shard chooses again after the longest hold at the
 * latest, unless its driver takes nothing or its CPU is busy. Others do not wait for that.
 */
static bool tg_waits_for_pace(const struct tg_shard *shard)
{
	return READ_ONCE(shard->awaits_pace) &&
	       time_before(jiffies, READ_ONCE(shard->pace_at) + TG_PACE_WAIT_JIFFIES);
}

/* Return the least virtual time of @shard and of all shards that wait for the pace. */
static u64 tg_pace_turn_least(const struct tg_shard *shard)
{
	const struct tg_data *tg = shard->tg;
	u64 least = tg_pace_turn(shard);
	unsigned int i;

	for (i = 0; i < tg->nr_shards; i++)
		if (tg_waits_for_pace(tg->shards[i]))
			least = min(least, tg_pace_turn(tg->shards[i]));
	return least;
}

/*
 * Return whether another shard waits for the pace and has had less of it, by more than
 * TG_PACE_LEAD_NS. Otherwise a shard that asks often, for other requests, would get all of it.
 */
static bool tg_pace_yields(const struct tg_shard *shard)
{
	return shard->tg->nr_shards > 1 &&
	       tg_pace_turn(shard) > tg_pace_turn_least(shard) + TG_PACE_LEAD_NS;
}

/* Charge a shard by start-time fair queueing (Goyal, Vin, Cheng, 1996). */
static void tg_pace_turn_charge(struct tg_shard *shard, u64 cost)
{
	const u64 turn = tg_pace_turn(shard);

	WRITE_ONCE(shard->tg->flushes.turn, max(tg_pace_turn_least(shard),
						turn - min_t(u64, turn, TG_PACE_LAG_NS)));
	WRITE_ONCE(shard->pace_turn, turn + cost);
}

/*
 * Count a write of bulk that is dispatched while the device is pressed, and charge the pace.
 *
 * Some writes pass while the pace is closed: the driver sent them back, a task waits for the end of
 * all requests, they are of HIGH and their cgroup is beyond its share, or a process that asks for
 * little waits for them. A crowd of these must not hold all others for long. So before a write is
 * counted, at most one burst counts, and for each shard a write like this: shards whose holds end
 * together may all send one before the first is counted.
 */
void tg_flushes_charge(struct tg_shard *shard, const struct request *rq)
{
	const u32 kib = DIV_ROUND_UP(blk_rq_bytes(rq), SZ_1K);
	struct tg_flushes *flushes = &shard->tg->flushes;
	const u32 pace = READ_ONCE(flushes->pace);
	u64 cost, now, most;
	s64 old;

	lockdep_assert_held(&shard->lock);

	WRITE_ONCE(shard->device.written, shard->device.written + kib);
	if (!pace)
		return;
	now = ktime_get_ns();
	cost = tg_limit_charged(0, 0, kib, pace);
	most = now + TG_PACE_BURST_NS + shard->tg->nr_shards * cost;
	old = atomic64_read(&flushes->due);
	while (!atomic64_try_cmpxchg(&flushes->due, &old, clamp_t(u64, old, now, most) + cost))
		;
	if (shard->tg->nr_shards > 1)
		tg_pace_turn_charge(shard, cost);
}

/* Return when bulk may write again, in ns. */
u64 tg_pace_opens_at(const struct tg_data *tg)
{
	const u64 due = atomic64_read(&tg->flushes.due);

	return due - min_t(u64, due, TG_PACE_BURST_NS);
}

/*
 * Return whether the pace holds the writes of a class. tg_pace_is_closed() calls this only if there
 * is a pace. A shard yields to others for the first half of a burst only. It looks again after
 * TG_REST_NS, which is the other half, so bulk loses nothing if the others do not write.
 */
noinline bool tg_pace_is_closed_now(const struct tg_shard *shard, enum prio_class class)
{
	const struct tg_data *tg = shard->tg;
	const u64 due = atomic64_read(&tg->flushes.due);
	const u64 now = ktime_get_ns();

	lockdep_assert_held(&shard->lock);

	if (now + TG_PACE_LEAD_NS >= due ||
	    (now + TG_PACE_BURST_NS >= due && !tg_pace_yields(shard)))
		return false;
	return tg_pressed(tg) && !tg_is_waited_out(shard, class);
}

/* Record that the pace holds a write. */
void tg_pace_has_held(const struct tg_shard *shard)
{
	struct tg_flushes *flushes = &shard->tg->flushes;

	lockdep_assert_held(&shard->lock);

	if (!READ_ONCE(flushes->limited))
		WRITE_ONCE(flushes->limited, true);
}
