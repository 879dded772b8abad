/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two producers share a lane's queue by its lock, while the worker pops.  No node is used twice, and no value is lost.
 */
#include "nodes.h"

static struct hwt_queue queue;
static hwt_node nodes[3];
static int payload[2], seen;

static void push(int *value)
{
	hwt_node *node;

	queue_lock(&queue);
	node = queue_node(&queue);
	assert(node != NULL);
	++*value;
	queue_push(&queue, node, value);
	queue_unlock(&queue);
}

static void *first(void *unused)
{
	push(&payload[0]);
	return unused;
}

static void *second(void *unused)
{
	push(&payload[1]);
	return unused;
}

static void *work(void *unused)
{
	int *value = queue_pop(&queue);

	if (value != NULL)
		seen += *value;
	return unused;
}

int main(void)
{
	pthread_t producers[2], worker;

	ck_fifo_spsc_init(&queue.fifo, &nodes[0]);
	queue_node_unused(&queue, &nodes[1]);
	queue_node_unused(&queue, &nodes[2]);
	producers[0] = weak_start(first);
	producers[1] = weak_start(second);
	worker = weak_start(work);
	pthread_join(producers[0], NULL);
	pthread_join(producers[1], NULL);
	pthread_join(worker, NULL);
	work(NULL);
	work(NULL);
	assert(seen == 2);
	return 0;
}
