// SPDX-License-Identifier: GPL-2.0-only
/* kernel/modeldisk's models as drive.h's drives. */
#include <stdlib.h>
#include <string.h>

#include "../drive.h"
#include "modeldisk/model.h"

struct drive {
	const struct model_profile *profile;
	void *model;
	struct io_fifo done;
	size_t io_size;
	char *ios;
};

struct drive *drive_new(const char *name, uint32_t requests)
{
	struct drive *drive = calloc(1, sizeof(*drive));
	const struct model_profile *profile = model_profiles;

	while (strcmp(profile->name, name))
		profile++;
	drive->profile = profile;
	drive->model = calloc(1, profile->model->size);
	profile->model->init(drive->model, &profile->params, drive_sectors(drive));
	drive->io_size = sizeof(struct model_io) +
			 profile->model->parts(&profile->params) * sizeof(struct model_part);
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
