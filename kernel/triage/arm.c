// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shares a disk's arm: while urgent requests come, bulk gets turns.
 *
 * A submitter that waits for each answer sends its next request as soon as it has the answer.
 * Without turns, a request of bulk would go between any two requests of this submitter, and cost
 * two seeks: to bulk's place and back. A turn of bulk has a length, in ns. It ends once this time
 * has passed, or once the cost of the bulk that was sent in it exceeds this length. Until then
 * urgent requests are held, so that the arm stays with bulk's stream, which soon asks for more.
 */
#include <linux/ktime.h>

#include "device.h"
#include "triage.h"
#include "turn.h"

/*
 * The pause between two turns of bulk, as a multiple of the longer of two times: a seek, and the
 * service time of a slow urgent request without bulk (tg_controller.tail). PAUSE_HIGH applies while
 * requests of HIGH come, PAUSE while only other urgent requests do.
 */
#define TG_ARM_PAUSE_HIGH 18
#define TG_ARM_PAUSE 3
/* Nothing tells triage when a flush ends. So look again after this time, in ns. */
#define TG_ARM_LOOK_NS NSEC_PER_MSEC

/* Return the time of a seek to bulk's place, in ns: a read's cost without its data. */
static u64 tg_arm_way(const struct tg_data *tg)
{
	return tg_costs_base(&tg->costs, TG_READ);
}

/*
 * Return the pause between two turns of bulk, in ns. HIGH may read in sequence, and a disk's cache
 * takes writes at once. Such requests take next to no time, but each turn of bulk costs their
 * submitter two seeks. So the pause is at least a multiple of a seek.
 */
static u64 tg_arm_pause(const struct tg_data *tg, bool high)
{
	return max(READ_ONCE(tg->controller.tail), tg_arm_way(tg)) *
	       (high ? TG_ARM_PAUSE_HIGH : TG_ARM_PAUSE);
}

/*
 * Return the length of bulk's turn, in ns:
 * - If the user has set the budget, a turn is as long as the budget.
 * - With a target, it is the target minus the service time of a slow urgent request without bulk.
 * - With an exchange rate, it has the length that is worth most (turn.h). Beside HIGH it is at most
 *   as long as with a target (tg_target()).
 *
 * No turn is shorter than a seek. While the service time is not known, a turn is as long as a seek,
 * so one read goes.
 */
static u64 tg_arm_length(const struct tg_data *tg, bool high)
{
	const u64 fixed = (u64)READ_ONCE(tg->tunables.budget_fixed) * NSEC_PER_USEC;
	const u64 alone = READ_ONCE(tg->controller.tail), way = tg_arm_way(tg);
	const u64 target = tg_target(tg), left = max(target - min(target, alone), way);
	const unsigned int exchange = tg_exchange(tg);
	u64 worth;

	if (fixed || !alone)
		return max(fixed, way);
	if (!exchange)
		return left;
	worth = tg_turn_worth_most(way, tg_arm_pause(tg, false), alone, exchange);
	return high ? min(worth, left) : worth;
}

/*
 * Return the lengths of bulk's last turn and of the pause after it. If a request of HIGH came or
 * came back in the second before the turn began, or at any time since, the turn is at most as long
 * as without HIGH, and the pause is longer.
 */
static const struct tg_arm_round *tg_arm_round(const struct tg_data *tg)
{
	const unsigned long since = READ_ONCE(tg->arm.began_at) - TG_QUIET_JIFFIES;

	return time_after(READ_ONCE(tg->budget.high_at), since) ? &tg->arm.for_high :
								  &tg->arm.for_others;
}

static u64 tg_arm_ends_at(const struct tg_data *tg)
{
	return READ_ONCE(tg->arm.began) + READ_ONCE(tg_arm_round(tg)->turn);
}

/* Return when bulk's next turn is due, in ns. */
static u64 tg_arm_due_at(const struct tg_data *tg)
{
	const struct tg_arm_round *round = tg_arm_round(tg);

	return READ_ONCE(tg->arm.began) + READ_ONCE(round->turn) + READ_ONCE(round->pause);
}

/* Return whether a turn of bulk has begun and is not over. */
static bool tg_arm_has_bulk(const struct tg_data *tg)
{
	return READ_ONCE(tg->arm.spent) <= READ_ONCE(tg_arm_round(tg)->turn) &&
	       ktime_get_ns() < tg_arm_ends_at(tg);
}

