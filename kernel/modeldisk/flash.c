// SPDX-License-Identifier: GPL-2.0-only
/*
 * A model of a flash SSD: a controller, dies, a bus, a write buffer, garbage
 * collection.
 *
 *   arrivals -> controller -> dies -> bus -> done          a read
 *   arrivals -> controller -> buffer -> bus -> done        a write
 *                                \-> programs on the dies, later
 *
 * Commands are fetched in the order they arrive, as long as one of a limited
 * number of slots is free, and hold the slot until they complete. So a device
 * whose slots are all taken by writes that wait for room in the buffer serves
 * no read either.
 *
 * The bus serves transfers in the order in which their data is ready, so when
 * one is queued its end is already known. That makes it cheap: it has no event
 * of its own but the completion of a command.
 *
 * Writes are programmed on the dies in turn, wherever they are addressed to, as
 * a translation layer does. Reads look for their data where the address says.
 */
#include "model.h"

#define FLASH_MAX_DIES	128

enum die_work {
	DIE_IDLE,
	DIE_READ,
	DIE_PROGRAM,	/* data of the host's, out of the write buffer */
	DIE_COPY,	/* garbage collection */
	DIE_NR_WORKS,
};

/*
 * Programs are too many for a queue of them, and all alike: a die counts them.
 * The one in progress, or paused, counts until it has ended.
 */
struct flash_die {
	enum die_work work;
	enum die_work paused;	/* DIE_PROGRAM or DIE_COPY, if left_ns */
	u64 start_ns;
	u64 finish_ns;		/* U64_MAX: idle */
	u64 data_ns;		/* no data before this; U64_MAX: none expected */
	u64 left_ns;		/* what remains of the paused program */
	u32 programs;
	u32 copies;
	u32 overtaken;		/* reads that went before the next program */
	u64 programmed;		/* programs ever ended here */
	struct model_part *reading;
	struct model_part *head;	/* reads that wait */
	struct model_part **tail;
};

struct flash {
	struct model_params p;
	u32 page_shift;		/* of sectors */
	u32 map_shift;		/* of sectors */
	u32 program_bytes;
	u64 buffer_bytes;

	u64 now;		/* the last event, or submission */

	struct io_fifo arrivals;	/* not fetched yet */
	struct io_fifo decoding;	/* fetched, by event_ns */
	struct io_fifo waiting;		/* writes that want room in the buffer */
	struct io_fifo flushing;	/* wait for programs to end */
	struct io_fifo leaving;		/* on the bus, by event_ns */
	u32 slots_used;
	u32 decoding_others;	/* commands being decoded that are not reads */
	u32 decoding_least;	/* the least that one of them transfers, sectors */
	u64 ctrl_free_ns;
	u64 bus_free_ns;

	u64 buffered;		/* bytes of the buffer that are taken */
	u64 unprogrammed;	/* of those, moved here and given to no die yet */
	u64 last_end;		/* the sector after the last write */
	u64 programs_issued;
	u64 programs_done;

	u64 clean;		/* bytes that can be written without copying */
	u32 copy_debt_pct;	/* copies owed for programs, percent of one */
	u32 next_copy_die;

	u64 busy_ns[DIE_NR_WORKS];
	u64 ctrl_busy_ns;
	u64 bus_busy_ns;
	u64 copies_done;
	u64 pauses;

	/* The least of all dies: kept by die_changed(), renewed by dies_finish(). */
	u64 first_ns;		/* finish_ns; U64_MAX: all are idle */
	u64 first_data_ns;	/* data_ns */

	struct flash_die die[FLASH_MAX_DIES];
};

/* --- the bus --- */

/*
 * Put @bytes of @io on the bus; the last of a command's transfers makes it
 * leave. The bus keeps order, so @leaving is sorted.
 */
