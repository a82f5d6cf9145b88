/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A drive's frontier: bulk and latency with each of many fixed budgets; and where on it
 * triage's controller settles.
 */
#ifndef CONVERGENCE_H
#define CONVERGENCE_H

#include "closed_loop.h"

/* As in experiments/drives-matrix: 8 MiB of requests of 128 KiB. */
#define BULK_KIB 128
#define BULK_DEPTH 64
/* P99 of two runs is the same within this. */
#define ALIKE 1.03
/* A cliff: P99 grows by so much, while the budget grows by half an octave. */
#define CLIFF 2
#define MOST_BUDGETS 32

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

/* From the least budget to one that holds nothing back. */
struct frontier {
	struct fixed at[MOST_BUDGETS];
	u32 nr;
	struct run none;
};

/* Return a reader beside bulk; no more bulk at once than the drive has tags for. */
static struct scene beside_bulk(const char *drive, const struct load *load, u32 exchange,
				u32 ms, u32 from_ms)
{
	return (struct scene){
		.on = drive,
		.writes = load->writes,
		.mixed = load->mixed,
		.kib = BULK_KIB,
		.depth = min_t(u32, BULK_DEPTH, drive_tags(drive) - 1),
		.ms = ms,
		.from_ms = from_ms,
		.think_us = 14,
		.exchange = exchange,
		.factor = 200,
	};
}

/* Each budget is @step times the one before; the least is a tenth of a request of bulk. */
static void frontier_find(struct frontier *frontier, struct scene scene, double step)
{
	const double cost = 2000 + 1000. * scene.kib;
	double budget;

	frontier->nr = 0;
	for (budget = cost / 10; budget < cost * scene.depth * step; budget *= step) {
		scene.fixed = budget;
		frontier->at[frontier->nr++] = (struct fixed){ budget / 1000, loop_run(&scene) };
	}
	scene.free = true;
	frontier->none = loop_run(&scene);
}

/* Return the most bulk that a fixed budget, or none at all, leaves at a P99; 0: nothing does. */
static double frontier_bulk(const struct frontier *frontier, double p99)
{
	double most = frontier->none.p99 <= p99 * ALIKE ? frontier->none.bulk : 0;
	u32 i;

	for (i = 0; i < frontier->nr; i++)
		if (frontier->at[i].run.p99 <= p99 * ALIKE)
			most = fmax(most, frontier->at[i].run.bulk);
	return most;
}

/*
 * Return what a run is worth to the controller: bulk's logarithm, less delays at their price;
 * @alone: a slow request's latency without bulk, in us.
 */
static double run_worth(const struct run *run, double alone, u32 exchange)
{
	return log(run->bulk) - exchange / 100. * run->slow / alone;
}

/* Return the least fixed budget that is worth as much as any, within 1 % of bulk. */
static const struct fixed *frontier_best(const struct frontier *frontier, double alone,
					 u32 exchange)
{
	double most = -INFINITY;
	u32 i;

	for (i = 0; i < frontier->nr; i++)
		most = fmax(most, run_worth(&frontier->at[i].run, alone, exchange));
	for (i = 0; run_worth(&frontier->at[i].run, alone, exchange) < most - .01;)
		i++;
	return &frontier->at[i];
}

/* Return the last budget before the steepest cliff, or NULL: there is none. */
static const struct fixed *frontier_cliff(const struct frontier *frontier)
{
	const struct fixed *edge = NULL;
	double steepest = CLIFF;
	u32 i;

	for (i = 0; i + 1 < frontier->nr; i++) {
		const struct fixed *at = &frontier->at[i];
		const double rise = at[1].run.p99 / at->run.p99;

		if (rise >= steepest) {
			steepest = rise;
			edge = at;
		}
	}
	return edge;
}

#endif
