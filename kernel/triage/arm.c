// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bulk's turns of a disk's arm while urgent requests come.
 *
 * A submitter that waits for each answer asks again as soon as it has one. Without turns it
 * would pay for two seeks, there and back, between any two of its requests. Bulk's turn
 * ends after a cost or a time. In bulk's turn urgent requests are held: a stream asks for
 * more before they would be served, and the arm should be there.
 */
#include <linux/ktime.h>

#include "device.h"
#include "triage.h"

/*
 * How long urgent requests have the arm between two turns, as a multiple of their service
 * time without bulk. HIGH has a multiple of a seek if that is longer.
 */
#define TG_ARM_PAUSE_HIGH 18
#define TG_ARM_PAUSE 3
/* Other urgent requests: twice the target, unless the user set it in us: seeks cost. */
#define TG_ARM_PATIENT 2

/* Return the arm's time to bulk's place: a request's cost without its data; ns. */
static u64 tg_arm_way(const struct tg_data *tg)
{
	return tg_costs_base(&tg->costs, TG_READ);
}

/* Return the length of a turn: the target less the service time without bulk; ns. */
static u64 tg_arm_turn(const struct tg_data *tg, bool high)
{
	const u64 fixed = (u64)READ_ONCE(tg->tunables.budget_fixed) * NSEC_PER_USEC;
	const bool exact = high || READ_ONCE(tg->tunables.latency_target_us);
	const u64 target = tg_target(tg) * (exact ? 1 : TG_ARM_PATIENT);
	const u64 alone = READ_ONCE(tg->controller.tail);

	if (fixed || !alone)
		return fixed ?: READ_ONCE(tg->controller.budget);
	return target - min(target, alone);
}

/*
 * Return how long urgent requests have the arm between two turns; ns. HIGH may continue a
 * sequential read: that takes next to nothing, and a turn always costs it two seeks.
 */
static u64 tg_arm_pause(const struct tg_data *tg, bool high, u64 turn)
{
	const u64 alone = READ_ONCE(tg->controller.tail) ?: turn;

	return high ? max(alone, tg_arm_way(tg)) * TG_ARM_PAUSE_HIGH :
		      alone * TG_ARM_PAUSE;
}

/* Return whether bulk has its turn. */
static bool tg_arm_has_bulk(const struct tg_data *tg)
{
	return READ_ONCE(tg->arm.left) > 0 && ktime_get_ns() < READ_ONCE(tg->arm.until);
}

/*
 * Return whether urgent requests are held: bulk's turn is due or goes on. Call this only
 * while bulk is queued.
 */
bool tg_arm_is_held(const struct tg_data *tg)
{
	return !tg_probe_holds(tg) &&
	       (tg_arm_has_bulk(tg) || ktime_get_ns() >= READ_ONCE(tg->arm.next_at));
}

/*
 * Return when the next turn may begin; ns. It is due, or no urgent request has come for a
 * while; and the disk has served all urgent requests, because it might serve them last.
 */
static u64 tg_arm_opens_at(const struct tg_data *tg)
{
	const u64 awaited = (u64)READ_ONCE(tg->tunables.anticipation) * NSEC_PER_USEC;
	const u64 due = READ_ONCE(tg->arm.next_at);

	return tg_urgent_inside(tg) ? due + READ_ONCE(tg->controller.tail) :
				      min(due, READ_ONCE(tg->budget.urgent_back_at) + awaited);
}

/* Return whether bulk may be dispatched. */
bool tg_arm_is_free(const struct tg_data *tg)
{
	return tg_arm_has_bulk(tg) || ktime_get_ns() >= tg_arm_opens_at(tg);
}

/* Return when tg_arm_is_free() or tg_arm_is_held() changes by time alone; ns. */
u64 tg_arm_changes_at(const struct tg_data *tg)
{
	return tg_arm_has_bulk(tg) ? READ_ONCE(tg->arm.until) : tg_arm_opens_at(tg);
}

static void tg_arm_begin(struct tg_data *tg, u64 now)
{
	const bool high = tg_high_came_within(tg, TG_QUIET_JIFFIES);
	const u64 way = tg_arm_way(tg), turn = max(tg_arm_turn(tg, high), way);

	/* A turn of one request takes a seek too. */
	WRITE_ONCE(tg->arm.left, 1 + turn - min(READ_ONCE(tg->controller.alone), way));
	WRITE_ONCE(tg->arm.until, now + turn);
	WRITE_ONCE(tg->arm.next_at, now + turn + tg_arm_pause(tg, high, turn));
}

/*
 * Charge a request of bulk. If it goes out of turn, because it has aged or its class lacks
 * its share, a turn begins: the arm has to go there anyway.
 */
void tg_arm_charge(struct tg_data *tg, u32 cost)
{
	const u64 now = ktime_get_ns();

	if (!tg_arm_has_bulk(tg))
		tg_arm_begin(tg, now);
	WRITE_ONCE(tg->arm.left, READ_ONCE(tg->arm.left) - cost);
}

/* End bulk's turn: it has no use for the rest. */
void tg_arm_yield(struct tg_data *tg)
{
	WRITE_ONCE(tg->arm.until, 0);
}
