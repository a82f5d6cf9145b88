/* SPDX-License-Identifier: GPL-2.0-only */
/* Limits how much bulk may be in the device. */
#ifndef TG_BUDGET_H
#define TG_BUDGET_H

#include <linux/atomic.h>
#include <linux/types.h>

#include "share.h"

struct request;
struct tg_data;
struct tg_shard;

/**
 * struct tg_budget - the state of the limit on bulk, except for what the controller learns
 * @urgent_at: jiffies when an urgent request last came, began to be timed, or came back and was
 *	given to tg_learn_urgent(); a request with tg_tag.hinted does not count
 * @pressed: an urgent request has come; tg_bulk_may_go_pressed() resets this once tg_pressed()
 *	returns false
 * @spells: number of times that an urgent request came while the device was not pressed; CPUs may
 *	count one of them twice
 * @bulk_at: jiffies when bulk was last dispatched while tg_charges_bulk() was true
 * @bulk_seen: bulk was dispatched while @pressed; reset when @bulk_at is a second ago
 * @written_at: jiffies when bulk other than reads was last dispatched while @pressed
 * @limited: the budget has held bulk back since the controller last reset this field
 * @bulk_cost: cost of a request of bulk, a moving average, in ns
 * @next_at: if the budget is below the cost of one request, bulk without a grant may not go before
 *	this time; ns
 * @granted: cost that bulk may still send behind the last urgent request, in ns; below 0: bulk's
 *	debt. Atomic, because a lost charge would let bulk in twice, and a lost grant would keep it
 *	out.
 * @granted_at: when bulk last got a grant; ns
 * @urgent_back_at: when a timed urgent request last came back; ns
 * @turn: the virtual time of fair queueing at which a shard that joins the others begins, in ns. It
 *	only rises (tg_turn_raise()).
 * @flows: the flows whose bulk waits, when a shard last asked
 * @high_at: the same as @urgent_at, for urgent requests of HIGH
 *
 * Each field is one word that dispatchers and completions of all shards write and read
 * without a lock, with WRITE_ONCE() and READ_ONCE(). Except for @granted, a lost write does
 * little harm: the budget is wrong for a tick at most, and @turn until it is next raised.
 *
 * Held bulk may wait until one of these fields changes. A completion (tg_back_noticed()) or a
 * dispatch (tg_send_before_bulk()) that changes a field has a full barrier before it looks for held
 * shards.
 */
struct tg_budget {
	unsigned long urgent_at;
	unsigned long high_at;
	unsigned long bulk_at;
	unsigned long written_at;
	bool pressed;
	bool bulk_seen;
	bool limited;
	u32 spells;
	u32 bulk_cost;
	u64 next_at;
	atomic64_t granted;
	u64 granted_at;
	u64 urgent_back_at;
	u64 turn;
	struct tg_flows_waiting flows;
};

/**
 * struct tg_run - requests of bulk that a shard sends one after the other, each as its only request
 *	(tg_take_only()), without another look at the limits on bulk
 * @tick: jiffies when the run began; it ends with this tick
 * @left: cost that the run may still send, in ns
 *
 * A look at the limits visits each shard, so its result serves for a run (tg_run_begin()). Nothing
 * waits during a run (tg_runs_end()), so its requests are not charged: charges only order those
 * that wait. Guarded by the shard's lock.
 */
struct tg_run {
	unsigned long tick;
	u32 left;
};

/**
 * struct tg_parts - the division of the limit on bulk among shards, at one moment
 * @pressed: urgent requests come, so the budget applies
 * @gated: bulk waits for an urgent request, to go right behind it (tg_gated())
 * @patient: bulk is let in because none has gone for long; the caller of tg_parts_look() sets this
 * @whole: limit on the cost of all shards' bulk in the device, in ns. TG_DEPTH_MAX or more means no
 *	limit, and then the fields below are not valid
 * @inside: cost of all shards' bulk in the device, in ns
 * @first: the competing shard whose due cgroup has had least of its share; NULL if cgroups do not
 *	share the device, or if no cgroup is due on any competing shard
 * @competing: number of shards that compete (tg_competes()), except those that have to leave the
 *	device to @first
 * @flows: the flows of these shards
 * @least: the least tg_turn() of these shards; U64_MAX if none competes
 *
 * tg_parts_look() fills this structure. That function visits each shard, so one call serves many
 * decisions.
 */
struct tg_parts {
	bool pressed;
	bool gated;
	bool patient;
	u64 whole;
	u64 inside;
	const struct tg_shard *first;
	u32 competing;
	struct tg_flows_waiting flows;
	u64 least;
};

void tg_budget_init(struct tg_data *tg);
u64 tg_bulk_inside(const struct tg_data *tg);
u64 tg_bulk_served(const struct tg_data *tg);
u32 tg_urgent_inside(const struct tg_data *tg);
bool tg_pressed(const struct tg_data *tg);
unsigned long tg_patience(const struct tg_data *tg);
void tg_grant(struct tg_data *tg, u64 budget, u64 now);
bool tg_bulk_may_go_limited(const struct tg_shard *shard);
void tg_parts_look(const struct tg_data *tg, const struct tg_shard *asking,
		   struct tg_parts *parts);
u64 tg_room_taken(const struct tg_data *tg);
bool tg_bulk_is_due(const struct tg_parts *parts, const struct tg_shard *shard);
unsigned int tg_bulk_has_room_for(const struct tg_data *tg, const struct tg_parts *parts);
bool tg_bulk_is_worth_waking(struct tg_data *tg, bool *patient);
void tg_bulk_charge(struct tg_shard *shard, struct request *rq);
void tg_run_begin(struct tg_shard *shard, u32 cost);
u64 tg_bulk_opens_at(struct tg_data *tg);

#endif
