// SPDX-License-Identifier: GPL-2.0-only
/*
 * storm - carry out a plan: start processes that read and write a disk, and disturb them. The
 * program checks that each request completes once, in time, with its data.
 *
 *	storm DEVICE SCHEDULER < PLAN
 *
 * A line of the plan is a word and KEY=VALUE pairs (lab/triagelab/check/storm.py makes it):
 *
 *	load ms=N tags=N [slow=N]	the load ends after `ms`; the scheduler has `tags` tags
 *					(0: its default); `slow` multiplies `ms` and the bounds
 *					of waits
 *	process KEY=VALUE ...		one or more equal processes, see struct work
 *	disturb kind=KIND every=US seed=N
 *
 * Each write of a block gives it a new generation, and each sector that is written contains
 * its own number and this generation. All processes know the oldest and newest generation
 * that each block may have. A read must find a generation between these.
 *
 * Exit status: 0, no error was found; 1, an error was found; 2, the plan makes no sense, or a
 * system call failed.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <linux/ioprio.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	SECTOR = 512,
	BLOCK = 4096,
	SECTORS = BLOCK / SECTOR,
	BLOCKS = 2048,		/* of the disk */
	CACHED = 1536,		/* buffered work uses blocks from this on, direct work the others */
	MAX_BLOCKS = 16,	/* of a request */
	MAX_DEPTH = 32,
	MAX_SLOTS = 4096,
	MAX_WORK = 64,
	MAX_DISTURBANCES = 32,
	FIRST_PID = 1000,
	LAST_PID = 32000,
	POLL_MS = 20,
	/* A request is stuck if it has waited, and the device has been idle, for this time. */
	STUCK_MS = 500,
	/*
	 * After the load, these must end one after another, each within this time: the disturbances
	 * that write tunables, the other disturbances, the processes.
	 */
	CALM_MS = 20000,
};

#define STORM "/sys/kernel/debug/storm/"
#define MAGIC 0x73746f726dULL

enum op { READ, WRITE, FUA, FLUSH, DISCARD, OPS };
static const char * const op_names[OPS] = { "read", "write", "fua", "flush", "discard" };

/* Equal processes, from one line of the plan. */
struct work {
	/*
	 * Each of @count processes has @threads threads. A thread makes @requests requests, up to
	 * @depth at once. It submits up to @batch requests together, of up to @blocks blocks each.
	 */
	unsigned int count, threads, depth, batch, blocks, requests;
	unsigned int pid;	/* id of the first process; 0: any */
	unsigned int class, level;	/* class 4: each process has a random priority */
	unsigned int cgroup;	/* number of the control group; 0: that of this program */
	unsigned int first, area;	/* the first block in use, and the number of blocks */
	unsigned int step;	/* sequential: blocks from one request to the next; 0: at random */
	unsigned int share[OPS];	/* of each operation, per cent of the requests */
	/* After one request in @pause_every (0: after none), pause for up to @pause_us. */
	unsigned int pause_us, pause_every;
	bool scattered;		/* process ids are random */
	bool buffered, together;	/* together: threads' blocks are neighbours */
	bool sync;
	uint64_t seed;
};

/* A block's state, shared by all processes. Generation 0: it was never written. */
struct block {
	_Atomic uint32_t last;		/* the newest generation that a write got */
	_Atomic uint32_t oldest;	/* the oldest generation that a read may find */
	_Atomic uint32_t zeroed;	/* the generation that the last discard got */
	_Atomic bool busy;		/* a request is writing or discarding the block */
};

/* A place for a request that has begun and not ended. */
struct slot {
	_Atomic uint64_t since_ns;	/* when the request began; 0: the place is free */
	uint32_t block, process;
	uint8_t op, blocks;
};

static struct shared {
	_Atomic bool stop, failed;
	_Atomic uint32_t slots_taken;
	_Atomic uint64_t requests, longest_ns;
	struct block blocks[BLOCKS];
	struct slot slots[MAX_SLOTS];
} *shared;

/* The plan. */
static unsigned int time_ms, tags, slow = 1;
static struct work works[MAX_WORK];
static unsigned int nr_works;
static struct disturbance {
	char kind[16];
	unsigned int every_us;
	uint64_t seed;
	void (*act)(struct disturbance *d);
	pthread_t thread;
} disturbances[MAX_DISTURBANCES];
static unsigned int nr_disturbances;
static bool may_fail, may_lack_memory, may_idle;

static const char *device, *scheduler;
static const char *name;	/* of the device, without /dev/ */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void sleep_us(uint64_t us)
{
	struct timespec time = { us / 1000000, us % 1000000 * 1000 };

	nanosleep(&time, NULL);
}

