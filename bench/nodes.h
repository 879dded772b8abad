/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nodes for rivals whose users would pool the objects that they hand to the library.
 *
 * Structure: each thread keeps some free nodes.  A thread with two batches hands one to a shared depot, from which a
 * thread without nodes takes a batch.  So nodes that one thread takes and another gives back circulate, at one lock for
 * NODES_BATCH operations.  New nodes are zeroed.  The first word of a node is a pointer that the user may set.
 *
 * C and C++.  One pool a program file: the caches are static thread-locals.
 */
#ifndef BENCH_NODES_H
#define BENCH_NODES_H

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#define NODES_BATCH 256

struct nodes_link {
	struct nodes_link *next;
};

struct nodes_list {
	void **items;
	size_t count, room;
};

struct nodes {
	size_t size; /* of a node */
	pthread_mutex_t mutex;
	struct nodes_list depot;  /* first nodes of batches */
	struct nodes_list chunks; /* of NODES_BATCH nodes each */
};

static __thread struct nodes_link *nodes_free;
static __thread size_t nodes_count;

static inline void nodes_init(struct nodes *nodes, size_t size)
{
	nodes->size = (size + 15) & ~(size_t)15;
	pthread_mutex_init(&nodes->mutex, NULL);
	nodes->depot.items = nodes->chunks.items = NULL;
	nodes->depot.count = nodes->chunks.count = 0;
	nodes->depot.room = nodes->chunks.room = 0;
}

static inline int nodes_append(struct nodes_list *list, void *item)
{
	if (list->count == list->room) {
		size_t room = list->room ? 2 * list->room : 64;
		void **items = (void **)realloc(list->items, room * sizeof(*items));

		if (!items)
			return 0;
		list->items = items;
		list->room = room;
	}
	list->items[list->count++] = item;
	return 1;
}

/* Returns a chain of new nodes.  The caller holds the mutex. */
static inline struct nodes_link *nodes_carve(struct nodes *nodes)
{
	char *chunk = (char *)calloc(NODES_BATCH, nodes->size);

	if (!chunk || !nodes_append(&nodes->chunks, chunk))
		return NULL; /* the bench then ends */
	for (size_t i = 0; i + 1 < NODES_BATCH; i++)
		((struct nodes_link *)(void *)(chunk + i * nodes->size))->next =
		    (struct nodes_link *)(void *)(chunk + (i + 1) * nodes->size);
	return (struct nodes_link *)(void *)chunk;
}

static inline void *nodes_take(struct nodes *nodes)
{
	struct nodes_link *node;

	if (!nodes_free) {
		pthread_mutex_lock(&nodes->mutex);
		nodes_free = nodes->depot.count ? (struct nodes_link *)nodes->depot.items[--nodes->depot.count]
						: nodes_carve(nodes);
		pthread_mutex_unlock(&nodes->mutex);
		nodes_count = nodes_free ? NODES_BATCH : 0;
		if (!nodes_free)
			return NULL;
	}
	node = nodes_free;
	nodes_free = node->next;
	nodes_count--;
	return node;
}

static inline void nodes_give(struct nodes *nodes, void *item)
{
	struct nodes_link *node = (struct nodes_link *)item;

	node->next = nodes_free;
	nodes_free = node;
	if (++nodes_count == 2 * NODES_BATCH) {
		struct nodes_link *batch = nodes_free, *last = batch;

		for (size_t i = 1; i < NODES_BATCH; i++)
			last = last->next;
		nodes_free = last->next;
		last->next = NULL;
		nodes_count = NODES_BATCH;
		pthread_mutex_lock(&nodes->mutex);
		if (!nodes_append(&nodes->depot, batch))
			abort();
		pthread_mutex_unlock(&nodes->mutex);
	}
}

/* Calls look(node) for each node, taken or free, and returns the sum of the answers. */
static inline uint64_t nodes_each(struct nodes *nodes, uint64_t (*look)(void *node))
{
	uint64_t sum = 0;

	for (size_t i = 0; i < nodes->chunks.count; i++)
		for (size_t k = 0; k < NODES_BATCH; k++)
			sum += look((char *)nodes->chunks.items[i] + k * nodes->size);
	return sum;
}

/* Frees all nodes.  The threads that have a cache have ended, or use no pool any more. */
static inline void nodes_destroy(struct nodes *nodes)
{
	for (size_t i = 0; i < nodes->chunks.count; i++)
		free(nodes->chunks.items[i]);
	free(nodes->chunks.items);
	free(nodes->depot.items);
	pthread_mutex_destroy(&nodes->mutex);
}

#endif