/* Return whether the disk has a flush and no urgent request. */
static bool tg_arm_flushes(const struct tg_data *tg)
{
	return !tg_urgent_inside(tg) && tg_flush_age(tg);
}

/*
 * Return whether urgent requests are held, because bulk's turn goes on or is due. While a probe
 * keeps bulk out, they are not held. A turn that is due begins once the disk has served the urgent
 * requests that it has, so the disk gets no more of them. But while the disk has a flush and no
 * urgent request, the turn begins later (tg_arm_opens_at()), and urgent requests go until then.
 * The caller ends the turn (tg_arm_yield()) if no bulk is queued or rate limits hold all of it,
 * unless the disk waits for a flow's next request.
 */
bool tg_arm_is_held(const struct tg_data *tg)
{
	const u64 due = tg_arm_due_at(tg), now = ktime_get_ns();

	if (tg_probe_holds(tg))
		return false;
	if (tg_arm_has_bulk(tg))
		return true;
	return now >= due &&
	       (!tg_arm_flushes(tg) || now >= due + READ_ONCE(tg->controller.tail));
}

/*
 * Return when bulk's next turn may begin, in ns. It begins when it is due, or earlier: once the
 * time in the tunable anticipation has passed since the last urgent request came back and the last
 * flush ended. While the disk has an urgent request or a flush, the turn begins tg_controller.tail
 * after it is due, because the disk might serve bulk first. While a flush lasts and the disk has no
 * urgent request, return at most TG_ARM_LOOK_NS from now, so that the caller looks again.
 */
static u64 tg_arm_opens_at(struct tg_data *tg, u64 now)
{
	const u64 awaited = (u64)READ_ONCE(tg->tunables.anticipation) * NSEC_PER_USEC;
	const u64 due = tg_arm_due_at(tg);
	const u64 late = due + READ_ONCE(tg->controller.tail);

	if (tg_urgent_inside(tg))
		return late;
	if (tg_flush_age(tg)) {
		WRITE_ONCE(tg->arm.flush_seen_at, now);
		return min(late, now + TG_ARM_LOOK_NS);
	}
	return min(due, awaited + max(READ_ONCE(tg->budget.urgent_back_at),
				      READ_ONCE(tg->arm.flush_seen_at)));
}

/* Return whether bulk may use the arm now. */
bool tg_arm_is_free(struct tg_data *tg)
{
	const u64 now = ktime_get_ns();

	return tg_arm_has_bulk(tg) || now >= tg_arm_opens_at(tg, now);
}

/*
 * Return when bulk's turn ends at the latest, in ns. If bulk has no turn, return when its next turn
 * may begin.
 */
u64 tg_arm_changes_at(struct tg_data *tg)
{
	return tg_arm_has_bulk(tg) ? tg_arm_ends_at(tg) : tg_arm_opens_at(tg, ktime_get_ns());
}

static void tg_arm_begin(struct tg_data *tg, u64 now)
{
	/*
	 * Charge the seek to bulk's place, or urgent requests' mean service time if that is less.
	 */
	WRITE_ONCE(tg->arm.spent, min(READ_ONCE(tg->controller.alone), tg_arm_way(tg)));
	WRITE_ONCE(tg->arm.began, now);
	WRITE_ONCE(tg->arm.began_at, jiffies);
	WRITE_ONCE(tg->arm.for_others.turn, tg_arm_length(tg, false));
	WRITE_ONCE(tg->arm.for_others.pause, tg_arm_pause(tg, false));
	WRITE_ONCE(tg->arm.for_high.turn, tg_arm_length(tg, true));
	WRITE_ONCE(tg->arm.for_high.pause, tg_arm_pause(tg, true));
}

/*
 * Charge a dispatched request of bulk. If bulk has no turn now, begin one, even before it is due.
 * For example, an aged request goes without a turn. It moves the arm to bulk's place anyway, so
 * more bulk may follow.
 */
void tg_arm_charge(struct tg_data *tg, u32 cost)
{
	if (!tg_arm_has_bulk(tg))
		tg_arm_begin(tg, ktime_get_ns());
	WRITE_ONCE(tg->arm.spent, READ_ONCE(tg->arm.spent) + cost);
}

/* End bulk's turn early: no bulk can use the rest of it. */
void tg_arm_yield(struct tg_data *tg)
{
	WRITE_ONCE(tg->arm.spent, U64_MAX);
}
