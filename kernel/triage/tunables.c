// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sets and shows the tunables in /sys/block/DEV/queue/iosched/. A new value applies at once,
 * but requests that came before keep their class. Writing a value that is out of bounds fails
 * with EINVAL.
 */
#include <linux/kstrtox.h>
#include <linux/sysfs.h>

#include "core.h"
#include "triage.h"

/* The largest sum of the guaranteed shares, in %: HIGH gets the rest. */
#define TG_SHARES_MAX 90

const struct tg_tunables tg_defaults_flash = {
	.bounds = PRIO_BOUNDS_DEFAULT,
	.exchange = 8,			/* docs/triage.md, The knee */
	.quantum = 50,			/* a request or two: more gains nothing */
	.share_normal = 10,
	.share_low = 5,
	.aging_expire_normal = 1000,	/* a user's patience */
	.aging_expire_low = 5000,	/* below the 120 s after which a kernel reports a hang */
	.fifo_expire = 500,
	.anticipation = 0,
	.merge = 1,
};

const struct tg_tunables tg_defaults_disk = {
	.bounds = PRIO_BOUNDS_DEFAULT,
	.exchange = 8,
	.quantum = 50000,		/* several seeks: most of a turn is transfer */
	.share_normal = 10,
	.share_low = 5,
	.aging_expire_normal = 2000,
	.aging_expire_low = 10000,
	.fifo_expire = 500,
	.anticipation = 2000,		/* a quarter of a seek */
	.merge = 1,
};

struct tg_bounds {
	unsigned int least;
	unsigned int most;
};

static ssize_t tg_store(unsigned int *tunable, unsigned int *other,
			const struct tg_bounds *bounds, const char *page, size_t count)
{
	unsigned int value;

	if (kstrtouint(page, 10, &value) || value < bounds->least || value > bounds->most)
		return -EINVAL;
	if (other && value + *other > TG_SHARES_MAX)
		return -EINVAL;
	WRITE_ONCE(*tunable, value);
	return count;
}

/* Empty all inboxes, so that the present thresholds decide the class of each request in them. */
static void tg_drain_all(struct tg_data *tg)
{
	unsigned int i;

	for (i = 0; i < tg->nr_shards; i++) {
		tg_shard_enter(tg->shards[i]);
		tg_shard_leave(tg->shards[i]);
	}
}

/*
 * Set both thresholds of the classes at once, because they are valid only as a pair. Requests
 * that came before keep their class.
 */
static ssize_t tg_store_bounds(struct tg_data *tg, struct prio_bounds new, size_t count)
{
	if (!prio_bounds_valid(&new))
		return -EINVAL;
	tg_drain_all(tg);
	WRITE_ONCE(tg->tunables.bounds.be_high_max, new.be_high_max);
	WRITE_ONCE(tg->tunables.bounds.be_low_min, new.be_low_min);
	return count;
}

/*
 * The block layer calls these functions one at a time for a device. Each shows a field of
 * struct tg_tunables.
 */
#define TG_SHOW(name, field)					\
static ssize_t tg_##name##_show(struct elevator_queue *eq, char *page)	\
{									\
	struct tg_data *tg = eq->elevator_data;				\
									\
	return sysfs_emit(page, "%u\n", tg->tunables.field);	\
}

TG_SHOW(exchange, exchange);
TG_SHOW(latency_factor, latency_factor);
TG_SHOW(latency_target_us, latency_target_us);
TG_SHOW(budget_fixed, budget_fixed);
TG_SHOW(quantum, quantum);
TG_SHOW(share_normal, share_normal);
TG_SHOW(share_low, share_low);
TG_SHOW(aging_expire_normal, aging_expire_normal);
TG_SHOW(aging_expire_low, aging_expire_low);
TG_SHOW(fifo_expire, fifo_expire);
TG_SHOW(anticipation, anticipation);
TG_SHOW(merge, merge);
TG_SHOW(limit_iops_high, limit_iops[PRIO_CLASS_HIGH]);
TG_SHOW(limit_iops_normal, limit_iops[PRIO_CLASS_NORMAL]);
TG_SHOW(limit_iops_low, limit_iops[PRIO_CLASS_LOW]);
TG_SHOW(limit_kib_high, limit_kib[PRIO_CLASS_HIGH]);
TG_SHOW(limit_kib_normal, limit_kib[PRIO_CLASS_NORMAL]);
TG_SHOW(limit_kib_low, limit_kib[PRIO_CLASS_LOW]);
TG_SHOW(be_high_max, bounds.be_high_max);
TG_SHOW(be_low_min, bounds.be_low_min);
#undef TG_SHOW

#define TG_STORE(name, least, most, other)				\
static ssize_t tg_##name##_store(struct elevator_queue *eq,		\
				 const char *page, size_t count)	\
{									\
	static const struct tg_bounds bounds = { least, most };		\
	struct tg_data *tg = eq->elevator_data;				\
									\
	return tg_store(&tg->tunables.name, other, &bounds, page, count); \
}

