/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tells whether requests arrive in sequence or at random. Each of the two kinds has a
 * score, and each arrival changes both scores. The kind that was more frequent lately
 * has the higher score.
 *
 * Nothing here depends on the kernel, so tests call these functions in user space.
 */
#ifndef DETECTOR_H
#define DETECTOR_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include "userspace.h"
#endif

/**
 * struct detector - the scores, and their tunables
 * @end: the end of the latest arrival; at first 0, the start of the device
 * @seq_score: the score of sequential arrivals
 * @rand_score: the score of all other arrivals
 * @seq_gap_sectors: the largest gap, forward or back, of a sequential arrival
 * @score_max: the upper bound of a score
 */
struct detector {
	u64 end;
	unsigned int seq_score;
	unsigned int rand_score;

	unsigned int seq_gap_sectors;
	unsigned int score_max;
};

/* Return whether a request at @sector continues another one, which ends at @end. */
static inline bool detector_near(const struct detector *d, u64 end, u64 sector)
{
	const u64 gap = sector > end ? sector - end : end - sector;

	return gap <= d->seq_gap_sectors;
}

/* Return @score, or score_max if that is lower: a user may have lowered score_max. */
static inline unsigned int detector_bounded(const struct detector *d,
					    unsigned int score)
{
	return score < d->score_max ? score : d->score_max;
}

/**
 * detector_feed() - take note of an arrival
 * @d: the detector
 * @sector: the arrival's first sector
 * @sectors: the arrival's length
 *
 * One score rises and the other falls, each within its bounds. So the mode follows a
 * change of workload within score_max / 2 + 1 arrivals, however long the former
 * workload lasted.
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

/* Return the mode: true for sequential, false for random. */
static inline bool detector_sequential(const struct detector *d)
{
	return d->seq_score >= d->rand_score;
}

#endif
