// SPDX-License-Identifier: GPL-2.0-only
/*
 * gatedisk - a block device with a gate. It shows the order in which the I/O scheduler
 * dispatches requests.
 *
 * A test shuts the gate, submits requests, and opens the gate. While the gate is shut, the
 * scheduler holds all of these requests as a backlog. Once the gate opens, the log shows the
 * order in which the scheduler dispatches them.
 *
 * Budgets (get_budget()) make the backlog exact. The blk-mq core asks a scheduler for a request
 * only when the driver has given it a budget, and gatedisk gives none while the gate is shut.
 * Without budgets, the core would take one request more from the scheduler than there are tags.
 *
 * The disk is for tests only: it neither stores nor returns data.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blk-mq.h>
#include <linux/debugfs.h>
#include <linux/ioprio.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include "blkdrv.h"

/* The number of requests that the log holds: more than the backlog of any test. */
#define GD_LOG_ENTRIES	4096

static unsigned int depth = 1;
module_param(depth, uint, 0444);
MODULE_PARM_DESC(depth, "Requests the device takes at once, 1 to 1024. Default: 1");

static unsigned int hw_queues = 1;
module_param(hw_queues, uint, 0444);
MODULE_PARM_DESC(hw_queues, "Hardware queues. Default: 1");

static unsigned int size_mb = 1024;
module_param(size_mb, uint, 0444);
MODULE_PARM_DESC(size_mb, "Size of the device in MiB. Default: 1024");

/**
 * enum gd_gate - the states of the gate
 * @GD_OPEN: the device takes requests and completes each after the service time
 * @GD_HOLD: the device takes requests, up to its depth, and completes none by itself
 * @GD_SHUT: the device takes none; the core does not ask the scheduler for any
 */
enum gd_gate { GD_OPEN, GD_HOLD, GD_SHUT };

static const char * const gd_gate_names[] = {
	[GD_OPEN] = "open",
	[GD_HOLD] = "hold",
	[GD_SHUT] = "shut",
};

/* A request as the device received it */
struct gd_log_entry {
	u64 time_ns;
	sector_t sector;
	unsigned int bytes;
	unsigned int tag;
	enum req_op op;
	unsigned short ioprio;
};

/* The driver's data for a request */
struct gd_cmd {
	struct hrtimer timer;		/* runs while the request is served */
	struct list_head held;		/* in gatedisk.held while the device holds the request */
};

/**
 * struct gatedisk - the module's only device
 * @set: the tags; each hardware queue has as many as the module parameter depth says
 * @disk: the disk
 * @debugfs: the folder of the control files
 * @service_ns: the time that serving a request takes
 * @in_flight: the number of budgets in use, at most depth
 * @lock: gd_queue_rq() and the control files take it, in process context only
 * @gate: written with @lock held, read by gd_get_budget() and gd_gate_show() without it
 * @held: the requests that the device holds, oldest first
 * @nr_held: the length of @held; written with @lock held, read by gd_held_get() without it
 * @nr_logged: the number of requests logged since the log was cleared
 */
struct gatedisk {
	struct blk_mq_tag_set set;
	struct gendisk *disk;
	struct dentry *debugfs;
	u64 service_ns;
	atomic_t in_flight;

	spinlock_t lock;	/* guards all members below */
	enum gd_gate gate;
	struct list_head held;
	unsigned int nr_held;
	u64 nr_logged;
};

static struct gatedisk gd = {
	.lock = __SPIN_LOCK_UNLOCKED(gd.lock),
	.held = LIST_HEAD_INIT(gd.held),
};

/* The log: request number n is at index n modulo GD_LOG_ENTRIES. gd.lock guards it. */
static struct gd_log_entry gd_log[GD_LOG_ENTRIES];

/* Service */

/*
 * End a request. Free its tag before its budget, so that a dispatcher that gets the budget also
 * finds a tag. A dispatcher that got no budget does not retry, so run the hardware queues.
 * The request's reference to the queue ends with the request, so take another one.
 */
static void gd_complete_rq(struct request *rq)
{
	struct request_queue *q = rq->q;

	percpu_ref_get(&q->q_usage_counter);
	blk_mq_end_request(rq, BLK_STS_OK);
	atomic_dec(&gd.in_flight);
	blk_mq_run_hw_queues(q, true);
	percpu_ref_put(&q->q_usage_counter);
}

