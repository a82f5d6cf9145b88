// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guards: beside HIGH, bulk has its guaranteed share and no more. Cgroups share the device, and
 * classes, cgroups and hardware queues share the pace of bulk's writes, as promised. A hardware
 * queue whose bulk may go does not wait. The test compiles the scheduler's own sources, with a
 * model of a device (policy/device.h). Many comments name a defect, and what the test would measure
 * if the scheduler had this defect. Run with: make -C kernel unit
 */
#include "policy/device.h"

#define SZ_16K (16 * SZ_1K)
#define SZ_512K (512 * SZ_1K)
#define SZ_1M (1024 * SZ_1K)
#define SZ_16M (16 * SZ_1M)
#define PACE 200000
#define CROWD 32
/* The number of cgroups in a random load, including the root. */
#define ANY_CGROUPS 4
#define LOADS 60
/*
 * The longest wait of a shard, triage's part of a hardware queue. A shard that waits for other
 * shards looks again after 1 ms, and its timer may be late.
 */
#define REST_MS 1.5

/* Let processes settle for a second, then measure. */
static void settle_and_measure(u64 ns)
{
	run(SECOND);
	measure(ns);
}

/*
 * NORMAL writes and reads beside small writes of LOW, and the device is busy. If a write has a
 * large base cost, LOW lacks the device time to use its share of the pace. NORMAL gets what LOW
 * leaves. If tg_pace_look() did not let each class write once the pace is unused, NORMAL would have
 * 60 % of the pace with a base cost of 20 us, and 42 % with 60 us.
 */
static void test_low_lacks_device_time(void)
{
	static const struct { u32 base; double normal, low; } writes[] = {
		{ 2000, .93, .045 }, { 20000, .9, .02 }, { 60000, .9, .005 },
	};
	struct process *normal, *low;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(writes); i++) {
		begin(1, PACE);
		tg.costs.of[TG_WRITE].base = writes[i].base;
		normal = process_add(&(struct process){
			.writes = true, .bytes = SZ_1M, .depth = 16,
		});
		process_add(&(struct process){ .bytes = SZ_4K, .depth = 128 });
		low = process_add(&(struct process){
			.priority = LOW, .writes = true, .bytes = SZ_4K, .depth = 32,
		});
		settle_and_measure(2 * SECOND);
		expect_between("NORMAL's part beside LOW", part_of_pace(normal),
			       writes[i].normal, .98);
		expect_between("LOW's part", part_of_pace(low), writes[i].low, .06);
	}
}

/*
 * As in test_low_lacks_device_time(), but with two cgroups, of weights 1000 and 100. The light one
 * lacks device time. With the same defect of tg_pace_look(), the heavy one would have 69 % of the
 * pace with a base cost of 20 us, and 32 % with 60 us.
 */
static void test_light_cgroup_lacks_device_time(void)
{
	static const u32 bases[] = { 2000, 20000, 60000 };
	struct process *heavy;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(bases); i++) {
		begin(1, PACE);
		tg.costs.of[TG_WRITE].base = bases[i];
		cgroup_weigh(1, 1000);
		heavy = process_add(&(struct process){
			.cgroup = 1, .writes = true, .bytes = SZ_1M, .depth = 16,
		});
		process_add(&(struct process){ .cgroup = 1, .bytes = SZ_4K, .depth = 128 });
		process_add(&(struct process){
			.cgroup = 2, .writes = true, .bytes = SZ_4K, .depth = 64,
		});
		settle_and_measure(2 * SECOND);
		expect_between("the heavy cgroup's part", part_of_pace(heavy), .88, .98);
	}
}

/*
 * Two cgroups that only write share the pace by weight, whatever their depths. If weights did not
 * count for the pace (tg_lane_charge_pace()), cgroups of weights 100 and 300 would have half each.
 */
static void test_cgroups_that_write(void)
{
	static const struct { u32 weight; double part; } firsts[] = {
		{ 300, .5 }, { 100, .25 },
	};
	struct process *first, *second;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(firsts); i++) {
		begin(1, PACE);
		cgroup_weigh(1, firsts[i].weight);
		cgroup_weigh(2, 300);
		first = process_add(&(struct process){
			.cgroup = 1, .writes = true, .bytes = SZ_64K, .depth = 16,
		});
		second = process_add(&(struct process){
			.cgroup = 2, .writes = true, .bytes = SZ_64K, .depth = 64,
		});
		settle_and_measure(SECOND);
		expect_near("the first cgroup's part", part_of_pace(first), firsts[i].part, .02);
		expect_near("the second one's", part_of_pace(second), 1 - firsts[i].part, .02);
	}
}

/*
 * While NORMAL and LOW only write, LOW has its guaranteed share of the pace. This holds for large
 * shares, for requests of any size, and if LOW sends one at a time. tg_pace_charge_lane() credits
 * LOW for each write of NORMAL. With these defects of that function:
 * - if LOW's own writes earned LOW this credit too: LOW would have 25 % where 20 are due, and
 *   NORMAL would write nothing if LOW's share is 50 % or more
 * - if LOW's debt were forgotten when LOW has no other write: LOW would have 89 % with 1 MiB at a
 *   time
 * - if a small write cut off the debt or credit of a large one: LOW would have 50 % where 5 are
 *   due, or 17 where 50 are
 */
static void test_classes_that_write(void)
{
	static const struct { u32 pace, share, normal, low; int depth; } loads[] = {
		{ PACE, 5, SZ_64K, SZ_64K, 16 },
		{ PACE, 20, SZ_64K, SZ_64K, 16 },
		{ PACE, 45, SZ_64K, SZ_64K, 16 },
		{ PACE, 50, SZ_64K, SZ_64K, 16 },
		{ PACE, 75, SZ_64K, SZ_64K, 16 },
		{ PACE, 5, SZ_64K, SZ_64K, 1 },
		{ PACE, 5, SZ_64K, SZ_1M, 1 },
		{ 5000, 5, SZ_64K, SZ_1M, 16 },
		{ 20000, 50, SZ_1M, SZ_4K, 128 },
		{ 50000, 75, SZ_1M, SZ_4K, 128 },
	};
	struct process *normal, *low;
	u64 writes;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(loads); i++) {
		begin(1, loads[i].pace);
		tg.tunables.share_low = loads[i].share;
		/* No write ages. */
		tg.tunables.aging_expire_normal = tg.tunables.aging_expire_low = 600000;
		normal = process_add(&(struct process){
			.writes = true, .bytes = loads[i].normal, .depth = 16,
		});
		low = process_add(&(struct process){
			.priority = LOW, .writes = true, .bytes = loads[i].low,
			.depth = loads[i].depth,
		});
		/* The pace allows 400 of the largest requests in this time: 5 % of them are 20. */
		writes = max(loads[i].normal, loads[i].low) / SZ_1K;
		settle_and_measure(max(2 * SECOND, 400 * SECOND * writes / loads[i].pace));
		expect_near("LOW's share of the pace", part_of_pace(low), loads[i].share / 100.,
			    .05);
		expect_near("NORMAL's share of the pace", part_of_pace(normal),
			    1 - loads[i].share / 100., .05);
	}
}

/*
 * A guaranteed share is no limit. After a time in which bulk used the whole device within its
 * budget, HIGH comes, and bulk has its share at once. If tg_settle() charged all requests in full,
 * also those that did not go as part of the share, bulk would have nothing for seconds.
 */
static void test_share_is_no_limit(void)
{
	struct process *bulk;

	begin(1, 0);
	tg.controller.budget = 500000;
	bulk = process_add(&(struct process){ .bytes = SZ_64K, .depth = 64 });
	run(2 * SECOND);
	tg.controller.budget = 1;
	process_add(&(struct process){ .priority = HIGH, .bytes = SZ_4K, .depth = 256 });
	run(20 * MS);
	measure(SECOND / 2);
	expect_near("a share after all of the device", part_of_time(bulk), .1, .1);
}

/*
 * Two processes that write have equal parts of the pace, even if one of them has one write at a
 * time, and a third process reads. The reader gets turns while the pace holds writes. If these
 * turns paid the debt of the process with one write at a time, that process would have 95 % of the
 * pace.
 */
static void test_one_write_at_a_time(void)
{
	static const struct { u32 bytes; int depth; } readers[] = { { SZ_64K, 16 }, { SZ_4K, 64 } };
	struct process *deep;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(readers); i++) {
		begin(1, PACE);
		process_add(&(struct process){
			.bytes = readers[i].bytes, .depth = readers[i].depth,
		});
		deep = process_add(&(struct process){
			.writes = true, .bytes = SZ_64K, .depth = 16,
		});
		process_add(&(struct process){ .writes = true, .bytes = SZ_1M, .depth = 1 });
		settle_and_measure(2 * SECOND);
		expect_near("the pace of a process with several writes", part_of_pace(deep), .5,
			    .1);
	}
}

/*
 * On each of @nr_shards hardware queues run a process that writes, and on each of the first
 * @readers of them one that reads requests of @bytes. Check that all queues have equal parts of the
 * pace.
 */
static void expect_equal_shards(unsigned int nr_shards, u64 room, unsigned int readers, u32 bytes)
{
	struct process *writers[MOST_SHARDS];
	unsigned int i;

	begin(nr_shards, PACE);
	tg.controller.room = room;
	for (i = 0; i < nr_shards; i++)
		writers[i] = process_add(&(struct process){
			.shard = i, .writes = true, .bytes = SZ_64K, .depth = 16,
		});
	for (i = 0; i < readers; i++)
		process_add(&(struct process){
			.shard = i, .bytes = bytes, .depth = bytes == SZ_4K ? 64 : 16,
		});
	settle_and_measure(SECOND);
	for (i = 0; i < nr_shards; i++)
		expect_near("a hardware queue's part", part_of_pace(writers[i]),
			    1. / nr_shards, .02);
}

/*
 * Hardware queues have equal parts of the pace, even if processes on some of them read too, so that
 * these queues choose requests more often. If a shard that sends a write no longer counted as
 * waiting for the pace (tg_pace_tell()), two queues would have up to 71 : 29. Of four queues, the
 * one that also reads would have up to 49 %.
 */
