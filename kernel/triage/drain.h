/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds the pace at which bulk may write, so that a drive's write buffer stays short.
 *
 * A drive completes a write once the data is in its buffer, and a flush waits until the drive has
 * written the buffer to the medium. The rate at which the drive empties its buffer is called the
 * drive's rate here. If bulk writes faster, the buffer fills up, and each flush has to wait for a
 * full buffer. It does not matter how much faster bulk writes, because a drive with a full buffer
 * delays writes until there is room. So a pace above the drive's rate changes neither bulk's
 * throughput nor the time of flushes, and a search by small steps would not find the drive's rate
 * from afar. But while the buffer is full, the drive serves bulk's writes at just the drive's rate.
 *
 * So while processes flush, a trial now and then lets bulk write at half of its rate. If flushes
 * then become so much shorter that this is worth a tenth of bulk's throughput, bulk's rate before
 * the trial becomes the estimate of the drive's rate, and bulk's pace from then on. If a later
 * flush takes longer than those of the trial, the difference is the time that the drive needs to
 * empty its buffer. The pace is so far below the estimate that the buffer becomes empty within a
 * period of some flushes. While flushes are quick, the estimate rises a little with each period.
 * While they are slow, it falls towards the drive's rate. So there is always a little in the
 * buffer, and the drive is always busy. BBR (Cardwell et al., 2016) keeps a network's queue short
 * in a similar way: it measures the rate of the slowest link while the queue is long, and the
 * latency while it is short.
 *
 * Pure functions that also compile in user space, where they are tested with a model of a buffer.
 */
#ifndef TG_DRAIN_H
#define TG_DRAIN_H

#include "pure.h"

/*
 * A period ends after this number of flushes, or as soon as fewer flushes have taken so long that
 * the mean is certain to be slow (tg_drain_is_over()). After PERIOD_LONG, LEAST flushes suffice.
 */
#define TG_DRAIN_FLUSHES 8
#define TG_DRAIN_LEAST 2
#define TG_DRAIN_PERIOD 50000000ull		/* the shortest period, in ns */
#define TG_DRAIN_PERIOD_LONG 1000000000ull	/* ns */
/*
 * There is no pace if fewer than LEAST flushes end in this time, in ns. If a flush takes more than
 * a third of this time, three times the flush's time counts instead.
 */
#define TG_DRAIN_PAUSE 4000000000ull
/* A trial divides bulk's rate by this. */
#define TG_DRAIN_TRIAL 2
/*
 * The worth of a tenth of bulk's throughput on the scale of the exchange rate (knee.h), in
 * hundredths of a per cent: 100 ln(10/9) = 10.54 %.
 */
#define TG_DRAIN_PRICE 1054
/*
 * A period with quick flushes raises the estimate of the drive's rate by one part in this many. If
 * the estimate exceeds the true rate by as much, the buffer grows by 1.6 % of a period's data.
 */
#define TG_DRAIN_STEP 64
/*
 * The time from one trial to the next, as a multiple of the trial's length: trials cost bulk 0.8 %
 * of its throughput. After a trial that told nothing, the multiple is only AGAIN: such trials cost
 * at most 6 %.
 */
#define TG_DRAIN_SPACING 64
#define TG_DRAIN_AGAIN 8
/*
 * If flushes are quick and the pace holds writes in many periods in a row, the estimate is far too
 * low. So after every RISE such periods the step doubles, RISE_MAX times at most. The largest step
 * doubles the estimate. Near the true rate, a period with slow flushes comes before the step
 * doubles.
 */
#define TG_DRAIN_RISE 8
#define TG_DRAIN_RISE_MAX 6
/*
 * Writes that the pace never holds are charged to it too. They may use up at most this many parts
 * of the pace for each part that is left to the writes that it holds. Sparse flows and the backlog
 * divide the device in the same ratio (flow.c).
 */
#define TG_DRAIN_PASSING 16
/*
 * An estimate is no longer a guess (tg_drain.guess) once it has risen by one part in this many
 * while flushes were quick.
 */
#define TG_DRAIN_SURE 8
/* The least pace, in KiB/s. If flushes are slow even at this pace, the pace ends. */
#define TG_DRAIN_PACE_LEAST 1024u

