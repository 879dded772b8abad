/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libuv: its loop is not for other threads, so they leave nodes in a list and wake it through uv_async_send.
 *
 * Configuration: one list under one mutex, which the loop takes as a whole; a wake-up only for the first node in it;
 * nodes pooled, uv_timer_init once each.  A cancel of a node that the loop has not seen yet costs it nothing more.
 * libuv counts in milliseconds and caches the time: the loop updates it before each batch.
 */
#include "nodes.h"
#include "subject.h"

#include <errno.h>
#include <stdbool.h>
#include <uv.h>

#define STEPS 64
#define NS_PER_MS INT64_C(1000000)

struct uv_node {
	struct uv_node *next; /* in the list */
	void *arg;
	int64_t deadline_ns;
	bool pending; /* this and the next two are under the mutex */
	bool listed;
	bool free_me; /* the loop frees the node when it comes to it */
	bool ready;   /* uv_timer_init has been called; the loop's */
	uv_timer_t timer;
};

static struct loop {
	uv_loop_t loop;
	uv_async_t async;
	pthread_mutex_t mutex;
	struct uv_node *first, **last;
	bool stop;
	subject_task *task;
	pthread_t thread;
	struct nodes nodes;
} loop;

/* libuv's clock. */
static int64_t clock_ns(void)
{
	return (int64_t)uv_hrtime();
}

static void fire(uv_timer_t *timer)
{
	struct uv_node *node = timer->data;
	bool run, mine;

	pthread_mutex_lock(&loop.mutex);
	run = node->pending && node->deadline_ns <= clock_ns(); /* else the node has been moved, and is listed */
	mine = run && !node->listed;
	if (run) {
		node->pending = false;
		node->free_me = node->listed;
	}
	pthread_mutex_unlock(&loop.mutex);
	if (run)
		loop.task(node->arg);
	if (mine)
		nodes_give(&loop.nodes, node);
}

/*
 * Starts a timer, in the loop.  libuv's time is in whole milliseconds, rounded down: a deadline that is rounded up is
 * never early.
 */
static void start(struct uv_node *node, int64_t deadline_ns)
{
	uint64_t at_ms = (uint64_t)((deadline_ns + NS_PER_MS - 1) / NS_PER_MS), now_ms = uv_now(&loop.loop);

	if (!node->ready) {
		uv_timer_init(&loop.loop, &node->timer);
		node->timer.data = node;
		node->ready = true;
	}
	uv_timer_start(&node->timer, fire, at_ms > now_ms ? at_ms - now_ms : 0, 0);
}

struct step {
	struct uv_node *node;
	int64_t deadline_ns;
	bool pending, free_me;
};

/* Takes the next steps from a list of nodes.  Returns the rest of the list.  The caller holds the mutex. */
static struct uv_node *take_steps(struct uv_node *node, struct step *steps, size_t *count)
{
	for (*count = 0; node && *count < STEPS; (*count)++) {
		struct uv_node *next = node->next;

		steps[*count] = (struct step){ node, node->deadline_ns, node->pending, node->free_me };
		node->listed = node->free_me = false;
		node = next;
	}
	return node;
}

static void take_list(uv_async_t *async)
{
	struct step steps[STEPS];
	struct uv_node *rest;
	size_t count;

	(void)async;
	pthread_mutex_lock(&loop.mutex);
	rest = loop.first;
	loop.first = NULL;
	loop.last = &loop.first;
	if (loop.stop)
		uv_stop(&loop.loop);
	rest = take_steps(rest, steps, &count);
	pthread_mutex_unlock(&loop.mutex);
	uv_update_time(&loop.loop);
	while (count > 0) {
		for (size_t i = 0; i < count; i++) {
			if (steps[i].pending)
				start(steps[i].node, steps[i].deadline_ns);
			else if (steps[i].node->ready)
				uv_timer_stop(&steps[i].node->timer);
			if (steps[i].free_me)
				nodes_give(&loop.nodes, steps[i].node);
		}
		pthread_mutex_lock(&loop.mutex);
		rest = take_steps(rest, steps, &count);
		pthread_mutex_unlock(&loop.mutex);
	}
}

