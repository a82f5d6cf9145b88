/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Runs the sources of triage's policy between models of processes, the block layer and a flash
 * device. The device serves one request after the other, each for as long as the request costs.
 * Triage learns nothing here: costs, budget, room and pace are fixed.
 */
#ifndef POLICY_DEVICE_H
#define POLICY_DEVICE_H

#include "expect.h"

#include "triage/order.c"
#include "triage/flow.c"
#include "triage/flushes.c"
/*
 * This file has its own tg_lane_of(). Without the block layer's cgroups, group.c's would put each
 * request into the root's lane.
 */
#define tg_lane_of tg_lane_of_root
#include "triage/group.c"
#undef tg_lane_of
#include "triage/limits.c"
#include "triage/budget.c"
#include "triage/core.c"
#include "triage/device.c"

#define MS 1000000ull
#define SECOND (1000 * MS)

#define NORMAL 0
#define LOW (IOPRIO_CLASS_IDLE << IOPRIO_CLASS_SHIFT)
#define HIGH (IOPRIO_CLASS_RT << IOPRIO_CLASS_SHIFT)

#define MOST_SHARDS 4
#define MOST_CGROUPS 34
#define MOST_PROCESSES 64
#define TAGS 1024

/* The device answers this long after it has served a request. */
#define ANSWER_NS 50000
/* A timer is late by this much. */
#define TIMER_LATE_NS 50000
/* The longest step of time. A test looks at the state after each step, so it misses little. */
#define STEP_MOST_NS 100000

/**
 * struct process - a process that sends requests of one kind
 * @shard: the hardware queue that it sends to; a shard is triage's part of a hardware queue
 * @cgroup: its cgroup; 0: the root
 * @priority: NORMAL, LOW or HIGH
 * @writes: it writes; otherwise it reads
 * @bytes: the length of a request
 * @depth: the number of its requests, sent or not
 * @think_ns: from the end of a request until the process sends it again
 * @hints: its requests are hinted: their flags say that a process waits for them
 * @asks_little: triage takes it for a process that asks for little, whatever @depth is
 * @thread_of: it is another thread of this process, and of the same submitter; NULL: it is not
 * @is_stuck: its requests never come back from the device
 * @stopped: it sends nothing
 */
struct process {
	unsigned int shard, cgroup;
	unsigned short priority;
	bool writes;
	unsigned int bytes;
	int depth;
	u64 think_ns;
	bool hints;
	bool asks_little;
	struct process *thread_of;
	bool is_stuck;
	bool stopped;
	/* The state: */
	struct tg_submitter submitter;
	struct request *requests;
	struct list_head idle;	/* requests that are not sent, in the order of sending */
	int sent;
	u64 dispatched_at;
	/* The results since measure(): */
	u64 kib, cost, longest_wait, longest_gap;
};

/**
 * struct cgroup - a cgroup
 * @all: account of the cgroup and all cgroups below it
 * @own: account of the cgroup's own requests
 * @lanes: its queued requests, for each shard
 */
struct cgroup {
	struct tg_account all, own;
	struct tg_lane lanes[MOST_SHARDS];
};

static struct tg_data tg;
static struct tg_shard shards[MOST_SHARDS];
static struct cgroup cgroups[MOST_CGROUPS];
static struct process processes[MOST_PROCESSES];
static unsigned int nr_processes;

static struct request_queue queue;
static struct gendisk disk;
static struct block_device whole_disk;
static struct blk_mq_tags tags = { .bitmap_tags.sb.depth = TAGS };
static struct blk_mq_hw_ctx hw_queues[MOST_SHARDS];
static bool must_run[MOST_SHARDS];
static bool is_stopped[MOST_SHARDS];	/* the driver takes nothing from the hardware queue */
static bool stops_soon[MOST_SHARDS];	/* is_stopped will be true once the driver has taken a request */
/* The driver takes so many requests at a time from the hardware queue; 0: any number. */
static unsigned int driver_takes[MOST_SHARDS];
static unsigned int driver_has[MOST_SHARDS];
static u64 cpu_ns[MOST_SHARDS];	/* a CPU needs so long to send a request to the hardware queue */
static u64 cpu_free_at[MOST_SHARDS];
static u64 driver_delays[MOST_SHARDS];	/* answers reach the hardware queue so much later, in ns */

