/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The time of the day is set under a worker.  Here only the program's is: clock_gettime and timerfd_settime are
 * replaced by such as keep Linux's rule.  A step rings the descriptors that ask for it, once.  The next setting
 * silences that, is done, and alone says so: ECANCELED.
 */
#include "support.h"

#ifndef HWT_PORTABLE
#include <dlfcn.h>
#include <poll.h>
#include <sys/timerfd.h>

/* In C libraries with two sizes of time_t these have two names. */
#define REAL(name) dlsym(RTLD_NEXT, sizeof(time_t) > sizeof(long) ? "__" #name "64" : #name)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int64_t ahead_s;    /* the time of the day here, against the system's */
static int watcher = -1;   /* the descriptor that was set last with TFD_TIMER_CANCEL_ON_SET */
static bool has_stepped;   /* since then */
static unsigned cancelled; /* settings that have said so */

/* A thread stops at the gate before it sets a descriptor, or after. */
enum { NOWHERE, BEFORE, AFTER };
static _Thread_local int stops_at = NOWHERE;
static atomic_uint at_gate, is_open;

static void pass_gate(int where)
{
	if (stops_at != where)
		return;
	atomic_store(&at_gate, 1);
	REQUIRE(wait_count(&is_open, 1));
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int (*real)(clockid_t, struct timespec *), rc;

	*(void **)&real = REAL(clock_gettime);
	rc = real(clock, now);
	if (clock == CLOCK_REALTIME) {
		pthread_mutex_lock(&mutex);
		now->tv_sec += (time_t)ahead_s;
		pthread_mutex_unlock(&mutex);
	}
	return rc;
}

static int settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *before)
{
	int (*real)(int, int, const struct itimerspec *, struct itimerspec *);

	*(void **)&real = REAL(timerfd_settime);
	return real(fd, flags, when, before);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *before)
{
	struct itimerspec there = *when;
	bool is_armed = when->it_value.tv_sec != 0 || when->it_value.tv_nsec != 0, is_told;
	int rc;

	if ((flags & TFD_TIMER_CANCEL_ON_SET) == 0)
		return settime(fd, flags, when, before);
	pass_gate(BEFORE);
	pthread_mutex_lock(&mutex);
	if (is_armed && there.it_value.tv_sec > ahead_s)
		there.it_value.tv_sec -= (time_t)ahead_s;
	rc = settime(fd, flags, &there, before);
	is_told = is_armed && has_stepped;
	watcher = fd;
	has_stepped = has_stepped && !is_told;
	cancelled += is_told;
	pthread_mutex_unlock(&mutex);
	pass_gate(AFTER);
	if (rc != 0 || !is_told)
		return rc;
	errno = ECANCELED;
	return -1;
}

static void step(int64_t by_s)
{
	const struct itimerspec at_once = { .it_value = { 0, 1 } };

	pthread_mutex_lock(&mutex);
	ahead_s += by_s;
	has_stepped = true;
	REQUIRE(settime(watcher, TFD_TIMER_ABSTIME, &at_once, NULL) == 0);
	pthread_mutex_unlock(&mutex);
}

/* More than any test waits. */
#define HOUR_S 3600

static hwt_timer *make(uint32_t flags)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;

	config.tick_duration_ns = HWT_MS(1);
	config.clock = HWT_CLOCK_REALTIME;
	config.warn = NULL;
	config.flags = flags;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	return timer;
}

static atomic_uint ticks, stepped;

static void step_back_at_the_fifth(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	if (atomic_fetch_add(&ticks, 1) != 4)
		return;
	step(-HOUR_S);
	atomic_store(&stepped, 1);
}

/* The step comes while it runs tasks: with work for the next tick the worker naps until then, which is now an hour. */
TEST(a_step_back_during_a_pass_does_not_stop_the_timer)
{
	hwt_timer *timer = make(0);
	atomic_uint ran = 0;

	CHECK_RC(hwt_new_periodic(timer, step_back_at_the_fifth, NULL, 0, HWT_MS(1), NULL), 0);
	REQUIRE(wait_count(&stepped, 1));
	for (unsigned i = 1; i <= 5; i++) {
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_MS(i), NULL), 0);
		REQUIRE(wait_count(&ran, i));
	}
	CHECK_INT(ticks, ==, 5); /* its deadline is an hour away */
	pthread_mutex_lock(&mutex);
	CHECK_INT(cancelled, ==, 1);
	pthread_mutex_unlock(&mutex);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static hwt_timer *driven;
static struct pollfd alarm_[1] = { { .events = POLLIN } };

static int64_t time_of_day(void)
{
	struct timespec now;

	REQUIRE(clock_gettime(CLOCK_REALTIME, &now) == 0);
	return (int64_t)now.tv_sec * HWT_S(1) + now.tv_nsec;
}

/* Earlier than what the loop waits for, so it rings. */
static void *schedule_earlier(void *where)
{
	stops_at = *(int *)where;
	CHECK_RC(hwt_new_timeout(driven, count_task, &ticks, HWT_S(HOUR_S + HOUR_S / 2), NULL), 0);
	return NULL;
}

static void open_gate(pthread_t producer)
{
	atomic_store(&is_open, 1);
	REQUIRE(pthread_join(producer, NULL) == 0);
}

/*
 * The producer that rings is told of the step, and not the loop, which has read the clock before it: an hour behind
 * that, its alarm would be an hour late.
 */
static void ring_is_told(int where)
{
	pthread_t producer;
	int64_t now_ns;

	driven = make(HWT_CALLER_DRIVEN);
	atomic_store(&at_gate, 0);
	atomic_store(&is_open, 0);
	CHECK_RC(hwt_timer_fd(driven, &alarm_[0].fd), 0);
	CHECK_RC(hwt_new_timeout(driven, count_task, &ticks, HWT_S(2 * HOUR_S), NULL), 0);
	CHECK_RC(hwt_timer_advance(driven, time_of_day(), NULL), 0);
	now_ns = time_of_day();
	if (where == AFTER)
		step(-HOUR_S);
	REQUIRE(pthread_create(&producer, NULL, schedule_earlier, &where) == 0);
	REQUIRE(wait_count(&at_gate, 1));
	if (where == BEFORE) {
		step(-HOUR_S);
		open_gate(producer);
	}
	CHECK_RC(hwt_timer_advance(driven, now_ns, NULL), 0);
	CHECK_INT(poll(alarm_, 1, 120 * 1000), ==, 1);
	if (where == AFTER)
		open_gate(producer);
	for (unsigned i = 0; i < 3; i++)
		CHECK_RC(hwt_timer_advance(driven, time_of_day(), NULL), 0);
	CHECK_INT(poll(alarm_, 1, 0), ==, 0); /* what has been looked at rings no more */
	CHECK_RC(hwt_timer_destroy(driven), 0);
}

TEST(a_step_that_a_ring_was_told_of_rings_once_more)
{
	ring_is_told(BEFORE);
}

TEST(a_step_that_a_ring_is_being_told_of_rings_once_more)
{
	ring_is_told(AFTER);
}
#else
TEST(a_step_back_during_a_pass_does_not_stop_the_timer)
{
	NEEDS_LINUX();
}

TEST(a_step_that_a_ring_was_told_of_rings_once_more)
{
	NEEDS_LINUX();
}

TEST(a_step_that_a_ring_is_being_told_of_rings_once_more)
{
	NEEDS_LINUX();
}
#endif

TEST_MAIN()