static void test_hardware_queues(void)
{
	static const u64 rooms[] = { 200000, 500000 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(rooms); i++) {
		expect_equal_shards(2, rooms[i], 0, 0);
		expect_equal_shards(2, rooms[i], 1, SZ_4K);
		expect_equal_shards(2, rooms[i], 1, SZ_64K);
		expect_equal_shards(4, rooms[i], 1, SZ_4K);
		expect_equal_shards(4, rooms[i], 3, SZ_64K);
	}
}

/*
 * With a slow pace, a process of NORMAL has so many writes that they age, and go although LOW lacks
 * its share. Then the process stops, and another process of NORMAL, with few writes, begins.
 * tg_pace_due() bounds what LOW lacks, so the new process need not wait until LOW has had all of
 * it. The new process waits for 31 ms, and without the bound for 616 ms.
 */
static void test_aged_writes_end(void)
{
	struct process *deep, *shallow;

	begin(1, 20000);
	deep = process_add(&(struct process){ .writes = true, .bytes = SZ_64K, .depth = 512 });
	process_add(&(struct process){
		.priority = LOW, .writes = true, .bytes = SZ_64K, .depth = 32,
	});
	run(15 * SECOND);
	process_stop(deep);
	shallow = process_add(&(struct process){ .writes = true, .bytes = SZ_64K, .depth = 4 });
	/* The pace allows the 32 MiB that are left in 1.6 s. */
	run(1700 * MS);
	expect("aged writes that are left", deep->sent, 0);
	measure(3 * SECOND);
	expect_between("the longest wait after aged writes, ms", shallow->longest_wait / 1e6,
		       1, 100);
	expect_between("NORMAL's part after aged writes", part_of_pace(shallow), .9, .98);
}

/*
 * Let a crowd write: processes whose writes the pace never holds. Each pauses for @think_ns after a
 * request. Check that they write from @least to @most together, as parts of the pace. Return the
 * process that waits for the pace.
 */
static const struct process *run_crowd(u64 think_ns, double least, double most)
{
	struct process *bulk, *crowd[CROWD];
	double part = 0;
	u32 i;

	begin(1, PACE);
	bulk = process_add(&(struct process){ .writes = true, .bytes = SZ_64K, .depth = 32 });
	for (i = 0; i < CROWD; i++)
		crowd[i] = process_add(&(struct process){
			.asks_little = true, .writes = true, .bytes = SZ_16K, .depth = 1,
			.think_ns = think_ns,
		});
	/* Beside HIGH the crowd is bulk. */
	process_add(&(struct process){
		.priority = HIGH, .bytes = SZ_4K, .depth = 1, .think_ns = MS,
	});
	process_add(&(struct process){ .bytes = SZ_64K, .depth = 16 });
	settle_and_measure(2 * SECOND);
	for (i = 0; i < CROWD; i++)
		part += part_of_pace(crowd[i]);
	expect_between("the crowd's part", part, least, most);
	return bulk;
}

/*
 * The pace holds none of a crowd's writes. If the crowd writes more than the pace allows, bulk's
 * writes get a 17th of the pace (TG_DRAIN_PASSING is 16), without long gaps. They would get nothing
 * if tg_pace_passes() charged all of the crowd's writes to the pace. If the crowd writes less, bulk
 * gets the rest.
 */
static void test_crowd(void)
{
	static const u64 busy_ns[] = { MS / 2, MS, 2 * MS };
	const struct process *bulk;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(busy_ns); i++) {
		bulk = run_crowd(busy_ns[i], 1, 3);
		expect_between("bulk's part beside a crowd", part_of_pace(bulk), .04, .08);
		expect_between("its longest gap, ms", bulk->longest_gap / 1e6, 0, 20);
	}
	bulk = run_crowd(4 * MS, .5, .65);
	expect_between("what bulk has of the rest", part_of_pace(bulk), .35, .5);
}

/* Return whether a shard has a request of bulk that the pace does not hold. */
static bool shard_has_bulk(const struct tg_shard *shard)
{
	const bool pace_is_unused = kernel_now > (u64)atomic64_read(&tg.flushes.due);
	struct tg_lane *lane;
	struct tg_flow *flow;
	int class;

	list_for_each_entry(lane, &shard->lanes, entry)
		for (class = PRIO_CLASS_NORMAL; class < PRIO_CLASS_COUNT; class++)
			list_for_each_entry(flow, &lane->classes[class].backlog, turn)
				if (pace_is_unused || !tg_flow_writes(flow))
					return true;
	return false;
}

/* Return whether bulk of a shard may go. Leave tg.budget as it was. */
static bool shard_may_send(const struct tg_shard *shard)
{
	const struct tg_budget before = tg.budget;
	const bool may = tg_bulk_may_go(shard);

	tg.budget = before;
	return may;
}

/* Return whether a shard is left waiting without need: it has bulk that may go. */
static bool shard_is_left(unsigned int shard)
{
	return shard_has_bulk(&shards[shard]) && shard_may_send(&shards[shard]);
}

/*
 * Return whether the device has nothing to do, although both limits on bulk in the device (budget
 * and room) let bulk go: then bulk waits only for the turn of another shard. Leave tg.budget as it
 * was.
 */
static bool device_is_left(void)
{
	const struct tg_budget before = tg.budget;
	bool patient, any = false;
	unsigned int i;

	for (i = 0; i < tg.nr_shards; i++)
		any |= shard_has_bulk(&shards[i]);
	any = any && list_empty(&in_device) && tg_bulk_is_let_in(&tg, &patient);
	tg.budget = before;
	return any;
}

/*
 * Update @longest, the longest time for which a shard or the device was left waiting. @is: it is
 * left waiting now. @since: the time at which this began, 0 if it is not left waiting.
 */
static void watch(bool is, u64 *since, u64 *longest)
{
	if (!is)
		*since = 0;
	else if (!*since)
		*since = kernel_now;
	else
		*longest = max(*longest, kernel_now - *since);
}

/* The longest times for which a shard, and the device, waited without need, in ns */
struct left {
	u64 shard, device;
};

/*
 * Run for @ns. Return the longest times for which a shard, and the device, waited without need. A
 * shard that sends bulk does not wait, even if more of its bulk may go: after a wake it sends
 * several requests.
 */
static struct left run_watched(u64 ns)
{
	const u64 until = kernel_now + ns;
	u64 shard_since[MOST_SHARDS] = {}, device_since = 0;
	struct left longest = {};
	unsigned int i;

	while (kernel_now < until) {
		u64 sent[MOST_SHARDS];

		for (i = 0; i < tg.nr_shards; i++)
			sent[i] = shards[i].device.bulk.sent;
		step();
		for (i = 0; i < tg.nr_shards; i++)
			watch(shard_is_left(i) && shards[i].device.bulk.sent == sent[i],
			      &shard_since[i], &longest.shard);
		watch(device_is_left(), &device_since, &longest.device);
	}
	return longest;
}

static unsigned int requests_sent(void)
{
	unsigned int i, sum = 0;

	for (i = 0; i < nr_processes; i++)
		sum += processes[i].sent;
	return sum;
}

/* Stop all processes and end the pace. Return how many requests do not complete in 5 s. */
static unsigned int stop_all(void)
{
	const u64 until = kernel_now + 5 * SECOND;
	unsigned int i;

	for (i = 0; i < nr_processes; i++)
		process_stop(&processes[i]);
	device_is_pressed = false;
	while (requests_sent() && kernel_now < until)
		step();
	return requests_sent();
}

#define any_of(array) ((array)[any() % ARRAY_SIZE(array)])

static void add_any_bulk(bool cgroups_share)
{
	static const unsigned short priorities[] = { NORMAL, NORMAL, LOW };
	static const u32 bytes[] = { SZ_4K, SZ_16K, SZ_64K, SZ_1M }, depths[] = { 3, 16, 64, 200 };
	struct process p = {
		.shard = any() % tg.nr_shards,
		.cgroup = cgroups_share ? any() % ANY_CGROUPS : 0,
		.priority = any_of(priorities),
		.writes = any() % 3,
		.bytes = any_of(bytes),
		.depth = any_of(depths),
	};

	if (any() % 3 == 0 && p.depth < 60)
		p.think_ns = any_between(1, 20) * MS / 2;
	process_add(&p);
}

static void add_any_high(void)
{
	process_add(&(struct process){
		.shard = any() % tg.nr_shards, .priority = HIGH, .bytes = SZ_4K,
		.depth = any_between(1, 4), .think_ns = any_between(1, 7) * MS / 10,
	});
}

static void add_any_of_crowd(bool cgroups_share)
{
	process_add(&(struct process){
		.shard = any() % tg.nr_shards, .cgroup = cgroups_share ? any() % ANY_CGROUPS : 0,
		.asks_little = true, .writes = any() % 2, .bytes = SZ_16K, .depth = 1,
		.think_ns = any_between(200, 5200) * 1000,
	});
}

/* Begin with a random device and random processes. */
static void begin_any(void)
{
	static const u32 shards_of[] = { 1, 1, 2, 4 }, paces[] = { 5000, 20000, PACE, 1000000 };
	static const u32 bases[] = { 2000, 20000, 60000 }, weights[] = { 1, 100, 1000, 10000 };
	static const u64 rooms[] = { 100000, 300000, 1000000 };
	static const u64 budgets[] = { TG_DEPTH_MAX, 50000, 200000, 1000000 };
	const u32 nr_shards = any_of(shards_of), pace = any_of(paces);
	bool cgroups_share;
	u32 i;

	begin(nr_shards, pace);
	tg.controller.room = any_of(rooms);
	tg.controller.budget = any_of(budgets);
	tg.costs.of[TG_WRITE].base = any_of(bases);
	for (i = 1; i < ANY_CGROUPS; i++)
		cgroup_weigh(i, any_of(weights));
	cgroups_share = any() % 2;
	for (i = any_between(3, 8); i; i--)
		add_any_bulk(cgroups_share);
	if (any() % 2)
		add_any_high();
	for (i = any() % 2 ? any() % 20 : 0; i; i--)
		add_any_of_crowd(cgroups_share);
}

static void expect_none_left(u32 load)
{
	struct left left;
	char what[64];

	any_begin(load);
	begin_any();
	left = run_watched(SECOND);
	snprintf(what, sizeof(what), "a hardware queue is left under load %u, ms", load);
	expect_between(what, left.shard / 1e6, 0, REST_MS);
	snprintf(what, sizeof(what), "the device is left under load %u, ms", load);
	expect_between(what, left.device / 1e6, 0, REST_MS);
	snprintf(what, sizeof(what), "requests of load %u that do not complete", load);
	expect(what, stop_all(), 0);
}

