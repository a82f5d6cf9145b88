// SPDX-License-Identifier: GPL-2.0-only
/*
 * prio-adaptive: an I/O scheduler with three classes by I/O priority, served in strict
 * order with aging. Inside a class it adapts to the workload and to the medium. While
 * requests arrive in sequence it merges them, and serves several requests of one stream
 * in a row. On a rotating disk it serves a class in order of sectors.
 */
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/jiffies.h>
#include <linux/kstrtox.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/module.h>
#include <linux/rbtree.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/sysfs.h>

#include <trace/events/block.h>

#include "detector.h"
#include "iosched.h"
#include "prio-class.h"

/* In ms. Longer than a burst of HIGH requests, shorter than a user's patience. */
static const unsigned int aging_expire_default = 500;
/* The same as aging_expire_default: a class is served by sector until its requests age. */
static const unsigned int hdd_fifo_expire_default = 500;
/* With 0, requests would age after at most one tick: class and sector would hardly count. */
static const unsigned int expire_min = 1;
/* Half the time after which the kernel reports a waiting task as hung. */
static const unsigned int expire_max = 60000;

/* 32 KiB: a stream may skip a few blocks and still count as sequential. */
static const unsigned int seq_gap_sectors_default = 64;
/* 1 GiB. With more, hardly any request to a disk would count as random. */
static const unsigned int seq_gap_sectors_max = 1 << 21;

/*
 * With 32 the mode (sequential or random) follows a new workload within 17 requests. After 18
 * requests of the new workload, one request of the other kind does not change the mode back.
 */
static const unsigned int score_max_default = 32;
static const unsigned int score_max_min = 1;
static const unsigned int score_max_max = 1024;

/* 16 requests of 128 KiB take a rotating disk about as long as one seek. */
static const unsigned int batch_max_default = 16;
/* With 1 there are no batches: the scheduler picks each request by class. */
static const unsigned int batch_max_min = 1;
static const unsigned int batch_max_max = 256;

/*
 * One class of requests on one device. At any time @inserted is @dispatched plus
 * @merged plus the number of the class's requests on @fifo and on the device's at_head.
 * A bio that becomes part of a request counts as inserted and as merged.
 */
struct pa_class {
	struct list_head fifo;		/* oldest first */
	struct rb_root by_sector;	/* the same requests */
	unsigned long inserted;
	unsigned long merged;
	unsigned long dispatched;
	unsigned long aged;		/* part of @dispatched: picked because of age */
};

/* The scheduler's data for one device */
struct pa_data {
	struct iosched_queue queue;	/* in pa_alive */
	struct request_queue *q;

	/*
	 * Guards all members below, and the queue's hash and last_merge. Submitters,
	 * dispatchers, and readers and writers of sysfs and debugfs take it. None of
	 * them runs in an interrupt, so interrupts stay on.
	 */
	spinlock_t lock;
	unsigned int queued;		/* written with the lock held, read without */
	struct list_head at_head;	/* served before all classes, oldest first */
	struct pa_class classes[PRIO_CLASS_COUNT];
	struct detector detector;	/* sees each request and bio that arrives */
	sector_t position;		/* the end of the latest dispatched request */
	enum prio_class batch_class;
	unsigned int batch_left;	/* requests that the batch may still have */

	/* Tunables; the detector has two more */
	unsigned int aging_expire;	/* ms */
	unsigned int hdd_fifo_expire;	/* ms */
	unsigned int batch_max;
	struct prio_bounds bounds;
};

static IOSCHED_ALIVE(pa_alive);

/*
 * Store the class at each insertion. Do not compute it later: it may depend on rq->bio, which may
 * change while the request is queued.
 */
static void pa_set_class(struct request *rq, enum prio_class class)
{
	rq->elv.priv[0] = (void *)(uintptr_t)class;
}

static enum prio_class pa_class_of(const struct request *rq)
{
	return (enum prio_class)(uintptr_t)rq->elv.priv[0];
}

