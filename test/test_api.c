/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scheduling, cancelling and asking: arguments, results, states, times out of the ordinary.  The settings are in
 * test_api_config.c, the life cycle is in test_api_life.c.
 */
#include "virtual.h"

#define TICK_NS HWT_MS(1)

static hwt_timer *open_timer(void)
{
	return new_timer(TICK_NS, 8);
}

static void close_timer(hwt_timer *timer)
{
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(version_is_that_of_the_header)
{
	char want[32];

	snprintf(want, sizeof(want), "%d.%d.%d", HWT_VERSION_MAJOR, HWT_VERSION_MINOR, HWT_VERSION_PATCH);
	CHECK(strcmp(hwt_version(), want) == 0);
}

TEST(durations_are_nanoseconds)
{
	CHECK_INT(HWT_US(3), ==, 3000);
	CHECK_INT(HWT_MS(-2), ==, -2000000);
	CHECK_INT(HWT_S(4000000000), ==, INT64_C(4000000000) * 1000000000);
}

TEST(now_is_the_monotonic_clock)
{
	struct timespec before, after;
	int64_t now_ns;

	clock_gettime(CLOCK_MONOTONIC, &before);
	errno = ERRNO_MARK;
	now_ns = hwt_now();
	CHECK_INT(errno, ==, ERRNO_MARK);
	clock_gettime(CLOCK_MONOTONIC, &after);
	CHECK_INT(now_ns, >=, HWT_S(before.tv_sec) + before.tv_nsec);
	CHECK_INT(now_ns, <=, HWT_S(after.tv_sec) + after.tv_nsec);
}

TEST(zero_handle_names_nothing)
{
	hwt_timeout none = HWT_TIMEOUT_NONE, zero;

	memset(&zero, 0, sizeof(zero));
	CHECK(none.entry == zero.entry && none.generation == zero.generation); /* bytes in between are nobody's */
	CHECK_RC(hwt_cancel(none), ENOENT);
	CHECK_RC(hwt_timeout_state(none), HWT_NONE);
	CHECK_RC(hwt_is_expired(none), false);
	CHECK_RC(hwt_is_cancelled(none), false);
	CHECK(hwt_timeout_timer(none) == NULL);
}

/* A refused call leaves the handle, the count and errno alone. */
TEST(new_timeout_refuses_bad_arguments)
{
	hwt_timer *timer = open_timer();
	hwt_timeout untouched = { timer, 12345 }, timeout = untouched;
	atomic_uint ran = 0;

	CHECK_RC(hwt_new_timeout(NULL, count_task, &ran, 0, &timeout), EINVAL);
	CHECK_RC(hwt_new_timeout(timer, NULL, &ran, 0, &timeout), EINVAL);
	CHECK_RC(hwt_new_timeout(NULL, NULL, NULL, 0, NULL), EINVAL);
	CHECK_RC(hwt_new_timeout_at(NULL, count_task, &ran, 0, &timeout), EINVAL);
	CHECK_RC(hwt_new_timeout_at(timer, NULL, &ran, 0, &timeout), EINVAL);
	CHECK_RC(hwt_new_timeout_at(NULL, NULL, NULL, 0, NULL), EINVAL);
	CHECK(same_handle(timeout, untouched));
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 0, &timeout), ECANCELED);
	CHECK_RC(hwt_new_timeout_at(timer, count_task, &ran, 0, &timeout), ECANCELED);
	CHECK(same_handle(timeout, untouched));
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	close_timer(timer);
	CHECK_INT(ran, ==, 0);
}

TEST(handle_is_optional)
{
	hwt_timer *timer = open_timer();
	atomic_uint ran = 0;

	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 0, NULL), 0);
	CHECK_RC(hwt_new_timeout_at(timer, count_task, &ran, hwt_now(), NULL), 0);
	CHECK(wait_count(&ran, 2));
	close_timer(timer);
}

/* What a task sees of itself. */
TEST(no_timer_has_nothing_pending)
{
	CHECK_RC((int)hwt_pending_timeouts(NULL), 0);
}

static void check_format(hwt_timeout timeout, const char *want)
{
	char text[96], start[64];
	int length = hwt_timeout_format(timeout, text, sizeof(text));

	(void)snprintf(start, sizeof(start), "hwt timeout 0x%" PRIxPTR ":%" PRIu64 " ", (uintptr_t)timeout.entry,
		       timeout.generation);
	CHECK_INT(length, ==, (int)strlen(text));
	CHECK_INT(strncmp(text, start, strlen(start)), ==, 0);
	if (strcmp(text + strlen(start), want) != 0)
		test_fail(__FILE__, __LINE__, text, 0, 0, false);
}

