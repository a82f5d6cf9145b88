// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guards: while processes flush, bulk writes nearly as fast as the drive empties its buffer, and
 * no faster, so that flushes are short. If bulk is not the cause of slow flushes, it keeps its
 * throughput. The drive is a model of a buffer. Run with: make -C kernel unit
 */
#include <math.h>

#include "expect.h"
#include "triage/drain.h"

#define MS 1000000ull
#define SECOND (1000 * MS)
#define EXCHANGE 8
#define LOOK (52 * MS)	/* TG_DRAIN_PERIOD, rounded up to ticks of 4 ms */
#define STEP (MS / 10)

/**
 * struct drive - a drive with a write buffer, one process that flushes, and bulk
 * @rate: KiB/s at which the drive empties the buffer
 * @takes: KiB/s at which it takes writes while there is room
 * @room: KiB of the buffer
 * @flush_ns: the shortest time of a flush
 * @apart_ns: time from the end of a flush to the next flush; 0: nobody flushes
 * @bulk: KiB/s that bulk would write if nothing held it back
 * @passing: KiB/s of other writes, which the pace never holds
 * @blocks: the drive takes no writes during a flush, and nothing is dispatched then
 * @look: ns from one look (a call of tg_drain_see()) to the next; 0: LOOK. Looks are rarer where
 *	requests are dispatched rarely
 */
struct drive {
	u64 rate, takes, room, flush_ns, apart_ns, bulk, passing;
	bool blocks;
	u64 look;
	/* The state: */
	struct tg_drain drain;
	struct tg_drain_seen seen;
	bool limited;
	double buffered, written, charged;
	u64 passed_at;
	u64 flush_began, flush_from, look_at;
	double flush_left;
	/* The results since measure(): */
	u64 nr, ns, longest, paced;
	double kib;
	u64 from;
};

static const struct drive usual = {
	.rate = 466000, .takes = 3000000, .room = 16384, .flush_ns = MS, .apart_ns = 9 * MS,
	.bulk = 3000000,
};

static void end_flush(struct drive *d)
{
	const u64 took = d->seen.now - d->flush_began;

	d->seen.flushes++;
	d->seen.flush_ns += took;
	d->nr++;
	d->ns += took;
	d->longest = max_t(u64, d->longest, took);
	d->flush_began = 0;
	d->flush_from = d->seen.now + d->apart_ns;
}

/*
 * Look at the drive, and count the look as busy if there is bulk then. There is bulk if it waits
 * for the pace or for room in the buffer. If it does not wait, there is bulk while the drive takes
 * its writes: with a probability of @bulk / @takes.
 */
static void look(struct drive *d, bool waits)
{
	if (waits || any_between(1, d->takes) <= d->bulk)
		d->seen.busy++;
	else
		d->seen.idle++;
	d->look_at = d->seen.now + (d->look ?: LOOK);
	if (tg_drain_see(&d->drain, &d->seen, d->limited, EXCHANGE))
		d->limited = false;
}

/* Write @kib that the pace does not hold, and charge the pace. */
static void pass(struct drive *d, double kib)
{
	d->buffered += kib;
	d->written += kib;
	if (d->drain.pace)
		d->charged += d->drain.pace / 1e9 *
			      tg_drain_passes(&d->passed_at, kib * 1e9 / d->drain.pace, d->seen.now);
}

/* Return how much bulk may write in a step, in KiB: what other writes leave of the pace. */
static double allowed(struct drive *d)
{
	const double kib = (d->drain.pace ?: U32_MAX) * (STEP / 1e9);
	const double charged = min_t(double, d->charged, kib);

	d->charged -= charged;
	return kib - charged;
}

