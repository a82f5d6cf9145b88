/* SPDX-License-Identifier: GPL-2.0-only */
/* Shares a disk's arm: while urgent requests come, bulk gets turns. */
#ifndef TG_ARM_H
#define TG_ARM_H

#include <linux/types.h>

struct tg_data;

/**
 * struct tg_arm_round - a turn of bulk, and the pause after it
 * @turn: length of the turn, in ns
 * @pause: length of the pause, in ns. The next turn is due @turn + @pause after this turn began,
 *	even if this turn ended early.
 */
struct tg_arm_round {
	u64 turn;
	u64 pause;
};

/**
 * struct tg_arm - the present turn of bulk, or the last one
 * @began: when it began, in ns
 * @began_at: the same in jiffies
 * @spent: cost of the bulk that was sent in this turn, and of the seek to bulk's place, in ns;
 *	U64_MAX: bulk has yielded the rest of the turn (tg_arm_yield())
 * @for_high: the round that applies if a request of HIGH came or came back in the second before the
 *	turn began, or at any time since
 * @for_others: the round that applies if none did
 * @flush_seen_at: when tg_arm_opens_at() last found that the disk had a flush, in ns
 *
 * A disk has one shard. Its dispatcher writes these fields under the shard's lock. Completions and
 * the watchdog read them without the lock, and write @flush_seen_at.
 */
struct tg_arm {
	u64 began;
	unsigned long began_at;
	u64 spent;
	struct tg_arm_round for_high;
	struct tg_arm_round for_others;
	u64 flush_seen_at;
};

bool tg_arm_is_held(const struct tg_data *tg);
bool tg_arm_is_free(struct tg_data *tg);
u64 tg_arm_changes_at(struct tg_data *tg);
void tg_arm_charge(struct tg_data *tg, u32 cost);
void tg_arm_yield(struct tg_data *tg);

#endif
