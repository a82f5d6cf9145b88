/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All that the models need from their environment. With it, the same files
 * compile into the module and into a program in user space.
 */
#ifndef MODELDISK_SHIM_H
#define MODELDISK_SHIM_H

#ifdef __KERNEL__

#include <linux/array_size.h>
#include <linux/build_bug.h>
#include <linux/limits.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

#else /* user space */

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

typedef unsigned int u32;
typedef unsigned long long u64;

#define U32_MAX (~0U)
#define U64_MAX (~0ULL)
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define ilog2(n) (31 - __builtin_clz(n))

static inline u64 min(u64 a, u64 b)
{
	return a < b ? a : b;
}

static inline u64 max(u64 a, u64 b)
{
	return a > b ? a : b;
}

static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	return dividend / divisor;
}

static inline u64 div64_u64_rem(u64 dividend, u64 divisor, u64 *remainder)
{
	*remainder = dividend % divisor;
	return dividend / divisor;
}

#endif /* __KERNEL__ */

#endif /* MODELDISK_SHIM_H */