/* splitmix64 (Steele, Lea, Flood, 2014) */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static uint32_t below(uint64_t *state, uint32_t bound)
{
	return (draw(state) >> 32) * bound >> 32;
}

/* Report an error if it is the first. Make all processes stop. */
static void __attribute__((format(printf, 1, 2))) wrong(const char *format, ...)
{
	char text[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (!atomic_exchange(&shared->failed, true)) {
		printf("FAIL: %s\n", text);
		fflush(stdout);
	}
	atomic_store(&shared->stop, true);
}

/* -- the data ------------------------------------------------------------- */

struct sector {
	uint64_t magic, number, generation;
	char rest[SECTOR - 24];
};

struct request {
	struct iocb iocb;
	struct sector *data;
	struct slot *slot;
	enum op op;
	uint32_t block, blocks;
	/* Of a write: the generation of each block. Of a read: the oldest that it may find. */
	uint32_t generation[MAX_BLOCKS];
};

/* Take blocks for writing. Cut the request before a block that another request is writing. */
static void take_blocks(struct request *r)
{
	uint32_t i;

	for (i = 0; i < r->blocks; i++)
		if (atomic_exchange(&shared->blocks[r->block + i].busy, true))
			break;
	r->blocks = i;
}

static void prepare(struct request *r)
{
	uint32_t i, s;

	for (i = 0; i < r->blocks; i++) {
		struct block *b = &shared->blocks[r->block + i];

		if (r->op == READ) {
			r->generation[i] = atomic_load(&b->oldest);
			continue;
		}
		r->generation[i] = atomic_load(&b->last) + 1;
		if (r->op == DISCARD)
			atomic_store(&b->zeroed, r->generation[i]);
		atomic_store(&b->last, r->generation[i]);
		for (s = 0; r->op != DISCARD && s < SECTORS; s++) {
			struct sector *sector = &r->data[i * SECTORS + s];

			sector->magic = MAGIC;
			sector->number = (r->block + i) * SECTORS + s;
			sector->generation = r->generation[i];
		}
	}
	/* Spoil the buffer: a sector that the read does not fill must not look right. */
	if (r->op == READ)
		for (s = 0; s < r->blocks * SECTORS; s++)
			r->data[s].magic = ~0ull;
}

static bool sector_is_right(const struct request *r, uint32_t i, uint32_t s)
{
	const struct block *b = &shared->blocks[r->block + i];
	const struct sector *sector = &r->data[i * SECTORS + s];
	const uint64_t number = (r->block + i) * SECTORS + s;
	const uint64_t generation = sector->magic ? sector->generation : atomic_load(&b->zeroed);

	if (sector->magic && (sector->magic != MAGIC || sector->number != number))
		return false;
	return generation >= r->generation[i] && generation <= atomic_load(&b->last);
}

static void check_read(const struct request *r)
{
	uint32_t i, s;

	for (i = 0; i < r->blocks; i++)
		for (s = 0; s < SECTORS; s++)
			if (!sector_is_right(r, i, s)) {
				const struct sector *sector = &r->data[i * SECTORS + s];

				wrong("wrong data: sector %u has magic %llx, number %llu, "
				      "generation %llu; wanted generation %u to %u (zeroed %u)",
				      (r->block + i) * SECTORS + s,
				      (unsigned long long)sector->magic,
				      (unsigned long long)sector->number,
				      (unsigned long long)sector->generation, r->generation[i],
				      atomic_load(&shared->blocks[r->block + i].last),
				      atomic_load(&shared->blocks[r->block + i].zeroed));
				return;
			}
}

/* -- requests ------------------------------------------------------------- */

static void begin(struct request *r, uint32_t process)
{
	r->slot->block = r->block;
	r->slot->process = process;
	r->slot->op = r->op;
	r->slot->blocks = r->blocks;
	atomic_store(&r->slot->since_ns, now_ns());
}

/* End a request: check the kernel's result and the data, and release the blocks. */
static void end(struct request *r, long long result, bool buffered)
{
	const uint64_t since = atomic_exchange(&r->slot->since_ns, 0);
	const uint64_t took = now_ns() - since;
	const bool moves = r->op == READ || r->op == WRITE || r->op == FUA;
	const long long wanted = moves ? r->blocks * BLOCK : 0;
	uint64_t longest = atomic_load(&shared->longest_ns);
	const bool done = result == wanted;
	uint32_t i;

	if (!since)
		wrong("a request for block %u ended twice", r->block);
	while (took > longest &&
	       !atomic_compare_exchange_weak(&shared->longest_ns, &longest, took))
		;
	atomic_fetch_add(&shared->requests, 1);

	/* If a part of the request fails, the result is the length of the data before that part. */
	if (!done && !((result == -EIO || (result >= 0 && result < wanted)) && may_fail) &&
	    !(result == -ENOMEM && may_lack_memory) &&
	    /* EBUSY: another discard uses the page cache. */
	    !(result == -EBUSY && r->op == DISCARD))
		wrong("%s of %u blocks at %u ended with %lld", op_names[r->op], r->blocks,
		      r->block, result);
	if (r->op == READ && done)
		check_read(r);
	if (r->op == READ || r->op == FLUSH)
		return;
	for (i = 0; i < r->blocks; i++) {
		struct block *b = &shared->blocks[r->block + i];

		/* Cached data may be lost later, when its write-back fails. */
		if (done && !(buffered && may_fail))
			atomic_store(&b->oldest, r->generation[i]);
		atomic_store(&b->busy, false);
	}
}

/* A thread that makes requests. */
struct worker {
	const struct work *work;
	uint32_t process, thread;
	uint64_t random;
	uint32_t at;		/* number of requests that it has made */
	int fd;
	struct request requests[MAX_DEPTH];
};

static enum op draw_op(struct worker *w)
{
	uint32_t n = below(&w->random, 100), op;

	for (op = READ; op < OPS - 1 && n >= w->work->share[op]; op++)
		n -= w->work->share[op];
	return op;
}

/* Choose a request and begin it. Return false if another request is writing its first block. */
static bool choose(struct worker *w, struct request *r)
{
	const struct work *work = w->work;
	uint32_t at = w->at++;

	r->op = draw_op(w);
	r->blocks = 1 + below(&w->random, work->blocks);
	if (!work->step)
		at = below(&w->random, work->area);
	else if (work->together)
		at = (at * work->step * work->threads + w->thread) % work->area;
	else
		at = at * work->step % work->area;
	r->block = work->first + at;
	if (r->blocks > work->area - at)
		r->blocks = work->area - at;
	if (r->op == FLUSH) {
		r->blocks = 0;
	} else if (r->op != READ) {
		take_blocks(r);
		if (!r->blocks)
			return false;
	}
	prepare(r);
	begin(r, w->process);
	return true;
}

static long long carry_out(struct worker *w, struct request *r)
{
	const struct iovec iov = { r->data, r->blocks * BLOCK };
	const off_t offset = (off_t)r->block * BLOCK;
	uint64_t range[2] = { offset, r->blocks * BLOCK };
	long ret = 0;

	switch (r->op) {
	case READ:
		ret = preadv(w->fd, &iov, 1, offset);
		break;
	case WRITE:
		ret = pwritev(w->fd, &iov, 1, offset);
		break;
	case FUA:
		ret = pwritev2(w->fd, &iov, 1, offset, RWF_DSYNC);
		break;
	case FLUSH:
		ret = fdatasync(w->fd);
		break;
	case DISCARD:
		ret = ioctl(w->fd, BLKDISCARD, range);
		break;
	default:
		break;
	}
	return ret < 0 ? -errno : ret;
}

static void pause_now_and_then(struct worker *w)
{
	const struct work *work = w->work;

	if (work->pause_every && !below(&w->random, work->pause_every))
		sleep_us(below(&w->random, work->pause_us));
}

static bool goes_on(const struct worker *w)
{
	return !atomic_load(&shared->stop) && w->at < w->work->requests;
}

/* Make one request at a time. */
static void work_sync(struct worker *w)
{
	struct request *r = &w->requests[0];

	while (goes_on(w)) {
		if (choose(w, r))
			end(r, carry_out(w, r), w->work->buffered);
		/* Drop cached data now and then, so that reads go to the disk again. */
		if (w->work->buffered && !below(&w->random, 8))
			posix_fadvise(w->fd, 0, 0, POSIX_FADV_DONTNEED);
		pause_now_and_then(w);
	}
}

/* Fill in a request's iocb. One request in 16 has a priority of its own. */
static void describe(struct worker *w, struct request *r)
{
	static const int opcodes[OPS] = {
		IOCB_CMD_PREAD, IOCB_CMD_PWRITE, IOCB_CMD_PWRITE, IOCB_CMD_FDSYNC,
	};

	r->iocb = (struct iocb){
		.aio_data = (uintptr_t)r,
		.aio_fildes = w->fd,
		.aio_lio_opcode = opcodes[r->op],
		.aio_buf = (uintptr_t)r->data,
		.aio_nbytes = r->blocks * BLOCK,
		.aio_offset = (int64_t)r->block * BLOCK,
		.aio_rw_flags = r->op == FUA ? RWF_DSYNC : 0,
	};
	if (r->op == FLUSH)
		r->iocb.aio_buf = r->iocb.aio_nbytes = r->iocb.aio_offset = 0;
	else if (!below(&w->random, 16)) {
		r->iocb.aio_flags = IOCB_FLAG_IOPRIO;
		r->iocb.aio_reqprio = (1 + below(&w->random, 3)) << IOPRIO_CLASS_SHIFT |
				      below(&w->random, 8);
	}
}

/* Make several requests at once, submitted in batches. */
static void work_async(struct worker *w)
{
	struct request *idle[MAX_DEPTH];
	uint32_t nr_idle = w->work->depth, in_flight = 0, i;
	struct io_event events[MAX_DEPTH];
	struct iocb *batch[MAX_DEPTH];
	aio_context_t context = 0;
	long n, submitted;

	if (syscall(SYS_io_setup, MAX_DEPTH, &context))
		err(2, "io_setup");
	for (i = 0; i < nr_idle; i++)
		idle[i] = &w->requests[i];
	while (goes_on(w) || in_flight) {
		uint32_t nr = 0, wanted = 1 + below(&w->random, w->work->batch);

		while (goes_on(w) && nr_idle && nr < wanted) {
			struct request *r = idle[nr_idle - 1];

			if (!choose(w, r))
				break;
			if (r->op == DISCARD) {
				end(r, carry_out(w, r), false);
				continue;
			}
			describe(w, r);
			batch[nr++] = &r->iocb;
			nr_idle--;
		}
		for (submitted = 0; submitted < nr; submitted += n) {
			n = syscall(SYS_io_submit, context, nr - submitted, batch + submitted);
			if (n <= 0) {
				struct iocb *refused = batch[submitted];

				if (errno != EAGAIN && !may_lack_memory)
					err(2, "io_submit");
				/* The kernel has not taken the request: end it here. */
				idle[nr_idle++] = (struct request *)(uintptr_t)refused->aio_data;
				end(idle[nr_idle - 1], -ENOMEM, false);
				n = 1;
				in_flight--;
			}
			in_flight += n;
		}
		if (!in_flight)
			continue;
		n = syscall(SYS_io_getevents, context, goes_on(w) && nr_idle ? 0 : 1, MAX_DEPTH,
			    events, NULL);
		if (n < 0 && errno != EINTR)
			err(2, "io_getevents");
		for (i = 0; n > 0 && i < n; i++) {
			struct request *r = (struct request *)(uintptr_t)events[i].data;

			end(r, events[i].res, false);
			idle[nr_idle++] = r;
			in_flight--;
		}
		pause_now_and_then(w);
	}
	syscall(SYS_io_destroy, context);
}

static void *work_thread(void *argument)
{
	struct worker *w = argument;
	const uint32_t depth = w->work->sync || w->work->buffered ? 1 : w->work->depth;
	uint32_t i;

	w->fd = open(device, O_RDWR | O_CLOEXEC | (w->work->buffered ? 0 : O_DIRECT));
	if (w->fd < 0)
		err(2, "%s", device);
	for (i = 0; i < depth; i++) {
		const uint32_t slot = atomic_fetch_add(&shared->slots_taken, 1);
		const size_t bytes = w->work->blocks * BLOCK;

		if (slot >= MAX_SLOTS)
			errx(2, "the plan has too many requests at once");
		w->requests[i].slot = &shared->slots[slot];
		w->requests[i].data = aligned_alloc(BLOCK, bytes);
		memset(w->requests[i].data, 0, bytes);
	}
	if (w->work->sync || w->work->buffered)
		work_sync(w);
	else
		work_async(w);
	close(w->fd);
	return NULL;
}

/* -- processes ------------------------------------------------------------ */

static bool put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool written;

	if (fd < 0)
		return false;
	written = write(fd, text, strlen(text)) >= 0;
	close(fd);
	return written;
}