static enum prio_class pa_class_of_bio(const struct pa_data *pa,
				       const struct bio *bio)
{
	return prio_classify(&pa->bounds, bio->bi_ioprio);
}

static unsigned long pa_inserted_at(const struct request *rq)
{
	return (unsigned long)rq->fifo_time;
}

static bool pa_waited(const struct request *rq, unsigned int ms)
{
	return time_after(jiffies, pa_inserted_at(rq) + msecs_to_jiffies(ms));
}

static struct request *pa_first(struct list_head *list)
{
	return list_first_entry_or_null(list, struct request, queuelist);
}

/* Arrivals */

/* Feed the detector an arrival: a new request, or a bio that joins a request. */
static void pa_observe(struct pa_data *pa, sector_t sector, unsigned int sectors)
{
	lockdep_assert_held(&pa->lock);

	detector_feed(&pa->detector, sector, sectors);
	if (!detector_sequential(&pa->detector))
		pa->batch_left = 0;
}

/* Add a request to its class's list and tree, and to the queue's hash by end sector. */
static void pa_enqueue(struct pa_data *pa, struct request *rq)
{
	struct pa_class *c = &pa->classes[pa_class_of(rq)];

	lockdep_assert_held(&pa->lock);

	list_add_tail(&rq->queuelist, &c->fifo);
	elv_rb_add(&c->by_sector, rq);
	elv_rqhash_add(pa->q, rq);
	if (!pa->q->last_merge)
		pa->q->last_merge = rq;
}

static void pa_dequeue(struct pa_data *pa, struct request *rq)
{
	lockdep_assert_held(&pa->lock);

	list_del_init(&rq->queuelist);
	WRITE_ONCE(pa->queued, pa->queued - 1);
	elv_rb_del(&pa->classes[pa_class_of(rq)].by_sector, rq);
	elv_rqhash_del(pa->q, rq);
	if (pa->q->last_merge == rq)
		pa->q->last_merge = NULL;
}

/*
 * Queue a request. A request that is inserted at head has been here before: the detector
 * does not see it again, and nothing is merged with it.
 */
static void pa_insert(struct pa_data *pa, struct request *rq, bool at_head)
{
	const enum prio_class class = prio_classify(&pa->bounds,
						    req_get_ioprio(rq));

	lockdep_assert_held(&pa->lock);

	pa_set_class(rq, class);
	pa->classes[class].inserted++;
	rq->fifo_time = jiffies;
	WRITE_ONCE(pa->queued, pa->queued + 1);
	if (at_head) {
		list_add_tail(&rq->queuelist, &pa->at_head);
	} else {
		pa_enqueue(pa, rq);
		pa_observe(pa, blk_rq_pos(rq), blk_rq_sectors(rq));
	}
	trace_block_rq_insert(rq);
}

/*
 * The core calls this for new requests, and again, at head, for each request that the
 * driver has sent back (blk_mq_requeue_request()).
 */
static void pa_insert_requests(struct blk_mq_hw_ctx *hctx,
			       struct list_head *list, blk_insert_t flags)
{
	struct pa_data *pa = hctx->queue->elevator->elevator_data;
	struct request *rq, *next;

	spin_lock(&pa->lock);
	list_for_each_entry_safe(rq, next, list, queuelist) {
		list_del_init(&rq->queuelist);
		pa_insert(pa, rq, flags & BLK_MQ_INSERT_AT_HEAD);
	}
	spin_unlock(&pa->lock);
}

/* Merging */

/*
 * Merge a bio with a queued request if they are adjacent. The core calls this for each
 * bio before the bio gets a request of its own. In random mode a search would hardly
 * ever find a request, so there is no search.
 */
