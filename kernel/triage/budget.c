// SPDX-License-Identifier: GPL-2.0-only
/*
 * Limits how much bulk may be in the device.
 *
 * For a second after each urgent request, a budget limits bulk in the device. The controller
 * finds this budget. A disk's bulk gets turns of the arm instead (arm.c). While flash is shared
 * (tg_is_shared()), tg_bulk_may_share() limits bulk too. At any other time nothing here limits
 * bulk.
 */
#include <linux/jiffies.h>
#include <linux/ktime.h>

#include "core.h"
#include "device.h"
#include "triage.h"

/*
 * If no bulk has gone for this long, the budget lets one request go: a device that never
 * answers must not hold bulk for ever.
 */
#define TG_PATIENCE_FLASH msecs_to_jiffies(100)
#define TG_PATIENCE_DISK msecs_to_jiffies(1000)

/*
 * A shard counts as ahead of the others by at most the cost of this many average requests, or by
 * its last request's cost if that is more. Otherwise bulk that the shard sent while nothing limited
 * bulk, or because the bulk had aged, would hold the shard back for long. By the first guesses of
 * costs (TG_COST_GUESS_FLASH), 16 reads of 64 KiB cost a millisecond.
 */
#define TG_LEAD_MAX 16

void tg_budget_init(struct tg_data *tg)
{
	struct tg_budget *budget = &tg->budget;

	budget->bulk_cost = tg_costs_base(&tg->costs, TG_READ);
	budget->bulk_at = jiffies - HZ;
	budget->high_at = jiffies - HZ;
	budget->written_at = jiffies - HZ;
}

/* Return the cost of bulk that is in the device, in ns. */
u64 tg_bulk_inside(const struct tg_data *tg)
{
	u64 sum = 0;
	unsigned int i;

	for (i = 0; i < tg->nr_shards; i++)
		sum += tg_gauge_cost(&tg->shards[i]->device.bulk);
	return sum;
}

/* Return the cost of all bulk served so far, in ns. It wraps, so use only differences. */
u64 tg_bulk_served(const struct tg_data *tg)
{
	u64 sum = 0;
	unsigned int i;

	for (i = 0; i < tg->nr_shards; i++)
		sum += atomic64_read(&tg->shards[i]->device.bulk.back);
	return sum & TG_GAUGE_COST;
}

/* Return the number of urgent requests in the device. */
u32 tg_urgent_inside(const struct tg_data *tg)
{
	u32 sum = 0;
	unsigned int i;

	for (i = 0; i < tg->nr_shards; i++)
		sum += tg_gauge_count(&tg->shards[i]->device.urgent);
	return sum;
}

/*
 * Return whether an urgent request came in the last second. If so, the budget applies. If a flush
 * began before that second was over, the budget applies until the flush ends: the submitter of the
 * urgent request may wait for the flush.
 */
bool tg_pressed(const struct tg_data *tg)
{
	const unsigned long quiet_at = READ_ONCE(tg->budget.urgent_at) + TG_QUIET_JIFFIES;

	return READ_ONCE(tg->budget.pressed) &&
	       (time_before(jiffies, quiet_at) ||
		time_before(jiffies - nsecs_to_jiffies(tg_flush_age(tg)), quiet_at));
}

/*
 * Return whether a budget is below the cost of one request. Then requests of bulk that go without a
 * grant go one at a time, with gaps between them.
 */
static bool tg_spaces(const struct tg_data *tg, u64 budget)
{
	return budget < READ_ONCE(tg->budget.bulk_cost);
}

/*
 * Return when gated bulk may go without a grant, in ns. While the device has an urgent request,
 * this is 4 * tg_controller.alone after the last grant. Otherwise it is tg_controller.alone / 2
 * after the last urgent request came back: the next urgent request may follow soon.
 */
static u64 tg_gate_opens_at(const struct tg_data *tg)
{
	const u64 alone = READ_ONCE(tg->controller.alone);

	return tg_urgent_inside(tg) ? READ_ONCE(tg->budget.granted_at) + 4 * alone :
				      READ_ONCE(tg->budget.urgent_back_at) + alone / 2;
}

/*
 * Give bulk a grant as an urgent request goes. Bulk that goes right behind this request cannot
 * delay it, and delays the next urgent one as little as possible.
 */