/**
 * struct tg_drain_seen - what a device has done so far; all counts but @pauses only grow
 * @now: when this was seen, in ns
 * @flushes: number of flushes
 * @flush_ns: sum of their times, in ns
 * @kib: length of all writes, of bulk and of urgent requests beside bulk, in KiB
 * @busy: number of looks (calls of tg_flushes_learn()) at which bulk was in the device, or requests
 *	were held
 * @idle: number of looks at which there was no bulk
 * @spells: changes if there was a time in which the device was not pressed: then bulk had no pace,
 *	and its writes were not counted
 * @pauses: changes when a probe begins to keep bulk out, and when that pause of bulk ends; odd
 *	during a pause
 */
struct tg_drain_seen {
	u64 now;
	u64 flushes;
	u64 flush_ns;
	u64 kib;
	u64 busy;
	u64 idle;
	u64 spells;
	u64 pauses;
};

/**
 * struct tg_drain - the search for the pace; all zero to begin with
 * @pace: the rate at which bulk may write, in KiB/s; 0: any
 * @estimate: the rate at which the drive empties its buffer, in KiB/s; 0: unknown
 * @trying: a trial runs
 * @guess: the first @estimate is from a period in which bulk was not @backlogged, and has not risen
 *	enough since (TG_DRAIN_SURE)
 * @rate: bulk's rate in the last period that was no trial, in KiB/s
 * @backlogged: bulk mostly had requests in that period, so the rate is the drive's
 * @before: the mean time of a flush in that period, in ns
 * @alone: the mean time of a flush in the first trial, then in the last trial that told something,
 *	in ns: bulk hardly affects this time
 * @buffered: how much longer than @alone a flush took on average in the last period, in ns
 * @first: the first @estimate, or a later one if that was larger when a trial ended
 * @quick: number of periods in a row that have raised the estimate
 * @tried_at: when the last trial began, in ns
 * @try_at: when the next trial is due, in ns
 * @again_at: no trial begins before this time, because the last one told nothing; ns
 * @settled_at: until this time flushes do not count, because the drive may still empty what its
 *	buffer had before the trial; ns
 * @begin: what was seen when this period began, plus what was seen in pauses since; its time is 0
 *	before the first period
 * @last: what was seen at the last look
 */
struct tg_drain {
	u32 pace;
	u32 estimate;
	bool trying;
	bool backlogged;
	bool guess;
	u32 rate;
	u64 before;
	u64 alone;
	u64 buffered;
	u32 first;
	u32 quick;
	u64 tried_at;
	u64 try_at;
	u64 again_at;
	u64 settled_at;
	struct tg_drain_seen begin;
	struct tg_drain_seen last;
};

/*
 * Return whether flushes are so slow that bulk should be paced. A flush takes @mean ns, and @alone
 * ns without bulk. Each delay of @alone ns is worth @exchange per cent of bulk's throughput. The
 * whole delay must be worth more than a tenth of bulk's throughput (TG_DRAIN_PRICE).
 */
static inline bool tg_drain_is_slow(u64 mean, u64 alone, u32 exchange)
{
	/* The bounds keep the products below 2^64. */
	const u64 delay = min_t(u64, mean - min_t(u64, mean, alone), 1ull << 40);

	return 100 * delay * exchange > TG_DRAIN_PRICE * min_t(u64, alone, 1ull << 40);
}

static inline u32 tg_drain_clamp(u64 pace)
{
	return clamp_t(u64, pace, TG_DRAIN_PACE_LEAST, U32_MAX);
}

/*
 * Begin a trial. Its flushes count once the buffer is empty. The drive empties a full buffer in
 * @mean ns, or in twice that time while bulk fills the buffer at half the drive's rate. A flush
 * that began before the buffer was empty ends at most @mean ns after it is empty.
 */
static inline void tg_drain_try(struct tg_drain *drain, u64 mean, u32 rate, u64 now)
{
	drain->trying = true;
	drain->tried_at = now;
	drain->pace = tg_drain_clamp((drain->estimate ?: rate) / TG_DRAIN_TRIAL);
	drain->settled_at = now + mean * (TG_DRAIN_TRIAL + 1);
}

/* Return the rate at which bulk would write without a trial, in KiB/s. */
static inline u32 tg_drain_untried(const struct tg_drain *drain)
{
	return drain->estimate ?: drain->rate;
}

/*
 * Return whether a trial in which bulk wrote @rate lowered bulk's rate by more than 1/8. Also
 * return true if bulk's full rate is at most TG_DRAIN_TRIAL times the least pace: there is nothing
 * to gain from slowing bulk down further.
 */
