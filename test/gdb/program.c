/* SPDX-License-Identifier: BSD-2-Clause */
/* For gdb.sh: a program that has scheduled COUNT timeouts, and some more, and stops in `here`. */
#include <hwt.h>

#include <stdio.h>
#include <stdlib.h>

static void give_up(hwt_timeout timeout, void *arg)
{
	(void)timeout, (void)arg;
}

static void beat(hwt_timeout timeout, void *arg)
{
	(void)timeout, (void)arg;
}

__attribute__((noinline)) static void here(hwt_timer *timer)
{
	printf("pending %d\n", (int)hwt_pending_timeouts(timer));
}

/* Names that also exist in the library. */
enum { STATE_RUNNING = 77 };

__attribute__((noinline)) static void worker_main(volatile int *arg)
{
	hwt_timeout none = HWT_TIMEOUT_NONE;

	while (*arg == 0 || *arg == STATE_RUNNING)
		(void)hwt_cancel(none);
}

static hwt_timer *timer;

static void stop_within(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	here(timer);
	*(volatile int *)arg = 1;
}

/* Stops on the worker, so that gdb finds a thread in a task, which drives another timer. */
static void stop_here(hwt_timeout timeout, void *arg)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *inner;

	(void)timeout;
	config.thread_name = "inner";
	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
	if (hwt_timer_create(&inner, &config) != 0 || hwt_new_timeout(inner, stop_within, arg, 0, NULL) != 0 ||
	    hwt_timer_advance(inner, HWT_S(1), NULL) != 0)
		abort();
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1000;
	volatile int is_over = 0;
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *driven;
	int rc;

	config.thread_name = "expiry";
	rc = hwt_timer_create(&timer, &config);
	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
	if (rc == 0)
		rc = hwt_timer_create(&driven, &config);
	for (int i = 0; i < count && rc == 0; i++)
		rc = hwt_new_timeout_at(timer, give_up, NULL, INT64_C(1000000000000000000) + i, NULL);
	for (int i = 0; i < 7 && rc == 0; i++)
		rc = hwt_new_periodic(timer, beat, &config, HWT_S(3600), HWT_S(60), NULL);
	for (int i = 0; i < 3 && rc == 0; i++)
		rc = hwt_new_timeout(driven, beat, &timer, HWT_S(5 + i), NULL);
	if (rc == 0)
		rc = hwt_new_timeout(timer, stop_here, (void *)&is_over, 0, NULL);
	if (rc == 0)
		worker_main(&is_over);
	return rc;
}
