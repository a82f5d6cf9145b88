/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds the room: how much bulk a shared flash device needs to be busy.
 *
 * The more a device has, the longer a request takes, because it may find its flash die busy. If
 * a device has D dies, and n other requests, each for any die, a request takes
 *
 *	W(n) = alone * (1 + n / D)
 *
 * on average. So it serves about n / W(n) requests a second, which is n / (n + D) of what it
 * can serve. With GAIN * D requests this is GAIN / (GAIN + 1). The same holds for a device that is
 * far away: D is how many requests are under way before any has to wait for another.
 *
 * A cost is a request's time on a busy device (cost.h). So W rises by one ns for each ns of cost,
 * and the cost of D requests is alone. If the device is not busy, but has several requests, their
 * costs are learnt as if it was. These costs add up to alone too, so the room is always larger than
 * what such a device has.
 *
 * W is a line, so two points of it give alone. Now and then triage measures the mean service time
 * with the room in use (WIDE) and with a small part of it (NARROW). Means, because a device may
 * answer some requests much sooner than others, for example from a cache. Each request counts by
 * its cost: if all D dies are busy, one is busy with a large request for longer than with a small
 * one, so D requests at a random moment cost the mean by cost of alone.
 *
 * Pure functions that also compile in user space, where they are tested with models.
 */
#ifndef TG_ROOM_H
#define TG_ROOM_H

#include "depth.h"
#include "pure.h"

/* Slopes are in 1/1024. */
#define TG_ROOM_ONE 1024
/*
 * The least room and the first one, in ns: ten times what flash takes for a read. As costs are
 * guessed too low at first, these are many requests. With few, costs would never be learnt
 * (TG_BUSY_FLASH).
 */
#define TG_ROOM_LEAST 1000000ull
/* A device with a full room serves GAIN / (GAIN + 1) of what it can serve. */
#define TG_ROOM_GAIN 8
/* NARROW is this part of what the device had with the room in use. */
#define TG_ROOM_NARROWER 16
/* Number of requests that are measured at each of the two points. */
#define TG_ROOM_SAMPLES 128
/*
 * The time from one measurement to the next, as a multiple of the time with a narrow room: MOST, or
 * less if this is more than PATIENCE ns, because the device may change; but LEAST in any case.
 */
#define TG_ROOM_SPACING_MOST 64
#define TG_ROOM_SPACING_LEAST 16
#define TG_ROOM_SPACING_PATIENCE 30000000000ull
/*
 * The room is narrow for at most this time, in ns, or for four times a request's service time if
 * that is more. In this time a slow device serves fewer than SAMPLES requests.
 */
#define TG_ROOM_NARROW_MOST 1000000000ull
/* A measurement begins anew if no request came back for longer than this, in ns. */
#define TG_ROOM_FORGET 1000000000ull

/**
 * struct tg_room_seen - the requests measured at one point, each by its weight, which is its cost
 *	in units of 1024 ns
 * @weight: sum of their weights; 0: there are none
 * @cost: sum of their costs, in ns
 * @took: sum of their service times, in ns
 * @inside: sum over them of what else the device had when they came back, in ns of cost
 */
struct tg_room_seen {
	u64 weight;
	u64 cost;
	u64 took;
	u64 inside;
};

enum tg_room_point {
	TG_ROOM_WIDE,
	TG_ROOM_NARROW,
	TG_ROOM_POINTS,
};

/**
 * struct tg_room - the search for the room; tg_room_init() sets it
 * @room: limit on bulk in the device, in ns of cost; LEAST until it is found
 * @had: what the device had with the room in use, in ns of cost; LEAST until this is measured
 * @at: the point that is measured
 * @left: number of requests that are still to come back at this point, of which the last SAMPLES
 *	count; 0: no measurement has begun
 * @from: requests that were sent earlier do not count, in ns. Between two measurements this is when
 *	the next one is due
 * @began: when the room was last made narrow, in ns
 * @until: when the room is wide again at the latest, in ns
 * @last_at: when the last request came back, in ns
 * @seen: what was measured last, by point
 */
struct tg_room {
	u64 room;
	u64 had;
	u8 at;
	u64 left;
	u64 from;
	u64 began;
	u64 until;
	u64 last_at;
	struct tg_room_seen seen[TG_ROOM_POINTS];
};

static inline void tg_room_init(struct tg_room *room)
{
	*room = (struct tg_room){ .room = TG_ROOM_LEAST, .had = TG_ROOM_LEAST };
}

/* Return the mean of one of the sums of struct tg_room_seen. */
static inline u64 tg_room_mean(const struct tg_room_seen *seen, u64 sum)
{
	return div64_u64(sum, max_t(u64, seen->weight, 1));
}

/* Return the room at NARROW, in ns of cost. */
static inline u64 tg_room_at_narrow(const struct tg_room *room)
{
	const struct tg_room_seen *wide = &room->seen[TG_ROOM_WIDE];

	return max_t(u64, tg_room_mean(wide, wide->inside) / TG_ROOM_NARROWER, 1);
}

