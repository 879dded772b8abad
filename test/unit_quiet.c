/* SPDX-License-Identifier: BSD-2-Clause */
/* An advance that has nothing to do now: what it may leave in the lanes, and for how long.  timer/advance.c. */
#include "unit.h"
#include "check/check.h"

#include <poll.h>

#define TICK HWT_MS(10)

static hwt_timer *timer;
static unsigned ran, released;

static void task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	ran++;
}

static void release(void *arg)
{
	(void)arg;
	released++;
}

static void begin_loop(uint32_t flags)
{
	hwt_config config = driven_config(TICK, 64);

	config.flags = HWT_CALLER_DRIVEN | flags;
	ran = released = 0;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	for (uint32_t place = 0; place <= timer->lanes.last_seat; place++)
		(void)lane_at(&timer->lanes, place);
}

static int64_t answer_at(int64_t now_ns)
{
	int64_t next_ns = -1;

	CHECK_INT(hwt_timer_advance(timer, now_ns, &next_ns), ==, 0);
	return next_ns;
}

static hwt_timeout at(unsigned lane, int64_t when_ns)
{
	hwt_timeout timeout = HWT_TIMEOUT_NONE;

	CHECK_INT(hwt_lane_submit(lane_at(&timer->lanes, lane), task, NULL, when_ns, &timeout), ==, 0);
	return timeout;
}

/* So much that what is cancelled in the wheel may wait, too; all of it is far off. */
static void make_busy(int64_t now_ns, int64_t when_ns)
{
	for (unsigned i = 0; i < 100; i++)
		(void)at(1, when_ns);
	timer->quiet.until_ns = INT64_MIN;
	(void)answer_at(now_ns);
}

static uint64_t taken(void)
{
	return counts_get(&timer->worker.counts.transfers);
}

TEST(the_earliest_of_what_has_come_is_in_the_answer)
{
	for (unsigned lane = 0; lane < 3; lane++) {
		begin_loop(HWT_VIRTUAL_CLOCK);
		(void)at(0, 50 * TICK);
		CHECK_INT(answer_at(0), ==, 50 * TICK);
		(void)at(lane, 70 * TICK);
		(void)at(lane, 49 * TICK);
		(void)at(lane, 80 * TICK);
		CHECK_INT(answer_at(1), ==, 49 * TICK);
		(void)at(lane, 90 * TICK); /* into an empty queue: that of before has no part in it */
		CHECK_INT(answer_at(2), ==, 49 * TICK);
		(void)at(lane, 20 * TICK);
		(void)at(lane, 30 * TICK);
		CHECK_INT(answer_at(3), ==, 20 * TICK);
		(void)at(1, 0);
		CHECK_INT(answer_at(4), ==, TICK);
		driven_destroy(timer);
	}
}

TEST(a_finaliser_does_not_wait_for_the_end_of_the_tick)
{
	hwt_spec spec = HWT_SPEC_INIT;
	hwt_timeout timeout = HWT_TIMEOUT_NONE;

	begin_loop(HWT_VIRTUAL_CLOCK);
	spec.task = task;
	spec.release = release;
	spec.when_ns = 50 * TICK;
	CHECK_INT(hwt_new_timeout_ex(timer, &spec, &timeout), ==, 0);
	make_busy(0, 60 * TICK);
	CHECK_INT(hwt_cancel(timeout), ==, 0);
	CHECK_INT(released, ==, 0);
	(void)answer_at(1);
	CHECK_INT(released, ==, 1);
	CHECK_INT(hwt_new_timeout_ex(timer, &spec, &timeout), ==, 0);
	(void)answer_at(2);
	CHECK_INT(hwt_cancel(timeout), ==, 0); /* in its queue */
	(void)answer_at(3);
	CHECK_INT(released, ==, 2);
	driven_destroy(timer);
}

