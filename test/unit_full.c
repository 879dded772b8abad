/* SPDX-License-Identifier: BSD-2-Clause */
/* A lane whose worker does not come by: the cost of its backlog for other calls, and its bound. */
#include "check/check.h"
#include "lane/find.h"
#include "unit.h"

#include <pthread.h>

#define START HWT_S(1000)

static hwt_timer *timer;
static struct hwt_lane *lane;
static unsigned released;

/* Begins with a timer whose lanes are full at `full` + 4 * limit records. */
static void begin(int64_t limit, uint64_t full)
{
	hwt_config config = driven_config(HWT_MS(1), 64);

	config.max_pending_timeouts = limit;
	atomic_store(&hwt_test_full, full);
	released = 0;
	timer = driven_create(&config, START);
	lane = lanes_home(&timer->lanes);
	REQUIRE(lane != NULL);
}

static void end(void)
{
	hwt_check(timer);
	driven_destroy(timer);
	atomic_store(&hwt_test_full, HWT_FULL);
}

static void count_release(void *arg)
{
	(void)arg;
	released++;
}

/*
 * Schedules and cancels.  With `owned` there is a finaliser: the worker calls it, so no lane reuses the record before.
 */
static int schedule_and_cancel(bool owned)
{
	hwt_spec spec = { .size = sizeof(spec), .task = nothing, .release = owned ? count_release : NULL };
	hwt_timeout timeout = HWT_TIMEOUT_NONE;
	int rc = hwt_new_timeout_ex(timer, &spec, &timeout);

	if (rc == 0)
		CHECK_INT(hwt_cancel(timeout), ==, 0);
	return rc;
}

/*
 * However long the queue is, and however many of its timeouts were cancelled: no call walks through it under the lock.
 */
TEST(no_call_looks_through_the_queue)
{
	begin(0, HWT_FULL);
	for (unsigned i = 0; i < 20000; i++) {
		hwt_timeout timeout;

		CHECK_INT(hwt_new_timeout(timer, nothing, NULL, 0, &timeout), ==, 0);
		CHECK_INT(hwt_new_timeout(timer, nothing, NULL, 0, NULL), ==, 0);
		CHECK_INT(hwt_cancel(timeout), ==, 0);
		points_begin("word load");
		CHECK_INT(schedule_and_cancel(false), ==, 0);
		CHECK_INT(points_end(), <, 8);
	}
	end();
}

/* The numbers of the manual, with 64 for 262144. */
TEST(a_lane_is_full_beyond_four_times_the_limit)
{
	enum { LIMIT = 100, FULL = 64 + 4 * LIMIT };

	begin(LIMIT, 64);
	for (unsigned i = 1; i <= FULL + 4; i++) {
		CHECK_INT(schedule_and_cancel(true), ==, 0);
		CHECK_INT(hwt_lane_is_full(lane), ==, i >= FULL + 4);
	}
	driven_pass(timer, START);
	CHECK(!hwt_lane_is_full(lane));
	end();
	begin(0, 64);
	for (unsigned i = 0; i < 2 * FULL; i++)
		CHECK_INT(schedule_and_cancel(true), ==, 0);
	CHECK(!hwt_lane_is_full(lane));
	end();
}

static void pass_if_full(const char *where)
{
	if (strcmp(where, "full") != 0 || !hwt_lane_is_full(lane))
		return;
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	driven_pass(timer, START);
}

/* A refusal at the limit is ENOBUFS, not ENOMEM, although the worker drains the queue in between. */
TEST(a_refusal_names_one_reason)
{
	unsigned accepted = 0;
	int rc;

	begin(1, 64);
	atomic_store(&hwt_test_point, pass_if_full);
	while ((rc = schedule_and_cancel(true)) == 0 && accepted < 100000)
		accepted++;
	CHECK_INT(rc, ==, ENOBUFS);
	CHECK_INT(released, ==, accepted);
	CHECK_INT(schedule_and_cancel(true), ==, 0);
	end();
}

/* Loses the free records of the lane. */
static void lose_the_rest(void)
{
	queue_lock(&lane->submitted);
	while (pool_pop(&lane->pool) != NULL || hwt_lane_find_at_hand(lane) != NULL || hwt_lane_find_more(lane) != NULL)
		;
	while (queue_node(&lane->submitted) != NULL)
		;
	queue_unlock(&lane->submitted);
}

/*
 * The first n allocations fail.  A call without memory must not take a slot below the limit that another thread could
 * need.
 */
TEST(a_refusal_without_memory_takes_no_place_below_the_limit)
{
	unsigned refused = 0;

	for (uint64_t n = 1; n < 6; n++) {
		int rc;

		begin(3, HWT_FULL);
		CHECK_INT(hwt_new_timeout(timer, nothing, NULL, 0, NULL), ==, 0);
		memory_fails(0, UINT64_MAX);
		lose_the_rest();
		memory_fails(0, n);
		points_begin("limit");
		rc = schedule_and_cancel(true);
		CHECK_INT(points_end(), <=, rc == 0 ? 1 : 0);
		CHECK(rc == 0 || rc == ENOMEM);
		refused += rc == ENOMEM;
		memory_is_back();
		driven_destroy(timer);
	}
	CHECK_INT(refused, >, 0);
}

TEST_MAIN()
