// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prints the budget at which triage's controller settles, beside readers, writers and both, for
 * each flash drive of drives/. docs/triage.md explains the columns.
 *
 *   convergence EXCHANGE [DRIVE]...	the table
 *   convergence EXCHANGE -l [DRIVE]...	the same with costs that triage would learn
 *   convergence EXCHANGE -f [DRIVE]...	the frontier of fixed budgets
 */
#include "convergence.h"

/* There is a cliff where P99 grows by at least this factor while the budget grows by STEP. */
#define CLIFF 2

/* Return the largest budget below the steepest cliff, or NULL if there is no cliff. */
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

/* Print on which side of the cliff @budget is. The side with the best budget is good. */
static void print_side(const struct frontier *frontier, const struct fixed *best, double budget)
{
	const struct fixed *edge = frontier_cliff(frontier);

	if (!edge)
		printf("none");
	else if ((budget <= edge->budget) == (best->budget <= edge->budget))
		printf("good, %s", budget <= edge->budget ? "below" : "above");
	else
		printf("**bad**, %s", budget <= edge->budget ? "below" : "above");
}

/*
 * Return the cost of a bulk request that tg_cost_learn() would learn: a second, divided by the
 * number of requests that the busy drive serves in it.
 */
static u64 learnt_cost(struct scene scene)
{
	scene.free = true;
	return 1e9 / run_alike(&scene, 0).bulk;
}

static void print_row(const char *drive, const struct load *load, u32 exchange, bool learnt)
{
	struct scene scene = beside_bulk(drive, load, exchange);
	const struct fixed *best;
	struct frontier frontier;
	struct run mean;
	double most;

	if (learnt)
		scene.cost = learnt_cost(scene);
	frontier_find(&frontier, scene);
	mean = controller_run(&scene, RUNS);
	best = frontier_best(&frontier, exchange);
	most = frontier_bulk(&frontier, mean.p99);
	printf("| %s | %s | %.2f | %.1f | %.3g, %.3g | %.3g, %.3g | %.3g, %.3g | %.3g | ", drive,
	       load->name, mean.settled, mean.swing, mean.median, best->budget, mean.alone,
	       frontier.alone, mean.p99, frontier.none.p99, 100 * mean.bulk / frontier.none.bulk);
	if (most)
		printf("%.3g", 100 * mean.bulk / most);
	else
		printf("–");
	printf(" | %.3g | ", worth_lost(&frontier, &mean, exchange));
	print_side(&frontier, best, mean.median);
	printf(" |\n");
	fflush(stdout);
}

static void print_frontier(const char *drive, const struct load *load, u32 exchange)
{
	struct frontier frontier;
	u32 i;

	frontier_find(&frontier, beside_bulk(drive, load, exchange));
	printf("%s beside %s: none %.0f, P99 %.0f\n", drive, load->name, frontier.none.bulk,
	       frontier.none.p99);
	printf("| budget | bulk | P50 | slow | P99 | alone | worth |\n");
	for (i = 0; i < frontier.nr; i++) {
		const struct run *run = &frontier.at[i].run;

		printf("| %.4g | %.0f | %.0f | %.0f | %.0f | %.0f | %.3f |\n",
		       frontier.at[i].budget, run->bulk, run->p50, run->slow, run->p99,
		       run->alone, run_worth(&frontier, run, exchange));
	}
	fflush(stdout);
}

static void print_drive(const char *drive, u32 exchange, bool fixed, bool learnt)
{
	u32 i;

	if (drive_has_arm(drive)) {
		printf("| %s | not here: its arm takes turns, and has no budget |\n", drive);
		return;
	}
	for (i = 0; i < ARRAY_SIZE(loads); i++)
		if (fixed)
			print_frontier(drive, &loads[i], exchange);
		else
			print_row(drive, &loads[i], exchange, learnt);
}

int main(int argc, char **argv)
{
	const u32 exchange = argc > 1 ? atoi(argv[1]) : 0;
	const bool fixed = argc > 2 && !strcmp(argv[2], "-f");
	const bool learnt = argc > 2 && !strcmp(argv[2], "-l");
	const int drives = 2 + (fixed || learnt);
	const char *drive;
	int i;

	if (!exchange) {
		fprintf(stderr, "usage: convergence EXCHANGE [-f | -l] [DRIVE]...\n");
		return 2;
	}
	if (!fixed)
		printf("| drive | beside | settles, s | swing | budget, best, us | alone: probed, true, us | "
		       "P99, none's, us | keeps, %% | of the frontier, %% | worth lost, %% | cliff |\n"
		       "|---|---|---|---|---|---|---|---|---|---|---|\n");
	for (i = drives; i < argc; i++)
		print_drive(argv[i], exchange, fixed, learnt);
	if (argc > drives)
		return 0;
	for (i = 0; (drive = drive_named(i)); i++)
		print_drive(drive, exchange, fixed, learnt);
	return 0;
}
