/* SPDX-License-Identifier: GPL-2.0-only */
/* High resolution timers, for each kernel that the modules build for */
#ifndef TIMERS_H
#define TIMERS_H

#include <linux/hrtimer.h>

#include "features.h"

/* Since 6.13 there is hrtimer_setup(), which also sets .function; since 6.15, no hrtimer_init(). */
#ifndef IOSCHED_HAS_HRTIMER_SETUP
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

#endif