/* Let STEP ns pass. */
static void step(struct drive *d)
{
	const double part = STEP / 1e9;
	double wants = min_t(double, d->bulk, d->takes) * part, may;
	double drained = min_t(double, d->buffered, d->rate * part), writes;

	d->seen.now += STEP;
	d->buffered -= drained;
	pass(d, min_t(double, d->passing * part, d->room - d->buffered));
	may = allowed(d);
	if (wants > may)
		d->limited = true;
	if (d->blocks && d->flush_began) {
		d->look_at = max_t(u64, d->look_at, d->seen.now + STEP);
		wants = 0;
	}
	writes = min_t(double, min_t(double, wants, may), d->room - d->buffered);
	d->buffered += writes;
	d->written += writes;
	d->kib += writes;
	d->seen.kib = d->written;
	if (d->drain.pace)
		d->paced += STEP;
	if (d->flush_began) {
		d->flush_left -= drained;
		if (d->flush_left <= 0 && d->seen.now >= d->flush_began + d->flush_ns)
			end_flush(d);
	} else if (d->apart_ns && d->seen.now >= d->flush_from) {
		d->flush_began = d->seen.now;
		d->flush_left = d->buffered;
	}
	if (d->seen.now >= d->look_at)
		look(d, writes < wants);
}

static void run(struct drive *d, u64 ns)
{
	const u64 until = d->seen.now + ns;

	while (d->seen.now < until)
		step(d);
}

static void measure(struct drive *d, u64 ns)
{
	d->nr = 0;
	d->ns = 0;
	d->longest = 0;
	d->paced = 0;
	d->kib = 0;
	d->from = d->seen.now;
	run(d, ns);
}

static double mean_ms(const struct drive *d)
{
	return (double)d->ns / max_t(u64, d->nr, 1) / MS;
}

/* Return bulk's throughput as a part of @rate KiB/s. */
static double kept(const struct drive *d, double rate)
{
	return d->kib * 1e9 / (d->seen.now - d->from) / rate;
}

/*
 * Bulk fills the buffer. Flushes become short within a second, and bulk writes 94 % of the drive's
 * rate or more.
 */
static void test_full_buffer(void)
{
	struct drive d = usual;

	run(&d, SECOND);
	measure(&d, 20 * SECOND);
	expect_between("a flush beside bulk, ms", mean_ms(&d), 1, 4);
	expect_between("the longest, ms", (double)d.longest / MS, 1, 16);
	expect_between("bulk keeps", kept(&d, d.rate), .94, 1.001);
}

/* Drives from an SD card to a large SSD: flushes become short, and bulk writes 90 % of the rate. */
static void test_other_drives(void)
{
	static const struct { u64 rate, room, flush_ms; } drives[] = {
		{ 20000, 4096, 5 }, { 100000, 65536, 3 }, { 2000000, 1048576, 1 },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(drives); i++) {
		struct drive d = usual;

		d.rate = drives[i].rate;
		d.room = drives[i].room;
		d.flush_ns = drives[i].flush_ms * MS;
		run(&d, 20 * SECOND);
		measure(&d, 40 * SECOND);
		expect_between("a flush on another drive, in times of one alone",
			       mean_ms(&d) * MS / d.flush_ns, 1, 5);
		expect_between("bulk keeps on another drive", kept(&d, d.rate), .90, 1.001);
	}
}

/* Bulk leaves room in the buffer: there is a pace only in trials. */
static void test_little_bulk(void)
{
	struct drive d = usual;

	d.bulk = d.rate * 8 / 10;
	run(&d, SECOND);
	measure(&d, 20 * SECOND);
	expect_between("part of the time with a pace", (double)d.paced / (20 * SECOND), 0, .02);
	expect_between("little bulk keeps", kept(&d, d.bulk), .98, 1.001);
}

/* Flushes are slow, but do not wait for bulk: bulk keeps its throughput. */
static void test_slow_by_themselves(void)
{
	struct drive d = usual;

	d.flush_ns = 50 * MS;
	d.room = 2048;
	run(&d, SECOND);
	measure(&d, 20 * SECOND);
	expect_between("bulk keeps beside slow flushes", kept(&d, d.rate), .97, 1.001);
}

