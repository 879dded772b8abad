/* SPDX-License-Identifier: BSD-2-Clause */
/* Ticks and nanoseconds, also at the ends of int64_t; sleeping. */
#include "unit.h"

#include <fcntl.h>
#include <unistd.h>

static const int64_t starts[] = { 0,         1,         12345,         HWT_S(86400) * 365, INT64_MAX / 2, INT64_MAX - 5,
				  INT64_MAX, INT64_MIN, INT64_MIN + 7, INT64_MIN / 2,      -12345 };
static const int64_t ticks[] = { 1, 3, 1000, HWT_MS(1), HWT_MS(100), HWT_S(3600), INT64_MAX / 2, INT64_MAX - 1 };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Checks E1 by its definition: the smallest tick at or after the deadline, in arithmetic that cannot overflow. */
static void check_tick_of(const struct hwt_grid *grid, int64_t deadline_ns)
{
	int64_t tick = grid_tick_of(grid, deadline_ns);
	__extension__ typedef __int128 wide;
	wide time = (wide)grid->start_ns + (wide)tick * grid->tick_ns;

	CHECK(tick >= 0 && tick <= HWT_TICK_MAX);
	CHECK(tick == HWT_TICK_MAX || time >= deadline_ns);
	CHECK(tick == 0 || time - grid->tick_ns < deadline_ns);
}

TEST(row32_a_deadline_is_rounded_up_to_its_tick)
{
	for (size_t s = 0; s < COUNT(starts); s++) {
		for (size_t t = 0; t < COUNT(ticks); t++) {
			struct hwt_grid grid = grid_make(starts[s], ticks[t]);

			for (int64_t off = -3; off <= 3; off++) {
				check_tick_of(&grid, add_saturating(starts[s], off));
				check_tick_of(&grid, add_saturating(add_saturating(starts[s], ticks[t]), off));
				check_tick_of(&grid, add_saturating(grid_time(&grid, 1000), off));
			}
			check_tick_of(&grid, INT64_MAX);
			check_tick_of(&grid, INT64_MIN);
			check_tick_of(&grid, 0);
		}
	}
}

TEST(a_quotient_and_its_rest_are_exact)
{
	for (size_t t = 0; t < COUNT(ticks); t++) {
		struct hwt_grid grid = grid_make(0, ticks[t]);
		uint64_t tick = (uint64_t)ticks[t], most = UINT64_MAX / tick * tick;
		uint64_t some[] = { 0, tick, 2 * tick, 1000 * tick, most / 2, most, UINT64_MAX };

		for (size_t i = 0; i < 3 * COUNT(some); i++) {
			uint64_t distance = some[i / 3] + i % 3 - 1, rest = 0;

			CHECK(grid_divide(&grid, distance, &rest) == distance / tick);
			CHECK(rest == distance % tick);
		}
	}
}

/* Also where the distance from the start is longer than half of all times. */
TEST(the_time_of_a_tick_is_exact_or_the_end_of_all_times)
{
	static const int64_t some[] = { -1, 0, 1, 2, 1000, INT64_MAX / 2, INT64_MAX / 2 + 2, HWT_TICK_MAX };
	__extension__ typedef __int128 wide;

	for (size_t s = 0; s < COUNT(starts); s++) {
		for (size_t t = 0; t < COUNT(ticks); t++) {
			struct hwt_grid grid = grid_make(starts[s], ticks[t]);

			for (size_t n = 0; n < COUNT(some); n++) {
				wide time = (wide)starts[s] + (wide)some[n] * ticks[t];

				time = time > INT64_MAX ? INT64_MAX : time < INT64_MIN ? INT64_MIN : time;
				CHECK_INT(grid_time(&grid, some[n]), ==, (int64_t)time);
			}
		}
	}
}

TEST(row18_times_saturate_instead_of_overflowing)
{
	struct hwt_grid grid = grid_make(INT64_MAX - 10, HWT_MS(1));

	CHECK_INT(add_saturating(INT64_MAX, 1), ==, INT64_MAX);
	CHECK_INT(add_saturating(INT64_MAX - 5, INT64_MAX), ==, INT64_MAX);
	CHECK_INT(add_saturating(INT64_MIN, -1), ==, INT64_MIN);
	CHECK_INT(add_saturating(5, INT64_MIN), ==, INT64_MIN + 5);
	CHECK_INT(subtract_saturating(5, 7), ==, -2);
	CHECK_INT(subtract_saturating(-1, INT64_MIN), ==, INT64_MAX);
	CHECK_INT(subtract_saturating(0, INT64_MIN), ==, INT64_MAX);
	CHECK_INT(subtract_saturating(INT64_MIN + 5, INT64_MIN), ==, 5);
	CHECK_INT(subtract_saturating(INT64_MIN, 1), ==, INT64_MIN);
	CHECK_INT(subtract_saturating(INT64_MIN, INT64_MAX), ==, INT64_MIN);
	CHECK_INT(grid_time(&grid, 1), ==, INT64_MAX);
	CHECK_INT(grid_time(&grid, HWT_TICK_MAX), ==, INT64_MAX);
	CHECK_INT(grid_tick_of(&grid, INT64_MAX), ==, 1);
	grid = grid_make(grid.start_ns, 1);
	CHECK_INT(grid_tick_of(&grid, INT64_MAX), ==, 10);
	grid.start_ns = 0;
	CHECK_INT(grid_tick_of(&grid, INT64_MAX), ==, HWT_TICK_MAX);
}

