// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shares a device among cgroups by weight (group.h), and makes the file io.triage.weight.
 *
 * The accounts are part of a cgroup policy of the block layer. The block layer makes one struct
 * tg_group for each cgroup on each device that has the scheduler. The block layer frees this struct
 * after the cgroup's last bio, or at once when the scheduler leaves the queue, because the queue is
 * frozen then.
 */
#include <linux/bits.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/kstrtox.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/radix-tree.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#include "core.h"
#include "device.h"
#include "triage.h"

/* Bounds and default of a weight: as for io.weight, so any IOWeight= of systemd is valid here. */
#define TG_WEIGHT_MIN 1
#define TG_WEIGHT_MAX 10000
#define TG_WEIGHT_DEFAULT 100
/*
 * A cgroup crowds others only if queued requests hold more than this many of each 64 tags. If they
 * hold fewer, the device takes each request at once, and a limit would only keep the cgroup from
 * using the device's whole depth.
 */
#define TG_CROWD 8
/*
 * Time is divided into intervals of this length. A cgroup that asks for device time counts as
 * asking until the end of the next interval. A shard that waits looks at its queues at least every
 * 10 ms (TG_WATCHDOG_NS), and then its cgroups ask again.
 */
#define TG_ASKS_JIFFIES msecs_to_jiffies(20)
/* The value of tg_account.part that stands for the whole device. */
#define TG_WHOLE BIT_ULL(32)
/*
 * tg_account.reach grows for at most this much device time at once, in ns, so that its computation
 * fits 64 bits. More would help no cgroup: of what a cgroup has not used, it keeps only one slack
 * (tg_account_use()).
 */
#define TG_REACH_MAX ((s64)NSEC_PER_SEC)
/* tg_account.reach grows by at least this much at once, in ns. So rounding takes at most 1 %. */
#define TG_REACH_LEAST 100

/* Record in @at that something happened in this tick. Write once a tick: many CPUs read @at. */
static void tg_note_tick(unsigned long *at)
{
	const unsigned long now = jiffies;

	if (READ_ONCE(*at) != now)
		WRITE_ONCE(*at, now);
}

/*
 * Return the sum of all that the device has done, in a gauge's units. A request counts once it is
 * back. If it counted when it is sent, and bulk is held while the device serves it, the same time
 * would count twice: as a cost and as a hold.
 */
static u64 tg_groups_done(const struct tg_data *tg)
{
	u64 sum = 0;
	unsigned int i;

	for (i = 0; i < tg->nr_shards; i++) {
		const struct tg_device *device = &tg->shards[i]->device;

		sum += atomic64_read(&device->bulk.back) + atomic64_read(&device->urgent.back) -
		       atomic64_read(&device->returned);
	}
	return sum;
}

/*
 * Record that a request of the cgroup @group came. Called for a shard's first request in a tick,
 * and whenever a request is of another cgroup than the one before it.
 */
void tg_groups_met(struct tg_shard *shard, const void *group)
{
	struct tg_groups *groups = &shard->tg->groups;
	const void *seen = READ_ONCE(groups->seen);

	shard->seen = group;
	shard->seen_at = jiffies;
	if (seen == group)
		return;
	WRITE_ONCE(groups->seen, group);
	if (!seen)
		return;
	/* While cgroups did not share the device, nothing advanced these two. Begin anew. */
	if (!tg_groups_shared(shard->tg)) {
		atomic64_set(&groups->held_from, 0);
		atomic64_set(&groups->done, tg_groups_done(shard->tg));
	}
	tg_note_tick(&groups->shared_at);
}

void tg_lane_init(struct tg_lane *lane)
{
	int i;

	INIT_LIST_HEAD(&lane->entry);
	lane->young_until = jiffies;
	for (i = PRIO_CLASS_HIGH; i < PRIO_CLASS_COUNT; i++) {
		INIT_LIST_HEAD(&lane->classes[i].hinted);
		INIT_LIST_HEAD(&lane->classes[i].sparse);
		INIT_LIST_HEAD(&lane->classes[i].backlog);
		lane->classes[i].paced_at = jiffies - HZ;
	}
}

/* Return the length of a cgroup's turn, in ns of cost. */
static u64 tg_groups_turn(const struct tg_data *tg)
{
	return (u64)READ_ONCE(tg->tunables.quantum) * NSEC_PER_USEC;
}

/* Raise a virtual time to @least if it is below. */
static void tg_raise(atomic64_t *time, u64 least)
{
	s64 old = atomic64_read(time);

	while ((s64)(least - old) > 0 && !atomic64_try_cmpxchg(time, &old, least))
		;
}

/*
 * Return the slack, in ns of virtual time: a cgroup counts as within its share until it is ahead of
 * the share by more than this. A cgroup that comes after a pause keeps at least this much of what
 * it lacks (tg_account_join()). The slack is TG_SPARSE_DEBT turns, the largest debt with which a
 * flow is sparse. For the pace, the slack is the longest hold.
 */
static u64 tg_account_slack(const struct tg_data *tg, const struct tg_account *account,
			    enum tg_shared of)
{
	return tg_share_time(of == TG_SHARED_PACE ? TG_PACE_LAG_NS :
						    TG_SPARSE_DEBT * tg_groups_turn(tg),
			     READ_ONCE(account->weight));
}

/*
 * Let an account begin where its siblings are, after a pause. The account keeps what it lacks of
 * its share, up to a bound, because a cgroup also pauses while all its requests are in the device.
 * The bound is tg_account_slack(). For the time of a flash device it is what the device had while
 * it was shared (tg_controller.room_had) if that is more: about what it serves until a request
 * comes back.
 */
static void tg_account_join(const struct tg_data *tg, struct tg_account *account,
			    enum tg_shared of)
{
	const u64 now = READ_ONCE(account->parent->had[of].now);
	u64 lacks;

	if ((s64)(now - atomic64_read(&account->had[of].time)) <= 0)
		return;
	lacks = tg_account_slack(tg, account, of);
	if (of == TG_SHARED_DEVICE && !tg->rotational)
		lacks = max(lacks, tg_share_time(READ_ONCE(tg->controller.room_had),
						 READ_ONCE(account->weight)));
	tg_raise(&account->had[of].time, now - lacks);
}

