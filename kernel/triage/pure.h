/* SPDX-License-Identifier: GPL-2.0-only */
/* What the pure parts need, in the kernel and in user space. */
#ifndef TG_PURE_H
#define TG_PURE_H

#ifdef __KERNEL__
#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>
#else
#include "userspace.h" /* tests/kernel-unit */
#endif

#endif
