/* SPDX-License-Identifier: GPL-2.0-only */
/* Shares a disk's arm: while urgent requests come, bulk gets turns. */
#ifndef TG_ARM_H
#define TG_ARM_H

#include <linux/types.h>

struct tg_data;

/**
 * struct tg_arm - the present turn of bulk, and the next one
 * @left: cost that bulk may still send in its turn, in ns; 0 or less: the turn is over
 * @until: when bulk's turn ends at the latest, in ns
 * @next_at: when bulk's next turn is due, in ns
 *
 * A disk has one shard. Its dispatcher writes these fields under the shard's lock.
 * Completions read them without it.
 */
struct tg_arm {
	s64 left;
	u64 until;
	u64 next_at;
};

bool tg_arm_is_held(const struct tg_data *tg);
bool tg_arm_is_free(const struct tg_data *tg);
u64 tg_arm_changes_at(const struct tg_data *tg);
void tg_arm_charge(struct tg_data *tg, u32 cost);
void tg_arm_yield(struct tg_data *tg);

#endif
