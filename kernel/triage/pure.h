/* SPDX-License-Identifier: GPL-2.0-only */
/* Includes the headers for the parts that also compile in user space. */
#ifndef TG_PURE_H
#define TG_PURE_H

#ifdef __KERNEL__
#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <linux/types.h>
#else
#include "userspace.h" /* tests/kernel-unit */
#endif

#endif