/* Let an account and those above it begin where their siblings are. */
static void tg_accounts_join(const struct tg_data *tg, struct tg_account *account,
			     enum tg_shared of)
{
	for (; account->parent; account = account->parent)
		tg_account_join(tg, account, of);
}

/* Record that it is the turn of an account, among its siblings. */
static void tg_account_is_due(const struct tg_account *account, enum tg_shared of)
{
	const u64 time = atomic64_read(&account->had[of].time);
	struct tg_had *siblings = &account->parent->had[of];

	if ((s64)(time - READ_ONCE(siblings->now)) > 0)
		WRITE_ONCE(siblings->now, time);
}

/*
 * Charge an account, and those above it. When bulk goes, tg_account_is_due() raises the parent's
 * tg_had.now. Urgent requests do not wait until their cgroup is due, so raise it here for them: to
 * the account's time less the longest hold. Otherwise the cgroup's bulk would later wait until a
 * cgroup that joins has caught up.
 */
static void tg_account_charge(const struct tg_data *tg, struct tg_account *account,
			      enum tg_shared of, bool urgent, u64 cost)
{
	for (; account->parent; account = account->parent) {
		struct tg_had *siblings = &account->parent->had[of];
		const u64 time = atomic64_add_return(tg_share_time(cost,
								   READ_ONCE(account->weight)),
						     &account->had[of].time);
		u64 most;

		if (!urgent)
			continue;
		most = tg_account_slack(tg, account, TG_SHARED_PACE);
		if ((s64)(time - most - READ_ONCE(siblings->now)) > 0)
			WRITE_ONCE(siblings->now, time - most);
	}
}

/*
 * Charge the @used of an account, and of those above it: for eager requests, and for requests that
 * go while eager ones wait. A cgroup that uses less than its share saves up no more than one slack.
 * A cgroup whose bulk uses more, because others leave the device to it, gets ahead by no more than
 * the longest hold. So it is soon within its share again if it asks for less.
 */
static void tg_account_use(const struct tg_data *tg, struct tg_account *account, bool urgent,
			   u64 cost)
{
	for (; account->parent; account = account->parent) {
		const u64 reach = atomic64_read(&account->parent->reach);
		const u64 slack = tg_account_slack(tg, account, TG_SHARED_DEVICE);
		const u64 most = tg_account_slack(tg, account, TG_SHARED_PACE);
		u64 time = tg_share_time(cost, READ_ONCE(account->weight));

		tg_raise(&account->used, reach - slack);
		if (!urgent)
			time = clamp_t(s64, reach + most - atomic64_read(&account->used), 0, time);
		if (time)
			atomic64_add(time, &account->used);
	}
}

/* Return the number of the present interval of TG_ASKS_JIFFIES. */
static u32 tg_interval(void)
{
	return jiffies / TG_ASKS_JIFFIES;
}

/* Return the sum of the weights of an account's children that ask now. */
static u32 tg_account_asking(const struct tg_account *account)
{
	const u64 last = atomic64_read(&account->asking);
	const u64 before = READ_ONCE(account->asking_before);
	const u32 interval = tg_interval();
	u32 weights = 0;

	if (interval - upper_32_bits(last) <= 1)
		weights = lower_32_bits(last);
	if (interval - upper_32_bits(before) <= 1)
		weights = max(weights, lower_32_bits(before));
	return weights;
}

/* Return whether a sibling of an account asks now. Call this for an account that asks itself. */
static bool tg_account_meets(const struct tg_account *account)
{
	return tg_account_asking(account->parent) > READ_ONCE(account->weight);
}

/*
 * Return how far account @a is ahead of account @b, in ns of virtual time. Compare the two
 * ancestors that are just below the lowest common ancestor. Both accounts are of lanes, so neither
 * is an ancestor of the other. Set @child, unless it is NULL, to this ancestor of @a.
 */
static s64 tg_account_leads(const struct tg_account *a, const struct tg_account *b,
			    enum tg_shared of, const struct tg_account **child)
{
	while (a->depth > b->depth)
		a = a->parent;
	while (b->depth > a->depth)
		b = b->parent;
	while (a->parent != b->parent && a->parent && b->parent) {
		a = a->parent;
		b = b->parent;
	}
	if (child)
		*child = a;
	return atomic64_read(&a->had[of].time) - atomic64_read(&b->had[of].time);
}

/*
 * Return the cost of what the device has done from @before to @done, two values of
 * tg_groups_done(). It is below 0 if another CPU has read the gauges later than this one, and has
 * advanced the clock already.
 */
static s64 tg_groups_done_since(u64 done, u64 before)
{
	return (s64)((done - before) << (64 - TG_GAUGE_SHIFT)) >> (64 - TG_GAUGE_SHIFT);
}

/*
 * Return how much of the device's time has passed since tg_groups.clock was last advanced, in ns.
 * This is the larger of two times: the cost of what the device has done from @before to @done, two
 * values of tg_groups_done(); and the time for which a small budget has held bulk since @from, a
 * value of held_from, because the device is idle then. A budget holds bulk for no longer than
 * tg_patience().
 */
static u64 tg_groups_passed(const struct tg_data *tg, u64 done, u64 before, s64 from)
{
	const s64 most = (s64)jiffies_to_msecs(tg_patience(tg)) * NSEC_PER_MSEC;
	const s64 held = from ? clamp_t(s64, ktime_get_ns() - from, 0, most) : 0;

	return max_t(s64, tg_groups_done_since(done, before), held);
}

/* Return the time on the clock of a device's cgroups, in ns. */
static u64 tg_groups_clock(const struct tg_data *tg)
{
	const struct tg_groups *groups = &tg->groups;

	return atomic64_read(&groups->clock) +
	       tg_groups_passed(tg, tg_groups_done(tg), atomic64_read(&groups->done),
				atomic64_read(&groups->held_from));
}

