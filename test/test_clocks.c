/* SPDX-License-Identifier: BSD-2-Clause */
/* config.clock: timers on CLOCK_BOOTTIME and CLOCK_REALTIME, also where CLOCK_BOOTTIME is far from CLOCK_MONOTONIC. */
#include "support.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#ifdef __linux__
#include <sys/timerfd.h>
#endif

static const uint32_t clocks[] = { HWT_CLOCK_MONOTONIC, HWT_CLOCK_BOOTTIME, HWT_CLOCK_REALTIME };

static hwt_config config_of(uint32_t clock)
{
	hwt_config config = HWT_CONFIG_INIT;

	config.tick_duration_ns = HWT_MS(1);
	config.clock = clock;
	config.warn = NULL;
	return config;
}

static hwt_timer *timer_of(uint32_t clock)
{
	hwt_config config = config_of(clock);
	hwt_timer *timer = NULL;

	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	return timer;
}

static int64_t system_time(clockid_t id)
{
	struct timespec now;

	REQUIRE(clock_gettime(id, &now) == 0);
	return HWT_S(now.tv_sec) + now.tv_nsec;
}

TEST(the_clocks_are_those_of_the_system)
{
	static const clockid_t ids[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME };

	for (unsigned i = 0; i < 3; i++) {
		int64_t before_ns = system_time(ids[i]), now_ns = hwt_clock_now(clocks[i]);

		CHECK_INT(now_ns, >=, before_ns);
		CHECK_INT(now_ns, <=, system_time(ids[i]));
	}
	CHECK_INT(hwt_now(), <=, hwt_clock_now(HWT_CLOCK_MONOTONIC));
	CHECK_INT(hwt_now(), >=, system_time(CLOCK_MONOTONIC) - PATIENCE_NS);
	CHECK_RC(hwt_clock_now(3), -1);
	CHECK_RC(hwt_clock_now(UINT32_MAX), -1);
}

TEST(a_clock_that_there_is_not_is_refused)
{
	hwt_config config = config_of(3);
	hwt_timer *timer = NULL;

	CHECK_RC(hwt_timer_create(&timer, &config), EINVAL);
	config.clock = UINT32_MAX;
	CHECK_RC(hwt_timer_create(&timer, &config), EINVAL);
	NEEDS_LINUX();
	for (unsigned i = 1; i < 3; i++) {
		hwt_config in_force = HWT_CONFIG_INIT;

		config.clock = clocks[i];
		config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
		CHECK_RC(hwt_timer_create(&timer, &config), EINVAL);
		config.flags = HWT_CALLER_DRIVEN;
		REQUIRE(hwt_timer_create(&timer, &config) == 0);
		CHECK_RC(hwt_timer_config(timer, &in_force), 0);
		CHECK_INT(in_force.clock, ==, clocks[i]);
		CHECK_RC(hwt_timer_destroy(timer), 0);
		timer = NULL;
	}
}

struct timed {
	uint32_t clock;
	int64_t not_before_ns, late_ns;
	atomic_uint ran;
};

static void timed_task(hwt_timeout timeout, void *arg)
{
	struct timed *timed = arg;
	int64_t now_ns = hwt_clock_now(timed->clock);

	(void)timeout;
	CHECK_INT(now_ns, >=, timed->not_before_ns);
	timed->late_ns = now_ns - timed->not_before_ns;
	atomic_fetch_add(&timed->ran, 1);
}

