/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A producer becomes the consumer of its queue for a moment and takes a value out of the middle (reclaim.c), then uses
 * the node for another one.  The worker looks whether the queue is empty, and pops when it is the consumer.
 */
#include "weak.h"

#include "lane/queue.c"

static struct hwt_queue queue;
static hwt_node nodes[4];
static int cancelled, kept, later;
static bool seen_kept, seen_later;

static bool is_done(void *ctx, void *value)
{
	(void)ctx;
	return value == &cancelled;
}

static void push(int *value)
{
	hwt_node *node = queue_node(&queue);

	assert(node != NULL);
	++*value;
	queue_push(&queue, node, value);
}

static void *reclaim(void *unused)
{
	queue_lock(&queue);
	push(&kept);
	if (queue_begin_consume(&queue)) {
		(void)hwt_queue_sift(&queue, is_done, NULL);
		queue_end_consume(&queue);
		push(&later);
	}
	queue_unlock(&queue);
	return unused;
}

static void see(int *value)
{
	if (value != NULL)
		assert(*value == 1);
	seen_kept |= value == &kept;
	seen_later |= value == &later;
}

static void *work(void *unused)
{
	assert(!queue_is_empty(&queue)); /* `cancelled` or `kept` is in it */
	if (queue_begin_consume(&queue)) {
		see(queue_pop(&queue));
		queue_end_consume(&queue);
	}
	return unused;
}

int main(void)
{
	pthread_t producer, worker;

	ck_fifo_spsc_init(&queue.fifo, &nodes[0]);
	queue_node_unused(&queue, &nodes[1]);
	queue_node_unused(&queue, &nodes[2]);
	queue_node_unused(&queue, &nodes[3]);
	push(&cancelled);
	producer = weak_start(reclaim);
	worker = weak_start(work);
	pthread_join(producer, NULL);
	pthread_join(worker, NULL);
	while (!queue_is_empty(&queue))
		see(queue_pop(&queue));
	assert(seen_kept && seen_later == (later == 1));
	return 0;
}
