/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whether a flow is sequential.
 *
 * Pure functions that also compile in user space, where they are tested.
 */
#ifndef TG_DETECTOR_H
#define TG_DETECTOR_H

#include "pure.h"

/*
 * What readers skip, a file's metadata or a hole, is still one pass over the disk; so
 * is one that runs backwards.
 */
#define TG_DETECTOR_GAP 512	/* sectors */
/* So many requests change its mind. */
#define TG_DETECTOR_SURE 4
/* Who reads on for so long is a stream: a disk reads it in the time of a seek. */
#define TG_DETECTOR_STREAM 2048	/* sectors */

/**
 * struct tg_detector - what a flow's requests looked like; all zero to begin with
 * @next: the sector after its latest request; 0 before the first
 * @run: sectors that followed each other without a pause; a jump takes away half
 * @score: above 0: sequential, below: random; within TG_DETECTOR_SURE of 0
 */
struct tg_detector {
	u64 next;
	u32 run;
	s8 score;
};

/* Whether a request at @sector is where the flow was, or just beside it. */
static inline bool tg_detector_follows(const struct tg_detector *detector, u64 sector)
{
	return sector <= detector->next + TG_DETECTOR_GAP &&
	       detector->next <= sector + TG_DETECTOR_GAP;
}

/* Take note of a request of @sectors at @sector. */
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

/* Take note of how far it goes on without a jump; before it is seen. */
static inline void tg_detector_measure(struct tg_detector *detector, u64 sector, u32 sectors)
{
	if (!detector->next || !tg_detector_follows(detector, sector))
		detector->run /= 2;
	detector->run = min_t(u64, (u64)detector->run + sectors, 2 * TG_DETECTOR_STREAM);
}

/* Take note that its submitter did something else than wait for the device. */
static inline void tg_detector_pause(struct tg_detector *detector)
{
	detector->run = 0;
}

/* Whether it asks for one thing after another, for as long as it is let. */
static inline bool tg_detector_streams(const struct tg_detector *detector)
{
	return detector->run >= TG_DETECTOR_STREAM;
}

/* Not until it is known to be. */
static inline bool tg_detector_sequential(const struct tg_detector *detector)
{
	return detector->score > 0;
}

/* Until it is known not to be. */
static inline bool tg_detector_maybe_sequential(const struct tg_detector *detector)
{
	return detector->score >= 0;
}

#endif