static bool __attribute__((format(printf, 2, 3))) putf(const char *path, const char *format, ...)
{
	char text[64];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return put(path, text);
}

/* Read a file. Return the length read, -1 if that fails. */
static int get(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read(fd, text, size - 1);
	close(fd);
	if (n >= 0)
		text[n] = '\0';
	return n;
}

/* Plans number their control groups from 1 to CGROUPS. */
#define CGROUPS 3

static void join_cgroup(unsigned int number)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/fs/cgroup/storm%u", number);
	if (mkdir(path, 0755) && errno != EEXIST)
		return;		/* the kernel has no cgroup v2 */
	strcat(path, "/cgroup.procs");
	put(path, "0");
	/* Only schedulers that share by weight have this file. For others this does nothing. */
	snprintf(path, sizeof(path), "/sys/fs/cgroup/storm%u/io.triage.weight", number);
	putf(path, "%u", number * 200);
}

/* Remove a control group if it has no process. This tests schedulers that keep pointers to it. */
static void remove_cgroup(unsigned int number)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/fs/cgroup/storm%u", number);
	rmdir(path);
}

static void be_process(const struct work *work, uint32_t process, uint64_t seed)
{
	static struct worker workers[16];
	pthread_t threads[16];
	const uint32_t class = work->class > IOPRIO_CLASS_IDLE ? below(&seed, 4) : work->class;
	const uint32_t level = work->class > IOPRIO_CLASS_IDLE ? below(&seed, 8) : work->level;
	uint32_t i;

	if (work->cgroup)
		join_cgroup(work->cgroup);
	syscall(SYS_ioprio_set, 1, 0, class << IOPRIO_CLASS_SHIFT |
		(class == IOPRIO_CLASS_NONE ? 0 : level));
	for (i = 0; i < work->threads; i++) {
		workers[i].work = work;
		workers[i].process = process;
		workers[i].thread = i;
		workers[i].random = draw(&seed);
		if (i && pthread_create(&threads[i], NULL, work_thread, &workers[i]))
			errx(2, "no thread");
	}
	work_thread(&workers[0]);
	for (i = 1; i < work->threads; i++)
		pthread_join(threads[i], NULL);
	_exit(0);
}

