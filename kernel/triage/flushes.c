// SPDX-License-Identifier: GPL-2.0-only
/*
 * Paces bulk's writes while processes flush the drive's write buffer.
 *
 * A flush does not pass the scheduler: the block layer itself sends it to the driver. But the block
 * layer counts a disk's flushes and the time that they take, for /proc/diskstats. From these two
 * sums, and from the length of the writes that triage has sent, drain.h learns a pace.
 *
 * The pace holds writes only: other requests do not fill the buffer. Like a rate limit, the pace
 * holds nothing while a task waits until requests are gone (limits.c).
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
 * The largest burst: what the pace allows in this time. A hold for the pace lasts for at least a
 * millisecond (TG_REST_NS), and a timer may be late, so a smaller burst would lose a part of the
 * pace. A larger burst would delay flushes more.
 */
#define TG_PACE_BURST_NS (2 * NSEC_PER_MSEC)
/*
 * A shard may be ahead of another by what the pace allows in this time. A hold for the pace lasts
 * for at least a millisecond (TG_REST_NS), so a waiting shard looks at the pace only after this
 * time.
 */
#define TG_PACE_LEAD_NS NSEC_PER_MSEC
/*
 * For this long after the pace held a write of a shard, cgroup or class, the shard, cgroup or class
 * counts as waiting for the pace. This is the longest hold plus two ticks. Afterwards the others no
 * longer leave the pace to it: its driver may take no requests, or it may have no writes.
 */
#define TG_PACE_WAIT_JIFFIES (nsecs_to_jiffies(TG_PACE_LAG_NS) + 2)

void tg_flushes_init(struct tg_data *tg)
{
	spin_lock_init(&tg->flushes.lock);
	tg->flushes.look_at = jiffies;
}

/* Return how long the oldest flush of a device has taken so far, in ns. Return 0 if it has none. */
u64 tg_flush_age(const struct tg_data *tg)
{
	const u64 now = ktime_get_ns();
	struct blk_mq_hw_ctx *hctx;
	u64 oldest = now;
	unsigned long i;

	queue_for_each_hw_ctx(tg->queue, hctx, i)
		oldest = min(oldest, iosched_flush_began(hctx) ?: now);
	return now - oldest;
}

/*
 * Return the length of all writes of bulk, and of urgent writes beside bulk, that were sent while
 * the device was pressed, in KiB.
 */
static u64 tg_written(const struct tg_data *tg)
{
	u64 sum = 0;
	unsigned int i;

	for (i = 0; i < tg->nr_shards; i++)
		sum += READ_ONCE(tg->shards[i]->device.written);
	return sum;
}

/*
 * Learn the pace. There is none on a disk, or without an exchange rate (tg_exchange()). Called
 * every TG_LOOK_JIFFIES or so while the device is pressed, when @rq is being sent.
 */