static bool pa_bio_merge(struct request_queue *q, struct bio *bio,
			 unsigned int nr_segs)
{
	struct pa_data *pa = q->elevator->elevator_data;
	struct request *joined = NULL;
	bool merged = false;

	spin_lock(&pa->lock);
	if (detector_sequential(&pa->detector))
		merged = blk_mq_sched_try_merge(q, bio, nr_segs, &joined);
	if (merged) {
		struct pa_class *c = &pa->classes[pa_class_of_bio(pa, bio)];

		c->inserted++;
		c->merged++;
		pa_observe(pa, bio->bi_iter.bi_sector, bio_sectors(bio));
	}
	spin_unlock(&pa->lock);

	/* The bio has closed the gap between two requests: free the one that lost its bios. */
	if (joined)
		blk_mq_free_request(joined);
	return merged;
}

/*
 * blk_mq_sched_try_merge() calls the four functions below. The core itself finds, in the
 * hash, the request that ends where the bio begins. Then it calls pa_allow_merge().
 *
 * The core does not merge requests of different priorities. But if the bounds have changed
 * between their insertions, requests of one priority may be in different classes.
 */
static bool pa_allow_merge(struct request_queue *q, struct request *rq,
			   struct bio *bio)
{
	struct pa_data *pa = q->elevator->elevator_data;

	lockdep_assert_held(&pa->lock);

	return pa_class_of(rq) == pa_class_of_bio(pa, bio);
}

/* Find the request that begins where the bio ends. */
static int pa_request_merge(struct request_queue *q, struct request **req,
			    struct bio *bio)
{
	struct pa_data *pa = q->elevator->elevator_data;
	struct pa_class *c = &pa->classes[pa_class_of_bio(pa, bio)];
	struct request *rq;

	lockdep_assert_held(&pa->lock);

	/* Some devices merge discards that are not adjacent. Leave discards to the core. */
	if (bio_op(bio) == REQ_OP_DISCARD)
		return ELEVATOR_NO_MERGE;

	rq = elv_rb_find(&c->by_sector, bio_end_sector(bio));
	if (!rq || !elv_bio_merge_ok(rq, bio))
		return ELEVATOR_NO_MERGE;
	*req = rq;
	return ELEVATOR_FRONT_MERGE;
}

/* Keep by_sector sorted after a bio joined @rq. The core itself updates its hash by end sector. */
static void pa_request_merged(struct request_queue *q, struct request *rq,
			      enum elv_merge type)
{
	struct pa_data *pa = q->elevator->elevator_data;
	struct rb_root *by_sector = &pa->classes[pa_class_of(rq)].by_sector;

	lockdep_assert_held(&pa->lock);

	if (type == ELEVATOR_FRONT_MERGE) {
		elv_rb_del(by_sector, rq);
		elv_rb_add(by_sector, rq);
	}
}

/*
 * Record that @rq has taken over the bios of @next, which leaves the queue. From now on the age of
 * @rq is that of the older of the two.
 */
static void pa_requests_merged(struct request_queue *q, struct request *rq,
			       struct request *next)
{
	struct pa_data *pa = q->elevator->elevator_data;

	lockdep_assert_held(&pa->lock);

	if (time_before(pa_inserted_at(next), pa_inserted_at(rq))) {
		list_move(&rq->queuelist, &next->queuelist);
		rq->fifo_time = next->fifo_time;
	}
	pa_dequeue(pa, next);
	pa->classes[pa_class_of(next)].merged++;
}

/* Dispatch */

/* Return the request that begins at @sector, or else the first after it, or NULL. */
static struct request *pa_at_or_after(const struct rb_root *by_sector,
				      sector_t sector)
{
	struct rb_node *node = by_sector->rb_node;
	struct request *found = NULL;

	while (node) {
		struct request *rq = rb_entry(node, struct request, rb_node);

		if (blk_rq_pos(rq) < sector) {
			node = node->rb_right;
		} else {
			found = rq;
			node = node->rb_left;
		}
	}
	return found;
}