static inline bool tg_drain_lowered(const struct tg_drain *drain, u32 rate)
{
	const u32 full = tg_drain_untried(drain);

	return full <= TG_DRAIN_TRIAL * TG_DRAIN_PACE_LEAST ||
	       full - min_t(u32, full, rate) > full / 8;
}

/*
 * Return whether a trial must go on until the buffer is empty. The pace never holds some writes, so
 * @rate, at which bulk wrote, may exceed the trial's pace. Then the buffer needs more time than
 * tg_drain_try() has allowed: its data divided by the difference of the drive's rate and bulk's.
 * Take this difference as at least 1/8 of bulk's full rate: a trial that lowers the rate by less
 * tells nothing.
 */
static inline bool tg_drain_settles(struct tg_drain *drain, u32 rate, u64 now)
{
	const u32 full = tg_drain_untried(drain);
	const u32 less = max_t(u32, full - min_t(u32, full, rate), full / 8 + 1);
	const u64 until = drain->tried_at + drain->before +
			  div64_u64(min_t(u64, drain->before, 1ull << 31) * full, less);

	if (now >= until)
		return false;
	drain->settled_at = until;
	return true;
}

/* Record that a trial told nothing. @now is when the device was last seen during the trial. */
static inline void tg_drain_told_nothing(struct tg_drain *drain, u64 now)
{
	drain->again_at = now + (now - drain->tried_at) * TG_DRAIN_AGAIN;
	drain->try_at = drain->again_at;
}

/*
 * End a trial, in which bulk wrote @rate, and flushes took @mean ns. If flushes were slower than
 * before, something other than bulk makes them slow, and the trial told nothing. While there is a
 * pace, flushes are quick both before a trial and in it, so only a large difference counts as
 * slower (tg_drain_is_slow()). If bulk wrote hardly less than before and flushes did not become
 * much quicker, the trial told nothing either.
 */
static inline void tg_drain_tried(struct tg_drain *drain, u64 mean, u32 rate, u32 exchange, u64 now)
{
	const bool helped = tg_drain_is_slow(drain->before, mean, exchange);
	const bool told = (helped || tg_drain_lowered(drain, rate)) &&
			  (drain->estimate ? !tg_drain_is_slow(mean, drain->before, exchange) :
					     mean <= drain->before);

	drain->trying = false;
	if (told || !drain->alone)
		drain->alone = mean;
	/* An estimate that has risen shows that the drive became faster, unless it was a guess. */
	if (!drain->guess)
		drain->first = max_t(u32, drain->first, drain->estimate);
	if (told)
		drain->try_at = now + (now - drain->tried_at) * TG_DRAIN_SPACING;
	else
		tg_drain_told_nothing(drain, now);
	if (!drain->estimate && tg_drain_is_slow(drain->before, mean, exchange)) {
		drain->estimate = tg_drain_clamp(drain->rate);
		drain->first = drain->estimate;
		drain->guess = !drain->backlogged;
	}
	drain->pace = drain->estimate;
	drain->buffered = 0;
	drain->quick = 0;
}

/*
 * Forget the last period. If a trial runs, end it without a result. Call this if too much has
 * changed since the device was last seen, at @now.
 */
static inline void tg_drain_abandon(struct tg_drain *drain, u64 now)
{
	if (drain->trying)
		tg_drain_told_nothing(drain, now);
	drain->trying = false;
	drain->pace = drain->estimate;
	drain->buffered = 0;
	drain->rate = 0;
	drain->settled_at = 0;
}

/* Return the step by which the estimate rises after a period with quick flushes. */
static inline u64 tg_drain_rise(struct tg_drain *drain)
{
	const u32 doubled = min_t(u32, drain->quick++ / TG_DRAIN_RISE, TG_DRAIN_RISE_MAX);

	return (u64)drain->estimate / TG_DRAIN_STEP << doubled;
}

/*
 * Learn from a period of @time ns in which flushes took @mean ns, and bulk wrote @rate KiB/s.
 *
 * While flushes are slow, the buffer is never empty, and the drive's rate follows from what bulk
 * wrote. Some of this data may have made the buffer longer: the growth of tg_drain.buffered times
 * the drive's rate. The drive has written the rest. If the drive's rate is below the estimate, the
 * estimate moves half way to it. It moves no further, because the mean times of two periods show
 * only roughly how full the buffer was when this period began and ended.
 *
 * But the pace ends if flushes are slow although the pace did not limit bulk, or although the
 * estimate has fallen to half of the first one, or to the least pace. Then the drive has changed,
 * or something other than bulk makes flushes slow. A trial decides anew. So bulk keeps at least
 * half of its throughput, whatever makes flushes slow. A first estimate may be only a guess,
 * because bulk came in bursts. Until it has risen, the pace ends as soon as flushes are slow.
 */
