// SPDX-License-Identifier: GPL-2.0-only
/*
 * A model of a hard disk: one arm, a turning platter, an internal queue served
 * nearest-first, a read-ahead cache and an optional write cache.
 *
 * The medium is a sequence of tracks, from the outside in. Zones divide it: all
 * have the same number of tracks. A track holds the data of one turn at its
 * zone's transfer rate. That rate is a sustained one, so crossing to the next
 * track takes no time. The time gives the platter's position: sector 0 of every
 * track passes the head when the time is a multiple of one turn.
 *
 * A request on the medium takes a seek, the wait for its first sector and its
 * transfer. The command completes cmd_ns later, while the arm already makes its
 * next move. After a read the head reads ahead, up to readahead_kib, until the arm
 * is needed.
 */
#include "model.h"

#define HDD_ZONES	16

/* The most requests that wait for the arm. This bounds the search for the nearest. */
#define HDD_MAX_QUEUE	256

/*
 * The write cache holds runs of consecutive sectors: at most HDD_MAX_DIRTY, besides the one
 * that the arm writes. A write that would make a run longer than HDD_DIRTY_SECTORS begins a
 * new run.
 */
#define HDD_MAX_DIRTY	64
#define HDD_DIRTY_SECTORS	2048

#define HDD_NO_SEGMENT	U32_MAX

/* A run of consecutive sectors: a segment of the read cache, or a part of the write cache. */
struct hdd_run {
	u64 start;
	u64 end;	/* the sector after the run */
	/*
	 * in the read cache, the number of the segment's latest read from the medium; in the write
	 * cache, the number of the run, in order of creation
	 */
	u64 order;
};

struct hdd {
	struct model_params p;
	u64 turn_ns;
	u64 sectors;
	u64 tracks;
	u64 zone_tracks;
	u64 zone_start[HDD_ZONES + 1];	/* first sector of each zone */
	u32 zone_spt[HDD_ZONES];	/* sectors of one track of each zone */
	u64 knee;			/* see seek_time(): a share of all tracks, in 2^-32 */
	u64 knee_sqrt;			/* square root of the knee, in 2^-32 */
	u64 write_cache_sectors;
	u64 readahead_sectors;

	struct io_fifo arrivals;	/* commands without a slot yet */
	struct io_fifo waiting;		/* writes that wait for room in the cache */
	struct io_fifo flushing;	/* flushes that wait for the cache to be written */
	struct model_io *leaving;	/* commands that complete at event_ns, sorted by it */
	u32 slots_used;
	u64 link_free_ns;		/* when the link to the host is free */

	struct model_io *queue[HDD_MAX_QUEUE];	/* requests that wait for the arm, oldest first */
	u32 queued;
	struct hdd_run dirty[HDD_MAX_DIRTY];
	u32 nr_dirty;
	u64 dirty_sectors;	/* including the run that is being written */
	u64 dirty_order;	/* the order of the next new run */

	/* The arm is busy until arm_ns (U64_MAX: idle). */
	u64 arm_ns;
	struct model_io *serving;	/* the arm's request; NULL: the arm writes @writing */
	struct hdd_run writing;

	/* The head was at head_sector at head_ns, and reads ahead from there to ahead_end. */
	u64 head_sector;
	u64 head_ns;
	u64 ahead_end;

	struct hdd_run segment[16];	/* the read cache */
	u32 growing;		/* index of the segment that the head extends, or HDD_NO_SEGMENT */
	u64 segment_order;	/* the order of the latest read into a segment */

	u64 seek_ns;
	u64 rotation_ns;
	u64 transfer_ns;
	u64 cache_hits;
	u64 cached_writes;
};

/* --- geometry --- */

static u64 isqrt(u64 n)
{
	u64 root = 0, bit = 1ULL << 62;

	for (; bit; bit >>= 2) {
		if (n >= root + bit) {
			n -= root + bit;
			root = (root >> 1) + bit;
		} else {
			root >>= 1;
		}
	}
	return root;
}

