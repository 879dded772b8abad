/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The hashed wheel of the textbooks: one mutex, buckets that are linked lists, and in each tick the worker walks one
 * bucket and counts the remaining rounds of its members down.
 *
 * Configuration: nodes pooled, lists doubly linked so that a cancel is O(1); the tick and the number of buckets are
 * those of the run.
 */
#include "measure.h"
#include "nodes.h"
#include "rivals.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

struct book_node {
	struct book_node *next; /* of the bucket, or of the list of due nodes */
	struct book_node *prev; /* NULL: in no bucket */
	void *arg;
	uint64_t rounds;
};

static struct book {
	pthread_mutex_t mutex;
	struct book_node *heads; /* each the head of a ring */
	uint64_t mask;
	int64_t start_ns, tick_ns;
	int64_t tick; /* the last tick that has been handled */
	atomic_bool stop;
	subject_task *task;
	pthread_t thread;
	struct nodes nodes;
} book;

static void ring_insert(struct book_node *head, struct book_node *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

static void ring_remove(struct book_node *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	node->prev = NULL;
}

/* Inserts a node.  The caller holds the mutex. */
static void insert(struct book_node *node, int64_t deadline_ns)
{
	int64_t tick = (deadline_ns - book.start_ns + book.tick_ns - 1) / book.tick_ns;

	tick = tick > book.tick ? tick : book.tick + 1;
	node->rounds = (uint64_t)(tick - book.tick - 1) / (book.mask + 1);
	ring_insert(&book.heads[(uint64_t)tick & book.mask], node);
}

/* Returns the list of the nodes that are due at the next tick.  The caller holds the mutex. */
static struct book_node *collect(void)
{
	struct book_node *head = &book.heads[(uint64_t)++book.tick & book.mask], *due = NULL, **tail = &due, *next;

	for (struct book_node *node = head->next; node != head; node = next) {
		next = node->next;
		if (node->rounds-- > 0)
			continue;
		ring_remove(node);
		node->next = NULL;
		*tail = node;
		tail = &node->next;
	}
	return due;
}

static void *book_main(void *unused)
{
	(void)unused;
	while (!atomic_load_explicit(&book.stop, memory_order_acquire)) {
		struct book_node *due, *next;

		sleep_until(book.start_ns + (book.tick + 1) * book.tick_ns); /* only this thread writes the tick */
		pthread_mutex_lock(&book.mutex);
		due = collect();
		pthread_mutex_unlock(&book.mutex);
		for (; due; due = next) {
			next = due->next;
			book.task(due->arg);
			nodes_give(&book.nodes, due);
		}
	}
	return NULL;
}

static void *book_init(const struct subject_config *config, subject_task *task)
{
	book.task = task;
	book.mask = config->buckets - 1;
	book.tick_ns = config->tick_ns;
	book.tick = 0;
	book.heads = calloc(config->buckets, sizeof(*book.heads));
	if (!book.heads)
		return NULL;
	for (uint32_t i = 0; i < config->buckets; i++)
		book.heads[i].next = book.heads[i].prev = &book.heads[i];
	nodes_init(&book.nodes, sizeof(struct book_node));
	pthread_mutex_init(&book.mutex, NULL);
	book.start_ns = now_ns();
	return pthread_create(&book.thread, NULL, book_main, NULL) == 0 ? &book : NULL;
}

static int book_schedule_at(void *timer, void *arg, int64_t deadline_ns, struct handle *out)
{
	struct book_node *node = nodes_take(&book.nodes);

	(void)timer;
	if (!node)
		return ENOMEM;
	node->arg = arg;
	out->pointer = node;
	pthread_mutex_lock(&book.mutex);
	insert(node, deadline_ns);
	pthread_mutex_unlock(&book.mutex);
	return 0;
}

static int book_schedule(void *timer, void *arg, int64_t delay_ns, struct handle *out)
{
	return book_schedule_at(timer, arg, now_ns() + delay_ns, out);
}

static int book_cancel(void *timer, struct handle *handle)
{
	struct book_node *node = handle->pointer;
	bool pending;

	(void)timer;
	pthread_mutex_lock(&book.mutex);
	pending = node->prev != NULL;
	if (pending)
		ring_remove(node);
	pthread_mutex_unlock(&book.mutex);
	if (pending)
		nodes_give(&book.nodes, node);
	return pending ? 0 : EBUSY;
}

static int book_reschedule(void *timer, struct handle *handle, int64_t delay_ns)
{
	struct book_node *node = handle->pointer;
	int64_t deadline_ns = now_ns() + delay_ns;
	bool pending;

	(void)timer;
	pthread_mutex_lock(&book.mutex);
	pending = node->prev != NULL;
	if (pending) {
		ring_remove(node);
		insert(node, deadline_ns);
	}
	pthread_mutex_unlock(&book.mutex);
	return pending ? 0 : EBUSY;
}

static uint64_t book_destroy(void *timer)
{
	uint64_t left = 0;

	(void)timer;
	atomic_store_explicit(&book.stop, true, memory_order_release);
	pthread_join(book.thread, NULL);
	for (uint64_t i = 0; i <= book.mask; i++)
		for (const struct book_node *node = book.heads[i].next; node != &book.heads[i]; node = node->next)
			left++;
	free(book.heads);
	nodes_destroy(&book.nodes);
	return left;
}

static const char *book_version(void)
{
	return "(mutex, hashed wheel of linked lists, rounds counted down; ours)";
}

const struct subject subject_textbook = {
	.name = "textbook",
	.version = book_version,
	.init = book_init,
	.schedule = book_schedule,
	.schedule_at = book_schedule_at,
	.cancel = book_cancel,
	.reschedule = book_reschedule,
	.destroy = book_destroy,
	.churn_max = 10000000,
};