static enum hrtimer_restart gd_timer_fn(struct hrtimer *timer)
{
	struct gd_cmd *cmd = container_of(timer, struct gd_cmd, timer);

	blk_mq_complete_request(blk_mq_rq_from_pdu(cmd));
	return HRTIMER_NORESTART;
}

static void gd_serve(struct request *rq)
{
	struct gd_cmd *cmd = blk_mq_rq_to_pdu(rq);
	u64 service_ns = READ_ONCE(gd.service_ns);

	if (service_ns)
		hrtimer_start(&cmd->timer, ns_to_ktime(service_ns),
			      HRTIMER_MODE_REL);
	else
		blk_mq_complete_request(rq);
}

static void gd_log_rq(struct request *rq)
{
	struct gd_log_entry *entry = &gd_log[gd.nr_logged++ % GD_LOG_ENTRIES];

	lockdep_assert_held(&gd.lock);

	entry->time_ns = ktime_get_ns();
	entry->sector = blk_rq_pos(rq);
	entry->bytes = blk_rq_bytes(rq);
	entry->tag = rq->tag;
	entry->op = req_op(rq);
	entry->ioprio = req_get_ioprio(rq);
}

/* The core calls this with a request for which it has taken a budget. */
static blk_status_t gd_queue_rq(struct blk_mq_hw_ctx *hctx,
				const struct blk_mq_queue_data *bd)
{
	struct gd_cmd *cmd = blk_mq_rq_to_pdu(bd->rq);
	bool hold;

	blk_mq_start_request(bd->rq);

	spin_lock(&gd.lock);
	gd_log_rq(bd->rq);
	hold = gd.gate != GD_OPEN;
	if (hold) {
		list_add_tail(&cmd->held, &gd.held);
		gd.nr_held++;
	}
	spin_unlock(&gd.lock);

	if (!hold)
		gd_serve(bd->rq);
	return BLK_STS_OK;
}

/*
 * The core calls this to take a budget before it asks the scheduler for a request. All
 * hardware queues together have @depth budgets. Return 0, or -1 if there is none.
 */
static int gd_get_budget(struct request_queue *q)
{
	if (READ_ONCE(gd.gate) == GD_SHUT)
		return -1;
	return atomic_add_unless(&gd.in_flight, 1, depth) ? 0 : -1;
}

/* The core calls this to return a budget that it has not used. */
static void gd_put_budget(struct request_queue *q, int token)
{
	atomic_dec(&gd.in_flight);
}

/* A test may hold a request as long as it likes, so no request times out. */
static enum blk_eh_timer_return gd_timeout(struct request *rq)
{
	return BLK_EH_RESET_TIMER;
}

static int gd_init_request(struct blk_mq_tag_set *set, struct request *rq,
			   unsigned int hctx_idx, blkdrv_node_t numa_node)
{
	struct gd_cmd *cmd = blk_mq_rq_to_pdu(rq);

	hrtimer_setup(&cmd->timer, gd_timer_fn, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL);
	return 0;
}

static const struct blk_mq_ops gd_mq_ops = {
	.queue_rq	= gd_queue_rq,
	.complete	= gd_complete_rq,
	.timeout	= gd_timeout,
	.get_budget	= gd_get_budget,
	.put_budget	= gd_put_budget,
	.init_request	= gd_init_request,
};

/* The gate and the requests behind it */

/* Move up to @max held requests, oldest first, to the end of @list. */
static void gd_take_held(struct list_head *list, unsigned int max)
{
	lockdep_assert_held(&gd.lock);

	for (; max && gd.nr_held; max--, gd.nr_held--)
		list_move_tail(gd.held.next, list);
}

static void gd_set_gate(enum gd_gate gate)
{
	struct gd_cmd *cmd, *next;
	LIST_HEAD(list);

	spin_lock(&gd.lock);
	WRITE_ONCE(gd.gate, gate);
	if (gate == GD_OPEN)
		gd_take_held(&list, UINT_MAX);
	spin_unlock(&gd.lock);

	list_for_each_entry_safe(cmd, next, &list, held)
		gd_serve(blk_mq_rq_from_pdu(cmd));
	if (gate != GD_SHUT)
		blk_mq_run_hw_queues(gd.disk->queue, true);
}