/* Advance the clock of a device's cgroups. If @sends, bulk goes now, so it is no longer held. */
static void tg_groups_advance(struct tg_data *tg, bool sends)
{
	struct tg_groups *groups = &tg->groups;
	const u64 done = tg_groups_done(tg);
	s64 before = atomic64_read(&groups->done), from = 0;

	if (unlikely(atomic64_read(&groups->held_from)))
		from = atomic64_xchg(&groups->held_from, sends ? 0 : ktime_get_ns());
	/* If several CPUs are here at once, each adds only what the others have not added. */
	while (tg_groups_done_since(done, before) > 0 &&
	       !atomic64_try_cmpxchg(&groups->done, &before, done))
		;
	atomic64_add(tg_groups_passed(tg, done, before, from), &groups->clock);
}

/*
 * Return by how much the reach of an account's children grows, in ns of virtual time, when the
 * device's clock has moved on by @since ns. The account has its part of that time, and its children
 * that ask share this part by weight. @since is below 0 if another CPU, which has read the clock
 * later, has moved @reach_at already.
 */
static u64 tg_account_gains(const struct tg_account *account, s64 since)
{
	const u64 part = (clamp_t(s64, since, 0, TG_REACH_MAX) * READ_ONCE(account->part)) /
			 TG_WHOLE;

	return div_u64(part * 100, max(tg_account_asking(account), 1u));
}

/* Bring the @reach of each account above this one up to tg_groups.clock. */
static void tg_accounts_reach(const struct tg_data *tg, struct tg_account *account)
{
	const s64 clock = atomic64_read(&tg->groups.clock);

	for (; account->parent; account = account->parent) {
		struct tg_account *parent = account->parent;
		s64 at = atomic64_read(&parent->reach_at);
		const u64 gains = tg_account_gains(parent, clock - at);

		/* If another CPU has moved @reach_at, the next call adds what is missing. */
		if (gains >= TG_REACH_LEAST &&
		    atomic64_try_cmpxchg(&parent->reach_at, &at, clock))
			atomic64_add(gains, &parent->reach);
	}
}

/*
 * Record that an account, and those above it, ask for device time. First divide the time up to now
 * among the accounts that asked up to now. An account that has not asked lately has paused, even if
 * it has requests: the driver may have stopped the hardware queue.
 */
static void tg_accounts_ask(struct tg_data *tg, struct tg_account *account)
{
	const u32 interval = tg_interval();

	if (likely(READ_ONCE(account->asked) == interval))
		return;
	tg_groups_advance(tg, false);
	tg_accounts_reach(tg, account);
	for (; account->parent; account = account->parent) {
		struct tg_account *parent = account->parent;
		const u32 weight = READ_ONCE(account->weight);
		const u32 asked = READ_ONCE(account->asked);
		s64 old = atomic64_read(&parent->asking);

		/* If this CPU was preempted, other CPUs may be in the next interval already. */
		if (asked - interval <= 1 || upper_32_bits(old) == interval + 1 ||
		    cmpxchg(&account->asked, asked, interval) != asked)
			return;
		if (interval - asked > 1)
			tg_account_join(tg, account, TG_SHARED_DEVICE);
		if (upper_32_bits(old) != interval)
			WRITE_ONCE(parent->asking_before, old);
		while (!atomic64_try_cmpxchg(&parent->asking, &old, weight +
					     (upper_32_bits(old) == interval ?
					      old : (s64)interval << 32)))
			;
		WRITE_ONCE(account->part,
			   div_u64(READ_ONCE(parent->part) * weight,
				   max(weight, tg_account_asking(parent))));
	}
}

/*
 * Record that the cgroups of a shard's bulk ask for device time. Called if bulk may not go now. Set
 * held_from only if the budget is so small that it leaves the device idle while it holds bulk.
 */
void tg_groups_hold_bulk(struct tg_shard *shard)
{
	struct tg_data *tg = shard->tg;
	struct tg_groups *groups = &tg->groups;
	struct tg_lane *lane;

	lockdep_assert_held(&shard->lock);

	if (likely(!tg_groups_shared(tg)))
		return;
	/* If there are several lanes, tg_lane_turn() has recorded which of them ask. */
	if (list_is_singular(&shard->lanes)) {
		lane = list_first_entry(&shard->lanes, struct tg_lane, entry);
		tg_accounts_ask(tg, lane->account);
	}
	if (!atomic64_read(&groups->held_from) && READ_ONCE(tg->budget.pressed) &&
	    tg_gated(tg, tg_budget_now(tg)))
		atomic64_set(&groups->held_from, ktime_get_ns());
}

/*
 * Return whether an account has used more than its share allows. @gains is the virtual time, in ns,
 * by which the parent's @reach would grow if it were updated now.
 */
static bool tg_account_is_ahead(const struct tg_data *tg, const struct tg_account *account,
				u64 gains)
{
	const u64 reach = atomic64_read(&account->parent->reach) + gains;

	return (s64)(atomic64_read(&account->used) - reach) >
	       (s64)tg_account_slack(tg, account, TG_SHARED_DEVICE);
}

/* Return whether an account, or one above it, may be beyond its share. */
static bool tg_accounts_may_exceed(const struct tg_data *tg, const struct tg_account *account)
{
	for (; account->parent; account = account->parent)
		if (tg_account_is_ahead(tg, account, 0))
			return true;
	return false;
}

/*
 * Return whether a lane's cgroup is beyond its share, so that all its requests are bulk. Only
 * cgroups that ask now have a share. So a cgroup is not beyond its share if no sibling asks: then
 * raise @now and @reach of the account above, so that the cgroup is no longer ahead. If *@clock is
 * 0, set it to the clock of the device's cgroups.
 */