/* The drive's rate falls to a third, and later recovers. The pace follows within seconds. */
static void test_rate_changes(void)
{
	struct drive d = usual;

	run(&d, 5 * SECOND);
	d.rate = usual.rate / 3;
	run(&d, 2 * SECOND);
	measure(&d, 10 * SECOND);
	expect_between("a flush on the slower drive, ms", mean_ms(&d), 1, 5);
	expect_between("bulk keeps of the slower drive", kept(&d, d.rate), .92, 1.001);
	d.rate = usual.rate;
	run(&d, 8 * SECOND);
	measure(&d, 10 * SECOND);
	expect_between("a flush on the faster drive, ms", mean_ms(&d), 1, 5);
	expect_between("bulk keeps of the faster drive", kept(&d, d.rate), .92, 1.001);
}

/* Something other than bulk begins to make flushes slow. Bulk soon writes 90 % of the rate. */
static void test_other_cause(void)
{
	struct drive d = usual;

	run(&d, 5 * SECOND);
	d.flush_ns = 10 * MS;
	run(&d, 10 * SECOND);
	measure(&d, 10 * SECOND);
	expect_between("bulk keeps beside another cause", kept(&d, d.rate), .9, 1.01);
}

/* Bulk that pauses and comes back finds its pace again. */
static void test_bulk_pauses(void)
{
	struct drive d = usual;

	run(&d, 5 * SECOND);
	d.bulk = 0;
	run(&d, 3 * SECOND);
	d.bulk = usual.bulk;
	run(&d, SECOND);
	measure(&d, 10 * SECOND);
	expect_between("a flush after bulk's pause, ms", mean_ms(&d), 1, 4);
	expect_between("bulk keeps after its pause", kept(&d, d.rate), .94, 1.001);
}

/* Once a second a probe keeps bulk out for 40 ms. Bulk still writes 90 % of the drive's rate. */
static void test_probes(void)
{
	struct drive d = usual;
	u32 i;

	run(&d, 3 * SECOND);
	d.kib = 0;
	d.from = d.seen.now;
	for (i = 0; i < 20; i++) {
		run(&d, SECOND - 40 * MS);
		d.seen.pauses++;
		d.bulk = 0;
		run(&d, 40 * MS);
		d.seen.pauses++;
		d.bulk = usual.bulk;
	}
	expect_between("bulk keeps beside probes", kept(&d, d.rate), .90, 1.001);
}

/*
 * Probes come every 300 ms, and a process flushes so rarely that no period is short enough to end
 * between two probes. So periods must go on across probes: then trials end, and find the pace.
 */
static void test_probes_beside_rare_flushes(void)
{
	struct drive d = usual;
	u32 i;

	d.apart_ns = 90 * MS;
	for (i = 0; i < 100; i++) {
		if (i == 30)
			measure(&d, 0);
		run(&d, 260 * MS);
		d.seen.pauses++;
		d.bulk = 0;
		run(&d, 40 * MS);
		d.seen.pauses++;
		d.bulk = usual.bulk;
	}
	expect_between("a rare flush beside probes, ms", mean_ms(&d), 1, 8);
	expect_between("bulk keeps beside probes and rare flushes", kept(&d, d.rate), .75, 1.001);
}

/*
 * In the middle of a trial no urgent request comes for a minute. So there is no pace, and bulk
 * fills the buffer (tg_pressed()). The trial does not count, and flushes are soon short again.
 */
