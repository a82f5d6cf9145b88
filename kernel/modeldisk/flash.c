// SPDX-License-Identifier: GPL-2.0-only
/*
 * A model of a flash SSD: a controller, dies, a bus, a write buffer, quick cells,
 * garbage collection.
 *
 *   arrivals -> controller -> dies -> bus -> done          a read
 *   arrivals -> controller -> buffer -> bus -> done        a write
 *                                \-> programs on the dies, later
 *
 * The controller fetches commands, in order of arrival or from the hardware queues in turns, while
 * one of a limited number of slots is free. A command holds its slot until it completes. So if
 * waiting writes hold all slots, the device serves no reads. protect_after_ms limits this time.
 *
 * The bus serves transfers in the order in which their data is ready, so the
 * end of a transfer is known when it is queued. The bus is cheap to simulate: its only
 * events are the ends of commands' last transfers.
 *
 * Writes are programmed on the dies in turn, whatever their address: a drive's
 * translation layer does this too. A read's die depends only on its address, not on where the
 * data was programmed.
 */
#include "model.h"

#define FLASH_MAX_DIES	128

/* A page is fast, normal or slow to read: the bits of a multi-level cell differ like this. */
#define FLASH_PAGE_KINDS	3

/* A read of more sectors than this (4 KiB) is a long read. */
#define FLASH_SHORT_SECTORS	8

enum die_work {
	DIE_IDLE,
	DIE_READ,
	DIE_PROGRAM,	/* the host's data, from the write buffer */
	DIE_COPY,	/* garbage collection, or from the quick cells to slower ones */
	DIE_NR_WORKS,
};

/*
 * A die. All its programs take the same time, so it has a counter of programs instead
 * of a queue. The counter includes a program in progress or paused. Copies have a
 * counter of the same kind.
 */
struct flash_die {
	enum die_work work;
	enum die_work paused;	/* if left_ns: the work that is paused, DIE_PROGRAM or DIE_COPY */
	u64 start_ns;
	u64 finish_ns;		/* U64_MAX: idle */
	u64 data_ns;		/* see die_data_ns() */
	u64 left_ns;		/* time that the paused work still needs; 0: none is paused */
	u32 programs;
	u32 copies;
	u32 overtaken;		/* reads that have overtaken the program or copy that ends next */
	u64 programmed;		/* programs that have ended here */
	struct model_part *reading;	/* the read in progress */
	struct model_part *head;	/* reads that wait */
	struct model_part **tail;
};

/* A hardware queue, if queues take turns: at most one of its commands is in flash.arrivals. */
struct flash_queue {
	bool has_turn;		/* one is */
	struct io_fifo behind;	/* the others that are not fetched yet */
};

struct flash {
	struct model_params p;
	u32 page_shift;		/* a sector >> page_shift is its page */
	/* a die's time for the part of a read in one page: [is it a long read][kind of page] */
	u32 read_ns[2][FLASH_PAGE_KINDS];
	u32 read_mbps[2];	/* [is it a long read] */
	bool pages_differ;
	u64 protect_ns;		/* protect_after_ms in ns; U64_MAX: never */
	u64 slow_ctrl_ns;	/* ctrl_ns in the first slow_ns of each slow_every_ns */
	u64 slow_ns;		/* 0: never */
	u64 slow_every_ns;
	u32 map_shift;		/* a sector >> map_shift is its unit of map_kib */
	u32 program_bytes;
	u64 buffer_bytes;

	u64 now;		/* time of the last event or submission */

	/* commands not fetched yet; if queues take turns, the first of each queue */
	struct io_fifo arrivals;
	struct io_fifo decoding;	/* commands with the controller until event_ns */
	struct io_fifo waiting;		/* writes that wait for room in the buffer */
	struct io_fifo flushing;	/* commands that wait for programs to end */
	struct io_fifo leaving;		/* commands on the bus until event_ns */
	u32 nr_waiting;
	u32 nr_parked;		/* writes at the head of @waiting that hold no slot */
	u64 waiting_since_ns;	/* the time since which @waiting has not been empty */
	u32 slots_used;
	u32 decoding_others;	/* commands in @decoding that are not reads */
	u64 decoding_bus_ns;	/* each command in @decoding needs the bus for at least this long */
	u32 decoding_read_ns;	/* each read in @decoding needs a die for at least this long */
	u64 ctrl_free_ns;
	u64 bus_free_ns;

