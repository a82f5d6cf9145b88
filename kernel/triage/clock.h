/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef TG_CLOCK_H
#define TG_CLOCK_H

#include <linux/jiffies.h>

/*
 * Return jiffies. The code on every request's path passes this to time_before() and the like. These
 * macros declare a variable of their argument's type. If that type were jiffies' own, which is
 * volatile, a kernel that initializes variables on the stack (CONFIG_INIT_STACK_ALL_ZERO) would
 * store to the variable each time.
 */
static inline unsigned long tg_now(void)
{
	return jiffies;
}

#endif