static void test_not_pressed(void)
{
	struct drive d = usual;
	u32 pace;

	while (!d.drain.trying)
		step(&d);
	run(&d, 60 * MS);
	pace = d.drain.pace;
	d.drain.pace = 0;
	d.look_at = d.seen.now + 60 * SECOND;
	d.seen.spells++;
	run(&d, 60 * SECOND);
	d.drain.pace = pace;
	step(&d);
	expect("a trial goes on after a pause", d.drain.trying, false);
	run(&d, 2 * SECOND);
	measure(&d, 10 * SECOND);
	expect_between("a flush after a pause in a trial, ms", mean_ms(&d), 1, 4);
	expect_between("bulk keeps after it", kept(&d, d.rate), .94, 1.001);
}

/*
 * The drive takes no writes during a flush. So for up to 0.64 s nothing is dispatched, and nothing
 * calls tg_drain_see(). Nevertheless flushes become short.
 */
static void test_flush_blocks(void)
{
	static const u32 rooms[] = { 16000, 24000, 32000, 64000 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(rooms); i++) {
		struct drive d = usual;

		d.rate = 100000;
		d.room = rooms[i];
		d.blocks = true;
		run(&d, 20 * SECOND);
		measure(&d, 20 * SECOND);
		expect_between("a flush that blocks the drive, ms", mean_ms(&d), 1, 10);
	}
}

/* A flush of a full buffer takes 8 s. Nevertheless flushes become short. */
static void test_huge_buffer(void)
{
	struct drive d = usual;

	d.rate = 20000;
	d.room = 160000;
	d.flush_ns = 5 * MS;
	run(&d, 120 * SECOND);
	measure(&d, 60 * SECOND);
	expect_between("a flush of a huge buffer, ms", mean_ms(&d), 5, 40);
	expect_between("bulk keeps beside a huge buffer", kept(&d, d.rate), .90, 1.001);
}

/* Let something make all flushes of the next trial take @slow_ms. */
static void run_bad_trial(struct drive *d, u64 slow_ms)
{
	while (!d->drain.trying)
		step(d);
	d->flush_ns = slow_ms * MS;
	while (d->drain.trying)
		step(d);
	d->flush_ns = usual.flush_ns;
}

/* Something makes all flushes of a trial slow, so it finds no pace. The next trial comes soon. */
static void test_bad_trial(void)
{
	struct drive d = usual;

	run_bad_trial(&d, 100);
	expect("a pace from a bad trial", d.drain.pace, 0);
	run(&d, 15 * SECOND);
	measure(&d, 5 * SECOND);
	expect_between("a flush after a bad trial, ms", mean_ms(&d), 1, 4);
}

/*
 * While there is a pace, something makes all flushes of a trial slow. This trial must not count:
 * otherwise the pace would rise until the buffer is full.
 */
static void test_bad_trial_with_pace(void)
{
	static const u32 slow_ms[] = { 10, 30, 90, 270 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(slow_ms); i++) {
		struct drive d = usual;

		run(&d, 5 * SECOND);
		run_bad_trial(&d, slow_ms[i]);
		measure(&d, 20 * SECOND);
		expect_between("a flush after a bad trial with a pace, ms", mean_ms(&d), 1, 5);
	}
}

/*
 * For a while the drive has a third of its rate. A process flushes twice a second, so a period
 * takes a second. Half a minute after the rate has recovered, bulk writes 80 % of it or more.
 */
static void test_recovers(void)
{
	struct drive d = usual;

	d.apart_ns = 500 * MS;
	run(&d, 60 * SECOND);
	d.rate = usual.rate / 3;
	run(&d, 20 * SECOND);
	d.rate = usual.rate;
	run(&d, 30 * SECOND);
	measure(&d, 30 * SECOND);
	expect_between("bulk keeps of a drive that was slow", kept(&d, d.rate), .8, 1.01);
}

/* When the disk is removed, its counts fall to 0. No period compares new counts with old ones. */
static void test_counts_begin_anew(void)
{
	struct drive d = usual;

	run(&d, 5 * SECOND);
	d.seen.flushes = 0;
	d.seen.flush_ns = 0;
	run(&d, 100 * MS);
	expect_between("flushes counted when the period began", d.drain.begin.flushes, 0, 100);
	expect_between("mean time of a flush in the last period, ns", d.drain.before, 1, 100 * MS);
}

