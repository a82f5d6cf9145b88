/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds a drive's frontier, and the budget at which triage's controller settles. The frontier is
 * the throughput of bulk and the reader's latency under each of many fixed budgets.
 */
#ifndef CONVERGENCE_H
#define CONVERGENCE_H

#include "closed_loop.h"

/* Bulk is the background of experiments/drives-matrix: 8 MiB in requests of 128 KiB. */
#define BULK_KIB 128
#define BULK_DEPTH 64
/* The P99s of two runs are taken as equal if one is at most this many times the other. */
#define ALIKE 1.03
#define MOST_BUDGETS 32
/* The ratio of a fixed budget to the one before: half an octave. */
#define STEP 1.41421356
/*
 * A run counts from FROM_MS on: by then the controller should have settled. The 3 s that count
 * include a slow time of a drive that is slow once in 3 s.
 */
#define RUN_MS 5000
#define FROM_MS 2000
/* The controller is judged by this many runs, see controller_run(). */
#define RUNS 4

struct load {
	const char *name;
	bool writes, mixed;
};

static const struct load loads[] = {
	{ .name = "readers" },
	{ .name = "writers", .writes = true },
	{ .name = "both", .mixed = true },
};

/* A fixed budget, in us, and its result. */
struct fixed {
	double budget;
	struct run run;
};

/*
 * The results of fixed budgets, from the least to one that holds no bulk back. @none is the
 * result without a budget, @alone the latency of the reader's slow requests without bulk, in us.
 */
struct frontier {
	struct fixed at[MOST_BUDGETS];
	u32 nr;
	struct run none;
	double alone;
};

/*
 * Return a scene with a reader beside bulk. Bulk leaves the reader one of the drive's tags. A
 * drive that writers can fill is full from the beginning: otherwise it would become full at
 * a different time under each budget.
 */
static struct scene beside_bulk(const char *drive, const struct load *load, u32 exchange)
{
	return (struct scene){
		.on = drive,
		.full = drive_fills(drive, RUN_MS),
		.writes = load->writes,
		.mixed = load->mixed,
		.kib = BULK_KIB,
		.depth = min_t(u32, BULK_DEPTH, drive_tags(drive) - 1),
		.ms = RUN_MS,
		.from_ms = FROM_MS,
		.think_us = 14,
		.exchange = exchange,
		.factor = 200,
	};
}

/* Run the scene with random numbers that depend on @series only, not on earlier runs. */
static struct run run_alike(const struct scene *scene, u32 series)
{
	any_begin(series);
	return loop_run(scene);
}

/*
 * Run the scene under each fixed budget, without a budget, and without bulk. The least budget is a
 * tenth of the cost of a bulk request.
 */
static void frontier_find(struct frontier *frontier, struct scene scene)
{
	const double cost = loop_cost(&scene);
	double budget;

	frontier->nr = 0;
	for (budget = cost / 10; budget < cost * scene.depth * STEP; budget *= STEP) {
		scene.fixed = budget;
		frontier->at[frontier->nr++] = (struct fixed){
			.budget = budget / 1000,
			.run = run_alike(&scene, 0),
		};
	}
	scene.free = true;
	frontier->none = run_alike(&scene, 0);
	scene.depth = 0;
	frontier->alone = run_alike(&scene, 0).slow;
}

/*
 * Return the controller's results over several runs: the longest time to settle, the largest
 * swing, and the means of the other figures.
 */
static struct run controller_run(const struct scene *scene, u32 runs)
{
	struct run sum = {};
	u32 i;

	for (i = 1; i <= runs; i++) {
		const struct run run = run_alike(scene, i);

		sum.settled = fmax(sum.settled, run.settled);
		sum.swing = fmax(sum.swing, run.swing);
		sum.median += run.median / runs;
		sum.p50 += run.p50 / runs;
		sum.p99 += run.p99 / runs;
		sum.slow += run.slow / runs;
		sum.alone += run.alone / runs;
		sum.bulk += run.bulk / runs;
	}
	return sum;
}

/*
 * Return the largest throughput of bulk among the runs, with a fixed budget or with none, that
 * keep the reader's P99 at about @p99 or below. Return 0 if no run does.
 */
static double frontier_bulk(const struct frontier *frontier, double p99)
{
	double most = frontier->none.p99 <= p99 * ALIKE ? frontier->none.bulk : 0;
	u32 i;

	for (i = 0; i < frontier->nr; i++)
		if (frontier->at[i].run.p99 <= p99 * ALIKE)
			most = fmax(most, frontier->at[i].run.bulk);
	return most;
}

/* Return the worth of a run as knee.h defines it, with bulk in requests a second. */
static double run_worth(const struct frontier *frontier, const struct run *run, u32 exchange)
{
	return log(run->bulk) - exchange / 100. * run->slow / frontier->alone;
}

/* Return the least fixed budget whose worth is that of the best one, less at most 1 % of bulk. */
static const struct fixed *frontier_best(const struct frontier *frontier, u32 exchange)
{
	double most = -INFINITY;
	u32 i;

	for (i = 0; i < frontier->nr; i++)
		most = fmax(most, run_worth(frontier, &frontier->at[i].run, exchange));
	for (i = 0; run_worth(frontier, &frontier->at[i].run, exchange) < most - .01;)
		i++;
	return &frontier->at[i];
}

/* Return how much less a run is worth than the best fixed budget, in % of bulk's throughput. */
static double worth_lost(const struct frontier *frontier, const struct run *run, u32 exchange)
{
	const struct fixed *best = frontier_best(frontier, exchange);

	return 100 * (1 - exp(run_worth(frontier, run, exchange) -
			      run_worth(frontier, &best->run, exchange)));
}

#endif
