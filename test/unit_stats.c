/* SPDX-License-Identifier: BSD-2-Clause */
/* A snapshot of the counters, with things happening between two of its reads. */
#include "unit.h"

static hwt_timer *timer; /* on a virtual clock */
static int64_t now_ns;
static void (*meanwhile)(void);

/* In the middle of a snapshot, once. */
static void at_the_point(const char *where)
{
	void (*act)(void) = meanwhile;

	if (act == NULL || strcmp(where, "stats count") != 0)
		return;
	meanwhile = NULL;
	act();
}

static hwt_stats snapshot_while(void (*act)(void))
{
	hwt_stats stats = { .size = sizeof(stats) };

	meanwhile = act;
	atomic_store(&hwt_test_point, at_the_point);
	CHECK_INT(hwt_timer_stats(timer, &stats), ==, 0);
	atomic_store(&hwt_test_point, NULL);
	CHECK(meanwhile == NULL);
	return stats;
}

static void begin(void)
{
	hwt_config config = driven_config(HWT_MS(1), 64);

	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_INT(hwt_timer_advance(timer, now_ns = 0, NULL), ==, 0);
}

static void nothing(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
}

static void one_comes_and_is_cancelled(void)
{
	hwt_timeout timeout;

	CHECK_INT(hwt_new_timeout(timer, nothing, NULL, HWT_S(1), &timeout), ==, 0);
	CHECK_INT(hwt_cancel(timeout), ==, 0);
}

TEST(what_has_ended_has_begun_in_the_same_snapshot)
{
	hwt_stats stats;

	begin();
	stats = snapshot_while(one_comes_and_is_cancelled);
	CHECK_INT(stats.accepted, ==, 1);
	CHECK_INT(stats.cancelled, ==, 1);
	CHECK_INT(stats.pending, ==, 0);
	CHECK_INT(stats.running, ==, 0);
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
}

static void run_again(hwt_timeout timeout, void *arg)
{
	unsigned *runs = arg;

	++*runs;
	CHECK_INT(hwt_reschedule(timeout, HWT_MS(1)), ==, 0);
}

static void it_runs_three_times(void)
{
	for (int i = 0; i < 4; i++)
		CHECK_INT(hwt_timer_advance(timer, now_ns += HWT_MS(1), NULL), ==, 0);
}

TEST(a_task_that_has_run_often_since_is_one_timeout_all_the_same)
{
	hwt_stats stats;
	unsigned runs = 0;

	begin();
	CHECK_INT(hwt_new_timeout(timer, run_again, &runs, HWT_MS(1), NULL), ==, 0);
	stats = snapshot_while(it_runs_three_times);
	CHECK_INT(runs, >, 1);
	CHECK_INT(stats.accepted, ==, 1);
	CHECK_INT(stats.pending, ==, 0);
	CHECK_INT(stats.running, ==, 1);
	stats = snapshot_while(it_runs_three_times);
	CHECK_INT(stats.pending + stats.running, ==, 1);
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
}

TEST_MAIN()