static bool tg_lane_exceeds(const struct tg_shard *shard, const struct tg_lane *lane, u64 *clock)
{
	struct tg_account *account = lane->account;
	struct tg_data *tg = shard->tg;
	bool exceeds = false;

	if (likely(!tg_groups_shared(tg)) || !tg_accounts_may_exceed(tg, account))
		return false;
	tg_accounts_ask(tg, account);
	if (!*clock)
		*clock = tg_groups_clock(tg);
	for (; account->parent; account = account->parent) {
		struct tg_account *parent = account->parent;
		const s64 since = *clock - atomic64_read(&parent->reach_at);

		if (!tg_account_is_ahead(tg, account, tg_account_gains(parent, since)))
			continue;
		if (tg_account_meets(account)) {
			exceeds = true;
		} else {
			tg_account_is_due(account, TG_SHARED_DEVICE);
			tg_raise(&parent->reach, atomic64_read(&account->used));
		}
	}
	if (exceeds)
		tg_note_tick(&tg->groups.shared_at);
	return exceeds;
}

/* Return whether a lane's cgroup is beyond its share now. */
bool tg_lane_exceeds_share(const struct tg_shard *shard, const struct tg_lane *lane)
{
	u64 clock = 0;

	return tg_lane_exceeds(shard, lane, &clock);
}

/*
 * Return whether a lane's cgroup has had less than the cgroup that was due at the shard's last
 * choice. Return true if none was due then.
 */
bool tg_lane_precedes(const struct tg_shard *shard, const struct tg_lane *lane)
{
	const struct tg_account *due;
	bool precedes;

	rcu_read_lock();
	/* Pairs with tg_lane_is_due(). */
	due = smp_load_acquire(&shard->due);
	precedes = !due || tg_account_leads(lane->account, due, TG_SHARED_DEVICE, NULL) < 0;
	rcu_read_unlock();
	return precedes;
}

/*
 * Return how far a shard's due cgroup is ahead of the due cgroup of the shard @other, in ns of
 * virtual time. Set @turn to a turn of the first of these cgroups. If no cgroup is due on one of
 * the shards, or the same one on both, return 0 and leave @turn.
 */
static s64 tg_groups_lead(const struct tg_shard *shard, const struct tg_shard *other, s64 *turn)
{
	const struct tg_account *own, *of_other, *child;
	s64 leads = 0;

	/* tg_group_free() waits for a grace period. */
	rcu_read_lock();
	/* Pairs with tg_lane_is_due(). */
	own = smp_load_acquire(&shard->due);
	/* Pairs with tg_lane_is_due() too. */
	of_other = smp_load_acquire(&other->due);
	if (own && of_other && own != of_other) {
		leads = tg_account_leads(own, of_other, TG_SHARED_DEVICE, &child);
		*turn = tg_share_time(tg_groups_turn(shard->tg), READ_ONCE(child->weight));
	}
	rcu_read_unlock();
	return leads;
}

/*
 * Return whether a shard has to leave the device to the shard @to: the cgroup that is due on the
 * shard is ahead of the cgroup that is due on @to, by more than a turn.
 */
bool tg_groups_yield(const struct tg_shard *shard, const struct tg_shard *to)
{
	s64 turn = 0;

	return tg_groups_lead(shard, to, &turn) > turn;
}

/* Return whether the cgroup that is due on a shard has had less than the one due on @other. */
bool tg_groups_precede(const struct tg_shard *shard, const struct tg_shard *other)
{
	s64 turn;

	return tg_groups_lead(shard, other, &turn) < 0;
}

/* Let a lane's cgroup take part again after a pause. */
void tg_lane_join(struct tg_shard *shard, struct tg_lane *lane)
{
	lockdep_assert_held(&shard->lock);

	tg_accounts_join(shard->tg, lane->account, TG_SHARED_DEVICE);
}

/*
 * Charge a lane's cgroup for the requests that the lane owes for. If @sends, the last of these
 * requests goes now.
 */
static void tg_lane_settle(struct tg_shard *shard, struct tg_lane *lane, bool sends)
{
	const struct tg_account *due = shard->due ?: lane->account;
	struct tg_data *tg = shard->tg;

	lockdep_assert_held(&shard->lock);

	/*
	 * Bulk goes only when its cgroup is due, or when the due cgroup cannot send. So raise
	 * tg_had.now to the time of the due cgroup. An urgent request does not show which cgroup is
	 * due: all requests of the others may be in the device.
	 */
	if (!lane->owes_urgent) {
		for (; due->parent; due = due->parent)
			tg_account_is_due(due, TG_SHARED_DEVICE);
		tg_groups_advance(tg, sends);
		if (sends)
			tg_note_tick(&tg->groups.bulk_at);
	}
	tg_accounts_ask(tg, lane->account);
	tg_accounts_reach(tg, lane->account);
	tg_account_charge(tg, lane->account, TG_SHARED_DEVICE, lane->owes_urgent, lane->owes);
	if (lane->owes_eager)
		tg_account_use(tg, lane->account, lane->owes_urgent, lane->owes_eager);
	lane->owes = 0;
	lane->owes_eager = 0;
}

/*
 * Let a lane's cgroup owe for a request that goes to the device. @eager says that it is eager, or
 * that it goes while eager requests of the lane wait. @time is its cost and, on a disk, the time of
 * a stream's seek (tg_disk_take()). @owes_eager leaves out this seek, because it is later compared
 * with tg_groups.clock, which counts only costs.
 */
static void tg_lane_owe(struct tg_shard *shard, struct tg_lane *lane, struct request *rq,
			bool eager, u64 time)
{
	const bool urgent = tg_tag(rq)->urgent;

	lockdep_assert_held(&shard->lock);

	if (lane->owes && lane->owes_urgent != urgent)
		tg_lane_settle(shard, lane, false);
	lane->owes_urgent = urgent;
	lane->owes += time;
	if (eager)
		lane->owes_eager += tg_tag(rq)->cost;
}

/*
 * Return whether the cgroup of the shard's only request, which is of this lane, is beyond its
 * share. If the lane owes for a request of this tick, return what was true for that request.
 */
bool tg_lane_only_exceeds(struct tg_shard *shard, struct tg_lane *lane)
{
	const unsigned long now = jiffies;

	lockdep_assert_held(&shard->lock);

	if (lane->owes) {
		if (lane->owes_since == now)
			return lane->exceeds;
		tg_lane_settle(shard, lane, false);
	}
	tg_lane_join(shard, lane);
	lane->owes_since = now;
	lane->exceeds = tg_lane_exceeds_share(shard, lane);
	return lane->exceeds;
}