static u32 zone_of(const struct hdd *h, u64 sector)
{
	u32 zone = 0;

	while (zone < HDD_ZONES - 1 && sector >= h->zone_start[zone + 1])
		zone++;
	return zone;
}

/*
 * Return the track of @sector. Set @angle_ns to the time from the start of a turn until the sector
 * passes the head.
 */
static u64 locate(const struct hdd *h, u64 sector, u64 *angle_ns)
{
	u32 zone = zone_of(h, sector);
	u64 in_track;
	u64 track = div64_u64_rem(sector - h->zone_start[zone],
				  h->zone_spt[zone], &in_track);

	*angle_ns = div64_u64(in_track * h->turn_ns, h->zone_spt[zone]);
	return zone * h->zone_tracks + track;
}

static u64 sectors_ns(const struct hdd *h, u64 first, u64 sectors)
{
	return div64_u64(sectors * h->turn_ns, h->zone_spt[zone_of(h, first)]);
}

/*
 * Return the time of a seek over @tracks, a share x of all tracks. Up to a certain x,
 * the knee, the arm speeds up and then slows down: the seek takes settle + sqrt_ns *
 * sqrt(x). Beyond the knee the arm moves at top speed: the time grows linearly, with
 * the slope that the curve has at the knee.
 */
static u64 seek_time(const struct hdd *h, u64 tracks)
{
	u64 x, root;

	if (!tracks)
		return 0;
	x = div64_u64(tracks << 32, h->tracks);
	if (x <= h->knee)
		root = isqrt(x << 32);
	else
		root = h->knee_sqrt +
		       div64_u64((x - h->knee) << 31, h->knee_sqrt);
	return h->p.seek_settle_ns + ((h->p.seek_sqrt_ns * root) >> 32);
}

/* --- the position of the head, and moves --- */

/* Return the sector that the head has reached at @t, at most ahead_end. */
static u64 head_at(const struct hdd *h, u64 t)
{
	u32 spt = h->zone_spt[zone_of(h, h->head_sector)];
	u64 left = h->ahead_end - h->head_sector;
	u64 turns, in_turn;

	/* Count whole turns separately, so that the product cannot overflow. */
	turns = div64_u64_rem(t - h->head_ns, h->turn_ns, &in_turn);
	if (turns > left)
		return h->ahead_end;
	return h->head_sector +
	       min(left, turns * spt + div64_u64(in_turn * spt, h->turn_ns));
}

/* The work of the arm for one request, or for one run of the write cache. */
struct hdd_move {
	u64 from;		/* the first sector still to transfer */
	bool goes_on;		/* no seek, no rotation: the head is at the sectors or past them */
	u64 seek_ns;
	u64 rotation_ns;
	u64 transfer_ns;
};

/* Compute the seek and the rotation of @m, which begins at @t with the arm at sector @head. */
static void move_to(const struct hdd *h, u64 head, struct hdd_move *m, u64 t)
{
	u64 angle_ns, unused, arrive_ns;
	u64 here = locate(h, head, &unused);
	u64 there = locate(h, m->from, &angle_ns);

	m->seek_ns = seek_time(h, max(here, there) - min(here, there));
	div64_u64_rem(t + m->seek_ns, h->turn_ns, &arrive_ns);
	m->rotation_ns = angle_ns - arrive_ns +
			 (angle_ns < arrive_ns ? h->turn_ns : 0);
}

/*
 * Plan the transfer of the sectors from @start to @end, beginning at @t. Two kinds of request
 * need no seek and no rotation. One begins where the head ends a transfer at @t. The other is a
 * read that begins in the growing segment, or right after it. If the head has stopped reading
 * ahead, the segment must contain the whole read.
 */
