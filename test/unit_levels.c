/* SPDX-License-Identifier: BSD-2-Clause */
/* The hierarchical wheel: levels, demotion in slices, order, and memory that runs out meanwhile. */
#include "check/check_wheel.h"
#include "unit.h"
#include "wheel/bucket.h"
#include "wheel/ring.h"
#include "wheel/wheel.h"

#define MANY 40000
#define BATCH 64

static struct hwt_wheel *wheel;
static struct hwt_record *records;
static int64_t *ticks; /* the tick of each record */
static unsigned used, came;
static unsigned *order; /* the numbers of the timeouts, in the order in which they were collected */

static void begin(uint32_t size)
{
	wheel = hwt_wheel_levels_create(size);
	records = aligned_alloc(RECORD_ALIGN, MANY * sizeof(*records));
	ticks = malloc(MANY * sizeof(*ticks));
	order = malloc(MANY * sizeof(*order));
	REQUIRE(wheel != NULL && records != NULL && ticks != NULL && order != NULL);
	memset(records, 0, MANY * sizeof(*records));
	wheel->grid = grid_make(0, 1);
	used = came = 0;
}

static void end(void)
{
	hwt_wheel_destroy(wheel);
	free(records);
	free(ticks);
	free(order);
}

static struct hwt_record *place_at(int64_t tick)
{
	struct hwt_record *record = &records[used];

	REQUIRE(used < MANY);
	ticks[used++] = tick;
	atomic_init(&record->word, word_make(1, STATE_ARMED));
	record_set_deadline(record, tick);
	record->place = 0;
	hwt_wheel_place(wheel, &record, 1);
	return record;
}

/* Collects the records that are due at the wheel's tick, and checks that it is their tick. */
static void collect(void)
{
	struct hwt_record *batch[BATCH];
	size_t got;

	while ((got = hwt_wheel_collect(wheel, batch, BATCH)) > 0) {
		for (size_t i = 0; i < got; i++) {
			order[came] = (unsigned)(batch[i] - records);
			CHECK_INT(ticks[order[came]], ==, wheel->tick);
			batch[i]->place = 0;
			came++;
		}
	}
}

/* Advances up to and including target.  Returns how often the wheel wanted attention. */
static unsigned advance(int64_t target)
{
	unsigned stops = 0;

	for (; hwt_wheel_next_due(wheel) <= target; stops++) {
		CHECK_INT(hwt_wheel_next_due(wheel), >=, wheel->tick);
		hwt_wheel_seek(wheel, hwt_wheel_next_due(wheel));
		collect();
		hwt_wheel_seek(wheel, wheel->tick + 1);
		hwt_wheel_retry_unplaced(wheel);
	}
	if (target >= wheel->tick)
		hwt_wheel_seek(wheel, target + 1);
	return stops;
}

static size_t members_of(unsigned level)
{
	struct hwt_wheel_view view;
	size_t members = 0;

	hwt_check_levels_view(wheel, level, &view);
	for (uint32_t i = 0; view.ring->buckets != NULL && i < view.count; i++)
		for (const struct hwt_chunk *chunk = view.ring->buckets[i].first; chunk != NULL; chunk = chunk->next)
			members += chunk->live;
	return members;
}

/* Checks that the records of a tick came in the order of their placing. */
static void check_order(void)
{
	for (unsigned i = 1; i < came; i++)
		CHECK(ticks[order[i - 1]] < ticks[order[i]] ||
		      (ticks[order[i - 1]] == ticks[order[i]] && order[i - 1] < order[i]));
}

TEST(row10_kafkas_case_comes_in_order)
{
	static const uint32_t sizes[] = { 2, 4, 32, 512 };

	for (unsigned i = 0; i < 4; i++) {
		begin(sizes[i]);
		for (int64_t delay = 0; delay < 500; delay++) {
			if (delay >= 5 && delay < 10)
				continue;
			place_at(delay);
			if (delay >= 10 && delay < 100)
				place_at(delay);
		}
		CHECK_INT(used, ==, 585);
		advance(500);
		CHECK_INT(came, ==, 585);
		check_order();
		end();
	}
}

TEST(a_lonely_timeout_wakes_nobody_on_its_way_down)
{
	for (unsigned bit = 0; bit < 62; bit++) {
		for (uint32_t size = 2; size <= 512; size *= 4) {
			begin(size);
			place_at((INT64_C(1) << bit) + 3);
			CHECK_INT(hwt_wheel_next_due(wheel), ==, (INT64_C(1) << bit) + 3);
			CHECK_INT(advance(HWT_TICK_MAX - 1), ==, 1);
			CHECK_INT(came, ==, 1);
			end();
		}
	}
}

