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

/* The type of the NUMA node, init_request()'s last argument. Since 7.0 it is signed. */
#ifdef IOSCHED_NODE_IS_UNSIGNED
typedef unsigned int blkdrv_node_t;
#else
typedef int blkdrv_node_t;
#endif

/* The flag that lets a tag set's requests merge. Since 6.14 all requests may, without a flag. */
#ifdef IOSCHED_HAS_SHOULD_MERGE
#define BLKDRV_F_MERGE BLK_MQ_F_SHOULD_MERGE
#else
#define BLKDRV_F_MERGE 0
#endif

/**
 * struct blkdrv_limits - the limits and features of a disk
 * @max_hw_sectors: the largest request, in sectors; 0: the core's default
 * @discards: the disk takes discards and writes of zeroes, of any size
 * @write_cache: the disk has a volatile cache, and takes flushes and FUA
 * @rotational: the disk rotates
 */
struct blkdrv_limits {
	unsigned int max_hw_sectors;
	bool discards;
	bool write_cache;
	bool rotational;
};

/*
 * blkdrv_alloc_disk() - allocate a disk with these limits
 *
 * Since 6.9 blk_mq_alloc_disk() takes limits. Since 6.11 the limits also say whether a disk
 * has a cache, and whether it rotates. Until 6.8 the driver sets all this in the queue. This
 * header does not support 6.9 and 6.10.
 *
 * Return: the disk, or an ERR_PTR()
 */
#ifdef IOSCHED_HAS_LIMITS_IN_ALLOC
static inline struct gendisk *blkdrv_alloc_disk(struct blk_mq_tag_set *set,
						const struct blkdrv_limits *limits)
{
	struct queue_limits lim = { .max_hw_sectors = limits->max_hw_sectors };

	if (limits->discards) {
		lim.max_hw_discard_sectors = UINT_MAX;
		lim.discard_granularity = SECTOR_SIZE;
		lim.max_write_zeroes_sectors = UINT_MAX;
	}
	if (limits->write_cache)
		lim.features |= BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA;
	if (limits->rotational)
		lim.features |= BLK_FEAT_ROTATIONAL;
	return blk_mq_alloc_disk(set, &lim, NULL);
}
#else
static inline struct gendisk *blkdrv_alloc_disk(struct blk_mq_tag_set *set,
						const struct blkdrv_limits *limits)
{
	struct gendisk *disk = blk_mq_alloc_disk(set, NULL);
	struct request_queue *q;

	if (IS_ERR(disk))
		return disk;
	q = disk->queue;
	if (limits->max_hw_sectors)
		blk_queue_max_hw_sectors(q, limits->max_hw_sectors);
	if (limits->discards) {
		q->limits.discard_granularity = SECTOR_SIZE;
		blk_queue_max_discard_sectors(q, UINT_MAX);
		blk_queue_max_write_zeroes_sectors(q, UINT_MAX);
	}
	blk_queue_write_cache(q, limits->write_cache, limits->write_cache);
	if (!limits->rotational)
		blk_queue_flag_set(QUEUE_FLAG_NONROT, q);
	return disk;
}
#endif

/*
 * Since 6.14 blk_mq_freeze_queue() returns flags, and the caller passes them to
 * blk_mq_unfreeze_queue().
 */
#ifdef IOSCHED_FREEZE_HAS_FLAGS
#define blkdrv_freeze(q) blk_mq_freeze_queue(q)
#define blkdrv_unfreeze(q, flags) blk_mq_unfreeze_queue(q, flags)
#else
static inline unsigned int blkdrv_freeze(struct request_queue *q)
{
	blk_mq_freeze_queue(q);
	return 0;
}

static inline void blkdrv_unfreeze(struct request_queue *q, unsigned int flags)
{
	blk_mq_unfreeze_queue(q);
}
#endif

#endif
