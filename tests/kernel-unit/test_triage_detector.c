// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guards: triage tells sequential flows from others, and soon notices a change.
 * Run with: make -C kernel unit
 */
#include "expect.h"
#include "triage/detector.h"

#define LENGTH 256	/* sectors */
#define FAR (1ull << 30)

enum mind { RANDOM, NEUTRAL, SEQUENTIAL };

static enum mind mind(const struct tg_detector *d)
{
	if (tg_detector_sequential(d))
		return SEQUENTIAL;
	return tg_detector_maybe_sequential(d) ? NEUTRAL : RANDOM;
}

/* Return a detector that has seen one request, at @sector. */
static struct tg_detector at(u64 sector)
{
	struct tg_detector d = {};

	tg_detector_see(&d, sector, LENGTH);
	return d;
}

/* Let the detector see @times requests, each @gap sectors after the end of the one before. */
static void see_after(struct tg_detector *d, s64 gap, int times)
{
	while (times--)
		tg_detector_see(d, d->next + gap, LENGTH);
}

static void test_first(void)
{
	const u64 sectors[] = { 0, 1, TG_DETECTOR_GAP + 1, FAR };
	struct tg_detector d = { .score = -1 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(sectors); i++) {
		d = at(sectors[i]);
		expect("mind after the first", mind(&d), NEUTRAL);
		expect("where it ended", d.next, sectors[i] + LENGTH);
	}
}

/* A gap up to the bound, forward or back, is sequential. A larger gap is random. */
static void test_gap(void)
{
	static const struct {
		s64 gap;
		enum mind mind;
	} cases[] = {
		{ 0, SEQUENTIAL }, { TG_DETECTOR_GAP, SEQUENTIAL },
		{ TG_DETECTOR_GAP + 1, RANDOM }, { 1ll << 40, RANDOM },
		{ -LENGTH, SEQUENTIAL }, { -TG_DETECTOR_GAP, SEQUENTIAL },
		{ -TG_DETECTOR_GAP - 1, RANDOM }, { -(1ll << 20), RANDOM },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct tg_detector d = at(FAR);

		see_after(&d, cases[i].gap, 1);
		expect("mind after a gap", mind(&d), cases[i].mind);
	}
}

/* Near sector 0 the range of sequential sectors must not wrap around. */
static void test_near_zero(void)
{
	struct tg_detector d = at(0);

	tg_detector_see(&d, 0, LENGTH);
	expect("mind at sector 0 again", mind(&d), SEQUENTIAL);
	d = at(0);
	tg_detector_see(&d, FAR, LENGTH);
	expect("mind far from sector 0", mind(&d), RANDOM);
	d = at(FAR);
	tg_detector_see(&d, 0, LENGTH);
	expect("mind at sector 0 from far", mind(&d), RANDOM);
}

static void test_patterns(void)
{
	struct tg_detector d = at(FAR);
	int i;

	see_after(&d, 0, 100);
	expect("mind, forwards", mind(&d), SEQUENTIAL);
	d = at(FAR);
	see_after(&d, -2 * LENGTH, 100);
	expect("mind, backwards", mind(&d), SEQUENTIAL);

	d = at(FAR);
	for (i = 0; i < 100; i++)
		tg_detector_see(&d, any_between(0, FAR), LENGTH);
	expect("mind, at random", mind(&d), RANDOM);

	/* A flow that reads on at two places in turn is random: a disk seeks for each request. */
	d = at(FAR);
	for (i = 0; i < 100; i++)
		tg_detector_see(&d, FAR * (1 + i % 2) + (u64)i / 2 * LENGTH, LENGTH);
	expect("mind, two interleaved", mind(&d), RANDOM);

	/* A flow with an occasional jump, for example to a file's metadata, stays sequential. */
	d = at(FAR);
	for (i = 0; i < 100; i++)
		see_after(&d, i % 10 ? 0 : 1 << 20, 1);
	expect("mind, with a jump in ten", mind(&d), SEQUENTIAL);
}

/* A verdict ends after TG_DETECTOR_SURE requests against it, however long it has been right. */
static void test_change(void)
{
	struct tg_detector d = at(FAR);

	see_after(&d, 0, 1000);
	see_after(&d, 1 << 20, TG_DETECTOR_SURE - 1);
	expect("still sequential", mind(&d), SEQUENTIAL);
	see_after(&d, 1 << 20, 1);
	expect("no longer sequential", mind(&d), NEUTRAL);

	see_after(&d, 1 << 20, 1000);
	see_after(&d, 0, TG_DETECTOR_SURE - 1);
	expect("still random", mind(&d), RANDOM);
	see_after(&d, 0, 1);
	expect("no longer random", mind(&d), NEUTRAL);
}

static void measure_after(struct tg_detector *d, s64 gap, u32 sectors)
{
	const u64 sector = d->next + gap;

	tg_detector_measure(d, sector, sectors);
	tg_detector_see(d, sector, sectors);
}

/*
 * A flow that reads in sequence for long is a stream, even with some jumps. After only a few
 * requests, or just after a pause, the flow is no stream.
 */
static void test_streams(void)
{
	const int many = TG_DETECTOR_STREAM / LENGTH;
	struct tg_detector d = {};
	int i;

	for (i = 0; i < many - 1; i++)
		measure_after(&d, 0, LENGTH);
	expect("streams, after too few", tg_detector_streams(&d), false);
	measure_after(&d, 0, LENGTH);
	expect("streams", tg_detector_streams(&d), true);
	for (i = 0; i < 1000; i++)
		measure_after(&d, 0, LENGTH);
	tg_detector_pause(&d);
	expect("streams, after a pause", tg_detector_streams(&d), false);

	/* A flow that jumps once every TG_DETECTOR_STREAM sectors is a stream. */
	for (i = 0; i < 10 * many; i++)
		measure_after(&d, i % many ? 0 : 1 << 20, LENGTH);
	expect("streams, with jumps", tg_detector_streams(&d), true);
	/*
	 * A flow that jumps at each request is a stream if each has TG_DETECTOR_STREAM sectors, but
	 * not if each has a quarter of that.
	 */
	for (i = 0; i < 100; i++)
		measure_after(&d, 1 << 20, TG_DETECTOR_STREAM / 4);
	expect("streams, in jumps of a quarter", tg_detector_streams(&d), false);
	for (i = 0; i < 100; i++)
		measure_after(&d, 1 << 20, TG_DETECTOR_STREAM);
	expect("streams, in jumps as long as that", tg_detector_streams(&d), true);
	measure_after(&d, 0, U32_MAX);
	expect("streams, after a huge one", tg_detector_streams(&d), true);
}

int main(int argc, char **argv)
{
	begin_tests(argc, argv);
	RUN(test_first());
	RUN(test_gap());
	RUN(test_near_zero());
	RUN(test_patterns());
	RUN(test_change());
	RUN(test_streams());
	return end_tests("triage detector: every pattern is recognized, every change is noticed");
}