static void bus_move(struct flash *f, struct model_io *io, u32 bytes, u64 t)
{
	u64 ns = transfer_ns(bytes, f->p.bus_mbps);

	f->bus_free_ns = max(f->bus_free_ns, t) + ns;
	f->bus_busy_ns += ns;
	if (--io->pending)
		return;
	io->event_ns = f->bus_free_ns;
	io_fifo_push(&f->leaving, io);
}

/* Let a command leave that has nothing (more) to transfer. */
static void bus_skip(struct flash *f, struct model_io *io, u64 t)
{
	io->pending = 1;
	bus_move(f, io, 0, t);
}

/* --- the dies --- */

/* The earliest time the bus can get data from @die. */
static u64 die_data_ns(const struct flash *f, const struct flash_die *die)
{
	if (die->work == DIE_READ)
		return die->finish_ns +
		       transfer_ns(die->reading->bytes, f->p.bus_mbps);
	if (die->head)
		return die->finish_ns + f->p.read_ns +
		       transfer_ns(die->head->bytes, f->p.bus_mbps);
	return U64_MAX;
}

/* @die's work begins, or ends sooner, or has a read waiting for it. */
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
 * What a free die does next: reads first, but a program that waits lets only
 * so many of them pass; copies before programs, since they make the room.
 */
static void die_start(struct flash *f, struct flash_die *die, u64 t)
{
	bool program = die->programs || die->copies;

	if (die->head && (!program || die->overtaken < f->p.overtake_max)) {
		die->reading = die->head;
		die->head = die->head->next;
		die->overtaken += program;
		die_run(die, DIE_READ, t, f->p.read_ns);
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

/* A read has come while @die programs: pause at the end of the present step. */
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
 * The die that holds a page. Each row of pages, one to a die, is turned by a
 * pseudo-random number of dies: sequential reads use all dies alike, and random
 * ones collide as they would at random whatever they are aligned to.
 */
static struct flash_die *die_of_page(struct flash *f, u64 page)
{
	u64 row, column;
	u32 turn;

	row = div64_u64_rem(page, f->p.dies, &column);
	turn = (u32)((row * 0x9e3779b97f4a7c15ULL) >> 33);	/* Fibonacci hash */
	return &f->die[((u32)column + turn % f->p.dies) % f->p.dies];
}

/* --- writes: buffer, programs, garbage collection --- */

static void write_admit(struct flash *f, struct model_io *io, u64 t)
{
	f->buffered += io->charge;
	io->pending = 1;
	bus_move(f, io, io->sectors << MODEL_SECTOR_SHIFT, t);
}

static void writes_admit(struct flash *f, u64 t)
{
	while (f->waiting.head &&
	       f->buffered + f->waiting.head->charge <= f->buffer_bytes)
		write_admit(f, io_fifo_pop(&f->waiting), t);
}

/* Bytes of buffer for a write: whole units, unless it goes on in the last one. */
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

/* Give one program's worth of data, from the buffer, to the next die. */
static void program_issue(struct flash *f, u64 t)
{
	struct flash_die *die;
	u64 turn;

	if (f->clean >= f->program_bytes) {
		f->clean -= f->program_bytes;
	} else {
		f->copy_debt_pct += f->p.gc_amplify_pct - 100;
		for (; f->copy_debt_pct >= 100; f->copy_debt_pct -= 100)
			die_add_copy(f, t);
	}

	div64_u64_rem(f->programs_issued++, f->p.dies, &turn);
	die = &f->die[turn];
	die->programs++;
	if (die->work == DIE_IDLE)
		die_start(f, die, t);
}

/* Program what does not fill a unit too, for somebody waits for it. */
static void program_rest(struct flash *f, u64 t)
{
	if (!f->unprogrammed)
		return;
	f->buffered += f->program_bytes - f->unprogrammed;
	f->unprogrammed = 0;
	program_issue(f, t);
}

/* Let @io leave as soon as all that is in the buffer now is on the dies. */
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
 * A program has ended. Each die gets every dies-th program, and ends them in
 * order, so that counting them tells which one it was.
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
 * Nothing was going on from the last event until @t, so garbage collection had
 * all dies for itself: as much room is made as that time allows.
 */
static void collect_idle(struct flash *f, u64 t)
{
	u64 room = (u64)f->p.gc_after_mib << 20;
	u64 most = div64_u64(room, f->program_bytes);
	/* An hour is enough for any room, and little enough to multiply. */
	u64 ns = min(t - f->now, 3600ULL * 1000 * 1000 * 1000);
	u64 copies = div64_u64(ns * f->p.dies, f->p.gc_ns);
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
		bus_move(f, die->reading->io, die->reading->bytes, t);
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

/* Some dies finish at @t: often several, as the parts of a request start at once. */
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
		begin = next;
		die_read(f, die_of_page(f, page), part, t);
	}
}

static void discard(struct flash *f, struct model_io *io, u64 t)
{
	u64 bytes = (u64)io->sectors << MODEL_SECTOR_SHIFT;

	f->clean = min(f->clean + bytes, (u64)f->p.gc_after_mib << 20);
	bus_skip(f, io, t);
}

/* The controller is through with a command. */
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
		io_fifo_push(&f->waiting, io);
		writes_admit(f, t);
		break;
	case MODEL_FLUSH:
		flush_begin(f, io, t);
		break;
	case MODEL_DISCARD:
		discard(f, io, t);
		break;
	}
}

