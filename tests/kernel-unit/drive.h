/* SPDX-License-Identifier: GPL-2.0-only */
/* A modelled drive (kernel/modeldisk) for tests of other parts in user space. */
#ifndef DRIVE_H
#define DRIVE_H

#include <stdbool.h>
#include <stdint.h>

struct drive;

/*
 * Return a drive with room for so many requests: one of drives/NAME.toml, or modeldisk's
 * profile of that name. Exits if there is none. @full: so much has been written that the drive
 * collects garbage, or its quick cells are full.
 */
struct drive *drive_new(const char *name, uint32_t requests, bool full);
void drive_free(struct drive *drive);
uint64_t drive_sectors(const struct drive *drive);
/* Send a request. Its tag must be free, and below the number of places. */
void drive_submit(struct drive *drive, uint32_t tag, bool write, uint64_t sector,
		  uint32_t sectors, uint64_t now);
/* Return a time before which nothing is done unless something is sent, in ns. */
uint64_t drive_next(const struct drive *drive);
/* Return the tag of a request that is done, or -1: there is no other at this time. */
int drive_done(struct drive *drive, uint64_t now);

/* Return the name of the i-th drive of drives/, or NULL. */
const char *drive_named(uint32_t i);
/* Return whether the drive has an arm. */
bool drive_has_arm(const char *name);
/* Return whether writers can make the drive full in so long. */
bool drive_fills(const char *name, uint32_t ms);
/* Return how many requests Linux gives the drive at once. */
uint32_t drive_tags(const char *name);

#endif