void tg_grant(struct tg_data *tg, u64 budget, u64 now)
{
	const u64 inside = tg_bulk_inside(tg);
	s64 old = atomic64_read(&tg->budget.granted);

	while (!atomic64_try_cmpxchg(&tg->budget.granted, &old,
				     tg_depth_grant(old, budget, inside)))
		;
	WRITE_ONCE(tg->budget.granted_at, now);
}

/*
 * If bulk is @gated, charge a request's @cost, in ns, to the grant. Otherwise clear the grant and
 * any debt.
 */
static void tg_grant_charge(struct tg_data *tg, bool gated, u32 cost)
{
	s64 old = atomic64_read(&tg->budget.granted);

	/* Mostly there is no grant and no debt. Do not write @granted then: other CPUs read it. */
	while ((gated || old) && !atomic64_try_cmpxchg(&tg->budget.granted, &old,
						       tg_depth_charge(old, gated, cost)))
		;
}

unsigned long tg_patience(const struct tg_data *tg)
{
	return tg->rotational ? TG_PATIENCE_DISK : TG_PATIENCE_FLASH;
}

static bool tg_bulk_fits(struct tg_data *tg, bool *patient)
{
	u64 inside, budget;

	if (tg_probe_holds(tg))
		return false;
	if (time_after(jiffies, READ_ONCE(tg->budget.bulk_at) + tg_patience(tg))) {
		*patient = true;
		return true;
	}
	if (tg->rotational)
		return tg_arm_is_free(tg);
	budget = tg_budget_now(tg);
	/* No limit, for example because the device has no queue: skip the sum over shards. */
	if (budget >= TG_DEPTH_MAX)
		return true;
	inside = tg_bulk_inside(tg);
	if (tg_gated(tg, budget)) {
		if (atomic64_read(&tg->budget.granted) > 0)
			return true;
		if (ktime_get_ns() < tg_gate_opens_at(tg))
			return false;
	}
	/*
	 * If no bulk is in the device, one request of bulk may go even without a grant. But if the
	 * budget is below the cost of one (tg_spaces()), this request may go only from @next_at on.
	 */
	if (!inside)
		return !tg_spaces(tg, budget) || ktime_get_ns() >= READ_ONCE(tg->budget.next_at);
	return inside + READ_ONCE(tg->budget.bulk_cost) <= budget;
}

/*
 * Return whether the budget lets bulk go. The caller has seen tg_budget.pressed set. Reset this
 * field if tg_pressed() is no longer true. Set @patient if bulk may go because none has gone for
 * tg_patience().
 */
static bool tg_bulk_may_go_pressed(struct tg_data *tg, bool *patient)
{
	if (!tg_pressed(tg)) {
		WRITE_ONCE(tg->budget.pressed, false);
		return true;
	}
	if (tg_bulk_fits(tg, patient))
		return true;
	if (!READ_ONCE(tg->budget.limited))
		WRITE_ONCE(tg->budget.limited, true);
	return false;
}

/*
 * Return the cost of the requests that use up the room (tg_room_now()), in ns. Bulk always
 * does. Urgent requests do too while cgroups share the device. If they did not, bulk of one cgroup
 * would find room while the device is full of other cgroups' urgent requests.
 */
u64 tg_room_taken(const struct tg_data *tg)
{
	const bool all = tg_groups_shared(tg);
	unsigned int i;
	u64 sum = 0;

	for (i = 0; i < tg->nr_shards; i++) {
		const struct tg_device *device = &tg->shards[i]->device;

		sum += tg_gauge_cost(&device->bulk);
		if (all)
			sum += tg_gauge_cost(&device->urgent);
	}
	return sum;
}

/*
 * Return how much of the room is left, in ns of cost. @room is tg_room_now(). A room that is narrow
 * for a moment is bulk's alone: otherwise urgent requests, which are not held back, could keep bulk
 * out.
 */
static u64 tg_room_left(const struct tg_data *tg, u64 room)
{
	u64 taken;

	/* No limit: skip the sum over shards. */
	if (room >= TG_DEPTH_MAX)
		return room;
	taken = tg_room_is_narrow(tg) ? tg_bulk_inside(tg) : tg_room_taken(tg);
	return room - min(room, taken);
}