	u64 buffered;		/* bytes of the buffer in use */
	u64 unprogrammed;	/* bytes in the buffer that belong to no program yet */
	u64 last_end;		/* the sector after the last write */
	u64 programs_issued;
	u64 programs_done;

	u64 slc_bytes;		/* all quick cells */
	u64 slc_free;		/* bytes that can be programmed before the quick cells are full */
	u64 clean;		/* bytes that can be written before garbage collection begins */
	u32 copy_debt_pct;	/* the part of a copy that is due besides copies_saved, percent */
	u32 copies_saved;	/* whole copies that are due, but given to no die yet */
	u32 next_copy_die;

	u64 busy_ns[DIE_NR_WORKS];
	u64 ctrl_busy_ns;
	u64 bus_busy_ns;
	u64 copies_done;
	u64 pauses;

	/* Minima over all dies: die_changed() lowers them, dies_finish() computes them anew. */
	u64 first_ns;		/* least finish_ns; U64_MAX: all dies are idle */
	u64 first_data_ns;	/* least data_ns */

	struct flash_die die[FLASH_MAX_DIES];
	struct flash_queue queue[MODEL_MAX_QUEUES];
};

/* --- the bus --- */

/*
 * At @t queue a transfer of @io's data that takes @ns on the bus. If it is @io's last transfer, its
 * end becomes event_ns, and @io joins flash.leaving. The bus serves transfers in order, so
 * flash.leaving is sorted by event_ns.
 */
static void bus_move(struct flash *f, struct model_io *io, u64 ns, u64 t)
{
	f->bus_free_ns = max(f->bus_free_ns, t) + ns;
	f->bus_busy_ns += ns;
	if (--io->pending)
		return;
	io->event_ns = f->bus_free_ns;
	io_fifo_push(&f->leaving, io);
}

/* Let @io, which has no data to transfer, complete after the transfers queued for the bus. */
static void bus_skip(struct flash *f, struct model_io *io, u64 t)
{
	io->pending = 1;
	bus_move(f, io, 0, t);
}

/* --- the dies --- */

static bool is_long(const struct model_io *io)
{
	return io->sectors > FLASH_SHORT_SECTORS;
}

/* Return a die's time to read from @page. @whole says whether the read is a long one. */
static u32 page_read_ns(const struct flash *f, u64 page, bool whole)
{
	u64 hash;
	u32 kind, slow_ns;

	if (!f->pages_differ)
		return f->read_ns[whole][0];
	hash = page * 0xd1342543de82ef95ULL;
	kind = ((hash >> 32) * FLASH_PAGE_KINDS) >> 32;
	slow_ns = (((hash & U32_MAX) * 1000) >> 32) < f->p.read_slow_permille ?
		  f->p.read_slow_ns : 0;
	return f->read_ns[whole][kind] + slow_ns;
}

/*
 * Return the least time for which a read occupies a die. For a read in one page this is exact.
 */
static u32 least_read_ns(const struct flash *f, const struct model_io *io)
{
	u64 page = io->sector >> f->page_shift;
	u64 last = (io->sector + io->sectors - 1) >> f->page_shift;

	if (page == last)
		return page_read_ns(f, page, is_long(io));
	return f->read_ns[is_long(io)][0];
}

/* Return the bus's time for a part of a read. */
static u64 part_bus_ns(const struct flash *f, const struct model_part *part)
{
	return transfer_ns(part->bytes, f->read_mbps[is_long(part->io)]);
}