static struct list_head in_device;	/* requests, in the order in which the device serves them */
static u64 device_free_at;
static u32 device_refuses;	/* the driver sends back this many of ten requests */
static bool device_is_pressed;
static u64 measured_from;

/* Substitutes for triage's functions for disks. Nothing may call them, because no disk is here. */

struct request *tg_disk_next(struct tg_shard *shard, struct tg_flow *flow, enum tg_reason *reason)
{
	abort();
}

u64 tg_disk_take(struct tg_shard *shard, struct tg_flow *flow, struct request *rq)
{
	abort();
}

void tg_disk_came(struct tg_shard *shard, struct tg_flow *flow, struct request *rq)
{
	abort();
}

void tg_disk_add(struct tg_flow *flow, struct request *rq)
{
	abort();
}

void tg_disk_back(struct tg_shard *shard, struct request *rq)
{
	abort();
}

void tg_disk_emptied(struct tg_shard *shard, struct tg_flow *flow)
{
	abort();
}

bool tg_disk_is_near(const struct tg_shard *shard, const struct request *rq)
{
	abort();
}

struct tg_flow *tg_disk_near(struct tg_shard *shard, struct tg_class *class)
{
	abort();
}

bool tg_disk_stays(struct tg_shard *shard, struct tg_flow *flow)
{
	abort();
}

u64 tg_disk_wait(struct tg_shard *shard)
{
	abort();
}

bool tg_arm_is_free(struct tg_data *data)
{
	abort();
}

bool tg_arm_is_held(const struct tg_data *data)
{
	abort();
}

void tg_arm_yield(struct tg_data *data)
{
	abort();
}

void tg_arm_charge(struct tg_data *data, u32 cost)
{
	abort();
}

u64 tg_arm_changes_at(struct tg_data *data)
{
	abort();
}

/* Triage learns nothing, and there are no probes. */

bool tg_finds_knee(const struct tg_data *data)
{
	return true;
}

bool tg_probe_holds(const struct tg_data *data)
{
	return false;
}

void tg_costs_learn(struct tg_data *data)
{
}

void tg_learn_urgent(struct tg_data *data, enum prio_class class, bool clean, u64 latency)
{
}

void tg_learn_bulk(struct tg_data *data, u64 now, u64 took, u32 cost)
{
}

void tg_measure(struct tg_histogram *histogram, u64 ns)
{
}

void tg_trace_dispatch(struct tg_shard *shard, struct request *rq, enum tg_reason reason)
{
}

void tg_trace_hold(struct tg_shard *shard)
{
}

struct tg_lane *tg_lane_of(struct tg_shard *shard, struct request *rq)
{
	const unsigned int cgroup = rq->process->cgroup;

	return cgroup ? &cgroups[cgroup].lanes[shard->index] : &shard->lane;
}

void blk_mq_run_hw_queue(struct blk_mq_hw_ctx *hctx, bool async)
{
	must_run[hctx - hw_queues] = true;
}

static void cgroup_begin(struct cgroup *cgroup, u64 id)
{
	unsigned int i;

	*cgroup = (struct cgroup){
		.all = { .parent = &tg.groups.all, .depth = 1, .weight = TG_WEIGHT_DEFAULT },
		.own = { .parent = &cgroup->all, .depth = 2, .weight = TG_WEIGHT_DEFAULT },
	};
	for (i = 0; i < MOST_SHARDS; i++) {
		tg_lane_init(&cgroup->lanes[i]);
		cgroup->lanes[i].account = &cgroup->own;
		cgroup->lanes[i].id = id;
	}
}

static void cgroup_weigh(unsigned int cgroup, u32 weight)
{
	cgroups[cgroup].all.weight = weight;
}

/* Put a cgroup below another one, which must be a child of the root. */
static void cgroup_nest(unsigned int cgroup, unsigned int above)
{
	cgroups[cgroup].all.parent = &cgroups[above].all;
	cgroups[cgroup].all.depth = 2;
	cgroups[cgroup].own.depth = 3;
}

