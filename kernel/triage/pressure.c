// SPDX-License-Identifier: GPL-2.0-only
/*
 * How much bulk is let into the device, and when it is woken.
 *
 * While somebody waits on latency, which is whenever an urgent request was seen in
 * the last second, what others have in the device is limited by a budget (depth.h);
 * else by nothing. A shard that may not send is woken by what comes back from the
 * device, or by its watchdog.
 */
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/lockdep.h>

#include "pressure.h"
#include "trace.h"
#include "triage.h"

/* Nobody waits on latency when no urgent request was seen for this long. */
#define TG_QUIET_JIFFIES HZ
/* A throttled shard looks again after this, whatever happens. */
#define TG_WATCHDOG_NS (10 * NSEC_PER_MSEC)
/* A probe that is not answered ends; a disk first has to finish what it has. */
#define TG_PROBE_JIFFIES_FLASH msecs_to_jiffies(100)
#define TG_PROBE_JIFFIES_DISK msecs_to_jiffies(1000)
/* Who has been waiting on latency and has asked for nothing since this has paused. */
#define TG_PAUSE_JIFFIES 2
/* What a write buffer holds goes on for so long after the last write. */
#define TG_SETTLE_JIFFIES msecs_to_jiffies(32)
/* Bulk that was sent this long ago may still be felt. */
#define TG_FELT_JIFFIES msecs_to_jiffies(100)
/* Bulk waits for a gap behind an urgent request where fewer than this fit. */
#define TG_GATED_REQUESTS 2
/* What a device needs to be kept busy: ten times what flash takes for a read. */
#define TG_SHARED_NS NSEC_PER_MSEC
/* Who waits for room in it is woken when there is some for several requests. */
#define TG_SHARED_WAKE_NS (TG_SHARED_NS * 3 / 4)
/* Beside bulk urgent requests are timed, at most so many a tick. */
#define TG_SAMPLES_BULK 64
/* Bulk that could not send for so long is let in. */
#define TG_PATIENCE_FLASH msecs_to_jiffies(100)
#define TG_PATIENCE_DISK msecs_to_jiffies(1000)
/* Costs are learnt over windows of this, */
#define TG_WINDOW_JIFFIES msecs_to_jiffies(50)
/* in which the device always had so much to do: a disk has one arm, flash many dies. */
#define TG_BUSY_FLASH 8
#define TG_BUSY_DISK 1

static u64 tg_inside(const struct tg_gauge *gauge)
{
	return tg_gauge_inside(gauge) & TG_GAUGE_COST;
}

/* The cost of bulk that is in the device, in ns. */
static u64 tg_bulk_inside(const struct tg_data *tg)
{
	u64 sum = 0;
	unsigned int i;

	for (i = 0; i < tg->nr_shards; i++)
		sum += tg_inside(&tg->shards[i].bulk);
	return sum;
}

u32 tg_urgent_inside(const struct tg_data *tg)
{
	u32 sum = 0;
	unsigned int i;

	for (i = 0; i < tg->nr_shards; i++)
		sum += tg_gauge_count(&tg->shards[i].urgent);
	return sum;
}

/* Whether somebody waits on latency. */
bool tg_pressed(const struct tg_data *tg)
{
	return READ_ONCE(tg->pressed) &&
	       time_before(jiffies, READ_ONCE(tg->urgent_at) + TG_QUIET_JIFFIES);
}

/* What bulk may have in the device now, in ns of cost. */
u64 tg_budget(const struct tg_data *tg)
{
	const unsigned int fixed = READ_ONCE(tg->tunables.budget_fixed);
	const unsigned long quiet = jiffies - READ_ONCE(tg->urgent_at);

	if (unlikely(fixed))
		return (u64)fixed * NSEC_PER_USEC;
	if (likely(!quiet))
		return READ_ONCE(tg->depth.budget);
	return tg_depth_lingering(READ_ONCE(tg->depth.budget), jiffies_to_msecs(quiet));
}

/* Whether the budget is less than one request. */
static bool tg_paced(const struct tg_data *tg)
{
	return tg_budget(tg) < READ_ONCE(tg->bulk_cost);
}

/*
 * Whether bulk has to wait until an urgent request makes way for it. Where there is
 * room for several this would only keep the device idle. A disk chooses by itself
 * whom it serves first.
 */