/*
 * Return the earliest time at which data of @die can be at the host. Return U64_MAX if @die has no
 * read.
 */
static u64 die_data_ns(const struct flash *f, const struct flash_die *die)
{
	if (die->work == DIE_READ)
		return die->finish_ns + part_bus_ns(f, die->reading);
	if (die->head)
		return die->finish_ns + die->head->read_ns +
		       part_bus_ns(f, die->head);
	return U64_MAX;
}

/*
 * Compute @die's data_ns, and lower the minima over all dies if needed. Call this after @die's work
 * or its first waiting read has changed.
 */
static void die_changed(struct flash *f, struct flash_die *die)
{
	die->data_ns = die_data_ns(f, die);
	f->first_data_ns = min(f->first_data_ns, die->data_ns);
	f->first_ns = min(f->first_ns, die->finish_ns);
}

static void die_run(struct flash_die *die, enum die_work work, u64 t, u64 ns)
{
	die->work = work;
	die->start_ns = t;
	die->finish_ns = t + ns;
}

static u64 program_ns(const struct flash *f, enum die_work work)
{
	return work == DIE_COPY ? f->p.gc_ns : f->p.program_ns;
}

/*
 * Give a free die its next work. Reads go first, but a waiting program or copy lets only
 * overtake_max of them pass. Then the paused work goes on, if any. Copies go before programs,
 * because programs need the clean space that copies make.
 */
static void die_start(struct flash *f, struct flash_die *die, u64 t)
{
	bool program = die->programs || die->copies;

	if (die->head && (!program || die->overtaken < f->p.overtake_max)) {
		die->reading = die->head;
		die->head = die->head->next;
		die->overtaken += program;
		die_run(die, DIE_READ, t, die->reading->read_ns);
	} else if (die->left_ns) {
		die_run(die, die->paused, t, die->left_ns);
		die->left_ns = 0;
	} else if (program) {
		enum die_work work = die->copies ? DIE_COPY : DIE_PROGRAM;

		die_run(die, work, t, program_ns(f, work));
	} else {
		die->work = DIE_IDLE;
		die->finish_ns = U64_MAX;
	}
	die_changed(f, die);
}

/* Let the program or copy on @die pause after its present step, unless that step is the last. */
static void die_pause(struct flash *f, struct flash_die *die, u64 t)
{
	u64 step = max(program_ns(f, die->work) / f->p.program_steps, 1ULL);
	u64 steps = div64_u64(t - die->start_ns, step) + 1;
	u64 pause_ns = die->start_ns + steps * step;

	if (pause_ns >= die->finish_ns)
		return;
	die->paused = die->work;
	die->left_ns = die->finish_ns - pause_ns;
	die->finish_ns = pause_ns;
	f->pauses++;
}

static void die_read(struct flash *f, struct flash_die *die,
		     struct model_part *part, u64 t)
{
	part->next = NULL;
	if (die->head)
		*die->tail = part;
	else
		die->head = part;
	die->tail = &part->next;

	if (die->work == DIE_IDLE) {
		die_start(f, die, t);
	} else if (die->work != DIE_READ) {
		if (!die->left_ns && die->overtaken < f->p.overtake_max)
			die_pause(f, die, t);
		die_changed(f, die);
	}
}

/*
 * Return the die that holds a page. A row is one page on each die. Each row is shifted
 * by a pseudo-random number of dies. So sequential reads use all dies equally, and random
 * reads collide at random, whatever their alignment.
 */
static struct flash_die *die_of_page(struct flash *f, u64 page)
{
	u64 row, column;
	u32 turn;

	row = div64_u64_rem(page, f->p.dies, &column);
	turn = (u32)((row * 0x9e3779b97f4a7c15ULL) >> 33);	/* Fibonacci hash */
	return &f->die[((u32)column + turn % f->p.dies) % f->p.dies];
}

/* --- writes: buffer, programs, quick cells, garbage collection --- */

