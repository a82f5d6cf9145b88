/* SPDX-License-Identifier: GPL-2.0-only */
/* A modelled drive (kernel/modeldisk) for tests of other parts in user space. */
#ifndef DRIVE_H
#define DRIVE_H

#include <stdbool.h>
#include <stdint.h>

struct drive;

/* Return a drive of modeldisk's profile of that name, with room for so many requests. */
struct drive *drive_new(const char *profile, uint32_t requests);
void drive_free(struct drive *drive);
uint64_t drive_sectors(const struct drive *drive);
/* Send a request. Its tag must be free, and below the number of places. */
void drive_submit(struct drive *drive, uint32_t tag, bool write, uint64_t sector,
		  uint32_t sectors, uint64_t now);
/* Return a time before which nothing is done unless something is sent, in ns. */
uint64_t drive_next(const struct drive *drive);
/* Return the tag of a request that is done, or -1: there is no other at this time. */
int drive_done(struct drive *drive, uint64_t now);

#endif