TEST(row22_ticks_are_computed_from_the_start)
{
	struct hwt_grid grid = grid_make(17, HWT_MS(1) + 1);

	for (int64_t n = 0; n < 10000; n++) {
		CHECK_INT(grid_time(&grid, n), ==, 17 + n * (HWT_MS(1) + 1));
		CHECK_INT(grid_ticks_passed(&grid, grid_time(&grid, n)), ==, n);
		CHECK_INT(grid_ticks_passed(&grid, grid_time(&grid, n) - 1), ==, n - 1);
	}
	CHECK_INT(grid_ticks_passed(&grid, INT64_MIN), ==, -1); /* before the start */
	CHECK_INT(grid_tick_of(&grid, INT64_MIN), ==, 0);
}

/* The time until which a sleep asks the system to wait; the linker replaces the call.  -1: not called yet. */
static int64_t asked_ns = -1;

int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
	asked_ns = (int64_t)until->tv_sec * NS_PER_S + until->tv_nsec;
	return __real_pthread_cond_timedwait(cond, mutex, until);
}

TEST(row23_a_sleep_ends_neither_early_nor_at_a_whole_millisecond)
{
	struct hwt_sleeper sleeper;

	REQUIRE(hwt_sleeper_init(&sleeper, NULL) == 0);
	for (int i = 0; i < 50; i++) {
		int64_t until_ns = clock_monotonic() + 300000 + i * 1000;

		hwt_sleeper_sleep_until(&sleeper, until_ns);
		CHECK_INT(clock_monotonic(), >=, until_ns);
		CHECK_INT(asked_ns, ==, until_ns);
	}
	hwt_sleeper_destroy(&sleeper);
}

/* With another clock a worker polls for its alarm.  A wake between two sleeps ends the second at once. */
TEST(a_poll_ends_at_a_wake_that_came_before)
{
	hwt_config config = { .clock = HWT_CLOCK_REALTIME };
	struct hwt_sleeper sleeper;
	int64_t began_ns = clock_monotonic();

	REQUIRE(hwt_sleeper_init(&sleeper, &config) == 0);
	hwt_sleeper_wake(&sleeper);
	hwt_sleeper_sleep_until(&sleeper, hwt_clock_read(HWT_CLOCK_REALTIME) + HWT_S(3600)); /* the wake ends this */
	hwt_sleeper_sleep_until(&sleeper, hwt_clock_read(HWT_CLOCK_REALTIME) + HWT_MS(20));
	CHECK_INT(clock_monotonic() - began_ns, >=, HWT_MS(19)); /* the wake counts once */
	hwt_sleeper_destroy(&sleeper);
}

static struct hwt_sleeper blind;

static void wake_before_the_nap(const char *where)
{
	if (strcmp(where, "poll") == 0)
		hwt_sleeper_wake(&blind);
}

/* A sandbox refuses the alarm, as /dev/null does here, and the worker naps instead. */
TEST(without_an_alarm_a_wake_before_the_nap_is_heard)
{
	hwt_config config = { .clock = HWT_CLOCK_REALTIME };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	REQUIRE(hwt_sleeper_init(&blind, &config) == 0);
	REQUIRE(null >= 0 && dup2(null, sleeper_alarm(&blind)) >= 0);
	asked_ns = -1;
	atomic_store(&hwt_test_point, wake_before_the_nap);
	hwt_sleeper_sleep_until(&blind, hwt_clock_read(HWT_CLOCK_REALTIME) + HWT_S(3600));
	atomic_store(&hwt_test_point, NULL);
	CHECK_INT(asked_ns, ==, -1); /* it did not nap */
	hwt_sleeper_sleep_until(&blind, hwt_clock_read(HWT_CLOCK_REALTIME) + HWT_MS(1));
	CHECK_INT(asked_ns, >, 0); /* the wake counts once */
	hwt_sleeper_destroy(&blind);
	close(null);
}

TEST_MAIN()
