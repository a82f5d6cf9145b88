/* SPDX-License-Identifier: GPL-2.0-only */
/* A drive modelled by kernel/modeldisk, for tests of triage in user space. */
#ifndef DRIVE_H
#define DRIVE_H

#include <stdbool.h>
#include <stdint.h>

struct drive;

/*
 * Return the drive of drives/@name.toml, or else modeldisk's profile @name. Exit if there is
 * neither. The drive takes up to @requests at once. If @full, earlier writes have filled the drive:
 * it collects garbage from the beginning, or its fast cells are full.
 */
struct drive *drive_new(const char *name, uint32_t requests, bool full);
void drive_free(struct drive *drive);
uint64_t drive_sectors(const struct drive *drive);
/* Send a request. Its tag must be free, and below the @requests of drive_new(). */
void drive_submit(struct drive *drive, uint32_t tag, bool write, uint64_t sector,
		  uint32_t sectors, uint64_t now);
/* Return a time, in ns, before which no request is done unless another is sent. */
uint64_t drive_next(const struct drive *drive);
/* Return the tag of a request that is done by @now, and forget the request; -1: none is done. */
int drive_done(struct drive *drive, uint64_t now);

/* Return the name of the i-th drive of drives/, or NULL. */
const char *drive_named(uint32_t i);
/* Return whether the drive has an arm. */
bool drive_has_arm(const char *name);
/* Return whether writers can make the drive full (see drive_new()) in @ms. */
bool drive_fills(const char *name, uint32_t ms);
/* Return the number of requests that Linux can give the drive at once. */
uint32_t drive_tags(const char *name);

#endif