/*
 * Under these loads no hardware queue whose bulk may go waits for longer than REST_MS. Nor is the
 * device idle for longer while there is such bulk. All requests complete. The longest wait is
 * 1.04 ms. The longest waits with defects:
 * - without the wake in tg_dispatch_request(): 9.9 ms
 * - without tg_waits_for_shards(): 10 ms
 * - without both: the device is idle for 20 ms
 * - if completions do not wake held shards (tg_back_noticed()): 10 ms
 * - if each shard takes itself for tg_shard_first(): 4.2 ms
 * If the watchdog did not run the hardware queue, nearly all of the loads would never complete.
 */
static void test_any_load(void)
{
	/*
	 * Of loads 0 to 1999, those in which one of these defects causes the longest waits. Load
	 * 1581 is left out, because a hardware queue waits for 10 ms there even without a defect:
	 * it makes way for a cgroup that is due on another queue. But the pace holds all requests
	 * of that cgroup, and the other queue sends requests of a third cgroup.
	 */
	static const u32 worst[] = {
		582, 686, 687, 964, 1023, 1203, 1686, 610, 752, 1652, 188, 690, 748, 1556, 1576,
		233, 707,
	};
	u32 i;

	for (i = 0; i < LOADS; i++)
		expect_none_left(i);
	for (i = 0; i < ARRAY_SIZE(worst); i++)
		expect_none_left(worst[i]);
}

/*
 * A process sends nothing while it waits for its flush. So the device stays pressed (the budget
 * applies) until this flush ends, but not for a flush that another process begins later. Without
 * tg_flush_age() the first case fails.
 */
static void test_flush_is_waited_for(void)
{
	begin(1, 0);
	run(SECOND / 2);
	device_is_pressed = false;
	run(SECOND / 2);
	flush_began_at = kernel_now;
	run(5 * SECOND);
	expect("pressed in a flush that began in time", tg_pressed(&tg), true);
	flush_began_at = kernel_now;
	expect("pressed in a later flush", tg_pressed(&tg), false);
	flush_began_at = 0;
	expect("pressed without a flush", tg_pressed(&tg), false);
}

/*
 * HIGH alone would use the whole device. Bulk that reads beside it has its guaranteed share of the
 * device's time and no more, whatever the size of its requests. If tg_settle() charged a request at
 * most the share that is still due to its class, bulk of 64 KiB would have 12.6 % instead of 10,
 * and bulk of 1 MiB 69 %.
 */
static void test_guaranteed_share(void)
{
	static const u32 bytes[] = { SZ_4K, SZ_64K, SZ_1M };
	struct process *high, *bulk;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(bytes); i++) {
		begin(1, 0);
		tg.controller.budget = 1;
		high = process_add(&(struct process){
			.priority = HIGH, .bytes = SZ_4K, .depth = 256,
		});
		bulk = process_add(&(struct process){ .bytes = bytes[i], .depth = 64 });
		settle_and_measure(2 * SECOND);
		expect_near("a guaranteed share of 10 %", part_of_time(bulk), .1, .02);
		expect_near("what it leaves to HIGH", part_of_time(high), .9, .02);
	}
}

/*
 * Three processes read, one of depth 64 and two of depth 8, through one hardware queue or through
 * three. Each has a third of the device. If only submitters of more than eight tags shared the
 * device, the deep one would have 0.8.
 */
static void test_deep_beside_shallow(void)
{
	u32 nr_shards;

	for (nr_shards = 1; nr_shards <= 3; nr_shards += 2) {
		struct process *deep;

		begin(nr_shards, 0);
		device_is_pressed = false;
		deep = process_add(&(struct process){ .bytes = SZ_64K, .depth = 64 });
		process_add(&(struct process){
			.shard = 1 % nr_shards, .bytes = SZ_64K, .depth = 8,
		});
		process_add(&(struct process){
			.shard = 2 % nr_shards, .bytes = SZ_64K, .depth = 8,
		});
		settle_and_measure(SECOND);
		expect_near("the part of a deep process beside two others", part_of_time(deep),
			    1. / 3, .05);
	}
}

/*
 * While two processes share a device that keeps up with them, their requests go in runs. Whatever
 * may limit bulk ends a run, or keeps it from beginning.
 */
static void test_runs(void)
{
	struct request read = { .cmd_flags = REQ_OP_READ }, write = { .cmd_flags = REQ_OP_WRITE };
	struct request large = { .cmd_flags = REQ_OP_READ, .bytes = SZ_1M };
	struct tg_shard *shard = &shards[0];
	u32 i;

	begin(2, 0);
	device_is_pressed = false;
	for (i = 0; i < 2; i++)
		process_add(&(struct process){
			.shard = i, .bytes = SZ_4K, .depth = 4, .think_ns = MS / 4,
		});
	run(SECOND);
	while (!shard->run.left || shard->run.tick != jiffies)
		step();
	expect("a run lasts", tg_run_lasts(shard, &read), true);
	expect("a run with a write", tg_run_lasts(shard, &write), false);
	expect("a run with a read that is too large for it", tg_run_lasts(shard, &large), false);
	tg.nr_held.value = 1;
	expect("a run while bulk waits", tg_run_lasts(shard, &read), false);
	tg.nr_held.value = 0;
	tg.woken_until = jiffies + 1;
	expect("a run while a woken shard waits", tg_run_lasts(shard, &read), false);
	tg.woken_until = jiffies;
	tg.controller.probing = true;
	expect("a run in a probe", tg_run_lasts(shard, &read), false);
	tg.controller.probing = false;
	tg.budget.pressed = true;
	tg.controller.budget = 100000;
	expect("a run while a budget limits bulk", tg_run_lasts(shard, &read), false);
	tg.controller.budget = TG_DEPTH_MAX;
	expect("a run while no budget limits bulk", tg_run_lasts(shard, &read), true);
	shard->run.tick--;
	expect("a run of the last tick", tg_run_lasts(shard, &read), false);

	tg.controller.room = 400000;
	tg.controller.room_due = jiffies + 1;
	shards[1].device.bulk.sent += 300000 - tg_bulk_inside(&tg);
	tg_run_begin(shard, 6000);
	expect("the length of a run, in ns: a quarter of the room that is left", shard->run.left,
	       25000);
	tg.controller.room = 300000;
	tg_run_begin(shard, 6000);
	expect("the length of a run without room", shard->run.left, 0);
	tg.controller.room = TG_DEPTH_MAX;
	tg_run_begin(shard, 6000);
	expect("the length of a run with any room, in ns", shard->run.left, 250000);
	tg_run_begin(shard, 200000);
	expect("the length of a run that would be one request", shard->run.left, 0);
	tg.controller.room_due = jiffies;
	tg_run_begin(shard, 6000);
	expect("the length of a run while bulk is timed", shard->run.left, 0);
}

/*
 * The requests of one process never come back, and fill the room. Then another process sends a
 * request every 100 ms. Once 25 of them have come back, it has the device for itself. If a submitter
 * shared the device for as long as it holds tags, it would go on like that. If sharing lasted until
 * the device has served as much as it had, the other process would have to send as much as is stuck:
 * with 4 KiB, beside 200 requests of 1 MiB, it would have 0.1 % for half an hour.
 */
static void test_stuck_submitter(void)
{
	static const struct { u32 bytes; int depth; u32 other; } stuck[] = {
		{ SZ_64K, 16, SZ_64K }, { SZ_64K, 200, SZ_4K }, { SZ_1M, 200, SZ_4K },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(stuck); i++) {
		struct process *other;

		begin(1, 0);
		device_is_pressed = false;
		process_add(&(struct process){
			.bytes = stuck[i].bytes, .depth = stuck[i].depth, .is_stuck = true,
		});
		other = process_add(&(struct process){ .bytes = stuck[i].other, .depth = 16 });
		run(4 * SECOND);
		measure(SECOND);
		expect_between("the part of the other process", part_of_time(other), .95, 1.001);
	}
}

/*
 * A process reads with two threads, of NORMAL and of LOW. Once another process has left, the device
 * has all that both threads ask for. If each flow counted as a submitter, the process would share
 * the device with itself for ever.
 */
static void test_alone_after_all(void)
{
	struct process *normal, *other;

	begin(1, 0);
	device_is_pressed = false;
	normal = process_add(&(struct process){ .bytes = SZ_64K, .depth = 50 });
	process_add(&(struct process){
		.priority = LOW, .bytes = SZ_64K, .depth = 50, .thread_of = normal,
	});
	other = process_add(&(struct process){ .bytes = SZ_64K, .depth = 16 });
	run(SECOND);
	expect("submitters share", tg.submitters.share, true);
	process_stop(other);
	run(SECOND);
	expect("requests that wait although the device has all", shards[0].queued, 0);
}

/*
 * Two processes share the device, and leave it idle. Whoever comes next has it alone: all requests
 * go at once. If only periods in which the device answers ended the sharing, most would wait. Of a
 * process whose requests are stuck, one would go every 100 ms, and costs would be learnt from that.
 */
static void test_idle_ends_sharing(void)
{
	struct process *p[2];

	begin(1, 0);
	device_is_pressed = false;
	p[0] = process_add(&(struct process){ .bytes = SZ_64K, .depth = 16 });
	p[1] = process_add(&(struct process){ .bytes = SZ_64K, .depth = 16 });
	run(SECOND);
	process_stop(p[0]);
	process_stop(p[1]);
	run(SECOND);
	process_add(&(struct process){ .bytes = SZ_64K, .depth = 64, .is_stuck = true });
	run(MS);
	expect("requests that wait although nobody shares", shards[0].queued, 0);
}

/*
 * The device pauses for 350 ms, while two processes share it. Meanwhile it gets no more than the
 * room and the requests that patience lets in, one every 100 ms. If the sharing lasted for 100 ms
 * of any time, the device would get all requests.
 */
static void test_paused_device(void)
{
	begin(1, 0);
	device_is_pressed = false;
	process_add(&(struct process){ .bytes = SZ_64K, .depth = 128 });
	process_add(&(struct process){ .bytes = SZ_64K, .depth = 8 });
	run(SECOND);
	device_free_at = kernel_now + 350 * MS;
	tg_first(&in_device)->at = device_free_at;
	run(300 * MS);
	expect_between("rooms in a device that pauses",
		       (double)tg_bulk_inside(&tg) / tg.controller.room, .9, 1.5);
}

