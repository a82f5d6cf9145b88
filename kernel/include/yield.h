/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * yield_point() - where another CPU may get in between, so that it can be tried
 *
 * Put one at each load or store of what CPUs share without a lock, and where a lock is
 * tried or left. In a build for storm (make STORM=1) kernel/storm delays the CPU there, as
 * a seed decides; in any other it is nothing.
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
