// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs jobs on a model of kernel/modeldisk in user space, with a clock that jumps
 * from event to event, and prints their results as JSON.
 *
 *   simulate PROFILE [PARAMETER=N]... [SETTING=N]... JOB...
 *
 * PARAMETER is one of model-params.h. SETTING is size_mib, time_ms, warmup_ms (a time
 * at the start that does not count), interval_ms (if given, the program prints the bytes
 * moved in each interval of this length) or seed. JOB is
 * NAME:OP:PATTERN:BYTES:DEPTH[:KEY=N]... Without a rate, a job has DEPTH commands in
 * progress: it sends another when one has ended.
 *
 *   OP       read, write, fua, flush, discard
 *   PATTERN  random, sequential, or alternate (between two places that are span apart)
 *   offset, span  the part of the device in use, in bytes; default all of it
 *   host_ns  the host's time to submit a command; the job submits one at a time
 *   think_ns a pause between completion and the next command
 *   limit    total number of commands
 *   queue    the hardware queue; default 0
 *   rate     commands a second, at exponentially distributed intervals; the
 *            job waits while DEPTH of them are in the device, and then catches up
 *
 * "trace" in the results is a hash over all commands that have ended: their jobs, and the times
 * when the jobs wanted them and when they ended. Two runs have the same hash if no command differs
 * by a ns.
 *
 * Exit status 1: bad arguments, or no memory. 3: the model broke a rule of its interface: it
 * completed a command before the time that its next() had returned, or in the future, or
 * next() returned a time that had already passed.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../kernel/modeldisk/model.h"

#define MAX_JOBS	256
#define MAX_NAME	32

struct job {
	char name[MAX_NAME];
	enum model_op op;
	bool fua;
	char pattern[MAX_NAME];
	u64 bytes, depth, offset, span, host_ns, think_ns, limit, queue, rate;

	u64 host_free_ns;	/* when the host will have submitted all commands so far */
	u64 arrival_ns;		/* when the rate asks for the latest command */
	u64 next_offset;
	u64 begun;
	struct slot *head, **tail;	/* slots to submit, in order */
	u64 *latencies;
	size_t ended, room;
	u64 *intervals;
};

/* A place for one of a job's DEPTH commands. When a command ends, the next one takes its place. */
struct slot {
	struct slot *next;
	struct job *job;
	u64 asked_ns;		/* the time at which the job wanted the command */
	u64 submit_ns;
	struct model_io *io;
};

static struct model_params params;
static const struct model_profile *profile;
static u64 size_mib, time_ms = 1000, warmup_ms, interval_ms, seed = 1;
static struct job jobs[MAX_JOBS];
static size_t nr_jobs;
static u64 trace = 0xcbf29ce484222325ULL;	/* FNV-1a, a word at a time */

static void fail(const char *what, const char *which)
{
	fprintf(stderr, "simulate: %s: %s\n", what, which);
	exit(1);
}

static void *make(size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		fail("no memory", "calloc");
	return memory;
}