/* Give the next process this id, or the next one that is free. */
static void choose_pid(unsigned int pid)
{
	putf("/proc/sys/kernel/ns_last_pid", "%u", pid - 1);
}

static uint32_t start_processes(void)
{
	uint32_t process = 0, i, n;

	for (i = 0; i < nr_works; i++)
		for (n = 0; n < works[i].count; n++, process++) {
			uint64_t seed = works[i].seed + n;
			pid_t pid;

			if (works[i].pid && !n)
				choose_pid(works[i].pid);
			if (works[i].scattered)
				choose_pid(FIRST_PID + below(&seed, LAST_PID - FIRST_PID));
			pid = fork();
			if (pid < 0)
				err(2, "fork");
			if (!pid)
				be_process(&works[i], process, draw(&seed));
		}
	return process;
}

/* -- disturbances --------------------------------------------------------- */

static void queue_path(char *path, const char *file)
{
	sprintf(path, "/sys/block/%s/queue/%s", name, file);
}

static void choose_scheduler(const char *which)
{
	char path[128];

	queue_path(path, "scheduler");
	put(path, which);
}

static void set_tags(unsigned int number)
{
	char path[128];

	queue_path(path, "nr_requests");
	putf(path, "%u", number);
}

/* Choose the tested scheduler, with as many tags as the plan says. */
static void choose_ours(void)
{
	choose_scheduler(scheduler);
	if (!tags)
		return;
	/* Later releases of 6.12 tell the scheduler the number from before a write: write twice. */
	set_tags(tags - 1);
	set_tags(tags);
}

