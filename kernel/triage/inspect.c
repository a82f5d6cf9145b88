// SPDX-License-Identifier: GPL-2.0-only
/* Shows a scheduler's state in /sys/kernel/debug/block/DEV/sched/ and by tracepoints. */
#include <linux/kmemleak.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "core.h"
#include "device.h"
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

void tg_trace_hold(struct tg_shard *shard)
{
	trace_triage_hold(tg_dev(shard->tg), shard->queued, tg_budget_now(shard->tg),
			  tg_bulk_inside(shard->tg));
}

/* Count a time, in ns, in its bucket of a histogram. */
void tg_measure(struct tg_histogram *histogram, u64 ns)
{
	const u64 us = div_u64(ns, NSEC_PER_USEC);

	atomic_inc(&histogram->counts[us < 2 ? 0 : min(ilog2(us), TG_HISTOGRAM_BUCKETS - 1)]);
}

static unsigned int tg_count(const struct list_head *requests)
{
	const struct request *rq;
	unsigned int count = 0;

	list_for_each_entry(rq, requests, queuelist)
		count++;
	return count;
}

/* Return whether a flow belongs on @flows, which is a list of its class. */
static bool tg_flow_belongs(const struct tg_class *class, const struct list_head *flows,
			    const struct tg_flow *flow)
{
	if (flows == &class->backlog)
		return !flow->sparse;
	return flow->sparse && tg_flow_is_hinted(flow) == (flows == &class->hinted);
}

/*
 * Add the requests of all flows on one of a class's lists to @count. Return false if a flow or
 * a request is in the wrong place.
 */
static bool tg_count_flows(struct tg_shard *shard, const struct tg_lane *lane,
			   const struct list_head *flows, int class, unsigned int *count)
{
	struct tg_flow *flow;
	struct request *rq;

	list_for_each_entry(flow, flows, turn) {
		if (flow->class != class || flow->lane != lane || list_empty(&flow->fifo) ||
		    !tg_flow_belongs(&lane->classes[class], flows, flow))
			return false;
		list_for_each_entry(rq, &flow->fifo, queuelist)
			if (tg_tag(rq)->class != class || tg_flow_of(shard, rq) != flow)
				return false;
		*count += tg_count(&flow->fifo);
	}
	return true;
}

static unsigned int tg_count_nodes(const struct list_head *list)
{
	const struct list_head *node;
	unsigned int count = 0;

	list_for_each(node, list)
		count++;
	return count;
}

/* Return the number of requests in the lists of a lane's class, or -1 if a list is wrong. */
static int tg_count_class(struct tg_shard *shard, const struct tg_lane *lane, int class)
{
	const struct tg_class *c = &lane->classes[class];
	const struct hlist_node *node, *last = NULL;
	unsigned int listed = 0, arrived = 0;

	if (!tg_count_flows(shard, lane, &c->hinted, class, &listed) ||
	    !tg_count_flows(shard, lane, &c->sparse, class, &listed) ||
	    !tg_count_flows(shard, lane, &c->backlog, class, &listed) ||
	    tg_count_nodes(&c->backlog) != c->nr_backlog)
		return -1;
	for (node = c->arrivals.first.first; node; node = node->next) {
		arrived++;
		last = node;
	}
	return arrived == listed && last == c->arrivals.last && listed == c->queued ? listed : -1;
}

/*
 * Add the numbers of requests in a shard's lanes to @listed, by class. Return the name of a count
 * or list that is wrong, or NULL.
 */
static const char *tg_audit_lanes(struct tg_shard *shard, unsigned int *listed)
{
	const struct tg_lane *lane;
	unsigned int lanes = 0, backlog = 0;
	int class;

	/*
	 * A lane that is not on the list must have no requests. Check this for the root's lane:
	 * only that one is sure to exist.
	 */
	if (!shard->lane.queued && !tg_lane_is_empty(&shard->lane))
		return "the count of a class";
	list_for_each_entry(lane, &shard->lanes, entry) {
		unsigned int queued = 0;

		for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++) {
			const int count = tg_count_class(shard, lane, class);

			if (count < 0)
				return "a list of a class";
			listed[class] += count;
			queued += count;
			backlog += lane->classes[class].nr_backlog;
		}
		if (!queued || queued != lane->queued)
			return "the count of a lane";
		lanes++;
	}
	if (backlog != shard->nr_backlog)
		return "the count of the backlogs";
	return lanes == shard->nr_lanes ? NULL : "the count of lanes";
}

