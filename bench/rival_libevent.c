/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libevent: event_add and event_del from any thread, one thread in event_base_loop.
 *
 * Configuration: evthread_use_pthreads; events inside pooled nodes and assigned once; the precise clock, and no cached
 * time (which is that of the last wake-up, and makes timers of other threads early); a common timeout, which is a queue
 * instead of a heap, where the run has one constant delay (S2).
 */
#include "nodes.h"
#include "subject.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <event2/thread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define NS_PER_S INT64_C(1000000000)

enum { IDLE, PENDING };

struct event_node {
	void *link;
	void *arg;
	struct event event;
	atomic_int state;
	bool assigned;
};

static struct loop {
	struct event_base *base;
	int64_t constant_ns;
	const struct timeval *common;
	subject_task *task;
	pthread_t thread;
	struct nodes nodes;
} loop;

static bool end(struct event_node *node)
{
	int pending = PENDING;

	return atomic_compare_exchange_strong_explicit(&node->state, &pending, IDLE, memory_order_acq_rel,
						       memory_order_relaxed);
}

static void fire(evutil_socket_t fd, short what, void *item)
{
	struct event_node *node = item;

	(void)fd;
	(void)what;
	if (!end(node))
		return; /* cancelled: event_del waits until this returns */
	loop.task(node->arg);
	nodes_give(&loop.nodes, node);
}

static void *loop_main(void *unused)
{
	(void)unused;
	event_base_loop(loop.base, EVLOOP_NO_EXIT_ON_EMPTY);
	return NULL;
}

static struct timeval timeval_of(int64_t ns)
{
	int64_t us = ns > 0 ? (ns + 999) / 1000 : 0;

	return (struct timeval){ .tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000) };
}

static void *event_init(const struct subject_config *config, subject_task *task)
{
	struct event_config *settings = event_config_new();

	if (!settings || evthread_use_pthreads() != 0)
		return NULL;
	event_config_set_flag(settings, EVENT_BASE_FLAG_PRECISE_TIMER);
	event_config_set_flag(settings, EVENT_BASE_FLAG_NO_CACHE_TIME);
	loop.base = event_base_new_with_config(settings);
	event_config_free(settings);
	if (!loop.base)
		return NULL;
	loop.task = task;
	loop.constant_ns = config->constant_ns;
	if (loop.constant_ns) {
		struct timeval delay = timeval_of(loop.constant_ns);

		loop.common = event_base_init_common_timeout(loop.base, &delay);
	}
	nodes_init(&loop.nodes, sizeof(struct event_node));
	return pthread_create(&loop.thread, NULL, loop_main, NULL) == 0 ? &loop : NULL;
}

static int add(struct event_node *node, int64_t delay_ns)
{
	struct timeval delay = timeval_of(delay_ns);
	const struct timeval *when = loop.common && delay_ns == loop.constant_ns ? loop.common : &delay;

	return event_add(&node->event, when) == 0 ? 0 : ENOMEM;
}

static int event_schedule(void *timer, void *arg, int64_t delay_ns, struct handle *out)
{
	struct event_node *node = nodes_take(&loop.nodes);

	(void)timer;
	if (!node)
		return ENOMEM;
	if (!node->assigned) {
		event_assign(&node->event, loop.base, -1, 0, fire, node);
		node->assigned = true;
	}
	node->arg = arg;
	out->pointer = node;
	atomic_store_explicit(&node->state, PENDING, memory_order_release);
	return add(node, delay_ns);
}

static int event_cancel_one(void *timer, struct handle *handle)
{
	struct event_node *node = handle->pointer;

	(void)timer;
	if (!end(node))
		return EBUSY;
	event_del(&node->event);
	nodes_give(&loop.nodes, node);
	return 0;
}

static int event_reschedule(void *timer, struct handle *handle, int64_t delay_ns)
{
	(void)timer;
	return add(handle->pointer, delay_ns); /* moves a pending event */
}

static uint64_t is_pending(void *item)
{
	struct event_node *node = item;

	return node->assigned && evtimer_pending(&node->event, NULL);
}

static uint64_t event_destroy(void *timer)
{
	uint64_t left;

	(void)timer;
	event_base_loopbreak(loop.base);
	pthread_join(loop.thread, NULL);
	left = nodes_each(&loop.nodes, is_pending);
	event_base_free(loop.base);
	nodes_destroy(&loop.nodes);
	return left;
}

extern const struct subject rival;
const struct subject rival = {
	.size = sizeof(struct subject),
	.name = "libevent",
	.version = event_get_version,
	.init = event_init,
	.schedule = event_schedule,
	.cancel = event_cancel_one,
	.reschedule = event_reschedule,
	.destroy = event_destroy,
	.churn_max = 5000000,
	.rank = RANK_OTHER,
};
