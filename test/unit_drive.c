/* SPDX-License-Identifier: BSD-2-Clause */
/* A timer in the caller's loop, from inside: a stop that comes in the middle of a batch. */
#include "unit.h"
#include "check.h"

static hwt_timer *timer;
static hwt_timeout second;
static bool moves;
static unsigned ran;

/* As if another thread had asked for the stop; and then there is something in the lanes for one of the batch. */
static void stop_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	ran++;
	hwt_worker_request_stop(&timer->worker);
	CHECK_INT(moves ? hwt_reschedule_at(second, -1) : hwt_cancel(second), ==, 0);
}

static void other_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	ran++;
}

static void stop_in_the_middle(bool by_moving)
{
	hwt_config config = driven_config(HWT_MS(1), 64);
	size_t unprocessed = 0;

	config.flags = HWT_CALLER_DRIVEN;
	moves = by_moving;
	ran = 0;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_INT(hwt_timer_advance(timer, 0, NULL), ==, 0);
	CHECK_INT(hwt_new_timeout(timer, stop_task, NULL, HWT_MS(5), NULL), ==, 0);
	CHECK_INT(hwt_new_timeout(timer, other_task, NULL, HWT_MS(5), &second), ==, 0);
	for (unsigned i = 0; i < 10; i++)
		CHECK_INT(hwt_new_timeout(timer, other_task, NULL, HWT_MS(5), NULL), ==, 0);
	CHECK_INT(hwt_timer_advance(timer, 0, NULL), ==, 0);
	CHECK_INT(hwt_timer_advance(timer, HWT_MS(5), NULL), ==, 0);
	CHECK_INT(ran, ==, 1);
	hwt_check(timer);
	CHECK_INT(hwt_timer_stop(timer, &unprocessed), ==, 0);
	CHECK_INT(unprocessed, ==, by_moving ? 11 : 10);
	hwt_check(timer);
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
}

TEST(row28_no_pass_after_a_stop_in_the_middle_of_a_batch)
{
	stop_in_the_middle(false);
	stop_in_the_middle(true);
}

static unsigned released;

static void count_release(void *arg)
{
	(void)arg;
	released++;
}

/* Its record has been collected by then: only the cancelled queue knows it any more. */
static void cancel_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	ran++;
	CHECK_INT(hwt_cancel(second), ==, 0);
}

static void stop_only_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	ran++;
	hwt_worker_request_stop(&timer->worker);
}

TEST(row28_what_was_cancelled_in_the_batch_of_a_stop_is_released)
{
	hwt_config config = driven_config(HWT_MS(1), 64);
	hwt_spec spec = { sizeof(spec), other_task, NULL, HWT_MS(5), 0, count_release, 0 };

	config.flags = HWT_CALLER_DRIVEN;
	ran = released = 0;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_INT(hwt_timer_advance(timer, 0, NULL), ==, 0);
	CHECK_INT(hwt_new_timeout(timer, cancel_task, NULL, HWT_MS(5), NULL), ==, 0);
	CHECK_INT(hwt_new_timeout_ex(timer, &spec, &second), ==, 0);
	CHECK_INT(hwt_new_timeout(timer, stop_only_task, NULL, HWT_MS(5), NULL), ==, 0);
	CHECK_INT(hwt_timer_advance(timer, HWT_MS(5), NULL), ==, 0);
	CHECK_INT(ran, ==, 2);
	CHECK_INT(released, ==, 0);
	hwt_check(timer);
	CHECK_INT(hwt_timer_stop(timer, NULL), ==, 0);
	CHECK_INT(released, ==, 1);
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
	CHECK_INT(released, ==, 1);
}

TEST_MAIN(RUN(row28_what_was_cancelled_in_the_batch_of_a_stop_is_released),
	  RUN(row28_no_pass_after_a_stop_in_the_middle_of_a_batch))
