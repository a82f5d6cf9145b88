/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Holds the tunables in /sys/block/DEV/queue/iosched/. docs/triage.md has units, bounds and
 * reasons.
 */
#ifndef TG_TUNABLES_H
#define TG_TUNABLES_H

#include <linux/types.h>

#include "iosched.h"
#include "prio-class.h"

/*
 * sysfs writes the tunables with WRITE_ONCE(), one store at a time for a device
 * (elevator_queue.sysfs_lock). Readers take no lock: each tunable is one word, and any
 * combination of values is safe.
 *
 * Bulk's budget is @budget_fixed if that is set. Else the controller finds a budget with which
 * urgent requests keep a target: @latency_target_us if that is set, else their latency without bulk
 * times @latency_factor. Without either, bulk's throughput is weighed against urgent requests'
 * latency by @exchange: on flash by trials (knee.h), on a disk by a formula (turn.h). If @exchange
 * is 0 too, @latency_factor counts as TG_FACTOR_ELSE. On a disk, the target of TG_FACTOR_ELSE also
 * bounds the length of bulk's turns beside HIGH while @exchange decides.
 */
struct tg_tunables {
	struct prio_bounds bounds;
	bool limited;				/* a rate limit is set for some class */
	unsigned int limit_iops[PRIO_CLASS_COUNT];	/* 0: none */
	unsigned int limit_kib[PRIO_CLASS_COUNT];	/* KiB/s; 0: none */
	unsigned int exchange;			/* %; 0: not set */
	unsigned int latency_factor;		/* hundredths; 0: not set */
	unsigned int latency_target_us;		/* 0: not set */
	unsigned int budget_fixed;		/* us of cost; 0: not set */
	unsigned int quantum;			/* us of cost */
	unsigned int share_normal;		/* % */
	unsigned int share_low;			/* % */
	unsigned int aging_expire_normal;	/* ms */
	unsigned int aging_expire_low;		/* ms */
	unsigned int fifo_expire;		/* ms; for disks only */
	unsigned int anticipation;		/* us; for disks only */
	unsigned int merge;			/* 0, 1 */
};

extern const struct tg_tunables tg_defaults_flash, tg_defaults_disk;
extern struct elv_fs_entry tg_attrs[];

#endif