static void act_scheduler(struct disturbance *d)
{
	choose_scheduler(below(&d->seed, 3) ? "none" : "mq-deadline");
	sleep_us(below(&d->seed, 2000));
	choose_ours();
}

/* Unload the scheduler; choosing it loads it again. */
static void act_unload(struct disturbance *d)
{
	char module[64], *c;

	choose_scheduler("none");
	snprintf(module, sizeof(module), "%s-iosched", scheduler);
	for (c = module; *c; c++)
		if (*c == '-')
			*c = '_';
	if (syscall(SYS_delete_module, module, O_NONBLOCK) && errno == ENOENT)
		syscall(SYS_delete_module, scheduler, O_NONBLOCK);
	sleep_us(below(&d->seed, 2000));
	choose_ours();
}

static void act_resize(struct disturbance *d)
{
	set_tags(4u << below(&d->seed, 8));
}

static void act_hotplug(struct disturbance *d)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online",
		 1 + below(&d->seed, sysconf(_SC_NPROCESSORS_CONF) - 1));
	put(path, "0");
	sleep_us(below(&d->seed, 5000));
	put(path, "1");
}

static void act_freeze(struct disturbance *d)
{
	putf(STORM "freeze", "%u", 1 + below(&d->seed, 2000));
}

static void act_quiesce(struct disturbance *d)
{
	putf(STORM "quiesce", "%u", 1 + below(&d->seed, 20000));
}

static void act_passthrough(struct disturbance *d)
{
	putf(STORM "passthrough", "%u", below(&d->seed, 2));
}

static void fault(struct disturbance *d, const char *path, uint32_t most_ppm)
{
	putf(path, "%u", below(&d->seed, most_ppm));
	sleep_us(below(&d->seed, 20000));
	put(path, "0");
}

