// SPDX-License-Identifier: GPL-2.0-only
/*
 * prio-basic: an I/O scheduler with three classes by I/O priority, served in strict
 * order. Aging keeps the classes NORMAL and LOW from starving. The scheduler does not sort by
 * address, does not merge, and does not limit the requests in flight.
 */
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/jiffies.h>
#include <linux/kstrtox.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/sysfs.h>

#include <trace/events/block.h>

#include "iosched.h"
#include "prio-class.h"

/* In ms. Longer than a burst of HIGH requests, shorter than a user's patience. */
static const unsigned int aging_expire_default = 500;
/* With 0, each NORMAL or LOW request would go before HIGH ones after at most one tick. */
static const unsigned int aging_expire_min = 1;
/* Half the time after which the kernel reports a waiting task as hung. */
static const unsigned int aging_expire_max = 60000;

/*
 * One class of requests on one device. At any time @inserted is @dispatched plus the
 * number of the class's requests on @fifo and on the device's at_head.
 */
struct pb_class {
	struct list_head fifo;		/* oldest first */
	unsigned long inserted;
	unsigned long dispatched;
	unsigned long aged;		/* part of @dispatched: picked because of age */
};

/* The scheduler's data for one device */
struct pb_data {
	struct iosched_queue queue;	/* in pb_alive */

	/*
	 * Guards all members below. Submitters, dispatchers, and readers and
	 * writers of sysfs and debugfs take it. None of them runs in an
	 * interrupt, so interrupts stay on.
	 */
	spinlock_t lock;
	unsigned int queued;		/* written with the lock held, read without */
	struct list_head at_head;	/* served before all classes, oldest first */
	struct pb_class classes[PRIO_CLASS_COUNT];

	/* Tunables */
	unsigned int aging_expire;	/* ms */
	struct prio_bounds bounds;
};

static IOSCHED_ALIVE(pb_alive);

/*
 * Store the class at each insertion. Do not compute it later: it may depend on rq->bio, which may
 * change while the request is queued.
 */
static void pb_set_class(struct request *rq, enum prio_class class)
{
	rq->elv.priv[0] = (void *)(uintptr_t)class;
}

static enum prio_class pb_class_of(const struct request *rq)
{
	return (enum prio_class)(uintptr_t)rq->elv.priv[0];
}

static unsigned long pb_inserted_at(const struct request *rq)
{
	return (unsigned long)rq->fifo_time;
}

static struct request *pb_first(struct list_head *list)
{
	return list_first_entry_or_null(list, struct request, queuelist);
}

static void pb_insert(struct pb_data *pb, struct request *rq, bool at_head)
{
	const enum prio_class class = prio_classify(&pb->bounds,
						    req_get_ioprio(rq));

	lockdep_assert_held(&pb->lock);

	pb_set_class(rq, class);
	pb->classes[class].inserted++;
	rq->fifo_time = jiffies;
	list_add_tail(&rq->queuelist,
		      at_head ? &pb->at_head : &pb->classes[class].fifo);
	WRITE_ONCE(pb->queued, pb->queued + 1);
	trace_block_rq_insert(rq);
}

/*
 * The core calls this for new requests, and again, at head, for requests that the
 * driver has sent back (blk_mq_requeue_request()).
 */
static void pb_insert_requests(struct blk_mq_hw_ctx *hctx,
			       struct list_head *list, blk_insert_t flags)
{
	struct pb_data *pb = hctx->queue->elevator->elevator_data;
	struct request *rq, *next;

	spin_lock(&pb->lock);
	list_for_each_entry_safe(rq, next, list, queuelist) {
		list_del_init(&rq->queuelist);
		pb_insert(pb, rq, flags & BLK_MQ_INSERT_AT_HEAD);
	}
	spin_unlock(&pb->lock);
}

/*
 * Pick the oldest request of NORMAL and LOW if it has waited longer than aging_expire.
 * Expired requests are served in the order in which they came, whatever their class,
 * so neither class starves.
 */
static struct request *pb_pick_aged(struct pb_data *pb)
{
	const unsigned long expire = msecs_to_jiffies(pb->aging_expire);
	struct request *oldest = NULL;
	enum prio_class class;

	lockdep_assert_held(&pb->lock);

