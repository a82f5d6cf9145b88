/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Puts a request into one of three classes, by its I/O priority.
 *
 * These are pure functions. They also compile in user space, where tests call them.
 */
#ifndef PRIO_CLASS_H
#define PRIO_CLASS_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#ifndef READ_ONCE
#define READ_ONCE(word) (word)
#endif
#endif
#include <linux/ioprio.h>

/* The classes in the order in which they are served: most urgent first. */
enum prio_class {
	PRIO_CLASS_HIGH,
	PRIO_CLASS_NORMAL,
	PRIO_CLASS_LOW,
	PRIO_CLASS_COUNT,
};

/**
 * struct prio_bounds - the division of the best-effort levels, 0 to 7
 * @be_high_max: the last best-effort level of HIGH
 * @be_low_min: the first best-effort level of LOW
 *
 * The levels between the two are NORMAL. There may be none. Readers need no lock, because
 * each bound is one word. For readers without a lock, the writer must use WRITE_ONCE().
 */
struct prio_bounds {
	unsigned int be_high_max;
	unsigned int be_low_min;
};

#define PRIO_BOUNDS_DEFAULT { .be_high_max = 2, .be_low_min = 6 }

/*
 * Return whether @bounds puts each level into one class, and leaves HIGH and LOW at least one
 * each.
 */
static inline bool prio_bounds_valid(const struct prio_bounds *bounds)
{
	return bounds->be_high_max < bounds->be_low_min &&
	       bounds->be_low_min < IOPRIO_NR_LEVELS;
}

/**
 * prio_classify() - return the class of a request
 * @bounds: the division of the best-effort levels
 * @ioprio: the request's priority in the format of ioprio_set(2), with class and level
 *
 * The class real time is HIGH at any level, idle is LOW, and a request without a priority is
 * NORMAL.
 */
static inline enum prio_class prio_classify(const struct prio_bounds *bounds,
					    unsigned short ioprio)
{
	/* The level has three bits. Since Linux 6.5 the bits above it hold hints. */
	const unsigned int level = ioprio & (IOPRIO_NR_LEVELS - 1);

	switch (IOPRIO_PRIO_CLASS(ioprio)) {
	case IOPRIO_CLASS_RT:
		return PRIO_CLASS_HIGH;
	case IOPRIO_CLASS_IDLE:
		return PRIO_CLASS_LOW;
	case IOPRIO_CLASS_BE:
		if (level <= READ_ONCE(bounds->be_high_max))
			return PRIO_CLASS_HIGH;
		if (level >= READ_ONCE(bounds->be_low_min))
			return PRIO_CLASS_LOW;
		return PRIO_CLASS_NORMAL;
	default:
		return PRIO_CLASS_NORMAL;
	}
}

#endif