TEST(format_says_it_in_words)
{
	hwt_timer *timer = virtual_timer();
	hwt_timeout timeout, never, stale;
	atomic_uint ran = 0;
	char text[12] = "untouched";

	CHECK_RC(hwt_timeout_format(HWT_TIMEOUT_NONE, text, sizeof(text)), 16);
	CHECK_INT(strcmp(text, "hwt timeout"), ==, 0); /* cut */
	CHECK_RC(hwt_timeout_format(HWT_TIMEOUT_NONE, NULL, 0), 16);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_US(1204900), &timeout), 0);
	check_format(timeout, "pending, 1.204 s left");
	CHECK_RC(hwt_timer_advance(timer, HWT_S(1), NULL), 0);
	check_format(timeout, "pending, 0.204 s left");
	CHECK_RC(hwt_reschedule(timeout, HWT_S(-2)), 0);
	check_format(timeout, "pending, due since 2.000 s");
	CHECK_RC(hwt_reschedule(timeout, HWT_S(86400)), 0);
	check_format(timeout, "pending, 86400.000 s left");
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, INT64_MAX, &never), 0);
	check_format(never, "pending, never due");
	CHECK_RC(hwt_cancel(timeout), 0);
	check_format(timeout, "cancelled");
	stale = timeout;
	stale.generation--;
	check_format(stale, "retired");
	CHECK_RC(hwt_reschedule_at(never, HWT_S(2)), 0);
	CHECK_RC(hwt_timer_advance(timer, HWT_S(3), NULL), 0);
	check_format(never, "expired");
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

struct mover_of {
	hwt_timeout timeout;
	int64_t early_ns, late_ns;
	atomic_bool over;
};

static void *move_to_and_fro(void *arg)
{
	struct mover_of *mover = arg;

	for (unsigned i = 0; !atomic_load(&mover->over); i++)
		CHECK_RC(hwt_reschedule_at(mover->timeout, i % 2 ? mover->early_ns : mover->late_ns), 0);
	return NULL;
}

/* A look gets one of the two deadlines, never a mixture, and never that the timeout has ended. */
TEST(what_is_left_is_of_one_deadline_while_another_thread_moves_it)
{
	hwt_timer *timer = new_timer(HWT_MS(1), 64);
	struct mover_of mover = { .early_ns = hwt_now() + HWT_S(1000), .late_ns = INT64_MAX };
	unsigned early = 0, never = 0;
	pthread_t thread;

	REQUIRE(hwt_new_timeout_at(timer, count_task, NULL, mover.late_ns, &mover.timeout) == 0);
	REQUIRE(pthread_create(&thread, NULL, move_to_and_fro, &mover) == 0);
	for (int64_t end_ns = hwt_now() + PATIENCE_NS; early < 2000 || never < 2000;) {
		int64_t before_ns = hwt_now(), left_ns = 0;

		REQUIRE(before_ns < end_ns);
		CHECK_RC(hwt_timeout_left(mover.timeout, &left_ns), 0);
		if (left_ns == INT64_MAX) {
			never++;
			continue;
		}
		early++;
		CHECK_INT(left_ns, <=, mover.early_ns - before_ns);
		CHECK_INT(left_ns, >=, mover.early_ns - hwt_now());
	}
	atomic_store(&mover.over, true);
	REQUIRE(pthread_join(thread, NULL) == 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* [Netty] 100,000 in a loop: each delay, measured from its own call, is as asked. */
TEST(row05_delays_of_many_are_kept)
{
	enum { COUNT = 100000 };
	hwt_timer *timer = new_timer(HWT_MS(10), 512);
	struct run *runs = calloc(COUNT, sizeof(*runs));

	REQUIRE(runs);
	for (int i = 0; i < COUNT; i++) {
		int64_t delay_ns = HWT_MS(10) + i % 7 * HWT_MS(3);

		runs[i].not_before_ns = hwt_now() + delay_ns;
		CHECK_RC(hwt_new_timeout(timer, run_task, &runs[i], delay_ns, NULL), 0);
	}
	for (int i = 0; i < COUNT; i++)
		REQUIRE(wait_count(&runs[i].ran, 1));
	CHECK_RC(hwt_timer_destroy(timer), 0);
	free(runs);
}

TEST_MAIN()