/*
 * On one hardware queue @normal processes of NORMAL read requests of @bytes. On each of three others
 * @others processes of @priority read requests of @bytes_of_others. Return the part of the time that
 * the three other queues have.
 */
static double part_of_other_queues(u32 normal, u32 bytes, u32 others, unsigned short priority,
				   u32 bytes_of_others)
{
	struct process *p[MOST_PROCESSES];
	double part = 0;
	u32 i, n = 0;

	begin(4, 0);
	device_is_pressed = false;
	for (i = 0; i < normal; i++)
		process_add(&(struct process){ .bytes = bytes, .depth = 200 });
	for (i = 0; i < 3 * others; i++)
		p[n++] = process_add(&(struct process){
			.shard = 1 + i % 3, .priority = priority, .bytes = bytes_of_others,
			.depth = 200,
		});
	settle_and_measure(2 * SECOND);
	for (i = 0; i < n; i++)
		part += part_of_time(p[i]);
	return part;
}

/*
 * Hardware queues share the device as the processes would on one queue, whatever the size of their
 * requests. LOW on three queues has its share of 5 % beside NORMAL on the fourth, however many
 * processes either class has. Processes of NORMAL have equal parts. If all queues had equal parts,
 * each of these parts would be 66 to 77 %. If each queue of LOW had LOW's share for itself, LOW
 * would have up to 14 %. If the lead that counts (TG_LEAD_MAX) were the shorter the more flows a
 * queue has, three processes of six would have 45 %.
 */
static void test_classes_on_hardware_queues(void)
{
	static const u32 bytes[] = { SZ_4K, SZ_64K, SZ_512K };
	u32 i, k;

	for (i = 0; i < ARRAY_SIZE(bytes); i++) {
		for (k = 0; k < ARRAY_SIZE(bytes); k++) {
			expect_between("LOW on three queues beside NORMAL",
				       part_of_other_queues(1, bytes[i], 1, LOW, bytes[k]),
				       .035, .06);
			expect_between("twelve of LOW beside NORMAL",
				       part_of_other_queues(1, bytes[i], 4, LOW, bytes[k]),
				       .035, .06);
			expect_between("LOW beside three of NORMAL",
				       part_of_other_queues(3, bytes[i], 1, LOW, bytes[k]),
				       .035, .06);
		}
		/* The room is as large as one request of 512 KiB. */
		expect_near("three processes of six",
			    part_of_other_queues(3, bytes[i], 1, NORMAL, bytes[i]), .5,
			    bytes[i] == SZ_512K ? .1 : .02);
		expect_near("nine processes of ten",
			    part_of_other_queues(1, bytes[i], 3, NORMAL, bytes[i]), .9, .02);
	}
}

/*
 * A process reads all the time, another one on another hardware queue in bursts of 64. When a burst
 * begins, its queue has no claim to the time before: the steady process waits for 0.33 ms, for few
 * of the burst's requests. If what a queue sends while no other one waits did not raise the virtual
 * time at which others begin, it would wait for 0.79 ms.
 */
static void test_burst_has_no_claim(void)
{
	struct process *steady, *bursts;
	double gap = 0;
	u32 i;

	begin(2, 0);
	device_is_pressed = false;
	steady = process_add(&(struct process){ .bytes = SZ_64K, .depth = 4 });
	bursts = process_add(&(struct process){ .shard = 1, .bytes = SZ_64K, .depth = 64 });
	run(100 * MS);
	for (i = 0; i < 20; i++) {
		bursts->stopped = true;
		run(20 * MS);
		bursts->stopped = false;
		measure(10 * MS);
		gap = max(gap, steady->longest_gap / 1e6);
	}
	expect_between("the longest time without a request of a steady process, ms", gap, 0, .5);
}

/*
 * LOW has deep readers on three of four hardware queues. A process of NORMAL with few requests, which
 * shares a queue with one of them, has what it has without LOW: 18 % of the time beside a deep one on
 * the fourth queue. If a queue had one virtual time for NORMAL and LOW, it would pay for LOW, and
 * have 0.8 %. If its requests did not end a hold of LOW, it would have 3 %.
 */
static void test_low_on_own_queue(void)
{
	struct process *few;
	u32 i;

	begin(4, 0);
	device_is_pressed = false;
	few = process_add(&(struct process){ .bytes = SZ_64K, .depth = 4, .think_ns = MS });
	process_add(&(struct process){ .shard = 1, .bytes = SZ_64K, .depth = 200 });
	for (i = 0; i < 4; i++)
		if (i != 1)
			process_add(&(struct process){
				.shard = i, .priority = LOW, .bytes = SZ_512K, .depth = 200,
			});
	settle_and_measure(2 * SECOND);
	expect_between("NORMAL with few requests", part_of_time(few), .16, .19);
	expect_between("its longest wait, ms", few->longest_wait / 1e6, 0, 2);
}

/*
 * All requests of LOW are queued, so LOW takes no tags, and without a share none of them goes. NORMAL
 * has the device nevertheless, on one hardware queue and on two. If only taking tags counted as
 * asking, the sharing would end every 100 ms, all of LOW's requests would go to the device, and
 * NORMAL would have 2 %.
 */
static void test_low_that_waits(void)
{
	u32 nr_shards;

	for (nr_shards = 1; nr_shards <= 2; nr_shards++) {
		struct process *normal;

		begin(nr_shards, 0);
		device_is_pressed = false;
		tg.tunables.share_low = 0;
		normal = process_add(&(struct process){ .bytes = SZ_64K, .depth = 32 });
		process_add(&(struct process){
			.shard = nr_shards - 1, .priority = LOW, .bytes = SZ_1M, .depth = 128,
		});
		settle_and_measure(2 * SECOND);
		expect_between("NORMAL's part beside LOW without a share", part_of_time(normal),
			       .95, 1.01);
	}
}

/*
 * Two cgroups, of weights 100 and 1, read on different hardware queues: the heavy one with several
 * requests at a time, the light one with 24 processes of HIGH. While the budget holds all requests
 * of the heavy cgroup, this cgroup sends no new ones. Nevertheless each cgroup has its part,
 * whatever the size of requests. If a cgroup that waits did not count as asking
 * (tg_groups_hold_bulk()), the light cgroup's debt would be forgotten. That cgroup would have 15 %
 * with 64 KiB, and 99.9 % with 512 KiB.
 */
static void test_light_cgroup_on_another_queue(void)
{
	static const u32 bytes[] = { SZ_4K, SZ_64K, SZ_512K };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(bytes); i++) {
		struct process *light[24], *heavy;
		double part = 0;
		u32 k;

		begin(2, 0);
		tg.controller.budget = 500000;
		cgroup_weigh(1, 100);
		cgroup_weigh(2, 1);
		heavy = process_add(&(struct process){ .cgroup = 1, .bytes = SZ_64K, .depth = 16 });
		for (k = 0; k < ARRAY_SIZE(light); k++)
			light[k] = process_add(&(struct process){
				.shard = 1, .cgroup = 2, .priority = HIGH, .bytes = bytes[i],
				.depth = 2,
			});
		settle_and_measure(2 * SECOND);
		for (k = 0; k < ARRAY_SIZE(light); k++)
			part += part_of_time(light[k]);
		expect_between("the light cgroup's part", part, .005, .02);
		expect_between("the heavy cgroup's part", part_of_time(heavy), .9, 1);
	}
}

/*
 * A cgroup of weight 10000 reads on two hardware queues, another one of weight 1 or 100 on a third.
 * The two queues have equal parts, whatever the size of requests, although the third leaves the
 * device to them most of the time. If the third kept tg_budget.turn (the virtual time at which a
 * queue begins) from rising, both queues would have the largest lead over it that counts
 * (TG_LEAD_MAX). Then the one that asks first would have up to 99.6 %.
 */
static void test_light_cgroup_yields(void)
{
	static const u32 bytes[][2] = {
		{ SZ_4K, SZ_64K }, { SZ_4K, SZ_512K }, { SZ_64K, SZ_64K }, { SZ_64K, SZ_1M },
	};
	static const u64 budgets[] = { TG_DEPTH_MAX, 200000 };
	static const u32 weights[] = { 1, 100 };
	struct process *a, *b;
	u32 i;

	for (i = 0; i < 16; i++) {
		const u32 *size = bytes[i % 4];

		begin(3, 0);
		tg.controller.budget = budgets[i / 4 % 2];
		tg.controller.room = 500000;
		cgroup_weigh(1, 10000);
		cgroup_weigh(2, weights[i / 8]);
		a = process_add(&(struct process){ .cgroup = 1, .bytes = size[0], .depth = 128 });
		b = process_add(&(struct process){
			.shard = 1, .cgroup = 1, .bytes = size[1], .depth = 32,
		});
		process_add(&(struct process){
			.shard = 2, .cgroup = 2, .bytes = SZ_64K, .depth = 32,
		});
		settle_and_measure(SECOND);
		expect_between("parts of two queues of a cgroup", part_of_time(a) / part_of_time(b),
			       .8, 1.25);
	}
}

/*
 * A heavy and a light cgroup share one hardware queue. The light one has one process, with requests
 * so long that no other request is inserted while the device serves one. The process inserts its
 * next request before a dispatcher sees both cgroups. If a cgroup that waits did not count as
 * asking (tg_groups_hold_bulk()), the light one would have 97 %.
 */
static void test_light_cgroup_on_same_queue(void)
{
	struct process *heavy, *light;

	begin(1, 0);
	tg.controller.budget = 500000;
	cgroup_weigh(1, 100);
	cgroup_weigh(2, 1);
	heavy = process_add(&(struct process){ .cgroup = 1, .bytes = SZ_64K, .depth = 16 });
	light = process_add(&(struct process){
		.cgroup = 2, .priority = HIGH, .bytes = SZ_16M, .depth = 1,
	});
	settle_and_measure(20 * SECOND);
	expect_between("the light cgroup's part of one queue", part_of_time(light), .005, .02);
	expect_between("what the heavy cgroup has there", part_of_time(heavy), .9, 1);
}

/*
 * One of two cgroups cannot use the device: a rate limit holds it, the driver has stopped its
 * hardware queue, or it sends nothing. So urgent requests of the other one stay urgent: 25 100
 * reads a second, which take 15 % of the device. In test_alone_has_all(), HIGH asks for all of it.
 */
