// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guards: the room keeps a shared device busy, and is no larger than that takes: on a device with
 * one die or many, near or far, whose requests are alike or not. Run with: make -C kernel unit
 */
#include <math.h>

#include "expect.h"
#include "triage/room.h"

#define MS 1000000ull
#define DIES_MOST 256
#define REQUESTS_MOST 256
#define CACHE_NS 100000
#define LARGER 40

/* A modelled device. All times are in ns. */
struct model {
	u32 dies;	/* each serves one request at a time, in the order in which they came */
	u64 service;	/* mean time on a die */
	bool varies;	/* that time is exponential, not always the same */
	u64 way;	/* time to the device and back, for any number of requests at once */
	u32 quick;	/* per mille of requests that a cache answers, in 0.1 ms */
	u32 large;	/* per mille of requests that take and cost LARGER times as much */
	double price;	/* a request's cost, as a multiple of its time on the device */
	u32 wanted;	/* requests that submitters would have in the device */
	bool unlimited;	/* the device gets all of them */
	u32 stuck;	/* requests that never come back */
	u64 tick;	/* length of a tick of the kernel's clock; 0: 1 */
	u64 pauses;	/* submitters pause for this time, ask for as long, and so on; 0: never */
};

/* What a run of the model shows. */
struct shown {
	double rate;	/* requests a second, in its second half; a large one counts as LARGER */
	double had;	/* requests in the device on average, in its second half */
	double narrow;	/* part of the whole time with a narrow room */
};

struct request {
	u64 sent, back;
	bool timed;
	u32 size;	/* 1 or LARGER */
};

static double any_part(void)
{
	return (any() % 1000000 + 0.5) / 1000000;
}

/* Send a request of @size at @now. Return when it comes back. */
static u64 send(const struct model *model, u64 free_at[], u64 now, u32 size)
{
	u64 *die = &free_at[any_between(0, model->dies - 1)];
	u64 service = model->service * size;

	if (any_between(1, 1000) <= model->quick)
		return now + CACHE_NS;
	if (model->varies)
		service = (u64)(-log(any_part()) * (double)service);
	*die = max_t(u64, *die, now + model->way / 2) + service;
	return *die + model->way / 2;
}

/* Return which of some requests comes back first. */
static u32 first_back(const struct request requests[], u32 n)
{
	u32 first = 0, i;

	for (i = 1; i < n; i++)
		if (requests[i].back < requests[first].back)
			first = i;
	return first;
}

/* What controller.c has published of the search, in ticks as there. */
struct published {
	u64 tick;	/* ns */
	u64 room, narrow;
	u64 due, until;	/* ticks */
};

static u64 limit(const struct published *published, u64 now)
{
	return now / published->tick < published->until ? published->narrow : published->room;
}

static u64 tick_after(const struct published *published, u64 at, u64 now)
{
	return now / published->tick + (at > now ? (at - now) / published->tick + 2 : 0);
}

/* Imitate tg_learn_bulk(). */
static void learn(struct published *published, struct tg_room *room, const struct request *back,
		  u64 inside, u64 cost)
{
	const u64 now = back->back;
	const u8 at = room->at;

	if (!back->timed)
		return;
	tg_room_see(room, now, now - back->sent, inside, (u32)(back->size * cost), (u32)cost);
	if (room->at == at)
		return;
	published->room = room->room;
	published->narrow = tg_room_at_narrow(room);
	published->until = tick_after(published, room->at == TG_ROOM_NARROW ? room->until : now,
				      now);
	published->due = tick_after(published, room->at == TG_ROOM_NARROW ? now : room->from, now);
}

/* Simulate @model for @ns with the room of room.h. */
static struct shown simulate(const struct model *model, u64 ns)
{
	const u64 cost = (u64)(model->price * (double)model->service / model->dies *
			       (1000 - model->quick) / 1000);
	const double counted = (double)ns / 2;
	struct request requests[REQUESTS_MOST];
	u64 free_at[DIES_MOST] = {};
	struct shown shown = {};
	struct tg_room room;
	struct published published = { .tick = model->tick ?: 1, .room = TG_ROOM_LEAST };
	u64 now = 0, last;
	u32 sent = 0;	/* requests in the device that will come back */
	u32 sizes = 0;	/* sum of their sizes */