TG_STORE(exchange, 0, 1000, NULL);
TG_STORE(latency_target_us, 0, 10000000, NULL);
TG_STORE(budget_fixed, 0, 1000000, NULL);
TG_STORE(quantum, 10, 1000000, NULL);
TG_STORE(share_normal, 0, TG_SHARES_MAX, &tg->tunables.share_low);
TG_STORE(share_low, 0, TG_SHARES_MAX, &tg->tunables.share_normal);
TG_STORE(aging_expire_normal, 1, 60000, NULL);
TG_STORE(aging_expire_low, 1, 60000, NULL);
TG_STORE(fifo_expire, 1, 60000, NULL);
TG_STORE(anticipation, 0, 100000, NULL);
TG_STORE(merge, 0, 1, NULL);
#undef TG_STORE

/*
 * Set the target as a multiple of the latency without bulk, in hundredths. 0 means no such target.
 * Refuse a multiple below 110: no device could keep a target of 100.
 */
static ssize_t tg_latency_factor_store(struct elevator_queue *eq, const char *page, size_t count)
{
	static const struct tg_bounds bounds = { 110, 10000 }, none = { 0, 0 };
	struct tg_data *tg = eq->elevator_data;
	ssize_t ret;

	ret = tg_store(&tg->tunables.latency_factor, NULL, &bounds, page, count);
	return ret < 0 ? tg_store(&tg->tunables.latency_factor, NULL, &none, page, count) : ret;
}

#define TG_THRESHOLD(name)						\
static ssize_t tg_##name##_store(struct elevator_queue *eq,		\
				 const char *page, size_t count)	\
{									\
	struct tg_data *tg = eq->elevator_data;				\
	struct prio_bounds new = tg->tunables.bounds;			\
									\
	if (kstrtouint(page, 10, &new.name))				\
		return -EINVAL;						\
	return tg_store_bounds(tg, new, count);				\
}

TG_THRESHOLD(be_high_max);
TG_THRESHOLD(be_low_min);
#undef TG_THRESHOLD

/*
 * Set one of a class's limits. Also set @limited: each request reads only this field to find out
 * whether any class has a limit.
 */
static ssize_t tg_store_limit(struct tg_data *tg, unsigned int *limits, enum prio_class of,
			      const char *page, size_t count)
{
	static const struct tg_bounds bounds = { 0, UINT_MAX };
	const ssize_t ret = tg_store(&limits[of], NULL, &bounds, page, count);
	struct tg_tunables *tunables = &tg->tunables;
	bool limited = false;
	int class;

	if (ret < 0)
		return ret;
	tg_limit_forget(tg, of);
	for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++)
		limited |= tunables->limit_iops[class] || tunables->limit_kib[class];
	WRITE_ONCE(tunables->limited, limited);
	return ret;
}

#define TG_LIMIT(unit, name, class)					\
static ssize_t tg_limit_##unit##_##name##_store(struct elevator_queue *eq, \
						const char *page, size_t count) \
{									\
	struct tg_data *tg = eq->elevator_data;				\
									\
	return tg_store_limit(tg, tg->tunables.limit_##unit, class, page, count); \
}

TG_LIMIT(iops, high, PRIO_CLASS_HIGH);
TG_LIMIT(iops, normal, PRIO_CLASS_NORMAL);
TG_LIMIT(iops, low, PRIO_CLASS_LOW);
TG_LIMIT(kib, high, PRIO_CLASS_HIGH);
TG_LIMIT(kib, normal, PRIO_CLASS_NORMAL);
TG_LIMIT(kib, low, PRIO_CLASS_LOW);
#undef TG_LIMIT

#define TG_ATTR(name) __ATTR(name, 0644, tg_##name##_show, tg_##name##_store)
struct elv_fs_entry tg_attrs[] = {
	TG_ATTR(be_high_max),
	TG_ATTR(be_low_min),
	TG_ATTR(exchange),
	TG_ATTR(latency_factor),
	TG_ATTR(latency_target_us),
	TG_ATTR(budget_fixed),
	TG_ATTR(quantum),
	TG_ATTR(share_normal),
	TG_ATTR(share_low),
	TG_ATTR(aging_expire_normal),
	TG_ATTR(aging_expire_low),
	TG_ATTR(limit_iops_high),
	TG_ATTR(limit_iops_normal),
	TG_ATTR(limit_iops_low),
	TG_ATTR(limit_kib_high),
	TG_ATTR(limit_kib_normal),
	TG_ATTR(limit_kib_low),
	TG_ATTR(fifo_expire),
	TG_ATTR(anticipation),
	TG_ATTR(merge),
	__ATTR_NULL
};

#undef TG_ATTR