static void test_nobody_pays_alone(void)
{
	enum { LIMITED, STOPPED, GONE, CASES } why;
	struct process *high[4], *other;
	u32 k;

	for (why = LIMITED; why < CASES; why++) {
		double reads = 0;

		begin(2, 0);
		device_is_pressed = false;
		tg.controller.budget = 1000;
		for (k = 0; k < ARRAY_SIZE(high); k++)
			high[k] = process_add(&(struct process){
				.cgroup = 1, .priority = HIGH, .bytes = SZ_4K, .depth = 1,
				.think_ns = 100000,
			});
		process_add(&(struct process){ .cgroup = 1, .bytes = SZ_64K, .depth = 32 });
		other = process_add(&(struct process){
			.shard = 1, .cgroup = 2, .priority = LOW, .bytes = SZ_4K, .depth = 8,
		});
		if (why == LIMITED) {
			tg.tunables.limited = true;
			tg.tunables.limit_iops[PRIO_CLASS_LOW] = 2;
		}
		run(SECOND);
		is_stopped[1] = why == STOPPED;
		if (why == GONE)
			process_stop(other);
		settle_and_measure(SECOND);
		for (k = 0; k < ARRAY_SIZE(high); k++)
			reads += high[k]->kib / 4.;
		expect_between("reads beside a cgroup that waits for nobody", reads, 24000, 26000);
		is_stopped[1] = false;
	}
}

/* Processes that are alike. */
struct many {
	struct process *first;
	u32 count;
};

static struct many add_many(u32 count, const struct process *like)
{
	struct many many = { .first = process_add(like), .count = count };
	u32 i;

	for (i = 1; i < count; i++)
		process_add(like);
	return many;
}

static double part_of_many(struct many many)
{
	double part = 0;
	u32 i;

	for (i = 0; i < many.count; i++)
		part += part_of_time(&many.first[i]);
	return part;
}

static double longest_wait_us(struct many many)
{
	u64 longest = 0;
	u32 i;

	for (i = 0; i < many.count; i++)
		longest = max(longest, many.first[i].longest_wait);
	return longest / 1e3;
}

/*
 * A light cgroup reads a little with HIGH beside one that reads much, with the budgets that triage
 * finds and smaller ones. The light one is within its share, so none of its reads waits. If it were
 * also limited on a level of the tree on which it has no siblings, one in 33 of its reads would be
 * bulk, and wait for up to 10 ms.
 */
static void test_light_cgroup_never_waits(void)
{
	static const u64 budgets[] = { 1000, 20000, 100000, 500000 };
	u32 i, shard;

	for (i = 0; i < ARRAY_SIZE(budgets); i++) {
		for (shard = 0; shard < 2; shard++) {
			struct process *light;

			begin(2, 0);
			device_is_pressed = false;
			tg.controller.budget = budgets[i];
			process_add(&(struct process){
				.cgroup = 1, .shard = shard, .bytes = SZ_64K, .depth = 16,
			});
			light = process_add(&(struct process){
				.cgroup = 2, .priority = HIGH, .bytes = SZ_4K, .depth = 1,
				.think_ns = 200000,
			});
			settle_and_measure(2 * SECOND);
			expect_between("the longest wait of a light cgroup, in us",
				       light->longest_wait / 1e3, 0, 1);
		}
	}
}

/*
 * A cgroup of HIGH also has bulk. Bulk is not charged to the cgroup's share of urgent requests
 * (tg_account.used). If it were, HIGH would have 6 % of the device here, and wait for 1.5 ms.
 */
static void test_own_bulk_costs_no_protection(void)
{
	struct many high;

	begin(2, 5000);
	device_is_pressed = false;
	tg.controller.budget = 100000;
	high = add_many(4, &(struct process){
		.cgroup = 1, .priority = HIGH, .bytes = SZ_4K, .depth = 1, .think_ns = 100000,
	});
	process_add(&(struct process){ .cgroup = 1, .bytes = SZ_64K, .depth = 32 });
	process_add(&(struct process){
		.shard = 1, .cgroup = 2, .writes = true, .bytes = SZ_1M, .depth = 4,
	});
	settle_and_measure(2 * SECOND);
	expect_between("the part of HIGH beside bulk of its own cgroup", part_of_many(high),
		       .1, .11);
	expect_between("its longest wait, in us", longest_wait_us(high), 0, 100);
}

/* Run 32 requests of HIGH, of a cgroup of @weight, beside bulk of a cgroup of weight 100. */
static struct many run_deep_high(u64 budget, u32 bulk_shard, u32 weight)
{
	struct many high;

	begin(2, 0);
	device_is_pressed = false;
	tg.controller.budget = budget;
	cgroup_weigh(1, 100);
	cgroup_weigh(2, weight);
	process_add(&(struct process){
		.cgroup = 1, .shard = bulk_shard, .bytes = SZ_64K, .depth = 16,
	});
	high = add_many(8, &(struct process){
		.cgroup = 2, .priority = HIGH, .bytes = SZ_4K, .depth = 4,
	});
	settle_and_measure(2 * SECOND);
	return high;
}

/*
 * HIGH asks for the whole device, beside a cgroup that a rate limit holds, or that sends nothing.
 * HIGH gets the whole device. If a cgroup that a rate limit holds counted as asking
 * (tg_groups_hold_bulk()), HIGH would have half.
 */
static void test_alone_has_all(void)
{
	enum { LIMITED, GONE, CASES } why;

	for (why = LIMITED; why < CASES; why++) {
		struct process *other;
		struct many high;

		begin(2, 0);
		device_is_pressed = false;
		tg.controller.budget = 1000;
		high = add_many(8, &(struct process){
			.cgroup = 1, .priority = HIGH, .bytes = SZ_4K, .depth = 4,
		});
		other = process_add(&(struct process){
			.shard = 1, .cgroup = 2, .priority = LOW, .bytes = SZ_4K, .depth = 8,
		});
		tg.tunables.limited = why == LIMITED;
		tg.tunables.limit_iops[PRIO_CLASS_LOW] = 2;
		run(SECOND);
		if (why == GONE)
			process_stop(other);
		settle_and_measure(2 * SECOND);
		expect_between("a part beside a cgroup that waits for nobody",
			       part_of_many(high), .95, 1.01);
	}
}

/*
 * A budget below one request of bulk leaves the device idle. That is no reason to hold HIGH of
 * another cgroup: each cgroup may use its share of the device's time, whatever others get. If idle
 * time did not count (tg_groups_passed()), each of the two would have 2 % with a budget of 1 us.
 */
static void test_share_of_idle_device(void)
{
	static const struct { u64 budget; u32 weight; double due; } cases[] = {
		{ 1000, 100, .5 }, { 20000, 100, .5 }, { 100000, 100, .5 },
		{ 1000, 10, .0909 }, { 20000, 10, .0909 },
	};
	u32 i, shard;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		for (shard = 0; shard < 2; shard++)
			expect_near("HIGH's part of an idle device",
				    part_of_many(run_deep_high(cases[i].budget, shard,
							       cases[i].weight)),
				    cases[i].due, .05);
}

/*
 * As in test_share_of_idle_device(), but HIGH's own cgroup has bulk too, which gets its guaranteed
 * tenth of the cgroup's time. If a hold lasted until the budget lets bulk go, although idle
 * time lets HIGH go sooner (tg_wait()), HIGH would have half as much.
 */
static void test_share_beside_own_bulk(void)
{
	struct many high;

	begin(1, 0);
	device_is_pressed = false;
	tg.controller.budget = 1000;
	process_add(&(struct process){ .cgroup = 1, .bytes = SZ_64K, .depth = 16 });
	process_add(&(struct process){ .cgroup = 2, .bytes = SZ_64K, .depth = 32 });
	high = add_many(8, &(struct process){
		.cgroup = 2, .priority = HIGH, .bytes = SZ_4K, .depth = 4,
	});
	settle_and_measure(2 * SECOND);
	expect_between("HIGH's part beside bulk of its own", part_of_many(high), .43, .5);
}

/* Begin a load: HIGH of a cgroup of weight 10 beside bulk of one of weight 100. */
static struct many add_light_high(u64 budget)
{
	begin(1, 0);
	device_is_pressed = false;
	tg.controller.budget = budget;
	cgroup_weigh(2, 10);
	process_add(&(struct process){ .cgroup = 1, .bytes = SZ_64K, .depth = 16 });
	return add_many(8, &(struct process){
		.cgroup = 2, .priority = HIGH, .bytes = SZ_4K, .depth = 4,
	});
}

/*
 * Time for which the budget holds bulk while the device serves other bulk counts once. If bulk
 * counted when it is sent, this time would count twice, and HIGH would have 12 % instead of 9 with
 * a budget of 1.5 requests. If requests that the driver sends back counted each time
 * (tg_device.returned), HIGH would have 18 %.
 */
static void test_time_counts_once(void)
{
	struct many high;
	u32 refuses;

	for (refuses = 0; refuses <= 6; refuses += 3) {
		high = add_light_high(100000);
		device_refuses = refuses;
		settle_and_measure(2 * SECOND);
		expect_near("a share while each time counts once", part_of_many(high), .0909, .05);
	}
}

/*
 * A CPU reads tg_groups.clock, to raise tg_account.reach (what each child of a cgroup has been due)
 * by the time since tg_account.reach_at. Meanwhile another CPU may do so, with a later clock. Then
 * the first CPU must leave both fields as they are. If it set reach_at back, the time in between
 * would count again, and a light cgroup would have 59 % of the device.
 */
static void test_stale_clock(void)
{
	struct process *heavy;
	struct many light;
	u64 until;

	begin(2, 0);
	device_is_pressed = false;
	tg.controller.budget = 500000;
	cgroup_weigh(2, 1);
	heavy = process_add(&(struct process){ .cgroup = 1, .bytes = SZ_64K, .depth = 16 });
	light = add_many(24, &(struct process){
		.shard = 1, .cgroup = 2, .priority = HIGH, .bytes = SZ_4K, .depth = 2,
	});
	settle_and_measure(0);
	for (until = kernel_now + 2 * SECOND; kernel_now < until; step())
		atomic64_set(&tg.groups.all.reach_at, atomic64_read(&tg.groups.clock) + 6000);
	expect_near("a light cgroup's share with stale clocks", part_of_many(light), .0099, .1);
	expect_near("a heavy cgroup's share with stale clocks", part_of_time(heavy), .9901, .02);
}