/*
 * Charge a lane's cgroup for the shard's only request. Writes to the accounts are slow, because all
 * CPUs share them. So the lane may owe for its requests of one tick, up to a turn. But charge bulk
 * at once if a small budget has held bulk until now: the charge also records that this hold is over
 * (tg_groups_advance()).
 */
void tg_lane_charge_only(struct tg_shard *shard, struct tg_lane *lane, struct request *rq,
			 bool eager)
{
	if (!lane->owes)
		tg_accounts_ask(shard->tg, lane->account);
	tg_lane_owe(shard, lane, rq, eager, tg_tag(rq)->cost);
	if (lane->owes >= tg_groups_turn(shard->tg) ||
	    (!lane->owes_urgent && atomic64_read(&shard->tg->groups.held_from)))
		tg_lane_settle(shard, lane, true);
}

/* Let a lane's cgroup take part in the pace after a pause. */
void tg_lane_join_pace(struct tg_shard *shard, struct tg_lane *lane)
{
	lockdep_assert_held(&shard->lock);

	tg_accounts_join(shard->tg, lane->account, TG_SHARED_PACE);
}

/*
 * Charge a lane's cgroup for a write. @cost, in ns, is how long the pace takes to allow a write of
 * this length.
 */
void tg_lane_charge_pace(struct tg_shard *shard, struct tg_lane *lane, u64 cost)
{
	const struct tg_account *account;

	lockdep_assert_held(&shard->lock);

	for (account = lane->account; account->parent; account = account->parent)
		tg_account_is_due(account, TG_SHARED_PACE);
	tg_account_charge(shard->tg, lane->account, TG_SHARED_PACE, false, cost);
}

/* Return whether a lane's cgroup has had more of the pace, by weight, than another's. */
bool tg_lane_leads_pace(const struct tg_lane *lane, const struct tg_lane *other)
{
	return tg_account_leads(lane->account, other->account, TG_SHARED_PACE, NULL) > 0;
}

/* Count a new request in its lane. If the lane was empty, it joins the others. */
void tg_lane_add(struct tg_shard *shard, struct tg_lane *lane)
{
	lockdep_assert_held(&shard->lock);

	if (lane->queued++)
		return;
	tg_lane_join(shard, lane);
	list_add_tail(&lane->entry, &shard->lanes);
	WRITE_ONCE(shard->nr_lanes, shard->nr_lanes + 1);
	if (!list_is_singular(&shard->lanes))
		tg_note_tick(&shard->tg->groups.shared_at);
}

/* Return the number of tags that a shard's requests may have, if all shards have equal parts. */
static unsigned int tg_shard_tags(const struct tg_shard *shard)
{
	const struct blk_mq_hw_ctx *hctx = READ_ONCE(shard->hctx);
	const unsigned int tags = hctx->sched_tags->bitmap_tags.sb.depth;

	if (hctx->flags & BLK_MQ_F_TAG_HCTX_SHARED)
		return tags / shard->tg->nr_shards;
	return shard->tg->nr_shards == 1 ? tags * shard->tg->queue->nr_hw_queues : tags;
}

/* Return whether so many requests are queued on a shard (TG_CROWD) that a lane may crowd others. */
bool tg_lanes_may_crowd(const struct tg_shard *shard)
{
	return READ_ONCE(shard->queued) * 64 > tg_shard_tags(shard) * TG_CROWD;
}

/*
 * Return whether a lane crowds the others with requests of a class and of more urgent classes. It
 * does if it has more than one of n + 1 equal parts of the shard's queued requests: one part for
 * each of the n lanes, and one for a cgroup that shares the device but has none queued. A cgroup
 * with a large part of the device needs more requests. So it only crowds them less
 * (TG_CROWDS_LESS) until it has as large a part of the queued requests as of the device. The caller
 * holds the shard's lock, or has preemption off, because RCU frees the lane.
 */
enum tg_crowds tg_lane_crowds(const struct tg_shard *shard, const struct tg_lane *lane,
			      enum prio_class of)
{
	const unsigned int all = READ_ONCE(shard->queued);
	u64 queued = 0;
	int class;

	for (class = PRIO_CLASS_HIGH; class <= of; class++)
		queued += READ_ONCE(lane->classes[class].queued);
	if (!tg_lanes_may_crowd(shard) || queued * (READ_ONCE(shard->nr_lanes) + 1) <= all)
		return TG_CROWDS_NOT;
	return queued * TG_WHOLE > all * READ_ONCE(lane->account->part) ? TG_CROWDS :
									  TG_CROWDS_LESS;
}

/* Return whether a lane has requests of HIGH or of sparse flows. */
static bool tg_lane_has_eager(const struct tg_lane *lane)
{
	const struct tg_class *normal = &lane->classes[PRIO_CLASS_NORMAL];

	return lane->classes[PRIO_CLASS_HIGH].queued || !list_empty(&normal->sparse) ||
	       !list_empty(&normal->hinted);
}

/*
 * Charge a request that is taken from the lane, and remove the lane if this was its last request.
 */
void tg_lane_take(struct tg_shard *shard, struct tg_lane *lane, struct request *rq, bool eager,
		  u64 time)
{
	lockdep_assert_held(&shard->lock);

	if (unlikely(tg_groups_shared(shard->tg))) {
		tg_lane_owe(shard, lane, rq, eager || tg_lane_has_eager(lane), time);
		tg_lane_settle(shard, lane, true);
		if (shard->turn == lane->id)
			shard->turn_left -= time;
	}
	if (--lane->queued)
		return;
	list_del_init(&lane->entry);
	WRITE_ONCE(shard->nr_lanes, shard->nr_lanes - 1);
	if (shard->due == lane->account)
		WRITE_ONCE(shard->due, NULL);
}

/*
 * Record how many flows of a lane have bulk that waits. Sparse flows, and HIGH of a cgroup that is
 * beyond its share, are bulk too at times: together they count as one flow of NORMAL.
 */
