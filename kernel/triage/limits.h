/* SPDX-License-Identifier: GPL-2.0-only */
/* Enforces the rates that the administrator sets for classes. */
#ifndef TG_LIMITS_H
#define TG_LIMITS_H

#include <linux/atomic.h>

#include "limit.h"
#include "prio-class.h"

struct request;
struct tg_data;
struct tg_shard;

/*
 * The state of a class's two rate limits, of requests and of KiB. Each field is the @due of
 * tg_limit_charged() (limit.h), in ns. Any CPU may update it without a lock.
 */
struct tg_limit {
	atomic64_t requests_due;
	atomic64_t kib_due;
};

struct tg_limits {
	struct tg_limit of[PRIO_CLASS_COUNT];
};

bool tg_limit_is_reached(const struct tg_data *tg, enum prio_class class);
bool tg_is_waited_out(const struct tg_shard *shard, enum prio_class class);
bool tg_limit_is_all(const struct tg_shard *shard, enum prio_class class);
u64 tg_limit_wait(const struct tg_shard *shard);
void tg_limit_charge(struct tg_shard *shard, struct request *rq);
void tg_limit_forget(struct tg_data *tg, enum prio_class class);

#endif