/*
 * Return the next request of a class. This is the oldest if the disk does not rotate, or if the
 * oldest has waited longer than hdd_fifo_expire. Otherwise the arm sweeps in one direction: the
 * next request is the first at or after pa->position, or else the one with the lowest sector.
 */
static struct request *pa_next(struct pa_data *pa, struct pa_class *c)
{
	struct request *oldest = pa_first(&c->fifo);

	lockdep_assert_held(&pa->lock);

	if (!oldest || !blk_queue_rot(pa->q) ||
	    pa_waited(oldest, pa->hdd_fifo_expire))
		return oldest;
	return pa_at_or_after(&c->by_sector, pa->position) ?:
	       rb_entry(rb_first(&c->by_sector), struct request, rb_node);
}

/* Begin a batch with @rq. In sequential mode more requests of its class may follow it. */
static void pa_begin_batch(struct pa_data *pa, const struct request *rq)
{
	lockdep_assert_held(&pa->lock);

	pa->batch_class = pa_class_of(rq);
	pa->batch_left = detector_sequential(&pa->detector) ?
			 pa->batch_max - 1 : 0;
}

/*
 * Pick the oldest request of NORMAL and LOW if it has waited longer than aging_expire.
 * Expired requests are served in the order in which they came, whatever their class,
 * so neither class starves.
 */
static struct request *pa_pick_aged(struct pa_data *pa)
{
	struct request *oldest = NULL;
	enum prio_class class;

	lockdep_assert_held(&pa->lock);

	for (class = PRIO_CLASS_NORMAL; class < PRIO_CLASS_COUNT; class++) {
		struct request *rq = pa_first(&pa->classes[class].fifo);

		if (rq && (!oldest || time_before(pa_inserted_at(rq),
						  pa_inserted_at(oldest))))
			oldest = rq;
	}
	if (!oldest || !pa_waited(oldest, pa->aging_expire))
		return NULL;
	pa->classes[pa_class_of(oldest)].aged++;
	pa_begin_batch(pa, oldest);
	return oldest;
}

/* Pick the next request of the batch's class if it continues the stream. */
static struct request *pa_pick_batched(struct pa_data *pa)
{
	struct request *rq;

	lockdep_assert_held(&pa->lock);

	if (!pa->batch_left)
		return NULL;
	rq = pa_next(pa, &pa->classes[pa->batch_class]);
	if (!rq || !detector_near(&pa->detector, pa->position, blk_rq_pos(rq)))
		return NULL;
	pa->batch_left--;
	return rq;
}

/* Pick the next request of the most urgent class that has any. */
static struct request *pa_pick_strict(struct pa_data *pa)
{
	enum prio_class class;

	lockdep_assert_held(&pa->lock);

	for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++) {
		struct request *rq = pa_next(pa, &pa->classes[class]);

		if (rq) {
			pa_begin_batch(pa, rq);
			return rq;
		}
	}
	return NULL;
}

/* Pick the next request. Age goes before a batch, so a batch delays no expired request. */
static struct request *pa_pick(struct pa_data *pa)
{
	return pa_pick_aged(pa) ?: pa_pick_batched(pa) ?: pa_pick_strict(pa);
}

static struct request *pa_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct pa_data *pa = hctx->queue->elevator->elevator_data;
	struct request *rq;

	spin_lock(&pa->lock);
	rq = pa_first(&pa->at_head);
	if (rq) {
		list_del_init(&rq->queuelist);
		WRITE_ONCE(pa->queued, pa->queued - 1);
	} else {
		rq = pa_pick(pa);
		if (rq)
			pa_dequeue(pa, rq);
	}
	if (rq) {
		pa->classes[pa_class_of(rq)].dispatched++;
		pa->position = blk_rq_pos(rq) + blk_rq_sectors(rq);
	}
	spin_unlock(&pa->lock);
	return rq;
}

/*
 * The core calls this without the lock, before each run of the queue. It may miss a request
 * that a submitter inserts at the same time. The submitter runs the queue after that.
 */
