// SPDX-License-Identifier: GPL-2.0-only
/*
 * The turns of a disk's arm, while somebody waits on latency.
 *
 * A submitter that waits for each answer asks again as soon as it has one, and would pay
 * for two seeks, there and back, between any two of its requests. So bulk has turns of the
 * arm, which end by the cost of what was sent or by time. In bulk's turn urgent requests
 * are held: a stream asks for more before they would be served, and the arm should be
 * there.
 */
#include <linux/ktime.h>

#include "triage.h"

/*
 * Between two turns HIGH has so many times what it takes alone, or what a seek takes if that
 * is more; other urgent requests have so many times what they take alone.
 */
#define TG_ARM_PAUSE_HIGH 18
#define TG_ARM_PAUSE 3
/* The others wait for so many times the target, unless it was set in us: seeks cost. */
#define TG_ARM_PATIENT 2

/* Return how long the arm takes to where bulk wants it: a request's cost without its data. */
static u64 tg_arm_way(const struct tg_data *tg)
{
	return tg_costs_base(&tg->costs, TG_READ);
}

/* Return how long a turn is: what the target leaves beside what requests take alone; ns. */
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
 * Return how long urgent requests have the arm between two turns; ns. HIGH may read on:
 * that takes next to nothing, and a turn costs it two seeks all the same.
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
 * Return whether urgent requests are held: in bulk's turn, and from when it is due until it
 * begins. Only while bulk is queued.
 */
bool tg_arm_is_held(const struct tg_data *tg)
{
	return !tg_probe_holds(tg) &&
	       (tg_arm_has_bulk(tg) || ktime_get_ns() >= READ_ONCE(tg->arm.next_at));
}

/*
 * Return when the next turn may begin; ns. It is due, or no urgent request has come for a
 * while; and the disk is done with urgent requests, which it might serve last.
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

/* Return when that changes by itself; ns. */
u64 tg_arm_changes_at(const struct tg_data *tg)
{
	return tg_arm_has_bulk(tg) ? READ_ONCE(tg->arm.until) : tg_arm_opens_at(tg);
}

static void tg_arm_begin(struct tg_data *tg, u64 now)
{
	const bool high = now < READ_ONCE(tg->budget.high_back_at) + NSEC_PER_SEC;
	const u64 way = tg_arm_way(tg), turn = max(tg_arm_turn(tg, high), way);

	/* A turn that holds one request only takes a seek all the same. */
	WRITE_ONCE(tg->arm.left, 1 + turn - min(READ_ONCE(tg->controller.alone), way));
	WRITE_ONCE(tg->arm.until, now + turn);
	WRITE_ONCE(tg->arm.next_at, now + turn + tg_arm_pause(tg, high, turn));
}

/*
 * Charge a request of bulk. If it goes out of turn, as it has aged or lacks its share, a
 * turn begins: the arm has to go there anyway.
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
