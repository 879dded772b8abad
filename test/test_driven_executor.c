/* SPDX-License-Identifier: BSD-2-Clause */
/* A timer in the caller's own loop whose tasks run on an executor: what hwt_timer_advance answers meanwhile. */
#include "virtual.h"

#include <poll.h>

/* The executor keeps one job until the test runs it, on whichever thread. */
struct parked {
	void (*run)(void *job);
	void *job;
};

static int park(void *ctx, void (*run)(void *job), void *job)
{
	struct parked *parked = ctx;

	if (parked->run != NULL)
		return EAGAIN; /* the caller runs it */
	*parked = (struct parked){ run, job };
	return 0;
}

static void *run_parked(void *arg)
{
	struct parked job = *(struct parked *)arg;

	REQUIRE(job.run != NULL);
	((struct parked *)arg)->run = NULL;
	job.run(job.job);
	return NULL;
}

static hwt_timer *parked_timer(struct parked *parked, uint32_t flags)
{
	hwt_executor executor = { park, parked };
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	parked->run = NULL;
	config.tick_duration_ns = HWT_MS(10);
	config.flags = HWT_CALLER_DRIVEN | flags;
	config.executor = &executor;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	return timer;
}

TEST(a_periodic_task_on_the_executor_is_in_the_answer)
{
	struct parked parked;
	hwt_timer *timer = parked_timer(&parked, HWT_VIRTUAL_CLOCK);
	atomic_uint ran = 0;
	hwt_timeout timeout;

	CHECK_RC(hwt_new_periodic(timer, count_task, &ran, HWT_MS(50), HWT_MS(50), &timeout), 0);
	CHECK_INT(advance(timer, 0), ==, HWT_MS(50));
	/* It may end at any time, and run again from the next tick on. */
	CHECK_INT(advance(timer, HWT_MS(50)), ==, HWT_MS(60));
	CHECK_INT(advance(timer, HWT_MS(65)), ==, HWT_MS(70));
	CHECK_INT(ran, ==, 0);
	run_parked(&parked);
	CHECK_INT(ran, ==, 1);
	CHECK_INT(advance(timer, HWT_MS(70)), ==, HWT_MS(100));
	CHECK_INT(advance(timer, HWT_MS(100)), ==, HWT_MS(110));
	CHECK_RC(hwt_cancel(timeout), 0);
	run_parked(&parked);
	CHECK_INT(advance(timer, HWT_MS(110)), ==, INT64_MAX);
	CHECK_INT(ran, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

struct retry {
	int64_t delay_ns;
	unsigned runs, most;
};

static void retry_task(hwt_timeout timeout, void *arg)
{
	struct retry *retry = arg;

	if (++retry->runs < retry->most)
		CHECK_RC(hwt_reschedule(timeout, retry->delay_ns), 0);
}

TEST(a_task_on_the_executor_that_may_re_arm_itself_is_in_the_answer)
{
	struct retry retry = { HWT_MS(25), 0, 2 };
	struct parked parked;
	hwt_timer *timer = parked_timer(&parked, HWT_VIRTUAL_CLOCK);
	atomic_uint ran = 0;

	CHECK_RC(hwt_new_timeout(timer, retry_task, &retry, HWT_MS(50), NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(65), NULL), 0);
	CHECK_INT(advance(timer, HWT_MS(50)), ==, HWT_MS(60)); /* before what is in the wheel */
	CHECK_INT(advance(timer, HWT_MS(60)), ==, HWT_MS(70));
	run_parked(&parked);
	CHECK_INT(advance(timer, HWT_MS(60)), ==, HWT_MS(70)); /* that of the other one */
	CHECK_INT(advance(timer, HWT_MS(70)), ==, HWT_MS(80)); /* which is with the executor now */
	run_parked(&parked);
	CHECK_INT(ran, ==, 1);
	CHECK_INT(advance(timer, HWT_MS(75)), ==, HWT_MS(90));
	CHECK_INT(advance(timer, HWT_MS(90)), ==, HWT_MS(100));
	run_parked(&parked);
	CHECK_INT(retry.runs, ==, 2);
	CHECK_INT(advance(timer, HWT_MS(91)), ==, INT64_MAX);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(a_job_that_begins_late_counts_as_late)
{
	struct parked parked;
	hwt_timer *timer = parked_timer(&parked, HWT_VIRTUAL_CLOCK);
	atomic_uint ran = 0;

	advance(timer, 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(15), NULL), 0);
	advance(timer, HWT_MS(20));
	advance(timer, HWT_MS(75));
	CHECK_INT(stats_of(timer).runs, ==, 0);
	CHECK_INT(stats_of(timer).ticks, ==, 1);
	run_parked(&parked);
	CHECK_INT(stats_of(timer).runs, ==, 1);
	CHECK_INT(stats_of(timer).lateness_max_ns, ==, HWT_MS(60));
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* The clock has not come to the deadline, but the caller says that the time has. */
TEST(a_job_goes_by_the_time_that_was_told)
{
	struct parked parked;
	hwt_timer *timer = parked_timer(&parked, 0);
	atomic_uint ran = 0;

	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_S(3600), NULL), 0);
	advance(timer, hwt_now() + HWT_S(3700));
	run_parked(&parked);
	CHECK_INT(ran, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* A loop that believes the answer, and a pool that takes its time: no run is lost, and the loop comes to an end. */
TEST(a_loop_that_believes_the_answer_gets_all_runs)
{
	struct retry retry = { HWT_S(1), 0, 100 };
	struct parked parked;
	hwt_timer *timer = parked_timer(&parked, HWT_VIRTUAL_CLOCK);
	int64_t now_ns = 0, next_ns;
	unsigned calls = 0;

	CHECK_RC(hwt_new_timeout(timer, retry_task, &retry, HWT_S(1), NULL), 0);
	while ((next_ns = advance(timer, now_ns)) != INT64_MAX && ++calls < 1000) {
		CHECK_INT(next_ns, >, now_ns);
		now_ns = next_ns;
		if (calls % 3 == 0 && parked.run != NULL)
			run_parked(&parked);
	}
	if (parked.run != NULL) /* a stop would wait for it */
		run_parked(&parked);
	CHECK_INT(retry.runs, ==, 100);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	CHECK_INT(calls, <, 1000);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* The descriptor hears of it when the task is over, so it need not ring before. */
TEST(the_descriptor_does_not_ring_for_a_task_that_is_running)
{
	struct retry retry = { HWT_S(3600), 0, 2 };
	struct parked parked;
	hwt_timer *timer = parked_timer(&parked, 0);
	struct pollfd wanted = { .events = POLLIN };
	int64_t next_ns;

	NEEDS_LINUX();
	CHECK_RC(hwt_timer_fd(timer, &wanted.fd), 0);
	CHECK_RC(hwt_new_timeout(timer, retry_task, &retry, 0, NULL), 0);
	do {
		CHECK_INT(poll(&wanted, 1, (int)(PATIENCE_NS / HWT_MS(1))), ==, 1);
		next_ns = advance(timer, hwt_now());
	} while (parked.run == NULL);
	CHECK_INT(next_ns, <, hwt_now() + HWT_S(60));
	CHECK_INT(poll(&wanted, 1, 50), ==, 0); /* five ticks */
	run_parked(&parked);
	CHECK_INT(poll(&wanted, 1, 0), ==, 1);
	CHECK_INT(advance(timer, hwt_now()), >, hwt_now() + HWT_S(3000));
	CHECK_INT(poll(&wanted, 1, 0), ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST_MAIN()