/*
 * A late CPU reads the clock, the sum of served requests or the number of the interval. Before it
 * uses these values, another CPU uses later ones. The late CPU then does not change
 * tg_account.reach and reach_at, nor set tg_account.asked back. If it read less served time than
 * the other CPU, it finds a negative difference, even if it read more requests.
 */
static void test_late_cpu(void)
{
	struct tg_account *all = &tg.groups.all;
	struct tg_account *account;
	u32 interval;

	begin(2, 0);
	process_add(&(struct process){ .cgroup = 1, .bytes = SZ_64K, .depth = 16 });
	process_add(&(struct process){ .shard = 1, .cgroup = 2, .bytes = SZ_64K, .depth = 16 });
	run(SECOND);
	account = &cgroups[1].all;
	tg_groups_advance(&tg, false);
	tg_accounts_reach(&tg, account);
	atomic64_set(&all->reach, 0);
	atomic64_set(&all->reach_at, atomic64_read(&tg.groups.clock) + 6000);
	tg_accounts_reach(&tg, account);
	expect("reach by a late CPU", atomic64_read(&all->reach), 0);
	expect("how far the reach is ahead of a late CPU's clock",
	       atomic64_read(&all->reach_at) - atomic64_read(&tg.groups.clock), 6000);

	expect("done, with a request more and 5 ns less",
	       -tg_groups_done_since(7 * TG_GAUGE_ONE + 95, 6 * TG_GAUGE_ONE + 100), 5);
	expect("done, with two requests more", tg_groups_done_since(8 * TG_GAUGE_ONE + 250,
								    6 * TG_GAUGE_ONE + 100), 150);

	interval = tg_interval() + 1;
	account->asked = interval;
	tg_accounts_ask(&tg, account);
	expect("the interval in which a cgroup has asked", account->asked, interval);
}

/*
 * A lane, a cgroup's part of a hardware queue, is charged later for requests that find nothing
 * queued. Until then the lane owes for them (tg_lane.owes), for a turn at most. Each request is
 * charged exactly once. A lane owes only for requests of one tick, either all urgent or all bulk.
 * If bulk was held, the first bulk that goes is charged at once, because it ends the hold.
 */
static void test_lane_owes(void)
{
	struct tg_account *account = &cgroups[1].own;
	struct tg_lane *lane = &cgroups[1].lanes[0];
	u64 before, until, most = 0, least = U64_MAX;
	struct request rq = {};
	struct many readers;

	begin(2, 0);
	device_is_pressed = false;
	readers = add_many(8, &(struct process){
		.cgroup = 1, .asks_little = true, .bytes = SZ_4K, .depth = 1,
	});
	process_add(&(struct process){
		.shard = 1, .cgroup = 2, .asks_little = true, .bytes = SZ_4K, .depth = 1,
		.think_ns = MS,
	});
	run(SECOND);
	measure(0);
	before = atomic64_read(&account->had[TG_SHARED_DEVICE].time) + lane->owes;
	for (until = kernel_now + SECOND; kernel_now < until; step()) {
		most = max(most, lane->owes);
		least = min(least, lane->owes);
	}
	expect_near("the part of its requests' cost that a cgroup is charged, or owes",
		    (atomic64_read(&account->had[TG_SHARED_DEVICE].time) + lane->owes - before) /
		    (part_of_many(readers) * SECOND), 1, .001);
	expect_between("the most that it owes, us", most / 1e3, 20, 50);
	expect_between("the least that it owes, us", least / 1e3, 0, 6);

	lane = &cgroups[3].lanes[0];
	lane->owes = 1000;
	lane->owes_since = jiffies - 1;
	lane->exceeds = true;
	expect("beyond its share, as the tick before had it",
	       tg_lane_only_exceeds(&shards[0], lane), false);
	expect("owed from the tick before, ns", lane->owes, 0);

	tg_tag(&rq)->cost = 6000;
	tg_tag(&rq)->urgent = false;
	tg_lane_charge_only(&shards[0], lane, &rq, true);
	atomic64_set(&tg.groups.held_from, kernel_now);
	tg_tag(&rq)->urgent = true;
	tg_lane_charge_only(&shards[0], lane, &rq, true);
	expect("since when bulk is held, after some that went before is charged",
	       atomic64_read(&tg.groups.held_from), kernel_now);
	atomic64_set(&tg.groups.held_from, 0);
	tg_tag(&rq)->urgent = false;
	tg_lane_charge_only(&shards[0], lane, &rq, true);
	expect("owed for bulk after an urgent request, ns", lane->owes, 6000);
	atomic64_set(&tg.groups.held_from, kernel_now);
	tg_lane_charge_only(&shards[0], lane, &rq, true);
	expect("since when bulk is held, once some goes", atomic64_read(&tg.groups.held_from), 0);
	expect("owed then, ns", lane->owes, 0);
}

/*
 * A cgroup has many processes that ask for little. Their requests are so long that after two of
 * them a flow no longer goes first (it is not sparse). All these requests are charged to the
 * cgroup's share of urgent requests. So the cgroup is beyond its share, and none of them is urgent,
 * even with a budget so large that they hardly wait. If only requests of sparse flows were charged,
 * six urgent ones would be in the device on average, and no budget would protect another cgroup's
 * reader from them.
 */
static void test_long_requests_of_many(void)
{
	u64 until, sum = 0, steps = 0;
	struct process *light;

	begin(1, 0);
	device_is_pressed = false;
	tg.controller.budget = 2800000;
	tg.controller.room = 4 * MS;
	tg.costs.of[TG_READ] = (struct tg_cost){ .base = 2300, .per_kib = 2400 };
	tg.budget.bulk_cost = 155900;
	add_many(40, &(struct process){
		.cgroup = 1, .asks_little = true, .bytes = SZ_64K, .depth = 2,
	});
	light = process_add(&(struct process){
		.cgroup = 2, .asks_little = true, .bytes = SZ_4K, .depth = 1,
	});
	settle_and_measure(0);
	for (until = kernel_now + SECOND; kernel_now < until; step(), steps++)
		sum += tg_gauge_cost(&shards[0].device.urgent);
	expect_between("cost of urgent requests in the device, us", sum / 1e3 / steps, 5, 13);
	expect_between("a read's longest wait, us", light->longest_wait / 1e3, 0, 0);
}

/*
 * In the cgroup of a reader, another process reads 1 MiB at a time, one request after the other. A
 * request that large is bulk by itself, so it is not charged to the cgroup's share of urgent
 * requests. If it were, a reader, even one of HIGH, would be held for milliseconds beside another
 * cgroup's bulk.
 */
static void test_own_huge_requests(void)
{
	static const struct {
		u64 budget;
		unsigned short priority;
		u32 nr_shards, huge;
	} loads[] = {
		{ 20000, NORMAL, 1, 1 }, { 60000, NORMAL, 1, 1 }, { TG_DEPTH_MAX, HIGH, 2, 2 },
	};
	u32 i, k;

	for (i = 0; i < ARRAY_SIZE(loads); i++) {
		struct process *reader;

		begin(loads[i].nr_shards, 0);
		device_is_pressed = false;
		tg.controller.budget = loads[i].budget;
		reader = process_add(&(struct process){
			.cgroup = 1, .priority = loads[i].priority, .asks_little = true,
			.bytes = SZ_4K, .depth = 1, .think_ns = MS,
		});
		for (k = 0; k < loads[i].huge; k++)
			process_add(&(struct process){
				.shard = k, .cgroup = 1, .asks_little = true, .bytes = SZ_1M,
				.depth = 1,
			});
		process_add(&(struct process){ .cgroup = 2, .bytes = SZ_64K, .depth = 32 });
		settle_and_measure(2 * SECOND);
		expect_between("a read's longest wait beside huge ones of its cgroup, us",
			       reader->longest_wait / 1e3, 0, 1);
	}
}

/*
 * Many cgroups of the highest weight read from a fast device, each less than its share. Device time
 * (tg_groups.clock) then advances in short steps, and each cgroup's part of a step is tiny, but the
 * parts add up. If each part were rounded down (TG_REACH_LEAST), tg_account.reach would stand
 * still: readers would wait, and bulk would have 26 %.
 */
static void test_many_heavy_cgroups(void)
{
	struct process *bulk;
	u32 i;

	begin(1, 0);
	device_is_pressed = false;
	tg.controller.budget = 5000;
	tg.costs.of[TG_READ] = (struct tg_cost){ .base = 333, .per_kib = 167 };
	tg.budget.bulk_cost = 1001;
	for (i = 1; i <= 32; i++)
		cgroup_weigh(i, 10000);
	bulk = process_add(&(struct process){ .cgroup = 1, .bytes = SZ_4K, .depth = 128 });
	for (i = 2; i <= 32; i++)
		process_add(&(struct process){
			.cgroup = i, .priority = HIGH, .bytes = SZ_4K, .depth = 1, .think_ns = MS,
		});
	settle_and_measure(2 * SECOND);
	expect_between("bulk's part beside many heavy cgroups", part_of_time(bulk), .05, .15);
	for (i = 1; i < nr_processes; i++)
		expect_between("the longest wait of a heavy cgroup, in us",
			       processes[i].longest_wait / 1e3, 0, 1);
}

/*
 * Two cgroups have only urgent requests for five seconds. Then one of them and a third cgroup begin
 * with bulk, and these two have equal parts at once. If all earlier urgent requests of a cgroup
 * counted against its bulk (tg_account_charge()), bulk of the first of these two would have 0.1 %
 * until the third cgroup has had as much.
 */
static void test_bulk_after_urgent(void)
{
	struct process *bulk, *other;
	struct many readers;

	begin(1, 0);
	device_is_pressed = false;
	tg.controller.budget = 500000;
	readers = add_many(8, &(struct process){
		.cgroup = 1, .asks_little = true, .bytes = SZ_4K, .depth = 1, .think_ns = 100000,
	});
	add_many(8, &(struct process){
		.cgroup = 2, .asks_little = true, .bytes = SZ_4K, .depth = 1, .think_ns = 100000,
	});
	run(5 * SECOND);
	bulk = process_add(&(struct process){ .cgroup = 1, .bytes = SZ_64K, .depth = 16 });
	other = process_add(&(struct process){ .cgroup = 3, .bytes = SZ_64K, .depth = 16 });
	measure(SECOND);
	expect_near("bulk and readers of a cgroup after it had only readers",
		    part_of_time(bulk) + part_of_many(readers), part_of_time(other), .05);
}

