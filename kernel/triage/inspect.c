// SPDX-License-Identifier: GPL-2.0-only
/* Seeing inside: debugfs in /sys/kernel/debug/block/DEV/sched/, and tracepoints. */
#include <linux/seq_file.h>

#include "triage.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

static const char *const tg_class_names[PRIO_CLASS_COUNT] = {
	[PRIO_CLASS_HIGH] = "HIGH",
	[PRIO_CLASS_NORMAL] = "NORMAL",
	[PRIO_CLASS_LOW] = "LOW",
};

static const char *const tg_reason_names[TG_REASONS] = {
	[TG_RETURNED] = "returned",
	[TG_AGED] = "aged",
	[TG_RESERVED] = "reserved",
	[TG_ONLY] = "only",
	[TG_STRICT] = "strict",
	[TG_SPARSE] = "sparse",
	[TG_DEFICIT] = "deficit",
	[TG_EXPIRED] = "expired",
};

static dev_t tg_dev(const struct tg_data *tg)
{
	return tg->queue->disk ? disk_devt(tg->queue->disk) : 0;
}

void tg_trace_dispatch(struct tg_shard *shard, struct request *rq, enum tg_reason reason)
{
	trace_triage_dispatch(tg_dev(shard->tg), blk_rq_pos(rq), blk_rq_bytes(rq),
			      tg_class_names[tg_tag(rq)->class], tg_reason_names[reason],
			      tg_tag(rq)->cost);
}

void tg_trace_hold(struct tg_shard *shard, u64 budget, u64 inside)
{
	trace_triage_hold(tg_dev(shard->tg), shard->queued, budget, inside);
}

/* Count a time, in ns, in its bucket. */
void tg_measure(struct tg_histogram *histogram, u64 ns)
{
	const u64 us = div_u64(ns, NSEC_PER_USEC);

	atomic_inc(&histogram->counts[us < 2 ? 0 : min(ilog2(us), TG_HISTOGRAM_BUCKETS - 1)]);
}

#ifdef CONFIG_BLK_DEBUG_FS

/* One count for each of HIGH, NORMAL and LOW, over all shards. */
static int tg_show_counts(struct request_queue *q, struct seq_file *m,
			  unsigned long (*count)(const struct tg_class *class))
{
	struct tg_data *tg = tg_of(q);
	unsigned long counts[PRIO_CLASS_COUNT] = {};
	unsigned int i;
	int class;

	for (i = 0; i < tg->nr_shards; i++) {
		struct tg_shard *shard = &tg->shards[i];

		spin_lock(&shard->lock);
		tg_drain(shard);
		for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++)
			counts[class] += count(&shard->classes[class]);
		tg_leave(shard);
	}
	seq_printf(m, "%lu %lu %lu\n", counts[PRIO_CLASS_HIGH],
		   counts[PRIO_CLASS_NORMAL], counts[PRIO_CLASS_LOW]);
	return 0;
}

static unsigned long tg_queued(const struct tg_class *class)
{
	return class->inserted - tg_class_dispatched(class);
}

static unsigned long tg_aged(const struct tg_class *class)
{
	return class->reasons[TG_AGED];
}

static int tg_queued_show(void *data, struct seq_file *m)
{
	return tg_show_counts(data, m, tg_queued);
}

static int tg_dispatched_show(void *data, struct seq_file *m)
{
	return tg_show_counts(data, m, tg_class_dispatched);
}

static int tg_aged_show(void *data, struct seq_file *m)
{
	return tg_show_counts(data, m, tg_aged);
}

static int tg_reasons_show(void *data, struct seq_file *m)
{
	struct tg_data *tg = tg_of(data);
	unsigned int i, reason;
	int class;

	for (reason = 0; reason < TG_REASONS; reason++) {
		seq_puts(m, tg_reason_names[reason]);
		for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++) {
			unsigned long count = 0;

			for (i = 0; i < tg->nr_shards; i++)
				count += READ_ONCE(tg->shards[i].classes[class]
						   .reasons[reason]);
			seq_printf(m, " %lu", count);
		}
		seq_putc(m, '\n');
	}
	return 0;
}

struct tg_in_flight {
	const struct request_queue *queue;
	unsigned int counts[PRIO_CLASS_COUNT];
};

/*
 * What it says may be changing, or be another's: tags are shared with other queues, and
 * some requests never come to a scheduler. This is a look, not an account.
 */