static void *loop_main(void *unused)
{
	(void)unused;
	uv_run(&loop.loop, UV_RUN_DEFAULT);
	return NULL;
}

static void *loop_init(const struct subject_config *config, subject_task *task)
{
	(void)config;
	loop.task = task;
	loop.last = &loop.first;
	pthread_mutex_init(&loop.mutex, NULL);
	nodes_init(&loop.nodes, sizeof(struct uv_node));
	if (uv_loop_init(&loop.loop) != 0 || uv_async_init(&loop.loop, &loop.async, take_list) != 0)
		return NULL;
	return pthread_create(&loop.thread, NULL, loop_main, NULL) == 0 ? &loop : NULL;
}

/* Puts a node on the list.  Returns true if the loop has to be woken.  The caller holds the mutex. */
static bool list(struct uv_node *node)
{
	bool first = !loop.first;

	if (node->listed)
		return false;
	node->listed = true;
	node->next = NULL;
	*loop.last = node;
	loop.last = &node->next;
	return first;
}

static int loop_schedule_at(void *timer, void *arg, int64_t deadline_ns, struct handle *out)
{
	struct uv_node *node = nodes_take(&loop.nodes);
	bool wake;

	(void)timer;
	if (!node)
		return ENOMEM;
	node->arg = arg;
	node->deadline_ns = deadline_ns;
	out->pointer = node;
	pthread_mutex_lock(&loop.mutex);
	node->pending = true;
	wake = list(node);
	pthread_mutex_unlock(&loop.mutex);
	if (wake)
		uv_async_send(&loop.async);
	return 0;
}

static int loop_schedule(void *timer, void *arg, int64_t delay_ns, struct handle *out)
{
	return loop_schedule_at(timer, arg, clock_ns() + delay_ns, out);
}

static int loop_cancel(void *timer, struct handle *handle)
{
	struct uv_node *node = handle->pointer;
	bool pending, wake = false;

	(void)timer;
	pthread_mutex_lock(&loop.mutex);
	pending = node->pending;
	if (pending) {
		node->pending = false;
		node->free_me = true;
		wake = list(node);
	}
	pthread_mutex_unlock(&loop.mutex);
	if (wake)
		uv_async_send(&loop.async);
	return pending ? 0 : EBUSY;
}

static int loop_reschedule(void *timer, struct handle *handle, int64_t delay_ns)
{
	struct uv_node *node = handle->pointer;
	int64_t deadline_ns = clock_ns() + delay_ns;
	bool pending, wake = false;

	(void)timer;
	pthread_mutex_lock(&loop.mutex);
	pending = node->pending;
	if (pending) {
		node->deadline_ns = deadline_ns;
		wake = list(node);
	}
	pthread_mutex_unlock(&loop.mutex);
	if (wake)
		uv_async_send(&loop.async);
	return pending ? 0 : EBUSY;
}

/* Returns 1 if the node is pending, and in its place: in the loop's heap or in the list. */
static uint64_t is_pending(void *item)
{
	const struct uv_node *node = item;

	return node->pending && (node->listed || (node->ready && uv_is_active((const uv_handle_t *)&node->timer)));
}

static void close_one(uv_handle_t *handle, void *unused)
{
	(void)unused;
	uv_close(handle, NULL);
}

static uint64_t loop_destroy(void *timer)
{
	uint64_t left;

	(void)timer;
	pthread_mutex_lock(&loop.mutex);
	loop.stop = true;
	pthread_mutex_unlock(&loop.mutex);
	uv_async_send(&loop.async);
	pthread_join(loop.thread, NULL);
	left = nodes_each(&loop.nodes, is_pending);
	uv_walk(&loop.loop, close_one, NULL);
	uv_run(&loop.loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop.loop);
	nodes_destroy(&loop.nodes);
	return left;
}

extern const struct subject rival;
const struct subject rival = {
	.size = sizeof(struct subject),
	.name = "libuv",
	.version = uv_version_string,
	.init = loop_init,
	.schedule = loop_schedule,
	.schedule_at = loop_schedule_at,
	.cancel = loop_cancel,
	.reschedule = loop_reschedule,
	.destroy = loop_destroy,
	.churn_max = 5000000,
	.rank = RANK_OTHER,
};
