/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interfaces between the driver's parts: configfs.c sets devices up, queue.c serves their
 * requests, store.c keeps their data.
 */
#ifndef MODELDISK_H
#define MODELDISK_H

#include <linux/blk-mq.h>
#include <linux/rwsem.h>
#include <linux/xarray.h>

#include "model.h"

#undef pr_fmt
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

/* A setting with this flag may change while the device is on. */
#define SETTING_LIVE	0x8

/*
 * struct mdk_settings - all settings of a device
 *
 * The numbers' bounds are in settings.h and model-params.h.
 */
struct mdk_settings {
	/* the profile: the source of values that the user has not written */
	const struct model_profile *profile;
	struct model_params model;
	/* MiB; 64 TiB at most */
	u32 size;
	u32 hw_queues;
	/* tags of each hardware queue */
	u32 depth;
	/* logical block size, bytes */
	u32 block_size;
	/* 1: keep written data for reads */
	u32 memory_backed;
	/* keep data only for requests that begin in the first kept_mib MiB; 0: for all */
	u32 kept_mib;
	/* time after which the block layer ends a stalled request with an error */
	u32 timeout_ms;
	/* seed of the random numbers that decide on the faults below */
	u32 seed;
	/* requests in a million that fail */
	u32 error_ppm;
	/* requests in a million that end only by the timeout */
	u32 stall_ppm;
	/*
	 * requests in a million that the driver refuses with BLK_STS_RESOURCE, so that blk-mq tries
	 * again; below a million, because some must pass
	 */
	u32 resource_ppm;
};

/* A device that is on. */
struct mdk_disk;

/**
 * mdk_disk_add - power on
 * @name: name of the disk, /dev/@name
 * @set: its settings. They must exist until mdk_disk_del(). Until then only settings with
 *	SETTING_LIVE may change
 *
 * Returns the device, or an ERR_PTR(). If the settings do not fit together, the kernel log says
 * why.
 */
struct mdk_disk *mdk_disk_add(const char *name, const struct mdk_settings *set);

/* mdk_disk_del - wait until every request has completed or timed out, then power off */
void mdk_disk_del(struct mdk_disk *disk);

/* mdk_debugfs_init, mdk_debugfs_exit - make and remove modeldisk's folder in debugfs */
void mdk_debugfs_init(void);
void mdk_debugfs_exit(void);

/**
 * struct mdk_store - the data of a memory-backed device
 * @pages: a page of memory for each written page of the device; other pages read as zeros
 * @sem: held for reading to use pages, for writing to free them
 */
struct mdk_store {
	struct xarray pages;
	struct rw_semaphore sem;
};

void mdk_store_init(struct mdk_store *store);
void mdk_store_free(struct mdk_store *store);

/* mdk_store_transfer - copy or erase the data of @rq; may sleep */
blk_status_t mdk_store_transfer(struct mdk_store *store, struct request *rq);

#endif /* MODELDISK_H */
