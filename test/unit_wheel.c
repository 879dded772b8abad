/* SPDX-License-Identifier: BSD-2-Clause */
/* Both wheels on virtual ticks: which record is collected at which tick, and in which order. */
#include "check/check_wheel.h"
#include "unit.h"
#include "wheel/ring.h"
#include "wheel/wheel.h"

#define MANY 40000
#define BATCH 100

static struct hwt_wheel *wheel;
static struct hwt_record *records;
static unsigned records_used;

/* Ticks of one nanosecond: deadlines are ticks, counted from `start`. */
static void begin(uint32_t buckets, int64_t start)
{
	wheel = test_is_hierarchical() ? hwt_wheel_levels_create(buckets < 2 ? 2 : buckets)
				       : hwt_wheel_hashed_create(buckets);
	records = aligned_alloc(RECORD_ALIGN, MANY * sizeof(*records));
	REQUIRE(wheel != NULL && records != NULL);
	memset(records, 0, MANY * sizeof(*records));
	wheel->grid = grid_make(start, 1);
	records_used = 0;
}

static void end(void)
{
	hwt_wheel_destroy(wheel);
	free(records);
}

static struct hwt_record *place_at(int64_t deadline)
{
	struct hwt_record *record = &records[records_used++];

	REQUIRE(records_used <= MANY);
	atomic_init(&record->word, word_make(1, STATE_ARMED));
	record->deadline_ns = deadline;
	record->place = 0;
	hwt_wheel_place(wheel, &record, 1);
	return record;
}

/*
 * Advances through all ticks up to and including `target` that the wheel does not skip.  *log: the collected records.
 */
static unsigned advance(int64_t target, struct hwt_record **log, int64_t *ticks)
{
	struct hwt_record *batch[BATCH];
	unsigned n = 0;
	size_t got;

	while (hwt_wheel_next_due(wheel) <= target) {
		CHECK_INT(hwt_wheel_next_due(wheel), >=, wheel->tick);
		hwt_wheel_seek(wheel, hwt_wheel_next_due(wheel));
		while ((got = hwt_wheel_collect(wheel, batch, BATCH)) > 0) {
			for (size_t i = 0; i < got; i++) {
				batch[i]->place = 0;
				if (ticks != NULL)
					ticks[n] = wheel->tick;
				log[n++] = batch[i];
			}
		}
		hwt_wheel_seek(wheel, wheel->tick + 1);
	}
	if (target >= wheel->tick)
		hwt_wheel_seek(wheel, target + 1);
	return n;
}

/* Checks that only `expected` is collected, and at this tick. */
static void expect_alone(struct hwt_record *expected, int64_t tick)
{
	struct hwt_record *log[MANY];

	CHECK_INT(advance(tick - 1, log, NULL), ==, 0);
	CHECK_INT(advance(tick, log, NULL), ==, 1);
	CHECK(log[0] == expected);
}

/* Settles until the answer does not change any more. */
static unsigned settle(void)
{
	unsigned times = 0;
	int64_t before;

	do {
		before = hwt_wheel_next_due(wheel);
		hwt_wheel_settle(wheel);
		CHECK_INT(hwt_wheel_next_due(wheel), >=, before);
		times++;
	} while (hwt_wheel_next_due(wheel) != before);
	return times;
}

static int64_t least_left(const bool *gone, unsigned count)
{
	int64_t least = HWT_TICK_NEVER;

	for (unsigned i = 0; i < count; i++)
		if (!gone[i] && records[i].deadline_ns < least)
			least = records[i].deadline_ns;
	return least;
}