/* No process flushes any more: after TG_DRAIN_PAUSE there is no pace. */
static void test_nobody_flushes(void)
{
	struct drive d = usual;

	run(&d, 5 * SECOND);
	expect_between("pace while processes flush", d.drain.pace, 1, U32_MAX);
	d.apart_ns = 0;
	run(&d, TG_DRAIN_PAUSE + SECOND);
	expect("pace while nobody flushes", d.drain.pace, 0);
	measure(&d, 5 * SECOND);
	expect_between("bulk keeps then", kept(&d, d.rate), .999, 1.001);

	d = usual;
	run(&d, 5 * SECOND);
	d.apart_ns = 0;
	d.look = 300 * MS;
	run(&d, TG_DRAIN_PAUSE + 2 * SECOND);
	expect("pace while nobody flushes and looks are rare", d.drain.pace, 0);
}

/*
 * The time between flushes is 0.1 to 4 s, so now and then they are too rare for a pace, and the
 * search begins anew. The buffer is so small that a pace gains nothing. Trials must be so rare that
 * bulk writes 96 % of the drive's rate.
 */
static void test_rare_flushes(void)
{
	struct drive d = usual;
	u32 i;

	d.room = 512;
	run(&d, 10 * SECOND);
	measure(&d, 0);
	for (i = 0; i < 150; i++) {
		d.apart_ns = any_between(100, 4000) * MS;
		run(&d, 2 * SECOND);
	}
	expect_between("bulk keeps beside rare flushes", kept(&d, d.rate), .96, 1.001);
}

/*
 * A process flushes rarely: 0.3, 0.7, 1 or 1.9 s after its last flush. Nevertheless its flushes
 * become short.
 */
static void test_flush_now_and_then(void)
{
	static const u32 apart_ms[] = { 300, 700, 1000, 1900 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(apart_ms); i++) {
		struct drive d = usual;

		d.apart_ns = apart_ms[i] * MS;
		run(&d, 60 * SECOND);
		measure(&d, 120 * SECOND);
		expect_between("a flush now and then, ms", mean_ms(&d), 1, 14);
	}
}

/*
 * A trial finds no pace, because bulk writes little. Much bulk comes long before the next trial is
 * due. Flushes are soon short nevertheless.
 */
static void test_bulk_comes_later(void)
{
	struct drive d = usual;

	d.bulk = 1000;
	run(&d, 3 * SECOND);
	expect_between("trials before bulk comes", d.drain.try_at, d.seen.now + SECOND, U64_MAX);
	d.bulk = usual.bulk;
	run(&d, SECOND);
	measure(&d, 5 * SECOND);
	expect_between("a flush beside bulk that came later, ms", mean_ms(&d), 1, 4);
	expect_between("bulk that came later keeps", kept(&d, d.rate), .94, 1.001);
}

/* One flush in a hundred takes 100 times as long, not because of bulk. Bulk is not slowed down. */
static void test_tails(void)
{
	struct drive d = usual;
	u32 i;

	d.room = 256;
	run(&d, SECOND);
	d.kib = 0;
	d.from = d.seen.now;
	for (i = 0; i < 3000; i++) {
		d.flush_ns = any_between(1, 100) > 1 ? MS : 100 * MS;
		run(&d, 10 * MS);
	}
	expect_between("bulk keeps beside tails", kept(&d, d.rate), .95, 1.001);
}

/*
 * Something other than bulk makes flushes slow at random times, for as long as a trial or longer.
 * By chance, trials then seem to help. Nevertheless bulk writes 80 % of the drive's rate or more.
 */