static bool pa_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct pa_data *pa = hctx->queue->elevator->elevator_data;

	return READ_ONCE(pa->queued);
}

/* Do nothing. Since 6.12 elv_register() refuses a scheduler without this operation. */
static void pa_finish_request(struct request *rq)
{
}

/* Begin and end of the scheduler */

static int pa_init(struct request_queue *q, struct elevator_queue *eq)
{
	struct pa_data *pa;
	enum prio_class class;

	pa = kzalloc_node(sizeof(*pa), GFP_KERNEL, q->node);
	if (!pa)
		return -ENOMEM;

	pa->q = q;
	spin_lock_init(&pa->lock);
	INIT_LIST_HEAD(&pa->at_head);
	for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++) {
		INIT_LIST_HEAD(&pa->classes[class].fifo);
		pa->classes[class].by_sector = RB_ROOT;
	}
	pa->detector.seq_gap_sectors = seq_gap_sectors_default;
	pa->detector.score_max = score_max_default;
	pa->aging_expire = aging_expire_default;
	pa->hdd_fifo_expire = hdd_fifo_expire_default;
	pa->batch_max = batch_max_default;
	pa->bounds = (struct prio_bounds)PRIO_BOUNDS_DEFAULT;

	/* pa_pick() picks from the requests of the whole device, not of one hardware queue. */
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);

	eq->elevator_data = pa;
	iosched_begin(&pa_alive, &pa->queue, q);
	return 0;
}

IOSCHED_INIT_SCHED(pa_init_sched, pa_init);

/* The core calls this with the queue frozen, when all requests have completed. */
static void pa_exit_sched(struct elevator_queue *eq)
{
	struct pa_data *pa = eq->elevator_data;
	enum prio_class class;

	iosched_end(&pa_alive, &pa->queue);
	WARN_ON_ONCE(pa->queued);
	WARN_ON_ONCE(!list_empty(&pa->at_head));
	for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++) {
		const struct pa_class *c = &pa->classes[class];

		WARN_ON_ONCE(!list_empty(&c->fifo));
		WARN_ON_ONCE(!RB_EMPTY_ROOT(&c->by_sector));
		WARN_ONCE(c->inserted != c->dispatched + c->merged,
			  "prio-adaptive: class %d: %lu inserted, %lu dispatched, %lu merged\n",
			  class, c->inserted, c->dispatched, c->merged);
	}
	kfree(pa);
}

/* Tunables: /sys/block/DEV/queue/iosched/ */

static ssize_t pa_show(struct pa_data *pa, const unsigned int *tunable, char *page)
{
	unsigned int value;

	spin_lock(&pa->lock);
	value = *tunable;
	spin_unlock(&pa->lock);
	return sysfs_emit(page, "%u\n", value);
}

static bool pa_within(unsigned int value, unsigned int min, unsigned int max)
{
	return value >= min && value <= max;
}

static bool pa_tunables_valid(const struct pa_data *pa)
{
	const struct detector *d = &pa->detector;

	return pa_within(pa->aging_expire, expire_min, expire_max) &&
	       pa_within(pa->hdd_fifo_expire, expire_min, expire_max) &&
	       pa_within(pa->batch_max, batch_max_min, batch_max_max) &&
	       pa_within(d->seq_gap_sectors, 0, seq_gap_sectors_max) &&
	       pa_within(d->score_max, score_max_min, score_max_max) &&
	       prio_bounds_valid(&pa->bounds);
}

/* One tunable may bound another, so check the new value together with the others. */
static ssize_t pa_store(struct pa_data *pa, unsigned int *tunable,
			const char *page, size_t count)
{
	unsigned int new, old;
	bool valid;

	if (kstrtouint(page, 10, &new))
		return -EINVAL;

	spin_lock(&pa->lock);
	old = *tunable;
	*tunable = new;
	valid = pa_tunables_valid(pa);
	if (!valid)
		*tunable = old;
	spin_unlock(&pa->lock);
	return valid ? count : -EINVAL;
}