/* Complete up to @max held requests, oldest first. */
static void gd_release(unsigned int max)
{
	struct gd_cmd *cmd, *next;
	LIST_HEAD(list);

	spin_lock(&gd.lock);
	gd_take_held(&list, max);
	spin_unlock(&gd.lock);

	list_for_each_entry_safe(cmd, next, &list, held)
		blk_mq_complete_request(blk_mq_rq_from_pdu(cmd));
}

/*
 * Give all held requests back to the core, oldest first. The core inserts each at the
 * head of the scheduler's queue. If the core inserts several at once, their order depends on
 * the kernel's version. So wait until it has inserted one before giving back the next.
 */
static void gd_requeue(void)
{
	struct request_queue *q = gd.disk->queue;
	struct gd_cmd *cmd, *next;
	LIST_HEAD(list);

	spin_lock(&gd.lock);
	gd_take_held(&list, UINT_MAX);
	spin_unlock(&gd.lock);

	list_for_each_entry_safe(cmd, next, &list, held) {
		blk_mq_requeue_request(blk_mq_rq_from_pdu(cmd), true);
		atomic_dec(&gd.in_flight);
		flush_delayed_work(&q->requeue_work);
	}
}

/* Control files */

static int gd_gate_show(struct seq_file *m, void *v)
{
	seq_printf(m, "%s\n", gd_gate_names[READ_ONCE(gd.gate)]);
	return 0;
}

static ssize_t gd_gate_write(struct file *file, const char __user *ubuf,
			     size_t count, loff_t *ppos)
{
	char word[8];
	int gate;

	if (count >= sizeof(word))
		return -EINVAL;
	if (copy_from_user(word, ubuf, count))
		return -EFAULT;
	word[count] = '\0';

	gate = sysfs_match_string(gd_gate_names, word);
	if (gate < 0)
		return gate;
	gd_set_gate(gate);
	return count;
}

static int gd_gate_open(struct inode *inode, struct file *file)
{
	return single_open(file, gd_gate_show, NULL);
}

static const struct file_operations gd_gate_fops = {
	.owner		= THIS_MODULE,
	.open		= gd_gate_open,
	.read		= seq_read,
	.write		= gd_gate_write,
	.llseek		= seq_lseek,
	.release	= single_release,
};