static bool tg_gated(const struct tg_data *tg, u64 budget)
{
	return !tg->rotational && budget < TG_GATED_REQUESTS * READ_ONCE(tg->bulk_cost);
}

/*
 * When bulk may go on though no urgent request made way for it; ns. One that is in
 * the device is waited for, one that just left may be followed by another.
 */
static u64 tg_gate_opens_at(const struct tg_data *tg)
{
	const u64 alone = READ_ONCE(tg->depth.mean);

	return tg_urgent_inside(tg) ? READ_ONCE(tg->granted_at) + 4 * alone :
				      READ_ONCE(tg->urgent_back_at) + alone / 2;
}

/* What urgent requests may take, in ns; 0: not known yet. */
u64 tg_target(const struct tg_data *tg)
{
	const unsigned int target_us = READ_ONCE(tg->tunables.latency_target_us);

	return target_us ? (u64)target_us * NSEC_PER_USEC :
			   tg_depth_target(&tg->depth,
					   READ_ONCE(tg->tunables.latency_factor));
}

/*
 * What is sent right behind an urgent request cannot be in its way, and is out of the
 * way of the next as soon as anything could be. So bulk is let in then: as much as
 * its budget has room for. What was sent beyond is less the next time, so budgets
 * below one request mean one now and then.
 */
static void tg_grant(struct tg_data *tg, u64 budget, u64 now)
{
	const u64 inside = tg_bulk_inside(tg);
	const s64 left = READ_ONCE(tg->granted);

	WRITE_ONCE(tg->granted, min_t(s64, left, 0) +
				(s64)(budget - min_t(u64, budget, inside)));
	WRITE_ONCE(tg->granted_at, now);
}

/* Whether a probe keeps bulk out: not while those it waits for have paused. */
bool tg_probe_holds(const struct tg_data *tg)
{
	return READ_ONCE(tg->probing) &&
	       time_before(jiffies, READ_ONCE(tg->probe_until)) &&
	       (tg_urgent_inside(tg) ||
		time_before(jiffies, READ_ONCE(tg->urgent_at) + TG_PAUSE_JIFFIES));
}

static bool tg_bulk_fits(struct tg_data *tg)
{
	const u64 inside = tg_bulk_inside(tg);
	const u64 budget = tg_budget(tg);
	const u32 cost = READ_ONCE(tg->bulk_cost);

	if (tg_probe_holds(tg))
		return false;
	/* What the device never answers must not count for ever. */
	if (time_after(jiffies, READ_ONCE(tg->bulk_at) + (tg->rotational ?
							  TG_PATIENCE_DISK :
							  TG_PATIENCE_FLASH)))
		return true;
	if (tg->rotational)
		return tg_arm_is_free(tg);
	if (tg_gated(tg, budget)) {
		if (READ_ONCE(tg->granted) > 0)
			return true;
		if (ktime_get_ns() < tg_gate_opens_at(tg))
			return false;
	}
	/* One at a time is always let in, so that the device goes on. */
	if (!inside)
		return !tg_paced(tg) || ktime_get_ns() >= READ_ONCE(tg->bulk_next_at);
	return inside + cost <= budget;
}

/*
 * Whether the backlog may send a request while several want more than there is. What
 * is in a device that takes everything was asked for by who asks for most; so that
 * turns decide, it is given no more than keeps it busy. A disk takes little anyway.
 */
bool tg_bulk_may_share(struct tg_data *tg)
{
	const unsigned long now = jiffies;
	const unsigned long last = READ_ONCE(tg->shared_at);

	/* What the device never answers must not count for ever. */
	if (!tg->rotational && tg_bulk_inside(tg) >= TG_SHARED_NS &&
	    time_before(now, last + TG_PATIENCE_FLASH))
		return false;
	if (last != now)
		WRITE_ONCE(tg->shared_at, now);
	return true;
}

/* Whether the backlog may send a request while somebody may wait on latency. */
bool tg_bulk_may_go_pressed(struct tg_data *tg)
{
	if (!tg_pressed(tg)) {
		WRITE_ONCE(tg->pressed, false);
		return true;
	}
	if (tg_bulk_fits(tg))
		return true;
	if (!READ_ONCE(tg->limited))
		WRITE_ONCE(tg->limited, true);
	return false;
}

