/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Row 31 of the list of behaviours: the wall clock is stepped.  Nobody wants tests that set the machine's clock; this
 * program puts its own clock_gettime, gettimeofday and time in front of libc's, for the library as well, and shows it a
 * wall clock that jumps while the monotonic one goes its way.
 */
#include "support.h"

#include <sys/syscall.h>
#include <sys/time.h>

static atomic_llong step_s;

static bool is_wall(clockid_t id)
{
	return id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
}

int clock_gettime(clockid_t id, struct timespec *time)
{
	int rc = (int)syscall(SYS_clock_gettime, id, time);

	if (rc == 0 && is_wall(id))
		time->tv_sec += (time_t)atomic_load(&step_s);
	return rc;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
	struct timespec now;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	time->tv_sec = now.tv_sec;
	time->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *out)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}

/* Kafka, Go's wheel, brpc, libevent, skynet: a step of the wall clock fired or delayed everything. */
TEST(row31_steps_of_the_wall_clock_do_not_matter)
{
	static const long long steps_s[] = { 86400, -86400, 0, 3, -3, 86400 * 365, -86400 * 365, 0 };
	enum { COUNT = 400 };
	hwt_timer *timer = new_timer(HWT_MS(2), 64);
	struct run runs[COUNT] = { 0 };
	struct run far = { .not_before_ns = hwt_now() + HWT_S(3600) };
	int64_t last_ns = hwt_now();
	time_t before = time(NULL);

	/* The jumps are seen at all. */
	atomic_store(&step_s, 86400);
	CHECK_INT(time(NULL) - before, >=, 86400);
	CHECK_RC(hwt_new_timeout(timer, run_task, &far, HWT_S(3600), NULL), 0);
	for (int i = 0; i < COUNT; i++) {
		int64_t now_ns = hwt_now();

		CHECK_INT(now_ns, >=, last_ns);
		last_ns = now_ns;
		runs[i].not_before_ns = now_ns + HWT_MS(i % 100);
		CHECK_RC(hwt_new_timeout(timer, run_task, &runs[i], HWT_MS(i % 100), NULL), 0);
		atomic_store(&step_s, steps_s[i % 8]);
		sleep_ns(HWT_US(700));
	}
	for (int i = 0; i < COUNT; i++)
		CHECK(wait_count(&runs[i].ran, 1));
	CHECK_INT(far.ran, ==, 0);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST_MAIN()
