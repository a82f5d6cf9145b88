// SPDX-License-Identifier: GPL-2.0-only
/*
 * The data of a memory-backed device: a page of memory for each written page.
 *
 * Requests that copy data hold mdk_store.sem for reading, so they may run at the same time. This
 * holds even if their sectors overlap: a device may serve them in any order. A request that erases
 * data frees pages. It holds the semaphore for writing, so no other request uses these pages.
 */
#include <linux/highmem.h>
#include <linux/sched.h>

#include "modeldisk.h"

void mdk_store_init(struct mdk_store *store)
{
	xa_init(&store->pages);
	init_rwsem(&store->sem);
}

void mdk_store_free(struct mdk_store *store)
{
	struct page *page;
	unsigned long index;

	xa_for_each(&store->pages, index, page) {
		__free_page(page);
		cond_resched();
	}
	xa_destroy(&store->pages);
}

/* Return the page at @index. Allocate it if there is none. Return NULL if memory is short. */
static struct page *store_make_page(struct mdk_store *store, pgoff_t index)
{
	struct page *page = xa_load(&store->pages, index);
	struct page *other;

	if (page)
		return page;
	/* No I/O for this allocation: reclaim might write to this very device and wait for it. */
	page = alloc_page(GFP_NOIO | __GFP_ZERO);
	if (!page)
		return NULL;
	other = xa_cmpxchg(&store->pages, index, NULL, page, GFP_NOIO);
	if (!other)
		return page;
	__free_page(page);
	return xa_is_err(other) ? NULL : other;
}

static blk_status_t store_copy(struct mdk_store *store, bool write, loff_t pos,
			       const struct bio_vec *bv)
{
	unsigned int offset = offset_in_page(pos);
	unsigned int done, len;
	struct page *page;

	for (done = 0; done < bv->bv_len; done += len, offset = 0) {
		pgoff_t index = (pos + done) >> PAGE_SHIFT;

		len = min_t(unsigned int, bv->bv_len - done, PAGE_SIZE - offset);
		if (write) {
			page = store_make_page(store, index);
			if (!page)
				return BLK_STS_NOSPC;
			memcpy_page(page, offset, bv->bv_page,
				    bv->bv_offset + done, len);
			continue;
		}
		page = xa_load(&store->pages, index);
		if (page)
			memcpy_page(bv->bv_page, bv->bv_offset + done, page,
				    offset, len);
		else
			memzero_page(bv->bv_page, bv->bv_offset + done, len);
	}
	return BLK_STS_OK;
}

static blk_status_t store_copy_all(struct mdk_store *store, struct request *rq)
{
	loff_t pos = (loff_t)blk_rq_pos(rq) << SECTOR_SHIFT;
	blk_status_t status = BLK_STS_OK;
	struct req_iterator iter;
	struct bio_vec bv;

	down_read(&store->sem);
	rq_for_each_segment(bv, rq, iter) {
		status = store_copy(store, rq_data_dir(rq) == WRITE, pos, &bv);
		if (status)
			break;
		pos += bv.bv_len;
	}
	up_read(&store->sem);
	return status;
}

/* Free the pages from @pos to @end, and zero the parts of pages at both ends. */
static void store_erase(struct mdk_store *store, loff_t pos, loff_t end)
{
	unsigned long index;
	struct page *page;

	down_write(&store->sem);
	xa_for_each_range(&store->pages, index, page, pos >> PAGE_SHIFT,
			  (end - 1) >> PAGE_SHIFT) {
		loff_t start = (loff_t)index << PAGE_SHIFT;
		loff_t from = max(pos, start);
		loff_t to = min_t(loff_t, end, start + PAGE_SIZE);

		if (to - from < PAGE_SIZE) {
			memzero_page(page, from - start, to - from);
			continue;
		}
		xa_erase(&store->pages, index);
		__free_page(page);
	}
	up_write(&store->sem);
}

blk_status_t mdk_store_transfer(struct mdk_store *store, struct request *rq)
{
	loff_t pos = (loff_t)blk_rq_pos(rq) << SECTOR_SHIFT;

	switch (req_op(rq)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		return store_copy_all(store, rq);
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		store_erase(store, pos, pos + blk_rq_bytes(rq));
		return BLK_STS_OK;
	default:
		return BLK_STS_OK;
	}
}
