/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The plainest timer there is: one mutex, one binary heap of deadlines, one condition variable.
 *
 * Configuration: nodes pooled; the heap holds deadlines beside pointers, so that sifting touches no node it does not
 * move; the worker is woken only by a new first deadline, and takes what is due in batches.
 */
#include "measure.h"
#include "nodes.h"
#include "rivals.h"

#include <errno.h>
#include <stdbool.h>

#define BATCH 64

struct heap_node {
	void *link;
	void *arg;
	size_t at; /* index in the heap, or NOWHERE */
};

#define NOWHERE SIZE_MAX

struct entry {
	int64_t deadline_ns;
	struct heap_node *node;
};

static struct heap {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct entry *entries;
	size_t count, room;
	bool stop;
	subject_task *task;
	pthread_t thread;
	struct nodes nodes;
} heap;

static void place(size_t at, struct entry entry)
{
	heap.entries[at] = entry;
	entry.node->at = at;
}

static void sift_up(size_t at, struct entry entry)
{
	for (; at > 0 && heap.entries[(at - 1) / 2].deadline_ns > entry.deadline_ns; at = (at - 1) / 2)
		place(at, heap.entries[(at - 1) / 2]);
	place(at, entry);
}

static void sift_down(size_t at, struct entry entry)
{
	size_t child;

	for (; (child = 2 * at + 1) < heap.count; at = child) {
		if (child + 1 < heap.count && heap.entries[child + 1].deadline_ns < heap.entries[child].deadline_ns)
			child++;
		if (heap.entries[child].deadline_ns >= entry.deadline_ns)
			break;
		place(at, heap.entries[child]);
	}
	place(at, entry);
}

static void sift(size_t at, struct entry entry)
{
	if (at > 0 && heap.entries[(at - 1) / 2].deadline_ns > entry.deadline_ns)
		sift_up(at, entry);
	else
		sift_down(at, entry);
}

static void take_out(size_t at)
{
	struct entry last = heap.entries[--heap.count];

	heap.entries[at].node->at = NOWHERE;
	if (at < heap.count)
		sift(at, last);
}

static void *heap_main(void *unused)
{
	struct heap_node *due[BATCH];

	(void)unused;
	pthread_mutex_lock(&heap.mutex);
	while (!heap.stop) {
		int64_t now = now_ns();
		size_t count = 0;

		for (; count < BATCH && heap.count > 0 && heap.entries[0].deadline_ns <= now; count++) {
			due[count] = heap.entries[0].node;
			take_out(0);
		}
		if (count > 0) {
			pthread_mutex_unlock(&heap.mutex);
			for (size_t i = 0; i < count; i++) {
				heap.task(due[i]->arg);
				nodes_give(&heap.nodes, due[i]);
			}
			pthread_mutex_lock(&heap.mutex);
		} else if (heap.count > 0) {
			int64_t first_ns = heap.entries[0].deadline_ns;
			struct timespec until = { .tv_sec = first_ns / NS_PER_S, .tv_nsec = first_ns % NS_PER_S };

			pthread_cond_timedwait(&heap.changed, &heap.mutex, &until);
		} else {
			pthread_cond_wait(&heap.changed, &heap.mutex);
		}
	}
	pthread_mutex_unlock(&heap.mutex);
	return NULL;
}

static void *heap_init(const struct subject_config *config, subject_task *task)
{
	pthread_condattr_t attr;

	(void)config;
	heap.task = task;
	heap.stop = false;
	heap.count = 0;
	nodes_init(&heap.nodes, sizeof(struct heap_node));
	pthread_mutex_init(&heap.mutex, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&heap.changed, &attr);
	pthread_condattr_destroy(&attr);
	return pthread_create(&heap.thread, NULL, heap_main, NULL) == 0 ? &heap : NULL;
}

/* Makes room for one more.  The caller holds the mutex. */
static int make_room(void)
{
	size_t room = heap.room ? 2 * heap.room : 1024;
	struct entry *entries;

	if (heap.count < heap.room)
		return 0;
	entries = realloc(heap.entries, room * sizeof(*entries));
	if (!entries)
		return ENOMEM;
	heap.entries = entries;
	heap.room = room;
	return 0;
}

static int heap_schedule_at(void *timer, void *arg, int64_t deadline_ns, struct handle *out)
{
	struct heap_node *node = nodes_take(&heap.nodes);
	bool first;
	int rc;

	(void)timer;
	if (!node)
		return ENOMEM;
	node->arg = arg;
	out->pointer = node;
	pthread_mutex_lock(&heap.mutex);
	rc = make_room();
	if (rc == 0) {
		heap.count++;
		sift_up(heap.count - 1, (struct entry){ deadline_ns, node });
	}
	first = heap.count > 0 && heap.entries[0].node == node;
	pthread_mutex_unlock(&heap.mutex);
	if (first)
		pthread_cond_signal(&heap.changed);
	return rc;
}

static int heap_schedule(void *timer, void *arg, int64_t delay_ns, struct handle *out)
{
	return heap_schedule_at(timer, arg, now_ns() + delay_ns, out);
}

static int heap_cancel(void *timer, struct handle *handle)
{
	struct heap_node *node = handle->pointer;
	bool pending;

	(void)timer;
	pthread_mutex_lock(&heap.mutex);
	pending = node->at != NOWHERE;
	if (pending)
		take_out(node->at);
	pthread_mutex_unlock(&heap.mutex);
	if (pending)
		nodes_give(&heap.nodes, node);
	return pending ? 0 : EBUSY;
}

static int heap_reschedule(void *timer, struct handle *handle, int64_t delay_ns)
{
	struct heap_node *node = handle->pointer;
	int64_t deadline_ns = now_ns() + delay_ns;
	bool pending, first;

	(void)timer;
	pthread_mutex_lock(&heap.mutex);
	pending = node->at != NOWHERE;
	if (pending)
		sift(node->at, (struct entry){ deadline_ns, node });
	first = pending && node->at == 0;
	pthread_mutex_unlock(&heap.mutex);
	if (first)
		pthread_cond_signal(&heap.changed);
	return pending ? 0 : EBUSY;
}

static uint64_t heap_destroy(void *timer)
{
	uint64_t left;

	(void)timer;
	pthread_mutex_lock(&heap.mutex);
	heap.stop = true;
	pthread_mutex_unlock(&heap.mutex);
	pthread_cond_signal(&heap.changed);
	pthread_join(heap.thread, NULL);
	left = heap.count;
	free(heap.entries);
	nodes_destroy(&heap.nodes);
	return left;
}

static const char *heap_version(void)
{
	return "(mutex, binary heap, condition variable; ours)";
}

const struct subject subject_heap = {
	.name = "heap",
	.version = heap_version,
	.init = heap_init,
	.schedule = heap_schedule,
	.schedule_at = heap_schedule_at,
	.cancel = heap_cancel,
	.reschedule = heap_reschedule,
	.destroy = heap_destroy,
	.churn_max = 10000000,
};
