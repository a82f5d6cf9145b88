/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * yield_point() - a place where a test may delay this CPU, so that another CPU gets ahead
 *
 * Put a yield point at each load or store of data that CPUs share without a lock, at each trylock
 * and after each unlock. In a build with make STORM=1 the test module kernel/storm delays the CPU
 * there. A seed decides when and for how long. In any other build the function is empty.
 */
#ifndef YIELD_H
#define YIELD_H

#ifdef STORM
void storm_yield(void);
#endif

static inline void yield_point(void)
{
#ifdef STORM
	storm_yield();
#endif
}

#endif
