/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shape of brpc's TimerThread, written for this bench: 13 lists with a lock each, by thread, and one thread with a
 * heap.
 *
 * Configuration: a timeout goes to the front of the list of its thread, whose lock guards the earliest time in it; a new
 * earliest one of all wakes the thread.  That takes all lists, moves them into its heap, and runs what is due.  A cancel
 * is one exchange on the node, and nothing is given back before the node is due, or found cancelled in a list.
 */
#include "measure.h"
#include "nodes.h"
#include "rivals.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#define LISTS 13

/* The word of a node: twice the number of timeouts that it has served, + 1 while one of them is pending. */
struct bucket_node {
	struct bucket_node *next; /* in a list */
	void *arg;
	int64_t deadline_ns;
	_Atomic uint64_t word;
};

struct list {
	_Alignas(UNSHARED) pthread_mutex_t mutex;
	struct bucket_node *first;
	int64_t earliest_ns;
};

static struct buckets {
	struct list lists[LISTS];
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	int64_t earliest_ns; /* the time until which the thread sleeps, or the earliest since it took the lists */
	bool stop;
	struct bucket_node **heap; /* this and the fields below are the thread's */
	size_t count, room;
	subject_task *task;
	pthread_t thread;
	struct nodes nodes;
} buckets;

static _Atomic unsigned threads;
static __thread unsigned own_list; /* the list's index + 1; 0: none yet */

static struct list *home(void)
{
	if (own_list == 0)
		own_list = 1 + atomic_fetch_add(&threads, 1) % LISTS;
	return &buckets.lists[own_list - 1];
}

/* Takes the edge from pending.  Either a cancel or the thread gets it. */
static bool claim(struct bucket_node *node, uint64_t word)
{
	return atomic_compare_exchange_strong(&node->word, &word, word + 1);
}

static void heap_push(struct bucket_node *node)
{
	size_t at = buckets.count++;

	if (at == buckets.room) {
		buckets.room = buckets.room ? 2 * buckets.room : 1024;
		buckets.heap = realloc(buckets.heap, buckets.room * sizeof(struct bucket_node *));
		if (!buckets.heap)
			abort();
	}
	for (; at > 0 && buckets.heap[(at - 1) / 2]->deadline_ns > node->deadline_ns; at = (at - 1) / 2)
		buckets.heap[at] = buckets.heap[(at - 1) / 2];
	buckets.heap[at] = node;
}

static struct bucket_node *heap_pop(void)
{
	struct bucket_node *first = buckets.heap[0], *last = buckets.heap[--buckets.count];
	size_t at = 0, child;

	for (; (child = 2 * at + 1) < buckets.count; at = child) {
		if (child + 1 < buckets.count &&
		    buckets.heap[child + 1]->deadline_ns < buckets.heap[child]->deadline_ns)
			child++;
		if (buckets.heap[child]->deadline_ns >= last->deadline_ns)
			break;
		buckets.heap[at] = buckets.heap[child];
	}
	buckets.heap[at] = last;
	return first;
}

static bool is_pending(struct bucket_node *node)
{
	return (atomic_load(&node->word) & 1) != 0;
}

/* Moves the nodes of the lists into the heap, but for those that have been cancelled. */
static void take_lists(void)
{
	for (unsigned i = 0; i < LISTS; i++) {
		struct list *list = &buckets.lists[i];
		struct bucket_node *node, *next;

		pthread_mutex_lock(&list->mutex);
		node = list->first;
		list->first = NULL;
		list->earliest_ns = INT64_MAX;
		pthread_mutex_unlock(&list->mutex);
		for (; node != NULL; node = next) {
			next = node->next;
			if (is_pending(node))
				heap_push(node);
			else
				nodes_give(&buckets.nodes, node);
		}
	}
}

static void run_due(void)
{
	while (buckets.count > 0 && (!is_pending(buckets.heap[0]) || buckets.heap[0]->deadline_ns <= now_ns())) {
		struct bucket_node *node = heap_pop();
		uint64_t word = atomic_load(&node->word);

		if ((word & 1) != 0 && claim(node, word))
			buckets.task(node->arg);
		nodes_give(&buckets.nodes, node);
	}
}