/*
 * Return whether bulk may go while the device is shared. If a device took every request, the
 * submitter with the most requests would get most of the device. So flash gets only as many
 * requests as keep it busy, and turns of cgroups and flows decide which. A disk takes few requests
 * anyway. Set @patient if bulk may go because none has gone for tg_patience().
 */
static bool tg_bulk_may_share(const struct tg_data *tg, bool *patient)
{
	if (tg->rotational || tg_room_left(tg, tg_room_now(tg)))
		return true;
	if (time_before(jiffies, READ_ONCE(tg->budget.bulk_at) + TG_PATIENCE_FLASH))
		return false;
	*patient = true;
	return true;
}

/*
 * Return whether the device may have another request of bulk, from any shard. Set @patient if it
 * may because no bulk has gone for tg_patience().
 */
static __always_inline bool tg_bulk_is_let_in(struct tg_data *tg, bool *patient)
{
	if (READ_ONCE(tg->budget.pressed) && !tg_bulk_may_go_pressed(tg, patient))
		return false;
	return !tg_is_shared(tg) || tg_bulk_may_share(tg, patient);
}

/*
 * Return a shard's virtual time of fair queueing, in ns. A shard that joins the others begins
 * where they are (tg_budget.turn).
 */
static u64 tg_turn(const struct tg_shard *shard)
{
	const u64 turn = READ_ONCE(shard->only_low) ? READ_ONCE(shard->low_turn) :
						      READ_ONCE(shard->bulk_turn);

	return max(turn, READ_ONCE(shard->tg->budget.turn));
}

/* Have shards that join the others from now on begin at @turn at the earliest. */
static void tg_turn_raise(struct tg_data *tg, u64 turn)
{
	if (turn > READ_ONCE(tg->budget.turn))
		WRITE_ONCE(tg->budget.turn, turn);
}

/*
 * Return whether the device has bulk, and half of the limit or nearly so: less than half a request
 * is missing. If not, the shards that send now are too slow to use the limit: their CPUs or drivers
 * limit them.
 */
static bool tg_limit_is_used(const struct tg_data *tg, const struct tg_parts *parts)
{
	return parts->inside &&
	       2 * parts->inside + READ_ONCE(tg->budget.bulk_cost) >= parts->whole;
}

/*
 * Return whether a shard sends bulk to the device now: it has sent some since it was last held, has
 * more, and its driver takes all that it sends. A backlog of HIGH alone is not bulk.
 */
static bool tg_sends_bulk(const struct tg_shard *shard)
{
	return READ_ONCE(shard->sends) && READ_ONCE(shard->nr_backlog) &&
	       (READ_ONCE(shard->counts[PRIO_CLASS_NORMAL].queued) ||
		READ_ONCE(shard->counts[PRIO_CLASS_LOW].queued)) &&
	       list_empty_careful(&READ_ONCE(shard->hctx)->dispatch);
}

/*
 * Return whether a shard competes for the limit on bulk: its bulk waits, or goes to the device now
 * while the limit is @used (tg_limit_is_used()). If a shard that sends did not compete, another one
 * would take its turn between two of its requests. If it competed while the limit is not used, the
 * device would be idle. @asking competes too; it may be NULL.
 */
static bool tg_competes(const struct tg_shard *shard, const struct tg_shard *asking, bool used)
{
	return shard == asking || tg_waits_for_bulk(shard) || (used && tg_sends_bulk(shard));
}

/*
 * Return the competing shard whose due cgroup has had least of its share. Return NULL if cgroups do
 * not share the device, or if no cgroup is due on any competing shard. All waiting shards must find
 * the same shard: otherwise each might leave the device to another. So leave out a shard on which
 * no cgroup is due, because the pace holds all requests of the shard: such a shard cannot be
 * compared with others.
 */
static const struct tg_shard *tg_shard_first(const struct tg_data *tg,
					     const struct tg_shard *asking, bool used)
{
	const struct tg_shard *first = NULL;
	unsigned int i;

	if (likely(!tg_groups_shared(tg)))
		return NULL;
	for (i = 0; i < tg->nr_shards; i++) {
		const struct tg_shard *shard = tg->shards[i];

		if (!READ_ONCE(shard->due) || !tg_competes(shard, asking, used))
			continue;
		if (!first || tg_groups_precede(shard, first))
			first = shard;
	}
	return first;
}