/*
 * Timeouts for one tick, from all distances: some come down, others are placed at the levels that these have reached.
 */
TEST(no_timeout_overtakes_whatever_level_it_comes_from)
{
	uint64_t seed = random_seed();

	for (uint32_t size = 2; size <= 128; size *= 4) {
		int64_t start = size == 8 ? INT64_C(1) << 40 : 0, last = start + (int64_t)size * size * size;

		begin(size);
		hwt_wheel_seek(wheel, start);
		for (unsigned steps = 0; steps < 300; steps++) {
			for (unsigned i = 0; i < 100; i++)
				place_at(last - (int64_t)random_below(&seed, i % 3 == 0 ? 3 : 2 * size));
			(void)advance(wheel->tick +
				      (int64_t)random_below(&seed, (uint64_t)(last - wheel->tick) / 100 + 2));
			if (wheel->tick > last - 2 * (int64_t)size)
				break;
		}
		(void)advance(last);
		CHECK_INT(came, ==, used);
		check_order();
		end();
	}
}

/*
 * Bursts for a few ticks, from all distances, while the wheel advances by irregular steps: blocks begin while parts of
 * them are on their way down.
 */
TEST(no_timeout_overtakes_one_that_is_half_way_down)
{
	uint64_t seed = random_seed();

	for (unsigned program = 0; program < 200; program++) {
		uint32_t size = 2u << random_below(&seed, 4);
		int64_t due[4] = { 0 }, far = (int64_t)size * size * size * 2;

		begin(size);
		while (used < 6000) {
			for (unsigned i = 0; i < 4; i++)
				if (due[i] <= wheel->tick)
					due[i] = wheel->tick + 1 + (int64_t)random_below(&seed, (uint64_t)far);
			for (uint64_t n = random_below(&seed, 300); n > 0; n--)
				place_at(due[random_below(&seed, 4)]);
			(void)advance(wheel->tick +
				      (int64_t)random_below(&seed, UINT64_C(1) << random_below(&seed, 9)));
		}
		(void)advance(HWT_TICK_MAX - 1);
		CHECK_INT(came, ==, used);
		check_order();
		end();
	}
}

/* A bucket of many members is brought down, whichever member was removed; a bucket of few only for its first member. */
TEST(settling_tells_the_many_from_the_few)
{
	size_t before, most = 0;

	begin(512);
	for (unsigned i = 0; i < 30000; i++)
		place_at(3 * 512 + i % 512);
	hwt_wheel_settle(wheel);
	CHECK_INT(hwt_wheel_next_due(wheel), ==, 2 * 512);
	for (int64_t tick = 0; tick < 3 * 512; tick++) {
		before = members_of(1);
		(void)advance(tick);
		hwt_wheel_settle(wheel);
		most = before - members_of(1) > most ? before - members_of(1) : most;
	}
	CHECK_INT(most, <=, 30000 / 256 + 2 * CHUNK_LAST_CAPACITY);
	CHECK_INT(members_of(1), <=, 4 * CHUNK_LAST_CAPACITY);
	(void)advance(4 * 512);
	CHECK_INT(came, ==, used);
	check_order();
	end();

	begin(512);
	for (unsigned i = 0; i < 10000; i++)
		place_at(3 * 512 + i % 500);
	for (unsigned i = 0; i < 10000; i++)
		if (i % 1000 != 777)
			CHECK(hwt_wheel_remove(wheel, &records[i]));
	CHECK_INT(hwt_wheel_next_due(wheel), ==, 2 * 512);
	hwt_wheel_settle(wheel);
	CHECK_INT(hwt_wheel_next_due(wheel), ==, 3 * 512 + 277);
	CHECK_INT(advance(4 * 512), ==, 1);
	CHECK_INT(came, ==, 10);
	check_order();
	end();
}

/* A record that found no memory on its way down comes before all later ones, also if it is the only one. */
TEST(what_finds_no_memory_on_its_way_down_comes_before_those_behind)
{
	begin(8);
	used = 3;
	for (unsigned i = 3; i-- > 0;) { /* the last one first, as records leave a bucket */
		ticks[i] = 5;
		atomic_init(&records[i].word, word_make(1, STATE_ARMED));
		record_set_deadline(&records[i], 5);
		hwt_wheel_unplace(wheel, &records[i], 5);
	}
	CHECK_INT(hwt_wheel_next_due(wheel), ==, 5);
	place_at(5);
	place_at(4);
	(void)advance(3);
	(void)advance(10);
	CHECK_INT(came, ==, 5);
	CHECK(wheel->unplaced.first == NULL);
	check_order();
	end();
}

TEST_MAIN()