static void *buckets_main(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&buckets.mutex);
	while (!buckets.stop) {
		int64_t first_ns;

		buckets.earliest_ns = INT64_MAX;
		pthread_mutex_unlock(&buckets.mutex);
		take_lists();
		run_due();
		first_ns = buckets.count > 0 ? buckets.heap[0]->deadline_ns : INT64_MAX;
		pthread_mutex_lock(&buckets.mutex);
		/* An earlier timeout has come since the lists were taken: take them again. */
		if (buckets.stop || buckets.earliest_ns < first_ns)
			continue;
		buckets.earliest_ns = first_ns;
		while (!buckets.stop && buckets.earliest_ns == first_ns && now_ns() < first_ns) {
			struct timespec until = { .tv_sec = first_ns / NS_PER_S, .tv_nsec = first_ns % NS_PER_S };

			if (first_ns == INT64_MAX)
				pthread_cond_wait(&buckets.changed, &buckets.mutex);
			else
				pthread_cond_timedwait(&buckets.changed, &buckets.mutex, &until);
		}
	}
	pthread_mutex_unlock(&buckets.mutex);
	return NULL;
}

static void *buckets_init(const struct subject_config *config, subject_task *task)
{
	pthread_condattr_t attr;

	(void)config;
	buckets.task = task;
	buckets.stop = false;
	buckets.count = 0;
	nodes_init(&buckets.nodes, sizeof(struct bucket_node));
	for (unsigned i = 0; i < LISTS; i++) {
		pthread_mutex_init(&buckets.lists[i].mutex, NULL);
		buckets.lists[i].earliest_ns = INT64_MAX;
	}
	pthread_mutex_init(&buckets.mutex, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&buckets.changed, &attr);
	pthread_condattr_destroy(&attr);
	return pthread_create(&buckets.thread, NULL, buckets_main, NULL) == 0 ? &buckets : NULL;
}

static int buckets_schedule_at(void *timer, void *arg, int64_t deadline_ns, struct handle *out)
{
	struct bucket_node *node = nodes_take(&buckets.nodes);
	struct list *list = home();
	bool earlier;

	(void)timer;
	if (!node)
		return ENOMEM;
	node->arg = arg;
	node->deadline_ns = deadline_ns;
	out->pointer = node;
	out->number = atomic_load(&node->word) + 1;
	atomic_store(&node->word, out->number);
	pthread_mutex_lock(&list->mutex);
	node->next = list->first;
	list->first = node;
	earlier = deadline_ns < list->earliest_ns;
	if (earlier)
		list->earliest_ns = deadline_ns;
	pthread_mutex_unlock(&list->mutex);
	if (!earlier)
		return 0;
	pthread_mutex_lock(&buckets.mutex);
	earlier = deadline_ns < buckets.earliest_ns;
	if (earlier)
		buckets.earliest_ns = deadline_ns;
	pthread_mutex_unlock(&buckets.mutex);
	if (earlier)
		pthread_cond_signal(&buckets.changed);
	return 0;
}

static int buckets_schedule(void *timer, void *arg, int64_t delay_ns, struct handle *out)
{
	return buckets_schedule_at(timer, arg, now_ns() + delay_ns, out);
}

static int buckets_cancel(void *timer, struct handle *handle)
{
	(void)timer;
	return claim(handle->pointer, handle->number) ? 0 : ENOENT;
}

static uint64_t buckets_destroy(void *timer)
{
	uint64_t left = 0;

	(void)timer;
	pthread_mutex_lock(&buckets.mutex);
	buckets.stop = true;
	pthread_mutex_unlock(&buckets.mutex);
	pthread_cond_signal(&buckets.changed);
	pthread_join(buckets.thread, NULL);
	take_lists();
	for (size_t i = 0; i < buckets.count; i++)
		left += is_pending(buckets.heap[i]);
	free(buckets.heap);
	nodes_destroy(&buckets.nodes);
	return left;
}

static const char *buckets_version(void)
{
	return "(13 locked lists by thread, one thread with a heap: brpc's shape; ours)";
}

const struct subject subject_buckets = {
	.name = "buckets",
	.version = buckets_version,
	.init = buckets_init,
	.schedule = buckets_schedule,
	.schedule_at = buckets_schedule_at,
	.cancel = buckets_cancel,
	.destroy = buckets_destroy,
	.churn_max = 20000000,
};