static u64 random64(void)
{
	u64 z = seed += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* --- arguments --- */

static u64 number(const char *text, const char *which)
{
	char *end;
	u64 value = strtoull(text, &end, 0);

	if (!*text || *end)
		fail("not a number", which);
	return value;
}

static bool set_param(const char *name, u64 value)
{
#define PARAM(param, smallest, largest, flags)				\
	if (!strcmp(name, #param)) {					\
		/* + 1: gcc warns of "value < 0" */			\
		if (value + 1 < (smallest) + 1 || value > (largest))	\
			fail("out of bounds", name);			\
		params.param = value;					\
		return true;						\
	}
#include "../../kernel/modeldisk/model-params.h"
	return false;
}

static void set(const char *name, const char *text)
{
	static const struct { const char *name; u64 *value; } settings[] = {
		{ "size_mib", &size_mib }, { "time_ms", &time_ms },
		{ "warmup_ms", &warmup_ms }, { "interval_ms", &interval_ms },
		{ "seed", &seed },
	};
	u64 value = number(text, name);

	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		if (!strcmp(name, settings[i].name)) {
			*settings[i].value = value;
			return;
		}
	if (!set_param(name, value))
		fail("no such parameter", name);
}

static void set_job(struct job *job, const char *name, const char *text)
{
	u64 value = number(text, name);

	if (!strcmp(name, "offset"))
		job->offset = value;
	else if (!strcmp(name, "span"))
		job->span = value;
	else if (!strcmp(name, "host_ns"))
		job->host_ns = value;
	else if (!strcmp(name, "think_ns"))
		job->think_ns = value;
	else if (!strcmp(name, "limit"))
		job->limit = value;
	else if (!strcmp(name, "queue"))
		job->queue = value;
	else if (!strcmp(name, "rate"))
		job->rate = value;
	else
		fail("no such key of a job", name);
}

static enum model_op parse_op(const char *name, bool *fua)
{
	static const char *const ops[] = {
		[MODEL_READ] = "read", [MODEL_WRITE] = "write",
		[MODEL_FLUSH] = "flush", [MODEL_DISCARD] = "discard",
	};

	*fua = !strcmp(name, "fua");
	if (*fua)
		return MODEL_WRITE;
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		if (!strcmp(name, ops[i]))
			return i;
	fail("no such operation", name);
	return MODEL_READ;
}

static char *field(char **rest, const char *what)
{
	char *text = strsep(rest, ":");

	if (!text || !*text)
		fail("a job lacks a field", what);
	return text;
}

/* The kernel sends flushes without data, and modeldisk limits the data of reads and writes. */
static void check_bytes(const struct job *job)
{
	if (job->op == MODEL_FLUSH) {
		if (job->bytes)
			fail("a flush has 0 bytes", job->name);
		return;
	}
	if (!job->bytes || job->bytes % 512)
		fail("not a whole number of sectors", job->name);
	if (job->op != MODEL_DISCARD && job->bytes > MODEL_MAX_BYTES)
		fail("more than 512 KiB", job->name);
}

static void add_job(char *text)
{
	struct job *job = &jobs[nr_jobs++];
	char *key;

	if (nr_jobs > MAX_JOBS)
		fail("too many jobs", text);
	snprintf(job->name, MAX_NAME, "%s", field(&text, "name"));
	job->op = parse_op(field(&text, "operation"), &job->fua);
	snprintf(job->pattern, MAX_NAME, "%s", field(&text, "pattern"));
	job->bytes = number(field(&text, "bytes"), "bytes");
	check_bytes(job);
	job->depth = number(field(&text, "depth"), "depth");
	job->limit = U64_MAX;
	while ((key = strsep(&text, ":"))) {
		char *value = strchr(key, '=');

		if (!value)
			fail("not key=number", key);
		*value++ = '\0';
		set_job(job, key, value);
	}
	if (job->queue >= MODEL_MAX_QUEUES)
		fail("no such hardware queue", job->name);
	if (!job->span)
		job->span = (size_mib << 20) - job->offset;
}

/* --- jobs --- */

static u64 next_offset(struct job *job)
{
	u64 offset = job->next_offset;

	if (!strcmp(job->pattern, "random"))
		return random64() % (job->span / job->bytes) * job->bytes;
	if (!strcmp(job->pattern, "sequential"))
		job->next_offset = offset + 2 * job->bytes <= job->span ?
				   offset + job->bytes : 0;
	else if (!strcmp(job->pattern, "alternate"))
		job->next_offset = offset ? 0 : job->span;
	else
		fail("no such pattern", job->pattern);
	return offset;
}

/* Draw an exponentially distributed time between two arrivals, at @rate arrivals a second. */
static u64 interval_ns(u64 rate)
{
	double share = ((random64() >> 11) + 1) * 0x1p-53;	/* 0 < share <= 1 */

	return -log(share) * 1e9 / rate;
}

/* Queue the job's next command, which it wants at @t or later. Submission takes host_ns. */
static void ask(struct slot *slot, u64 t)
{
	struct job *job = slot->job;

	if (job->begun++ >= job->limit)
		return;
	if (job->rate) {
		job->arrival_ns += interval_ns(job->rate);
		t = max(t, job->arrival_ns);
	}
	slot->asked_ns = t;
	job->host_free_ns = max(job->host_free_ns, t) + job->host_ns;
	slot->submit_ns = job->host_free_ns;
	slot->next = NULL;
	if (job->head)
		*job->tail = slot;
	else
		job->head = slot;
	job->tail = &slot->next;
}

static void start_jobs(u32 parts)
{
	for (struct job *job = jobs; job < jobs + nr_jobs; job++) {
		struct slot *slots = make(job->depth * sizeof(*slots));

		if (interval_ms)
			job->intervals = make((time_ms / interval_ms + 1) *
					      sizeof(u64));
		for (u64 i = 0; i < job->depth; i++) {
			slots[i].job = job;
			slots[i].io = make(sizeof(struct model_io) +
					   parts * sizeof(struct model_part) +
					   sizeof(struct slot *));
			ask(&slots[i], 0);
		}
	}
}

/* Return the place of the pointer to a command's slot: behind the command's parts. */
static struct slot **slot_of(struct model_io *io, u32 parts)
{
	return (struct slot **)&io->parts[parts];
}

/* Return the job whose next command must be submitted first; NULL if no job has a command. */
static struct job *first_job(void)
{
	struct job *first = NULL;

	for (struct job *job = jobs; job < jobs + nr_jobs; job++)
		if (job->head && (!first ||
				  job->head->submit_ns < first->head->submit_ns))
			first = job;
	return first;
}

static void submit(void *model, struct job *job, struct io_fifo *done, u32 parts)
{
	struct slot *slot = job->head;
	struct model_io *io = slot->io;
	bool moves = job->op != MODEL_FLUSH;

	job->head = slot->next;
	io->op = job->op;
	io->fua = job->fua;
	io->queue = job->queue;
	io->sector = moves ? (job->offset + next_offset(job)) >> 9 : 0;
	io->sectors = moves ? job->bytes >> 9 : 0;
	*slot_of(io, parts) = slot;
	profile->model->submit(model, io, slot->submit_ns, done);
}

static void hash(u64 word)
{
	trace = (trace ^ word) * 0x100000001b3ULL;
}

static void record(struct slot *slot, u64 t)
{
	struct job *job = slot->job;

	hash(job - jobs);
	hash(slot->asked_ns);
	hash(t);
	if (interval_ms && t / 1000000 < time_ms)
		job->intervals[t / 1000000 / interval_ms] += job->bytes;
	if (t < warmup_ms * 1000000)
		return;
	if (job->ended == job->room) {
		job->room = job->room ? job->room * 2 : 1024;
		job->latencies = realloc(job->latencies, job->room * sizeof(u64));
		if (!job->latencies)
			fail("no memory", "realloc");
	}
	job->latencies[job->ended++] = t - slot->asked_ns;
}

/* Run the jobs until time_ms. Return the number of times that the driver's timer expired. */
static u64 run(void *model)
{
	u32 parts = profile->model->parts(&params);
	u64 end = time_ms * 1000000, now = 0, wakes = 0;
	struct io_fifo done = { 0 };

	start_jobs(parts);
	for (;;) {
		u64 promised = profile->model->next(model);
		struct job *job = first_job();
		u64 asked = job ? job->head->submit_ns : U64_MAX;
		struct model_io *io;

		if (promised < now) {
			fprintf(stderr, "simulate: promised the past\n");
			exit(3);
		}
		now = min(promised, asked);
		if (now >= end)
			return wakes;
		if (asked <= promised) {
			submit(model, job, &done, parts);
		} else {
			wakes++;
			profile->model->advance(model, now, &done);
		}
		while ((io = io_fifo_pop(&done))) {
			struct slot *slot = *slot_of(io, parts);

			if (io->done_ns < promised || io->done_ns > now) {
				fprintf(stderr, "simulate: broken promise\n");
				exit(3);
			}
			record(slot, io->done_ns);
			ask(slot, io->done_ns + slot->job->think_ns);
		}
	}
}

/* --- results --- */

static int compare(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return (x > y) - (x < y);
}

static u64 percentile(const struct job *job, double share)
{
	size_t rank = share * job->ended;

	return job->ended ? job->latencies[min(rank, job->ended - 1)] : 0;
}

static void print_job(struct job *job)
{
	double seconds = (time_ms - warmup_ms) / 1e3, sum = 0;

	qsort(job->latencies, job->ended, sizeof(u64), compare);
	for (size_t i = 0; i < job->ended; i++)
		sum += job->latencies[i];
	printf("\"%s\": {\"ios\": %zu, \"iops\": %.3f, \"bytes_per_s\": %.0f, "
	       "\"mean_ns\": %.1f, \"min_ns\": %llu, \"p50_ns\": %llu, "
	       "\"p99_ns\": %llu, \"max_ns\": %llu, \"intervals\": [",
	       job->name, job->ended, job->ended / seconds,
	       job->ended / seconds * job->bytes,
	       job->ended ? sum / job->ended : 0,
	       (unsigned long long)percentile(job, 0),
	       (unsigned long long)percentile(job, 0.5),
	       (unsigned long long)percentile(job, 0.99),
	       (unsigned long long)percentile(job, 1));
	for (u64 i = 0; interval_ms && i < time_ms / interval_ms; i++)
		printf("%s%llu", i ? ", " : "",
		       (unsigned long long)job->intervals[i]);
	printf("]}");
}

static void print_results(const void *model, u64 wakes)
{
	struct model_stat stats[MODEL_MAX_STATS];
	u32 n = profile->model->stats(model, stats);
	const char *separator = "";

	printf("{\"jobs\": {");
	for (size_t i = 0; i < nr_jobs; i++) {
		printf("%s", i ? ", " : "");
		print_job(&jobs[i]);
	}
	printf("}, \"stats\": {\"wakes\": %llu, \"trace\": %llu",
	       (unsigned long long)wakes, (unsigned long long)trace);
	for (u32 i = 0; i < n; i++)
		printf(", \"%s\": %llu", stats[i].name,
		       (unsigned long long)stats[i].value);
	printf("}, \"parameters\": {");
#define PARAM(param, smallest, largest, flags)				\
	printf("%s\"" #param "\": %u", separator, params.param);	\
	separator = ", ";
#include "../../kernel/modeldisk/model-params.h"
	printf("}}\n");
}

int main(int argc, char **argv)
{
	static void *model;	/* static: the leak checker then sees that its memory is in use */
	const char *wrong;

	for (u32 i = 0; argc > 1 && i < model_nr_profiles; i++)
		if (!strcmp(argv[1], model_profiles[i].name))
			profile = &model_profiles[i];
	if (!profile)
		fail("first argument", "must be a profile");
	params = profile->params;
	size_mib = profile->size_mib;

	for (int i = 2; i < argc; i++) {
		char *colon = strchr(argv[i], ':'), *equals = strchr(argv[i], '=');

		if (colon) {
			add_job(argv[i]);
		} else if (equals) {
			*equals = '\0';
			set(argv[i], equals + 1);
		} else {
			fail("neither a job nor name=number", argv[i]);
		}
	}
	wrong = profile->model->check(&params);
	if (wrong)
		fail("parameters", wrong);

	model = make(profile->model->size);
	profile->model->init(model, &params, size_mib << 11);
	print_results(model, run(model));
	return 0;
}
