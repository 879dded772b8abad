/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GLib: a source for each timeout, attached to the main context of one thread.
 *
 * Configuration: sources of our own with a ready time in microseconds (g_timeout_source_new counts in milliseconds).
 * GLib allocates each source, which cannot be pooled.  Each attach wakes the loop, which looks at every source: so it
 * gets few timeouts at once.
 */
#include "subject.h"

#include <errno.h>
#include <glib.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#define PENDING_MAX 10000

struct timeout_source {
	GSource base;
	void *arg;
	gint pending;
};

static struct loop {
	GMainContext *context;
	GMainLoop *loop;
	guint64 left; /* sources that were freed while they were pending */
	subject_task *task;
	pthread_t thread;
} loop;

static gboolean dispatch(GSource *base, GSourceFunc callback, gpointer data)
{
	struct timeout_source *source = (struct timeout_source *)base;

	(void)callback;
	(void)data;
	if (g_atomic_int_compare_and_exchange(&source->pending, TRUE, FALSE))
		loop.task(source->arg);
	return G_SOURCE_REMOVE;
}

static void finalize(GSource *base)
{
	const struct timeout_source *source = (const struct timeout_source *)base;

	loop.left += source->pending != FALSE; /* only in loop_destroy, when there is one thread */
}

static GSourceFuncs functions = { .dispatch = dispatch, .finalize = finalize };

static void *loop_main(void *unused)
{
	(void)unused;
	g_main_context_push_thread_default(loop.context);
	g_main_loop_run(loop.loop);
	g_main_context_pop_thread_default(loop.context);
	return NULL;
}

static void *loop_init(const struct subject_config *config, subject_task *task)
{
	(void)config;
	loop.task = task;
	loop.context = g_main_context_new();
	loop.loop = g_main_loop_new(loop.context, FALSE);
	return pthread_create(&loop.thread, NULL, loop_main, NULL) == 0 ? &loop : NULL;
}

static int loop_schedule_at(void *timer, void *arg, int64_t deadline_ns, struct handle *out)
{
	GSource *base = g_source_new(&functions, sizeof(struct timeout_source));
	struct timeout_source *source = (struct timeout_source *)base;

	(void)timer;
	source->arg = arg;
	source->pending = TRUE;
	out->pointer = base;
	g_source_set_ready_time(base, (deadline_ns + 999) / 1000);
	g_source_attach(base, loop.context);
	g_source_unref(base); /* the context holds a reference */
	return 0;
}

static int loop_schedule(void *timer, void *arg, int64_t delay_ns, struct handle *out)
{
	/* g_get_monotonic_time is rounded down. */
	return loop_schedule_at(timer, arg, (g_get_monotonic_time() + 1) * 1000 + delay_ns, out);
}

/* A timeout that has run has no source any more; no scenario cancels one. */
static int loop_cancel(void *timer, struct handle *handle)
{
	struct timeout_source *source = handle->pointer;

	(void)timer;
	if (!g_atomic_int_compare_and_exchange(&source->pending, TRUE, FALSE))
		return EBUSY;
	g_source_destroy(&source->base);
	return 0;
}

static int loop_reschedule(void *timer, struct handle *handle, int64_t delay_ns)
{
	(void)timer;
	g_source_set_ready_time(handle->pointer, g_get_monotonic_time() + 1 + (delay_ns + 999) / 1000);
	return 0;
}

static uint64_t loop_destroy(void *timer)
{
	(void)timer;
	g_main_loop_quit(loop.loop);
	pthread_join(loop.thread, NULL);
	g_main_loop_unref(loop.loop);
	g_main_context_unref(loop.context);
	return loop.left;
}

static const char *loop_version(void)
{
	static char version[32];

	(void)snprintf(version, sizeof(version), "%u.%u.%u", glib_major_version, glib_minor_version,
		       glib_micro_version);
	return version;
}

static size_t loop_pending_max(void)
{
	return PENDING_MAX;
}

extern const struct subject rival;
const struct subject rival = {
	.size = sizeof(struct subject),
	.name = "glib",
	.version = loop_version,
	.init = loop_init,
	.schedule = loop_schedule,
	.schedule_at = loop_schedule_at,
	.cancel = loop_cancel,
	.reschedule = loop_reschedule,
	.destroy = loop_destroy,
	.pending_max = loop_pending_max,
	.churn_max = 200000,
	.rank = RANK_OTHER,
};
