/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue of a lane with one producer and one consumer.  Three values go through two nodes, so each node comes back
 * and is used again.  The consumer sees each value in its order, and as it was before the push.
 */
#include "nodes.h"

#define VALUES 3

static struct hwt_queue queue;
static hwt_node nodes[2];
static int payload[VALUES];

static void *produce(void *unused)
{
	for (int i = 0; i < VALUES; i++) {
		hwt_node *node;

		queue_lock(&queue);
		node = queue_node(&queue);
		assume(node != NULL);
		payload[i] = i + 1;
		queue_push(&queue, node, &payload[i]);
		queue_unlock(&queue);
	}
	return unused;
}

int main(void)
{
	int seen = 0;

	ck_fifo_spsc_init(&queue.fifo, &nodes[0]);
	queue_node_unused(&queue, &nodes[1]);
	weak_start(produce);
	for (int i = 0; i < VALUES; i++) {
		int *value = queue_pop(&queue);

		if (value != NULL)
			assert(*value == ++seen);
	}
	return 0;
}
