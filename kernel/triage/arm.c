// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shares a disk's arm: while urgent requests come, bulk gets turns.
 *
 * A submitter that waits for each answer sends its next request as soon as it has the answer.
 * Without turns, bulk would go between any two requests of this submitter. Then each of them would
 * cost two seeks, to bulk's place and back. A turn of bulk ends after a cost or a time. Urgent
 * requests are held meanwhile, so that the arm stays with bulk's stream: it soon asks for more.
 */
#include <linux/ktime.h>

#include "device.h"
#include "triage.h"

/*
 * The pause between two turns of bulk, as a multiple of urgent requests' service time without
 * bulk. While HIGH comes, it is a multiple of a seek if a seek takes longer.
 */
#define TG_ARM_PAUSE_HIGH 18
#define TG_ARM_PAUSE 3
/*
 * While no request of HIGH comes, urgent requests may take this many times their target. So
 * bulk's turns are longer, and the arm spends less of its time on the seeks between turns. This
 * does not apply to a target that the user has set in us (latency_target_us).
 */
#define TG_ARM_PATIENT 2

/* Return the time of a seek to bulk's place, in ns: a read's cost without its data. */
static u64 tg_arm_way(const struct tg_data *tg)
{
	return tg_costs_base(&tg->costs, TG_READ);
}

/*
 * Return the length of bulk's turn, in ns: the target minus urgent requests' service time without
 * bulk. If the user has set a budget, or the service time is not known, a turn is as long as the
 * budget.
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
 * Return the pause between two turns of bulk, in ns. HIGH may read in sequence. Its requests
 * then take next to no time, but each turn of bulk costs it two seeks. So the pause is at least
 * a multiple of a seek while HIGH comes.
 */
static u64 tg_arm_pause(const struct tg_data *tg, bool high, u64 turn)
{
	const u64 alone = READ_ONCE(tg->controller.tail) ?: turn;

	return high ? max(alone, tg_arm_way(tg)) * TG_ARM_PAUSE_HIGH :
		      alone * TG_ARM_PAUSE;
}

/* Return whether a turn of bulk has begun and is not over. */
static bool tg_arm_has_bulk(const struct tg_data *tg)
{
	return READ_ONCE(tg->arm.left) > 0 && ktime_get_ns() < READ_ONCE(tg->arm.until);
}

/*
 * Return whether urgent requests are held, because bulk's turn goes on or is due. They are not
 * held during a probe. If no bulk is queued, the caller ends the turn (tg_arm_yield()).
 */
bool tg_arm_is_held(const struct tg_data *tg)
{
	return !tg_probe_holds(tg) &&
	       (tg_arm_has_bulk(tg) || ktime_get_ns() >= READ_ONCE(tg->arm.next_at));
}

/*
 * Return when bulk's next turn may begin, in ns. It begins when it is due, or earlier if no
 * urgent request has followed the last one for the time of the tunable anticipation. While the
 * disk has an urgent request, the turn begins later than it is due: the disk might serve bulk
 * first.
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

/* Return when bulk's turn ends, in ns. If bulk has no turn, return when its next turn may begin. */
u64 tg_arm_changes_at(const struct tg_data *tg)
{
	return tg_arm_has_bulk(tg) ? READ_ONCE(tg->arm.until) : tg_arm_opens_at(tg);
}

static void tg_arm_begin(struct tg_data *tg, u64 now)
{
	const bool high = tg_high_came_within(tg, TG_QUIET_JIFFIES);
	const u64 way = tg_arm_way(tg), turn = max(tg_arm_turn(tg, high), way);

	/*
	 * Subtract the seek to bulk's place, or urgent requests' mean service time if that is
	 * less. Add 1, so that one request goes in any case.
	 */
	WRITE_ONCE(tg->arm.left, 1 + turn - min(READ_ONCE(tg->controller.alone), way));
	WRITE_ONCE(tg->arm.until, now + turn);
	WRITE_ONCE(tg->arm.next_at, now + turn + tg_arm_pause(tg, high, turn));
}

/*
 * Charge a dispatched request of bulk. If bulk has no turn now, begin one, even before it is due.
 * For example, an aged request goes without a turn. It moves the arm to bulk's place anyway, so
 * more bulk may follow.
 */
void tg_arm_charge(struct tg_data *tg, u32 cost)
{
	const u64 now = ktime_get_ns();

	if (!tg_arm_has_bulk(tg))
		tg_arm_begin(tg, now);
	WRITE_ONCE(tg->arm.left, READ_ONCE(tg->arm.left) - cost);
}

/* End bulk's turn early: no bulk can use the rest of it. */
void tg_arm_yield(struct tg_data *tg)
{
	WRITE_ONCE(tg->arm.until, 0);
}
