/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Is what comes in sequential or random? Two scores, moved by each object that
 * comes in: they lean to whichever has been seen more of lately.
 *
 * Pure functions that also compile in user space, where they are tested.
 */
#ifndef DETECTOR_H
#define DETECTOR_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <linux/types.h>
typedef __u64 u64;
#endif

/**
 * struct detector - what has been seen, and how to judge it
 * @end: the sector after the latest object; at first 0, the start of the device
 * @seq_score: how much of it was sequential
 * @rand_score: how much of it was not
 * @seq_gap_sectors: the largest gap, forward or back, that is still sequential
 * @score_max: the most a score can be
 */
struct detector {
	u64 end;
	unsigned int seq_score;
	unsigned int rand_score;

	unsigned int seq_gap_sectors;
	unsigned int score_max;
};

/* Whether @sector goes on from @end: from where something else ended. */
static inline bool detector_near(const struct detector *d, u64 end, u64 sector)
{
	const u64 gap = sector > end ? sector - end : end - sector;

	return gap <= d->seq_gap_sectors;
}

/* @score, or the most it can be: less than before, if the bound was lowered. */
static inline unsigned int detector_bounded(const struct detector *d,
					    unsigned int score)
{
	return score < d->score_max ? score : d->score_max;
}

/**
 * detector_feed() - take note of an object that comes in
 * @d: the detector
 * @sector: its first sector
 * @sectors: its length
 *
 * One score rises as the other falls, and neither beyond its bounds: after a change
 * of workload the mode follows within score_max / 2 + 1 objects, however long the
 * other kind went on.
 */
static inline void detector_feed(struct detector *d, u64 sector,
				 unsigned int sectors)
{
	const bool near = detector_near(d, d->end, sector);
	unsigned int *up = near ? &d->seq_score : &d->rand_score;
	unsigned int *down = near ? &d->rand_score : &d->seq_score;

	*up = detector_bounded(d, *up + 1);
	*down = detector_bounded(d, *down ? *down - 1 : 0);
	d->end = sector + sectors;
}

/* The mode: sequential, or else random. */
static inline bool detector_sequential(const struct detector *d)
{
	return d->seq_score >= d->rand_score;
}

#endif