#define PA_SHOW(name, tunable)						\
static ssize_t pa_##name##_show(struct elevator_queue *eq, char *page)	\
{									\
	struct pa_data *pa = eq->elevator_data;				\
									\
	return pa_show(pa, tunable, page);				\
}

PA_SHOW(aging_expire, &pa->aging_expire);
PA_SHOW(batch_max, &pa->batch_max);
PA_SHOW(be_high_max, &pa->bounds.be_high_max);
PA_SHOW(be_low_min, &pa->bounds.be_low_min);
PA_SHOW(hdd_fifo_expire, &pa->hdd_fifo_expire);
PA_SHOW(score_max, &pa->detector.score_max);
PA_SHOW(seq_gap_sectors, &pa->detector.seq_gap_sectors);
#undef PA_SHOW

#define PA_STORE(name, tunable)						\
static ssize_t pa_##name##_store(struct elevator_queue *eq,		\
				 const char *page, size_t count)	\
{									\
	struct pa_data *pa = eq->elevator_data;				\
									\
	return pa_store(pa, tunable, page, count);			\
}

PA_STORE(aging_expire, &pa->aging_expire);
PA_STORE(batch_max, &pa->batch_max);
PA_STORE(be_high_max, &pa->bounds.be_high_max);
PA_STORE(be_low_min, &pa->bounds.be_low_min);
PA_STORE(hdd_fifo_expire, &pa->hdd_fifo_expire);
PA_STORE(score_max, &pa->detector.score_max);
PA_STORE(seq_gap_sectors, &pa->detector.seq_gap_sectors);
#undef PA_STORE

#define PA_ATTR(name) __ATTR(name, 0644, pa_##name##_show, pa_##name##_store)
static struct elv_fs_entry pa_attrs[] = {
	PA_ATTR(aging_expire),
	PA_ATTR(batch_max),
	PA_ATTR(be_high_max),
	PA_ATTR(be_low_min),
	PA_ATTR(hdd_fifo_expire),
	PA_ATTR(score_max),
	PA_ATTR(seq_gap_sectors),
	__ATTR_NULL
};

#undef PA_ATTR

#ifdef CONFIG_BLK_DEBUG_FS
/* /sys/kernel/debug/block/DEV/sched/ */

/* Show one file. Return -ENODEV if the scheduler has left the queue. */
static int pa_show_device(const struct request_queue *q, struct seq_file *m,
			  void (*show)(struct pa_data *pa, struct seq_file *m))
{
	struct iosched_queue *found;

	mutex_lock(&pa_alive.lock);
	found = iosched_find(&pa_alive, q);
	if (found)
		show(container_of(found, struct pa_data, queue), m);
	mutex_unlock(&pa_alive.lock);
	return found ? 0 : -ENODEV;
}

/* Counts of HIGH, NORMAL and LOW */

static unsigned long pa_queued(const struct pa_class *c)
{
	return c->inserted - c->dispatched - c->merged;
}

static unsigned long pa_dispatched(const struct pa_class *c)
{
	return c->dispatched;
}

static unsigned long pa_merged(const struct pa_class *c)
{
	return c->merged;
}

static unsigned long pa_aged(const struct pa_class *c)
{
	return c->aged;
}

static void pa_show_counts(struct pa_data *pa, struct seq_file *m,
			   unsigned long (*count)(const struct pa_class *c))
{
	unsigned long counts[PRIO_CLASS_COUNT];
	enum prio_class class;

	spin_lock(&pa->lock);
	for (class = PRIO_CLASS_HIGH; class < PRIO_CLASS_COUNT; class++)
		counts[class] = count(&pa->classes[class]);
	spin_unlock(&pa->lock);
	seq_printf(m, "%lu %lu %lu\n", counts[PRIO_CLASS_HIGH],
		   counts[PRIO_CLASS_NORMAL], counts[PRIO_CLASS_LOW]);
}