/*
 * Cgroup 1 has bulk. Cgroup 2, and cgroup 3 below it, have HIGH, which uses less than its share.
 * The time that the children of a cgroup have been due (tg_accounts_reach()) must also grow while a
 * cgroup outside this subtree has its turn. If it did not, HIGH would wait for up to 70 ms.
 */
static void test_nested_cgroups(void)
{
	static const u64 budgets[] = { 1000, 20000, 100000 };
	u32 i, k;

	for (i = 0; i < ARRAY_SIZE(budgets); i++) {
		struct process *high[3];

		begin(1, 0);
		device_is_pressed = false;
		tg.controller.budget = budgets[i];
		cgroup_weigh(2, 200);
		cgroup_nest(3, 2);
		process_add(&(struct process){ .cgroup = 1, .bytes = SZ_64K, .depth = 16 });
		for (k = 0; k < ARRAY_SIZE(high); k++)
			high[k] = process_add(&(struct process){
				.cgroup = k ? 3 : 2, .priority = HIGH, .bytes = SZ_4K,
				.depth = 1, .think_ns = k ? 100000 : MS,
			});
		settle_and_measure(2 * SECOND);
		for (k = 0; k < ARRAY_SIZE(high); k++)
			expect_between("the longest wait of nested HIGH, in us",
				       high[k]->longest_wait / 1e3, 0, 1);
	}
}

/*
 * A user makes two cgroups below a cgroup: one of weight 1 with bulk, and one of weight 10000 that
 * reads now and then. The light one has a hundredth of a per cent of the part of the cgroup above
 * it, and takes nothing from any other cgroup (tg_account.part).
 */
static void test_tiny_child(void)
{
	struct process *victim;

	begin(1, 0);
	device_is_pressed = false;
	tg.controller.budget = 20000;
	cgroup_weigh(2, 1);
	cgroup_weigh(3, 10000);
	cgroup_nest(2, 1);
	cgroup_nest(3, 1);
	process_add(&(struct process){ .cgroup = 2, .bytes = SZ_4K, .depth = 128 });
	process_add(&(struct process){
		.cgroup = 3, .bytes = SZ_4K, .depth = 1, .think_ns = 15 * MS,
	});
	victim = process_add(&(struct process){
		.priority = HIGH, .bytes = SZ_4K, .depth = 1, .think_ns = 100000,
	});
	settle_and_measure(2 * SECOND);
	expect_between("the part of HIGH beside a tiny child", part_of_time(victim), .037, .04);
	expect_between("its longest wait, in us", victim->longest_wait / 1e3, 0, 1);
}

/*
 * NORMAL's guaranteed share lets a cgroup's bulk go beside its own HIGH even when the budget holds
 * bulk back. HIGH still gets what this bulk leaves of the cgroup's half, and another cgroup's bulk
 * goes on.
 */
static void test_reserved_is_no_turn(void)
{
	struct process *other, *high;

	begin(2, 0);
	device_is_pressed = false;
	tg.controller.budget = 20000;
	other = process_add(&(struct process){
		.shard = 1, .cgroup = 1, .bytes = SZ_64K, .depth = 16,
	});
	high = process_add(&(struct process){
		.cgroup = 2, .priority = HIGH, .bytes = SZ_4K, .depth = 128,
	});
	process_add(&(struct process){ .cgroup = 2, .bytes = SZ_64K, .depth = 32 });
	settle_and_measure(2 * SECOND);
	expect_between("HIGH's part beside a guaranteed share", part_of_time(high), .4, .55);
	expect_between("the longest wait of another cgroup, in ms", other->longest_wait / 1e6,
		       0, 10);
}

/*
 * Beyond its cgroup's share, HIGH is bulk, and goes within the budget like all bulk. Beside another
 * cgroup's few small requests of bulk, large requests of HIGH have at least the half that is due to
 * them. With a budget far below the cost of a large request they have no more. A small request
 * may then wait for the gap after a large one.
 */
static void test_large_high_is_bulk(void)
{
	static const struct { u64 budget; double least, longest_ms; } cases[] = {
		{ 20000, .475, 30 }, { 100000, .85, 2.5 }, { 500000, .85, 2.5 },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct process *high, *small;

		begin(1, 0);
		device_is_pressed = false;
		tg.controller.budget = cases[i].budget;
		high = process_add(&(struct process){
			.cgroup = 1, .priority = HIGH, .bytes = SZ_512K, .depth = 4,
		});
		small = process_add(&(struct process){
			.cgroup = 2, .bytes = SZ_4K, .depth = 1, .think_ns = 2 * MS,
		});
		settle_and_measure(2 * SECOND);
		expect_between("the part of HIGH with 512 KiB", part_of_time(high), cases[i].least,
			       1);
		expect_between("the longest wait of 4 KiB beside it, in ms",
			       small->longest_wait / 1e6, 0, cases[i].longest_ms);
	}
}

/*
 * A cgroup of weight 1 reads much with HIGH, in large requests, beside one that reads now and then.
 * The light cgroup is beyond its share, so the budget limits it. A read of the other cgroup takes
 * 56 us alone. If a large request of HIGH counted as one of bulk of average cost, such a read would
 * take 464 us.
 */
static void test_large_high_is_limited(void)
{
	static const u64 budgets[] = { 1000, 20000, 100000 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(budgets); i++) {
		struct process *reader;

		begin(1, 0);
		device_is_pressed = false;
		tg.controller.budget = budgets[i];
		cgroup_weigh(1, 10000);
		cgroup_weigh(2, 1);
		reader = process_add(&(struct process){
			.cgroup = 1, .priority = HIGH, .bytes = SZ_4K, .depth = 1,
			.think_ns = 100000,
		});
		process_add(&(struct process){
			.cgroup = 2, .priority = HIGH, .bytes = SZ_512K, .depth = 4,
		});
		settle_and_measure(4 * SECOND);
		/* A read costs 6 us: this is the time from one read to the next, less the pause. */
		expect_between("a read beside large HIGH beyond its share, in us",
			       6 / part_of_time(reader) - 100, 50, 120);
	}
}

/*
 * The driver has stopped a cgroup's hardware queue for half a second. Meanwhile the others have the
 * device. If the stopped queue competed with them whatever the device has (tg_limit_is_used()), they
 * would have a thousandth of it, because its cgroup is due first. The cgroup's requests waited, but
 * afterwards it gets nothing extra for this time. If it did (tg_accounts_ask()), it would have 71 %
 * of the device for the next 200 ms, and another cgroup nothing. A longer stop would let the
 * requests age, and all would go at once.
 */
static void test_after_stop(void)
{
	static const unsigned short priorities[] = { HIGH, NORMAL, NORMAL };
	struct process *p[3];
	u32 i;

	begin(3, 0);
	device_is_pressed = false;
	tg.controller.budget = 500000;
	for (i = 0; i < ARRAY_SIZE(p); i++)
		p[i] = process_add(&(struct process){
			.shard = i, .cgroup = i + 1, .priority = priorities[i],
			.bytes = i ? SZ_64K : SZ_4K, .depth = i ? 16 : 32,
		});
	run(SECOND);
	/* Stop the queue while its lane has requests: an empty lane would begin anew afterwards. */
	stops_soon[1] = true;
	while (!is_stopped[1] || list_empty(&shards[1].lanes))
		step();
	measure(SECOND / 2);
	expect_near("the others' part while a hardware queue is stopped",
		    part_of_time(p[0]) + part_of_time(p[2]), 1, .05);
	stops_soon[1] = false;
	is_stopped[1] = false;
	must_run[1] = true;
	measure(SECOND / 5);
	for (i = 0; i < ARRAY_SIZE(p); i++)
		expect_near("a third after a hardware queue was stopped", part_of_time(p[i]),
			    1 / 3., .05);
}

/*
 * A device is slow, and has 200 requests of a deep process when another process comes, which has
 * four at a time. Sharing lasts until the device has had the time to serve all that it had. If it
 * ended after 25 periods (tg_sharing_ends()), the deep process would have filled the device again
 * when the four come back, and the other one would have 2 % for ever. It also would if requests that
 * the driver sends back counted as served. So that nothing ages, the device serves all that it has
 * within the second, or aging takes long.
 */
static void test_newcomer_on_slow_device(void)
{
	static const struct { u32 ms; unsigned int aging_ms; u32 refuses; } cases[] = {
		{ 3, 1000, 0 }, { 20, 60000, 0 }, { 20, 60000, 5 },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		const u32 cost = cases[i].ms * MS;
		struct process *newcomer;

		begin(1, 0);
		device_is_pressed = false;
		device_refuses = cases[i].refuses;
		tg.costs.of[TG_READ] = (struct tg_cost){ .base = cost };
		tg.budget.bulk_cost = cost;
		tg.controller.room = 8 * cost;
		tg.tunables.aging_expire_normal = cases[i].aging_ms;
		process_add(&(struct process){ .bytes = SZ_1M, .depth = 200 });
		run(SECOND);
		newcomer = process_add(&(struct process){
			.bytes = SZ_1M, .depth = 4, .think_ns = MS / 4,
		});
		run(10 * SECOND);
		measure(10 * SECOND);
		expect_between("a newcomer's part of a slow device", part_of_time(newcomer),
			       .4, .5);
	}
}

/*
 * The driver of a hardware queue takes few requests at a time, and its answers come late. A process
 * on another queue has what this queue cannot use. If this queue competed while its driver has no
 * room (tg_sends_bulk()), the device would be busy for 39 % of the time.
 */
static void test_slow_hardware_queue(void)
{
	static const struct { u32 takes, bytes; u64 room; } cases[] = {
		{ 4, SZ_4K, 500000 }, { 1, 4 * SZ_64K, 1000000 },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct process *slow, *other;

		begin(2, 0);
		device_is_pressed = false;
		tg.controller.room = cases[i].room;
		driver_takes[0] = cases[i].takes;
		driver_delays[0] = MS;
		slow = process_add(&(struct process){
			.shard = 0, .bytes = cases[i].bytes, .depth = 64,
		});
		other = process_add(&(struct process){ .shard = 1, .bytes = SZ_64K, .depth = 64 });
		run(SECOND);
		measure(SECOND);
		expect_near("the device is busy beside a slow hardware queue",
			    part_of_time(slow) + part_of_time(other), 1, .05);
	}
}