	tg_room_init(&room);
	while (now < ns) {
		const bool pause = model->pauses && now / model->pauses % 2;
		struct request back;
		u32 first;

		while (!pause && sent < model->wanted &&
		       (model->unlimited ||
			(sizes + model->stuck) * cost < limit(&published, now))) {
			const u32 size = any_between(1, 1000) <= model->large ? LARGER : 1;

			requests[sent] = (struct request){
				.sent = now,
				.back = send(model, free_at, now, size),
				.timed = now / published.tick >= published.due,
				.size = size,
			};
			sizes += size;
			sent++;
		}
		last = now;
		if (!sent && pause) {
			now = (now / model->pauses + 1) * model->pauses;
			continue;
		}
		if (!sent) {
			/* Stuck requests fill the room: until it is wide, or one goes by patience. */
			const u64 wide = max_t(u64, published.until * published.tick, now);
			const bool waits = wide == now || wide > now + 100 * MS;

			now = waits ? now + 100 * MS : wide;
			if (wide > last)
				shown.narrow += (double)(now - last) / (double)ns;
			if (!waits)
				continue;
			requests[sent++] = (struct request){
				.sent = now,
				.back = send(model, free_at, now, 1),
				.timed = now / published.tick >= published.due,
				.size = 1,
			};
			sizes++;
			continue;
		}
		first = first_back(requests, sent);
		back = requests[first];
		requests[first] = requests[--sent];
		sizes -= back.size;
		now = back.back;
		if (room.at == TG_ROOM_NARROW)
			shown.narrow += (double)(now - last) / (double)ns;
		if (now > ns / 2) {
			shown.rate += back.size * 1e9 / counted;
			shown.had += (double)((sent + 1) * (now - last)) / counted;
		}
		learn(&published, &room, &back, (sizes + model->stuck) * cost, cost);
	}
	return shown;
}

/* Return what @model serves a second at most. */
static double most(const struct model *model)
{
	return 1e9 * model->dies / (double)model->service * 1000 / (1000 - model->quick);
}

/*
 * The device serves nearly what room.h says, and has no more requests than that takes, whatever it
 * is like. If costs are too high by some factor, the room is too small by it, and vice versa.
 */
static void test_keeps_busy(void)
{
	static const u32 dies[] = { 1, 4, 16 };
	static const double prices[] = { 0.5, 1, 2 };
	u32 i, j, varies;

	for (i = 0; i < ARRAY_SIZE(dies); i++) {
		for (j = 0; j < ARRAY_SIZE(prices); j++) {
			for (varies = 0; varies < 2; varies++) {
				const struct model model = {
					.dies = dies[i], .service = MS / 4, .varies = varies,
					.price = prices[j], .wanted = REQUESTS_MOST,
				};
				const struct shown shown = simulate(&model, 10000 * MS);
				const double gain = TG_ROOM_GAIN / prices[j];

				expect_between("rate, of what it can serve",
					       shown.rate / most(&model),
					       0.95 * gain / (gain + 1), 1.02);
				expect_between("requests for each die", shown.had / dies[i], 1,
					       1.6 * fmax(gain, TG_ROOM_GAIN));
			}
		}
	}
}

/* A far device serves nearly what it serves without a limit, also with a cache. */
static void test_far(void)
{
	static const u32 quick[] = { 0, 50, 500 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(quick); i++) {
		const struct model model = {
			.dies = 16, .service = 20000, .way = 5 * MS, .quick = quick[i], .wanted = 256,
			/* Costs as they are learnt: those of all 256 requests add up to 5 ms. */
			.price = 16,
		};
		/* No die is busy for long: Little's law. */
		const double free = 256e9 / (5.02 * MS * (1000 - quick[i]) / 1000 +
					     0.1 * MS * quick[i] / 1000);
		const struct shown shown = simulate(&model, 6000 * MS);

		expect_between("rate far away, of what it is without a limit",
			       shown.rate / free, 0.93, 1.02);
	}
}

/*
 * A device serves nearly what it serves without a limit, also if some requests are much larger than
 * the others. If each request counted once, the room would be as large as small ones need, and the
 * device would serve 55 % if 1 in 50 is large.
 */
static void test_mixed_sizes(void)
{
	static const u32 large[] = { 2, 20, 100, 500 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(large); i++) {
		struct model model = {
			.dies = 32, .service = MS / 2, .large = large[i], .price = 1,
			.wanted = REQUESTS_MOST,
		};
		const struct shown shown = simulate(&model, 20000 * MS);

		model.unlimited = true;
		expect_between("rate with mixed sizes, of what it is without a limit",
			       shown.rate / simulate(&model, 20000 * MS).rate, 0.88, 1.02);
		expect_between("part of the time with a narrow room, with mixed sizes",
			       shown.narrow, 0.01, 0.06);
	}
}

/*
 * After a time in which the device took a hundred times as long, the room is small again within a
 * minute.
 */
static void test_changes(void)
{
	const u64 change = 115000 * MS;
	u64 now = 100000 * MS, large_until = now;
	struct tg_room room;

	tg_room_init(&room);
	while (now < 2 * change) {
		const bool slow = now < change;
		const u64 alone = slow ? 25 * MS : MS / 4;
		const u64 inside = room.at == TG_ROOM_NARROW ? tg_room_at_narrow(&room) : room.room;

		/* One of sixteen dies completes a request. */
		now += alone / 16;
		tg_room_see(&room, now, alone + inside * (slow ? 100 : 1), inside, MS / 64, MS / 64);
		if (room.room > 4 * TG_ROOM_GAIN * MS / 4)
			large_until = now;
	}
	expect_between("time until the room is small again, ms",
		       (double)large_until / MS - (double)change / MS, 0, 60000);
}

