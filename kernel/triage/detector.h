/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tells a sequential flow from a random one.
 *
 * Pure functions that also compile in user space, where they are tested.
 */
#ifndef TG_DETECTOR_H
#define TG_DETECTOR_H

#include "pure.h"

/* A reader that skips this much (metadata, a hole) still reads on; also backwards. */
#define TG_DETECTOR_GAP 512	/* sectors */
/* This many requests turn the verdict. */
#define TG_DETECTOR_SURE 4
/*
 * A flow that reads on for this length is a stream: a disk reads it in the time of a seek.
 */
#define TG_DETECTOR_STREAM 2048	/* sectors */

/**
 * struct tg_detector - the pattern of a flow's requests; all zero to begin with
 * @next: the sector after its latest request; 0 before the first
 * @run: sectors that followed each other without a pause; a jump takes away half
 * @score: above 0: sequential, below: random; within TG_DETECTOR_SURE of 0
 */
struct tg_detector {
	u64 next;
	u32 run;
	s8 score;
};

/* Return whether a request at @sector is where the flow was, or just beside it. */
static inline bool tg_detector_follows(const struct tg_detector *detector, u64 sector)
{
	return sector <= detector->next + TG_DETECTOR_GAP &&
	       detector->next <= sector + TG_DETECTOR_GAP;
}

/* Note a request of @sectors at @sector. */
static inline void tg_detector_see(struct tg_detector *detector, u64 sector, u32 sectors)
{
	if (!detector->next)
		detector->score = 0; /* the first tells nothing */
	else if (!tg_detector_follows(detector, sector))
		detector->score = max_t(s8, detector->score - 1, -TG_DETECTOR_SURE);
	else if (detector->score < TG_DETECTOR_SURE)
		detector->score++;
	detector->next = sector + sectors;
}

/* Note how far the flow goes on without a jump; call before tg_detector_see(). */
static inline void tg_detector_measure(struct tg_detector *detector, u64 sector, u32 sectors)
{
	if (!detector->next || !tg_detector_follows(detector, sector))
		detector->run /= 2;
	detector->run = min_t(u64, (u64)detector->run + sectors, 2 * TG_DETECTOR_STREAM);
}

/* Note that the submitter did something else than wait for the device. */
static inline void tg_detector_pause(struct tg_detector *detector)
{
	detector->run = 0;
}

/* Return whether the flow reads on for as long as it is let. */
static inline bool tg_detector_streams(const struct tg_detector *detector)
{
	return detector->run >= TG_DETECTOR_STREAM;
}

/* Return whether the flow is known to be sequential. */
static inline bool tg_detector_sequential(const struct tg_detector *detector)
{
	return detector->score > 0;
}

/* Return whether the flow is not known to be random. */
static inline bool tg_detector_maybe_sequential(const struct tg_detector *detector)
{
	return detector->score >= 0;
}

#endif
