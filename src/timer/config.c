/* SPDX-License-Identifier: BSD-2-Clause */
/* Settings: checks, completes and rounds the caller's configuration. */
#include "timer/timer.h"
#include "base/sized.h"
#include "base/thread.h"

#include <errno.h>
#include <stdio.h>

#define MIN_TICK_NS HWT_MS(1)
#define MIN_FINE_TICK_NS HWT_US(10)
#define MAX_TICKS_PER_WHEEL (UINT32_C(1) << 30)
#define MAX_TASK_THREADS 1024

#define KNOWN_FLAGS (HWT_FINE_TICKS | HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK | HWT_COLLECT)

static const size_t field_ends[] = {
	FIELD_END(hwt_config, tick_duration_ns),
	FIELD_END(hwt_config, ticks_per_wheel),
	FIELD_END(hwt_config, max_transfers_per_tick),
	FIELD_END(hwt_config, max_pending_timeouts),
	FIELD_END(hwt_config, flags),
	FIELD_END(hwt_config, wheel),
	FIELD_END(hwt_config, thread_attr),
	FIELD_END(hwt_config, thread_name),
	FIELD_END(hwt_config, warn),
	FIELD_END(hwt_config, warn_ctx),
	FIELD_END(hwt_config, executor),
	FIELD_END(hwt_config, reserved),
	FIELD_END(hwt_config, task_threads),
	FIELD_END(hwt_config, clock),
	FIELD_END(hwt_config, max_tasks_per_advance),
	FIELD_END(hwt_config, on_earlier),
	FIELD_END(hwt_config, on_earlier_ctx),
	FIELD_END(hwt_config, user),
};

#define FIELDS (sizeof(field_ends) / sizeof(field_ends[0]))

static_assert(FIELD_END(hwt_config, user) == sizeof(hwt_config), "field_ends is complete");

void hwt_warn_stderr(void *ctx, const char *message)
{
	int before = errno, cancel_before = thread_no_cancel();

	(void)ctx;
	(void)fprintf(stderr, "hwt: %s\n", message);
	thread_restore_cancel(cancel_before);
	errno = before;
}

static bool reserved_is_zero(const hwt_config *config)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < sizeof(config->reserved) / sizeof(config->reserved[0]); i++)
		bits |= config->reserved[i];
	return bits == 0;
}

/* Returns true if the attributes name a stack.  An unset address is NULL, or in glibc the negative size. */
static bool names_a_stack(const pthread_attr_t *attr)
{
	void *stack = NULL;
	size_t size = 0;

	return pthread_attr_getstack(attr, &stack, &size) == 0 && stack != NULL && (uintptr_t)stack + size != 0;
}

/*
 * Returns what is wrong with the settings of threads, or NULL.  Task threads need a worker, which hands tasks over to
 * them, and exclude an executor.  Threads cannot share a stack.
 */
static const char *wrong_threads(const hwt_config *config)
{
	int detached = PTHREAD_CREATE_JOINABLE;

	/*
	 * Detached threads are refused, as stop joins the worker.  (On Linux pthread_attr_getdetachstate does not
	 * fail.)
	 */
	if (config->thread_attr != NULL &&
	    (pthread_attr_getdetachstate(config->thread_attr, &detached) != 0 || detached != PTHREAD_CREATE_JOINABLE))
		return "thread_attr is of a detached thread";
	if (config->executor != NULL && config->executor->execute == NULL)
		return "executor has no execute";
	if (config->executor != NULL && (config->flags & HWT_COLLECT) != 0)
		return "executor is not for HWT_COLLECT, which has no tasks";
	if (config->task_threads == 0)
		return NULL;
	if (config->task_threads > MAX_TASK_THREADS)
		return "task_threads is above 1024";
	if (config->executor != NULL)
		return "task_threads and executor exclude each other";
	if (config->thread_attr != NULL && names_a_stack(config->thread_attr))
		return "thread_attr names a stack, which all task_threads would share";
	return (config->flags & HWT_CALLER_DRIVEN) != 0 ? "task_threads are not for HWT_CALLER_DRIVEN" : NULL;
}

static const char *wrong_for_worker(const hwt_config *config)
{
	if ((config->flags & HWT_CALLER_DRIVEN) != 0)
		return NULL;
	if ((config->flags & (HWT_VIRTUAL_CLOCK | HWT_COLLECT)) != 0)
		return "flags: HWT_VIRTUAL_CLOCK and HWT_COLLECT need HWT_CALLER_DRIVEN";
	if (config->max_tasks_per_advance != 0)
		return "max_tasks_per_advance needs HWT_CALLER_DRIVEN";
	return config->on_earlier != NULL ? "on_earlier needs HWT_CALLER_DRIVEN" : NULL;
}