/* Add the flows of a shard whose bulk waits. */
static void tg_flows_count(struct tg_flows_waiting *flows, const struct tg_shard *shard)
{
	const u32 more = READ_ONCE(shard->bulk_flows);

	if (READ_ONCE(shard->only_low))
		flows->low += more;
	else
		flows->normal += more;
}

/* Return the weight of a shard's bulk among @flows. */
static u32 tg_shard_weight(const struct tg_shard *shard, const struct tg_flows_waiting *flows)
{
	return tg_share_of_queue(flows, READ_ONCE(shard->bulk_flows), READ_ONCE(shard->only_low),
				 READ_ONCE(shard->tg->tunables.share_low));
}

/* Record the flows that wait, if their numbers have changed: other CPUs read the record. */
static void tg_flows_note(struct tg_flows_waiting *noted, const struct tg_flows_waiting *flows)
{
	if (READ_ONCE(noted->normal) != flows->normal)
		WRITE_ONCE(noted->normal, flows->normal);
	if (READ_ONCE(noted->low) != flows->low)
		WRITE_ONCE(noted->low, flows->low);
}

/* Fill @parts. @asking is NULL, or a shard that competes in any case. */
void tg_parts_look(const struct tg_data *tg, const struct tg_shard *asking,
		   struct tg_parts *parts)
{
	const bool pressed = READ_ONCE(tg->budget.pressed);
	const u64 budget = pressed ? tg_budget_now(tg) : TG_DEPTH_MAX;
	unsigned int i;
	bool used;

	*parts = (struct tg_parts){
		.pressed = pressed,
		.gated = pressed && tg_gated(tg, budget),
		.whole = tg_shares_room(tg) ? min(budget, tg_room_now(tg)) : budget,
		.least = U64_MAX,
	};
	/* No limit: do not look at the shards. */
	if (parts->whole >= TG_DEPTH_MAX)
		return;
	parts->inside = tg_bulk_inside(tg);
	used = tg_limit_is_used(tg, parts);
	parts->first = tg_shard_first(tg, asking, used);
	for (i = 0; i < tg->nr_shards; i++) {
		const struct tg_shard *shard = tg->shards[i];

		if (!tg_competes(shard, asking, used))
			continue;
		if (parts->first && tg_groups_yield(shard, parts->first))
			continue;
		parts->competing++;
		tg_flows_count(&parts->flows, shard);
		parts->least = min(parts->least, tg_turn(shard));
	}
}

/*
 * Return whether a cost is at most the part of the limit that is due to a shard of @weight. @all is
 * the sum of the weights of all that wait. Without urgent requests a part is at least a request of
 * bulk, of @average cost, so that each shard may have one request in the device.
 */
static bool tg_part_holds(const struct tg_parts *parts, u64 cost, u32 weight, u64 all, u32 average)
{
	return min_t(u64, cost, TG_DEPTH_MAX) * all <= parts->whole * weight ||
	       (!parts->pressed && cost <= average);
}

/*
 * Return whether bulk of @average cost fits a shard's part of the limit, and the shard is ahead of
 * the others by at most such a part.
 */
static bool tg_bulk_fits_part(const struct tg_parts *parts, const struct tg_shard *shard,
			      u32 average)
{
	const u32 percent = READ_ONCE(shard->tg->tunables.share_low);
	const struct tg_flows_waiting *flows = &parts->flows;
	const u64 own = tg_gauge_cost(&shard->device.bulk);
	const u64 all = (u64)flows->normal * TG_FLOW_WEIGHT +
			(flows->low ? tg_share_low(flows, percent) : 0);

	return tg_part_holds(parts, tg_turn(shard) - parts->least, TG_FLOW_WEIGHT, all, average) &&
	       tg_part_holds(parts, own + average, tg_shard_weight(shard, flows), all, average);
}

/*
 * Return true if a waiting shard may send bulk, false if it has to leave the device to others that
 * compete. While cgroups share the device, a shard may send only if its due cgroup is at most a
 * turn ahead of the due cgroup of @first. Each shard that may send has a part of the limit by its
 * weight. Otherwise the CPU that asks first would get the whole limit.
 *
 * The competing shard with the least virtual time may send in any case. So what the parts leave
 * over is used, and shards take turns if a part is less than one request. No other shard may send
 * while bulk is gated, or if its virtual time exceeds the least by more than one part. So a shard
 * with large requests, which overfill its part, gets no more than is due to it.
 */
