// SPDX-License-Identifier: GPL-2.0-only
/*
 * A disk in memory with random delays and faults. The seed of the random numbers decides how
 * long each request takes, and which requests are refused, requeued, failed or stalled.
 * Requests complete in any order, on any CPU, and even before queue_rq() returns.
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/highmem.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/vmalloc.h>

#include "blkdrv.h"
#include "storm.h"

#define STORM_BYTES	SZ_8M
/* A stalled request takes this many times as long as it would otherwise. */
#define STORM_STALL	200

/* The driver's part of a request. */
struct storm_cmd {
	struct hrtimer timer;
	blk_status_t status;
	unsigned long state;
};

/* The bit of storm_cmd.state that says that the command is in the device. */
#define STORM_INSIDE 0

/* For each fault, the requests in a million that have it. A test may change these at any time. */
struct storm_faults {
	u32 error_ppm;
	u32 requeue_ppm;
	u32 refuse_ppm;
	u32 stall_ppm;
};

static struct storm_disk {
	struct blk_mq_tag_set tags;
	struct gendisk *gendisk;
	void *data;
	struct storm_disk_settings set;
	struct storm_faults faults;
	atomic64_t random;
	atomic_t inside;
	atomic64_t served;
	u64 idle_since_ns;	/* the time when a request last left the device */
} disk;

static u64 storm_random(void)
{
	return storm_mix(atomic64_add_return(STORM_STEP, &disk.random));
}

/* Decide at random whether a fault happens, with the frequency @ppm. */
static bool storm_happens(const u32 *ppm)
{
	const u32 wanted = READ_ONCE(*ppm);

	return wanted && storm_random() % 1000000 < wanted;
}

static void storm_copy(struct request *rq)
{
	void *at = disk.data + ((u64)blk_rq_pos(rq) << SECTOR_SHIFT);
	struct req_iterator iter;
	struct bio_vec bv;

	switch (req_op(rq)) {
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		memset(at, 0, blk_rq_bytes(rq));
		break;
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		rq_for_each_segment(bv, rq, iter) {
			if (rq_data_dir(rq) == WRITE)
				memcpy_from_bvec(at, &bv);
			else
				memcpy_to_bvec(&bv, at);
			at += bv.bv_len;
		}
		break;
	default:
		break;
	}
}

static void storm_leave(struct storm_cmd *cmd)
{
	WARN_ON_ONCE(!test_and_clear_bit(STORM_INSIDE, &cmd->state));
	WRITE_ONCE(disk.idle_since_ns, ktime_get_ns());
	atomic_dec(&disk.inside);
}

static void storm_complete_rq(struct request *rq)
{
	struct storm_cmd *cmd = blk_mq_rq_to_pdu(rq);

	storm_yield();
	storm_leave(cmd);
	if (!blk_rq_is_passthrough(rq) && storm_happens(&disk.faults.requeue_ppm)) {
		blk_mq_requeue_request(rq, true);
		return;
	}
	atomic64_inc(&disk.served);
	blk_mq_end_request(rq, cmd->status);
}

static enum hrtimer_restart storm_served(struct hrtimer *timer)
{
	struct storm_cmd *cmd = container_of(timer, struct storm_cmd, timer);

	blk_mq_complete_request(blk_mq_rq_from_pdu(cmd));
	return HRTIMER_NORESTART;
}

static blk_status_t storm_queue_rq(struct blk_mq_hw_ctx *hctx,
				   const struct blk_mq_queue_data *bd)
{
	struct request *rq = bd->rq;
	struct storm_cmd *cmd = blk_mq_rq_to_pdu(rq);
	u64 ns = disk.set.service_us * NSEC_PER_USEC;

	storm_yield();
	if (storm_happens(&disk.faults.refuse_ppm))
		return BLK_STS_RESOURCE;

	/* A scheduler with a bug may dispatch a request that is in the device already. */
	WARN_ON_ONCE(test_and_set_bit(STORM_INSIDE, &cmd->state));
	atomic_inc(&disk.inside);
	blk_mq_start_request(rq);
	cmd->status = BLK_STS_OK;
	if (storm_happens(&disk.faults.error_ppm))
		cmd->status = BLK_STS_IOERR;
	else
		storm_copy(rq);

	if (!ns) {
		blk_mq_complete_request(rq);
		return BLK_STS_OK;
	}
	ns = ns / 2 + storm_random() % ns;
	if (storm_happens(&disk.faults.stall_ppm))
		ns *= STORM_STALL;
	hrtimer_start(&cmd->timer, ns_to_ktime(ns), HRTIMER_MODE_REL);
	return BLK_STS_OK;
}

static enum blk_eh_timer_return storm_timeout(struct request *rq)
{
	return BLK_EH_RESET_TIMER;
}