static const char *wrong(const hwt_config *config)
{
	const char *what;

	if (config->tick_duration_ns <= 0)
		return "tick_duration_ns is not above 0";
	if (config->ticks_per_wheel == 0 || config->ticks_per_wheel > MAX_TICKS_PER_WHEEL)
		return "ticks_per_wheel is not from 1 to 2^30";
	if (config->max_transfers_per_tick == 0)
		return "max_transfers_per_tick is 0";
	if ((config->flags & ~KNOWN_FLAGS) != 0)
		return "flags has an unknown bit";
	if (config->wheel > HWT_WHEEL_HIERARCHICAL)
		return "wheel is unknown";
	if (!reserved_is_zero(config))
		return "reserved is not 0";
	if (config->clock > HWT_CLOCK_REALTIME)
		return "clock is unknown";
	if (config->clock != 0 && (config->flags & HWT_VIRTUAL_CLOCK) != 0)
		return "clock is not 0 with HWT_VIRTUAL_CLOCK";
	what = wrong_for_worker(config);
	return what != NULL ? what : wrong_threads(config);
}

void hwt_config_warn(const hwt_config *config, const char *what)
{
	int before = errno, cancel_before;

	if (config->warn == NULL)
		return;
	cancel_before = thread_no_cancel();
	config->warn(config->warn_ctx, what);
	thread_restore_cancel(cancel_before);
	errno = before;
}

int hwt_config_refuse(const hwt_config *config, const char *what)
{
	hwt_config_warn(config, what);
	return EINVAL;
}

static bool has_clock(uint32_t clock)
{
#ifdef HWT_LINUX
	return hwt_clock_read(clock) != -1;
#else
	return clock == HWT_CLOCK_MONOTONIC;
#endif
}

static uint32_t round_up_to_power_of_two(uint32_t n)
{
	uint32_t power = 1;

	while (power < n)
		power *= 2;
	return power;
}

/*
 * Raises a tick that is too short, and then returns true.  Short ticks cost processor time for a precision that few
 * programs need, so ticks below a millisecond need a flag.
 */
static bool raise_tick(hwt_config *config, const char **warning)
{
	bool fine = (config->flags & HWT_FINE_TICKS) != 0;
	int64_t floor_ns = fine ? MIN_FINE_TICK_NS : MIN_TICK_NS;

	if (config->tick_duration_ns >= floor_ns)
		return false;
	config->tick_duration_ns = floor_ns;
	*warning = fine ? "tick_duration_ns is below 10 us, 10 us is used"
			: "tick_duration_ns is below 1 ms, 1 ms is used (HWT_FINE_TICKS allows less)";
	return true;
}

int hwt_config_resolve(hwt_config *out, const hwt_config *in)
{
	hwt_config config = HWT_CONFIG_INIT;
	const char *warning;
	bool raised;
	int rc;

	rc = in != NULL ? sized_read(&config, sizeof(config), in, in->size, field_ends, FIELDS) : 0;
	if (rc != 0)
		return rc;
	warning = wrong(&config);
	if (warning != NULL)
		return hwt_config_refuse(&config, warning);
	if (!has_clock(config.clock))
		return ENOTSUP;
	config.size = sizeof(config);
	config.ticks_per_wheel = round_up_to_power_of_two(config.ticks_per_wheel);
	/* Levels with one bucket each would together reach no further than one level. */
	if (config.wheel == HWT_WHEEL_HIERARCHICAL && config.ticks_per_wheel == 1)
		config.ticks_per_wheel = 2;
	if (config.max_pending_timeouts < 0)
		config.max_pending_timeouts = 0;
	raised = raise_tick(&config, &warning);
	if (config.tick_duration_ns >= INT64_MAX / config.ticks_per_wheel)
		return hwt_config_refuse(&config, "tick_duration_ns is not below INT64_MAX / ticks_per_wheel");
	if (raised)
		hwt_config_warn(&config, warning);
	*out = config;
	return 0;
}

int hwt_config_copy_out(hwt_config *out, const hwt_config *config)
{
	size_t known = sized_known(field_ends, FIELDS, out->size);

	if (known == 0)
		return EINVAL;
	sized_write(out, out->size, config, known);
	/* The library has no copy of the thread attributes, and does not know how long the caller's are valid. */
	if (known > offsetof(hwt_config, thread_attr))
		out->thread_attr = NULL;
	return 0;
}