bool tg_bulk_is_due(const struct tg_parts *parts, const struct tg_shard *shard)
{
	const struct tg_data *tg = shard->tg;

	if (parts->whole >= TG_DEPTH_MAX)
		return true;
	/* The shard @first may be unable to send, so do not wait for it for ever. */
	if (parts->first && tg_groups_yield(shard, parts->first))
		return time_after(jiffies, READ_ONCE(tg->groups.bulk_at) + TG_PATIENCE_FLASH);
	if (parts->competing <= 1)
		return true;
	if (tg_turn(shard) <= parts->least)
		return true;
	/* The others may be unable to send. */
	if (parts->patient)
		return true;
	return !parts->gated &&
	       tg_bulk_fits_part(parts, shard, READ_ONCE(tg->budget.bulk_cost));
}

/*
 * Return whether a shard may dispatch bulk. Called if other shards perhaps wait. If
 * a shard competes (the caller's does, unless it yields to another cgroup), raise tg_budget.turn.
 * @patient is what tg_bulk_is_let_in() has set.
 */
static noinline bool tg_bulk_is_due_among(const struct tg_shard *shard, bool patient)
{
	struct tg_parts parts;

	tg_parts_look(shard->tg, shard, &parts);
	parts.patient = patient;
	tg_flows_note(&shard->tg->budget.flows, &parts.flows);
	if (parts.competing)
		tg_turn_raise(shard->tg, parts.least);
	return tg_bulk_is_due(&parts, shard);
}

/* Return whether a shard may dispatch bulk, while urgent requests come or the device is shared. */
bool tg_bulk_may_go_limited(const struct tg_shard *shard)
{
	struct tg_data *tg = shard->tg;
	bool patient = false;

	if (!tg_bulk_is_let_in(tg, &patient))
		return false;
	if (tg->nr_shards == 1)
		return true;
	/* If no other shard waits, this one may use the whole limit. */
	if (!tg_some_may_wait(tg)) {
		tg_turn_raise(tg, tg_turn(shard));
		return true;
	}
	return tg_bulk_is_due_among(shard, patient);
}

/*
 * Return 1 plus the number of requests of average cost that still fit the limit on bulk. Return
 * UINT_MAX if there is no limit.
 */
unsigned int tg_bulk_has_room_for(const struct tg_data *tg, const struct tg_parts *parts)
{
	const u64 room = parts->whole - min(parts->whole, parts->inside);

	if (parts->whole >= TG_DEPTH_MAX)
		return UINT_MAX;
	return div_u64(room, max(READ_ONCE(tg->budget.bulk_cost), 1u)) + 1;
}

/*
 * Return whether held bulk may go, and is not likely to be held again soon. Set @patient if it may
 * go because no bulk has gone for tg_patience().
 */
bool tg_bulk_is_worth_waking(struct tg_data *tg, bool *patient)
{
	const u64 room = tg_room_now(tg);

	/* A woken shard sends several requests, so it is woken only if there is room for them. */
	if (tg_shares_room(tg) && tg_room_left(tg, room) <= room / 4)
		return false;
	return tg_bulk_is_let_in(tg, patient);
}

/*
 * Return the virtual time that @cost takes on a shard, by its weight, in ns. If only LOW waits, it
 * has the whole device, and does not pay as beside NORMAL: it would pay for long when NORMAL comes.
 */
static u64 tg_turn_time(const struct tg_shard *shard, u32 cost)
{
	if (shard->only_low && !READ_ONCE(shard->tg->budget.flows.normal))
		return cost / shard->bulk_flows;
	return div_u64((u64)cost * TG_FLOW_WEIGHT,
		       tg_shard_weight(shard, &shard->tg->budget.flows));
}