/* A hundred records at random ticks leave one after the other, half of them in the order of their ticks. */
TEST(what_was_removed_is_forgotten)
{
	uint64_t seed = random_seed();

	for (uint32_t buckets = 1; buckets <= 1u << 16; buckets *= 4) {
		bool gone[100] = { false };

		begin(buckets, 0);
		hwt_wheel_seek(wheel, (int64_t)random_below(&seed, 5 * buckets));
		for (unsigned i = 0; i < 100; i++)
			place_at(wheel->tick + (int64_t)(random_below(&seed, UINT64_C(1) << (1 + i % 40))));
		for (unsigned left = 100; left > 0; left--) {
			unsigned i = (unsigned)random_below(&seed, 100);
			int64_t least = least_left(gone, 100);

			settle();
			CHECK_INT(hwt_wheel_next_due(wheel), <=, least);
			/* Rounds that are cut are computed again when the cut round comes. */
			if (test_is_hierarchical() || least - wheel->tick < (INT64_C(1) << 30) * buckets)
				CHECK_INT(hwt_wheel_next_due(wheel), ==, least);
			if (left % 2 == 0)
				for (i = 0; records[i].deadline_ns != least || gone[i];)
					i++;
			while (gone[i])
				i = (i + 1) % 100;
			CHECK(hwt_wheel_remove(wheel, &records[i]));
			gone[i] = true;
		}
		settle();
		CHECK_INT(hwt_wheel_next_due(wheel), ==, HWT_TICK_NEVER);
		end();
	}
}

/* Returns the number of chunks that a pass over the only bucket looks at while nothing is due. */
static unsigned stops_of_a_pass(void)
{
	struct hwt_wheel_view view;
	unsigned stops = 0;

	hwt_wheel_hashed_view(wheel, &view);
	CHECK(hwt_check_spans(view.ring->buckets, (uint32_t)wheel->tick));
	for (struct hwt_chunk *chunk = view.ring->buckets->first; chunk != NULL; stops++)
		chunk = chunk->span != NULL ? chunk->span : chunk->next;
	return stops;
}

static unsigned chunks_of_the_bucket(void)
{
	struct hwt_wheel_view view;
	unsigned chunks = 0;

	hwt_wheel_hashed_view(wheel, &view);
	for (struct hwt_chunk *chunk = view.ring->buckets->first; chunk != NULL; chunk = chunk->next)
		chunks++;
	return chunks;
}

TEST(far_ones_are_passed_over_in_long_spans)
{
	struct hwt_record **log;
	uint64_t seed = random_seed();

	if (test_is_hierarchical())
		SKIP("a wheel of levels has nothing to pass over");
	log = malloc(MANY * sizeof(struct hwt_record *));
	begin(1, 0); /* one bucket: every tick is a round */
	for (unsigned i = 0; i < MANY - 2000; i++)
		place_at(10000 + (int64_t)random_below(&seed, 10000));
	CHECK_INT(chunks_of_the_bucket(), >, 400);
	for (int64_t tick = 1; tick < 500; tick++) {
		expect_alone(place_at(tick), tick); /* a record is due in each pass, behind the far ones */
		if (tick > 2)
			CHECK_INT(stops_of_a_pass(), <, 20);
	}
	for (unsigned i = 0; i < MANY - 2000; i += 1 + (unsigned)random_below(&seed, 8)) {
		hwt_wheel_remove(wheel, &records[i]);
		if (i % 64 == 0)
			(void)stops_of_a_pass();
	}
	for (int64_t tick = 500; tick < 1000; tick++)
		expect_alone(place_at(tick), tick);
	CHECK_INT(stops_of_a_pass(), <, 20);
	for (int64_t tick = 10000; tick < 20000; tick += 7) {
		unsigned came = advance(tick, log, NULL);

		for (unsigned i = 0; i < came; i++)
			CHECK(log[i]->deadline_ns <= tick && log[i]->deadline_ns > tick - 7);
		(void)stops_of_a_pass();
	}
	advance(20000, log, NULL);
	CHECK_INT(hwt_wheel_next_due(wheel), ==, HWT_TICK_NEVER);
	free(log);
	end();
}

TEST_MAIN()