static bool tg_count_in_flight(struct request *rq, void *data)
{
	struct tg_in_flight *found = data;
	const unsigned int class = tg_tag(rq)->class;

	if (rq->q == found->queue && iosched_was_prepared(rq) && tg_tag(rq)->in_flight &&
	    class < PRIO_CLASS_COUNT)
		found->counts[class]++;
	return true;
}

/* What the device has of each class. */
static int tg_in_flight_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct tg_in_flight found = { .queue = q };

	blk_mq_tagset_busy_iter(q->tag_set, tg_count_in_flight, &found);
	seq_printf(m, "%u %u %u\n", found.counts[PRIO_CLASS_HIGH],
		   found.counts[PRIO_CLASS_NORMAL], found.counts[PRIO_CLASS_LOW]);
	return 0;
}

/* A line for each bucket that has something: its least, in us, and a count a class. */
static int tg_show_histograms(struct seq_file *m, const struct tg_histogram *classes)
{
	unsigned int counts[PRIO_CLASS_COUNT];
	unsigned int bucket, any;
	int class;

	for (bucket = 0; bucket < TG_HISTOGRAM_BUCKETS; bucket++) {
		any = 0;
		for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++) {
			counts[class] = atomic_read(&classes[class].counts[bucket]);
			any |= counts[class];
		}
		if (any)
			seq_printf(m, "%lu %u %u %u\n", bucket ? BIT(bucket) : 0,
				   counts[PRIO_CLASS_HIGH], counts[PRIO_CLASS_NORMAL],
				   counts[PRIO_CLASS_LOW]);
	}
	return 0;
}

static int tg_waits_show(void *data, struct seq_file *m)
{
	return tg_show_histograms(m, tg_of(data)->waits);
}

static int tg_services_show(void *data, struct seq_file *m)
{
	return tg_show_histograms(m, tg_of(data)->services);
}

static int tg_bios_merged_show(void *data, struct seq_file *m)
{
	struct tg_data *tg = tg_of(data);
	u64 merged = 0;
	unsigned int i;

	for (i = 0; i < tg->nr_shards; i++)
		merged += READ_ONCE(tg->shards[i].merged);
	seq_printf(m, "%llu\n", merged);
	return 0;
}

/* In ns, but for what is counted. */
static int tg_depth_show(void *data, struct seq_file *m)
{
	struct tg_data *tg = tg_of(data);
	u64 bulk = 0, urgent = 0;
	unsigned int i;

	for (i = 0; i < tg->nr_shards; i++) {
		bulk += tg_gauge_inside(&tg->shards[i].bulk) & TG_GAUGE_COST;
		urgent += tg_gauge_inside(&tg->shards[i].urgent) & TG_GAUGE_COST;
	}
	seq_printf(m, "pressed %d\nprobing %d\nprobes %lu\nbudget %llu\nbulk %llu\nurgent %llu\n",
		   tg_pressed(tg), READ_ONCE(tg->probing), READ_ONCE(tg->probes),
		   READ_ONCE(tg->depth.budget), bulk, urgent);
	seq_printf(m, "judged %lu\nlate %lu\n", READ_ONCE(tg->judged), READ_ONCE(tg->late));
	seq_printf(m, "alone_mean %llu\nalone_spread %llu\nat_once %d\ntarget %llu\n",
		   READ_ONCE(tg->depth.mean), READ_ONCE(tg->depth.spread),
		   READ_ONCE(tg->depth.at_once), tg_target(tg));
	return 0;
}

/* For reads and writes: ns for each request, and for each KiB. */
static int tg_costs_show(void *data, struct seq_file *m)
{
	const struct tg_data *tg = tg_of(data);

	seq_printf(m, "read %u %u\nwrite %u %u\n",
		   READ_ONCE(tg->costs[TG_READ].base), READ_ONCE(tg->costs[TG_READ].per_kib),
		   READ_ONCE(tg->costs[TG_WRITE].base),
		   READ_ONCE(tg->costs[TG_WRITE].per_kib));
	return 0;
}

const struct blk_mq_debugfs_attr tg_debugfs_attrs[] = {
	{ "queued", 0400, tg_queued_show },
	{ "dispatched", 0400, tg_dispatched_show },
	{ "aged", 0400, tg_aged_show },
	{ "in_flight", 0400, tg_in_flight_show },
	{ "waits", 0400, tg_waits_show },
	{ "services", 0400, tg_services_show },
	{ "reasons", 0400, tg_reasons_show },
	{ "bios_merged", 0400, tg_bios_merged_show },
	{ "depth", 0400, tg_depth_show },
	{ "costs", 0400, tg_costs_show },
	{},
};

#endif
