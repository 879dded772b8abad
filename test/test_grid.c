/* SPDX-License-Identifier: BSD-2-Clause */
/* hwt_timer_grid: where the ticks lie. */
#include "support.h"

#define TICK_NS HWT_MS(7)

static hwt_timer *timer_of(uint32_t flags, uint32_t clock)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = TICK_NS;
	config.flags = flags;
	config.clock = clock;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	return timer;
}

static int64_t start_of(const hwt_timer *timer)
{
	int64_t start_ns = -1;

	CHECK_RC(hwt_timer_grid(timer, &start_ns), 0);
	return start_ns;
}

TEST(before_the_start_no_tick_has_a_time)
{
	static const uint32_t flags[] = { 0, HWT_CALLER_DRIVEN, HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK };

	for (unsigned i = 0; i < 3; i++) {
		hwt_timer *timer = timer_of(flags[i], HWT_CLOCK_MONOTONIC);
		int64_t start_ns = -7;

		CHECK_RC(hwt_timer_grid(timer, &start_ns), ENOENT);
		CHECK_RC(hwt_timer_stop(timer, NULL), 0);
		CHECK_RC(hwt_timer_grid(timer, &start_ns), ENOENT); /* it never was */
		CHECK_INT(start_ns, ==, -7);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

TEST(it_needs_a_timer_and_a_place_for_the_answer)
{
	hwt_timer *timer = timer_of(HWT_CALLER_DRIVEN, HWT_CLOCK_MONOTONIC);
	int64_t start_ns = -7;

	CHECK_RC(hwt_timer_start(timer), 0);
	CHECK_RC(hwt_timer_grid(NULL, &start_ns), EINVAL);
	CHECK_RC(hwt_timer_grid(timer, NULL), EINVAL);
	CHECK_INT(start_ns, ==, -7);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(tick_0_is_the_moment_of_the_start)
{
	static const uint32_t flags[] = { 0, HWT_CALLER_DRIVEN };

	for (unsigned i = 0; i < 2; i++) {
		hwt_timer *timer = timer_of(flags[i], HWT_CLOCK_MONOTONIC);
		int64_t before_ns = hwt_now(), start_ns;

		CHECK_RC(hwt_timer_start(timer), 0);
		start_ns = start_of(timer);
		CHECK_INT(start_ns, >=, before_ns);
		CHECK_INT(start_ns, <=, hwt_now());
		CHECK_RC(hwt_timer_stop(timer, NULL), 0);
		CHECK_INT(start_of(timer), ==, start_ns);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

TEST(the_day_and_a_virtual_clock_have_tick_0_at_0)
{
	hwt_timer *timers[] = { timer_of(0, HWT_CLOCK_REALTIME), timer_of(HWT_CALLER_DRIVEN, HWT_CLOCK_REALTIME),
				timer_of(HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK, HWT_CLOCK_MONOTONIC) };

	for (unsigned i = 0; i < 3; i++) {
		CHECK_RC(hwt_timer_start(timers[i]), 0);
		CHECK_INT(start_of(timers[i]), ==, 0);
		CHECK_RC(hwt_timer_destroy(timers[i]), 0);
	}
}

/* The caller tells times ahead of the clock, so the test needs no time and is exact. */
TEST(a_task_runs_at_the_first_tick_at_or_after_its_deadline)
{
	hwt_timer *timer = timer_of(HWT_CALLER_DRIVEN, HWT_CLOCK_MONOTONIC);
	atomic_uint ran = 0;
	int64_t start_ns;

	CHECK_RC(hwt_timer_start(timer), 0);
	start_ns = start_of(timer);
	for (int64_t n = 1000000; n < 1000010; n++) {
		static const int64_t before_tick[] = { 0, 1, TICK_NS - 1 };
		int64_t tick_ns = start_ns + n * TICK_NS, next_ns = -1;

		for (unsigned i = 0; i < 3; i++)
			CHECK_RC(hwt_new_timeout_at(timer, count_task, &ran, tick_ns - before_tick[i], NULL), 0);
		CHECK_RC(hwt_timer_advance(timer, tick_ns - 1, &next_ns), 0);
		CHECK_INT(next_ns, ==, tick_ns);
		CHECK_INT(atomic_load(&ran), ==, 0);
		CHECK_RC(hwt_timer_advance(timer, tick_ns, &next_ns), 0);
		CHECK_INT(atomic_exchange(&ran, 0), ==, 3);
	}
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST_MAIN()
