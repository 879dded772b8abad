/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library itself: with either wheel, and in its caller's loop, with and without a descriptor.  This file hides its
 * types, and the handle that its tasks get.
 */
#include "rivals.h"

#include <hwt.h>

/* In a global, as the scenarios use arg. */
static subject_task *hwt_subject_task;

static void hwt_subject_run(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	hwt_subject_task(arg);
}

static void *init_timer(const struct subject_config *subject, subject_task *task, uint32_t wheel, uint32_t flags)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer;

	hwt_subject_task = task;
	config.tick_duration_ns = subject->tick_ns;
	config.ticks_per_wheel = subject->buckets;
	config.wheel = wheel;
	config.flags = flags;
	if (hwt_timer_create(&timer, &config) != 0)
		return NULL;
	if (hwt_timer_start(timer) == 0)
		return timer;
	hwt_timer_destroy(timer);
	return NULL;
}

static void *hwt_subject_init(const struct subject_config *subject, subject_task *task)
{
	return init_timer(subject, task, HWT_WHEEL_HASHED, 0);
}

static void *hwt_levels_init(const struct subject_config *subject, subject_task *task)
{
	return init_timer(subject, task, HWT_WHEEL_HIERARCHICAL, 0);
}

static void *hwt_loop_init(const struct subject_config *subject, subject_task *task)
{
	return init_timer(subject, task, HWT_WHEEL_HASHED, HWT_CALLER_DRIVEN);
}

static void *hwt_loop_fd_init(const struct subject_config *subject, subject_task *task)
{
	hwt_timer *timer = hwt_loop_init(subject, task);
	int fd;

	if (timer != NULL && hwt_timer_fd(timer, &fd) == 0)
		return timer;
	hwt_timer_destroy(timer);
	return NULL;
}

static int64_t hwt_loop_advance(void *timer, int64_t now_ns)
{
	int64_t next_ns = now_ns;

	return hwt_timer_advance(timer, now_ns, &next_ns) == 0 ? next_ns : now_ns;
}

static int64_t hwt_loop_next(void *timer)
{
	int64_t next_ns = INT64_MIN;

	(void)hwt_timer_next(timer, &next_ns);
	return next_ns;
}

static int hwt_subject_schedule(void *timer, void *arg, int64_t delay_ns, struct handle *out)
{
	hwt_timeout timeout = HWT_TIMEOUT_NONE;
	int rc = hwt_new_timeout(timer, hwt_subject_run, arg, delay_ns, &timeout);

	out->pointer = timeout.entry;
	out->number = timeout.generation;
	return rc;
}

static int hwt_subject_schedule_at(void *timer, void *arg, int64_t deadline_ns, struct handle *out)
{
	hwt_timeout timeout = HWT_TIMEOUT_NONE;
	int rc = hwt_new_timeout_at(timer, hwt_subject_run, arg, deadline_ns, &timeout);

	out->pointer = timeout.entry;
	out->number = timeout.generation;
	return rc;
}

static int hwt_subject_cancel(void *timer, struct handle *handle)
{
	(void)timer;
	return hwt_cancel((hwt_timeout){ handle->pointer, handle->number });
}

static int hwt_subject_reschedule(void *timer, struct handle *handle, int64_t delay_ns)
{
	(void)timer;
	return hwt_reschedule((hwt_timeout){ handle->pointer, handle->number }, delay_ns);
}

static uint64_t hwt_subject_destroy(void *timer)
{
	hwt_unprocessed unprocessed;
	uint64_t returned = 0;
	size_t said = 0;

	/*
	 * The number that stop reports must be that of the timeouts it hands out: otherwise neither is used, and no
	 * account can balance.
	 */
	if (hwt_timer_stop(timer, &said) != 0)
		return UINT64_MAX;
	while (hwt_timer_next_unprocessed(timer, &unprocessed))
		returned++;
	if (hwt_timer_destroy(timer) != 0 || returned != said)
		return UINT64_MAX;
	return returned;
}

/* The fields that all subjects have in common. */
#define HWT_SUBJECT(its_name, its_init)                                                                                \
	.name = (its_name), .version = hwt_version, .init = (its_init), .schedule = hwt_subject_schedule,              \
	.schedule_at = hwt_subject_schedule_at, .cancel = hwt_subject_cancel, .reschedule = hwt_subject_reschedule,    \
	.destroy = hwt_subject_destroy

const struct subject subject_hwt = { HWT_SUBJECT("hwt", hwt_subject_init) };

const struct subject subject_levels = { HWT_SUBJECT("levels", hwt_levels_init) };

const struct subject subject_loop = {
	HWT_SUBJECT("loop", hwt_loop_init),
	.advance = hwt_loop_advance,
	.next = hwt_loop_next,
	.producers_max = 1,
};

const struct subject subject_loop_fd = {
	HWT_SUBJECT("loop-fd", hwt_loop_fd_init),
	.advance = hwt_loop_advance,
	.next = hwt_loop_next,
	.producers_max = 1,
};