/* Fetch commands while there are slots. */
static void io_fetch(struct flash *f, u64 t)
{
	struct model_io *io;
	u32 moved;

	while (f->arrivals.head && f->slots_used < f->p.slots) {
		io = io_fifo_pop(&f->arrivals);
		f->slots_used++;
		f->ctrl_free_ns = max(f->ctrl_free_ns, t) + f->p.ctrl_ns;
		f->ctrl_busy_ns += f->p.ctrl_ns;
		io->event_ns = f->ctrl_free_ns + f->p.cmd_ns;
		f->decoding_others += io->op != MODEL_READ;
		moved = io->op == MODEL_READ || io->op == MODEL_WRITE ?
			io->sectors : 0;
		if (!f->decoding.head || moved < f->decoding_least)
			f->decoding_least = moved;
		io_fifo_push(&f->decoding, io);
	}
}

/* The first command on the bus is through. */
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
	io_fifo_push(&f->arrivals, io);
	io_fetch(f, now);
}

/*
 * All commands leave over the bus, in order, so the first that is on it is the
 * next. While there is none, the bus is idle, and what may come to it first is
 * data from a die, a command that needs no die, or one that waits for programs.
 */
static u64 flash_next(const void *model)
{
	const struct flash *f = model;
	u64 t = f->first_data_ns, decoded;

	if (f->leaving.head)
		return f->leaving.head->event_ns;
	if (f->waiting.head || f->flushing.head)
		t = min(t, f->first_ns);
	if (f->decoding.head) {
		decoded = f->decoding.head->event_ns +
			  transfer_ns((u64)f->decoding_least << MODEL_SECTOR_SHIFT,
				      f->p.bus_mbps);
		t = min(t, decoded + (f->decoding_others ? 0 : f->p.read_ns));
	}
	return t;
}

static void flash_init(void *model, const struct model_params *p, u64 sectors)
{
	struct flash *f = model;
	u32 i;

	f->p = *p;
	f->page_shift = ilog2(p->page_kib) + 1;	/* 2 sectors a KiB */
	f->map_shift = ilog2(p->map_kib) + 1;
	f->program_bytes = p->program_kib << 10;
	f->buffer_bytes = (u64)p->buffer_kib << 10;
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
	/* Else a write could wait for room that only more writes would make. */
	if (p->buffer_kib < p->program_kib + 2 * p->map_kib +
			    MODEL_MAX_BYTES / 1024)
		return "buffer_kib must hold program_kib, 2 * map_kib and a request of 512 KiB";
	return NULL;
}

static u32 flash_parts(const struct model_params *p)
{
	/* One page more for a request that is not aligned to pages. */
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
