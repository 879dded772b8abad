/* SPDX-License-Identifier: BSD-2-Clause */
/* Starting and stopping by two threads at once.  Stops that race producers are in test_stress_all.c. */
#include "support.h"

static void *start_or_be_refused(void *arg)
{
	for (int i = 0; i < 3; i++) {
		int rc = hwt_timer_start(*(hwt_timer **)arg);

		CHECK(rc == 0 || rc == ECANCELED);
	}
	return NULL;
}

/* Stop raced start: a worker was left behind, or the stop hung. */
TEST(row28_stop_races_start)
{
	unsigned rounds = scaled(500);

	for (unsigned round = 0; round < rounds; round++) {
		hwt_timer *timer = new_timer(HWT_MS(1), 64);
		struct crew crew;

		crew_start(&crew, 2, start_or_be_refused, &timer, 0);
		if (round % 2)
			sleep_ns(HWT_US(30));
		CHECK_RC(hwt_timer_stop(timer, NULL), 0);
		CHECK_RC(hwt_timer_start(timer), ECANCELED);
		crew_join(&crew);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/* A slow task, and those who stop its timer meanwhile. */
struct slow {
	hwt_timer *timer;
	atomic_uint entered;
	unsigned finished; /* plain: what the task wrote is visible to whom stop has returned */
	atomic_uint returned;
};

static void slow_task(hwt_timeout timeout, void *arg)
{
	struct slow *slow = arg;

	(void)timeout;
	atomic_store(&slow->entered, 1);
	sleep_ms(10);
	CHECK_RC(hwt_timer_stop(slow->timer, NULL), EDEADLK); /* also while others are at it */
	CHECK_RC(hwt_timer_destroy(slow->timer), EDEADLK);
	sleep_ms(5);
	slow->finished++;
}

static void *stop_slow(void *arg)
{
	struct slow *slow = arg;
	size_t count = 77;

	CHECK_RC(hwt_timer_stop(slow->timer, &count), 0);
	CHECK_INT(slow->finished, ==, 1);
	atomic_fetch_add(&slow->returned, (unsigned)count);
	return NULL;
}

/* Stop from two threads at once: the second came back before the worker was gone.  And from inside a task. */
TEST(row29_stop_from_two_threads)
{
	for (int round = 0; round < 10; round++) {
		struct slow slow = { .timer = new_timer(HWT_MS(1), 64) };

		CHECK_RC(hwt_new_timeout(slow.timer, slow_task, &slow, 0, NULL), 0);
		for (int i = 0; i < 5; i++)
			CHECK_RC(hwt_new_timeout(slow.timer, count_task, NULL, HWT_S(3600), NULL), 0);
		CHECK(wait_count(&slow.entered, 1));
		crew_run(4, stop_slow, &slow, 0);
		CHECK_INT(slow.returned, ==, 5); /* one told it, the others told 0 */
		CHECK_RC(hwt_timer_stop(slow.timer, NULL), 0);
		CHECK_RC(hwt_timer_destroy(slow.timer), 0);
	}
}

TEST_MAIN()