static void shard_begin(unsigned int index)
{
	struct tg_shard *shard = &shards[index];

	tg_flows_exit(shard);
	*shard = (struct tg_shard){ .index = index, .hctx = &hw_queues[index] };
	hw_queues[index] = (struct blk_mq_hw_ctx){ .sched_data = shard, .sched_tags = &tags };
	INIT_LIST_HEAD(&hw_queues[index].dispatch);
	must_run[index] = false;
	is_stopped[index] = false;
	stops_soon[index] = false;
	driver_takes[index] = 0;
	driver_has[index] = 0;
	driver_delays[index] = 0;
	cpu_ns[index] = 0;
	cpu_free_at[index] = 0;
	tg_core_init(shard, &tg);
	tg_device_init(&shard->device);
	if (tg_flows_init(shard, TAGS))
		abort();
}

static void processes_forget(void)
{
	while (nr_processes)
		free(processes[--nr_processes].requests);
}

/* Begin with an idle device, no processes, and bulk that may write @pace KiB/s; 0: at any rate. */
static void begin(unsigned int nr_shards, u32 pace)
{
	static struct tg_shard *all[MOST_SHARDS];
	unsigned int i;

	processes_forget();
	kernel_now = SECOND;
	INIT_LIST_HEAD(&in_device);
	device_free_at = 0;
	device_refuses = 0;
	device_is_pressed = true;
	disk.part0 = &whole_disk;
	queue = (struct request_queue){
		.nr_hw_queues = nr_shards, .disk = &disk, .hw_queues = hw_queues,
	};
	tg = (struct tg_data){
		.queue = &queue,
		.nr_shards = nr_shards,
		.shards = all,
		.tunables = {
			.bounds = PRIO_BOUNDS_DEFAULT, .exchange = 8, .quantum = 50,
			.share_normal = 10, .share_low = 5,
			.aging_expire_normal = 1000, .aging_expire_low = 5000,
		},
		.costs.window_until = LONG_MAX,
		.controller = { .budget = TG_DEPTH_MAX, .alone = 80000, .room = 500000,
				.room_had = 500000, .room_due = LONG_MAX },
	};
	for (i = 0; i < TG_OPS; i++)
		tg.costs.of[i] = (struct tg_cost)TG_COST_GUESS_FLASH;
	tg_flushes_init(&tg);
	tg.flushes.pace = pace;
	tg.flushes.look_at = LONG_MAX;
	for (i = 0; i < nr_shards; i++) {
		all[i] = &shards[i];
		shard_begin(i);
	}
	for (i = 1; i < MOST_CGROUPS; i++)
		cgroup_begin(&cgroups[i], i);
	tg_groups_init(&tg);
	tg_budget_init(&tg);
	tg.submitters.answered = TG_SHARED_PERIODS;
	tg.submitters.answered_at = jiffies;
}

static bool process_holds_several(const struct process *p)
{
	return !p->asks_little && !p->thread_of && p->depth > TG_SPARSE_TAGS;
}

/*
 * Add a process. It begins to send at a random time within one pause (@think_ns) from now, so that
 * processes do not keep step with each other.
 */
static struct process *process_add(const struct process *like)
{
	struct process *p = &processes[nr_processes++];
	const u64 begins = any_between(0, like->think_ns);
	int i;

	assert(nr_processes <= MOST_PROCESSES);
	*p = *like;
	p->submitter.id = nr_processes;
	p->requests = calloc(p->depth, sizeof(*p->requests));
	INIT_LIST_HEAD(&p->idle);
	for (i = 0; i < p->depth; i++) {
		p->requests[i].process = p;
		p->requests[i].at = kernel_now + begins;
		list_add_tail(&p->requests[i].queuelist, &p->idle);
	}
	tg.submitters.nr_several.value += process_holds_several(p);
	return p;
}

static void process_stop(struct process *p)
{
	p->stopped = true;
	tg.submitters.nr_several.value -= process_holds_several(p);
}

/* Return the request that a process sends next, or NULL. */
static struct request *process_next(struct process *p)
{
	return p->stopped ? NULL : tg_first(&p->idle);
}

/* Stand in for tg_groups_see(), which needs the block layer's cgroups. */
static void cgroup_comes(struct tg_shard *shard, unsigned int cgroup)
{
	if (shard->seen != &cgroups[cgroup] || time_after(jiffies, shard->seen_at))
		tg_groups_met(shard, &cgroups[cgroup]);
}