/* For how long bulk has to wait if nothing happens, in ns. */
static u64 tg_wait(const struct tg_data *tg)
{
	const u64 now = ktime_get_ns();
	u64 until = 0;

	if (tg->rotational)
		until = tg_arm_changes_at(tg);
	else if (tg_gated(tg, tg_budget(tg)))
		until = tg_gate_opens_at(tg);
	if (!tg->rotational && tg_paced(tg) && !tg_bulk_inside(tg))
		until = max(until, READ_ONCE(tg->bulk_next_at));
	return until > now ? until - now : TG_WATCHDOG_NS;
}

/*
 * Have a shard wait that has requests and may send none; its owner is who unthrottles
 * it: what comes back, a new urgent request, or the watchdog. It is not throttled
 * afterwards if it may send after all.
 */
void tg_throttle(struct tg_shard *shard)
{
	struct tg_data *tg = shard->tg;
	u64 wait = TG_WATCHDOG_NS, limit_wait;

	lockdep_assert_held(&shard->lock);

	if (trace_triage_hold_enabled())
		tg_trace_hold(shard, tg_budget(tg), tg_bulk_inside(tg));
	limit_wait = READ_ONCE(tg->tunables.limited) ? tg_limit_wait(shard) : 0;
	assign_bit(TG_LIMITED, &shard->state, limit_wait);
	if (!test_and_set_bit(TG_THROTTLED, &shard->state))
		atomic_inc(&tg->nr_throttled);
	if (limit_wait) {
		wait = min(wait, limit_wait);
	} else {
		u64 awaited;

		/* Pairs with the barrier in tg_back(): both look at what is in the device. */
		smp_mb__after_atomic();
		awaited = tg_media_wait(shard);
		if (!awaited && tg_bulk_may_go(tg)) {
			tg_unthrottle(shard);
			return;
		}
		wait = min3(wait, tg_wait(tg), awaited ?: wait);
	}
	if (wait < TG_WATCHDOG_NS || !hrtimer_is_queued(&shard->watchdog))
		hrtimer_start(&shard->watchdog, ns_to_ktime(wait), HRTIMER_MODE_REL);
}

static enum hrtimer_restart tg_watchdog(struct hrtimer *timer)
{
	struct tg_shard *shard = container_of(timer, struct tg_shard, watchdog);

	tg_unthrottle(shard);
	blk_mq_run_hw_queue(shard->hctx, true);
	return HRTIMER_NORESTART;
}

/* Whether bulk may go that waits, and is not soon held again. */
static bool tg_bulk_is_worth_waking(struct tg_data *tg)
{
	if (!tg->rotational && atomic_read(&tg->nr_greedy) > 1 &&
	    tg_bulk_inside(tg) >= TG_SHARED_WAKE_NS)
		return false;
	return tg_bulk_may_go(tg);
}

/* Wake the shards that wait. Only those: running a hardware queue is not cheap. */
static void tg_wake(struct tg_data *tg)
{
	unsigned int i;

	if (!tg_bulk_is_worth_waking(tg))
		return;
	for (i = 0; i < tg->nr_shards; i++) {
		struct tg_shard *shard = &tg->shards[i];

		if (!test_bit(TG_THROTTLED, &shard->state) ||
		    test_bit(TG_LIMITED, &shard->state))
			continue;
		tg_unthrottle(shard);
		blk_mq_run_hw_queue(shard->hctx, true);
	}
}

/* Learn what requests cost, if the device was busy through a whole window. */
static noinline void tg_learn_costs(struct tg_data *tg)
{
	struct tg_work work[TG_OPS], now[TG_OPS] = {};
	unsigned long flags;
	u64 time, fewest = 0;
	unsigned int i;
	int op;

	if (!spin_trylock_irqsave(&tg->control, flags))
		return;
	/* Another shard may have been quicker. */
	if (!time_after(jiffies, tg->window_until))
		goto unlock;
	time = ktime_get_ns();
	for (i = 0; i < tg->nr_shards; i++) {
		struct tg_shard *shard = &tg->shards[i];

		for (op = TG_READ; op < TG_OPS; op++) {
			now[op].requests += READ_ONCE(shard->work[op].requests);
			now[op].kib += READ_ONCE(shard->work[op].kib);
		}
		if (READ_ONCE(shard->fewest) != U32_MAX)
			fewest += READ_ONCE(shard->fewest);
		WRITE_ONCE(shard->fewest, U32_MAX);
	}
	for (op = TG_READ; op < TG_OPS; op++) {
		work[op].requests = now[op].requests - tg->window_work[op].requests;
		work[op].kib = now[op].kib - tg->window_work[op].kib;
		tg->window_work[op] = now[op];
	}
	if (fewest >= (tg->rotational ? TG_BUSY_DISK : TG_BUSY_FLASH))
		tg_cost_learn(tg->costs, work, time - tg->window_began);
	tg->window_began = time;
	WRITE_ONCE(tg->window_until, jiffies + TG_WINDOW_JIFFIES);
unlock:
	spin_unlock_irqrestore(&tg->control, flags);
}