static int storm_init_request(struct blk_mq_tag_set *set, struct request *rq,
			      unsigned int hctx_idx, blkdrv_node_t numa_node)
{
	struct storm_cmd *cmd = blk_mq_rq_to_pdu(rq);

	hrtimer_setup(&cmd->timer, storm_served, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	return 0;
}

static const struct blk_mq_ops storm_mq_ops = {
	.queue_rq	= storm_queue_rq,
	.complete	= storm_complete_rq,
	.timeout	= storm_timeout,
	.init_request	= storm_init_request,
};

static const struct block_device_operations storm_fops = {
	.owner	= THIS_MODULE,
};

/* --- disturbances --- */

/* Freeze the queue for @us, as a change of its settings does. */
void storm_disk_freeze(unsigned int us)
{
	const unsigned int flags = blkdrv_freeze(disk.gendisk->queue);

	fsleep(us);
	blkdrv_unfreeze(disk.gendisk->queue, flags);
}

/* Stop the queue for @us, as a driver does during a reset. */
void storm_disk_quiesce(unsigned int us)
{
	blk_mq_quiesce_queue(disk.gendisk->queue);
	fsleep(us);
	blk_mq_unquiesce_queue(disk.gendisk->queue);
}

/*
 * Send the device a passthrough command, which the block layer does not give to the scheduler.
 * Wait until it completes.
 */
int storm_disk_passthrough(bool at_head)
{
	struct request *rq = blk_mq_alloc_request(disk.gendisk->queue, REQ_OP_DRV_IN, 0);
	blk_status_t status;

	if (IS_ERR(rq))
		return PTR_ERR(rq);
	status = blk_execute_rq(rq, at_head);
	blk_mq_free_request(rq);
	return blk_status_to_errno(status);
}

/*
 * Show one "name value" a line: the number of requests in the device, the number served so far,
 * and for how long the device has been idle, in ms.
 */
void storm_disk_show(struct seq_file *m)
{
	const u64 since = READ_ONCE(disk.idle_since_ns);
	const int inside = atomic_read(&disk.inside);

	seq_printf(m, "inside %d\nserved %lld\nidle_ms %llu\n", inside,
		   atomic64_read(&disk.served),
		   inside ? 0 : (ktime_get_ns() - since) / NSEC_PER_MSEC);
}

/* --- setting up --- */

static struct gendisk *storm_alloc_disk(void)
{
	const struct blkdrv_limits limits = {
		.max_hw_sectors	= SZ_256K >> SECTOR_SHIFT,
		.discards	= true,
		.write_cache	= true,
		.rotational	= disk.set.rotational,
	};

	return blkdrv_alloc_disk(&disk.tags, &limits);
}

static int storm_add_disk(void)
{
	struct gendisk *gendisk = storm_alloc_disk();
	int ret;

	if (IS_ERR(gendisk))
		return PTR_ERR(gendisk);
	disk.gendisk = gendisk;
	gendisk->fops = &storm_fops;
	gendisk->flags |= GENHD_FL_NO_PART;
	strscpy(gendisk->disk_name, "storm0", DISK_NAME_LEN);
	set_capacity(gendisk, STORM_BYTES >> SECTOR_SHIFT);
	ret = add_disk(gendisk);
	if (ret)
		put_disk(gendisk);
	return ret;
}

int storm_disk_init(u64 seed, const struct storm_disk_settings *set, struct dentry *debugfs)
{
	int ret = -ENOMEM;

	disk.set = *set;
	atomic64_set(&disk.random, seed);
	disk.idle_since_ns = ktime_get_ns();
	disk.data = vzalloc(STORM_BYTES);
	if (!disk.data)
		return ret;

	disk.tags.ops = &storm_mq_ops;
	disk.tags.nr_hw_queues = set->hw_queues ?: num_possible_cpus();
	disk.tags.queue_depth = set->depth;
	disk.tags.numa_node = NUMA_NO_NODE;
	disk.tags.cmd_size = sizeof(struct storm_cmd);
	disk.tags.flags = BLKDRV_F_MERGE;
	ret = blk_mq_alloc_tag_set(&disk.tags);
	if (ret)
		goto free_data;
	ret = storm_add_disk();
	if (ret)
		goto free_tags;

	debugfs_create_u32("error_ppm", 0600, debugfs, &disk.faults.error_ppm);
	debugfs_create_u32("requeue_ppm", 0600, debugfs, &disk.faults.requeue_ppm);
	debugfs_create_u32("refuse_ppm", 0600, debugfs, &disk.faults.refuse_ppm);
	debugfs_create_u32("stall_ppm", 0600, debugfs, &disk.faults.stall_ppm);
	return 0;

free_tags:
	blk_mq_free_tag_set(&disk.tags);
free_data:
	vfree(disk.data);
	return ret;
}

void storm_disk_exit(void)
{
	del_gendisk(disk.gendisk);
	WARN_ON(atomic_read(&disk.inside));
	put_disk(disk.gendisk);
	blk_mq_free_tag_set(&disk.tags);
	vfree(disk.data);
}