static void process_send(struct process *p, struct request *rq)
{
	struct tg_submitter *submitter = p->thread_of ? &p->thread_of->submitter : &p->submitter;
	struct blk_mq_hw_ctx *hctx = &hw_queues[p->shard];
	struct list_head list;

	p->submitter.held.value = p->asks_little ? 1 : p->depth;
	p->submitter.several_at = p->asks_little ? jiffies - HZ : jiffies;
	if (!p->asks_little && p->depth > TG_SPARSE_TAGS)
		tg_submitters_meet(&tg.submitters, submitter);
	p->sent++;
	rq->cmd_flags = p->writes ? REQ_OP_WRITE | REQ_SYNC | REQ_IDLE : REQ_OP_READ;
	if (p->hints)
		rq->cmd_flags |= REQ_META;
	rq->ioprio = p->priority;
	rq->bytes = p->bytes;
	rq->sector = any_between(0, 1 << 26) * (SZ_4K >> SECTOR_SHIFT);
	rq->start_time_ns = kernel_now;
	rq->mq_hctx = hctx;
	/* submitter.held is set above. So leave tg_tag.held 0: then tg_put_tag() counts nothing. */
	*tg_tag(rq) = (struct tg_tag){ .submitter = submitter };
	INIT_LIST_HEAD(&list);
	list_move_tail(&rq->queuelist, &list);
	tg_insert_requests(hctx, &list, 0);
	/* Not earlier: triage sees a request's cgroup when a dispatcher empties the inbox. */
	cgroup_comes(&shards[p->shard], p->cgroup);
	blk_mq_run_hw_queue(hctx, false);
}

static void processes_send(void)
{
	struct request *rq;
	unsigned int i;

	for (i = 0; i < nr_processes; i++)
		while ((rq = process_next(&processes[i])) && rq->at <= kernel_now)
			process_send(&processes[i], rq);
}

/* Record that a request of a process goes to the device. */
static void process_dispatched(struct process *p, struct request *rq)
{
	const u64 came_at = max(rq->start_time_ns, measured_from);
	const u64 before = max(p->dispatched_at, measured_from);

	p->kib += rq->bytes / SZ_1K;
	p->cost += tg_tag(rq)->cost;
	p->longest_wait = max(p->longest_wait, kernel_now - came_at);
	p->longest_gap = max(p->longest_gap, kernel_now - before);
	p->dispatched_at = kernel_now;
}

/* Give a request back to triage, as the block layer does if the driver is busy. */
static void device_refuse(struct request *rq)
{
	struct list_head list;

	tg_requeue_request(rq);
	INIT_LIST_HEAD(&list);
	list_add_tail(&rq->queuelist, &list);
	tg_insert_requests(rq->mq_hctx, &list, BLK_MQ_INSERT_AT_HEAD);
	blk_mq_run_hw_queue(rq->mq_hctx, true);
}

/* Insert a request among those in the device, by the time when the device answers. */
static void device_add(struct request *rq)
{
	struct list_head *before = in_device.prev;

	while (before != &in_device && list_entry(before, struct request, queuelist)->at > rq->at)
		before = before->prev;
	list_add(&rq->queuelist, before);
}

static bool driver_is_full(const struct blk_mq_hw_ctx *hctx)
{
	const u32 index = hctx - hw_queues;

	return driver_takes[index] && driver_has[index] >= driver_takes[index];
}

static void device_serve(struct request *rq)
{
	const u32 index = rq->mq_hctx - hw_queues;

	driver_has[index]++;
	device_free_at = max(device_free_at, kernel_now) + tg_tag(rq)->cost;
	rq->at = device_free_at + ANSWER_NS + driver_delays[index];
	device_add(rq);
}

static void device_take(struct request *rq)
{
	if (stops_soon[rq->mq_hctx - hw_queues])
		is_stopped[rq->mq_hctx - hw_queues] = true;
	if (device_refuses && any_between(1, 10) <= device_refuses) {
		device_refuse(rq);
		return;
	}
	process_dispatched(rq->process, rq);
	if (rq->process->is_stuck)
		return;
	if (driver_is_full(rq->mq_hctx))
		list_add_tail(&rq->queuelist, &rq->mq_hctx->dispatch);
	else
		device_serve(rq);
}