/**
 * tg_audit() - compare a shard's counts with its lists
 * @shard: its lock is held, its inbox drained
 *
 * Return: the name of the first count or list that is wrong, or NULL
 */
const char *tg_audit(struct tg_shard *shard)
{
	unsigned int at_head[PRIO_CLASS_COUNT] = {}, listed[PRIO_CLASS_COUNT] = {}, queued = 0;
	const struct tg_flow *flow;
	const char *differs;
	struct request *rq;
	int class;

	lockdep_assert_held(&shard->lock);

	list_for_each_entry(rq, &shard->at_head, queuelist) {
		at_head[tg_tag(rq)->class]++;
		queued++;
	}
	differs = tg_audit_lanes(shard, listed);
	if (differs)
		return differs;
	for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++) {
		const struct tg_counts *counts = &shard->counts[class];

		if (listed[class] != counts->queued)
			return "the count of a class";
		if (counts->inserted - tg_dispatched(counts) != listed[class] + at_head[class])
			return "inserted less dispatched";
		queued += listed[class];
	}
	list_for_each_entry(flow, &shard->flows.idle, turn)
		if (!list_empty(&flow->fifo))
			return "an idle flow";
	return queued == shard->queued ? NULL : "the count of the shard";
}

/*
 * Schedulers that debugfs may show. The lock is a mutex, because showing a scheduler takes a while.
 */
static LIST_HEAD(tg_alive);
static DEFINE_MUTEX(tg_alive_lock);

void tg_inspect_init(struct tg_data *tg)
{
	mutex_lock(&tg_alive_lock);
	list_add(&tg->alive, &tg_alive);
	mutex_unlock(&tg_alive_lock);
}

/* Have debugfs show nothing of this scheduler from now on, even if its files are still there. */
void tg_inspect_exit(struct tg_data *tg)
{
	mutex_lock(&tg_alive_lock);
	list_del(&tg->alive);
	mutex_unlock(&tg_alive_lock);
}

#ifdef CONFIG_BLK_DEBUG_FS

/*
 * Show a queue's scheduler. The lock keeps the scheduler alive while it is shown. Since Linux 6.16
 * a debugfs file may be read after its scheduler has gone. By then the queue may have another
 * scheduler.
 */
static int tg_show(struct request_queue *q, struct seq_file *m,
		   void (*show)(struct tg_data *tg, struct seq_file *m))
{
	struct tg_data *tg;
	int ret = -ENODEV;

	mutex_lock(&tg_alive_lock);
	list_for_each_entry(tg, &tg_alive, alive) {
		if (tg->queue != q)
			continue;
		show(tg, m);
		ret = 0;
		break;
	}
	mutex_unlock(&tg_alive_lock);
	return ret;
}

/* Show one count for each of HIGH, NORMAL and LOW, over all shards. */
static void tg_show_counts(struct tg_data *tg, struct seq_file *m,
			   unsigned long (*count)(const struct tg_counts *counts))
{
	unsigned long counts[PRIO_CLASS_COUNT] = {};
	unsigned int i;
	int class;

	for (i = 0; i < tg->nr_shards; i++) {
		struct tg_shard *shard = tg->shards[i];

		tg_shard_enter(shard);
		for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++)
			counts[class] += count(&shard->counts[class]);
		tg_shard_leave(shard);
	}
	seq_printf(m, "%lu %lu %lu\n", counts[PRIO_CLASS_HIGH],
		   counts[PRIO_CLASS_NORMAL], counts[PRIO_CLASS_LOW]);
}

static unsigned long tg_queued(const struct tg_counts *counts)
{
	return counts->inserted - tg_dispatched(counts);
}

static unsigned long tg_aged(const struct tg_counts *counts)
{
	return counts->reasons[TG_AGED];
}

static void tg_show_queued(struct tg_data *tg, struct seq_file *m)
{
	tg_show_counts(tg, m, tg_queued);
}

