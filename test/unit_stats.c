/* SPDX-License-Identifier: BSD-2-Clause */
/* A snapshot of the counters, with things happening between two of its reads. */
#include "unit.h"

static hwt_timer *timer; /* on a virtual clock */
static int64_t now_ns;
static void (*meanwhile)(void);
static const char *the_point = "stats count";

/* In the middle of a snapshot, once. */
static void at_the_point(const char *where)
{
	void (*act)(void) = meanwhile;

	if (act == NULL || strcmp(where, the_point) != 0)
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

/* The same of the one number: with the begins first it would be less than nothing. */
TEST(what_is_pending_is_never_less_than_nothing)
{
	begin();
	the_point = "pending count";
	meanwhile = one_comes_and_is_cancelled;
	atomic_store(&hwt_test_point, at_the_point);
	CHECK_INT(hwt_pending_timeouts(timer), >=, 0);
	atomic_store(&hwt_test_point, NULL);
	CHECK(meanwhile == NULL);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	the_point = "stats count";
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

/* So many tasks, and each is so late. */
static void run_late(unsigned n, int64_t late_ns)
{
	int64_t deadline_ns = now_ns / HWT_MS(10) * HWT_MS(10) + HWT_MS(10);

	for (unsigned i = 0; i < n; i++)
		CHECK_INT(hwt_new_timeout_at(timer, nothing, NULL, deadline_ns, NULL), ==, 0);
	CHECK_INT(hwt_timer_advance(timer, now_ns = deadline_ns + late_ns, NULL), ==, 0);
}

static void some_are_later(void)
{
	run_late(5, HWT_US(5));
}

static void some_are_later_and_many_are_not(void)
{
	some_are_later();
	run_late(40, 0);
}

/* What is read of a place that counts along with the runs is not what other places count. */
TEST(lateness_is_read_while_tasks_of_another_lateness_run)
{
	hwt_stats stats;

	begin();
	the_point = "counts late";
	run_late(40, 0);
	stats = snapshot_while(some_are_later);
	CHECK_INT(stats.lateness[0], ==, 40);
	CHECK_INT(stats.lateness[3], ==, 5);
	run_late(40, 0);
	stats = snapshot_while(some_are_later_and_many_are_not);
	CHECK_INT(stats.lateness[0], ==, 120);
	CHECK_INT(stats.lateness[3], ==, 10);
	the_point = "stats count";
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
}

TEST_MAIN()
