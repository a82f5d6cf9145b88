// SPDX-License-Identifier: GPL-2.0-only
/* Implements drive.h with kernel/modeldisk's models and the parameters of drives/. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../drive.h"
#include "modeldisk/model.h"

struct drive {
	const struct model_profile *profile;
	struct model_params params;
	void *model;
	struct io_fifo done;
	size_t io_size;
	char *ios;
};

/* A drive of drives/: the parameters that differ from those of its profile. */
struct named {
	const char *name, *profile;
	u32 hw_queues, depth;	/* 0: the profile's */
	struct {
		size_t offset;
		u32 value;
	} set[MODEL_NR_PARAMS];
	u32 nr_set;
};

#define SET(param, value) { offsetof(struct model_params, param), value }

static const struct named named[] = {
#include "drives.h"
};

static const struct named *find(const char *name)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(named); i++)
		if (!strcmp(named[i].name, name))
			return &named[i];
	return NULL;
}

static const struct model_profile *find_profile(const char *name)
{
	const struct named *drive = find(name);
	u32 i;

	for (i = 0; i < model_nr_profiles; i++)
		if (!strcmp(model_profiles[i].name, drive ? drive->profile : name))
			return &model_profiles[i];
	fprintf(stderr, "no such drive: %s\n", name);
	exit(2);
}

static struct model_params params_of(const char *name)
{
	struct model_params params = find_profile(name)->params;
	const struct named *drive = find(name);
	u32 i;

	for (i = 0; drive && i < drive->nr_set; i++)
		memcpy((char *)&params + drive->set[i].offset, &drive->set[i].value, sizeof(u32));
	return params;
}

/* Let garbage collection begin at once. Full quick cells cause one copy more for each program. */
static void fill(struct model_params *p)
{
	p->gc_after_mib = 0;
	p->gc_amplify_pct += p->slc_mib ? 100 : 0;
	p->slc_mib = 0;
}

struct drive *drive_new(const char *name, uint32_t requests, bool full)
{
	struct drive *drive = calloc(1, sizeof(*drive));
	const struct model_profile *profile = find_profile(name);
	const char *wrong;

	drive->profile = profile;
	drive->params = params_of(name);
	if (full)
		fill(&drive->params);
	wrong = profile->model->check(&drive->params);
	if (wrong) {
		fprintf(stderr, "%s: %s\n", name, wrong);
		exit(2);
	}
	drive->model = calloc(1, profile->model->size);
	profile->model->init(drive->model, &drive->params, drive_sectors(drive));
	drive->io_size = sizeof(struct model_io) +
			 profile->model->parts(&drive->params) * sizeof(struct model_part);
	drive->ios = calloc(requests, drive->io_size);
	return drive;
}

void drive_free(struct drive *drive)
{
	free(drive->ios);
	free(drive->model);
	free(drive);
}

uint64_t drive_sectors(const struct drive *drive)
{
	return (uint64_t)drive->profile->size_mib << (20 - MODEL_SECTOR_SHIFT);
}

void drive_submit(struct drive *drive, uint32_t tag, bool write, uint64_t sector,
		  uint32_t sectors, uint64_t now)
{
	struct model_io *io = (void *)(drive->ios + tag * drive->io_size);

	io->op = write ? MODEL_WRITE : MODEL_READ;
	io->sector = sector;
	io->sectors = sectors;
	io->fua = false;
	drive->profile->model->submit(drive->model, io, now, &drive->done);
}

uint64_t drive_next(const struct drive *drive)
{
	return drive->done.head ? 0 : drive->profile->model->next(drive->model);
}

int drive_done(struct drive *drive, uint64_t now)
{
	struct model_io *io;

	if (!drive->done.head)
		drive->profile->model->advance(drive->model, now, &drive->done);
	io = io_fifo_pop(&drive->done);
	return io ? (int)(((char *)io - drive->ios) / drive->io_size) : -1;
}

const char *drive_named(uint32_t i)
{
	return i < ARRAY_SIZE(named) ? named[i].name : NULL;
}

bool drive_has_arm(const char *name)
{
	return find_profile(name)->rotational;
}

bool drive_fills(const char *name, uint32_t ms)
{
	const struct model_params p = params_of(name);
	const u64 room_mib = (u64)p.slc_mib + p.gc_after_mib;

	if (drive_has_arm(name) || !room_mib)
		return false;
	return (u64)p.dies * p.program_kib * ms * 1000 / p.program_ns * 1000 >
	       room_mib * 1024;
}

uint32_t drive_tags(const char *name)
{
	const struct model_profile *profile = find_profile(name);
	const struct named *drive = find(name);
	const u32 queues = drive && drive->hw_queues ? drive->hw_queues : profile->hw_queues;
	const u32 depth = drive && drive->depth ? drive->depth : profile->depth;

	return queues * depth;
}