TEST(what_is_cancelled_waits_in_a_busy_tick_only)
{
	hwt_timeout first, second;

	begin_loop(HWT_VIRTUAL_CLOCK);
	first = at(0, 50 * TICK);
	second = at(0, 51 * TICK);
	(void)answer_at(0);
	CHECK_INT(hwt_cancel(first), ==, 0);
	CHECK_INT(answer_at(1), ==, 51 * TICK);
	make_busy(2, 60 * TICK);
	CHECK_INT(hwt_cancel(second), ==, 0);
	CHECK_INT(answer_at(3), ==, 51 * TICK); /* early, and never late */
	CHECK_INT(answer_at(TICK), ==, 60 * TICK);
	driven_destroy(timer);
}

TEST(a_long_lane_is_emptied_in_the_middle_of_a_tick)
{
	uint64_t before;

	begin_loop(HWT_VIRTUAL_CLOCK);
	(void)at(0, 50 * TICK);
	(void)answer_at(0);
	before = taken();
	for (unsigned i = 0; i < HWT_GATHER - 1; i++)
		(void)at(0, 60 * TICK);
	(void)answer_at(1);
	CHECK_INT(taken(), ==, before);
	(void)at(0, 60 * TICK);
	(void)answer_at(2);
	CHECK_INT(taken(), ==, before + HWT_GATHER);
	driven_destroy(timer);
}

/*
 * With a descriptor.  Times are of the system's clock, but none is waited for.
 */

static unsigned alarms, publications;

static void count_calls(const char *where)
{
	alarms += strcmp(where, "idle alarm") == 0;
	publications += strcmp(where, "idle published") == 0;
}

static bool is_readable(int fd)
{
	struct pollfd set[1] = { { .fd = fd, .events = POLLIN } };

	return poll(set, 1, 0) == 1;
}

TEST(only_an_earlier_deadline_takes_a_system_call)
{
	int64_t now_ns, first_ns;
	hwt_timeout mine, live[200];
	int fd = -1;

	begin_loop(0);
	CHECK_INT(hwt_timer_fd(timer, &fd), ==, 0);
	now_ns = hwt_now();
	first_ns = now_ns + HWT_S(3600);
	mine = at(0, first_ns);
	for (unsigned i = 0; i < 200; i++)
		live[i] = at(0, first_ns + TICK + (int64_t)i * TICK);
	CHECK_INT(answer_at(now_ns), <, first_ns + TICK);
	CHECK(!is_readable(fd));
	alarms = publications = 0;
	atomic_store(&hwt_test_point, count_calls);
	for (unsigned i = 0; i < 3000; i++) { /* 30 ticks */
		CHECK_INT(hwt_cancel(live[i % 200]), ==, 0);
		live[i % 200] = at(0, first_ns + TICK + (int64_t)i * TICK);
		now_ns += TICK / 100;
		CHECK_INT(answer_at(now_ns), <, first_ns + TICK);
	}
	CHECK_INT(alarms, ==, 0);
	CHECK_INT(publications, ==, 0);
	CHECK_INT(hwt_cancel(mine), ==, 0); /* what the alarm is set for: it stays */
	CHECK_INT(answer_at(now_ns), <, first_ns + TICK);
	CHECK_INT(alarms, ==, 0);
	(void)at(0, first_ns - HWT_S(1));
	CHECK(is_readable(fd));
	CHECK_INT(answer_at(now_ns), <, first_ns);
	CHECK_INT(alarms, ==, 1);
	CHECK_INT(publications, ==, 1);
	CHECK(!is_readable(fd));
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	CHECK_INT(answer_at(first_ns), >, first_ns); /* its time has come: it is set again */
	CHECK_INT(ran, ==, 1);
	driven_destroy(timer);
}

static int64_t slow_now_ns;

/* The loop advances, and publishes again, while the producer stands between its claim and its ring. */
static void advance_here(const char *where)
{
	if (strcmp(where, "idle claimed") != 0)
		return;
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	(void)answer_at(slow_now_ns);
}

TEST(what_a_slow_producer_rings_is_silenced)
{
	int fd = -1;

	begin_loop(0);
	CHECK_INT(hwt_timer_fd(timer, &fd), ==, 0);
	slow_now_ns = hwt_now();
	(void)answer_at(slow_now_ns);
	CHECK(!is_readable(fd));
	atomic_store(&hwt_test_point, advance_here);
	(void)at(0, slow_now_ns + HWT_S(3600));
	CHECK(atomic_load(&hwt_test_point) == NULL);
	CHECK(is_readable(fd));
	(void)answer_at(slow_now_ns);
	CHECK(!is_readable(fd));
	driven_destroy(timer);
}