/* Return the bus's time for all data of @io. */
static u64 io_bus_ns(const struct flash *f, const struct model_io *io)
{
	u64 bytes = (u64)io->sectors << MODEL_SECTOR_SHIFT;

	if (io->op == MODEL_READ)
		return transfer_ns(bytes, f->read_mbps[is_long(io)]);
	return io->op == MODEL_WRITE ? transfer_ns(bytes, f->p.bus_mbps) : 0;
}

/* Return the controller's time for a command that it begins at @t. */
static u64 ctrl_ns(const struct flash *f, u64 t)
{
	u64 since;

	if (!f->slow_ns)
		return f->p.ctrl_ns;
	div64_u64_rem(t, f->slow_every_ns, &since);
	return since < f->slow_ns ? f->slow_ctrl_ns : f->p.ctrl_ns;
}

static void io_arrive(struct flash *f, struct model_io *io)
{
	struct flash_queue *queue = &f->queue[io->queue];

	io_fifo_push(queue->has_turn ? &queue->behind : &f->arrivals, io);
	queue->has_turn = f->p.queue_turns;
}

/*
 * Take the next command to fetch. If queues take turns, its queue's next command comes behind the
 * first ones of all other queues.
 */
static struct model_io *io_take(struct flash *f)
{
	struct model_io *io = io_fifo_pop(&f->arrivals);
	struct flash_queue *queue = &f->queue[io->queue];
	struct model_io *next = io_fifo_pop(&queue->behind);

	queue->has_turn = next;
	if (next)
		io_fifo_push(&f->arrivals, next);
	return io;
}

/* Fetch commands while slots are free. */
static void io_fetch(struct flash *f, u64 t)
{
	struct model_io *io;
	u64 start, ns;

	while (f->arrivals.head && f->slots_used < f->p.slots) {
		io = io_take(f);
		f->slots_used++;
		start = max(f->ctrl_free_ns, t);
		ns = ctrl_ns(f, start);
		f->ctrl_free_ns = start + ns;
		f->ctrl_busy_ns += ns;
		io->event_ns = f->ctrl_free_ns + f->p.cmd_ns;
		if (!f->decoding.head) {
			f->decoding_bus_ns = U64_MAX;
			f->decoding_read_ns = U32_MAX;
		}
		f->decoding_bus_ns = min(f->decoding_bus_ns, io_bus_ns(f, io));
		if (io->op == MODEL_READ)
			f->decoding_read_ns = min(f->decoding_read_ns,
						  least_read_ns(f, io));
		else
			f->decoding_others++;
		io_fifo_push(&f->decoding, io);
	}
}

/* Give a write its room in the buffer, and put its data on the bus. */
static void write_admit(struct flash *f, struct model_io *io, u64 t)
{
	f->buffered += io->charge;
	io->pending = 1;
	bus_move(f, io, io_bus_ns(f, io), t);
}

/* Return whether waiting writes must let reads pass: see protect_after_ms. */
static bool is_protecting(const struct flash *f, u64 t)
{
	return f->waiting.head && t - f->waiting_since_ns >= f->protect_ns;
}

/*
 * Admit waiting writes, in order, while there is room in the buffer. If writes have waited for
 * protect_after_ms, take away their slots, so that reads can use the slots. A write without a slot
 * gets one when it is admitted, even if none is free.
 */
static void writes_admit(struct flash *f, u64 t)
{
	while (f->waiting.head &&
	       f->buffered + f->waiting.head->charge <= f->buffer_bytes) {
		f->nr_waiting--;
		if (f->nr_parked) {
			f->nr_parked--;
			f->slots_used++;
		}
		write_admit(f, io_fifo_pop(&f->waiting), t);
	}
	if (is_protecting(f, t)) {
		f->slots_used -= f->nr_waiting - f->nr_parked;
		f->nr_parked = f->nr_waiting;
		io_fetch(f, t);
	}
}

static void write_wait(struct flash *f, struct model_io *io, u64 t)
{
	if (!f->waiting.head)
		f->waiting_since_ns = t;
	f->nr_waiting++;
	io_fifo_push(&f->waiting, io);
	writes_admit(f, t);
}

