/* SPDX-License-Identifier: BSD-2-Clause */
/* Other clocks: HWT_CLOCK_REALTIME steps forward and back under a timer, and what that does to its wheel. */
#include "check/check.h"
#include "unit.h"

#define TICK HWT_MS(1)
#define NOON (HWT_S(1700000000) + 123456) /* not on the grid */

static hwt_timer *timer;
static unsigned ran, order[64];

static void note(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	REQUIRE(ran < 64);
	order[ran++] = (unsigned)(uintptr_t)arg;
}

static hwt_timeout at(unsigned number, int64_t deadline_ns)
{
	hwt_timeout timeout = HWT_TIMEOUT_NONE;

	CHECK_INT(hwt_new_timeout_at(timer, note, (void *)(uintptr_t)number, deadline_ns, &timeout), ==, 0);
	return timeout;
}

static hwt_timeout in(unsigned number, int64_t delay_ns)
{
	hwt_timeout timeout = HWT_TIMEOUT_NONE;

	CHECK_INT(hwt_new_timeout(timer, note, (void *)(uintptr_t)number, delay_ns, &timeout), ==, 0);
	return timeout;
}

static void pass_at(int64_t now_ns)
{
	driven_pass(timer, now_ns);
	hwt_check(timer);
}

/* On any other clock a time that goes back is a mistake of the teller's, and the wheel stays where it is. */
TEST(row31_a_monotonic_clock_does_not_go_back)
{
	hwt_config config = driven_config(TICK, 64);
	int64_t tick;

	timer = driven_create(&config, NOON);
	pass_at(NOON + 100 * TICK);
	tick = timer->wheel->tick;
	pass_at(NOON);
	CHECK_INT(timer->wheel->tick, ==, tick);
	driven_destroy(timer);
}

/* A loop's times and delays follow the clock, too. */
TEST(a_loop_follows_a_step_back)
{
	hwt_config config = driven_config(TICK, 64);
	int64_t next_ns = -1, earlier = NOON - HWT_S(3600);

	config.clock = HWT_CLOCK_REALTIME;
	config.flags = HWT_CALLER_DRIVEN;
	hwt_test_clock = fake_clock;
	fake_now_ns = NOON;
	ran = 0;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_INT(hwt_timer_advance(timer, NOON, &next_ns), ==, 0);
	at(1, NOON + TICK);
	CHECK_INT(hwt_timer_advance(timer, NOON, &next_ns), ==, 0);
	fake_now_ns = earlier;
	in(2, 5 * TICK);
	CHECK_INT(hwt_timer_advance(timer, earlier, &next_ns), ==, 0);
	CHECK_INT(next_ns, >=, earlier + 5 * TICK);
	CHECK_INT(next_ns, <=, earlier + 6 * TICK);
	in(3, TICK);
	CHECK_INT(hwt_timer_next(timer, &next_ns), ==, 0);
	CHECK_INT(next_ns, <=, earlier);
	CHECK_INT(hwt_timer_advance(timer, earlier + 6 * TICK, &next_ns), ==, 0);
	CHECK_INT(ran, ==, 2);
	CHECK_INT(order[0], ==, 3);
	CHECK_INT(order[1], ==, 2);
	CHECK_INT(hwt_timer_advance(timer, NOON + 2 * TICK, &next_ns), ==, 0);
	CHECK_INT(ran, ==, 3);
	CHECK_INT(next_ns, ==, INT64_MAX);
	driven_destroy(timer);
}

/* The bound has cut a tick, and then the clock goes back: what was collected is placed again. */
TEST(a_step_back_between_two_parts_of_a_tick_loses_nothing)
{
	hwt_config config = driven_config(TICK, 64);

	config.clock = HWT_CLOCK_REALTIME;
	config.flags = HWT_CALLER_DRIVEN;
	config.max_tasks_per_advance = 2;
	hwt_test_clock = fake_clock;
	fake_now_ns = NOON;
	ran = 0;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	for (unsigned i = 0; i < 10; i++)
		at(i, NOON + TICK);
	CHECK_INT(hwt_timer_advance(timer, NOON + 2 * TICK, NULL), ==, 0);
	CHECK_INT(ran, ==, 2);
	CHECK_INT(hwt_timer_advance(timer, NOON - HWT_S(10), NULL), ==, 0);
	CHECK_INT(ran, ==, 2);
	hwt_check(timer);
	for (unsigned i = 0; i < 5; i++)
		CHECK_INT(hwt_timer_advance(timer, NOON + 2 * TICK, NULL), ==, 0);
	CHECK_INT(ran, ==, 10);
	for (unsigned i = 0; i < ran; i++)
		CHECK_INT(order[i], ==, i);
	driven_destroy(timer);
}

TEST_MAIN()