/* What is done once a tick, before the first request in it is sent. */
static void tg_tick(struct tg_shard *shard)
{
	struct tg_data *tg = shard->tg;

	shard->tick = jiffies;
	shard->samples = 0;
	if (READ_ONCE(tg->bulk_seen) &&
	    time_after_eq(jiffies, READ_ONCE(tg->bulk_at) + TG_QUIET_JIFFIES))
		WRITE_ONCE(tg->bulk_seen, false);
	if (time_after(jiffies, READ_ONCE(tg->window_until)))
		tg_learn_costs(tg);
}

/*
 * Time an urgent request, which is done with the first in every tick: the controller
 * learns from it.
 */
static void tg_time(struct tg_shard *shard, struct tg_tag *tag)
{
	tg_urgent_seen(shard->tg);
	shard->samples++;
	tag->timed = true;
	tag->clean = !tg_bulk_inside(shard->tg);
	tag->sent_at = ktime_get_ns();
}

/* The same where there is bulk, which is let in behind it. */
static void tg_send_before_bulk(struct tg_shard *shard, struct tg_tag *tag)
{
	struct tg_data *tg = shard->tg;
	const u64 budget = tg_budget(tg);
	const bool gated = tg_gated(tg, budget);

	if (shard->samples >= TG_SAMPLES_BULK && !gated)
		return;
	tg_time(shard, tag);
	if (gated)
		tg_grant(tg, budget, tag->sent_at);
}

/* Count how long a request has waited, and have its service counted. */
static void tg_send_measured(struct tg_shard *shard, struct request *rq)
{
	struct tg_data *tg = shard->tg;
	struct tg_tag *tag = tg_tag(rq);

	shard->unmeasured = TG_MEASURED;
	tag->measured = true;
	tag->sent_at = ktime_get_ns();
	tg_measure(&tg->waits[tag->class],
		   tag->sent_at - min(tag->sent_at, rq->start_time_ns));
}

/* Charge bulk for what it sends while somebody waits on latency. */
static void tg_send_bulk(struct tg_data *tg, const struct tg_tag *tag, bool write)
{
	const u32 floor = READ_ONCE(tg->bulk_cost);
	const unsigned long now = jiffies;

	if (tg->rotational) {
		tg_arm_charge(tg, tag->cost);
	} else {
		WRITE_ONCE(tg->granted, READ_ONCE(tg->granted) - tag->cost);
		if (tg_paced(tg))
			WRITE_ONCE(tg->bulk_next_at, ktime_get_ns() +
				   tg_depth_gap(tg_budget(tg), floor, tag->cost));
	}
	WRITE_ONCE(tg->bulk_cost, floor - floor / 16 + tag->cost / 16);
	if (READ_ONCE(tg->bulk_at) != now)
		WRITE_ONCE(tg->bulk_at, now);
	if (!READ_ONCE(tg->bulk_seen))
		WRITE_ONCE(tg->bulk_seen, true);
	if (write && READ_ONCE(tg->written_at) != now)
		WRITE_ONCE(tg->written_at, now);
}

/* A request is sent that something is to be done for. */
void tg_send_noticed(struct tg_shard *shard, struct request *rq)
{
	const unsigned long now = jiffies;
	struct tg_data *tg = shard->tg;
	struct tg_tag *tag = tg_tag(rq);

	lockdep_assert_held(&shard->lock);

	if (shard->tick != now)
		tg_tick(shard);
	if (!shard->unmeasured)
		tg_send_measured(shard, rq);
	if (!tag->urgent) {
		if (READ_ONCE(tg->pressed))
			tg_send_bulk(tg, tag, tg_op(rq) == TG_WRITE);
	} else if (READ_ONCE(tg->bulk_seen)) {
		tg_send_before_bulk(shard, tag);
	} else if (shard->samples < TG_SAMPLES_ALONE) {
		tg_time(shard, tag);
	}
}