/*
 * Return the room that follows from both points, in ns of cost. It is at least LEAST, GAIN requests
 * of mean cost, and twice what the device had at NARROW: the line was not seen below that. If the
 * device had more than half there, because others than bulk fill it, the slope is 1. Return the
 * present room if nothing came back at NARROW.
 */
static inline u64 tg_room_found(const struct tg_room *room)
{
	const struct tg_room_seen *wide = &room->seen[TG_ROOM_WIDE];
	const struct tg_room_seen *narrow = &room->seen[TG_ROOM_NARROW];
	const u64 few = tg_room_mean(narrow, narrow->inside);
	const u64 many = tg_room_mean(wide, wide->inside);
	const u64 quick = tg_room_mean(narrow, narrow->took);
	const u64 slow = tg_room_mean(wide, wide->took);
	u64 slope = TG_ROOM_ONE, alone;

	if (!narrow->weight)
		return room->room;
	if (many > 2 * few)
		slope = div64_u64(TG_ROOM_ONE * (slow - min_t(u64, slow, quick)), many - few);
	alone = quick - min_t(u64, quick, slope * few / TG_ROOM_ONE);
	return clamp_t(u64, TG_ROOM_GAIN * max_t(u64, alone, tg_room_mean(wide, wide->cost)),
		       max_t(u64, 2 * few, TG_ROOM_LEAST), TG_DEPTH_MAX);
}

/*
 * Begin to measure a point, with requests that are sent from @from on. The first of them that come
 * back are the quick ones. So leave out twice as many as the device has, @inside ns of cost.
 */
static inline void tg_room_begin(struct tg_room *room, enum tg_room_point at, u64 from,
				 u64 inside, u32 average)
{
	room->seen[at] = (struct tg_room_seen){};
	room->at = at;
	room->from = from;
	room->left = TG_ROOM_SAMPLES + 2 * div64_u64(inside, average);
}

/*
 * WIDE is measured: go on with NARROW, once most requests in the device have come back. They take
 * as long as each took at WIDE, or as they cost, if they cost less: few may be stuck. If all is
 * well, NARROW takes no longer than if each request took as long as at WIDE. Wait twice as long.
 */
static inline void tg_room_narrow(struct tg_room *room, u64 now, u32 average)
{
	const struct tg_room_seen *wide = &room->seen[TG_ROOM_WIDE];
	const u64 took = tg_room_mean(wide, wide->took);
	const u64 had = tg_room_mean(wide, wide->inside);
	const u64 inside = tg_room_at_narrow(room);
	const u64 each = 2 * div64_u64(took * average, inside + average);
	const u64 most = max_t(u64, TG_ROOM_NARROW_MOST, 4 * took);

	tg_room_begin(room, TG_ROOM_NARROW, now + min_t(u64, took, had), inside, average);
	if (each)
		room->left = min_t(u64, room->left, most / each + 1);
	room->began = now;
	room->until = room->from + room->left * each;
}

/*
 * Both points are measured: set the room. If it is at most half as large as before, it may be still
 * too large, and is measured again at once.
 */
static inline void tg_room_decide(struct tg_room *room, u64 now)
{
	const struct tg_room_seen *wide = &room->seen[TG_ROOM_WIDE];
	const u64 narrow = min_t(u64, now, room->until) - room->began;
	const u64 before = room->room;

	room->had = tg_room_mean(wide, wide->inside);
	room->room = tg_room_found(room);
	room->at = TG_ROOM_WIDE;
	room->left = 0;
	room->from = now;
	if (room->room > before / 2)
		room->from += clamp_t(u64, TG_ROOM_SPACING_PATIENCE, narrow * TG_ROOM_SPACING_LEAST,
				      narrow * TG_ROOM_SPACING_MOST);
}

/*
 * Learn from a request of bulk of @cost ns that took @took ns, and came back at @now, when the
 * device had @inside ns of cost besides. @average is bulk's average cost.
 */
static inline void tg_room_see(struct tg_room *room, u64 now, u64 took, u64 inside, u32 cost,
			       u32 average)
{
	const u64 weight = max_t(u32, cost / 1024, 1);
	struct tg_room_seen *seen;
	bool pause;

	average = max_t(u32, average, 1);
	if (now - took < room->from)
		return;
	/* So sums fit 64 bits. */
	took = min_t(u64, took, TG_DEPTH_MAX);
	inside = min_t(u64, inside, TG_DEPTH_MAX);
	/* After a pause the device may have other requests: begin anew. */
	pause = now > max_t(u64, room->last_at, room->from) + TG_ROOM_FORGET;
	room->last_at = now;
	if (room->at == TG_ROOM_NARROW && (pause || now > room->until)) {
		tg_room_decide(room, now);
		return;
	}
	if (!room->left || pause)
		tg_room_begin(room, TG_ROOM_WIDE, now - took, inside, average);
	room->left--;
	if (room->left < TG_ROOM_SAMPLES) {
		seen = &room->seen[room->at];
		seen->weight += weight;
		seen->cost += weight * cost;
		seen->took += weight * took;
		seen->inside += weight * inside;
	}
	if (room->left)
		return;
	if (room->at == TG_ROOM_WIDE)
		tg_room_narrow(room, now, average);
	else
		tg_room_decide(room, now);
}

#endif
