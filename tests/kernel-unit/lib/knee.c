// SPDX-License-Identifier: GPL-2.0-only
/*
 * Simulates a reader beside bulk, which is background I/O (make -C kernel knee).
 *
 * With an argument, the exchange rate, the program prints the results of triage's controller
 * for each load. The columns are bulk's throughput, in % of its unlimited throughput, and the
 * reader's P50 and P99 in the drive, in us. Each column has the mean, the least and the most
 * of several runs.
 *
 * Without an argument, the program runs each fixed budget twice: once with bulk that reads, once
 * with bulk that writes. It prints the budget in us. For each run it prints bulk's IOPS and three
 * latencies of the reader, in us: the P50, the mean of the slowest eighth, and the P99.
 */
#include "closed_loop.h"

#define RUNS 16
#define BULK_MS 4000

struct row {
	const char *name;
	struct scene scene;
};

static const struct row rows[] = {
	{ "128 reads of 64 KiB", { .kib = 64, .depth = 128 } },
	{ "32 reads of 64 KiB", { .kib = 64, .depth = 32 } },
	{ "128 writes of 64 KiB", { .kib = 64, .depth = 128, .writes = true } },
	{ "128 reads of 4 KiB", { .kib = 4, .depth = 128 } },
	{ "32 reads of 128 KiB", { .kib = 128, .depth = 32 } },
	{ "32 reads of 512 KiB", { .kib = 512, .depth = 32 } },
	{ "32 writes of 512 KiB", { .kib = 512, .depth = 32, .writes = true } },
	{ "32 writes of 4 KiB", { .kib = 4, .depth = 32, .writes = true } },
	{ "64 KiB, in turn", { .kib = 64, .depth = 128, .turns = true } },
	{ "1 % take 3 ms, reads", { .kib = 64, .depth = 128, .stall_permille = 10, .stall_us = 3000 } },
	{ "1 % take 3 ms, writes", { .kib = 64, .depth = 128, .stall_permille = 10, .stall_us = 3000,
				     .writes = true } },
	{ "2 % take 0.5 ms, reads", { .kib = 64, .depth = 128, .stall_permille = 20,
				      .stall_us = 500 } },
	{ "sigma 1, reads", { .kib = 64, .depth = 128, .sigma = 1 } },
	{ "sigma 1.5, reads", { .kib = 64, .depth = 128, .sigma = 1.5 } },
	{ "sigma 1.5, writes", { .kib = 64, .depth = 128, .sigma = 1.5, .writes = true } },
	{ "a reader of 100 IOPS", { .kib = 64, .depth = 128, .think_us = 10000 } },
};

struct summary {
	double sum, least, most;
};

static void sum_up(struct summary *summary, double value)
{
	if (!summary->sum || value < summary->least)
		summary->least = value;
	if (!summary->sum || value > summary->most)
		summary->most = value;
	summary->sum += value;
}

static void print(const struct summary *summary, double scale)
{
	printf(" | %.3g [%.3g, %.3g]", summary->sum / RUNS * scale, summary->least * scale,
	       summary->most * scale);
}

static void print_row(const struct row *row, u32 exchange)
{
	struct summary bulk = {}, p50 = {}, p99 = {};
	struct scene scene = row->scene;
	double unlimited;
	u32 i;

	scene.on = "flash";
	scene.ms = BULK_MS;
	scene.think_us = scene.think_us ?: 14;
	scene.factor = 200;
	scene.fixed = TG_DEPTH_MAX;
	unlimited = loop_run(&scene).bulk;
	scene.fixed = 0;
	scene.exchange = exchange;
	for (i = 0; i < RUNS; i++) {
		const struct run run = loop_run(&scene);

		sum_up(&bulk, run.bulk);
		sum_up(&p50, run.p50);
		sum_up(&p99, run.p99);
	}
	printf("| %s", row->name);
	print(&bulk, 100 / unlimited);
	print(&p50, 1);
	print(&p99, 1);
	printf(" |\n");
}

static void print_fixed(u64 budget)
{
	u32 writes;

	printf("| %.4g", budget / 1000.);
	for (writes = 0; writes < 2; writes++) {
		const struct scene scene = {
			.on = "flash", .kib = 64, .depth = 128, .ms = BULK_MS,
			.think_us = 14, .writes = writes, .fixed = budget,
		};
		const struct run run = loop_run(&scene);

		printf(" | %.0f, %.0f, %.0f, %.0f", run.bulk, run.p50, run.slow, run.p99);
	}
	printf(" |\n");
}

int main(int argc, char **argv)
{
	const u64 budgets[] = { 3300, 33000, 66000, 100000, 133000, 200000, 354000, 500000,
				1000000, 2000000 };
	const u32 exchange = argc > 1 ? atoi(argv[1]) : 0;
	u32 i;

	if (exchange)
		for (i = 0; i < ARRAY_SIZE(rows); i++)
			print_row(&rows[i], exchange);
	else
		for (i = 0; i < ARRAY_SIZE(budgets); i++)
			print_fixed(budgets[i]);
	return 0;
}