/* The room is narrow for 1 in 65 of the time at most, once it is known. */
static void test_rarely_narrow(void)
{
	const struct model model = {
		.dies = 16, .service = MS / 4, .price = 1, .wanted = 256,
	};

	expect_between("part of the time with a narrow room",
		       simulate(&model, 20000 * MS).narrow, 0.001, 1.05 / TG_ROOM_SPACING_MOST);
}

/*
 * Requests that never come back neither end the search nor keep the room narrow. If they are few,
 * the room is still found.
 */
static void test_stuck(void)
{
	static const u32 stuck[] = { 5, 20, 80 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(stuck); i++) {
		const struct model model = {
			.dies = 16, .service = 100000, .price = 1, .wanted = 256,
			.stuck = stuck[i],
		};
		const struct shown shown = simulate(&model, 20000 * MS);

		expect_between("rate beside stuck requests, of what it can serve",
			       shown.rate / most(&model), 0.7, 1.01);
		expect_between("part of the time with a narrow room", shown.narrow, 0, 0.03);
		if (stuck[i] <= 5)
			expect_between("requests for each die beside stuck ones",
				       shown.had / model.dies, 1, 1.6 * TG_ROOM_GAIN);
	}
}

/*
 * A device that takes long for each request has a narrow room little more often: the time from one
 * measurement to the next has a bound.
 */
static void test_slow(void)
{
	static const u64 services[] = { 50 * MS, 200 * MS, 800 * MS, 3000 * MS };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(services); i++) {
		const struct model model = {
			.dies = 4, .service = services[i], .price = 1, .wanted = 256,
		};

		expect_between("part of the time with a narrow room, on a slow device",
			       simulate(&model, 20000 * services[i]).narrow, 0,
			       0.08);
	}
}

/*
 * Submitters that pause half of the time have half of the rate. Pauses of more than
 * TG_ROOM_FORGET begin the search anew.
 */
static void test_bursts(void)
{
	static const u32 lengths_ms[] = { 3, 30, 300, 1500 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(lengths_ms); i++) {
		const struct model model = {
			.dies = 16, .service = MS / 4, .price = 1, .wanted = 256,
			.pauses = lengths_ms[i] * MS,
		};
		const struct shown shown = simulate(&model, 12000 * MS);

		expect_between("rate with pauses, of what it can serve",
			       2 * shown.rate / most(&model), 0.8, 2.1);
		expect_between("requests for each die between pauses",
			       2 * shown.had / model.dies, 1, 2 * TG_ROOM_GAIN);
	}
}

/*
 * The room of a fast device is found although a measurement takes less than a tick. At this price
 * LEAST is 80 requests, and the room 128.
 */
static void test_ticks(void)
{
	const struct model model = {
		.dies = 64, .service = 200000, .price = 4, .wanted = REQUESTS_MOST, .tick = 10 * MS,
	};

	expect_between("requests in a fast device", simulate(&model, 3000 * MS).had, 100, 200);
}

/* A pause of a day while the room is narrow does not put off the next measurement. */
static void test_long_pause(void)
{
	const u64 day = 86400000 * MS;
	struct tg_room room;
	u64 now = 0;

	tg_room_init(&room);
	for (now = MS; room.at == TG_ROOM_WIDE; now += MS)
		tg_room_see(&room, now, MS / 2, MS, MS, MS);
	now += day;
	tg_room_see(&room, now, MS / 2, 0, MS, MS);
	expect_between("time to the next measurement after a day, ms",
		       (double)(room.from - now) / MS, 0, 10000);
}

/* The room that follows from two points of the line in room.h. */
static void test_line(void)
{
	int i;

	for (i = 0; i < 1000; i++) {
		const u64 alone = any_between(10000, 20 * MS);
		const u64 dies = any_between(alone / 20, alone * 20);
		const u64 few = any_between(0, dies), many = few * 2 + 1 + dies * 3;
		const u64 room = max_t(u64, TG_ROOM_LEAST,
				       max_t(u64, TG_ROOM_GAIN * alone, 2 * few));
		struct tg_room search;

		tg_room_init(&search);
		search.seen[TG_ROOM_NARROW] = (struct tg_room_seen){
			.weight = 1, .took = alone + alone * few / dies, .inside = few };
		search.seen[TG_ROOM_WIDE] = (struct tg_room_seen){
			.weight = 1, .took = alone + alone * many / dies, .inside = many };
		expect_near("room, ns of cost", tg_room_found(&search), room, 0.1);
	}
}

int main(int argc, char **argv)
{
	begin_tests(argc, argv);
	RUN(test_keeps_busy());
	RUN(test_far());
	RUN(test_mixed_sizes());
	RUN(test_changes());
	RUN(test_rarely_narrow());
	RUN(test_stuck());
	RUN(test_slow());
	RUN(test_bursts());
	RUN(test_long_pause());
	RUN(test_ticks());
	RUN(test_line());
	return end_tests("triage room: it keeps any device busy");
}