static struct hdd_move plan(const struct hdd *h, u64 start, u64 end, bool read,
			    u64 t)
{
	u64 head = head_at(h, t);
	struct hdd_move m = { .from = start };

	m.goes_on = start == head && t == h->head_ns;
	if (read && h->growing != HDD_NO_SEGMENT &&
	    start >= h->segment[h->growing].start && start <= head) {
		m.from = min(head, end);
		m.goes_on |= m.from == end || head < h->ahead_end;
	}
	if (m.from == end)
		return m;

	if (m.goes_on) {
		/* Count from head_ns: part of the next sector may have passed the head already. */
		m.transfer_ns = h->head_ns - t +
				sectors_ns(h, h->head_sector, end - h->head_sector);
	} else {
		m.transfer_ns = sectors_ns(h, m.from, end - m.from);
		move_to(h, head, &m, t);
	}
	return m;
}

static u64 position_ns(const struct hdd_move *m)
{
	return m->seek_ns + m->rotation_ns;
}

/* --- the read cache --- */

/* End the growing segment at the sector that the head has reached. */
static void cache_stop(struct hdd *h, u64 t)
{
	if (h->growing != HDD_NO_SEGMENT)
		h->segment[h->growing].end = head_at(h, t);
	h->growing = HDD_NO_SEGMENT;
}

static bool cache_has(const struct hdd *h, const struct model_io *io, u64 t)
{
	u32 i;

	for (i = 0; i < h->p.cache_segments; i++) {
		const struct hdd_run *seg = &h->segment[i];
		u64 end = i == h->growing ? head_at(h, t) : seg->end;

		if (io->sector >= seg->start && io->sector + io->sectors <= end)
			return true;
	}
	return false;
}

/*
 * Put a read from @start, which has just ended, into the growing segment. If no segment grows,
 * replace the segment whose latest read from the disk is the oldest: a cache hit does not count.
 * Then let the head read ahead. If readahead_kib is 0, cache nothing.
 */
static void cache_read(struct hdd *h, u64 start)
{
	u64 keep = 2 * h->readahead_sectors;
	struct hdd_run *seg;
	u32 i;

	if (!h->readahead_sectors)
		return;
	if (h->growing == HDD_NO_SEGMENT) {
		h->growing = 0;
		for (i = 1; i < h->p.cache_segments; i++)
			if (h->segment[i].order < h->segment[h->growing].order)
				h->growing = i;
		h->segment[h->growing].start = start;
	}
	seg = &h->segment[h->growing];
	seg->order = ++h->segment_order;
	seg->end = h->head_sector;
	if (seg->end - seg->start > keep)
		seg->start = seg->end - keep;
	h->ahead_end = min(h->head_sector + h->readahead_sectors, h->sectors);
}

/* Drop each segment that overlaps with a write of the sectors from @start to @end. */
static void cache_forget(struct hdd *h, u64 start, u64 end, u64 t)
{
	u32 i;

	for (i = 0; i < h->p.cache_segments; i++) {
		struct hdd_run *seg = &h->segment[i];
		u64 seg_end = i == h->growing ? h->ahead_end : seg->end;

		if (start >= seg_end || end <= seg->start)
			continue;
		if (i == h->growing)
			cache_stop(h, t);
		seg->start = 0;
		seg->end = 0;
	}
}

/* --- the end of commands --- */

/* Let @io complete at @t. */
static void io_leave_at(struct hdd *h, struct model_io *io, u64 t)
{
	struct model_io **at = &h->leaving;

	while (*at && (*at)->event_ns <= t)
		at = &(*at)->next;
	io->event_ns = t;
	io->next = *at;
	*at = io;
}

/* Move the data of @io between cache and host. The link carries one transfer at a time. */
static void link_move(struct hdd *h, struct model_io *io, u64 t)
{
	h->link_free_ns = max(h->link_free_ns, t) +
			  transfer_ns((u64)io->sectors << MODEL_SECTOR_SHIFT,
				      h->p.bus_mbps);
	io_leave_at(h, io, h->link_free_ns + h->p.cmd_ns);
}

/* --- the write cache --- */

