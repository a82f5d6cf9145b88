/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tells a sequential flow from a random one.
 *
 * Pure functions that also compile in user space, where they are tested.
 */
#ifndef TG_DETECTOR_H
#define TG_DETECTOR_H

#include "pure.h"

/* A sequential reader may skip this much, forwards or backwards (metadata, a hole). */
#define TG_DETECTOR_GAP 512	/* sectors */
/* The score's bound. It is low, so that a few requests of the other kind change the verdict. */
#define TG_DETECTOR_SURE 4
/* A flow with a run of this length is a stream. A disk transfers so much in about a seek's time. */
#define TG_DETECTOR_STREAM 2048	/* sectors */

/**
 * struct tg_detector - the pattern of a flow's requests; all zero to begin with
 * @next: the sector after the flow's latest request; 0 before the first
 * @run: number of sectors in sequence without a pause; a jump halves it
 * @score: above 0: sequential; below 0: random; never further than TG_DETECTOR_SURE from 0
 */
struct tg_detector {
	u64 next;
	u32 run;
	s8 score;
};

/* Return whether a request at @sector begins at or near the end of the flow's last one. */
static inline bool tg_detector_follows(const struct tg_detector *detector, u64 sector)
{
	return sector <= detector->next + TG_DETECTOR_GAP &&
	       detector->next <= sector + TG_DETECTOR_GAP;
}

/* Update the score and @next by a request of @sectors at @sector. */
static inline void tg_detector_see(struct tg_detector *detector, u64 sector, u32 sectors)
{
	if (!detector->next)
		detector->score = 0; /* the first request tells nothing */
	else if (!tg_detector_follows(detector, sector))
		detector->score = max_t(s8, detector->score - 1, -TG_DETECTOR_SURE);
	else if (detector->score < TG_DETECTOR_SURE)
		detector->score++;
	detector->next = sector + sectors;
}

/* Update the run by a request; call this before tg_detector_see(). */
static inline void tg_detector_measure(struct tg_detector *detector, u64 sector, u32 sectors)
{
	if (!detector->next || !tg_detector_follows(detector, sector))
		detector->run /= 2;
	detector->run = min_t(u64, (u64)detector->run + sectors, 2 * TG_DETECTOR_STREAM);
}

/* End the run: the submitter paused for another reason than to wait for the device. */
static inline void tg_detector_pause(struct tg_detector *detector)
{
	detector->run = 0;
}

/* Return whether the flow is a stream. */
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
