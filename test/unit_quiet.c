/* SPDX-License-Identifier: BSD-2-Clause */
/* A loop's descriptor: what rings it, what silences it, and what comes between two steps of an advance. */
#include "unit.h"

#include <poll.h>

#define TICK HWT_MS(10)

static hwt_timer *timer;
static unsigned ran;

static void task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	ran++;
}

static int64_t answer_at(int64_t now_ns)
{
	int64_t next_ns = -1;

	CHECK_INT(hwt_timer_advance(timer, now_ns, &next_ns), ==, 0);
	return next_ns;
}

static hwt_timeout at(int64_t when_ns)
{
	hwt_timeout timeout = HWT_TIMEOUT_NONE;

	CHECK_INT(hwt_new_timeout_at(timer, task, NULL, when_ns, &timeout), ==, 0);
	return timeout;
}

/* Times are of the system's clock, but none is waited for. */
static int64_t slow_now_ns;

/* Returns its descriptor. */
static int begin_with_descriptor(hwt_config config)
{
	int fd = -1;

	config.flags = HWT_CALLER_DRIVEN;
	ran = 0;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_INT(hwt_timer_fd(timer, &fd), ==, 0);
	slow_now_ns = hwt_now();
	return fd;
}

static int begin(void)
{
	return begin_with_descriptor(driven_config(TICK, 64));
}

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
	hwt_timeout mine, live[200];
	int fd = begin();
	int64_t now_ns = slow_now_ns, first_ns = now_ns + HWT_S(3600);

	mine = at(first_ns);
	for (unsigned i = 0; i < 200; i++)
		live[i] = at(first_ns + TICK + (int64_t)i * TICK);
	CHECK_INT(answer_at(now_ns), <, first_ns + TICK);
	CHECK(!is_readable(fd));
	alarms = publications = 0;
	atomic_store(&hwt_test_point, count_calls);
	for (unsigned i = 0; i < 3000; i++) { /* 30 ticks */
		CHECK_INT(hwt_cancel(live[i % 200]), ==, 0);
		live[i % 200] = at(first_ns + TICK + (int64_t)i * TICK);
		now_ns += TICK / 100;
		CHECK_INT(answer_at(now_ns), <, first_ns + TICK);
	}
	CHECK_INT(alarms, ==, 0);
	CHECK_INT(publications, ==, 0);
	CHECK_INT(hwt_cancel(mine), ==, 0); /* what the alarm is set for: it stays */
	CHECK_INT(answer_at(now_ns), <, first_ns + TICK);
	CHECK_INT(alarms, ==, 0);
	(void)at(first_ns - HWT_S(1));
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

static hwt_timeout in_an_hour(void)
{
	return at(slow_now_ns + HWT_S(3600));
}

static void advance_here(void)
{
	(void)answer_at(slow_now_ns);
}

/* The loop advances, and publishes again, while the producer stands between its claim and its ring. */
TEST(what_a_slow_producer_rings_is_silenced)
{
	int fd = begin();

	advance_here();
	CHECK(!is_readable(fd));
	meanwhile("idle claimed", advance_here);
	in_an_hour();
	CHECK(meanwhile_came());
	CHECK(is_readable(fd));
	advance_here();
	CHECK(!is_readable(fd));
	driven_destroy(timer);
}

/*
 * Beside a stop on another thread, which asks for the end and rings once, and only then comes to the driver's word.
 */

static void ask_for_stop(void)
{
	hwt_worker_request_stop(&timer->worker);
}

static void check_stopped(int fd)
{
	int64_t next_ns = 17;

	CHECK_INT(hwt_timer_advance(timer, slow_now_ns, &next_ns), ==, ECANCELED);
	CHECK(meanwhile_came());
	CHECK_INT(next_ns, ==, 17);
	CHECK(is_readable(fd));
	driven_destroy(timer);
}

TEST(a_quiet_advance_tells_of_a_stop_that_has_rung)
{
	int fd = begin();

	in_an_hour();
	advance_here();
	CHECK(!is_readable(fd));
	ask_for_stop();
	CHECK(is_readable(fd)); /* the one edge that there is */
	check_stopped(fd);
}