/* Take a write into the cache. Return false if there is no room for its data or for a new run. */
static bool dirty_add(struct hdd *h, const struct model_io *io)
{
	u64 end = io->sector + io->sectors;
	u32 i;

	if (h->dirty_sectors + io->sectors > h->write_cache_sectors)
		return false;
	for (i = 0; i < h->nr_dirty; i++)
		if (h->dirty[i].end == io->sector &&
		    end - h->dirty[i].start <= HDD_DIRTY_SECTORS)
			break;
	if (i == HDD_MAX_DIRTY)
		return false;
	if (i == h->nr_dirty) {
		h->dirty[i].start = io->sector;
		h->dirty[i].order = h->dirty_order++;
		h->nr_dirty++;
	}
	h->dirty[i].end = end;
	h->dirty_sectors += io->sectors;
	return true;
}

/* Take waiting writes into the cache, in order, while there is room. */
static void writes_admit(struct hdd *h, u64 t)
{
	while (h->waiting.head && dirty_add(h, h->waiting.head)) {
		h->cached_writes++;
		link_move(h, io_fifo_pop(&h->waiting), t);
	}
}

/* Record that @writing is on the medium. End the flushes that waited only for it. */
static void dirty_written(struct hdd *h, u64 t)
{
	struct io_fifo waiters = h->flushing;
	struct model_io *io;

	h->dirty_sectors -= h->writing.end - h->writing.start;
	h->flushing.head = NULL;
	while ((io = io_fifo_pop(&waiters))) {
		if (h->writing.order < io->barrier && !--io->pending)
			io_leave_at(h, io, t + h->p.cmd_ns);
		else
			io_fifo_push(&h->flushing, io);
	}
	writes_admit(h, t);
}

static void flush_begin(struct hdd *h, struct model_io *io, u64 t)
{
	bool writing = h->arm_ns != U64_MAX && !h->serving;

	io->pending = h->nr_dirty + writing;
	io->barrier = h->dirty_order;
	if (io->pending)
		io_fifo_push(&h->flushing, io);
	else
		io_leave_at(h, io, t + h->p.cmd_ns);
}

/*
 * Return whether the arm may write cached data to the medium now. It may if no request waits for
 * the arm, if a command waits for the cache, or if the cache is more than three quarters full.
 */
static bool dirty_due(const struct hdd *h)
{
	return !h->queued || h->flushing.head || h->waiting.head ||
	       h->nr_dirty > HDD_MAX_DIRTY * 3 / 4 ||
	       h->dirty_sectors > h->write_cache_sectors * 3 / 4;
}

/* --- the arm --- */

/* Return whether the oldest request is next because of its age. */
static bool queue_overdue(const struct hdd *h, u64 t)
{
	return h->queued && h->p.age_limit_ms &&
	       t - h->queue[0]->submit_ns > h->p.age_limit_ms * 1000000ULL;
}

static struct hdd_move queue_plan(const struct hdd *h, u32 i, u64 t)
{
	const struct model_io *io = h->queue[i];

	return plan(h, io->sector, io->sector + io->sectors,
		    io->op == MODEL_READ, t);
}

/* Return the time that queue_rule compares: the seek and the rotation, or only the seek. */
static u64 distance_ns(const struct hdd *h, const struct hdd_move *m)
{
	return h->p.queue_rule ? m->seek_ns : position_ns(m);
}

/*
 * Return the index of the nearest work, and set @best to its move. Indexes below h->queued
 * are requests in the queue; those from h->queued on are runs of the write cache.
 */
static u32 nearest(const struct hdd *h, u64 t, struct hdd_move *best)
{
	u32 all = h->queued + (dirty_due(h) ? h->nr_dirty : 0);
	u32 i, found = 0;

	for (i = 0; i < all; i++) {
		struct hdd_move m;

		if (i < h->queued) {
			m = queue_plan(h, i, t);
		} else {
			const struct hdd_run *run = &h->dirty[i - h->queued];

			m = plan(h, run->start, run->end, false, t);
		}
		if (!i || distance_ns(h, &m) < distance_ns(h, best)) {
			*best = m;
			found = i;
		}
		if (best->goes_on)
			break;
	}
	return found;
}

