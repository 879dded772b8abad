/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scheduling, cancelling and asking: arguments, results, states, extreme times.  Settings are in test_api_config.c, the
 * life cycle is in test_api_life.c.
 */
#include "support.h"

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

TEST(zero_handle_and_no_timer_name_nothing)
{
	hwt_timeout none = HWT_TIMEOUT_NONE, zero;
	hwt_unprocessed left;
	size_t unprocessed = 7;

	memset(&zero, 0, sizeof(zero));
	CHECK(none.entry == zero.entry && none.generation == zero.generation); /* padding is not compared */
	CHECK_RC(hwt_cancel(none), ENOENT);
	CHECK_RC(hwt_timeout_state(none), HWT_NONE);
	CHECK_RC(hwt_is_expired(none), false);
	CHECK_RC(hwt_is_cancelled(none), false);
	CHECK(hwt_timeout_timer(none) == NULL);
	CHECK_RC((int)hwt_pending_timeouts(NULL), 0);
	CHECK_RC(hwt_timer_start(NULL), EINVAL);
	CHECK_RC(hwt_timer_stop(NULL, &unprocessed), EINVAL);
	CHECK_INT(unprocessed, ==, 7);
	CHECK_RC(hwt_timer_next_unprocessed(NULL, &left), false);
	CHECK_RC(hwt_timer_destroy(NULL), 0);
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
	CHECK(timeout.entry == untouched.entry && timeout.generation == untouched.generation);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 0, &timeout), ECANCELED);
	CHECK_RC(hwt_new_timeout_at(timer, count_task, &ran, 0, &timeout), ECANCELED);
	CHECK(timeout.entry == untouched.entry && timeout.generation == untouched.generation);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	close_timer(timer);
	CHECK_INT(ran, ==, 0);
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
	CHECK_INT(strcmp(text, "hwt timeout"), ==, 0); /* the text is cut */
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

TEST_MAIN()