static void tg_lane_waits(struct tg_shard *shard, const struct tg_lane *lane)
{
	const struct tg_class *normal = &lane->classes[PRIO_CLASS_NORMAL];
	const struct tg_class *low = &lane->classes[PRIO_CLASS_LOW];

	tg_shard_waits(shard, max_t(u32, normal->nr_backlog, lane->queued > low->queued),
		       low->nr_backlog);
}

/* Tell other shards which lane is due on this shard; NULL if none is. */
void tg_lane_is_due(struct tg_shard *shard, const struct tg_lane *lane)
{
	struct tg_account *due = lane ? lane->account : NULL;

	lockdep_assert_held(&shard->lock);

	if (lane && shard->tg->nr_shards > 1)
		tg_lane_waits(shard, lane);
	if (shard->due == due)
		return;
	/*
	 * A CPU that sees the account sees its ancestors. Pairs with tg_groups_lead() and
	 * tg_lane_precedes().
	 */
	smp_store_release(&shard->due, due);
}

/* Return whether a lane's cgroup has had less of the device's time, by weight, than another's. */
static bool tg_lane_is_before(const struct tg_lane *lane, const struct tg_lane *other)
{
	return tg_account_leads(lane->account, other->account, TG_SHARED_DEVICE, NULL) < 0;
}

/*
 * Return whether rate limits or the pace hold all requests of a lane. If the pace holds all of a
 * class, record that here: tg_choose() may find a request in another lane first, and then nothing
 * else would record it.
 */
static bool tg_lane_is_held(struct tg_shard *shard, struct tg_lane *lane)
{
	bool held = true;
	int class;

	for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++) {
		if (!lane->classes[class].queued || tg_limit_holds(shard, class))
			continue;
		if (tg_class_is_paced(shard, lane, class))
			tg_pace_has_held(shard, lane, class);
		else
			held = false;
	}
	return held;
}

/*
 * Begin the next cgroup's turn if the last turn is over: its cgroup has used a quantum, or has no
 * more requests, or rate limits or the pace hold all of them. But a cgroup without requests keeps
 * its turn while a disk waits for one of its flows.
 */
void tg_lane_turn(struct tg_shard *shard)
{
	struct tg_lane *lane, *due = NULL;
	bool goes_on = false;

	lockdep_assert_held(&shard->lock);

	tg_note_tick(&shard->tg->groups.shared_at);
	list_for_each_entry(lane, &shard->lanes, entry) {
		/* Without this, the lane would later get turns for the time of the hold. */
		if (tg_lane_is_held(shard, lane)) {
			tg_lane_join(shard, lane);
			continue;
		}
		tg_accounts_ask(shard->tg, lane->account);
		goes_on |= lane->id == shard->turn;
		if (!due || tg_lane_is_before(lane, due))
			due = lane;
	}
	tg_lane_is_due(shard, due);
	if (!due)
		return;
	goes_on |= tg_media_wait(shard) && shard->head.awaited->group == shard->turn;
	if (goes_on && shard->turn_left > 0)
		return;
	shard->turn = due->id;
	shard->turn_left = tg_groups_turn(shard->tg);
	if (shard->head.awaited && shard->head.awaited->group != due->id)
		shard->head.awaited = NULL;
}

/* Find out which lanes are beyond their share, and in which order to ask lanes for a request. */
void tg_lanes_rank(struct tg_shard *shard)
{
	struct tg_lane *lane;
	u64 clock = 0;

	lockdep_assert_held(&shard->lock);

	list_for_each_entry(lane, &shard->lanes, entry) {
		lane->exceeds = tg_lane_exceeds(shard, lane, &clock);
		if (tg_lane_has_eager(lane) && !lane->exceeds)
			lane->rank = lane->classes[PRIO_CLASS_HIGH].queued ? TG_RANK_HIGH :
									     TG_RANK_SPARSE;
		else
			lane->rank = lane->id == shard->turn ? TG_RANK_TURN : TG_RANK_OTHER;
	}
}

/*
 * Return the lane to ask next for a request. Leave out lanes that were asked since tg_shard.asked
 * changed. Return NULL if all lanes were asked.
 */
struct tg_lane *tg_lane_pick(struct tg_shard *shard)
{
	struct tg_lane *lane, *best = NULL;

	lockdep_assert_held(&shard->lock);

	list_for_each_entry(lane, &shard->lanes, entry) {
		if (lane->asked == shard->asked)
			continue;
		if (best && (lane->rank > best->rank ||
			     (lane->rank == best->rank && !tg_lane_is_before(lane, best))))
			continue;
		best = lane;
	}
	if (best)
		best->asked = shard->asked;
	return best;
}

#ifdef CONFIG_BLK_CGROUP

/**
 * struct tg_cgroup - a cgroup, on all devices
 * @data: the block layer's part
 * @weight: its weight on devices for which none is set; guarded by the blkcg's lock
 */
struct tg_cgroup {
	struct blkcg_policy_data data;
	u32 weight;
};

/**
 * struct tg_group - a cgroup on one device
 * @data: the block layer's part
 * @weight: its weight on this device, or 0 to use that of struct tg_cgroup. Guarded by the blkcg's
 *	lock
 * @all: account of the cgroup and of those below it; it has no parent before the cgroup's first
 *	request (tg_group_link())
 * @own: account of the cgroup's own requests, which share with the cgroups below it
 * @rcu: delays freeing the memory, because tg_groups_lead(), tg_lane_precedes() and
 *	tg_lane_of_current() may still read it
 * @nr_lanes: number of @lanes
 * @lanes: a lane for each shard that the device may have
 */
struct tg_group {
	struct blkg_policy_data data;
	u32 weight;
	struct tg_account all;
	struct tg_account own;
	struct rcu_head rcu;
	unsigned int nr_lanes;
	struct tg_lane lanes[];
};

static struct blkcg_policy tg_policy;

static struct tg_cgroup *tg_cgroup_of(const struct blkcg *blkcg)
{
	return container_of(blkcg->cpd[tg_policy.plid], struct tg_cgroup, data);
}

