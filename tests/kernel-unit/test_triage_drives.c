// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guards: on each flash drive of drives/ triage's controller settles within 2 s. Bulk gets
 * nearly as much as under the best fixed budget of equal P99. The controller's budget is worth
 * nearly as much as the best one. The reader's P99 is at most what it is without a budget.
 * misses[] lists the bounds that a drive misses, with the reason. If a listed bound is no longer
 * missed, the test fails too.
 * Drives with an arm are not covered: an arm takes turns and has no budget.
 * Run with: make -C kernel unit
 */
#include "convergence.h"

#define EXCHANGE 8
/* The bounds. */
#define SETTLED 2.	/* the controller has settled by then, in s */
#define LEAST_BULK 90	/* bulk, in % of that under the best fixed budget of equal P99 */
#define MOST_LOST 10	/* how much less a run may be worth than the best budget, in % of bulk */

struct miss {
	const char *drive, *beside, *kind, *reason;
	bool judged;
};

#define ROOM "half an octave more has no room for one more request, so its trial shows nothing"
#define BURSTS "copies come in bursts that last longer than a trial: it meets one, or it does not"
#define STALLS "writes stop for 1.2 s: one trial meets that, the next does not"
#define FLAT "budgets up to 10 times as large are worth the same: the search wanders among them"
#define BUFFER "its write buffer outlasts the time that a probe waits: the latency without bulk seems six times as long"
#define ALIKE_BUDGETS "the two best budgets are worth the same to 2 %: a trial after 2 s switches between them"

static struct miss misses[] = {
	{ .drive = "980pro-fifth", .beside = "both", .kind = "settles", .reason = ALIKE_BUDGETS },
	{ .drive = "nvme-7450", .beside = "writers", .kind = "settles", .reason = FLAT },
	{ .drive = "nvme-7450", .beside = "both", .kind = "settles", .reason = BURSTS },
	{ .drive = "nvme-7450", .beside = "both", .kind = "bulk", .reason = BURSTS },
	{ .drive = "nvme-7450", .beside = "both", .kind = "worth", .reason = BURSTS },
	{ .drive = "nvme-cm7", .beside = "writers", .kind = "bulk", .reason = ROOM },
	{ .drive = "nvme-cm7", .beside = "both", .kind = "bulk", .reason = BURSTS },
	{ .drive = "nvme-cm7", .beside = "both", .kind = "worth", .reason = BURSTS },
	{ .drive = "nvme-p300", .beside = "writers", .kind = "settles", .reason = STALLS },
	{ .drive = "nvme-p300", .beside = "writers", .kind = "worth", .reason = STALLS },
	{ .drive = "nvme-p300", .beside = "both", .kind = "settles", .reason = STALLS },
	{ .drive = "nvme-pe8110", .beside = "writers", .kind = "settles", .reason = FLAT },
	{ .drive = "sd-a2", .beside = "writers", .kind = "bulk", .reason = BUFFER },
	{ .drive = "sd-a2", .beside = "writers", .kind = "worth", .reason = BUFFER },
};

static struct miss *miss_find(const char *drive, const char *beside, const char *kind)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(misses); i++)
		if (!strcmp(misses[i].drive, drive) && !strcmp(misses[i].beside, beside) &&
		    !strcmp(misses[i].kind, kind))
			return &misses[i];
	return NULL;
}

static void judge(const char *drive, const char *beside, const char *kind, double got,
		  bool holds)
{
	struct miss *miss = miss_find(drive, beside, kind);

	if (miss)
		miss->judged = true;
	if (holds && miss)
		fprintf(stderr, "%s beside %s: %s: %.3g is no miss, but it is listed (%s)\n", drive,
			beside, kind, got, miss->reason);
	else if (!holds && !miss)
		fprintf(stderr, "%s beside %s: %s: %.3g is a miss that is not listed\n", drive,
			beside, kind, got);
	else
		return;
	failed = 1;
}

static void test_drive(const char *drive, const struct load *load)
{
	const struct scene scene = beside_bulk(drive, load, EXCHANGE);
	struct frontier frontier;
	double most, lost;
	struct run run;

	frontier_find(&frontier, scene);
	run = controller_run(&scene, RUNS);
	most = frontier_bulk(&frontier, run.p99);
	lost = worth_lost(&frontier, &run, EXCHANGE);
	judge(drive, load->name, "settles", run.settled, run.settled <= SETTLED);
	judge(drive, load->name, "bulk", most ? 100 * run.bulk / most : 100,
	      100 * run.bulk >= LEAST_BULK * most);
	judge(drive, load->name, "worth", lost, lost <= MOST_LOST);
	judge(drive, load->name, "P99", run.p99, run.p99 <= frontier.none.p99 * ALIKE);
}

/* Judge each drive of drives/ without an arm. Each listed miss must be of one of these drives. */
static void test_drives(void)
{
	const char *drive;
	u32 i, j;

	for (i = 0; (drive = drive_named(i)); i++)
		for (j = 0; j < ARRAY_SIZE(loads) && !drive_has_arm(drive); j++)
			test_drive(drive, &loads[j]);
	for (i = 0; i < ARRAY_SIZE(misses); i++)
		if (!misses[i].judged) {
			fprintf(stderr, "a miss is listed that was not judged: %s beside %s: %s\n",
				misses[i].drive, misses[i].beside, misses[i].kind);
			failed = 1;
		}
}

int main(int argc, char **argv)
{
	begin_tests(argc, argv);
	RUN(test_drives());
	return end_tests("triage drives: each settles where it is worth it, or its miss is listed");
}
