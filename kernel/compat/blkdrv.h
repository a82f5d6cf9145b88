/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The header that a block driver includes after <linux/...>. It hides the differences
 * between kernel versions. Each block below names the change that it covers. Remove a
 * block when no kernel from before that change is supported.
 */
#ifndef BLKDRV_H
#define BLKDRV_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>

#include "features.h"
#include "timers.h"

/* The last argument of init_request(), the NUMA node: signed since 7.0. */
#ifdef IOSCHED_NODE_IS_UNSIGNED
typedef unsigned int blkdrv_node_t;
#else
typedef int blkdrv_node_t;
#endif

/* The flag of a tag set whose requests may be merged. Since 6.14 all may, without a flag. */
#ifdef IOSCHED_HAS_SHOULD_MERGE
#define BLKDRV_F_MERGE BLK_MQ_F_SHOULD_MERGE
#else
#define BLKDRV_F_MERGE 0
#endif

/*
 * blkdrv_alloc_disk() - allocate a disk with the core's default limits, not rotational
 *
 * Since 6.9 blk_mq_alloc_disk() takes limits, and since 6.11 a disk is rotational only
 * if these say so. Until then a flag of the queue said that it is not.
 *
 * Return: the disk, or an ERR_PTR()
 */
#ifdef IOSCHED_HAS_LIMITS_IN_ALLOC
#define blkdrv_alloc_queue(set) blk_mq_alloc_disk(set, NULL, NULL)
#else
#define blkdrv_alloc_queue(set) blk_mq_alloc_disk(set, NULL)
#endif

static inline struct gendisk *blkdrv_alloc_disk(struct blk_mq_tag_set *set)
{
	struct gendisk *disk = blkdrv_alloc_queue(set);

#ifdef QUEUE_FLAG_NONROT
	if (!IS_ERR(disk))
		blk_queue_flag_set(QUEUE_FLAG_NONROT, disk->queue);
#endif
	return disk;
}

#endif