static int gd_release_set(void *data, u64 max)
{
	gd_release(min_t(u64, max, UINT_MAX));
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(gd_release_fops, NULL, gd_release_set, "%llu\n");

static int gd_requeue_set(void *data, u64 ignored)
{
	gd_requeue();
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(gd_requeue_fops, NULL, gd_requeue_set, "%llu\n");

static int gd_held_get(void *data, u64 *held)
{
	*held = READ_ONCE(gd.nr_held);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(gd_held_fops, gd_held_get, NULL, "%llu\n");

static const char *gd_op_name(enum req_op op)
{
	switch (op) {
	case REQ_OP_READ:	return "read";
	case REQ_OP_WRITE:	return "write";
	case REQ_OP_FLUSH:	return "flush";
	case REQ_OP_DISCARD:	return "discard";
	default:		return "other";
	}
}

static const char *gd_class_name(unsigned short ioprio)
{
	switch (IOPRIO_PRIO_CLASS(ioprio)) {
	case IOPRIO_CLASS_RT:	return "rt";
	case IOPRIO_CLASS_BE:	return "be";
	case IOPRIO_CLASS_IDLE:	return "idle";
	default:		return "none";
	}
}

/*
 * Return the log's entry for request number *@pos, or NULL if that request has not come yet.
 * If the log has dropped the request, first set *@pos to the oldest request that the log has.
 */
static void *gd_log_at(loff_t *pos)
{
	u64 oldest = 0;

	lockdep_assert_held(&gd.lock);

	if (gd.nr_logged > GD_LOG_ENTRIES)
		oldest = gd.nr_logged - GD_LOG_ENTRIES;
	*pos = max_t(u64, *pos, oldest);
	if (*pos >= gd.nr_logged)
		return NULL;
	return &gd_log[*pos % GD_LOG_ENTRIES];
}

static void *gd_log_start(struct seq_file *m, loff_t *pos)
	__acquires(&gd.lock)
{
	spin_lock(&gd.lock);
	return gd_log_at(pos);
}

static void *gd_log_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return gd_log_at(pos);
}

static void gd_log_stop(struct seq_file *m, void *v)
	__releases(&gd.lock)
{
	spin_unlock(&gd.lock);
}

static int gd_log_show(struct seq_file *m, void *v)
{
	const struct gd_log_entry *entry = v;

	seq_printf(m, "%llu %llu %s %llu %u %s %u %u\n", (u64)m->index,
		   entry->time_ns, gd_op_name(entry->op), (u64)entry->sector,
		   entry->bytes, gd_class_name(entry->ioprio),
		   entry->ioprio & (IOPRIO_NR_LEVELS - 1), entry->tag);
	return 0;
}

static const struct seq_operations gd_log_seq_ops = {
	.start	= gd_log_start,
	.next	= gd_log_next,
	.stop	= gd_log_stop,
	.show	= gd_log_show,
};

static int gd_log_open(struct inode *inode, struct file *file)
{
	return seq_open(file, &gd_log_seq_ops);
}

/* Clear the log, whatever the user writes. */
static ssize_t gd_log_write(struct file *file, const char __user *ubuf,
			    size_t count, loff_t *ppos)
{
	spin_lock(&gd.lock);
	gd.nr_logged = 0;
	spin_unlock(&gd.lock);
	return count;
}

static const struct file_operations gd_log_fops = {
	.owner		= THIS_MODULE,
	.open		= gd_log_open,
	.read		= seq_read,
	.write		= gd_log_write,
	.llseek		= seq_lseek,
	.release	= seq_release,
};

static void gd_create_control_files(void)
{
	gd.debugfs = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("gate", 0600, gd.debugfs, NULL, &gd_gate_fops);
	debugfs_create_file("release", 0200, gd.debugfs, NULL,
			    &gd_release_fops);
	debugfs_create_file("requeue", 0200, gd.debugfs, NULL,
			    &gd_requeue_fops);
	debugfs_create_file("held", 0400, gd.debugfs, NULL, &gd_held_fops);
	debugfs_create_file("log", 0600, gd.debugfs, NULL, &gd_log_fops);
	debugfs_create_u64("service_ns", 0600, gd.debugfs, &gd.service_ns);
}

/* The device */

static const struct block_device_operations gd_fops = {
	.owner	= THIS_MODULE,
};

static struct gendisk *gd_alloc_disk(void)
{
	struct gendisk *disk;

	disk = blkdrv_alloc_disk(&gd.set, &(struct blkdrv_limits){});
	if (IS_ERR(disk))
		return disk;

	strscpy(disk->disk_name, KBUILD_MODNAME "0", DISK_NAME_LEN);
	disk->fops = &gd_fops;
	/* A scan for partitions would add its own reads to the log. */
	disk->flags |= GENHD_FL_NO_PART;
	set_capacity(disk, (sector_t)size_mb << (20 - SECTOR_SHIFT));
	return disk;
}

static int __init gd_init(void)
{
	int ret;

	if (!depth || depth > 1024 || !hw_queues || !size_mb)
		return -EINVAL;

	gd.set.ops = &gd_mq_ops;
	gd.set.nr_hw_queues = hw_queues;
	gd.set.queue_depth = depth;
	gd.set.numa_node = NUMA_NO_NODE;
	gd.set.cmd_size = sizeof(struct gd_cmd);
	gd.set.flags = BLKDRV_F_MERGE;
	ret = blk_mq_alloc_tag_set(&gd.set);
	if (ret)
		return ret;

	gd.disk = gd_alloc_disk();
	if (IS_ERR(gd.disk)) {
		ret = PTR_ERR(gd.disk);
		goto free_tags;
	}
	ret = add_disk(gd.disk);
	if (ret)
		goto put_disk;

	gd_create_control_files();
	return 0;

put_disk:
	put_disk(gd.disk);
free_tags:
	blk_mq_free_tag_set(&gd.set);
	return ret;
}

/*
 * del_gendisk() waits for all requests, so first open the gate: the device then serves the
 * requests that it holds. Before that, remove the control files, with which a user could shut
 * the gate again.
 */
static void __exit gd_exit(void)
{
	debugfs_remove_recursive(gd.debugfs);
	gd_set_gate(GD_OPEN);
	del_gendisk(gd.disk);
	put_disk(gd.disk);
	blk_mq_free_tag_set(&gd.set);
}

module_init(gd_init);
module_exit(gd_exit);

MODULE_AUTHOR("The Triage authors");
MODULE_DESCRIPTION("Block device with a gate, for testing I/O schedulers");
MODULE_LICENSE("GPL");