	for (class = PRIO_CLASS_NORMAL; class < PRIO_CLASS_COUNT; class++) {
		struct request *rq = pb_first(&pb->classes[class].fifo);

		if (rq && (!oldest || time_before(pb_inserted_at(rq),
						  pb_inserted_at(oldest))))
			oldest = rq;
	}
	if (!oldest || !time_after(jiffies, pb_inserted_at(oldest) + expire))
		return NULL;
	pb->classes[pb_class_of(oldest)].aged++;
	return oldest;
}

/* Pick the first request of the most urgent class that has any. */
static struct request *pb_pick_strict(struct pb_data *pb)
{
	enum prio_class class;

	lockdep_assert_held(&pb->lock);

	for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++) {
		struct request *rq = pb_first(&pb->classes[class].fifo);

		if (rq)
			return rq;
	}
	return NULL;
}

/* Pick the next request. This is the whole policy. */
static struct request *pb_pick(struct pb_data *pb)
{
	return pb_first(&pb->at_head) ?: pb_pick_aged(pb) ?: pb_pick_strict(pb);
}

static struct request *pb_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct pb_data *pb = hctx->queue->elevator->elevator_data;
	struct request *rq;

	spin_lock(&pb->lock);
	rq = pb_pick(pb);
	if (rq) {
		list_del_init(&rq->queuelist);
		WRITE_ONCE(pb->queued, pb->queued - 1);
		pb->classes[pb_class_of(rq)].dispatched++;
	}
	spin_unlock(&pb->lock);
	return rq;
}

/*
 * The core calls this without the lock, before each run of the queue. It may miss a request
 * that a submitter inserts at the same time. The submitter runs the queue after that.
 */
static bool pb_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct pb_data *pb = hctx->queue->elevator->elevator_data;

	return READ_ONCE(pb->queued);
}

/* Do nothing. Since 6.12 elv_register() refuses a scheduler without this operation. */
static void pb_finish_request(struct request *rq)
{
}

static int pb_init(struct request_queue *q, struct elevator_queue *eq)
{
	struct pb_data *pb;
	enum prio_class class;

	pb = kzalloc_node(sizeof(*pb), GFP_KERNEL, q->node);
	if (!pb)
		return -ENOMEM;

	spin_lock_init(&pb->lock);
	INIT_LIST_HEAD(&pb->at_head);
	for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++)
		INIT_LIST_HEAD(&pb->classes[class].fifo);
	pb->aging_expire = aging_expire_default;
	pb->bounds = (struct prio_bounds)PRIO_BOUNDS_DEFAULT;

	/* pb_pick() picks from the requests of the whole device, not of one hardware queue. */
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);

	eq->elevator_data = pb;
	iosched_begin(&pb_alive, &pb->queue, q);
	return 0;
}

IOSCHED_INIT_SCHED(pb_init_sched, pb_init);

/* The core calls this with the queue frozen, when all requests have completed. */
static void pb_exit_sched(struct elevator_queue *eq)
{
	struct pb_data *pb = eq->elevator_data;
	enum prio_class class;

	iosched_end(&pb_alive, &pb->queue);
	WARN_ON_ONCE(pb->queued);
	WARN_ON_ONCE(!list_empty(&pb->at_head));
	for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++) {
		const struct pb_class *c = &pb->classes[class];

		WARN_ON_ONCE(!list_empty(&c->fifo));
		WARN_ONCE(c->inserted != c->dispatched,
			  "prio-basic: class %d: %lu inserted, %lu dispatched\n",
			  class, c->inserted, c->dispatched);
	}
	kfree(pb);
}

/* Tunables: /sys/block/DEV/queue/iosched/ */

static ssize_t pb_show(struct pb_data *pb, const unsigned int *tunable, char *page)
{
	unsigned int value;

	spin_lock(&pb->lock);
	value = *tunable;
	spin_unlock(&pb->lock);
	return sysfs_emit(page, "%u\n", value);
}

static bool pb_tunables_valid(const struct pb_data *pb)
{
	return pb->aging_expire >= aging_expire_min &&
	       pb->aging_expire <= aging_expire_max &&
	       prio_bounds_valid(&pb->bounds);
}

/* One tunable may bound another, so check the new value together with the others. */
static ssize_t pb_store(struct pb_data *pb, unsigned int *tunable,
			const char *page, size_t count)
{
	unsigned int new, old;
	bool valid;

	if (kstrtouint(page, 10, &new))
		return -EINVAL;

	spin_lock(&pb->lock);
	old = *tunable;
	*tunable = new;
	valid = pb_tunables_valid(pb);
	if (!valid)
		*tunable = old;
	spin_unlock(&pb->lock);
	return valid ? count : -EINVAL;
}

