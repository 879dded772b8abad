/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Subjects that are wrong on purpose, for test/bench.sh: one loses timeouts, one is early, one runs cancelled timeouts.
 * They take part only if they are named (-S).
 */
#include "measure.h"
#include "rivals.h"

#include <string.h>

#define EACH 100

static uint64_t calls;

static int lost_schedule_at(void *timer, void *arg, int64_t deadline_ns, struct handle *out)
{
	if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % EACH != 0)
		return subject_hwt.schedule_at(timer, arg, deadline_ns, out);
	memset(out, 0, sizeof(*out));
	return 0;
}

static int lost_schedule(void *timer, void *arg, int64_t delay_ns, struct handle *out)
{
	return lost_schedule_at(timer, arg, now_ns() + delay_ns, out);
}

static int early_schedule(void *timer, void *arg, int64_t delay_ns, struct handle *out)
{
	return subject_hwt.schedule(timer, arg, delay_ns - 50 * NS_PER_MS, out);
}

static int early_schedule_at(void *timer, void *arg, int64_t deadline_ns, struct handle *out)
{
	return subject_hwt.schedule_at(timer, arg, deadline_ns - 50 * NS_PER_MS, out);
}

static int lying_cancel(void *timer, struct handle *handle)
{
	if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % EACH != 0)
		return subject_hwt.cancel(timer, handle);
	return 0;
}

static void *broken_init(const struct subject_config *config, subject_task *task)
{
	return subject_hwt.init(config, task);
}

static int broken_schedule(void *timer, void *arg, int64_t delay_ns, struct handle *out)
{
	return subject_hwt.schedule(timer, arg, delay_ns, out);
}

static int broken_schedule_at(void *timer, void *arg, int64_t deadline_ns, struct handle *out)
{
	return subject_hwt.schedule_at(timer, arg, deadline_ns, out);
}

static int broken_cancel(void *timer, struct handle *handle)
{
	return subject_hwt.cancel(timer, handle);
}

static uint64_t broken_destroy(void *timer)
{
	return subject_hwt.destroy(timer);
}

static const char *broken_version(void)
{
	return "(wrong on purpose)";
}

const struct subject subject_broken_lost = {
	.name = "broken-lost",
	.version = broken_version,
	.init = broken_init,
	.schedule = lost_schedule,
	.schedule_at = lost_schedule_at,
	.cancel = broken_cancel,
	.destroy = broken_destroy,
};

const struct subject subject_broken_early = {
	.name = "broken-early",
	.version = broken_version,
	.init = broken_init,
	.schedule = early_schedule,
	.schedule_at = early_schedule_at,
	.cancel = broken_cancel,
	.destroy = broken_destroy,
};

const struct subject subject_broken_cancel = {
	.name = "broken-cancel",
	.version = broken_version,
	.init = broken_init,
	.schedule = broken_schedule,
	.schedule_at = broken_schedule_at,
	.cancel = lying_cancel,
	.destroy = broken_destroy,
};
