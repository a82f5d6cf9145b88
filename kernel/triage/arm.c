// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bulk's turns of a disk's arm while urgent requests come.
 *
 * A submitter that waits for each answer asks again as soon as it has one. Without turns,
 * bulk would go between any two of its requests, and cost it two seeks, there and back.
 * Bulk's turn ends after a cost or a time. Urgent requests are held meanwhile, so that the
 * arm stays with bulk's stream, which soon asks for more.
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
/*
 * While no request of HIGH comes, urgent requests may take so many times their target: then
 * bulk's turns are longer, and the arm spends less of its time on the seeks between turns. A
 * target that the user has set in us is kept as it is.
 */
#define TG_ARM_PATIENT 2

/* Return how long the arm takes to bulk's place, in ns: a read's cost without its data. */
static u64 tg_arm_way(const struct tg_data *tg)
{
	return tg_costs_base(&tg->costs, TG_READ);
}

/*
 * Return the length of a turn, in ns: the target less urgent requests' service time without
 * bulk. If that time is not known, or the budget is fixed, a turn is as long as the budget.
 */
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
 * Return how long urgent requests have the arm between two turns, in ns. HIGH may read in
 * sequence: its requests then take next to no time, but each turn costs it two seeks. So its
 * pause is at least a multiple of a seek.
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
 * Return whether urgent requests are held, because bulk's turn is due or goes on. If no bulk
 * is queued, the caller ends the turn (tg_arm_yield()).
 */
bool tg_arm_is_held(const struct tg_data *tg)
{
	return !tg_probe_holds(tg) &&
	       (tg_arm_has_bulk(tg) || ktime_get_ns() >= READ_ONCE(tg->arm.next_at));
}

/*
 * Return when bulk's next turn may begin, in ns: when it is due, or when the last urgent
 * request came back a while ago. As long as the disk has urgent requests, the turn begins
 * later than it is due, because the disk might serve them last.
 */
static u64 tg_arm_opens_at(const struct tg_data *tg)
{
	const u64 awaited = (u64)READ_ONCE(tg->tunables.anticipation) * NSEC_PER_USEC;
	const u64 due = READ_ONCE(tg->arm.next_at);

	return tg_urgent_inside(tg) ? due + READ_ONCE(tg->controller.tail) :
				      min(due, READ_ONCE(tg->budget.urgent_back_at) + awaited);
}

/* Return whether bulk may use the arm now. */
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

	/*
	 * Subtract a seek, or the service time of urgent requests if that is less. Add 1, so
	 * that one request goes in any case.
	 */
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

/* End bulk's turn: bulk has no use for the rest of it. */
void tg_arm_yield(struct tg_data *tg)
{
	WRITE_ONCE(tg->arm.until, 0);
}
