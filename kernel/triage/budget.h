/* SPDX-License-Identifier: GPL-2.0-only */
/* The limit on bulk in the device. */
#ifndef TG_BUDGET_H
#define TG_BUDGET_H

#include <linux/atomic.h>
#include <linux/types.h>

struct tg_data;
struct tg_shard;
struct tg_tag;

/**
 * struct tg_budget - bulk's use of the device while urgent requests come
 * @urgent_at: jiffies when an urgent request last came; hinted ones (struct tg_tag) apart
 * @pressed: @urgent_at is valid; reset when that is more than a second ago
 * @bulk_at: jiffies when bulk was last dispatched while @pressed
 * @bulk_seen: @bulk_at is valid; reset when that is more than a second ago
 * @written_at: jiffies when bulk that is no read was last dispatched while @pressed
 * @shared_at: jiffies when bulk of several submitters was last let in
 * @limited: bulk would have used more than its budget; until the controller has read it
 * @bulk_cost: cost of a request of bulk, a moving average, in ns
 * @next_at: if the budget is a pace: no bulk may go before this time; ns
 * @granted: cost that bulk may still send behind the last urgent request, or its debt (below
 *	0), in ns. Atomic: a lost charge would let bulk in twice, and a lost grant not at all.
 * @granted_at: when an urgent request last made way for bulk; ns
 * @urgent_back_at: when an urgent request last came back; ns
 * @turn: the time of fair queueing: the least tg_shard.bulk_turn of the shards that waited when a
 *	limit was last asked about
 * @high_at: jiffies when a request of HIGH last came, or taught the controller
 *
 * Each is one word that dispatchers and completions of all shards write and read without
 * a lock, with WRITE_ONCE() and READ_ONCE(). A lost write of any but @granted makes the
 * budget wrong for a tick at most, and one of @turn until a limit is asked about next.
 *
 * Held bulk may wait for a change of these. A completion (tg_back_noticed()) or a dispatch
 * (tg_send_before_bulk()) that makes one has a full barrier before it looks for held shards.
 */
struct tg_budget {
	unsigned long urgent_at;
	unsigned long high_at;
	unsigned long bulk_at;
	unsigned long written_at;
	unsigned long shared_at;
	bool pressed;
	bool bulk_seen;
	bool limited;
	u32 bulk_cost;
	u64 next_at;
	atomic64_t granted;
	u64 granted_at;
	u64 urgent_back_at;
	u64 turn;
};

/**
 * struct tg_parts - how what bulk may have in the device is divided among shards, at one moment
 * @pressed: urgent requests come, so the budget applies
 * @gated: bulk may go only right behind an urgent request
 * @whole: cost that bulk of all shards may have in the device, in ns; TG_DEPTH_MAX: no limit,
 *	and then the fields below have no value
 * @inside: cost that it has there, in ns
 * @waiting: number of shards that wait for bulk to go (tg_waits_for_bulk())
 * @least: the least tg_shard.bulk_turn of these; U64_MAX: there are none
 *
 * Filled once for decisions about many shards, because it takes a visit of each.
 */
struct tg_parts {
	bool pressed;
	bool gated;
	u64 whole;
	u64 inside;
	u32 waiting;
	u64 least;
};

void tg_budget_init(struct tg_data *tg);
u64 tg_bulk_inside(const struct tg_data *tg);
u32 tg_urgent_inside(const struct tg_data *tg);
bool tg_pressed(const struct tg_data *tg);
void tg_grant(struct tg_data *tg, u64 budget, u64 now);
bool tg_bulk_may_go_limited(const struct tg_shard *shard);
void tg_parts_look(const struct tg_data *tg, const struct tg_shard *asking,
		   struct tg_parts *parts);
bool tg_bulk_is_due(const struct tg_parts *parts, const struct tg_shard *shard);
unsigned int tg_bulk_has_room_for(const struct tg_data *tg, const struct tg_parts *parts);
bool tg_bulk_is_worth_waking(struct tg_data *tg);
void tg_bulk_charge(struct tg_shard *shard, const struct tg_tag *tag, bool write);
u64 tg_bulk_opens_at(const struct tg_data *tg);

#endif
