/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which of three classes a request belongs to, by its I/O priority.
 *
 * Pure functions that also compile in user space, where they are tested.
 */
#ifndef PRIO_CLASS_H
#define PRIO_CLASS_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#endif
#include <linux/ioprio.h>

/* Most urgent first: the order in which classes are served. */
enum prio_class {
	PRIO_CLASS_HIGH,
	PRIO_CLASS_NORMAL,
	PRIO_CLASS_LOW,
	PRIO_CLASS_COUNT,
};

/**
 * struct prio_bounds - how the best-effort levels, 0 to 7, are divided
 * @be_high_max: the last level that is still HIGH
 * @be_low_min: the first level that is already LOW
 *
 * Levels between the two are NORMAL; there may be none.
 */
struct prio_bounds {
	unsigned int be_high_max;
	unsigned int be_low_min;
};

#define PRIO_BOUNDS_DEFAULT { .be_high_max = 2, .be_low_min = 6 }

/* Whether @bounds puts every level into one class, and some into HIGH and LOW. */
static inline bool prio_bounds_valid(const struct prio_bounds *bounds)
{
	return bounds->be_high_max < bounds->be_low_min &&
	       bounds->be_low_min < IOPRIO_NR_LEVELS;
}

/**
 * prio_classify() - the class of a request
 * @bounds: how to divide the best-effort levels
 * @ioprio: the request's priority, class and level, as ioprio_set(2) has it
 *
 * Real time is HIGH whatever its level, idle is LOW, and none is NORMAL.
 */
static inline enum prio_class prio_classify(const struct prio_bounds *bounds,
					    unsigned short ioprio)
{
	/* Only three bits are the level: those above hold hints since 6.5. */
	const unsigned int level = ioprio & (IOPRIO_NR_LEVELS - 1);

	switch (IOPRIO_PRIO_CLASS(ioprio)) {
	case IOPRIO_CLASS_RT:
		return PRIO_CLASS_HIGH;
	case IOPRIO_CLASS_IDLE:
		return PRIO_CLASS_LOW;
	case IOPRIO_CLASS_BE:
		if (level <= bounds->be_high_max)
			return PRIO_CLASS_HIGH;
		if (level >= bounds->be_low_min)
			return PRIO_CLASS_LOW;
		return PRIO_CLASS_NORMAL;
	default:
		return PRIO_CLASS_NORMAL;
	}
}

#endif
