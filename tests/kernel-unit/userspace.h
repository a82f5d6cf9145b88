/* SPDX-License-Identifier: GPL-2.0-only */
/* Substitutes for kernel types and helpers, for parts of modules that make no kernel calls. */
#ifndef USERSPACE_H
#define USERSPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int32_t s32;
typedef int64_t s64;

#define U32_MAX UINT32_MAX
#define S32_MAX INT32_MAX
#define U64_MAX UINT64_MAX
#define min_t(type, a, b) ((type)(a) < (type)(b) ? (type)(a) : (type)(b))
#define max_t(type, a, b) ((type)(a) > (type)(b) ? (type)(a) : (type)(b))
#define clamp_t(type, value, low, high) \
	min_t(type, max_t(type, value, low), high)

static inline u32 ilog2(u64 x)
{
	return 63 - __builtin_clzll(x);
}

static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	return dividend / divisor;
}

/* Return the square root, rounded down. */
static inline u32 int_sqrt64(u64 x)
{
	u64 root = 0, bit;

	for (bit = 1ull << 31; bit; bit >>= 1)
		if ((root | bit) * (root | bit) <= x)
			root |= bit;
	return root;
}

#endif
