/* SPDX-License-Identifier: GPL-2.0-only */
/* Shows a scheduler's state in debugfs and by tracepoints. */
#ifndef TG_INSPECT_H
#define TG_INSPECT_H

#include <linux/atomic.h>
#include <linux/types.h>

#include "iosched.h"

struct request;
struct tg_data;
struct tg_shard;

/* Bucket 0 begins at 0, bucket n at 2^n us. The last has requests that took 8 s or more. */
#define TG_HISTOGRAM_BUCKETS 24

/* Counts of measured requests by the time that they took. Any CPU may add to them. */
struct tg_histogram {
	atomic_t counts[TG_HISTOGRAM_BUCKETS];
};

#ifdef CONFIG_BLK_DEBUG_FS
const struct blk_mq_debugfs_attr *tg_debugfs_table(void);
#endif
const char *tg_audit(struct tg_shard *shard);
void tg_inspect_init(struct tg_data *tg);
void tg_inspect_exit(struct tg_data *tg);
void tg_trace_dispatch(struct tg_shard *shard, struct request *rq, enum tg_reason reason);
void tg_trace_hold(struct tg_shard *shard);
void tg_measure(struct tg_histogram *histogram, u64 ns);

#endif