/*
 * Return the bytes of buffer that a write takes, in whole units of map_kib. If it continues
 * the last write in the middle of a unit, do not count this unit again.
 */
static u32 write_charge(struct flash *f, const struct model_io *io)
{
	u64 end = io->sector + io->sectors;
	u64 units = ((end - 1) >> f->map_shift) - (io->sector >> f->map_shift);
	u64 in_unit = io->sector & ((1ULL << f->map_shift) - 1);

	if (io->sector != f->last_end || !in_unit)
		units++;
	f->last_end = end;
	return units << f->map_shift << MODEL_SECTOR_SHIFT;
}

static void die_add_copy(struct flash *f, u64 t)
{
	struct flash_die *die = &f->die[f->next_copy_die];

	f->next_copy_die = (f->next_copy_die + 1) % f->p.dies;
	die->copies++;
	if (die->work == DIE_IDLE)
		die_start(f, die, t);
}

/* Take clean space for one program. Return the percentage of a copy that becomes due for it. */
static u32 clean_take(struct flash *f)
{
	if (f->clean < f->program_bytes)
		return f->p.gc_amplify_pct - 100;
	f->clean -= f->program_bytes;
	return 0;
}

/*
 * Take the space for one program. Return the percentage of a copy that becomes due for it. If the
 * quick cells are full, one copy moves older data from there to slower cells, which takes clean
 * space.
 */
static u32 space_take(struct flash *f)
{
	if (!f->slc_bytes)
		return clean_take(f);
	if (f->slc_free < f->program_bytes)
		return 100 + clean_take(f);
	f->slc_free -= f->program_bytes;
	return 0;
}

/*
 * Let @pct percent of a copy become due. Dies get the due copies when there are gc_burst of them,
 * or at once if is_protecting().
 */
static void copies_owe(struct flash *f, u32 pct, u64 t)
{
	f->copy_debt_pct += pct;
	for (; f->copy_debt_pct >= 100; f->copy_debt_pct -= 100)
		f->copies_saved++;
	if (f->copies_saved >= f->p.gc_burst || is_protecting(f, t))
		for (; f->copies_saved; f->copies_saved--)
			die_add_copy(f, t);
}

/* Give the next die a program, and let the copies that it causes become due. */
static void program_issue(struct flash *f, u64 t)
{
	struct flash_die *die;
	u32 pct = space_take(f);
	u64 turn;

	if (pct)
		copies_owe(f, pct, t);

	div64_u64_rem(f->programs_issued++, f->p.dies, &turn);
	die = &f->die[turn];
	die->programs++;
	if (die->work == DIE_IDLE)
		die_start(f, die, t);
}

/* Issue a program for the buffered data that does not fill one: a flush waits for this data. */
static void program_rest(struct flash *f, u64 t)
{
	if (!f->unprogrammed)
		return;
	f->buffered += f->program_bytes - f->unprogrammed;
	f->unprogrammed = 0;
	program_issue(f, t);
}

/*
 * Let @io complete when all data now in the buffer is on the dies. With power_safe, let it complete
 * at once.
 */
static void flush_begin(struct flash *f, struct model_io *io, u64 t)
{
	if (!f->p.power_safe)
		program_rest(f, t);
	io->pending = f->programs_issued - f->programs_done;
	if (f->p.power_safe || !io->pending) {
		bus_skip(f, io, t);
		return;
	}
	io->barrier = f->programs_issued;
	io_fifo_push(&f->flushing, io);
}

/*
 * End a program. Each die gets every dies-th program and ends its programs in order,
 * so the number of this program follows from the die's count.
 */