static void test_other_cause_now_and_then(void)
{
	static const u32 turns_ms[] = { 100, 300, 1000, 3000 }, slow_ms[] = { 10, 50 };
	static const u32 rooms[] = { 1024, 16384 };
	u32 i, turn;

	for (i = 0; i < 16; i++) {
		struct drive d = usual;

		d.room = rooms[i % 2];
		run(&d, 3 * SECOND);
		d.kib = 0;
		d.from = d.seen.now;
		for (turn = 0; turn < 60000 / turns_ms[i / 4]; turn++) {
			d.flush_ns = any() % 2 ? MS : slow_ms[i / 2 % 2] * MS;
			run(&d, turns_ms[i / 4] * MS);
		}
		expect_between("bulk keeps beside a cause that comes and goes", kept(&d, d.rate),
			       .8, 1.001);
	}
}

/*
 * For @ns, in about half of all turns of @turn_ms, something other than bulk makes flushes take
 * @slow_ms.
 */
static void run_other_cause(struct drive *d, u64 turn_ms, u64 slow_ms, u64 ns)
{
	u64 turn;

	for (turn = 0; turn < ns / (turn_ms * MS); turn++) {
		d->flush_ns = any() % 2 ? MS : slow_ms * MS;
		run(d, turn_ms * MS);
	}
}

/*
 * Bulk writes little, and something other than bulk makes flushes slow now and then. By chance a
 * trial seems to help, and bulk's low rate becomes the pace. Then much bulk comes. In the next 20 s
 * it writes 60 % of the drive's rate or more, whether the other cause goes on or not.
 */
static void test_trickle(void)
{
	static const u32 trickles[] = { 200, 1500, 20000 };
	u32 i;

	for (i = 0; i < 6; i++) {
		struct drive d = usual;
		u32 tries;

		d.bulk = trickles[i / 2];
		for (tries = 0; tries < 1000 && !d.drain.estimate; tries++)
			run_other_cause(&d, 300, 50, 300 * MS);
		d.bulk = usual.bulk;
		d.flush_ns = MS;
		measure(&d, 0);
		expect("the estimate is a guess", d.drain.guess, true);
		if (i % 2)
			run_other_cause(&d, 300, 50, 20 * SECOND);
		else
			run(&d, 20 * SECOND);
		expect_between("bulk keeps after a trickle", kept(&d, d.rate), .6, 1.001);
	}
}

/*
 * A process flushes a few times, and then pauses until bulk has no pace any more (tg_pressed()). A
 * trial that begins near the last flush cannot end. Such trials stay rare.
 */
static void test_few_flushes(void)
{
	static const struct { u32 flushes, every_ms; } few[] = {
		{ 10, 2000 }, { 16, 2500 }, { 20, 3000 }, { 24, 2000 }, { 60, 4000 },
	};
	u32 i, turn;

	for (i = 0; i < ARRAY_SIZE(few); i++) {
		struct drive d = usual;

		measure(&d, 0);
		for (turn = 0; turn < 100; turn++) {
			const u64 end = d.seen.now + few[i].every_ms * MS;

			d.apart_ns = MS;
			d.flush_from = d.seen.now;
			d.nr = 0;
			while (d.nr < few[i].flushes)
				step(&d);
			d.apart_ns = 0;
			run(&d, SECOND);
			if (d.seen.now >= end)
				continue;
			/* Bulk fills the buffer again, without a pace, and without looks. */
			d.kib += (double)(end - d.seen.now) / SECOND * d.rate;
			d.seen.now = end;
			d.buffered = d.room;
			d.seen.spells++;
		}
		expect_between("bulk keeps beside a few flushes", kept(&d, d.rate), .93, 1.001);
	}
}