/* Charge a shard for bulk, by start-time fair queueing (Goyal, Vin, Cheng, 1996). */
static void tg_turn_charge(struct tg_shard *shard, u32 cost)
{
	const struct tg_budget *budget = &shard->tg->budget;
	const u64 time = tg_turn_time(shard, cost);
	const u64 lead = max_t(u64, time, TG_LEAD_MAX * (u64)READ_ONCE(budget->bulk_cost));
	const u64 turn = min(tg_turn(shard) + time, READ_ONCE(budget->turn) + lead);

	lockdep_assert_held(&shard->lock);

	if (shard->only_low)
		WRITE_ONCE(shard->low_turn, turn);
	else
		WRITE_ONCE(shard->bulk_turn, turn);
}

/* Charge a request of bulk to flash's budget or to the disk's arm, and a write also to the pace. */
static void tg_budget_charge(struct tg_shard *shard, struct request *rq, u32 cost)
{
	struct tg_data *tg = shard->tg;
	struct tg_budget *budget = &tg->budget;
	const u64 may_have = tg_budget_now(tg);
	const unsigned long now = jiffies;

	if (tg->rotational) {
		tg_arm_charge(tg, cost);
	} else {
		tg_grant_charge(tg, tg_gated(tg, may_have), cost);
		if (tg_spaces(tg, may_have)) {
			const u64 gap = tg_depth_gap(may_have, READ_ONCE(budget->bulk_cost), cost);

			WRITE_ONCE(budget->next_at, ktime_get_ns() + gap);
			if (tg->nr_shards > 1)
				tg_watch_others(shard, gap);
		}
	}
	if (!READ_ONCE(budget->bulk_seen))
		WRITE_ONCE(budget->bulk_seen, true);
	if (tg_op(rq) == TG_WRITE)
		tg_flushes_charge(shard, rq);
	if (tg_op(rq) != TG_READ && READ_ONCE(budget->written_at) != now)
		WRITE_ONCE(budget->written_at, now);
}

/* Charge a dispatched request of bulk. Called only while tg_charges_bulk() is true. */
void tg_bulk_charge(struct tg_shard *shard, struct request *rq)
{
	struct tg_budget *budget = &shard->tg->budget;
	const u32 cost = tg_tag(rq)->cost;
	const unsigned long now = jiffies;

	if (READ_ONCE(budget->bulk_at) != now)
		WRITE_ONCE(budget->bulk_at, now);
	if (shard->tg->nr_shards > 1) {
		if (!READ_ONCE(shard->sends))
			WRITE_ONCE(shard->sends, true);
		tg_turn_charge(shard, cost);
	}
	if (READ_ONCE(budget->pressed))
		tg_budget_charge(shard, rq, cost);
	tg_bulk_average(budget, cost);
}

/*
 * A shard has sent its only request, a read of bulk of @cost ns. Let those that follow go in a run
 * if nothing limits them (tg_runs_end()) and there is room. If every shard did so at once, the
 * device would have half a room too much at most: a run has its shard's part of half of the room
 * that is left. TG_ROOM_LEAST stands for a larger room, and for one without a limit. If a run could
 * not have two such requests, it would not pay for the look at the room. While bulk is timed, there
 * are no runs.
 */
void tg_run_begin(struct tg_shard *shard, u32 cost)
{
	struct tg_data *tg = shard->tg;
	const u32 parts = 2 * tg->nr_shards;
	u64 left = TG_ROOM_LEAST;

	lockdep_assert_held(&shard->lock);

	shard->run.left = 0;
	if (tg->rotational || READ_ONCE(tg->tunables.budget_fixed) || tg_runs_end(tg) ||
	    2ull * cost * parts > left)
		return;
	if (tg_is_shared(tg)) {
		if (time_after_eq(jiffies, READ_ONCE(tg->controller.room_due)))
			return;
		left = min(left, tg_room_left(tg, tg_room_now(tg)));
	}
	shard->run.left = (u32)left / parts;
	shard->run.tick = jiffies;
}

/* Return when held bulk may go if nothing else happens, in ns. Return 0 if this is not known. */
u64 tg_bulk_opens_at(struct tg_data *tg)
{
	const u64 budget = tg_budget_now(tg);
	u64 at = 0;

	if (tg->rotational)
		return tg_arm_changes_at(tg);
	if (tg_gated(tg, budget))
		at = tg_gate_opens_at(tg);
	if (tg_spaces(tg, budget))
		at = max(at, READ_ONCE(tg->budget.next_at));
	return at;
}