#define PB_SHOW(name, tunable)						\
static ssize_t pb_##name##_show(struct elevator_queue *eq, char *page)	\
{									\
	struct pb_data *pb = eq->elevator_data;				\
									\
	return pb_show(pb, tunable, page);				\
}

PB_SHOW(aging_expire, &pb->aging_expire);
PB_SHOW(be_high_max, &pb->bounds.be_high_max);
PB_SHOW(be_low_min, &pb->bounds.be_low_min);
#undef PB_SHOW

#define PB_STORE(name, tunable)						\
static ssize_t pb_##name##_store(struct elevator_queue *eq,		\
				 const char *page, size_t count)	\
{									\
	struct pb_data *pb = eq->elevator_data;				\
									\
	return pb_store(pb, tunable, page, count);			\
}

PB_STORE(aging_expire, &pb->aging_expire);
PB_STORE(be_high_max, &pb->bounds.be_high_max);
PB_STORE(be_low_min, &pb->bounds.be_low_min);
#undef PB_STORE

#define PB_ATTR(name) __ATTR(name, 0644, pb_##name##_show, pb_##name##_store)
static struct elv_fs_entry pb_attrs[] = {
	PB_ATTR(aging_expire),
	PB_ATTR(be_high_max),
	PB_ATTR(be_low_min),
	__ATTR_NULL
};

#undef PB_ATTR

#ifdef CONFIG_BLK_DEBUG_FS
/* Counts of HIGH, NORMAL and LOW: /sys/kernel/debug/block/DEV/sched/ */

static unsigned long pb_queued(const struct pb_class *c)
{
	return c->inserted - c->dispatched;
}

static unsigned long pb_dispatched(const struct pb_class *c)
{
	return c->dispatched;
}

static unsigned long pb_aged(const struct pb_class *c)
{
	return c->aged;
}

static void pb_show_counts(struct pb_data *pb, struct seq_file *m,
			   unsigned long (*count)(const struct pb_class *c))
{
	unsigned long counts[PRIO_CLASS_COUNT];
	enum prio_class class;

	spin_lock(&pb->lock);
	for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++)
		counts[class] = count(&pb->classes[class]);
	spin_unlock(&pb->lock);
	seq_printf(m, "%lu %lu %lu\n", counts[PRIO_CLASS_HIGH],
		   counts[PRIO_CLASS_NORMAL], counts[PRIO_CLASS_LOW]);
}

static int pb_show_device(const struct request_queue *q, struct seq_file *m,
			  unsigned long (*count)(const struct pb_class *c))
{
	struct iosched_queue *found;

	mutex_lock(&pb_alive.lock);
	found = iosched_find(&pb_alive, q);
	if (found)
		pb_show_counts(container_of(found, struct pb_data, queue), m, count);
	mutex_unlock(&pb_alive.lock);
	return found ? 0 : -ENODEV;
}

static int pb_queued_show(void *data, struct seq_file *m)
{
	return pb_show_device(data, m, pb_queued);
}

static int pb_dispatched_show(void *data, struct seq_file *m)
{
	return pb_show_device(data, m, pb_dispatched);
}

static int pb_aged_show(void *data, struct seq_file *m)
{
	return pb_show_device(data, m, pb_aged);
}

static const struct blk_mq_debugfs_attr pb_debugfs_attrs[] = {
	{ "queued", 0400, pb_queued_show },
	{ "dispatched", 0400, pb_dispatched_show },
	{ "aged", 0400, pb_aged_show },
	{},
};
#endif

static struct elevator_type prio_basic = {
	.ops = {
		.init_sched		= pb_init_sched,
		.exit_sched		= pb_exit_sched,
		.insert_requests	= pb_insert_requests,
		.dispatch_request	= pb_dispatch_request,
		.has_work		= pb_has_work,
		.finish_request		= pb_finish_request,
	},
	.elevator_attrs		= pb_attrs,
#ifdef CONFIG_BLK_DEBUG_FS
	.queue_debugfs_attrs	= pb_debugfs_attrs,
#endif
	.elevator_name		= "prio-basic",
	.elevator_owner		= THIS_MODULE,
};

static int __init pb_module_init(void)
{
	return elv_register(&prio_basic);
}

static void __exit pb_module_exit(void)
{
	iosched_unregister(&prio_basic);
}

module_init(pb_module_init);
module_exit(pb_module_exit);

MODULE_AUTHOR("The Triage project");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("I/O scheduler with three classes by I/O priority, and aging");