/* Delays, deadlines, periods and moves; the worker sleeps in between. */
static void run_on(uint32_t clock)
{
	hwt_timer *timer = timer_of(clock);
	struct timed timed = { .clock = clock };
	hwt_timeout timeout, far;
	hwt_stats stats;
	int64_t left_ns = 0;

	CHECK_RC(hwt_new_timeout_at(timer, count_task, NULL, hwt_clock_now(clock) + HWT_S(3600), &far), 0);
	CHECK_RC(hwt_timeout_left(far, &left_ns), 0);
	CHECK_INT(left_ns, <=, HWT_S(3600));
	CHECK_INT(left_ns, >, HWT_S(3500));
	sleep_ms(5);
	for (unsigned i = 1; i <= 20; i++) {
		timed.not_before_ns = hwt_clock_now(clock) + HWT_US(700 * i);
		if (i % 2)
			CHECK_RC(hwt_new_timeout_at(timer, timed_task, &timed, timed.not_before_ns, &timeout), 0);
		else
			CHECK_RC(hwt_new_timeout(timer, timed_task, &timed, HWT_US(700 * i), &timeout), 0);
		REQUIRE(wait_count(&timed.ran, i));
	}
	timed.not_before_ns = hwt_clock_now(clock) + HWT_MS(4);
	CHECK_RC(hwt_new_periodic(timer, timed_task, &timed, HWT_MS(4), HWT_MS(2), &timeout), 0);
	REQUIRE(wait_count(&timed.ran, 24));
	CHECK_RC(hwt_cancel_sync(timeout), 0);
	CHECK_RC(hwt_new_timeout(timer, timed_task, &timed, HWT_S(1000), &timeout), 0);
	timed.not_before_ns = hwt_clock_now(clock) + HWT_MS(3);
	CHECK_RC(hwt_reschedule(timeout, HWT_MS(3)), 0);
	REQUIRE(wait_ended(timeout));
	stats = stats_of(timer);
	CHECK_INT(stats.lateness_max_ns, <, PATIENCE_NS);
	CHECK_INT(stats.lateness_max_ns, >=, 0);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, timed_task, &timed, 0, NULL), ECANCELED);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(a_worker_runs_on_each_clock)
{
	NEEDS_LINUX();
	for (unsigned i = 0; i < 3; i++)
		run_on(clocks[i]);
}