static void program_end(struct flash *f, struct flash_die *die, u64 t)
{
	u64 number = die->programmed++ * f->p.dies + (die - f->die);
	struct io_fifo waiters = f->flushing;
	struct model_io *io;

	f->programs_done++;
	f->buffered -= f->program_bytes;

	f->flushing.head = NULL;
	while ((io = io_fifo_pop(&waiters))) {
		if (number < io->barrier && !--io->pending)
			bus_skip(f, io, t);
		else
			io_fifo_push(&f->flushing, io);
	}
	writes_admit(f, t);
}

/*
 * Let up to @copies copies move data from the quick cells to slower ones. Return the number of
 * copies that are left. A move takes clean space. If there is none, it also costs the copies that
 * make some.
 */
static u64 slc_empty(struct flash *f, u64 copies)
{
	u64 used = div64_u64(f->slc_bytes - f->slc_free, f->program_bytes);
	u64 cheap = min(min(used, copies), div64_u64(f->clean, f->program_bytes));
	u64 dear = min(used - cheap,
		       div64_u64((copies - cheap) * 100, f->p.gc_amplify_pct));

	f->clean -= cheap * f->program_bytes;
	f->slc_free += (cheap + dear) * f->program_bytes;
	return copies - cheap - div64_u64(dear * f->p.gc_amplify_pct + 99, 100);
}

/*
 * Let the drive use the time from the last event until @t, in which the device was idle. Assume
 * that all dies made copies all the time. The copies first empty the quick cells. Then they make
 * clean space, up to gc_after_mib.
 */
static void collect_idle(struct flash *f, u64 t)
{
	u64 room = (u64)f->p.gc_after_mib << 20;
	u64 most = div64_u64(room, f->program_bytes);
	/* Count an hour at most, so that the product cannot overflow. */
	u64 ns = min(t - f->now, 3600ULL * 1000 * 1000 * 1000);
	u64 copies = slc_empty(f, div64_u64(ns * f->p.dies, f->p.gc_ns));
	u64 programs;

	if (f->p.gc_amplify_pct == 100)
		return;
	programs = div64_u64(copies * 100, f->p.gc_amplify_pct - 100);
	f->clean = min(f->clean + min(programs, most) * f->program_bytes, room);
}

static bool flash_idle(const struct flash *f)
{
	return !f->slots_used && f->first_ns == U64_MAX;
}

/* --- events --- */

static void die_finish(struct flash *f, struct flash_die *die, u64 t)
{
	enum die_work work = die->work;

	f->busy_ns[work] += t - die->start_ns;
	if (work == DIE_READ) {
		bus_move(f, die->reading->io, part_bus_ns(f, die->reading), t);
	} else if (!die->left_ns) {
		die->overtaken = 0;
		if (work == DIE_COPY) {
			die->copies--;
			f->copies_done++;
		} else {
			die->programs--;
			program_end(f, die, t);
		}
	}
	die_start(f, die, t);
}

/*
 * Finish the work of all dies whose work ends at @t. This is one event, because the parts of
 * a request often end together.
 */
static void dies_finish(struct flash *f, u64 t)
{
	struct flash_die *die, *end = f->die + f->p.dies;
	u64 first_ns = U64_MAX, first_data_ns = U64_MAX;

	for (die = f->die; die < end; die++) {
		if (die->finish_ns == t)
			die_finish(f, die, t);
		first_ns = min(first_ns, die->finish_ns);
		first_data_ns = min(first_data_ns, die->data_ns);
	}
	f->first_ns = first_ns;
	f->first_data_ns = first_data_ns;
}

static void read_start(struct flash *f, struct model_io *io, u64 t)
{
	u64 page = io->sector >> f->page_shift;
	u64 last = (io->sector + io->sectors - 1) >> f->page_shift;
	u64 begin = io->sector, end = io->sector + io->sectors;
	struct model_part *part = io->parts;

	io->pending = last - page + 1;
	for (; page <= last; page++, part++) {
		u64 next = min((page + 1) << f->page_shift, end);

		part->io = io;
		part->bytes = (next - begin) << MODEL_SECTOR_SHIFT;
		part->read_ns = page_read_ns(f, page, is_long(io));
		begin = next;
		die_read(f, die_of_page(f, page), part, t);
	}
}