/* Return a cgroup on a device, or NULL if the device's scheduler is not triage. */
static struct tg_group *tg_group_of(const struct blkcg_gq *blkg)
{
	struct blkg_policy_data *data = blkg->pd[tg_policy.plid];

	return data ? container_of(data, struct tg_group, data) : NULL;
}

/* Return a cgroup's parent on a device, or NULL if the parent is the root or not known. */
static struct tg_group *tg_group_above(const struct tg_group *group)
{
	const struct blkcg_gq *above = group->data.blkg->parent;

	return above->parent ? tg_group_of(above) : NULL;
}

/* Return whether a cgroup's account knows the account above it. */
static bool tg_group_is_linked(const struct tg_group *group)
{
	/* Pairs with tg_group_link(): a CPU that sees the parent sees the depths. */
	return smp_load_acquire(&group->all.parent);
}

/*
 * Link a cgroup's account to the accounts above it. Any number of shards may do so at once. Link
 * the topmost account first, and do not use recursion: users may nest cgroups as deep as they like.
 */
static void tg_group_link(struct tg_data *tg, struct tg_group *group)
{
	while (!tg_group_is_linked(group)) {
		struct tg_group *top = group, *above = tg_group_above(group);
		struct tg_account *parent;

		while (above && !tg_group_is_linked(above)) {
			top = above;
			above = tg_group_above(top);
		}
		parent = above ? &above->all : &tg->groups.all;
		WRITE_ONCE(top->all.depth, READ_ONCE(parent->depth) + 1);
		WRITE_ONCE(top->own.depth, READ_ONCE(parent->depth) + 2);
		/* Pairs with tg_group_is_linked(). */
		smp_store_release(&top->all.parent, parent);
	}
}

/*
 * Return the cgroup of a bio on this device. Return NULL for the root, and for a cgroup that is not
 * known here: a driver may have given the bio no cgroup, or one of another device.
 */
static struct tg_group *tg_group_of_bio(struct tg_data *tg, const struct bio *bio)
{
	struct blkcg_gq *blkg = bio ? bio->bi_blkg : NULL;
	struct tg_group *group;

	if (!blkg || !blkg->parent || blkg->q != tg->queue || !tg->groups.active)
		return NULL;
	group = tg_group_of(blkg);
	if (group)
		tg_group_link(tg, group);
	return group;
}

struct tg_lane *tg_lane_of(struct tg_shard *shard, struct request *rq)
{
	struct tg_group *group = tg_group_of_bio(shard->tg, rq->bio);

	return group ? &group->lanes[shard->index] : &shard->lane;
}

/*
 * Return the lane that the current task's requests join. The task must not be a worker of a
 * workqueue, because a worker may work for any cgroup. The caller must have preemption off, because
 * RCU frees the lane.
 */
struct tg_lane *tg_lane_of_current(struct tg_shard *shard)
{
	const struct tg_data *tg = shard->tg;
	struct blkcg_gq *blkg;
	struct tg_group *group;
	struct blkcg *blkcg;

	if (!tg->groups.active)
		return &shard->lane;
	blkcg = container_of(task_css(current, io_cgrp_id), struct blkcg, css);
	blkg = radix_tree_lookup(&blkcg->blkg_tree, tg->queue->id);
	if (!blkg || !blkg->parent || blkg->q != tg->queue)
		return &shard->lane;
	group = tg_group_of(blkg);
	return group ? &group->lanes[shard->index] : &shard->lane;
}

/* Return the number of the cgroup whose lane a bio's request would join; 0 for the root's lane. */
u64 tg_group_id(struct tg_data *tg, const struct bio *bio)
{
	const struct tg_group *group = tg_group_of_bio(tg, bio);

	return group ? group->lanes[0].id : 0;
}

/* Give a cgroup's account the weight set for the device, or else the weight for all devices. */
static void tg_group_weigh(struct tg_group *group)
{
	lockdep_assert_held(&group->data.blkg->blkcg->lock);

	WRITE_ONCE(group->all.weight, READ_ONCE(group->weight) ?:
		   READ_ONCE(tg_cgroup_of(group->data.blkg->blkcg)->weight));
}

static struct blkcg_policy_data *tg_cgroup_alloc(gfp_t gfp)
{
	struct tg_cgroup *cgroup = kzalloc(sizeof(*cgroup), gfp);

	if (!cgroup)
		return NULL;
	cgroup->weight = TG_WEIGHT_DEFAULT;
	return &cgroup->data;
}

static void tg_cgroup_free(struct blkcg_policy_data *data)
{
	kfree(container_of(data, struct tg_cgroup, data));
}

static struct blkg_policy_data *tg_group_make(struct request_queue *q, gfp_t gfp)
{
	struct tg_group *group = kvzalloc_node(struct_size(group, lanes, q->nr_hw_queues), gfp,
					       q->node);

	if (!group)
		return NULL;
	group->nr_lanes = q->nr_hw_queues;
	return &group->data;
}

IOSCHED_ALLOC_PD(tg_group_alloc, tg_group_make);

static void tg_group_init(struct blkg_policy_data *data)
{
	struct tg_group *group = container_of(data, struct tg_group, data);
	unsigned int i;

	group->all.weight = TG_WEIGHT_DEFAULT;
	group->own.parent = &group->all;
	group->own.weight = TG_WEIGHT_DEFAULT;
	for (i = 0; i < group->nr_lanes; i++) {
		tg_lane_init(&group->lanes[i]);
		group->lanes[i].account = &group->own;
		group->lanes[i].id = data->blkg->blkcg->css.serial_nr;
	}
}

/* Give a new cgroup its weight on the device. Called with the blkcg's lock held. */
static void tg_group_online(struct blkg_policy_data *data)
{
	tg_group_weigh(container_of(data, struct tg_group, data));
}

/* Called in any context. */
static void tg_group_free(struct blkg_policy_data *data)
{
	struct tg_group *group = container_of(data, struct tg_group, data);
	unsigned int i;

	for (i = 0; i < group->nr_lanes; i++)
		WARN_ON_ONCE(group->lanes[i].queued || !tg_lane_is_empty(&group->lanes[i]));
	kvfree_rcu(group, rcu);
}

