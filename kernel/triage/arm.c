// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whose turn of a disk's arm it is, while somebody waits on latency.
 *
 * Who waits for each answer asks again as soon as he has it, and would pay for a way of
 * the arm, there and back, between any two of his requests. So bulk has turns of the
 * arm, which end by what was sent or by time. Meanwhile those who wait are held: a
 * stream comes back for more before they are done with, and the arm should be there.
 */
#include <linux/ktime.h>

#include "triage.h"

/* Between two turns HIGH has so many times what it takes alone or a way; others so many. */
#define TG_ARM_PAUSE_HIGH 18
#define TG_ARM_PAUSE 3
/* And those may be kept waiting for so many times the target, if found: every way costs. */
#define TG_ARM_PATIENT 2

/* For how long the arm goes where bulk wants it: what a request costs without its bytes. */
static u64 tg_arm_way(const struct tg_data *tg)
{
	return READ_ONCE(tg->costs[TG_READ].base);
}

/* How long a turn is: what the target leaves beside what requests take alone; ns. */
static u64 tg_arm_turn(const struct tg_data *tg, bool high)
{
	const u64 fixed = (u64)READ_ONCE(tg->tunables.budget_fixed) * NSEC_PER_USEC;
	const bool exact = high || READ_ONCE(tg->tunables.latency_target_us);
	const u64 target = tg_target(tg) * (exact ? 1 : TG_ARM_PATIENT);
	const u64 alone = tg_depth_target(&tg->depth, 100);

	if (fixed || !alone)
		return fixed ?: READ_ONCE(tg->depth.budget);
	return target - min(target, alone);
}

/*
 * How long those who wait on latency have it between two turns; ns. HIGH may read on:
 * that takes next to nothing, and a turn costs it two ways of the arm all the same.
 */
static u64 tg_arm_pause(const struct tg_data *tg, bool high, u64 turn)
{
	const u64 alone = tg_depth_target(&tg->depth, 100) ?: turn;

	return high ? max(alone, tg_arm_way(tg)) * TG_ARM_PAUSE_HIGH :
		      alone * TG_ARM_PAUSE;
}

/* Whether bulk has its turn. */
static bool tg_arm_is_bulks(const struct tg_data *tg)
{
	return READ_ONCE(tg->granted) > 0 && ktime_get_ns() < READ_ONCE(tg->arm_until);
}

/*
 * Whether those who wait are held: in bulk's turn, and from when it is due until it
 * begins. For bulk that is queued.
 */
bool tg_arm_is_held(const struct tg_data *tg)
{
	return !tg_probe_holds(tg) &&
	       (tg_arm_is_bulks(tg) || ktime_get_ns() >= READ_ONCE(tg->bulk_next_at));
}

/*
 * When the next turn may begin: when the disk is done with those who wait, as it might
 * serve them last, and the turn is due or nobody comes back for an answer; ns.
 */
static u64 tg_arm_opens_at(const struct tg_data *tg)
{
	const u64 awaited = (u64)READ_ONCE(tg->tunables.anticipation) * NSEC_PER_USEC;
	const u64 due = READ_ONCE(tg->bulk_next_at);

	return tg_urgent_inside(tg) ? due + tg_depth_target(&tg->depth, 100) :
				      min(due, READ_ONCE(tg->urgent_back_at) + awaited);
}

/* Whether bulk may send. */
bool tg_arm_is_free(const struct tg_data *tg)
{
	return tg_arm_is_bulks(tg) || ktime_get_ns() >= tg_arm_opens_at(tg);
}

/* When that changes by itself; ns. */
u64 tg_arm_changes_at(const struct tg_data *tg)
{
	return tg_arm_is_bulks(tg) ? READ_ONCE(tg->arm_until) : tg_arm_opens_at(tg);
}

static void tg_arm_begin(struct tg_data *tg, u64 now)
{
	const bool high = now < READ_ONCE(tg->high_back_at) + NSEC_PER_SEC;
	const u64 way = tg_arm_way(tg), turn = max(tg_arm_turn(tg, high), way);

	/* A turn that holds one request only is a way all the same. */
	WRITE_ONCE(tg->granted, 1 + turn - min(READ_ONCE(tg->depth.mean), way));
	WRITE_ONCE(tg->arm_until, now + turn);
	WRITE_ONCE(tg->bulk_next_at, now + turn + tg_arm_pause(tg, high, turn));
}

/*
 * Bulk sends something: in its turn, or because it is owed that or has waited for too
 * long. Then its turn begins, as the arm has to go there anyway.
 */
void tg_arm_charge(struct tg_data *tg, u32 cost)
{
	const u64 now = ktime_get_ns();

	if (!tg_arm_is_bulks(tg))
		tg_arm_begin(tg, now);
	WRITE_ONCE(tg->granted, READ_ONCE(tg->granted) - cost);
}

/* Bulk has no use for the rest of its turn. */
void tg_arm_yield(struct tg_data *tg)
{
	WRITE_ONCE(tg->arm_until, 0);
}