static void device_answer(void)
{
	struct request *rq;

	while ((rq = tg_first(&in_device)) && rq->at <= kernel_now) {
		struct process *p = rq->process;

		tg_finish_request(rq);
		driver_has[rq->mq_hctx - hw_queues]--;
		if (!list_empty(&rq->mq_hctx->dispatch))
			must_run[rq->mq_hctx - hw_queues] = true;
		p->sent--;
		rq->at = kernel_now + p->think_ns;
		list_move_tail(&rq->queuelist, &p->idle);
	}
}

/* While device_is_pressed, let triage see an urgent request in each step: then the pace applies. */
static void device_press(void)
{
	if (device_is_pressed)
		tg_urgent_seen(&tg, PRIO_CLASS_NORMAL);
}

static bool timer_is_due(const struct hrtimer *timer)
{
	return timer->expires && timer->expires + TIMER_LATE_NS <= kernel_now;
}

static void timers_fire(void)
{
	unsigned int i;

	for (i = 0; i < tg.nr_shards; i++) {
		struct hrtimer *timer = &shards[i].watchdog;

		if (!timer_is_due(timer))
			continue;
		timer->expires = 0;
		timer->function(timer);
	}
}

/*
 * Run a hardware queue as the block layer does: what the driver had no room for goes first, and
 * nothing follows a request for which there is no room.
 */
static void queue_run(struct blk_mq_hw_ctx *hctx)
{
	const u32 index = hctx - hw_queues;
	struct request *rq;

	if (is_stopped[index])
		return;
	while (!driver_is_full(hctx) && (rq = tg_first(&hctx->dispatch))) {
		list_del_init(&rq->queuelist);
		device_serve(rq);
	}
	while (!is_stopped[index] && list_empty(&hctx->dispatch) &&
	       cpu_free_at[index] <= kernel_now && tg_has_work(hctx) &&
	       (rq = tg_dispatch_request(hctx))) {
		cpu_free_at[index] = kernel_now + cpu_ns[index];
		device_take(rq);
	}
}

static void queues_run(void)
{
	bool again = true;
	unsigned int i;

	for (i = 0; i < tg.nr_shards; i++)
		must_run[i] |= cpu_ns[i] && cpu_free_at[i] == kernel_now;

	while (again) {
		again = false;
		for (i = 0; i < tg.nr_shards; i++) {
			if (!must_run[i])
				continue;
			must_run[i] = false;
			again = true;
			queue_run(&hw_queues[i]);
		}
	}
}

/* Return the time of the next event, at most STEP_MOST_NS from now. */
static u64 next_event(void)
{
	u64 at = kernel_now + STEP_MOST_NS;
	const struct request *rq = tg_first(&in_device);
	unsigned int i;

	if (rq)
		at = min(at, rq->at);
	for (i = 0; i < nr_processes; i++) {
		rq = process_next(&processes[i]);
		if (rq)
			at = min(at, rq->at);
	}
	for (i = 0; i < tg.nr_shards; i++) {
		if (shards[i].watchdog.expires)
			at = min(at, shards[i].watchdog.expires + TIMER_LATE_NS);
		if (cpu_free_at[i] > kernel_now)
			at = min(at, cpu_free_at[i]);
	}
	return max(at, kernel_now);
}

static void step(void)
{
	kernel_now = next_event();
	device_press();
	device_answer();
	processes_send();
	timers_fire();
	queues_run();
}

static void run(u64 ns)
{
	const u64 until = kernel_now + ns;

	while (kernel_now < until)
		step();
}

static void measure(u64 ns)
{
	unsigned int i;

	for (i = 0; i < nr_processes; i++) {
		processes[i].kib = 0;
		processes[i].cost = 0;
		processes[i].longest_wait = 0;
		processes[i].longest_gap = 0;
	}
	measured_from = kernel_now;
	run(ns);
}

/* Return the rate at which a process has written since measure(), as a part of the pace. */
static double part_of_pace(const struct process *p)
{
	return p->kib * 1e9 / (kernel_now - measured_from) / tg.flushes.pace;
}

/* Return the cost of a process's requests since measure(), as a part of the time that passed. */
static double part_of_time(const struct process *p)
{
	return (double)p->cost / (kernel_now - measured_from);
}

#endif