static u64 tg_weight_show_device(struct seq_file *m, struct blkg_policy_data *data, int unused)
{
	const u32 weight = READ_ONCE(container_of(data, struct tg_group, data)->weight);

	return weight ? __blkg_prfill_u64(m, data, weight) : 0;
}

static int tg_weight_show(struct seq_file *m, void *unused)
{
	struct blkcg *blkcg = container_of(seq_css(m), struct blkcg, css);

	seq_printf(m, "default %u\n", READ_ONCE(tg_cgroup_of(blkcg)->weight));
	blkcg_print_blkgs(m, blkcg, tg_weight_show_device, &tg_policy, 0, false);
	return 0;
}

/* Parse a weight. With @none, parse "default" too, as 0. */
static int tg_weight_parse(const char *text, bool none, u32 *weight)
{
	if (none && sysfs_streq(text, "default")) {
		*weight = 0;
		return 0;
	}
	if (kstrtou32(text, 10, weight) || *weight < TG_WEIGHT_MIN || *weight > TG_WEIGHT_MAX)
		return -EINVAL;
	return 0;
}

/* Set a cgroup's weight on all devices for which none is set. */
static void tg_weight_set_default(struct blkcg *blkcg, u32 weight)
{
	struct blkcg_gq *blkg;

	spin_lock_irq(&blkcg->lock);
	WRITE_ONCE(tg_cgroup_of(blkcg)->weight, weight);
	hlist_for_each_entry(blkg, &blkcg->blkg_list, blkcg_node) {
		struct tg_group *group = tg_group_of(blkg);

		if (group)
			tg_group_weigh(group);
	}
	spin_unlock_irq(&blkcg->lock);
}

/* Set a cgroup's weight: "WEIGHT", "default WEIGHT", "MAJOR:MINOR WEIGHT|default". */
static ssize_t tg_weight_write(struct kernfs_open_file *of, char *text, size_t count,
			       loff_t unused)
{
	struct blkcg *blkcg = container_of(of_css(of), struct blkcg, css);
	struct blkg_conf_ctx ctx;
	struct tg_group *group;
	unsigned long flags;
	u32 weight;
	int ret;

	text = strim(text);
	if (!strchr(text, ':')) {
		if (str_has_prefix(text, "default"))
			text = skip_spaces(text + strlen("default"));
		ret = tg_weight_parse(text, false, &weight);
		if (ret)
			return ret;
		tg_weight_set_default(blkcg, weight);
		return count;
	}
	ret = iosched_conf_begin(&ctx, blkcg, &tg_policy, text);
	if (ret)
		return ret;
	ret = tg_weight_parse(ctx.body, true, &weight);
	group = tg_group_of(ctx.blkg);
	if (!ret && group) {
		spin_lock_irqsave(&blkcg->lock, flags);
		WRITE_ONCE(group->weight, weight);
		tg_group_weigh(group);
		spin_unlock_irqrestore(&blkcg->lock, flags);
	}
	iosched_conf_end(&ctx);
	return ret ?: count;
}

static struct cftype tg_files[] = {
	{
		.name		= "triage.weight",
		.flags		= CFTYPE_NOT_ON_ROOT,
		.seq_show	= tg_weight_show,
		.write		= tg_weight_write,
	},
	{}
};

static struct blkcg_policy tg_policy = {
	.dfl_cftypes	= tg_files,
	.cpd_alloc_fn	= tg_cgroup_alloc,
	.cpd_free_fn	= tg_cgroup_free,
	.pd_alloc_fn	= tg_group_alloc,
	.pd_init_fn	= tg_group_init,
	.pd_online_fn	= tg_group_online,
	.pd_free_fn	= tg_group_free,
};

/* True if the kernel had room for another cgroup policy. Set once, when the module is loaded. */
static bool tg_policy_is_registered;

void tg_groups_register(void)
{
	const int ret = blkcg_policy_register(&tg_policy);

	tg_policy_is_registered = !ret;
	if (ret)
		pr_warn("triage: no io.triage.weight: blkcg_policy_register() returned %d\n", ret);
}

void tg_groups_unregister(void)
{
	if (tg_policy_is_registered)
		blkcg_policy_unregister(&tg_policy);
}

static int tg_groups_activate(struct tg_data *tg)
{
	const int ret = tg_policy_is_registered ?
			iosched_activate_policy(tg->queue, &tg_policy) : 0;

	tg->groups.active = tg_policy_is_registered && !ret;
	return ret;
}

static void tg_groups_deactivate(struct tg_data *tg)
{
	if (tg->groups.active)
		iosched_deactivate_policy(tg->queue, &tg_policy);
}

#else

struct tg_lane *tg_lane_of(struct tg_shard *shard, struct request *rq)
{
	return &shard->lane;
}

struct tg_lane *tg_lane_of_current(struct tg_shard *shard)
{
	return &shard->lane;
}

u64 tg_group_id(struct tg_data *tg, const struct bio *bio)
{
	return 0;
}

void tg_groups_register(void)
{
}

void tg_groups_unregister(void)
{
}

static int tg_groups_activate(struct tg_data *tg)
{
	return 0;
}

static void tg_groups_deactivate(struct tg_data *tg)
{
}

#endif

/*
 * Set up the accounts. Return 0 or a negative errno. After an error, the caller has nothing to
 * undo.
 */
int tg_groups_init(struct tg_data *tg)
{
	struct tg_groups *groups = &tg->groups;
	unsigned int i;

	groups->all.part = TG_WHOLE;
	groups->own.parent = &groups->all;
	groups->own.depth = 1;
	groups->own.weight = TG_WEIGHT_DEFAULT;
	groups->shared_at = jiffies - HZ;
	groups->bulk_at = jiffies;
	for (i = 0; i < tg->nr_shards; i++)
		tg->shards[i]->lane.account = &groups->own;
	return tg_groups_activate(tg);
}

/* Forget the cgroups. Called with the queue frozen: no request is left. */
void tg_groups_exit(struct tg_data *tg)
{
	tg_groups_deactivate(tg);
}