TEST(a_loop_s_descriptor_rings_on_each_clock)
{
	NEEDS_LINUX();
	for (unsigned i = 0; i < 3; i++) {
		struct timed timed = { .clock = clocks[i] };
		hwt_config config = config_of(clocks[i]);
		hwt_timer *timer = NULL;
		int fd = -1;

		config.flags = HWT_CALLER_DRIVEN;
		REQUIRE(hwt_timer_create(&timer, &config) == 0);
		CHECK_RC(hwt_timer_fd(timer, &fd), 0);
		timed.not_before_ns = hwt_clock_now(clocks[i]) + HWT_MS(8);
		CHECK_RC(hwt_new_timeout(timer, timed_task, &timed, HWT_MS(8), NULL), 0);
		for (struct patience patience = PATIENCE("a run"); timed.ran == 0 && patience_lasts(&patience, 0);) {
			REQUIRE(wait_readable(fd));
			CHECK_RC(hwt_timer_advance(timer, hwt_clock_now(clocks[i]), NULL), 0);
		}
		CHECK_INT(timed.ran, ==, 1);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

TEST(without_a_descriptor_left_it_is_not_created)
{
	hwt_config config = config_of(HWT_CLOCK_REALTIME);
	struct rlimit limit, none;
	hwt_timer *timer = NULL;
	int next = open("/dev/null", O_RDONLY);

	NEEDS_LINUX();
	REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0 && next >= 0);
	none = limit;
	none.rlim_cur = (rlim_t)next + 1;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
	CHECK_RC(hwt_timer_create(&timer, &config), EMFILE);
	CHECK(timer == NULL);
	REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	CHECK_RC(hwt_timer_create(&timer, &config), 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	close(next);
}

/* A sandbox that refuses a system call.  These functions replace those that the library calls. */
#ifdef __linux__
static atomic_bool settime_is_refused, clock_is_set, poll_is_refused;
static atomic_uint refused_polls;

int timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *before)
{
	int (*real)(int, int, const struct itimerspec *, struct itimerspec *);

	if (atomic_load(&settime_is_refused)) {
		errno = EPERM;
		return -1;
	}
	*(void **)&real = dlsym(RTLD_NEXT, "timerfd_settime");
	if (real(fd, flags, when, before) != 0)
		return -1;
	if (!atomic_exchange(&clock_is_set, false))
		return 0;
	errno = ECANCELED; /* Linux has set the alarm all the same */
	return -1;
}

/* Only the library calls poll without a limit. */
int poll(struct pollfd *set, nfds_t count, int timeout_ms)
{
	int (*real)(struct pollfd *, nfds_t, int);

	if (timeout_ms < 0 && atomic_load(&poll_is_refused)) {
		atomic_fetch_add(&refused_polls, 1);
		errno = EPERM;
		return -1;
	}
	*(void **)&real = dlsym(RTLD_NEXT, "poll");
	return real(set, count, timeout_ms);
}

static int next_descriptor(void)
{
	int next = open("/dev/null", O_RDONLY);

	REQUIRE(next >= 0 && close(next) == 0);
	return next;
}

TEST(an_alarm_that_the_system_refuses_is_an_error)
{
	hwt_config config = config_of(HWT_CLOCK_REALTIME);
	hwt_timer *timer = NULL;
	int fd = -4711, next;

	NEEDS_LINUX();
	next = next_descriptor();
	atomic_store(&settime_is_refused, true);
	CHECK_RC(hwt_timer_create(&timer, &config), EPERM);
	CHECK(timer == NULL);
	config.flags = HWT_CALLER_DRIVEN;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_RC(hwt_timer_fd(timer, &fd), EPERM);
	CHECK_INT(fd, ==, -4711);
	CHECK_INT(next_descriptor(), ==, next);
	atomic_store(&settime_is_refused, false);
	CHECK_RC(hwt_timer_fd(timer, &fd), 0);
	CHECK(wait_readable(fd));
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(an_alarm_is_made_while_the_clock_is_set)
{
	const hwt_config config = config_of(HWT_CLOCK_REALTIME);
	hwt_timer *timer;

	NEEDS_LINUX();
	atomic_store(&clock_is_set, true);
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK(!atomic_load(&clock_is_set));
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* The worker then waits on its condition, and does not spin. */
static void run_refused(uint32_t clock, atomic_bool *refused)
{
	hwt_timer *timer = timer_of(clock);
	struct timed timed = { .clock = clock };
	hwt_timeout timeout;

	atomic_store(refused, true);
	atomic_store(&refused_polls, 0);
	timed.not_before_ns = hwt_clock_now(clock) + HWT_MS(30);
	CHECK_RC(hwt_new_timeout_at(timer, timed_task, &timed, timed.not_before_ns, &timeout), 0);
	REQUIRE(wait_count(&timed.ran, 1));
	CHECK_RC(hwt_new_timeout(timer, timed_task, &timed, HWT_S(3600), &timeout), 0);
	timed.not_before_ns = hwt_clock_now(clock) + HWT_MS(30);
	CHECK_RC(hwt_reschedule(timeout, HWT_MS(30)), 0);
	REQUIRE(wait_count(&timed.ran, 2));
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_INT(stats_of(timer).wakeups, <=, 100);
	CHECK_INT(refused_polls, <=, 100);
	atomic_store(refused, false);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(a_worker_whose_alarm_is_refused_later_runs_and_stops)
{
	NEEDS_LINUX();
	for (unsigned i = 1; i < 3; i++) {
		run_refused(clocks[i], &settime_is_refused);
		run_refused(clocks[i], &poll_is_refused);
	}
}
#endif

/*
 * Runs the tests of workers and loops of this program again, in a time namespace in which the machine seems to have
 * been suspended for a day.
 */
static int run_suspended(const char *self, const char *word)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		int quiet = open("/dev/null", O_WRONLY);

		setenv("HWT_TEST_SUSPENDED", "1", 1);
		(void)dup2(2, 1);
		if (strcmp(word, "the_clocks") == 0)
			(void)dup2(quiet, 2);
		execlp("unshare", "unshare", "-T", "--boottime", "86400", self, word, (char *)NULL);
		_exit(127);
	}
	REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
	return status;
}

TEST(they_run_where_boot_time_is_far_from_monotonic_time)
{
	char self[4096];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	NEEDS_LINUX();
	if (getenv("HWT_TEST_SUSPENDED") != NULL)
		return;
	REQUIRE(length > 0);
	self[length] = 0;
	if (run_suspended(self, "the_clocks") != 0) {
		printf("# no time namespaces here, or no way to run in one\n");
		return;
	}
	CHECK_INT(run_suspended(self, "each_clock"), ==, 0);
}

TEST(a_suspension_counts_on_each_clock)
{
	int64_t suspended_ns = getenv("HWT_TEST_SUSPENDED") != NULL ? HWT_S(86000) : 0, now_ns = hwt_now();

	NEEDS_LINUX();
	CHECK_INT(hwt_clock_now(HWT_CLOCK_BOOTTIME) - now_ns, >=, suspended_ns);
}

TEST_MAIN()
