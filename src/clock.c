/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE
#include "clock.h"
#include "mem.h"

#include <errno.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

#ifdef HWT_TEST
int64_t (*hwt_test_clock)(void);
void (*hwt_test_sleep)(int64_t until_ns);
#endif

/* Each of these calls may fail by its contract; which ones do is up to the system (on Linux none). */
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
	int rc;

	if (hwt_mem_refused()) /* the system may want memory for them */
		return ENOMEM;
	rc = pthread_condattr_init(&attr);
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

int hwt_sleeper_init(struct hwt_sleeper *sleeper)
{
	sleeper->woken = false;
	return hwt_monitor_init(&sleeper->monitor);
}

void hwt_sleeper_destroy(struct hwt_sleeper *sleeper)
{
	hwt_monitor_destroy(&sleeper->monitor);
}

static int wait_until(struct hwt_monitor *monitor, int64_t time_ns)
{
	struct timespec until = { (time_t)(time_ns / NS_PER_S), (long)(time_ns % NS_PER_S) };

	if (time_ns == INT64_MAX)
		return pthread_cond_wait(&monitor->changed, &monitor->mutex);
	return pthread_cond_timedwait(&monitor->changed, &monitor->mutex, &until);
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
	pthread_mutex_lock(&monitor->mutex);
	while (!sleeper->woken && rc == 0)
		rc = wait_until(monitor, time_ns);
	sleeper->woken = false;
	pthread_mutex_unlock(&monitor->mutex);
}

void hwt_sleeper_wake(struct hwt_sleeper *sleeper)
{
	pthread_mutex_lock(&sleeper->monitor.mutex);
	sleeper->woken = true;
	pthread_mutex_unlock(&sleeper->monitor.mutex);
	pthread_cond_signal(&sleeper->monitor.changed); /* after the unlock: the woken one does not wait for us */
}

void hwt_clock_precise_thread(void)
{
#ifdef __linux__
	(void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
#endif
}