static void discard(struct flash *f, struct model_io *io, u64 t)
{
	u64 bytes = (u64)io->sectors << MODEL_SECTOR_SHIFT;
	u64 quick = min(bytes, f->slc_bytes - f->slc_free);

	/* Nothing says where the data is: assume that it is still in the quick cells. */
	f->slc_free += quick;
	f->clean = min(f->clean + bytes - quick, (u64)f->p.gc_after_mib << 20);
	bus_skip(f, io, t);
}

/* Start the first command that the controller has decoded. */
static void io_start(struct flash *f, u64 t)
{
	struct model_io *io = io_fifo_pop(&f->decoding);

	f->decoding_others -= io->op != MODEL_READ;
	switch (io->op) {
	case MODEL_READ:
		read_start(f, io, t);
		break;
	case MODEL_WRITE:
		io->charge = write_charge(f, io);
		write_wait(f, io, t);
		break;
	case MODEL_FLUSH:
		flush_begin(f, io, t);
		break;
	case MODEL_DISCARD:
		discard(f, io, t);
		break;
	}
}

/*
 * Complete the first command on the bus. A write's data is in the buffer from now on. Without
 * power_safe, a write with FUA completes later: when all data now in the buffer is on the dies.
 */
static void io_leave(struct flash *f, u64 t, struct io_fifo *done)
{
	struct model_io *io = io_fifo_pop(&f->leaving);

	if (io->op == MODEL_WRITE && !io->landed) {
		io->landed = true;
		f->unprogrammed += io->charge;
		for (; f->unprogrammed >= f->program_bytes;
		     f->unprogrammed -= f->program_bytes)
			program_issue(f, t);
		if (io->fua && !f->p.power_safe) {
			flush_begin(f, io, t);
			return;
		}
	}
	io->done_ns = t;
	io_fifo_push(done, io);
	f->slots_used--;
	io_fetch(f, t);
}

static void flash_advance(void *model, u64 now, struct io_fifo *done)
{
	struct flash *f = model;

	for (;;) {
		u64 leave = f->leaving.head ? f->leaving.head->event_ns : U64_MAX;
		u64 start = f->decoding.head ? f->decoding.head->event_ns : U64_MAX;
		u64 t = min(leave, min(start, f->first_ns));

		if (t > now)
			return;
		f->now = t;
		if (t == leave)
			io_leave(f, t, done);
		else if (t == f->first_ns)
			dies_finish(f, t);
		else
			io_start(f, t);
	}
}

static void flash_submit(void *model, struct model_io *io, u64 now,
			 struct io_fifo *done)
{
	struct flash *f = model;

	flash_advance(f, now, done);
	if (flash_idle(f))
		collect_idle(f, now);
	f->now = now;
	io->submit_ns = now;
	io->landed = false;
	io_arrive(f, io);
	io_fetch(f, now);
}

/*
 * Return a time before which no command completes. All commands leave over the bus, in
 * order, so the first one in flash.leaving completes next. If it is empty, the next to complete may
 * be a read on a die, a command that the controller decodes, or one that waits for programs.
 */
static u64 flash_next(const void *model)
{
	const struct flash *f = model;
	u64 t = f->first_data_ns;

	if (f->leaving.head)
		return f->leaving.head->event_ns;
	if (f->waiting.head || f->flushing.head)
		t = min(t, f->first_ns);
	if (f->decoding.head)
		t = min(t, f->decoding.head->event_ns + f->decoding_bus_ns +
			   (f->decoding_others ? 0 : f->decoding_read_ns));
	return t;
}

static void reads_init(struct flash *f, const struct model_params *p)
{
	u64 ns[2] = { p->read_ns, p->read_full_ns ? p->read_full_ns : p->read_ns };
	u32 i, kind;

	for (i = 0; i < 2; i++)
		for (kind = 0; kind < FLASH_PAGE_KINDS; kind++)
			f->read_ns[i][kind] =
				div64_u64(ns[i] * (100 - p->read_spread_pct +
						   kind * p->read_spread_pct), 100);
	f->read_mbps[0] = p->bus_mbps;
	f->read_mbps[1] = p->full_mbps ? p->full_mbps : p->bus_mbps;
	f->pages_differ = p->read_spread_pct || p->read_slow_permille;
}