static inline void tg_drain_adapt(struct tg_drain *drain, u64 time, u64 mean, u32 rate,
				  bool limited, u32 exchange)
{
	const u64 buffered = min_t(u64, mean - min_t(u64, mean, drain->alone), time / 2);
	const u64 before = min_t(u64, drain->buffered, time / 2);
	const u32 had = drain->estimate;
	const bool slow = tg_drain_is_slow(mean, drain->alone, exchange);

	const u32 least = drain->first / (drain->guess ? 1 : TG_DRAIN_TRIAL);

	if (slow && (!limited || had <= max_t(u32, least, TG_DRAIN_PACE_LEAST))) {
		drain->estimate = 0;
		drain->pace = 0;
		return;
	}
	if (slow || !limited)
		drain->quick = 0;
	if (slow)
		drain->estimate = (had + min_t(u64, had, div64_u64(rate * time,
								   time + buffered - before))) / 2;
	else if (limited)
		drain->estimate = min_t(u64, had + tg_drain_rise(drain), U32_MAX);
	if (drain->estimate > drain->first + drain->first / TG_DRAIN_SURE)
		drain->guess = false;
	drain->estimate = tg_drain_clamp(drain->estimate);
	drain->pace = tg_drain_clamp(drain->estimate - div64_u64(drain->estimate * buffered, time));
	drain->buffered = buffered;
}

/*
 * Return whether a trial is due: there is no pace, and in two periods in a row flushes took much
 * longer than in the last trial; or the last trial was long ago. While bulk still fills the buffer,
 * its rate is not the drive's, so wait until bulk's rate no longer falls. After a trial that told
 * nothing, wait until tg_drain.again_at in any case.
 */
static inline bool tg_drain_is_due(const struct tg_drain *drain, u64 mean, u32 rate, u32 exchange,
				   u64 now)
{
	if (!rate || !drain->rate || rate < drain->rate - drain->rate / 8 || now < drain->again_at)
		return false;
	return now >= drain->try_at ||
	       (!drain->estimate && tg_drain_is_slow(min_t(u64, mean, drain->before), drain->alone,
						     exchange));
}

/*
 * Learn from a period of @time ns, in a trial or not. @backlogged is the new tg_drain.backlogged.
 * @mean and @rate are those of tg_drain_adapt(), @limited and @exchange those of tg_drain_see().
 */
static inline void tg_drain_judge(struct tg_drain *drain, u64 time, u64 mean, u32 rate,
				  bool backlogged, bool limited, u32 exchange, u64 now)
{
	if (drain->trying) {
		if (!tg_drain_settles(drain, rate, now))
			tg_drain_tried(drain, mean, rate, exchange, now);
		return;
	}
	if (drain->estimate) {
		tg_drain_adapt(drain, time, mean, rate, limited, exchange);
		/* If the pace has just ended, bulk wrote at the pace: forget this rate. */
		if (!drain->estimate)
			rate = 0;
	}
	if (tg_drain_is_due(drain, mean, rate, exchange, now))
		tg_drain_try(drain, mean, rate, now);
	drain->rate = rate;
	drain->backlogged = backlogged;
	drain->before = mean;
}

/* Return whether a period can be judged: in @time ns, @flushes flushes took @flush_ns together. */
static inline bool tg_drain_is_over(const struct tg_drain *drain, u64 time, u64 flushes,
				    u64 flush_ns, u32 exchange)
{
	if (time < TG_DRAIN_PERIOD || !flushes)
		return false;
	if (flushes >= (time < TG_DRAIN_PERIOD_LONG ? TG_DRAIN_FLUSHES : TG_DRAIN_LEAST))
		return true;
	return drain->alone && !drain->trying &&
	       tg_drain_is_slow(div64_u64(flush_ns, TG_DRAIN_FLUSHES), drain->alone, exchange);
}