static void act_errors(struct disturbance *d)
{
	fault(d, STORM "error_ppm", 200000);
}

static void act_requeues(struct disturbance *d)
{
	fault(d, STORM "requeue_ppm", 500000);
}

static void act_refusals(struct disturbance *d)
{
	fault(d, STORM "refuse_ppm", 500000);
}

static void act_stalls(struct disturbance *d)
{
	fault(d, STORM "stall_ppm", 50000);
}

/* Set @path to a random file of a folder. Return false if there is none. */
static bool any_file(struct disturbance *d, const char *folder, char *path, size_t size)
{
	struct dirent *entry;
	uint32_t seen = 0;
	DIR *open = opendir(folder);

	if (!open)
		return false;
	while ((entry = readdir(open)))
		if (entry->d_type == DT_REG && !below(&d->seed, ++seen))
			snprintf(path, size, "%s/%s", folder, entry->d_name);
	closedir(open);
	return seen;
}

static struct tunable {
	char path[160], value[32];
} tunables[64];
static uint32_t nr_tunables;

static void remember_tunables(void)
{
	char folder[128];
	struct dirent *entry;
	DIR *open;

	queue_path(folder, "iosched");
	open = opendir(folder);
	while (open && (entry = readdir(open)) && nr_tunables < 64) {
		struct tunable *t = &tunables[nr_tunables];

		snprintf(t->path, sizeof(t->path), "%.80s/%.60s", folder, entry->d_name);
		if (entry->d_type == DT_REG && get(t->path, t->value, sizeof(t->value)) > 0)
			nr_tunables++;
	}
	if (open)
		closedir(open);
}

static void restore_tunables(void)
{
	uint32_t i;

	for (i = 0; i < nr_tunables; i++)
		put(tunables[i].path, tunables[i].value);
}

/* Write to a tunable: its first value, or a random one, which it may refuse. */
static void act_tunables(struct disturbance *d)
{
	const struct tunable *t = &tunables[below(&d->seed, nr_tunables ?: 1)];

	if (!nr_tunables)
		return;
	switch (below(&d->seed, 3)) {
	case 0:
		put(t->path, t->value);
		break;
	case 1:
		putf(t->path, "%u", below(&d->seed, 3));
		break;
	default:
		putf(t->path, "%u", below(&d->seed, 2u << below(&d->seed, 20)));
		break;
	}
}

static void poll_file(const char *path)
{
	const char *file = strrchr(path, '/') + 1;
	char text[4096];

	if (get(path, text, sizeof(text)) > 0 && !strcmp(file, "audit") && strncmp(text, "ok", 2))
		wrong("audit says: %s", text);
}

static void act_debugfs(struct disturbance *d)
{
	static const char * const folders[] = { "", "/sched", "/sched", "/hctx0", "/hctx1" };
	char folder[128], path[512];

	snprintf(folder, sizeof(folder), "/sys/kernel/debug/block/%s%s", name,
		 folders[below(&d->seed, 5)]);
	/* Only read the file, although some ("state", "*_busy") can be written too. */
	if (any_file(d, folder, path, sizeof(path)))
		poll_file(path);
}

static void act_sysfs(struct disturbance *d)
{
	char folder[128], path[512];

	queue_path(folder, below(&d->seed, 2) ? "iosched" : "");
	if (any_file(d, folder, path, sizeof(path)))
		poll_file(path);
}

/* Let one allocation fail while the scheduler is chosen. */
static void act_allocations(struct disturbance *d)
{
	choose_scheduler("none");
	putf("/proc/thread-self/fail-nth", "%u", 1 + below(&d->seed, 60));
	choose_ours();
	put("/proc/thread-self/fail-nth", "0");
	choose_ours();
}

static const struct kind {
	const char *name;
	void (*act)(struct disturbance *d);
} kinds[] = {
	{ "scheduler", act_scheduler }, { "unload", act_unload }, { "resize", act_resize },
	{ "hotplug", act_hotplug }, { "freeze", act_freeze }, { "quiesce", act_quiesce },
	{ "passthrough", act_passthrough }, { "errors", act_errors },
	{ "requeues", act_requeues }, { "refusals", act_refusals }, { "stalls", act_stalls },
	{ "tunables", act_tunables }, { "debugfs", act_debugfs }, { "sysfs", act_sysfs },
	{ "allocations", act_allocations },
};

static void *disturb(void *argument)
{
	struct disturbance *d = argument;

	while (!atomic_load(&shared->stop)) {
		sleep_us(below(&d->seed, 2 * d->every_us));
		if (!atomic_load(&shared->stop))
			d->act(d);
	}
	return NULL;
}