static void tg_probe_begin(struct tg_data *tg)
{
	lockdep_assert_held(&tg->control);

	tg->depth.sampled = 0;
	tg->probe_began = jiffies;
	if (time_before(jiffies, READ_ONCE(tg->written_at) + TG_SETTLE_JIFFIES))
		tg->probe_began += TG_SETTLE_JIFFIES;
	WRITE_ONCE(tg->probe_until, tg->probe_began + (tg->rotational ?
						       TG_PROBE_JIFFIES_DISK :
						       TG_PROBE_JIFFIES_FLASH));
	WRITE_ONCE(tg->probing, true);
}

/* The next is due by how long this one kept bulk out, not by a pause of those it timed. */
static void tg_probe_end(struct tg_data *tg)
{
	const unsigned long until = READ_ONCE(tg->probe_until);
	const unsigned long ended = time_before(jiffies, until) ? jiffies : until;

	lockdep_assert_held(&tg->control);

	tg->probes++;
	WRITE_ONCE(tg->probing, false);
	tg->probe_next = jiffies + (ended - tg->probe_began + 1) *
				   tg_depth_spacing(&tg->depth);
}

/*
 * Learn from an urgent request: either what they take alone, or whether bulk is in
 * their way.
 */
static void tg_learn_depth(struct tg_data *tg, bool clean, u64 latency)
{
	const bool felt = time_before(jiffies, READ_ONCE(tg->bulk_at) + TG_FELT_JIFFIES);
	struct tg_depth *depth = &tg->depth;
	u64 target, least;

	lockdep_assert_held(&tg->control);

	if (tg->probing || !felt) {
		if (clean && time_after_eq(jiffies, tg->probe_began) &&
		    tg_depth_alone(depth, latency) && tg->probing)
			tg_probe_end(tg);
		else if (tg->probing && time_after(jiffies, tg->probe_until))
			tg_probe_end(tg);
		return;
	}
	target = tg_target(tg);
	if (!target) {
		tg_probe_begin(tg);
		return;
	}
	least = (u64)READ_ONCE(tg->bulk_cost) *
		max(READ_ONCE(tg->tunables.share_low), 1u) / 100;
	tg->judged++;
	tg->late += latency > target;
	tg_depth_judge(depth, latency > target, READ_ONCE(tg->limited), least);
	WRITE_ONCE(tg->limited, false);
	if (time_after(jiffies, tg->probe_next))
		tg_probe_begin(tg);
}

/* Learn from a request that was timed or measured; if it was not @done it was sent back. */
static void tg_learn_back(struct tg_data *tg, struct tg_tag *tag, bool done)
{
	const u64 now = ktime_get_ns();
	const u64 took = now - min(now, tag->sent_at);
	unsigned long flags;

	if (tag->measured && done)
		tg_measure(&tg->services[tag->class], took);
	if (tag->timed && done) {
		WRITE_ONCE(tg->urgent_back_at, now);
		if (tag->class == PRIO_CLASS_HIGH)
			WRITE_ONCE(tg->high_back_at, now);
		if (spin_trylock_irqsave(&tg->control, flags)) {
			tg_urgent_seen(tg);
			tg_learn_depth(tg, tag->clean && !tg_bulk_inside(tg), took);
			spin_unlock_irqrestore(&tg->control, flags);
		}
	}
	tag->measured = false;
	tag->timed = false;
}

/* A request came back that somebody waits for, or that teaches something. */
void tg_back_noticed(struct tg_shard *shard, struct tg_tag *tag, bool done)
{
	struct tg_data *tg = shard->tg;

	if (tag->timed || tag->measured)
		tg_learn_back(tg, tag, done);
	if (tag->on_disk) {
		WRITE_ONCE(tg->disk_back_at, ktime_get_ns());
		WRITE_ONCE(shard->flows[tag->flow].back_at, tg->disk_back_at);
	}
	if (atomic_read(&tg->nr_throttled))
		tg_wake(tg);
}

void tg_pressure_init(struct tg_shard *shard)
{
	shard->fewest = U32_MAX;
	shard->unmeasured = 1;
	hrtimer_setup(&shard->watchdog, tg_watchdog, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
}

void tg_pressure_exit(struct tg_shard *shard)
{
	hrtimer_cancel(&shard->watchdog);
	WARN_ON_ONCE(tg_gauge_inside(&shard->bulk));
	WARN_ON_ONCE(tg_gauge_inside(&shard->urgent));
}