/* Return whether flushes are too rare for a pace: @flushes took @flush_ns together in @time ns. */
static inline bool tg_drain_are_rare(const struct tg_drain *drain, u64 time, u64 flushes,
				     u64 flush_ns)
{
	if (time <= TG_DRAIN_PAUSE || flushes >= TG_DRAIN_LEAST)
		return false;
	return time > 3 * max_t(u64, drain->before, flush_ns);
}

/* Leave out of this period what happened between the looks @last and @seen. */
static inline void tg_drain_leave_out(struct tg_drain *drain, const struct tg_drain_seen *last,
				      const struct tg_drain_seen *seen)
{
	drain->begin.now += seen->now - last->now;
	drain->begin.flushes += seen->flushes - last->flushes;
	drain->begin.flush_ns += seen->flush_ns - last->flush_ns;
	drain->begin.kib += seen->kib - last->kib;
	drain->begin.busy += seen->busy - last->busy;
	drain->begin.idle += seen->idle - last->idle;
}

/**
 * tg_drain_see() - learn the pace; call this every TG_DRAIN_PERIOD or so
 * @drain: the search; its pace is updated
 * @seen: what the device has done so far
 * @limited: the pace has held a write of bulk since this function last returned true
 * @exchange: the gain in bulk's throughput, in %, that makes up for a flush that takes
 *	tg_drain.alone longer
 *
 * Return: true if a new period begins
 */
static inline bool tg_drain_see(struct tg_drain *drain, const struct tg_drain_seen *seen,
				bool limited, u32 exchange)
{
	const u64 flushes = seen->flushes - drain->begin.flushes;
	const u64 flush_ns = seen->flush_ns - drain->begin.flush_ns;
	const u64 kib = seen->kib - drain->begin.kib;
	const u64 time = seen->now - drain->begin.now;
	const struct tg_drain_seen last = drain->last;

	drain->last = *seen;
	/*
	 * Begin anew at the first look, after a time in which the device was not pressed, and if
	 * the disk was removed: the block layer then sets its counts to 0.
	 */
	if (!last.now || seen->spells != last.spells || seen->flushes < last.flushes) {
		tg_drain_abandon(drain, last.now);
		drain->begin = *seen;
		return true;
	}
	if (drain->begin.now < drain->settled_at) {
		drain->begin = *seen;
		return true;
	}
	/* While a probe keeps bulk out, bulk's rate does not show the drive's. */
	if (seen->pauses != last.pauses || seen->pauses % 2) {
		tg_drain_leave_out(drain, &last, seen);
		return false;
	}
	if (tg_drain_are_rare(drain, time, flushes, flush_ns)) {
		tg_drain_abandon(drain, seen->now);
		*drain = (struct tg_drain){
			.alone = drain->alone,
			.try_at = drain->try_at,
			.again_at = drain->again_at,
			.begin = *seen,
			.last = *seen,
		};
		return true;
	}
	if (!tg_drain_is_over(drain, time, flushes, flush_ns, exchange))
		return false;
	tg_drain_judge(drain, time, div64_u64(flush_ns, flushes),
		       min_t(u64, div64_u64(kib * 1000000, div64_u64(time, 1000)), U32_MAX),
		       seen->busy - drain->begin.busy >= seen->idle - drain->begin.idle, limited,
		       exchange, seen->now);
	drain->begin = *seen;
	return true;
}

/**
 * tg_drain_passes() - charge the pace for a write that it never holds
 * @at: the time up to which such writes have used up their part of the pace; updated; in ns
 * @cost: the time that the write takes at the pace, in ns
 * @now: ns
 *
 * The pace holds none of these writes, however many there are. If the pace were charged for all of
 * them, they could hold bulk for ever. So it is charged for at most TG_DRAIN_PASSING of
 * TG_DRAIN_PASSING + 1 parts of the time. Time that such writes do not use within TG_DRAIN_PERIOD
 * is left to bulk.
 *
 * Return: how much of @cost to charge, in ns
 */
static inline u64 tg_drain_passes(u64 *at, u64 cost, u64 now)
{
	u64 unused, charged;

	/* Nothing is left for such writes. Another CPU may have charged them at a later @now. */
	if (*at >= now)
		return 0;
	unused = min_t(u64, now - *at, TG_DRAIN_PERIOD);
	charged = min_t(u64, cost, unused - unused / (TG_DRAIN_PASSING + 1));
	*at = now - unused + charged + charged / TG_DRAIN_PASSING;
	return charged;
}

#endif