static void tg_show_dispatched(struct tg_data *tg, struct seq_file *m)
{
	tg_show_counts(tg, m, tg_dispatched);
}

static void tg_show_aged(struct tg_data *tg, struct seq_file *m)
{
	tg_show_counts(tg, m, tg_aged);
}

/* Show whether each shard's counts match its lists, or the first mismatch. */
static void tg_show_audit(struct tg_data *tg, struct seq_file *m)
{
	const char *differs = NULL;
	unsigned int i;

	for (i = 0; i < tg->nr_shards && !differs; i++) {
		tg_shard_enter(tg->shards[i]);
		differs = tg_audit(tg->shards[i]);
		tg_shard_leave(tg->shards[i]);
	}
	if (differs)
		seq_printf(m, "shard %u: %s is wrong\n", i - 1, differs);
	else
		seq_puts(m, "ok\n");
}

static void tg_show_reasons(struct tg_data *tg, struct seq_file *m)
{
	unsigned int i, reason;
	int class;

	for (reason = 0; reason < TG_REASONS; reason++) {
		seq_puts(m, tg_reason_names[reason]);
		for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++) {
			unsigned long count = 0;

			for (i = 0; i < tg->nr_shards; i++) {
				spin_lock(&tg->shards[i]->lock);
				count += tg->shards[i]->counts[class].reasons[reason];
				spin_unlock(&tg->shards[i]->lock);
			}
			seq_printf(m, " %lu", count);
		}
		seq_putc(m, '\n');
	}
}

struct tg_in_flight {
	const struct request_queue *queue;
	unsigned int counts[PRIO_CLASS_COUNT];
};

/*
 * Count a request if triage has sent it to the device. Other requests that this function sees
 * belong to another queue with the same tags, or have bypassed the scheduler. The counts are only
 * approximate, because requests go and come back while they are counted.
 */
static bool tg_count_in_flight(struct request *rq, void *data)
{
	struct tg_in_flight *found = data;
	/* Read without a lock: a tag that another CPU is changing may be counted wrongly. */
	const struct tg_tag tag = data_race(*tg_tag(rq));

	if (rq->q == found->queue && iosched_was_prepared(rq) && tag.cost &&
	    tag.class < PRIO_CLASS_COUNT)
		found->counts[tag.class]++;
	return true;
}

/* Show the number of requests in the device, by class. */
static void tg_show_in_flight(struct tg_data *tg, struct seq_file *m)
{
	struct tg_in_flight found = { .queue = tg->queue };

	blk_mq_tagset_busy_iter(tg->queue->tag_set, tg_count_in_flight, &found);
	seq_printf(m, "%u %u %u\n", found.counts[PRIO_CLASS_HIGH],
		   found.counts[PRIO_CLASS_NORMAL], found.counts[PRIO_CLASS_LOW]);
}

/*
 * Show a line for each bucket that is not empty: its lower bound, in us, and a count for each
 * class.
 */
static void tg_show_histograms(struct seq_file *m, const struct tg_histogram *classes)
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
}

static void tg_show_waits(struct tg_data *tg, struct seq_file *m)
{
	tg_show_histograms(m, tg->waits);
}

static void tg_show_services(struct tg_data *tg, struct seq_file *m)
{
	tg_show_histograms(m, tg->services);
}

static void tg_show_bios_merged(struct tg_data *tg, struct seq_file *m)
{
	u64 merged = 0;
	unsigned int i;

	for (i = 0; i < tg->nr_shards; i++)
		merged += READ_ONCE(tg->shards[i]->merged);
	seq_printf(m, "%llu\n", merged);
}

