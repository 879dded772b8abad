/* SPDX-License-Identifier: BSD-2-Clause */
/* Clocks, a condition on CLOCK_MONOTONIC, and a timerfd as the alarm; sleeper.h. */
#define _GNU_SOURCE
#include "base/sleeper.h"
#include "base/thread.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#ifdef HWT_LINUX
#include <sys/prctl.h>
#include <sys/timerfd.h>
#endif

/* The longest sleep of a worker whose alarm the system refuses. */
#define BLIND_NAP_NS HWT_S(1)

#ifdef HWT_TEST
int64_t (*hwt_test_clock)(void);
void (*hwt_test_sleep)(int64_t until_ns);
#endif

static const clockid_t clocks[] = {
	[HWT_CLOCK_MONOTONIC] = CLOCK_MONOTONIC,
#ifdef CLOCK_BOOTTIME
	[HWT_CLOCK_BOOTTIME] = CLOCK_BOOTTIME,
#else
	[HWT_CLOCK_BOOTTIME] = -1,
#endif
	[HWT_CLOCK_REALTIME] = CLOCK_REALTIME,
};

int64_t hwt_clock_read(uint32_t clock)
{
	struct timespec now;
	int before = errno;

	if (clock >= sizeof(clocks) / sizeof(clocks[0]))
		return -1;
#ifdef HWT_TEST
	if (hwt_test_clock != NULL)
		return hwt_test_clock();
#endif
	if (clock_gettime(clocks[clock], &now) != 0) {
		errno = before;
		return -1;
	}
	return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* POSIX lets each of these calls fail.  On Linux none does. */
static int monitor_init(struct hwt_monitor *monitor, pthread_condattr_t *attr)
{
	int rc = pthread_condattr_setclock(attr, CLOCK_MONOTONIC);

	if (rc == 0)
		rc = pthread_cond_init(&monitor->changed, attr);
	if (rc != 0)
		return rc;
	rc = pthread_mutex_init(&monitor->mutex, NULL);
	if (rc != 0)
		pthread_cond_destroy(&monitor->changed);
	return rc;
}

int hwt_monitor_init(struct hwt_monitor *monitor)
{
	pthread_condattr_t attr;
	int rc = pthread_condattr_init(&attr);

	if (rc == 0) {
		rc = monitor_init(monitor, &attr);
		pthread_condattr_destroy(&attr);
	}
	return rc;
}

void hwt_monitor_destroy(struct hwt_monitor *monitor)
{
	pthread_mutex_destroy(&monitor->mutex);
	pthread_cond_destroy(&monitor->changed);
}

int hwt_sleeper_init(struct hwt_sleeper *sleeper, const hwt_config *config)
{
	int rc;

	*sleeper = (struct hwt_sleeper){ .alarm = -1, .clock = HWT_CLOCK_MONOTONIC };
	if (config != NULL) {
		sleeper->clock = config->clock;
		sleeper->polls = config->clock != HWT_CLOCK_MONOTONIC && (config->flags & HWT_CALLER_DRIVEN) == 0;
		sleeper->ring = config->on_earlier;
		sleeper->ring_ctx = config->on_earlier_ctx;
	}
	rc = hwt_monitor_init(&sleeper->monitor);
	if (rc == 0 && sleeper->polls && (rc = hwt_sleeper_make_alarm(sleeper)) != 0)
		hwt_monitor_destroy(&sleeper->monitor);
	return rc;
}

#ifdef HWT_LINUX
/* Returns 0, the error of the system, or ECANCELED, which tells of a step of the clock. */
static int set_timer(const struct hwt_sleeper *sleeper, int fd, int64_t time_ns)
{
	struct itimerspec when = { .it_value = { 0, 0 } };
	int before = errno, rc, flags = TFD_TIMER_ABSTIME;

	/* A zero value disarms the descriptor: only a wake, or a step of the clock, makes it readable. */
	if (time_ns <= 0)
		when.it_value.tv_nsec = 1;
	else if (time_ns != INT64_MAX)
		when.it_value = clock_timespec(time_ns);
	/* A step of the clock rings: other timeouts may be due then, and a nap in progress may last hours. */
	if (sleeper->clock == HWT_CLOCK_REALTIME)
		flags |= TFD_TIMER_CANCEL_ON_SET;
	rc = timerfd_settime(fd, flags, &when, NULL) == 0 ? 0 : errno;
	errno = before;
	return rc;
}

int hwt_sleeper_make_alarm(struct hwt_sleeper *sleeper)
{
	int before = errno, rc, fd = timerfd_create(clocks[sleeper->clock], TFD_NONBLOCK | TFD_CLOEXEC);

	if (fd < 0) {
		rc = errno == EINVAL ? ENOTSUP : errno; /* an old kernel does not know the clock */
	} else {
		rc = set_timer(sleeper, fd, 0);
		if (rc == ECANCELED) /* the clock was set meanwhile; the alarm is set all the same */
			rc = 0;
		if (rc == 0)
			/* Relaxed: sleeper.h. */
			atomic_store_explicit(&sleeper->alarm, fd, memory_order_relaxed);
		else
			(void)close(fd);
	}
	errno = before;
	return rc;
}

int hwt_sleeper_set_alarm(struct hwt_sleeper *sleeper, int64_t time_ns)
{
	int fd = sleeper_alarm(sleeper), rc = fd < 0 ? 0 : set_timer(sleeper, fd, time_ns);

	if (rc != ECANCELED)
		return rc;
	/* Linux tells of a step since the last setting only here, and time_ns is a time of the old clock: ring now. */
	if (time_ns > 0)
		return hwt_sleeper_set_alarm(sleeper, 0);
	/* Relaxed: sleeper_has_stepped. */
	atomic_store_explicit(&sleeper->stepped, true, memory_order_relaxed);
	return 0;
}
#else
int hwt_sleeper_make_alarm(struct hwt_sleeper *sleeper)
{
	(void)sleeper;
	return ENOTSUP;
}

int hwt_sleeper_set_alarm(struct hwt_sleeper *sleeper, int64_t time_ns)
{
	(void)sleeper;
	(void)time_ns;
	return 0;
}
#endif

/* Returns 0 when the alarm rings, or the error of the system. */
static int poll_alarm(const struct hwt_sleeper *sleeper)
{
	struct pollfd set[1] = { { .fd = sleeper_alarm(sleeper), .events = POLLIN } };
	int before = errno, rc;

	do
		rc = poll(set, 1, -1) < 0 ? errno : 0;
	while (rc == EINTR);
	errno = before;
	return rc;
}

void hwt_sleeper_destroy(struct hwt_sleeper *sleeper)
{
	int before = errno;

	if (sleeper_alarm(sleeper) >= 0)
		(void)close(sleeper_alarm(sleeper));
	errno = before;
	hwt_monitor_destroy(&sleeper->monitor);
}

int hwt_monitor_wait(struct hwt_monitor *monitor, int64_t time_ns)
{
	struct timespec until = clock_timespec(time_ns);

	if (time_ns == INT64_MAX)
		return pthread_cond_wait(&monitor->changed, &monitor->mutex);
	return pthread_cond_timedwait(&monitor->changed, &monitor->mutex, &until);
}

/*
 * Waits on the condition, under the mutex, in a sandbox that refuses the alarm: until time_ns, or for a nap.  The
 * condition goes by CLOCK_MONOTONIC, and does not notice that the sleeper's own clock is set.
 */
static void wait_without_alarm(struct hwt_sleeper *sleeper, int64_t time_ns)
{
	int64_t left_ns = subtract_saturating(time_ns, hwt_clock_read(sleeper->clock));

	left_ns = left_ns < BLIND_NAP_NS ? left_ns : BLIND_NAP_NS;
	if (!sleeper->woken && left_ns > 0)
		(void)hwt_monitor_wait(&sleeper->monitor, clock_monotonic() + left_ns);
}

/* A wake between the check and the poll is not lost: it rings the alarm after the time was set, under the mutex. */
static void poll_until(struct hwt_sleeper *sleeper, int64_t time_ns)
{
	bool woken;
	int rc = 0;

	pthread_mutex_lock(&sleeper->monitor.mutex);
	woken = sleeper->woken;
	if (!woken)
		rc = hwt_sleeper_set_alarm(sleeper, time_ns);
	pthread_mutex_unlock(&sleeper->monitor.mutex);
	HWT_POINT("poll");
	if (!woken && rc == 0)
		rc = poll_alarm(sleeper);
	pthread_mutex_lock(&sleeper->monitor.mutex);
	if (unlikely(rc != 0))
		wait_without_alarm(sleeper, time_ns);
	sleeper->woken = false;
	pthread_mutex_unlock(&sleeper->monitor.mutex);
}

void hwt_sleeper_sleep_until(struct hwt_sleeper *sleeper, int64_t time_ns)
{
	struct hwt_monitor *monitor = &sleeper->monitor;
	int rc = 0;

#ifdef HWT_TEST
	if (hwt_test_sleep != NULL) {
		hwt_test_sleep(time_ns);
		return;
	}
#endif
	if (sleeper->polls) {
		poll_until(sleeper, time_ns);
		return;
	}
	pthread_mutex_lock(&monitor->mutex);
	/* `woken` is checked under the mutex, so a wake comes before this check or during the wait, and is seen. */
	while (!sleeper->woken && rc == 0)
		rc = hwt_monitor_wait(monitor, time_ns);
	sleeper->woken = false;
	pthread_mutex_unlock(&monitor->mutex);
}

/*
 * Calls the loop's function.  Whatever that does, the library's call leaves errno alone and is no cancellation point.
 */
static void ring(const struct hwt_sleeper *sleeper)
{
	int before = errno, cancel_before = thread_no_cancel();

	sleeper->ring(sleeper->ring_ctx);
	thread_restore_cancel(cancel_before);
	errno = before;
}

void hwt_sleeper_wake(struct hwt_sleeper *sleeper)
{
	if (!sleeper->polls)
		(void)hwt_sleeper_set_alarm(sleeper, 0);
	if (sleeper->ring != NULL)
		ring(sleeper);
	if (sleeper->ring != NULL || (!sleeper->polls && sleeper_alarm(sleeper) >= 0)) /* the caller's loop sleeps */
		return;
	pthread_mutex_lock(&sleeper->monitor.mutex);
	sleeper->woken = true;
	if (sleeper->polls)
		(void)hwt_sleeper_set_alarm(sleeper, 0);
	pthread_mutex_unlock(&sleeper->monitor.mutex);
	pthread_cond_signal(&sleeper->monitor.changed); /* after the unlock, for which the woken thread would wait */
}

void hwt_sleeper_precise_thread(void)
{
#ifdef HWT_LINUX
	(void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
#endif
}