/* The passes are over, and the advance is about to set its alarm. */
TEST(a_stop_that_rings_in_an_advance_is_not_silenced)
{
	int fd = begin();

	in_an_hour();
	meanwhile("idle alarm", ask_for_stop);
	check_stopped(fd);
}

static void stop_here(void)
{
	CHECK_INT(hwt_timer_stop(timer, NULL), ==, 0);
}

TEST(no_descriptor_is_made_behind_a_stop)
{
	hwt_config config = driven_config(TICK, 64);
	int fd = 17;

	config.flags = HWT_CALLER_DRIVEN;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	meanwhile("descriptor", stop_here);
	CHECK_INT(hwt_timer_fd(timer, &fd), ==, ECANCELED);
	CHECK(meanwhile_came());
	CHECK_INT(fd, ==, 17);
	CHECK(idle_alarm(&timer->lanes.idle) < 0);
	driven_destroy(timer);
}

static unsigned told;

static void count_tellings(void *ctx)
{
	(void)ctx;
	told++;
}

/* Of the running task, which another thread has scheduled and this thread drives. */
static void schedule_earlier(hwt_timeout timeout, void *arg)
{
	unsigned before = told;

	task(timeout, arg);
	CHECK_INT(hwt_new_timeout(timer, task, NULL, HWT_MS(100), NULL), ==, 0);
	CHECK_INT(told, ==, before);
}

/* The loop advances while a producer has pushed and not yet looked whether to tell. */
static void advance_before_the_look(void)
{
	(void)answer_at(slow_now_ns + TICK);
	CHECK_INT(ran, ==, 1);
}

TEST(a_task_of_an_advance_tells_nobody_also_with_a_descriptor)
{
	hwt_config config = driven_config(TICK, 64);

	config.on_earlier = count_tellings;
	told = 0;
	(void)begin_with_descriptor(config);
	in_an_hour();
	CHECK_INT(answer_at(slow_now_ns), >, slow_now_ns + HWT_S(3000));
	CHECK(timer->alarm_tick >= 0);
	meanwhile("idle look", advance_before_the_look);
	CHECK_INT(hwt_new_timeout_at(timer, schedule_earlier, NULL, slow_now_ns, NULL), ==, 0);
	CHECK(meanwhile_came());
	CHECK_INT(told, ==, 1); /* the producer looks late, and tells for nothing */
	driven_destroy(timer);
}

static void (*run_job)(void *job);
static void *kept_job;

static int keep_job(void *ctx, void (*run)(void *job), void *job)
{
	(void)ctx;
	run_job = run;
	kept_job = job;
	return 0;
}

static void schedule_here(void)
{
	in_an_hour();
}

/* Another thread's call, between the publication and the last look. */
TEST(what_comes_before_the_last_look_is_to_be_done_at_once)
{
	hwt_executor executor = { keep_job, NULL };
	hwt_config config = driven_config(TICK, 64);
	int64_t now_ns;

	config.executor = &executor;
	(void)begin_with_descriptor(config);
	at(0);
	now_ns = slow_now_ns + HWT_S(1);
	meanwhile("idle published", schedule_here);
	CHECK_INT(answer_at(now_ns), ==, now_ns); /* although something is with the executor */
	CHECK(meanwhile_came());
	REQUIRE(kept_job != NULL);
	CHECK_INT(answer_at(now_ns), >, now_ns);
	CHECK_INT(answer_at(now_ns), <=, now_ns + TICK);
	run_job(kept_job);
	CHECK_INT(answer_at(now_ns), >, now_ns + HWT_S(3000));
	CHECK_INT(ran, ==, 1);
	driven_destroy(timer);
}

/* A pass would publish. */
TEST(an_empty_timer_is_quiet_within_a_tick)
{
	hwt_config config = driven_config(TICK, 64);

	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
	config.on_earlier = count_tellings;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	publications = 0;
	atomic_store(&hwt_test_point, count_calls);
	CHECK_INT(answer_at(0), ==, INT64_MAX);
	CHECK_INT(publications, ==, 1);
	CHECK_INT(answer_at(1), ==, INT64_MAX);
	CHECK_INT(publications, ==, 1);
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
}

TEST_MAIN()