/*
 * The CPU of a hardware queue needs nine tenths of the device's time for each request of NORMAL, so
 * its queue is seldom held. LOW waits on three other queues. If the queue that sends did not compete
 * (tg_competes()), LOW would go between its requests, and have 44 %.
 */
static void test_low_beside_sending(void)
{
	struct process *normal;
	u32 i;

	begin(4, 0);
	device_is_pressed = false;
	cpu_ns[0] = tg_cost_of(&tg.costs.of[TG_READ], 5 * SZ_4K, true) * 9 / 10;
	normal = process_add(&(struct process){ .shard = 0, .bytes = 5 * SZ_4K, .depth = 32 });
	for (i = 1; i < 4; i++)
		process_add(&(struct process){
			.shard = i, .priority = LOW, .bytes = 5 * SZ_4K, .depth = 32,
		});
	run(SECOND);
	measure(SECOND);
	expect_between("NORMAL's part beside LOW on other queues", part_of_time(normal), .92, .97);
}

/*
 * A hardware queue has sent bulk. Now it has only HIGH, which its CPU sends slowly. Two others have
 * what HIGH leaves. If a backlog of HIGH counted as bulk that is being sent (tg_sends_bulk()), they
 * would wait for this queue's turn, and have 72 %.
 */
static void test_high_after_bulk(void)
{
	struct process *bulk[2], *once;
	u32 i;

	begin(3, 0);
	device_is_pressed = false;
	tg.controller.budget = 150000;
	once = process_add(&(struct process){ .shard = 0, .bytes = SZ_64K, .depth = 4 });
	for (i = 0; i < 2; i++)
		bulk[i] = process_add(&(struct process){
			.shard = i + 1, .bytes = SZ_64K, .depth = 64,
		});
	run(SECOND / 10);
	process_stop(once);
	run(SECOND / 10);
	cpu_ns[0] = 60000;
	process_add(&(struct process){
		.shard = 0, .priority = HIGH, .bytes = SZ_4K, .depth = 16, .think_ns = 2000,
	});
	run(SECOND);
	measure(SECOND);
	expect_near("bulk's part beside HIGH", part_of_time(bulk[0]) + part_of_time(bulk[1]), .9,
		    .03);
}

static void slow_cpu(const struct process *slow, u32 cpu_us)
{
	struct process *p[2];

	begin(2, 0);
	device_is_pressed = false;
	tg.controller.room = 500000;
	cpu_ns[0] = cpu_us * 1000;
	p[0] = process_add(slow);
	p[1] = process_add(&(struct process){
		.shard = 1, .cgroup = 2 * slow->cgroup, .bytes = SZ_64K, .depth = 64,
	});
	run(SECOND);
	measure(SECOND);
	expect_near("the device is busy beside a slow CPU",
		    part_of_time(p[0]) + part_of_time(p[1]), 1, .05);
}

/*
 * The CPU of a hardware queue is too slow to keep the device busy. A process on another queue has
 * the rest of the device, also if it is in another cgroup. If a queue that sends competed whatever
 * the device has (tg_limit_is_used()), the other one would be as slow: with 3 ms a request the
 * device would be busy for 0.6 to 5 % of the time.
 */
static void test_slow_cpu(void)
{
	static const u32 cpu_us[] = { 20, 60, 200, 1000, 3000 };
	static const u32 bytes[] = { SZ_4K, SZ_64K };
	u32 c, b, cgroup;

	for (cgroup = 0; cgroup <= 1; cgroup++)
		for (b = 0; b < ARRAY_SIZE(bytes); b++)
			for (c = 0; c < ARRAY_SIZE(cpu_us); c++)
				slow_cpu(&(struct process){
					.cgroup = cgroup, .bytes = bytes[b], .depth = 64,
				}, cpu_us[c]);
}

/*
 * The same while urgent requests come, and the budget is below the cost of one request. The other
 * process has what the budget allows. If a queue that sends competed while the device has no bulk,
 * it would have 2 %.
 */
static void test_slow_cpu_small_budget(void)
{
	struct process *other;

	begin(3, 0);
	tg.controller.budget = 50000;
	cpu_ns[0] = 3 * MS;
	process_add(&(struct process){ .shard = 0, .bytes = SZ_64K, .depth = 64 });
	other = process_add(&(struct process){ .shard = 1, .bytes = SZ_64K, .depth = 64 });
	process_add(&(struct process){
		.shard = 2, .priority = HIGH, .bytes = SZ_4K, .depth = 1, .think_ns = MS / 10,
	});
	run(SECOND);
	measure(SECOND);
	expect_between("the part beside a slow CPU, with a small budget", part_of_time(other),
		       .25, .35);
}

/*
 * Beside HIGH, flows of NORMAL that ask for little (sparse flows) could use the whole device. They
 * leave the other flows of their class (the backlog) one part in 17 (TG_SPARSE_TURNS_FLASH is 16),
 * whatever the sizes of the backlog's requests. If the backlog got one request each time that it is
 * due, and not one turn, it would have 0.7 % with 4 KiB, and 55 % with 1 MiB. With one request
 * of 1 MiB at a time, it would also have 55 % if tg_flow_next() forgot the debt while the backlog
 * is empty.
 */
static void test_backlog_beside_sparse(void)
{
	static const struct { u32 bytes; int depth; } backlogs[] = {
		{ SZ_4K, 32 }, { SZ_64K, 32 }, { SZ_1M, 32 }, { SZ_1M, 1 },
	};
	struct process *backlog;
	u32 i, k;

	for (i = 0; i < ARRAY_SIZE(backlogs); i++) {
		begin(1, 0);
		tg.controller.budget = 500000;
		process_add(&(struct process){
			.priority = HIGH, .bytes = SZ_4K, .depth = 1, .think_ns = MS,
		});
		backlog = process_add(&(struct process){
			.bytes = backlogs[i].bytes, .depth = backlogs[i].depth,
		});
		for (k = 0; k < 60; k++)
			process_add(&(struct process){
				.asks_little = true, .bytes = SZ_4K, .depth = 2,
			});
		settle_and_measure(2 * SECOND);
		expect_near("the backlog's part", part_of_time(backlog), 1 / 17., .03);
	}
}

/*
 * Hinted requests of NORMAL, for which a process waits, go before HIGH, beyond the limit on sparse
 * flows. Once no more of them come, their cost must not keep sparse flows back. If this cost added
 * up without bound, a sparse flow would wait for 94 ms.
 */
static void test_sparse_after_hinted(void)
{
	struct process *high, *hinted[4], *sparse;
	u32 k;

	begin(1, 0);
	tg.controller.budget = 1;
	high = process_add(&(struct process){
		.priority = HIGH, .bytes = SZ_4K, .depth = 16, .think_ns = 20000,
	});
	for (k = 0; k < ARRAY_SIZE(hinted); k++)
		hinted[k] = process_add(&(struct process){
			.asks_little = true, .hints = true, .bytes = SZ_16K, .depth = 2,
			.think_ns = MS,
		});
	process_add(&(struct process){ .bytes = SZ_64K, .depth = 32 });
	run(20 * SECOND);
	process_stop(high);
	for (k = 0; k < ARRAY_SIZE(hinted); k++)
		process_stop(hinted[k]);
	tg.controller.budget = 500000;
	process_add(&(struct process){
		.priority = HIGH, .bytes = SZ_4K, .depth = 1, .think_ns = 20 * MS,
	});
	sparse = process_add(&(struct process){
		.asks_little = true, .bytes = SZ_4K, .depth = 1, .think_ns = MS,
	});
	measure(SECOND);
	expect_between("the longest wait after hinted requests, ms", sparse->longest_wait / 1e6,
		       0, 5);
}

int main(int argc, char **argv)
{
	begin_tests(argc, argv);
	RUN(test_guaranteed_share());
	RUN(test_deep_beside_shallow());
	RUN(test_runs());
	RUN(test_stuck_submitter());
	RUN(test_alone_after_all());
	RUN(test_idle_ends_sharing());
	RUN(test_paused_device());
	RUN(test_classes_on_hardware_queues());
	RUN(test_burst_has_no_claim());
	RUN(test_low_on_own_queue());
	RUN(test_low_that_waits());
	RUN(test_light_cgroup_on_another_queue());
	RUN(test_light_cgroup_yields());
	RUN(test_light_cgroup_on_same_queue());
	RUN(test_nobody_pays_alone());
	RUN(test_light_cgroup_never_waits());
	RUN(test_own_bulk_costs_no_protection());
	RUN(test_alone_has_all());
	RUN(test_share_of_idle_device());
	RUN(test_time_counts_once());
	RUN(test_stale_clock());
	RUN(test_late_cpu());
	RUN(test_lane_owes());
	RUN(test_long_requests_of_many());
	RUN(test_own_huge_requests());
	RUN(test_many_heavy_cgroups());
	RUN(test_bulk_after_urgent());
	RUN(test_share_beside_own_bulk());
	RUN(test_nested_cgroups());
	RUN(test_tiny_child());
	RUN(test_reserved_is_no_turn());
	RUN(test_large_high_is_bulk());
	RUN(test_large_high_is_limited());
	RUN(test_after_stop());
	RUN(test_slow_hardware_queue());
	RUN(test_low_beside_sending());
	RUN(test_high_after_bulk());
	RUN(test_slow_cpu());
	RUN(test_slow_cpu_small_budget());
	RUN(test_newcomer_on_slow_device());
	RUN(test_backlog_beside_sparse());
	RUN(test_sparse_after_hinted());
	RUN(test_share_is_no_limit());
	RUN(test_low_lacks_device_time());
	RUN(test_light_cgroup_lacks_device_time());
	RUN(test_cgroups_that_write());
	RUN(test_classes_that_write());
	RUN(test_one_write_at_a_time());
	RUN(test_hardware_queues());
	RUN(test_aged_writes_end());
	RUN(test_crowd());
	RUN(test_any_load());
	RUN(test_flush_is_waited_for());
	processes_forget();
	return end_tests("triage policy: shares are as promised, and bulk that may go, goes");
}