/* -- the plan ------------------------------------------------------------- */

static uint64_t value(const char *line, const char *key, uint64_t otherwise)
{
	char wanted[32];
	const char *found;

	snprintf(wanted, sizeof(wanted), " %s=", key);
	found = strstr(line, wanted);
	return found ? strtoull(found + strlen(wanted), NULL, 0) : otherwise;
}

static void read_process(const char *line)
{
	struct work *w = &works[nr_works++];
	uint32_t op;

	if (nr_works > MAX_WORK)
		errx(2, "too many lines");
	*w = (struct work){
		.count = value(line, "count", 1),
		.threads = value(line, "threads", 1),
		.depth = value(line, "depth", 1),
		.batch = value(line, "batch", 1),
		.blocks = value(line, "blocks", 1),
		.requests = value(line, "requests", 100),
		.pid = value(line, "pid", 0),
		.class = value(line, "class", 0),
		.level = value(line, "level", 0),
		.cgroup = value(line, "cgroup", 0),
		.step = value(line, "step", 0),
		.pause_us = value(line, "pause_us", 1),
		.pause_every = value(line, "pause_every", 0),
		.buffered = value(line, "buffered", 0),
		.together = value(line, "together", 0),
		.sync = value(line, "sync", 1),
		.scattered = value(line, "scattered", 0),
		.seed = value(line, "seed", 0),
	};
	w->first = value(line, "first", w->buffered ? CACHED : 0);
	w->area = value(line, "area", (w->buffered ? BLOCKS : CACHED) - w->first);
	for (op = WRITE; op < OPS; op++)
		w->share[op] = value(line, op_names[op], 0);
	w->share[READ] = 100 - w->share[WRITE] - w->share[FUA] - w->share[FLUSH] -
			 w->share[DISCARD];
	if (w->blocks > MAX_BLOCKS || w->depth > MAX_DEPTH || w->batch > MAX_DEPTH ||
	    w->threads > 16 || w->first + w->area > (w->buffered ? BLOCKS : CACHED) ||
	    w->share[READ] > 100)
		errx(2, "cannot make sense of: %s", line);
}

static void read_disturbance(const char *line)
{
	struct disturbance *d = &disturbances[nr_disturbances++];
	size_t i;

	if (nr_disturbances > MAX_DISTURBANCES ||
	    sscanf(line, "disturb kind=%15s", d->kind) != 1)
		errx(2, "cannot make sense of: %s", line);
	d->every_us = value(line, "every", 1000);
	d->seed = value(line, "seed", 0);
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].name, d->kind))
			d->act = kinds[i].act;
	if (!d->act)
		errx(2, "unknown disturbance: %s", d->kind);
	may_fail |= !strcmp(d->kind, "errors");
	may_lack_memory |= !strcmp(d->kind, "allocations");
	may_idle |= !strcmp(d->kind, "tunables");
}

static void read_plan(void)
{
	char line[512];

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "load ", 5)) {
			time_ms = value(line, "ms", 0);
			tags = value(line, "tags", 0);
			slow = value(line, "slow", 1);
		} else if (!strncmp(line, "process ", 8)) {
			read_process(line);
		} else if (!strncmp(line, "disturb ", 8)) {
			read_disturbance(line);
		} else {
			errx(2, "cannot make sense of: %s", line);
		}
	}
}

/* -- watching ------------------------------------------------------------- */

static const struct slot *oldest_request(void)
{
	const uint32_t taken = atomic_load(&shared->slots_taken);
	const struct slot *oldest = NULL;
	uint64_t since, found = UINT64_MAX;
	uint32_t i;

	for (i = 0; i < taken && i < MAX_SLOTS; i++) {
		since = atomic_load(&shared->slots[i].since_ns);
		if (since && since < found) {
			found = since;
			oldest = &shared->slots[i];
		}
	}
	return oldest;
}

static void tell_requests(void)
{
	const uint32_t taken = atomic_load(&shared->slots_taken);
	const uint64_t now = now_ns();
	uint32_t i, told = 0;

	for (i = 0; i < taken && i < MAX_SLOTS; i++) {
		const struct slot *s = &shared->slots[i];
		const uint64_t since = atomic_load(&s->since_ns);

		if (since && told++ < 20)
			printf("  waits: %s of %u blocks at %u, process %u, for %llu ms\n",
			       op_names[s->op], s->blocks, s->block, s->process,
			       (unsigned long long)(now - since) / 1000000);
	}
	printf("  %u requests wait\n", told);
}

