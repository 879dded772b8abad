/* SPDX-License-Identifier: BSD-2-Clause */
/* The manual's promises to a loop that drives a timer: descriptor, clock, on_earlier, the loop's lock. */
#include "support.h"

#include <fcntl.h>
#include <sys/resource.h>
#ifdef __linux__
#include <sys/timerfd.h>
#endif
#include <sys/wait.h>

static bool is_readable_within(int fd, int milliseconds)
{
	struct pollfd wanted = { .fd = fd, .events = POLLIN };

	return poll(&wanted, 1, milliseconds) == 1;
}

TEST(the_descriptor_is_closed_on_exec)
{
	hwt_timer *timer = driven_timer();
	int fd = -1;

	NEEDS_LINUX();
	CHECK_RC(hwt_timer_fd(timer, &fd), 0);
	CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* "Schedule, then fork": parent and child both have the pending timeouts, and are independent from then on. */
TEST(a_driven_timer_goes_on_in_a_forked_child)
{
	hwt_timer *timer = driven_timer();
	hwt_timeout both = HWT_TIMEOUT_NONE, own = HWT_TIMEOUT_NONE;
	atomic_uint ran = 0;
	int64_t next_ns = 0;
	int status = 0;
	bool good;
	pid_t child;

	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 0, NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_S(3600), &both), 0);
	child = fork();
	REQUIRE(child >= 0);
	good = hwt_new_timeout(timer, count_task, &ran, 0, &own) == 0 && hwt_cancel(both) == 0;
	while (good && hwt_timeout_state(own) == HWT_PENDING) {
		good = hwt_timer_advance(timer, hwt_now(), &next_ns) == 0;
		sleep_ms(1);
	}
	good = good && atomic_load(&ran) == 2 && hwt_pending_timeouts(timer) == 0 && hwt_timer_destroy(timer) == 0;
	if (child == 0)
		_exit(good ? 0 : 1);
	CHECK(good);
	REQUIRE(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(a_worker_or_a_clock_of_ones_own_has_no_descriptor)
{
	static const uint32_t flags[] = { 0, HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK };
	int64_t next_ns = 17;
	int fd = 17;

	CHECK_RC(hwt_timer_advance(NULL, 0, &next_ns), EINVAL);
	CHECK_RC(hwt_timer_next(NULL, &next_ns), EINVAL);
	CHECK_RC(hwt_timer_fd(NULL, &fd), EINVAL);
	for (unsigned i = 0; i < 4; i++) { /* timers that are not started, and started ones */
		hwt_timer *timer = flagged_timer(flags[i % 2]);

		if (i / 2 != 0)
			CHECK_RC(hwt_timer_start(timer), 0);
		if (i % 2 == 0) {
			CHECK_RC(hwt_timer_advance(timer, hwt_now(), &next_ns), EINVAL);
			CHECK_RC(hwt_timer_next(timer, &next_ns), EINVAL);
		}
		CHECK_RC(hwt_timer_fd(timer, &fd), EINVAL);
		CHECK_RC(hwt_timer_fd(timer, NULL), EINVAL);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
	CHECK(fd == 17 && next_ns == 17);
}

/* INT64_MAX never comes, also on a grid that has a tick there. */
TEST(the_last_time_never_comes)
{
	hwt_config config = HWT_CONFIG_INIT;
	struct run run = { .not_before_ns = 0 };
	hwt_timer *timer = NULL;
	int64_t next_ns = 17;

	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
	config.tick_duration_ns = INT64_C(49) * 73 * 127 * 337;
	CHECK_INT(INT64_MAX % config.tick_duration_ns, ==, 0);
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_RC(hwt_timer_advance(timer, 0, NULL), 0);
	CHECK_RC(hwt_new_timeout_at(timer, run_task, &run, INT64_MAX, NULL), 0);
	CHECK_RC(hwt_new_timeout_at(timer, run_task, &run, HWT_S(1), NULL), 0);
	CHECK_RC(hwt_timer_advance(timer, INT64_MAX, &next_ns), 0);
	CHECK_INT(run.ran, ==, 1);
	CHECK_INT(next_ns, ==, INT64_MAX);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* A first time that the clock never shows is refused; an old first time does not change the clock. */
TEST(the_clock_of_a_loop_is_the_systems)
{
	static const int64_t bad_ns[] = { 0, -1, INT64_MIN };
	struct run run = { .not_before_ns = 0 };
	hwt_timer *timer = driven_timer();
	int64_t next_ns = 17, old_ns = hwt_now() > HWT_S(60) ? hwt_now() - HWT_S(60) : 1;
	int fd = -1;

	NEEDS_LINUX();
	for (unsigned i = 0; i < 3; i++)
		CHECK_RC(hwt_timer_advance(timer, bad_ns[i], &next_ns), EINVAL);
	CHECK_RC(hwt_timer_start(timer), 0); /* as the first timeout starts it */
	for (unsigned i = 0; i < 3; i++)
		CHECK_RC(hwt_timer_advance(timer, bad_ns[i], &next_ns), EINVAL);
	CHECK_INT(next_ns, ==, 17);
	CHECK_INT(stats_of(timer).wakeups, ==, 0);
	CHECK_RC(hwt_timer_advance(timer, old_ns, &next_ns), 0);
	CHECK_RC(hwt_timer_fd(timer, &fd), 0);
	run.not_before_ns = hwt_now() + HWT_MS(50);
	CHECK_RC(hwt_new_timeout(timer, run_task, &run, HWT_MS(50), NULL), 0);
	for (unsigned i = 0; i < 3; i++) { /* after a first time these go back, and run nothing */
		CHECK_RC(hwt_timer_advance(timer, bad_ns[i], &next_ns), 0);
		CHECK_INT(next_ns, >=, run.not_before_ns);
	}
	for (struct patience patience = PATIENCE("a run"); run.ran == 0;) {
		CHECK(wait_readable(fd));
		CHECK_RC(hwt_timer_advance(timer, hwt_now(), NULL), 0);
		REQUIRE(patience_lasts(&patience, 0));
	}
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_RC(hwt_timer_advance(timer, 0, NULL), ECANCELED);
	CHECK_RC(hwt_timer_fd(timer, &fd), ECANCELED);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(without_descriptors_left_it_fails_and_works_later)
{
	hwt_timer *timer = driven_timer();
	struct rlimit before, none;
	int fd = 17;

	NEEDS_LINUX();
	REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
	none = before;
	none.rlim_cur = 0;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
	CHECK_RC(hwt_timer_fd(timer, &fd), EMFILE);
	REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
	CHECK_INT(fd, ==, 17);
	CHECK_RC(hwt_timer_fd(timer, &fd), 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static void tell(void *ctx)
{
	sleep_ns(1); /* contains a cancellation point */
	atomic_fetch_add((atomic_uint *)ctx, 1);
}

static hwt_timer *telling_timer(atomic_uint *tellings)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = HWT_MS(1);
	config.flags = HWT_CALLER_DRIVEN;
	config.on_earlier = tell;
	config.on_earlier_ctx = tellings;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	return timer;
}

TEST(with_on_earlier_and_a_descriptor_both_are_told)
{
	atomic_uint tellings = 0;
	hwt_timer *timer = telling_timer(&tellings);
	int64_t now_ns = hwt_now();
	int fd = -1;

	NEEDS_LINUX();
	CHECK_RC(hwt_timer_advance(timer, now_ns, NULL), 0);
	CHECK_RC(hwt_timer_fd(timer, &fd), 0);
	CHECK(is_readable_within(fd, 0));
	CHECK_RC(hwt_timer_advance(timer, now_ns, NULL), 0);
	CHECK(!is_readable_within(fd, 0));
	CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HWT_S(3600), NULL), 0);
	CHECK_INT(tellings, ==, 1);
	CHECK(is_readable_within(fd, 0));
	CHECK_RC(hwt_timer_advance(timer, now_ns, NULL), 0);
	CHECK(!is_readable_within(fd, 0));
	CHECK_RC(hwt_timer_destroy(timer), 0);
	CHECK_INT(tellings, ==, 2);
}

static void *schedule_while_cancelled(void *timer)
{
	pthread_cancel(pthread_self());
	CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HWT_MS(50), NULL), 0);
	pthread_testcancel();
	return NULL;
}

TEST(a_cancelled_thread_tells_to_the_end)
{
	atomic_uint tellings = 0;
	hwt_timer *timer = telling_timer(&tellings);
	void *result = NULL;
	pthread_t thread;

	CHECK_RC(hwt_timer_advance(timer, hwt_now(), NULL), 0);
	REQUIRE(pthread_create(&thread, NULL, schedule_while_cancelled, timer) == 0);
	REQUIRE(pthread_join(thread, &result) == 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK_INT(tellings, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(a_stop_makes_the_descriptor_readable)
{
	hwt_timer *timer = driven_timer();
	int fd = -1;

	NEEDS_LINUX();
	CHECK_RC(hwt_timer_fd(timer, &fd), 0);
	CHECK(wait_readable(fd)); /* the first time the descriptor is readable at once */
	CHECK_RC(hwt_timer_advance(timer, hwt_now(), NULL), 0);
	CHECK(!is_readable_within(fd, 0));
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK(wait_readable(fd));
	CHECK_RC(hwt_timer_advance(timer, hwt_now(), NULL), ECANCELED);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* On a 32-bit system the deadline may not fit the seconds of a timespec. */
TEST(the_descriptor_waits_for_a_deadline_in_a_century)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;
	int64_t next_ns = 0;
	int fd = -1;

	NEEDS_LINUX();
	config.tick_duration_ns = HWT_MS(10);
	config.flags = HWT_CALLER_DRIVEN;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_RC(hwt_timer_fd(timer, &fd), 0);
	CHECK_RC(hwt_timer_advance(timer, hwt_now(), NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HWT_S(INT64_C(3155760000)), NULL), 0);
	CHECK_RC(hwt_timer_advance(timer, hwt_now(), &next_ns), 0);
	CHECK_INT(next_ns, >, HWT_S(INT64_C(3155760000)));
	CHECK(!is_readable_within(fd, 5));
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

#ifdef __linux__
/* The rest of a tick is due before its own time: a clock that was read earlier is told late. */
TEST(the_alarm_of_a_cut_tick_does_not_stay_for_a_later_one)
{
	int64_t far_ns = hwt_now() + HWT_S(10000), next_ns = 0; /* the alarm does not ring during the test */
	hwt_config config = HWT_CONFIG_INIT;
	struct itimerspec set;
	hwt_timer *timer = NULL;
	atomic_uint ran = 0;
	int fd = -1;

	NEEDS_LINUX();
	config.tick_duration_ns = HWT_MS(10);
	config.flags = HWT_CALLER_DRIVEN;
	config.max_tasks_per_advance = 1;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_RC(hwt_timer_fd(timer, &fd), 0);
	for (int i = 0; i < 2; i++)
		CHECK_RC(hwt_new_timeout_at(timer, count_task, &ran, far_ns, NULL), 0);
	CHECK_RC(hwt_new_timeout_at(timer, count_task, &ran, far_ns + HWT_S(1000), NULL), 0);
	CHECK_RC(hwt_timer_advance(timer, far_ns + HWT_MS(20), NULL), 0);
	CHECK_RC(hwt_timer_advance(timer, far_ns - HWT_S(1), NULL), 0);
	CHECK_RC(hwt_timer_advance(timer, far_ns + HWT_MS(20), &next_ns), 0);
	CHECK_INT(ran, ==, 2);
	CHECK_INT(next_ns, >=, far_ns + HWT_S(1000));
	REQUIRE(timerfd_gettime(fd, &set) == 0);
	CHECK_INT(set.it_value.tv_sec, >, 10500);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}
#endif

static struct {
	void (*run)(void *job);
	void *job;
} parked;

static int park(void *ctx, void (*run)(void *job), void *job)
{
	(void)ctx;
	parked.run = run;
	parked.job = job;
	return 0;
}

static hwt_timer *parked_timer(void)
{
	static const hwt_executor executor = { park, NULL };
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	parked.run = NULL;
	config.tick_duration_ns = HWT_MS(10);
	config.flags = HWT_CALLER_DRIVEN;
	config.executor = &executor;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	return timer;
}

/* The clock has not come to the deadline, but the told time has. */
TEST(a_job_goes_by_the_time_that_was_told)
{
	hwt_timer *timer = parked_timer();
	atomic_uint ran = 0;

	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_S(3600), NULL), 0);
	CHECK_RC(hwt_timer_advance(timer, hwt_now() + HWT_S(3700), NULL), 0);
	parked.run(parked.job);
	CHECK_INT(ran, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static void advance_until_stopped(hwt_timeout timeout, void *arg)
{
	int64_t next_ns = 0;
	int rc = EBUSY;

	(void)timeout;
	for (struct patience patience = PATIENCE("a stop"); rc == EBUSY && patience_lasts(&patience, HWT_MS(1));)
		rc = hwt_timer_advance(arg, hwt_now(), NULL);
	CHECK_INT(rc, ==, ECANCELED);
	CHECK_RC(hwt_timer_next(arg, &next_ns), ECANCELED);
}

static void *stop_it(void *timer)
{
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	return NULL;
}

/* The stop waits for the job, so a job that tries again until the timer is stopped has to learn of that. */
TEST(a_job_learns_that_the_timer_is_being_stopped)
{
	hwt_timer *timer = parked_timer();
	pthread_t stopper;

	CHECK_RC(hwt_new_timeout(timer, advance_until_stopped, timer, 0, NULL), 0);
	CHECK_RC(hwt_timer_advance(timer, hwt_now() + HWT_S(1), NULL), 0);
	REQUIRE(parked.run != NULL && pthread_create(&stopper, NULL, stop_it, timer) == 0);
	parked.run(parked.job);
	CHECK_INT(pthread_join(stopper, NULL), ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static void run_in_an_hour(hwt_timeout timeout, void *arg)
{
	(void)arg;
	CHECK_RC(hwt_reschedule(timeout, HWT_S(3600)), 0);
}

/* The end of the task rings the descriptor, so it need not ring before. */
TEST(the_descriptor_does_not_ring_for_a_task_that_is_running)
{
	hwt_timer *timer = parked_timer();
	int fd = -1;

	NEEDS_LINUX();
	CHECK_RC(hwt_timer_fd(timer, &fd), 0);
	CHECK_RC(hwt_new_timeout(timer, run_in_an_hour, NULL, 0, NULL), 0);
	for (struct patience patience = PATIENCE("a job"); parked.run == NULL;) {
		CHECK(wait_readable(fd));
		CHECK_RC(hwt_timer_advance(timer, hwt_now(), NULL), 0);
		REQUIRE(patience_lasts(&patience, 0));
	}
	CHECK(!is_readable_within(fd, 50)); /* five ticks */
	parked.run(parked.job);
	CHECK(is_readable_within(fd, 0));
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST_MAIN()