/* Flushes become slower in trials, or as time goes on. So trials tell nothing, and must be rare. */
static void test_trials_that_tell_nothing(void)
{
	u32 grow;

	for (grow = 0; grow < 2; grow++) {
		struct drive d = usual;
		u64 until;

		d.room = 256;
		run(&d, 3 * SECOND);
		measure(&d, 0);
		until = d.seen.now + 60 * SECOND;
		while (d.seen.now < until) {
			if (grow)
				d.flush_ns = 10 * MS + (d.seen.now - d.from) / 2000;
			else
				d.flush_ns = d.drain.trying ? 10 * MS + MS / 5 : 10 * MS;
			step(&d);
		}
		expect_between("bulk keeps beside trials that tell nothing", kept(&d, d.rate), .93,
			       1.001);
	}
}

/* After a bad trial, a pause of an hour ends the second trial. The third must still come soon. */
static void test_pause_in_trial(void)
{
	struct drive d = usual;

	run_bad_trial(&d, 100);
	while (!d.drain.trying)
		step(&d);
	d.seen.now += 3600 * SECOND;
	d.seen.spells++;
	d.flush_began = 0;
	d.look_at = 0;
	run(&d, 30 * SECOND);
	measure(&d, 10 * SECOND);
	expect_between("a flush after an hour in a trial, ms", mean_ms(&d), 1, 4);
}

/* For @ns, let bulk write bursts of @kib as fast as it can, with pauses of @off_ns. */
static void run_bursts(struct drive *d, double kib, u64 off_ns, u64 ns)
{
	const u64 until = d->seen.now + ns;

	while (d->seen.now < until) {
		const double end = d->written + kib;

		d->bulk = usual.bulk;
		while (d->written < end && d->seen.now < until)
			step(d);
		d->bulk = 0;
		run(d, off_ns);
	}
}

/*
 * Bulk writes in bursts. The pace delays them, even if the buffer has room for a whole burst. Apart
 * from trials, bulk loses no more than shorter flushes are worth at the exchange rate (knee.h):
 * EXCHANGE % for each millisecond that a flush is shorter, as a flush without bulk takes 1 ms.
 */
static void test_bursts(void)
{
	static const u32 kib[] = { 1000, 4000, 16000, 64000, 256000 }, off_ms[] = { 5, 50, 400 };
	u32 i, looks;

	for (i = 0; i < 15; i++) {
		double had[2], took[2], least;

		for (looks = 0; looks < 2; looks++) {
			struct drive d = usual;

			d.room = 65536;
			d.look_at = looks ? 0 : U64_MAX;
			run_bursts(&d, kib[i / 3], off_ms[i % 3] * MS, 5 * SECOND);
			measure(&d, 0);
			run_bursts(&d, kib[i / 3], off_ms[i % 3] * MS, 60 * SECOND);
			had[looks] = d.kib;
			took[looks] = mean_ms(&d);
		}
		least = exp(-(took[0] - took[1]) * EXCHANGE / 100);
		/* Trials, and the time until the pace is found, cost a little too. */
		expect_between("bulk in bursts keeps", had[1] / had[0], min_t(double, least, .94) - .06,
			       1.01);
		expect_between("a flush beside bursts, ms", took[1], 1, 4);
	}
}

/*
 * Beside bulk, other processes use up to 90 % of the drive's rate, and the pace does not hold their
 * writes. Nevertheless flushes are short, and bulk has 70 % or more of what the others leave.
 */
static void test_passing(void)
{
	static const u32 per_cent[] = { 20, 50, 70, 80, 90 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(per_cent); i++) {
		struct drive d = usual;

		d.passing = d.rate * per_cent[i] / 100;
		run(&d, 5 * SECOND);
		measure(&d, 60 * SECOND);
		expect_between("a flush beside writes that pass, ms", mean_ms(&d), 1, 4);
		expect_between("bulk keeps of what they leave", kept(&d, d.rate - d.passing), .7, 1.01);
	}
}

/*
 * The pace is also charged for writes that it never holds. If these are more than the pace allows,
 * the charge is 16 of 17 parts of the time (TG_DRAIN_PASSING), and bulk has the rest. The first
 * charge after a pause is this part of one TG_DRAIN_PERIOD at most. A CPU charges nothing if
 * another CPU has already charged at a later time.
 */