/*
 * Return whether the oldest request is next because fewer than reorder_min wait, and no cached
 * writes are due.
 */
static bool queue_in_order(const struct hdd *h)
{
	return h->queued < h->p.reorder_min && !dirty_due(h);
}

static void queue_take(struct hdd *h, u32 i)
{
	h->serving = h->queue[i];
	for (h->queued--; i < h->queued; i++)
		h->queue[i] = h->queue[i + 1];
}

static void dirty_take(struct hdd *h, u32 i)
{
	h->serving = NULL;
	h->writing = h->dirty[i];
	h->dirty[i] = h->dirty[--h->nr_dirty];
}

/* Give the arm its next work, if any. */
static void arm_start(struct hdd *h, u64 t)
{
	struct hdd_move m;
	u32 i = 0;

	h->arm_ns = U64_MAX;
	if (!h->queued && !h->nr_dirty)
		return;
	if (queue_overdue(h, t) || queue_in_order(h))
		m = queue_plan(h, 0, t);
	else
		i = nearest(h, t, &m);
	if (i < h->queued)
		queue_take(h, i);
	else
		dirty_take(h, i - h->queued);

	if (!m.goes_on || !h->serving || h->serving->op == MODEL_WRITE)
		cache_stop(h, t);
	h->seek_ns += m.seek_ns;
	h->rotation_ns += m.rotation_ns;
	h->transfer_ns += m.transfer_ns;
	h->arm_ns = t + position_ns(&m) + m.transfer_ns;
}

static void arm_finish(struct hdd *h)
{
	struct model_io *io = h->serving;
	u64 t = h->arm_ns;
	u64 end = io ? io->sector + io->sectors : h->writing.end;

	/* A read of sectors that the head has passed does not move the head. */
	if (!io || io->op == MODEL_WRITE || h->growing == HDD_NO_SEGMENT ||
	    end > head_at(h, t)) {
		h->head_sector = end;
		h->head_ns = t;
		h->ahead_end = end;
	}
	if (!io) {
		dirty_written(h, t);
	} else {
		if (io->op == MODEL_READ)
			cache_read(h, io->sector);
		io_leave_at(h, io, t + h->p.cmd_ns);
	}
	arm_start(h, t);
}

/* --- events --- */

static void io_start(struct hdd *h, struct model_io *io, u64 t)
{
	if (io->op == MODEL_FLUSH) {
		flush_begin(h, io, t);
		return;
	}
	if (io->op == MODEL_READ && cache_has(h, io, t)) {
		h->cache_hits++;
		link_move(h, io, t);
		return;
	}
	if (io->op == MODEL_WRITE)
		cache_forget(h, io->sector, io->sector + io->sectors, t);
	if (io->op == MODEL_WRITE && !io->fua &&
	    io->sectors <= h->write_cache_sectors) {
		io_fifo_push(&h->waiting, io);
		writes_admit(h, t);
	} else {
		h->queue[h->queued++] = io;
	}
	if (h->arm_ns == U64_MAX)
		arm_start(h, t);
}

static void io_fetch(struct hdd *h, u64 t)
{
	while (h->arrivals.head && h->slots_used < h->p.slots) {
		h->slots_used++;
		io_start(h, io_fifo_pop(&h->arrivals), t);
	}
}

static void hdd_advance(void *model, u64 now, struct io_fifo *done)
{
	struct hdd *h = model;

	for (;;) {
		struct model_io *io = h->leaving;
		u64 leave = io ? io->event_ns : U64_MAX;

		if (min(leave, h->arm_ns) > now)
			return;
		if (h->arm_ns < leave) {
			arm_finish(h);
			continue;
		}
		h->leaving = io->next;
		io->done_ns = leave;
		io_fifo_push(done, io);
		h->slots_used--;
		io_fetch(h, leave);
	}
}

static void hdd_submit(void *model, struct model_io *io, u64 now,
		       struct io_fifo *done)
{
	struct hdd *h = model;