/* Show the state of budget, controller and pace; times and costs in ns, the pace in KiB/s. */
static void tg_show_depth(struct tg_data *tg, struct seq_file *m)
{
	const struct tg_controller *controller = &tg->controller;
	u64 bulk = 0, urgent = 0;
	unsigned int i;

	for (i = 0; i < tg->nr_shards; i++) {
		bulk += tg_gauge_cost(&tg->shards[i]->device.bulk);
		urgent += tg_gauge_cost(&tg->shards[i]->device.urgent);
	}
	seq_printf(m, "pressed %d\nprobing %d\nprobes %lu\nbudget %llu\nbulk %llu\nurgent %llu\n",
		   tg_pressed(tg), READ_ONCE(controller->probing),
		   READ_ONCE(controller->probes), READ_ONCE(controller->budget), bulk, urgent);
	seq_printf(m, "judged %lu\nlate %lu\n", READ_ONCE(controller->judged),
		   READ_ONCE(controller->late));
	seq_printf(m, "alone_mean %llu\nalone_tail %llu\nconfirmed %d\nat_once %d\ntarget %llu\n",
		   READ_ONCE(controller->alone), READ_ONCE(controller->tail),
		   READ_ONCE(controller->confirmed), READ_ONCE(controller->at_once),
		   tg_target(tg));
	seq_printf(m, "room %llu\n", READ_ONCE(controller->room));
	seq_printf(m, "trials %lu\n",
		   data_race(controller->knee.trials)); /* only shown, so read without a lock */
	seq_printf(m, "taken %lu\n",
		   data_race(controller->knee.taken)); /* only shown, so read without a lock */
	seq_printf(m, "pace %u\n", READ_ONCE(tg->flushes.pace));
	seq_printf(m, "flush_alone %llu\n",
		   data_race(tg->flushes.drain.alone)); /* only shown, so read without a lock */
}

/*
 * Show the base of each operation's cost, in ns, and for reads and writes the slope: ns for
 * each KiB.
 */
static void tg_show_costs(struct tg_data *tg, struct seq_file *m)
{
	const struct tg_cost *of = tg->costs.of;

	seq_printf(m, "read %u %u\nwrite %u %u\nother %u\n",
		   READ_ONCE(of[TG_READ].base), READ_ONCE(of[TG_READ].per_kib),
		   READ_ONCE(of[TG_WRITE].base), READ_ONCE(of[TG_WRITE].per_kib),
		   READ_ONCE(of[TG_OTHER].base));
}

/*
 * Show how many submitters are known, how many hold several tags, and how often there was no memory
 * for an entry.
 */
static void tg_show_submitters(struct tg_data *tg, struct seq_file *m)
{
	struct tg_submitters *submitters = &tg->submitters;
	const struct tg_submitter *submitter;
	unsigned long unknown;
	unsigned int i, count = 0;

	spin_lock(&submitters->lock);
	unknown = submitters->unknown;
	for (i = 0; i < ARRAY_SIZE(submitters->buckets); i++)
		hlist_for_each_entry(submitter, &submitters->buckets[i], node)
			count++;
	spin_unlock(&submitters->lock);
	seq_printf(m, "known %u\nseveral %d\nunknown %lu\n", count,
		   atomic_read(&submitters->nr_several), unknown);
}

#define TG_SHOW(name)							\
static int tg_##name##_show(void *data, struct seq_file *m)		\
{									\
	return tg_show(data, m, tg_show_##name);			\
}

TG_SHOW(queued);
TG_SHOW(dispatched);
TG_SHOW(aged);
TG_SHOW(audit);
TG_SHOW(reasons);
TG_SHOW(in_flight);
TG_SHOW(waits);
TG_SHOW(services);
TG_SHOW(bios_merged);
TG_SHOW(depth);
TG_SHOW(costs);
TG_SHOW(submitters);
#undef TG_SHOW

static const struct blk_mq_debugfs_attr tg_debugfs_attrs[] = {
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
	{ "submitters", 0400, tg_submitters_show },
	{ "audit", 0400, tg_audit_show },
	{},
};

/*
 * Return the table of debugfs files for the elevator's type. Return NULL if there is no memory;
 * then there are no files.
 *
 * The block layer reads the table when a file is closed, even after the module was unloaded
 * (blk_mq_debugfs_release() of any kernel so far). So the table is outside the module and
 * is never freed: a kilobyte for each time that the module is loaded.
 */
const struct blk_mq_debugfs_attr *tg_debugfs_table(void)
{
	void *table = kmemdup(tg_debugfs_attrs, sizeof(tg_debugfs_attrs), GFP_KERNEL);

	kmemleak_not_leak(table);
	return table;
}

#endif
