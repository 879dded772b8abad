/* SPDX-License-Identifier: BSD-2-Clause */
/* A timer in the caller's loop, from inside: what comes between two of its steps. */
#include "unit.h"
#include "check/check.h"

static hwt_timer *timer;
static hwt_timeout second;
static unsigned ran;

static void other_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	ran++;
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

	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
	ran = released = 0;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_INT(hwt_timer_advance(timer, 0, NULL), ==, 0);
	CHECK_INT(hwt_new_timeout(timer, cancel_task, NULL, HWT_MS(5), NULL), ==, 0);
	CHECK_INT(hwt_new_timeout_ex(timer, &spec, &second), ==, 0);
	CHECK_INT(hwt_new_timeout(timer, stop_only_task, NULL, HWT_MS(5), NULL), ==, 0);
	CHECK_INT(hwt_timer_advance(timer, HWT_MS(5), NULL), ==, ECANCELED);
	CHECK_INT(ran, ==, 2);
	CHECK_INT(released, ==, 0);
	hwt_check(timer);
	CHECK_INT(hwt_timer_stop(timer, NULL), ==, 0);
	CHECK_INT(released, ==, 1);
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
	CHECK_INT(released, ==, 1);
}

/* A stop that begins and ends while hwt_timer_fd is on its way. */
static void stop_here(const char *where)
{
	if (strcmp(where, "descriptor") != 0)
		return;
	atomic_store(&hwt_test_point, NULL);
	CHECK_INT(hwt_timer_stop(timer, NULL), ==, 0);
}

TEST(no_descriptor_is_made_behind_a_stop)
{
	hwt_config config = driven_config(HWT_MS(1), 64);
	int fd = 17;

	config.flags = HWT_CALLER_DRIVEN;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	atomic_store(&hwt_test_point, stop_here);
	CHECK_INT(hwt_timer_fd(timer, &fd), ==, ECANCELED);
	CHECK(atomic_load(&hwt_test_point) == NULL);
	atomic_store(&hwt_test_point, NULL);
	CHECK_INT(fd, ==, 17);
	CHECK(idle_alarm(&timer->lanes.idle) < 0);
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
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

/* Another thread's call, between the publication and the last look. */
static void schedule_here(const char *where)
{
	if (strcmp(where, "idle published") != 0)
		return;
	atomic_store(&hwt_test_point, NULL);
	CHECK_INT(hwt_new_timeout(timer, other_task, NULL, HWT_S(3600), NULL), ==, 0);
}

TEST(what_comes_before_the_last_look_is_to_be_done_at_once)
{
	hwt_executor executor = { keep_job, NULL };
	hwt_config config = driven_config(HWT_MS(1), 64);
	int64_t now_ns, next_ns = 0;
	int fd = -1;

	config.flags = HWT_CALLER_DRIVEN;
	config.executor = &executor;
	ran = 0;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_INT(hwt_timer_fd(timer, &fd), ==, 0);
	CHECK_INT(hwt_new_timeout(timer, other_task, NULL, 0, NULL), ==, 0);
	now_ns = hwt_now() + HWT_S(1);
	atomic_store(&hwt_test_point, schedule_here);
	CHECK_INT(hwt_timer_advance(timer, now_ns, &next_ns), ==, 0);
	CHECK(atomic_load(&hwt_test_point) == NULL);
	REQUIRE(kept_job != NULL);
	CHECK_INT(next_ns, ==, now_ns); /* although something is with the executor */
	CHECK_INT(hwt_timer_advance(timer, now_ns, &next_ns), ==, 0);
	CHECK_INT(next_ns, >, now_ns);
	CHECK_INT(next_ns, <=, now_ns + HWT_MS(1));
	run_job(kept_job);
	CHECK_INT(hwt_timer_advance(timer, now_ns, &next_ns), ==, 0);
	CHECK_INT(next_ns, >, now_ns + HWT_S(3000));
	CHECK_INT(ran, ==, 1);
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
}

TEST_MAIN()