static void flash_init(void *model, const struct model_params *p, u64 sectors)
{
	struct flash *f = model;
	u32 i;

	f->p = *p;
	reads_init(f, p);
	f->protect_ns = p->protect_after_ms ? p->protect_after_ms * 1000000ULL :
			U64_MAX;
	f->slow_ctrl_ns = div64_u64((u64)p->ctrl_ns * (100 + p->ctrl_slow_pct), 100);
	f->slow_ns = p->ctrl_slow_ms * 1000000ULL;
	f->slow_every_ns = p->ctrl_slow_every_ms * 1000000ULL;
	f->page_shift = ilog2(p->page_kib) + 1;	/* 2 sectors a KiB */
	f->map_shift = ilog2(p->map_kib) + 1;
	f->program_bytes = p->program_kib << 10;
	f->buffer_bytes = (u64)p->buffer_kib << 10;
	f->slc_bytes = (u64)p->slc_mib << 20;
	f->slc_free = f->slc_bytes;
	f->clean = (u64)p->gc_after_mib << 20;
	f->last_end = U64_MAX;
	for (i = 0; i < p->dies; i++) {
		f->die[i].finish_ns = U64_MAX;
		f->die[i].data_ns = U64_MAX;
	}
	f->first_ns = U64_MAX;
	f->first_data_ns = U64_MAX;
}

static const char *flash_check(const struct model_params *p)
{
	/*
	 * Data leaves the buffer only in whole programs. So the buffer must have room for the
	 * largest request beside data that does not fill a program. Otherwise the request might
	 * wait for ever: the writes that would fill the program come behind it.
	 */
	if (p->buffer_kib < p->program_kib + 2 * p->map_kib +
			    MODEL_MAX_BYTES / 1024)
		return "buffer_kib must hold program_kib, 2 * map_kib and a request of 512 KiB";
	if (p->ctrl_slow_ms > p->ctrl_slow_every_ms)
		return "ctrl_slow_ms must be within ctrl_slow_every_ms";
	return NULL;
}

static u32 flash_parts(const struct model_params *p)
{
	/* A request that is not aligned to pages is in one page more. */
	return MODEL_MAX_BYTES / 1024 / p->page_kib + 1;
}

static bool flash_volatile_cache(const struct model_params *p)
{
	return !p->power_safe;
}

static u32 flash_stats(const void *model, struct model_stat *stats)
{
	const struct flash *f = model;
	const struct model_stat all[] = {
		{ "dies", f->p.dies },
		{ "ctrl_busy_ns", f->ctrl_busy_ns },
		{ "bus_busy_ns", f->bus_busy_ns },
		{ "die_read_ns", f->busy_ns[DIE_READ] },
		{ "die_program_ns", f->busy_ns[DIE_PROGRAM] },
		{ "die_copy_ns", f->busy_ns[DIE_COPY] },
		{ "programs", f->programs_done },
		{ "copies", f->copies_done },
		{ "program_pauses", f->pauses },
		{ "buffered_bytes", f->buffered },
		{ "slc_free_bytes", f->slc_free },
		{ "clean_bytes", f->clean },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(all); i++)
		stats[i] = all[i];
	return i;
}

const struct model_ops flash_model = {
	.name		= "flash",
	.param		= PARAM_FLASH,
	.size		= sizeof(struct flash),
	.check		= flash_check,
	.parts		= flash_parts,
	.init		= flash_init,
	.discards	= true,
	.volatile_cache	= flash_volatile_cache,
	.submit		= flash_submit,
	.advance	= flash_advance,
	.next		= flash_next,
	.stats		= flash_stats,
};
