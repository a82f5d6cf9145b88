// SPDX-License-Identifier: GPL-2.0-only
/*
 * The block driver around a model. It submits each request to the model as a command.
 * Each device has one timer, which completes requests at the times that the model names.
 *
 * Each device is one state machine under one lock. With many CPUs, contention for this lock
 * hides contention for a scheduler's locks. Measure a scheduler's locks with null_blk.
 */
#include <linux/blkdev.h>
#include <linux/debugfs.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/mm.h>
#include <linux/seq_file.h>

#include "modeldisk.h"

/* The fate of a request, drawn at random. */
enum mdk_fate {
	FATE_SERVED,
	FATE_ERROR,
	FATE_STALLED,
	FATE_REFUSED,
	MDK_NR_FATES,
};

enum mdk_count {
	COUNT_READS,
	COUNT_WRITES,
	COUNT_FLUSHES,
	COUNT_DISCARDS,
	COUNT_ZEROES,
	MDK_NR_COUNTS,
};

struct mdk_disk {
	const struct mdk_settings *set;
	const struct model_ops *ops;
	struct gendisk *gendisk;
	struct blk_mq_tag_set tags;
	struct dentry *debugfs;
	struct mdk_store store;

	/* Guards all fields below except @completed. The timer's interrupt takes it. */
	spinlock_t lock;
	struct hrtimer timer;
	u64 armed_ns;		/* expiry of the timer; U64_MAX: not armed */
	struct io_fifo done;	/* commands that the model has served; the timer completes them */
	void *model;
	u64 random;
	u64 counts[MDK_NR_COUNTS];
	u64 fates[MDK_NR_FATES];
	u64 submitted;
	u64 interrupts;

	u64 completed;		/* only the timer writes it */
};

/* The driver's part of a request. */
struct mdk_command {
	blk_status_t status;
	bool stalled;
	struct model_io io;	/* must be last: its parts[] follow */
};

static struct dentry *mdk_debugfs;

/* --- the timer --- */

/* Arm the timer for the time of the next completion. */
static void mdk_arm(struct mdk_disk *d)
{
	u64 next = d->done.head ? 0 : d->ops->next(d->model);

	lockdep_assert_held(&d->lock);

	if (next >= d->armed_ns)
		return;
	d->armed_ns = next;
	hrtimer_start(&d->timer, ns_to_ktime(next), HRTIMER_MODE_ABS_PINNED);
}

static enum hrtimer_restart mdk_timer(struct hrtimer *timer)
{
	struct mdk_disk *d = container_of(timer, struct mdk_disk, timer);
	u64 completed = d->completed;
	struct model_io *io;
	struct io_fifo done;
	unsigned long flags;

	spin_lock_irqsave(&d->lock, flags);
	d->interrupts++;
	d->armed_ns = U64_MAX;
	d->ops->advance(d->model, ktime_get_ns(), &d->done);
	done = d->done;
	d->done.head = NULL;
	mdk_arm(d);
	spin_unlock_irqrestore(&d->lock, flags);

	while ((io = io_fifo_pop(&done))) {
		struct mdk_command *cmd = container_of(io, struct mdk_command, io);

		completed++;
		blk_mq_complete_request(blk_mq_rq_from_pdu(cmd));
	}
	WRITE_ONCE(d->completed, completed);
	return HRTIMER_NORESTART;
}

static void mdk_timer_init(struct mdk_disk *d)
{
	d->armed_ns = U64_MAX;
#ifdef MDK_HAVE_HRTIMER_SETUP
	/* hrtimer_setup() is new in 6.13. Since 6.15 there is no hrtimer_init(). */
	hrtimer_setup(&d->timer, mdk_timer, CLOCK_MONOTONIC,
		      HRTIMER_MODE_ABS_PINNED);
#else
	hrtimer_init(&d->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED);
	d->timer.function = mdk_timer;
#endif
}

/* --- requests --- */