static void test_all_passes(void)
{
	u64 at = 0, charged = 0, now;

	for (now = SECOND; now < 11 * SECOND; now += MS)
		charged += tg_drain_passes(&at, 2 * MS, now);
	expect_between("charged of the time", charged / 10e9, .93, TG_DRAIN_PASSING / 17.0 + .005);
	expect_between("charged after a pause, ms", tg_drain_passes(&at, SECOND, now + SECOND) / 1e6,
		       46, 48);
	expect("charged for little", tg_drain_passes(&at, MS, now + 2 * SECOND), MS);
	charged = at;
	expect("charged by a CPU that is late", tg_drain_passes(&at, MS, at - MS), 0);
	expect("used by a CPU that is late", at, charged);
}

/*
 * Many processes, whose writes the pace does not hold, fill the drive, so trials tell nothing. Soon
 * after these processes stop, flushes are short.
 */
static void test_crowd_stops(void)
{
	static const struct { u32 per_cent, room; u64 seconds; } crowds[] = {
		{ 95, 16384, 4 }, { 120, 16384, 2 }, { 95, 71000, 15 }, { 120, 71000, 9 },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(crowds); i++) {
		struct drive d = usual;

		d.room = crowds[i].room;
		d.passing = d.rate * crowds[i].per_cent / 100;
		run(&d, 10 * SECOND);
		d.passing = 0;
		run(&d, crowds[i].seconds * SECOND);
		measure(&d, 10 * SECOND);
		expect_between("a flush after a crowd, ms", mean_ms(&d), 1, 5);
		expect_between("bulk keeps after a crowd", kept(&d, d.rate), .9, 1.01);
	}
}

/* The largest numbers do not overflow: the pace is clamped, and slow flushes are found slow. */
static void test_bounds(void)
{
	expect("a flush of an hour", tg_drain_is_slow(3600 * SECOND, MS, 1000), true);
	expect("no delay", tg_drain_is_slow(MS, MS, 1000), false);
	expect("shorter than alone", tg_drain_is_slow(1, MS, 1000), false);
	expect("worth a tenth", tg_drain_is_slow(2 * MS + MS / 3, MS, EXCHANGE), true);
	expect("worth less", tg_drain_is_slow(2 * MS + MS / 4, MS, EXCHANGE), false);
	expect("the least pace", tg_drain_clamp(0), TG_DRAIN_PACE_LEAST);
	expect("the largest pace", tg_drain_clamp(1ull << 40), U32_MAX);
}

int main(int argc, char **argv)
{
	begin_tests(argc, argv);
	RUN(test_full_buffer());
	RUN(test_other_drives());
	RUN(test_little_bulk());
	RUN(test_slow_by_themselves());
	RUN(test_rate_changes());
	RUN(test_other_cause());
	RUN(test_bulk_pauses());
	RUN(test_probes());
	RUN(test_probes_beside_rare_flushes());
	RUN(test_not_pressed());
	RUN(test_flush_blocks());
	RUN(test_huge_buffer());
	RUN(test_bad_trial());
	RUN(test_bad_trial_with_pace());
	RUN(test_recovers());
	RUN(test_counts_begin_anew());
	RUN(test_nobody_flushes());
	RUN(test_rare_flushes());
	RUN(test_flush_now_and_then());
	RUN(test_bulk_comes_later());
	RUN(test_tails());
	RUN(test_other_cause_now_and_then());
	RUN(test_trickle());
	RUN(test_few_flushes());
	RUN(test_trials_that_tell_nothing());
	RUN(test_pause_in_trial());
	RUN(test_bursts());
	RUN(test_passing());
	RUN(test_all_passes());
	RUN(test_crowd_stops());
	RUN(test_bounds());
	return end_tests("triage drain: flushes are short, and the drive is busy");
}