noinline void tg_flushes_learn(struct tg_data *tg, struct request *rq)
{
	/* Do not count @rq itself as bulk in the device: it is just being sent. */
	const u32 sent = tg_tag(rq)->urgent ? 0 : tg_tag(rq)->cost;
	const struct block_device *disk = tg->queue->disk->part0;
	struct tg_flushes *flushes = &tg->flushes;
	struct tg_drain_seen seen;

	if (!spin_trylock(&flushes->lock))
		return;
	WRITE_ONCE(flushes->look_at, jiffies + TG_LOOK_JIFFIES);
	if (tg_bulk_inside(tg) > sent || atomic_read(&tg->nr_held))
		flushes->busy++;
	else
		flushes->idle++;
	if (tg_finds_knee(tg)) {
		seen = (struct tg_drain_seen){
			.now = ktime_get_ns(),
			.flushes = part_stat_read(disk, ios[STAT_FLUSH]),
			.flush_ns = part_stat_read(disk, nsecs[STAT_FLUSH]),
			.kib = tg_written(tg),
			.busy = flushes->busy,
			.idle = flushes->idle,
			.spells = READ_ONCE(tg->budget.spells),
			.pauses = 2 * (u64)READ_ONCE(tg->controller.probes) + tg_probe_holds(tg),
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
 * begins where they are (tg_flushes.turn).
 */
static u64 tg_pace_turn(const struct tg_shard *shard)
{
	return max(READ_ONCE(shard->pace_turn), READ_ONCE(shard->tg->flushes.turn));
}

/*
 * Tell other shards whether this one waits for the pace. Called after each choice of a request. The
 * shard counts as waiting until it has nothing queued, or @pace_at is long ago. A choice that finds
 * no held write does not end this: while bulk's budget holds the shard, choices do not look at its
 * writes.
 */
void tg_pace_tell(struct tg_shard *shard)
{
	lockdep_assert_held(&shard->lock);

	if (shard->paced && shard->queued) {
		WRITE_ONCE(shard->pace_at, jiffies);
		WRITE_ONCE(shard->awaits_pace, true);
	} else if (shard->awaits_pace && !shard->queued) {
		WRITE_ONCE(shard->awaits_pace, false);
	}
}

/*
 * Return whether a shard waits for the pace. A waiting shard chooses again after the longest hold
 * at the latest, unless its driver takes nothing or its CPU is busy. After TG_PACE_WAIT_JIFFIES
 * without a choice the shard no longer counts as waiting, so that others do not wait for it.
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
 * Return whether a shard must leave the pace to another one, which waits for the pace and has had
 * less of it by more than TG_PACE_LEAD_NS. Without this rule a shard that chooses often, because it
 * also has other requests, would get all of the pace: each choice of a request looks at the pace.
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

/* Return how long the pace takes to allow a write as long as @rq, in ns. */
static u64 tg_pace_cost(const struct request *rq, u32 pace)
{
	return tg_limit_charged(0, 0, DIV_ROUND_UP(blk_rq_bytes(rq), SZ_1K), pace);
}

/*
 * Return how much of @cost to charge for a write that the pace never holds (tg_drain_passes()), in
 * ns.
 */
static u64 tg_pace_passes(struct tg_flushes *flushes, u64 cost, u64 now)
{
	s64 old = atomic64_read(&flushes->passed_at);
	u64 at, charged;

	do {
		at = old;
		charged = tg_drain_passes(&at, cost, now);
	} while (!atomic64_try_cmpxchg(&flushes->passed_at, &old, at));
	return charged;
}

/*
 * Count a write of bulk, or an urgent write beside bulk, that is dispatched while the device is
 * pressed, and charge it to the pace.
 *
 * The pace holds no urgent write, no write that the driver sent back, no write of HIGH (even of a
 * cgroup beyond its share), and no write of a sparse flow. It holds no write at all while a task
 * waits until requests are gone. tg_drain_passes() limits the charge for all writes that the pace
 * does not hold.
 */
void tg_flushes_charge(struct tg_shard *shard, struct request *rq)
{
	const u32 kib = DIV_ROUND_UP(blk_rq_bytes(rq), SZ_1K);
	struct tg_flushes *flushes = &shard->tg->flushes;
	const u32 pace = READ_ONCE(flushes->pace);
	u64 cost, now;
	s64 old;

	lockdep_assert_held(&shard->lock);

	WRITE_ONCE(shard->device.written, shard->device.written + kib);
	if (!pace)
		return;
	now = ktime_get_ns();
	cost = tg_pace_cost(rq, pace);
	if (!tg_tag(rq)->paced)
		cost = tg_pace_passes(flushes, cost, now);
	old = atomic64_read(&flushes->due);
	while (!atomic64_try_cmpxchg(&flushes->due, &old, max_t(u64, old, now) + cost))
		;
	if (shard->tg->nr_shards > 1)
		tg_pace_turn_charge(shard, cost);
}

/*
 * Return whether a class waits for the pace: it has requests, the pace held one of its writes
 * lately, and no rate limit holds the class. tg_pace_charge_lane() ends this when the class has no
 * more writes to send.
 */
static bool tg_class_awaits_pace(const struct tg_shard *shard, const struct tg_lane *lane,
				 enum prio_class of)
{
	const struct tg_class *class = &lane->classes[of];

	return class->queued && time_before(jiffies, class->paced_at + TG_PACE_WAIT_JIFFIES) &&
	       !tg_limit_holds(shard, of);
}

static bool tg_lane_awaits_pace(const struct tg_shard *shard, const struct tg_lane *lane)
{
	return tg_class_awaits_pace(shard, lane, PRIO_CLASS_NORMAL) ||
	       tg_class_awaits_pace(shard, lane, PRIO_CLASS_LOW);
}

/* Return the lane that may use the pace before the others, or NULL (tg_shard.pace_first). */
static const struct tg_lane *tg_pace_first(const struct tg_shard *shard)
{
	const struct tg_lane *lane, *first = NULL;

	if (list_is_singular(&shard->lanes))
		return NULL;
	list_for_each_entry(lane, &shard->lanes, entry)
		if (tg_lane_awaits_pace(shard, lane) && (!first || tg_lane_leads_pace(first, lane)))
			first = lane;
	return first;
}

/*
 * Return the new tg_lane.pace_due after a change of @ns. The bound is TG_PACE_LAG_NS, or the old
 * value or the change if that is larger. Otherwise the next small request would cut off the debt
 * for a large one.
 */
static s64 tg_pace_due(s64 due, s64 ns)
{
	const s64 most = max_t(s64, max(abs(ns), abs(due)), TG_PACE_LAG_NS);

	return clamp(due + ns, -most, most);
}

/*
 * Charge a chosen write to its cgroup's account, and to its class. While NORMAL and LOW both wait,
 * LOW has its guaranteed share of what the @pace allows, and NORMAL has the rest. Aged writes go
 * whichever class is due, so tg_pace_due() bounds what the other class then lacks. A class that
 * does not wait lacks nothing, but its debt stays. If no flow of the class has another write to
 * send, the class no longer waits: others must not leave the pace to its reads.
 */
void tg_pace_charge_lane(struct tg_shard *shard, struct tg_lane *lane, struct request *rq,
			 u32 pace)
{
	const bool is_low = tg_tag(rq)->class == PRIO_CLASS_LOW;
	struct tg_class *class = &lane->classes[tg_tag(rq)->class];
	const s64 cost = tg_pace_cost(rq, pace);
	const u64 low = tg_share_due(cost, READ_ONCE(shard->tg->tunables.share_low));

	lockdep_assert_held(&shard->lock);

	if (unlikely(tg_groups_shared(shard->tg)))
		tg_lane_charge_pace(shard, lane, cost);
	lane->pace_due = tg_pace_due(lane->pace_due, is_low ? -cost : (s64)low);
	if (is_low && !tg_class_awaits_pace(shard, lane, PRIO_CLASS_NORMAL))
		lane->pace_due = max_t(s64, lane->pace_due, 0);
	else if (!is_low && !tg_class_awaits_pace(shard, lane, PRIO_CLASS_LOW))
		lane->pace_due = min_t(s64, lane->pace_due, 0);
	if (!tg_class_writes(class))
		class->paced_at = jiffies - HZ;
}

/*
 * Return whether the other class of the lane, or another cgroup, may use the pace before this
 * class. Only the accounts of the pace count, not those of the device's time (enum tg_shared).
 */
static bool tg_pace_is_of_others(const struct tg_shard *shard, const struct tg_lane *lane,
				 enum prio_class class)
{
	const enum prio_class due = lane->pace_due > 0 ? PRIO_CLASS_LOW : PRIO_CLASS_NORMAL;

	if (class != due && tg_class_awaits_pace(shard, lane, due))
		return true;
	return shard->pace_first && tg_lane_leads_pace(lane, shard->pace_first);
}

/* Return when bulk may write again, in ns. */
u64 tg_pace_opens_at(const struct tg_data *tg)
{
	const u64 due = atomic64_read(&tg->flushes.due);

	return due - min_t(u64, due, TG_PACE_BURST_NS);
}

/*
 * Return the state of the pace for a shard. Bulk may write from TG_PACE_BURST_NS before
 * tg_flushes.due on. But a shard that has had more of the pace than a waiting one
 * (tg_pace_yields()) may write only from TG_PACE_LEAD_NS before tg_flushes.due on. No part of the
 * pace is lost if the others do not write: this shard looks again after TG_REST_NS, which is before
 * tg_flushes.due.
 *
 * From tg_flushes.due on any bulk may write, whichever class or cgroup is due. Otherwise a part of
 * the pace would be lost if the class or cgroup that is due has used up its share of the device's
 * time, and so does not write.
 */
static enum tg_pace_state tg_pace_look(const struct tg_shard *shard)
{
	const struct tg_data *tg = shard->tg;
	const u64 due = atomic64_read(&tg->flushes.due);
	const u64 now = ktime_get_ns();

	if (!tg_pressed(tg) || now >= due)
		return TG_PACE_NONE;
	if (now + TG_PACE_LEAD_NS >= due ||
	    (now + TG_PACE_BURST_NS >= due && !tg_pace_yields(shard)))
		return TG_PACE_OPEN;
	return TG_PACE_CLOSED;
}

/*
 * Return whether the pace holds the writes of a class. tg_pace_is_closed() calls this only if there
 * is a pace. Look up the pace's state once for each choice of a request, so that it does not change
 * within a choice.
 */
noinline bool tg_pace_is_closed_now(struct tg_shard *shard, struct tg_lane *lane,
				    enum prio_class class)
{
	lockdep_assert_held(&shard->lock);

	if (shard->pace == TG_PACE_UNKNOWN) {
		shard->pace = tg_pace_look(shard);
		shard->pace_first = shard->pace == TG_PACE_OPEN ? tg_pace_first(shard) : NULL;
	}
	if (shard->pace == TG_PACE_NONE)
		return false;
	if (shard->pace == TG_PACE_OPEN && !(lane && tg_pace_is_of_others(shard, lane, class)))
		return false;
	return !tg_is_waited_out(shard, class);
}

/*
 * Record that the pace holds a write. @lane is NULL if the write does not share the pace with other
 * classes and cgroups (tg_pace_is_closed()).
 */
void tg_pace_has_held(struct tg_shard *shard, struct tg_lane *lane, enum prio_class class)
{
	struct tg_flushes *flushes = &shard->tg->flushes;

	lockdep_assert_held(&shard->lock);

	if (!READ_ONCE(flushes->limited))
		WRITE_ONCE(flushes->limited, true);
	if (!lane)
		return;
	if (!tg_lane_awaits_pace(shard, lane) && tg_groups_shared(shard->tg))
		tg_lane_join_pace(shard, lane);
	lane->classes[class].paced_at = jiffies;
}