static void pa_show_queued(struct pa_data *pa, struct seq_file *m)
{
	pa_show_counts(pa, m, pa_queued);
}

static void pa_show_dispatched(struct pa_data *pa, struct seq_file *m)
{
	pa_show_counts(pa, m, pa_dispatched);
}

static void pa_show_merged(struct pa_data *pa, struct seq_file *m)
{
	pa_show_counts(pa, m, pa_merged);
}

static void pa_show_aged(struct pa_data *pa, struct seq_file *m)
{
	pa_show_counts(pa, m, pa_aged);
}

/* Show the mode, the sequential score and the random score. */
static void pa_show_mode(struct pa_data *pa, struct seq_file *m)
{
	struct detector d;

	spin_lock(&pa->lock);
	d = pa->detector;
	spin_unlock(&pa->lock);
	seq_printf(m, "%s %u %u\n",
		   detector_sequential(&d) ? "sequential" : "random",
		   d.seq_score, d.rand_score);
}

/* Show the batch's class, the number of requests that it may still have, and the position. */
static void pa_show_batch(struct pa_data *pa, struct seq_file *m)
{
	static const char * const names[PRIO_CLASS_COUNT] = {
		[PRIO_CLASS_HIGH]	= "HIGH",
		[PRIO_CLASS_NORMAL]	= "NORMAL",
		[PRIO_CLASS_LOW]	= "LOW",
	};
	enum prio_class class;
	unsigned int left;
	sector_t position;

	spin_lock(&pa->lock);
	class = pa->batch_class;
	left = pa->batch_left;
	position = pa->position;
	spin_unlock(&pa->lock);
	seq_printf(m, "%s %u %llu\n", names[class], left, (u64)position);
}

#define PA_FILE(name)							\
static int pa_##name##_show(void *data, struct seq_file *m)		\
{									\
	return pa_show_device(data, m, pa_show_##name);			\
}

PA_FILE(queued);
PA_FILE(dispatched);
PA_FILE(merged);
PA_FILE(aged);
PA_FILE(mode);
PA_FILE(batch);
#undef PA_FILE

static const struct blk_mq_debugfs_attr pa_debugfs_attrs[] = {
	{ "queued", 0400, pa_queued_show },
	{ "dispatched", 0400, pa_dispatched_show },
	{ "merged", 0400, pa_merged_show },
	{ "aged", 0400, pa_aged_show },
	{ "mode", 0400, pa_mode_show },
	{ "batch", 0400, pa_batch_show },
	{},
};
#endif

static struct elevator_type prio_adaptive = {
	.ops = {
		.init_sched		= pa_init_sched,
		.exit_sched		= pa_exit_sched,
		.insert_requests	= pa_insert_requests,
		.bio_merge		= pa_bio_merge,
		.allow_merge		= pa_allow_merge,
		.request_merge		= pa_request_merge,
		.request_merged		= pa_request_merged,
		.requests_merged	= pa_requests_merged,
		.former_request		= elv_rb_former_request,
		.next_request		= elv_rb_latter_request,
		.dispatch_request	= pa_dispatch_request,
		.has_work		= pa_has_work,
		.finish_request		= pa_finish_request,
	},
	.elevator_attrs		= pa_attrs,
#ifdef CONFIG_BLK_DEBUG_FS
	.queue_debugfs_attrs	= pa_debugfs_attrs,
#endif
	.elevator_name		= "prio-adaptive",
	.elevator_owner		= THIS_MODULE,
};

static int __init pa_module_init(void)
{
	return elv_register(&prio_adaptive);
}

static void __exit pa_module_exit(void)
{
	iosched_unregister(&prio_adaptive);
}

module_init(pa_module_init);
module_exit(pa_module_exit);

MODULE_AUTHOR("The Triage project");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("I/O scheduler with three classes by I/O priority that adapts to workload and medium");
