// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guards: each I/O priority is in its class, for every pair of bounds, and invalid
 * pairs of bounds are refused. Run with: make -C kernel unit
 */
#include "expect.h"
#include "prio-class.h"

#define LEVELS 8
#define CLASS_SHIFT 13
#define HINT_SHIFT 3

static unsigned short ioprio(unsigned int class, unsigned int level)
{
	return class << CLASS_SHIFT | level;
}

/* With the default bounds each level is in the class that kernel/prio-basic/README.md states. */
static void test_defaults(void)
{
	static const enum prio_class best_effort[LEVELS] = {
		PRIO_CLASS_HIGH, PRIO_CLASS_HIGH, PRIO_CLASS_HIGH,
		PRIO_CLASS_NORMAL, PRIO_CLASS_NORMAL, PRIO_CLASS_NORMAL,
		PRIO_CLASS_LOW, PRIO_CLASS_LOW,
	};
	const struct prio_bounds bounds = PRIO_BOUNDS_DEFAULT;
	unsigned int level;

	for (level = 0; level < LEVELS; level++) {
		expect("none", prio_classify(&bounds, ioprio(0, level)), PRIO_CLASS_NORMAL);
		expect("real time", prio_classify(&bounds, ioprio(1, level)), PRIO_CLASS_HIGH);
		expect("best effort", prio_classify(&bounds, ioprio(2, level)), best_effort[level]);
		expect("idle", prio_classify(&bounds, ioprio(3, level)), PRIO_CLASS_LOW);
	}
}

/* Since Linux 6.5, bits between level and class hold hints. These do not change the class. */
static void test_hints(void)
{
	const struct prio_bounds bounds = PRIO_BOUNDS_DEFAULT;
	unsigned int hint;

	for (hint = 1; hint < 1 << (CLASS_SHIFT - HINT_SHIFT); hint++)
		expect("hint", prio_classify(&bounds, ioprio(2, hint << HINT_SHIFT | 1)),
		       PRIO_CLASS_HIGH);
}

static void test_every_bound(void)
{
	struct prio_bounds bounds;
	unsigned int level;

	for (bounds.be_high_max = 0; bounds.be_high_max < LEVELS + 2; bounds.be_high_max++) {
		for (bounds.be_low_min = 0; bounds.be_low_min < LEVELS + 2; bounds.be_low_min++) {
			const int valid = bounds.be_low_min <= 7 &&
					  bounds.be_high_max < bounds.be_low_min;

			expect("validity", prio_bounds_valid(&bounds), valid);
			for (level = 0; valid && level < LEVELS; level++) {
				enum prio_class wanted = PRIO_CLASS_NORMAL;

				if (level <= bounds.be_high_max)
					wanted = PRIO_CLASS_HIGH;
				else if (level >= bounds.be_low_min)
					wanted = PRIO_CLASS_LOW;
				expect("moved bound", prio_classify(&bounds, ioprio(2, level)),
				       wanted);
			}
		}
	}
}

int main(int argc, char **argv)
{
	begin_tests(argc, argv);
	RUN(test_defaults());
	RUN(test_hints());
	RUN(test_every_bound());
	return end_tests("prio-class: every priority is in its class");
}
