/* SPDX-License-Identifier: BSD-2-Clause */
/* What hwt_reschedule does to records in a stop and without memory. */
#include "check/check.h"
#include "unit.h"

#define START HWT_S(1000)
#define TICK HWT_MS(1)
#define AT(tick) (START + (tick)*TICK)
#define MANY 2000

static hwt_timer *timer;
static struct shot {
	hwt_timeout timeout;
	unsigned runs;
	int64_t tick; /* of the last run */
} shots[MANY], queued;

static void begin(void)
{
	hwt_config config = driven_config(TICK, 64);

	timer = driven_create(&config, START);
}

static void shot_task(hwt_timeout timeout, void *arg)
{
	struct shot *shot = arg;

	(void)timeout;
	shot->runs++;
	shot->tick = timer->wheel->tick;
}

static void start(struct shot *shot, int64_t tick)
{
	memset(shot, 0, sizeof(*shot));
	CHECK_INT(hwt_new_timeout_at(timer, shot_task, shot, AT(tick), &shot->timeout), ==, 0);
}

static int move(const struct shot *shot, int64_t tick)
{
	return hwt_reschedule_at(shot->timeout, AT(tick));
}

/* A stop closes the lanes before it looks at what is pending, and finds this one where it is. */
TEST(one_that_is_moved_in_a_stop_is_not_pushed)
{
	hwt_unprocessed unprocessed;
	size_t said = 0;

	begin();
	start(&queued, 50);
	driven_pass(timer, AT(1));
	hwt_lanes_close(&timer->lanes);
	CHECK_INT(move(&queued, 20), ==, 0);
	CHECK(!word_has(record_word(queued.timeout.entry), WORD_REQUEUED));
	CHECK_INT(hwt_timer_stop(timer, &said), ==, 0);
	CHECK_INT(said, ==, 1);
	CHECK(hwt_timer_next_unprocessed(timer, &unprocessed));
	CHECK_INT(unprocessed.deadline_ns, ==, AT(20));
	driven_destroy(timer);
}

/* There are many records and few nodes: they were taken in a few at a time. */
TEST(an_earlier_deadline_needs_a_node_or_the_old_one_holds)
{
	struct hwt_check_counts counts;
	unsigned moved = 0;

	begin();
	for (unsigned i = 0; i < MANY; i++) {
		start(&shots[i], 500);
		if (i % 8 == 7)
			driven_pass(timer, AT(0));
	}
	start(&queued, 500);
	memory_fails(0, UINT64_MAX);
	while (moved < MANY && move(&shots[moved], 100) == 0)
		moved++;
	REQUIRE(moved > 0 && moved < MANY - 10);
	for (unsigned i = moved; i < moved + 10; i++) {
		uint64_t word = record_word(shots[i].timeout.entry);

		CHECK_INT(move(&shots[i], 100), ==, ENOMEM);
		CHECK_INT(hwt_reschedule(shots[i].timeout, -1), ==, ENOMEM);
		CHECK(word_state(word) == STATE_ARMED && !word_has(word, WORD_RESCHEDULING | WORD_REQUEUED));
		CHECK_INT(record_deadline(shots[i].timeout.entry), ==, AT(500));
	}
	hwt_check_count(timer, &counts);
	CHECK_INT(counts.requeued, ==, moved);
	CHECK_INT(move(&queued, 90), ==, 0);        /* needs none */
	CHECK_INT(move(&shots[0], 95), ==, 0);      /* has one */
	CHECK_INT(move(&shots[moved], 600), ==, 0); /* later */
	CHECK_INT(move(&shots[moved], 550), ==, ENOMEM);
	CHECK_INT(hwt_lanes_rescheduled(&timer->lanes), ==, moved + 3);
	hwt_check(timer);
	for (int64_t tick = 1; tick <= 700; tick++)
		driven_pass(timer, AT(tick));
	hwt_check(timer);
	CHECK_INT(queued.tick, ==, 90);
	for (unsigned i = 0; i < MANY; i++) {
		CHECK_INT(shots[i].runs, ==, 1);
		CHECK_INT(shots[i].tick, ==, i == 0 ? 95 : i < moved ? 100 : i == moved ? 600 : 500);
	}
	memory_is_back();
	driven_destroy(timer);
}

TEST_MAIN()