	hdd_advance(h, now, done);
	io->submit_ns = now;
	io_fifo_push(&h->arrivals, io);
	io_fetch(h, now);
}

static u64 hdd_next(const void *model)
{
	const struct hdd *h = model;
	u64 t = h->leaving ? h->leaving->event_ns : U64_MAX;

	/* The end of a write from the cache matters only if a command waits for arm or cache. */
	if (h->arm_ns != U64_MAX &&
	    (h->serving || h->queued || h->waiting.head || h->flushing.head))
		t = min(t, h->arm_ns + h->p.cmd_ns);
	return t;
}

static void zones_init(struct hdd *h)
{
	u64 all = 0;
	u32 i;

	for (i = 0; i < HDD_ZONES; i++) {
		u64 kbps = h->p.outer_mbps * 1000ULL -
			   (h->p.outer_mbps - h->p.inner_mbps) * 1000ULL * i /
			   (HDD_ZONES - 1);
		u64 bytes = div64_u64(kbps * h->turn_ns, 1000000);

		h->zone_spt[i] = bytes >> MODEL_SECTOR_SHIFT;
		all += h->zone_spt[i];
	}
	h->zone_tracks = div64_u64(h->sectors + all - 1, all);
	h->tracks = h->zone_tracks * HDD_ZONES;
	for (i = 0; i < HDD_ZONES; i++)
		h->zone_start[i + 1] = h->zone_start[i] +
				       h->zone_tracks * h->zone_spt[i];
}

static void hdd_init(void *model, const struct model_params *p, u64 sectors)
{
	struct hdd *h = model;

	h->p = *p;
	h->sectors = sectors;
	h->turn_ns = div64_u64(60ULL * 1000 * 1000 * 1000, p->rpm);
	h->knee = div64_u64((u64)p->seek_knee_permille << 32, 1000);
	/* The knee may be all tracks, 1 << 32: a shift by 32 would overflow. */
	h->knee_sqrt = isqrt(h->knee << 30) << 1;
	h->write_cache_sectors = (u64)p->write_cache_kib * 2;
	h->readahead_sectors = (u64)p->readahead_kib * 2;
	h->growing = HDD_NO_SEGMENT;
	h->arm_ns = U64_MAX;
	zones_init(h);
}

static const char *hdd_check(const struct model_params *p)
{
	if (p->slots > HDD_MAX_QUEUE)
		return "a disk's slots must not be above 256";
	if (p->inner_mbps > p->outer_mbps)
		return "inner_mbps must not be above outer_mbps";
	/* If tracks are smaller, there may be so many that seek_time() overflows. */
	if (p->inner_mbps * 60000000ULL < 65536ULL * p->rpm)
		return "inner_mbps / rpm must be at least 64 KiB a turn";
	return NULL;
}

static u32 hdd_parts(const struct model_params *p)
{
	return 0;
}

static bool hdd_volatile_cache(const struct model_params *p)
{
	return p->write_cache_kib;
}

static u32 hdd_stats(const void *model, struct model_stat *stats)
{
	const struct hdd *h = model;
	const struct model_stat all[] = {
		{ "seek_ns", h->seek_ns },
		{ "rotation_ns", h->rotation_ns },
		{ "transfer_ns", h->transfer_ns },
		{ "cache_hits", h->cache_hits },
		{ "cached_writes", h->cached_writes },
		{ "dirty_bytes", h->dirty_sectors << MODEL_SECTOR_SHIFT },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(all); i++)
		stats[i] = all[i];
	return i;
}

const struct model_ops hdd_model = {
	.name		= "hdd",
	.param		= PARAM_HDD,
	.size		= sizeof(struct hdd),
	.check		= hdd_check,
	.parts		= hdd_parts,
	.init		= hdd_init,
	.volatile_cache	= hdd_volatile_cache,
	.submit		= hdd_submit,
	.advance	= hdd_advance,
	.next		= hdd_next,
	.stats		= hdd_stats,
};