/*
 * Beside a stop on another thread, which asks for the end and rings once, and only then comes to the driver's word.
 */

TEST(a_quiet_advance_tells_of_a_stop_that_has_rung)
{
	int64_t next_ns = 17;
	int fd = -1;

	begin_loop(0);
	CHECK_INT(hwt_timer_fd(timer, &fd), ==, 0);
	slow_now_ns = hwt_now();
	(void)at(0, slow_now_ns + HWT_S(3600));
	(void)answer_at(slow_now_ns);
	CHECK(!is_readable(fd));
	hwt_worker_request_stop(&timer->worker);
	CHECK(is_readable(fd)); /* the one edge that there is */
	CHECK_INT(hwt_timer_advance(timer, slow_now_ns, &next_ns), ==, ECANCELED);
	CHECK_INT(next_ns, ==, 17);
	CHECK(is_readable(fd));
	driven_destroy(timer);
}

static unsigned told;

static void count_tellings(void *ctx)
{
	(void)ctx;
	told++;
}

static void begin_told_loop(void)
{
	hwt_config config = driven_config(TICK, 64);

	config.flags = HWT_CALLER_DRIVEN;
	config.on_earlier = count_tellings;
	told = 0;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
}

/* Of the running task, which another thread has scheduled and this thread drives. */
static void schedule_earlier(hwt_timeout timeout, void *arg)
{
	unsigned before = told;

	(void)timeout;
	(void)arg;
	ran++;
	CHECK_INT(hwt_new_timeout(timer, task, NULL, HWT_MS(100), NULL), ==, 0);
	CHECK_INT(told, ==, before);
}

/* The loop advances while a producer has pushed and not yet looked whether to tell. */
static void advance_before_the_look(const char *where)
{
	if (strcmp(where, "idle look") != 0)
		return;
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	(void)answer_at(slow_now_ns + TICK);
	CHECK_INT(ran, ==, 1);
}

TEST(a_task_of_an_advance_tells_nobody_also_with_a_descriptor)
{
	int fd = -1;

	begin_told_loop();
	ran = 0;
	CHECK_INT(hwt_timer_fd(timer, &fd), ==, 0);
	slow_now_ns = hwt_now();
	(void)at(0, slow_now_ns + HWT_S(3600));
	CHECK_INT(answer_at(slow_now_ns), >, slow_now_ns + HWT_S(3000));
	CHECK(timer->alarm_tick >= 0);
	atomic_store(&hwt_test_point, advance_before_the_look);
	CHECK_INT(hwt_lane_submit(lane_at(&timer->lanes, 0), schedule_earlier, NULL, slow_now_ns, NULL), ==, 0);
	CHECK(atomic_load(&hwt_test_point) == NULL);
	CHECK_INT(told, ==, 1); /* the producer looks late, and tells for nothing */
	driven_destroy(timer);
}

/* The passes are over, and the advance is about to set its alarm. */
static void ask_for_stop_here(const char *where)
{
	if (strcmp(where, "idle alarm") != 0)
		return;
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	hwt_worker_request_stop(&timer->worker);
}

static void stop_before_the_alarm(void)
{
	int64_t next_ns = 17;

	slow_now_ns = hwt_now();
	(void)at(0, slow_now_ns + HWT_S(3600));
	atomic_store(&hwt_test_point, ask_for_stop_here);
	CHECK_INT(hwt_timer_advance(timer, slow_now_ns, &next_ns), ==, ECANCELED);
	CHECK(atomic_load(&hwt_test_point) == NULL);
	CHECK_INT(next_ns, ==, 17);
}

TEST(a_stop_that_rings_in_an_advance_is_not_silenced)
{
	int fd = -1;

	begin_loop(0);
	CHECK_INT(hwt_timer_fd(timer, &fd), ==, 0);
	stop_before_the_alarm();
	CHECK(is_readable(fd));
	driven_destroy(timer);
}

TEST_MAIN()