/* Copy the CPUs' latest yield points to out/last, before other work adds more. Do it only once. */
static void keep_last(void)
{
	static bool kept;
	char text[4096];
	ssize_t n;
	int from, to;

	if (kept)
		return;
	kept = true;
	from = open(STORM "last", O_RDONLY);
	to = open("out/last", O_WRONLY | O_CREAT | O_TRUNC, 0644);
	while ((n = read(from, text, sizeof(text))) > 0 && write(to, text, n) == n)
		;
	close(from);
	close(to);
}

static uint64_t device_idle_ms(void)
{
	char text[256];
	const char *found;

	if (get(STORM "disk", text, sizeof(text)) < 0)
		return 0;
	found = strstr(text, "idle_ms ");
	return found ? strtoull(found + 8, NULL, 10) : 0;
}

static void look_for_stuck(void)
{
	const struct slot *oldest = oldest_request();
	const uint64_t since = oldest ? atomic_load(&oldest->since_ns) : 0;
	const uint64_t bound_ms = STUCK_MS * slow;

	if (!may_idle && since && now_ns() - since > bound_ms * 1000000 &&
	    device_idle_ms() > bound_ms)
		wrong("a request waits though the device has had nothing to do for %llu ms",
		      (unsigned long long)bound_ms);
}

/* Wait for @left processes, until @until_ns at most. Return how many have not ended. */
static uint32_t await(uint32_t left, uint64_t until_ns)
{
	unsigned int i;
	int status;

	while (left && now_ns() < until_ns && !atomic_load(&shared->failed)) {
		pid_t pid = waitpid(-1, &status, WNOHANG);

		if (pid > 0) {
			left--;
			if (status)
				wrong("a process ended with status %x", status);
			for (i = 1; i <= CGROUPS; i++)
				remove_cgroup(i);
			continue;
		}
		look_for_stuck();
		sleep_us(POLL_MS * 1000);
	}
	return left;
}

static void check_audit(void)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/kernel/debug/block/%s/sched/audit", name);
	poll_file(path);
}

/*
 * With @of_tunables wait until the disturbances that write tunables have ended, else until all
 * others have. A disturbance may have to wait for a request. Return false if a disturbance has not
 * ended at @until_ns.
 */
static bool disturbances_end(bool of_tunables, uint64_t until_ns)
{
	uint32_t i;

	for (i = 0; i < nr_disturbances; i++) {
		struct timespec until = { until_ns / 1000000000, until_ns % 1000000000 };

		if ((disturbances[i].act == act_tunables) != of_tunables)
			continue;
		if (pthread_clockjoin_np(disturbances[i].thread, NULL, CLOCK_MONOTONIC, &until)) {
			wrong("%s does not end", disturbances[i].kind);
			return false;
		}
	}
	return true;
}

int main(int argc, char **argv)
{
	uint32_t left, i;

	if (argc != 3)
		errx(2, "usage: storm DEVICE SCHEDULER < PLAN");
	device = argv[1];
	name = strrchr(device, '/') + 1;
	scheduler = argv[2];
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (shared == MAP_FAILED)
		err(2, "mmap");
	setvbuf(stdout, NULL, _IOLBF, 0);
	read_plan();
	choose_ours();
	remember_tunables();
	if (!mount("cgroup", "/sys/fs/cgroup", "cgroup2", 0, NULL))
		put("/sys/fs/cgroup/cgroup.subtree_control", "+io");

	left = start_processes();
	for (i = 0; i < nr_disturbances; i++)
		if (pthread_create(&disturbances[i].thread, NULL, disturb, &disturbances[i]))
			errx(2, "no thread");
	left = await(left, now_ns() + time_ms * 1000000ull * slow);
	atomic_store(&shared->stop, true);
	if (!atomic_load(&shared->failed) &&
	    disturbances_end(true, now_ns() + CALM_MS * 1000000ull * slow)) {
		if (left)
			keep_last();
		/* Remove all limits: passthrough may wait for a tag that a held request has. */
		restore_tunables();
	}
	if (!atomic_load(&shared->failed) &&
	    disturbances_end(false, now_ns() + CALM_MS * 1000000ull * slow)) {
		left = await(left, now_ns() + CALM_MS * 1000000ull * slow);
		if (left && !atomic_load(&shared->failed))
			wrong("%u processes do not end", left);
		check_audit();
	}
	if (atomic_load(&shared->failed)) {
		keep_last();
		tell_requests();
		/* Use _exit(), because threads that wait for a request could hold up exit(). */
		fflush(stdout);
		_exit(1);
	}
	printf("measured: %llu requests, longest wait %llu ms\n",
	       (unsigned long long)atomic_load(&shared->requests),
	       (unsigned long long)atomic_load(&shared->longest_ns) / 1000000);
	return 0;
}
