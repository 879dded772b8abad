/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One timerfd for each timeout and a thread in epoll_wait.
 *
 * Configuration: descriptors stay open in pooled nodes, and stay in the epoll set, edge-triggered: a schedule and a
 * cancel are one system call each, an expiry none beside epoll_wait, which brings 256 of them.  The memory is the
 * kernel's, so RSS does not show it.  The subject can hold as many timeouts as the process may have descriptors.
 */
#include "measure.h"
#include "nodes.h"
#include "rivals.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define EVENTS 256
#define DESCRIPTORS_SPARE 3000 /* nodes in the caches of other threads, and all other descriptors */
#define DESCRIPTORS_MAX 200000 /* opening more would take long */

enum { IDLE, PENDING };

struct fd_node {
	void *link;
	void *arg;
	_Atomic int64_t deadline_ns;
	atomic_int state;
	int fd; /* 0: none yet */
};

static struct fds {
	int epoll, wake;
	subject_task *task;
	pthread_t thread;
	struct nodes nodes;
} fds;

static bool end(struct fd_node *node)
{
	int pending = PENDING;

	return atomic_compare_exchange_strong_explicit(&node->state, &pending, IDLE, memory_order_acq_rel,
						       memory_order_relaxed);
}

static void *fd_main(void *unused)
{
	struct epoll_event events[EVENTS];

	(void)unused;
	for (;;) {
		int count = epoll_wait(fds.epoll, events, EVENTS, -1);
		int64_t now = now_ns();

		for (int i = 0; i < count; i++) {
			struct fd_node *node = events[i].data.ptr;

			if (!node)
				return NULL;
			/*
			 * The event may be of an earlier use of the node, which was cancelled after epoll had picked
			 * the event up.
			 */
			if (atomic_load_explicit(&node->deadline_ns, memory_order_acquire) > now || !end(node))
				continue;
			fds.task(node->arg);
			nodes_give(&fds.nodes, node);
		}
	}
}

static void raise_limit(struct rlimit *limit)
{
	if (getrlimit(RLIMIT_NOFILE, limit) == 0 && limit->rlim_cur < limit->rlim_max) {
		limit->rlim_cur = limit->rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, limit);
	}
}

static size_t fd_pending_max(void)
{
	struct rlimit limit = { .rlim_cur = 1024, .rlim_max = 1024 };

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_max > DESCRIPTORS_MAX)
		return DESCRIPTORS_MAX;
	return limit.rlim_max > 2 * DESCRIPTORS_SPARE ? (size_t)limit.rlim_max - DESCRIPTORS_SPARE : 1;
}

static void *fd_init(const struct subject_config *config, subject_task *task)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };
	struct rlimit limit;

	(void)config;
	raise_limit(&limit);
	fds.task = task;
	fds.epoll = epoll_create1(EPOLL_CLOEXEC);
	fds.wake = eventfd(0, EFD_CLOEXEC);
	nodes_init(&fds.nodes, sizeof(struct fd_node));
	if (fds.epoll < 0 || fds.wake < 0 || epoll_ctl(fds.epoll, EPOLL_CTL_ADD, fds.wake, &event) != 0)
		return NULL;
	return pthread_create(&fds.thread, NULL, fd_main, NULL) == 0 ? &fds : NULL;
}

static int open_timer(struct fd_node *node)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.ptr = node };

	node->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (node->fd < 0) {
		node->fd = 0;
		return errno;
	}
	return epoll_ctl(fds.epoll, EPOLL_CTL_ADD, node->fd, &event) == 0 ? 0 : errno;
}

static int arm(const struct fd_node *node, int64_t deadline_ns)
{
	struct itimerspec when = { .it_value = { deadline_ns / NS_PER_S, deadline_ns % NS_PER_S } };

	return timerfd_settime(node->fd, TFD_TIMER_ABSTIME, &when, NULL) == 0 ? 0 : errno;
}

static int fd_schedule_at(void *timer, void *arg, int64_t deadline_ns, struct handle *out)
{
	struct fd_node *node = nodes_take(&fds.nodes);
	int rc;

	(void)timer;
	if (!node)
		return ENOMEM;
	rc = node->fd ? 0 : open_timer(node);
	if (rc != 0)
		return rc;
	node->arg = arg;
	out->pointer = node;
	atomic_store_explicit(&node->deadline_ns, deadline_ns, memory_order_relaxed); /* `state` publishes it */
	atomic_store_explicit(&node->state, PENDING, memory_order_release);
	return arm(node, deadline_ns);
}

static int fd_schedule(void *timer, void *arg, int64_t delay_ns, struct handle *out)
{
	return fd_schedule_at(timer, arg, now_ns() + delay_ns, out);
}

static int fd_cancel(void *timer, struct handle *handle)
{
	struct fd_node *node = handle->pointer;
	int rc;

	(void)timer;
	if (!end(node))
		return EBUSY;
	rc = arm(node, 0);
	nodes_give(&fds.nodes, node);
	return rc;
}

static int fd_reschedule(void *timer, struct handle *handle, int64_t delay_ns)
{
	struct fd_node *node = handle->pointer;
	int64_t deadline_ns = now_ns() + delay_ns;

	(void)timer;
	if (atomic_load_explicit(&node->state, memory_order_acquire) != PENDING)
		return EBUSY;
	atomic_store_explicit(&node->deadline_ns, deadline_ns, memory_order_release);
	return arm(node, deadline_ns);
}

static uint64_t leave(void *item)
{
	struct fd_node *node = item;

	if (node->fd)
		close(node->fd);
	return atomic_load(&node->state) == PENDING;
}

static uint64_t fd_destroy(void *timer)
{
	uint64_t one = 1, left;

	(void)timer;
	if (write(fds.wake, &one, sizeof(one)) != (ssize_t)sizeof(one))
		return UINT64_MAX;
	pthread_join(fds.thread, NULL);
	left = nodes_each(&fds.nodes, leave);
	close(fds.wake);
	close(fds.epoll);
	nodes_destroy(&fds.nodes);
	return left;
}

static const char *fd_version(void)
{
	return "(a timerfd for each timeout, epoll; the kernel's)";
}

const struct subject subject_timerfd = {
	.name = "timerfd",
	.version = fd_version,
	.init = fd_init,
	.schedule = fd_schedule,
	.schedule_at = fd_schedule_at,
	.cancel = fd_cancel,
	.reschedule = fd_reschedule,
	.destroy = fd_destroy,
	.pending_max = fd_pending_max,
	.churn_max = 1000000,
	.rank = RANK_OTHER,
};
