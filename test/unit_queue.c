/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue of a lane: order, recycling, memory that runs out, two threads. */
#include "unit.h"
#include "lane/queue.h"

static bool push(struct hwt_queue *queue, uintptr_t value)
{
	hwt_node *node;

	queue_lock(queue);
	node = queue_node(queue);
	if (node != NULL)
		queue_push(queue, node, (void *)value);
	queue_unlock(queue);
	return node != NULL;
}

TEST(values_come_out_in_order)
{
	struct hwt_queue queue;

	REQUIRE(hwt_queue_init(&queue) == 0);
	CHECK(queue_is_empty(&queue) && queue_pop(&queue) == NULL);
	for (uintptr_t i = 1; i <= 10000; i++)
		CHECK(push(&queue, i));
	CHECK(!queue_is_empty(&queue));
	for (uintptr_t i = 1; i <= 10000; i++)
		CHECK((uintptr_t)queue_pop(&queue) == i);
	CHECK(queue_is_empty(&queue) && queue_pop(&queue) == NULL);
	hwt_queue_destroy(&queue);
}

TEST(nodes_are_used_again)
{
	struct hwt_queue queue;

	REQUIRE(hwt_queue_init(&queue) == 0);
	memory_is_back();
	for (uintptr_t i = 1; i <= 100000; i++) {
		CHECK(push(&queue, i) && push(&queue, i));
		CHECK((uintptr_t)queue_pop(&queue) == i && (uintptr_t)queue_pop(&queue) == i);
	}
	CHECK_INT(memory_asked, ==, 0);
	hwt_queue_destroy(&queue);
}

TEST(an_unused_node_is_kept)
{
	struct hwt_queue queue;

	REQUIRE(hwt_queue_init(&queue) == 0);
	memory_is_back();
	for (uintptr_t i = 1; i <= 1000; i++) {
		queue_lock(&queue);
		queue_node_unused(&queue, queue_node(&queue));
		queue_node_unused(&queue, queue_node(&queue));
		queue_unlock(&queue);
		CHECK(push(&queue, i) && (uintptr_t)queue_pop(&queue) == i);
	}
	CHECK_INT(memory_asked, ==, 0);
	hwt_queue_destroy(&queue);
}

TEST(without_memory_a_push_fails_and_what_is_in_stays)
{
	struct hwt_queue queue;
	uintptr_t pushed = 0;

	memory_fails(0, 1);
	CHECK_INT(hwt_queue_init(&queue), ==, ENOMEM);
	memory_is_back();
	REQUIRE(hwt_queue_init(&queue) == 0);
	memory_fails(0, UINT64_MAX);
	while (push(&queue, pushed + 1))
		pushed++;
	CHECK_INT(pushed, >, 0);
	for (uintptr_t i = 1; i <= pushed; i++)
		CHECK((uintptr_t)queue_pop(&queue) == i);
	CHECK(push(&queue, 7)); /* recycled */
	memory_is_back();
	for (uintptr_t i = 0; i < 1000; i++)
		CHECK(push(&queue, 8));
	hwt_queue_destroy(&queue);
}

#define THREADS 3
#define EACH 200000
#define EACH_BITS 24 /* so that a pointer of 32 bits has room for the thread */

static struct hwt_queue shared;

static void *producer(void *arg)
{
	for (uintptr_t i = 1; i <= EACH; i++)
		CHECK(push(&shared, (uintptr_t)arg << EACH_BITS | i));
	return NULL;
}

TEST(each_producers_order_survives_many_producers)
{
	pthread_t threads[THREADS];
	uintptr_t last[THREADS] = { 0 };

	REQUIRE(hwt_queue_init(&shared) == 0);
	for (uintptr_t t = 0; t < THREADS; t++)
		REQUIRE(pthread_create(&threads[t], NULL, producer, (void *)t) == 0);
	for (unsigned n = 0; n < THREADS * EACH;) {
		uintptr_t value = (uintptr_t)queue_pop(&shared);

		if (value == 0) {
			sched_yield();
			continue;
		}
		CHECK_INT(value & ((1 << EACH_BITS) - 1), ==, ++last[value >> EACH_BITS]);
		n++;
	}
	for (unsigned t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	CHECK(queue_is_empty(&shared));
	hwt_queue_destroy(&shared);
}

TEST_MAIN()