/* Return the next number of splitmix64 (Steele, Lea, Flood, 2014). Every seed is good. */
static u64 mdk_random(struct mdk_disk *d)
{
	u64 z = d->random += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static enum mdk_fate mdk_draw_fate(struct mdk_disk *d)
{
	u32 error = READ_ONCE(d->set->error_ppm);
	u32 stall = READ_ONCE(d->set->stall_ppm);
	u32 refuse = READ_ONCE(d->set->resource_ppm);
	enum mdk_fate fate = FATE_SERVED;
	unsigned long flags;
	u32 n;

	if (likely(!(error | stall | refuse)))
		return FATE_SERVED;

	spin_lock_irqsave(&d->lock, flags);
	n = ((mdk_random(d) >> 32) * 1000000) >> 32;
	if (n < refuse)
		fate = FATE_REFUSED;
	else if (n - refuse < stall)
		fate = FATE_STALLED;
	else if (n - refuse - stall < error)
		fate = FATE_ERROR;
	d->fates[fate]++;
	spin_unlock_irqrestore(&d->lock, flags);
	return fate;
}

static bool mdk_describe(struct request *rq, struct model_io *io,
			 enum mdk_count *count)
{
	io->sector = blk_rq_pos(rq);
	io->sectors = blk_rq_sectors(rq);
	io->fua = rq->cmd_flags & REQ_FUA;

	switch (req_op(rq)) {
	case REQ_OP_READ:
		io->op = MODEL_READ;
		*count = COUNT_READS;
		return true;
	case REQ_OP_WRITE:
		io->op = MODEL_WRITE;
		*count = COUNT_WRITES;
		return true;
	case REQ_OP_FLUSH:
		io->op = MODEL_FLUSH;
		*count = COUNT_FLUSHES;
		return true;
	case REQ_OP_DISCARD:
		io->op = MODEL_DISCARD;
		*count = COUNT_DISCARDS;
		return true;
	case REQ_OP_WRITE_ZEROES:
		io->op = MODEL_DISCARD;
		*count = COUNT_ZEROES;
		return true;
	default:
		return false;
	}
}

/* Return whether the store keeps the data of @rq. */
static bool mdk_keeps(const struct mdk_settings *set, const struct request *rq)
{
	sector_t end = (sector_t)set->kept_mib << (20 - SECTOR_SHIFT);

	return set->memory_backed && (!end || blk_rq_pos(rq) < end);
}

static blk_status_t mdk_queue_rq(struct blk_mq_hw_ctx *hctx,
				 const struct blk_mq_queue_data *bd)
{
	struct mdk_disk *d = hctx->queue->queuedata;
	struct request *rq = bd->rq;
	struct mdk_command *cmd = blk_mq_rq_to_pdu(rq);
	enum mdk_fate fate = mdk_draw_fate(d);
	enum mdk_count count;
	unsigned long flags;

	if (fate == FATE_REFUSED)
		return BLK_STS_RESOURCE;
	if (!mdk_describe(rq, &cmd->io, &count))
		return BLK_STS_NOTSUPP;

	cmd->status = fate == FATE_ERROR ? BLK_STS_IOERR : BLK_STS_OK;
	cmd->stalled = fate == FATE_STALLED || blk_should_fake_timeout(rq->q);
	blk_mq_start_request(rq);
	if (cmd->stalled)
		return BLK_STS_OK;
	if (!cmd->status && mdk_keeps(d->set, rq))
		cmd->status = mdk_store_transfer(&d->store, rq);

	cmd->io.queue = hctx->queue_num;
	spin_lock_irqsave(&d->lock, flags);
	d->counts[count]++;
	d->submitted++;
	d->ops->submit(d->model, &cmd->io, ktime_get_ns(), &d->done);
	mdk_arm(d);
	spin_unlock_irqrestore(&d->lock, flags);
	return BLK_STS_OK;
}

static void mdk_complete_rq(struct request *rq)
{
	struct mdk_command *cmd = blk_mq_rq_to_pdu(rq);

	blk_mq_end_request(rq, cmd->status);
}

static enum blk_eh_timer_return mdk_timeout(struct request *rq)
{
	struct mdk_command *cmd = blk_mq_rq_to_pdu(rq);

	/* A request that is not stalled is still in the model, which will complete it. */
	if (!cmd->stalled)
		return BLK_EH_RESET_TIMER;

	pr_info_ratelimited("%s: a stalled request timed out\n", rq->q->disk->disk_name);
	cmd->status = BLK_STS_TIMEOUT;
	blk_mq_complete_request(rq);
	return BLK_EH_DONE;
}

static const struct blk_mq_ops mdk_mq_ops = {
	.queue_rq	= mdk_queue_rq,
	.complete	= mdk_complete_rq,
	.timeout	= mdk_timeout,
};

/* --- figures --- */

/*
 * Show one "name value" a line. time_ns is the present time. Every other name in _ns is a sum
 * since power-on, over all parts of the device that do this kind of work, in ns.
 */
static int mdk_stats_show(struct seq_file *m, void *unused)
{
	struct mdk_disk *d = m->private;
	struct model_stat stats[MODEL_MAX_STATS];
	u64 now, in_device, interrupts;
	u64 counts[MDK_NR_COUNTS];
	u64 fates[MDK_NR_FATES];
	u32 i, n;

	spin_lock_irq(&d->lock);
	now = ktime_get_ns();
	d->ops->advance(d->model, now, &d->done);
	n = d->ops->stats(d->model, stats);
	memcpy(counts, d->counts, sizeof(counts));
	memcpy(fates, d->fates, sizeof(fates));
	in_device = d->submitted - READ_ONCE(d->completed);
	interrupts = d->interrupts;
	mdk_arm(d);
	spin_unlock_irq(&d->lock);

	seq_printf(m, "time_ns %llu\n", now);
	seq_printf(m, "in_device %llu\n", in_device);
	seq_printf(m, "reads %llu\n", counts[COUNT_READS]);
	seq_printf(m, "writes %llu\n", counts[COUNT_WRITES]);
	seq_printf(m, "flushes %llu\n", counts[COUNT_FLUSHES]);
	seq_printf(m, "discards %llu\n", counts[COUNT_DISCARDS]);
	seq_printf(m, "write_zeroes %llu\n", counts[COUNT_ZEROES]);
	seq_printf(m, "errors %llu\n", fates[FATE_ERROR]);
	seq_printf(m, "stalls %llu\n", fates[FATE_STALLED]);
	seq_printf(m, "refusals %llu\n", fates[FATE_REFUSED]);
	seq_printf(m, "interrupts %llu\n", interrupts);
	for (i = 0; i < n; i++)
		seq_printf(m, "%s %llu\n", stats[i].name, stats[i].value);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(mdk_stats);

void mdk_debugfs_init(void)
{
	mdk_debugfs = debugfs_create_dir(KBUILD_MODNAME, NULL);
}

void mdk_debugfs_exit(void)
{
	debugfs_remove(mdk_debugfs);
}

/* --- setting up --- */

static const struct block_device_operations mdk_fops = {
	.owner = THIS_MODULE,
};

static int mdk_init_tags(struct mdk_disk *d)
{
	struct blk_mq_tag_set *tags = &d->tags;
	u32 parts = d->ops->parts(&d->set->model);

	tags->ops = &mdk_mq_ops;
	tags->nr_hw_queues = d->set->hw_queues;
	tags->queue_depth = d->set->depth;
	tags->numa_node = NUMA_NO_NODE;
	tags->cmd_size = sizeof(struct mdk_command) +
			 parts * sizeof(struct model_part);
	tags->timeout = msecs_to_jiffies(d->set->timeout_ms);
#ifdef MDK_HAVE_SHOULD_MERGE
	/* Before 6.14 a queue merges only with this flag. Since then all queues merge. */
	tags->flags |= BLK_MQ_F_SHOULD_MERGE;
#endif
	/* The store may sleep when it allocates and copies pages. */
	if (d->set->memory_backed)
		tags->flags |= BLK_MQ_F_BLOCKING;
	return blk_mq_alloc_tag_set(tags);
}

#define MDK_MAX_SECTORS		(MODEL_MAX_BYTES >> SECTOR_SHIFT)
#define MDK_MAX_SEGMENTS	(MODEL_MAX_BYTES / PAGE_SIZE + 1)

#ifdef MDK_HAVE_LIMITS_IN_ALLOC

static struct gendisk *mdk_alloc_disk(struct mdk_disk *d)
{
	struct queue_limits lim = {
		.logical_block_size	= d->set->block_size,
		.max_hw_sectors		= MDK_MAX_SECTORS,
		.max_segments		= MDK_MAX_SEGMENTS,
	};

	if (d->set->profile->rotational)
		lim.features |= BLK_FEAT_ROTATIONAL;
	if (d->ops->volatile_cache(&d->set->model))
		lim.features |= BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA;
	if (d->ops->discards) {
		lim.max_hw_discard_sectors = UINT_MAX;
		lim.discard_granularity = d->set->block_size;
		lim.max_write_zeroes_sectors = UINT_MAX;
	}
	return blk_mq_alloc_disk(&d->tags, &lim, d);
}

#else /* older kernels have a function for each limit */

static struct gendisk *mdk_alloc_disk(struct mdk_disk *d)
{
	struct gendisk *gendisk = blk_mq_alloc_disk(&d->tags, d);
	bool cache = d->ops->volatile_cache(&d->set->model);
	struct request_queue *q;

	if (IS_ERR(gendisk))
		return gendisk;
	q = gendisk->queue;
	blk_queue_logical_block_size(q, d->set->block_size);
	blk_queue_max_hw_sectors(q, MDK_MAX_SECTORS);
	blk_queue_max_segments(q, MDK_MAX_SEGMENTS);
	blk_queue_write_cache(q, cache, cache);
	if (!d->set->profile->rotational)
		blk_queue_flag_set(QUEUE_FLAG_NONROT, q);
	blk_queue_flag_clear(QUEUE_FLAG_ADD_RANDOM, q);
	if (d->ops->discards) {
		q->limits.discard_granularity = d->set->block_size;
		blk_queue_max_discard_sectors(q, UINT_MAX);
		blk_queue_max_write_zeroes_sectors(q, UINT_MAX);
	}
	return gendisk;
}

#endif

static int mdk_init_model(struct mdk_disk *d)
{
	d->model = kvzalloc(d->ops->size, GFP_KERNEL);
	if (!d->model)
		return -ENOMEM;
	d->ops->init(d->model, &d->set->model,
		     (u64)d->set->size << (20 - SECTOR_SHIFT));
	return 0;
}

static int mdk_init_disk(struct mdk_disk *d, const char *name)
{
	struct gendisk *gendisk = mdk_alloc_disk(d);
	int ret;

	if (IS_ERR(gendisk))
		return PTR_ERR(gendisk);

	d->gendisk = gendisk;
	gendisk->fops = &mdk_fops;
	gendisk->private_data = d;
	strscpy(gendisk->disk_name, name, DISK_NAME_LEN);
	set_capacity(gendisk, (sector_t)d->set->size << (20 - SECTOR_SHIFT));
	ret = add_disk(gendisk);
	if (ret)
		put_disk(gendisk);
	return ret;
}

struct mdk_disk *mdk_disk_add(const char *name, const struct mdk_settings *set)
{
	const struct model_ops *ops = set->profile->model;
	const char *wrong = ops->check(&set->model);
	struct mdk_disk *d;
	int ret;

	if (wrong) {
		pr_warn("%s: not powered on: %s\n", name, wrong);
		return ERR_PTR(-EINVAL);
	}

	d = kzalloc(sizeof(*d), GFP_KERNEL);
	if (!d)
		return ERR_PTR(-ENOMEM);
	d->set = set;
	d->ops = ops;
	d->random = set->seed;
	spin_lock_init(&d->lock);
	mdk_timer_init(d);
	mdk_store_init(&d->store);

	ret = mdk_init_model(d);
	if (ret)
		goto free;
	ret = mdk_init_tags(d);
	if (ret)
		goto free_model;
	ret = mdk_init_disk(d, name);
	if (ret)
		goto free_tags;

	d->debugfs = debugfs_create_dir(name, mdk_debugfs);
	debugfs_create_file("stats", 0400, d->debugfs, d, &mdk_stats_fops);
	pr_info("%s: %s, %u MiB, %u hardware queues of %u\n", name,
		set->profile->name, set->size, d->tags.nr_hw_queues, set->depth);
	return d;

free_tags:
	blk_mq_free_tag_set(&d->tags);
free_model:
	kvfree(d->model);
free:
	kfree(d);
	return ERR_PTR(ret);
}

void mdk_disk_del(struct mdk_disk *d)
{
	debugfs_remove(d->debugfs);
	del_gendisk(d->gendisk);
	/* No request is left, but the timer's function may still be running. */
	hrtimer_cancel(&d->timer);
	WARN_ON(d->submitted != d->completed);
	put_disk(d->gendisk);
	blk_mq_free_tag_set(&d->tags);
	mdk_store_free(&d->store);
	kvfree(d->model);
	kfree(d);
}
