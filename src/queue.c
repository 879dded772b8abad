/* SPDX-License-Identifier: BSD-2-Clause */
#include "queue.h"
#include "mem.h"
#include "thread.h"

#include <errno.h>

/* Slabs double from 1 KiB to 64 KiB: a queue that nobody uses stays small, one with a backlog rarely allocates. */
#define FIRST_SLAB_NODES 64
#define LAST_SLAB_NODES 4096

/* How often to look at a held lock before leaving the processor to its holder, which may wait for it. */
#define LOCK_LOOKS 64

struct hwt_node_slab {
	struct hwt_node_slab *next;
	void *pad;
	hwt_node nodes[];
};

int hwt_queue_init(struct hwt_queue *queue)
{
	hwt_node *stub;

	queue->spare = queue->carve = queue->carve_end = NULL;
	queue->slabs = NULL;
	queue->slab_nodes = FIRST_SLAB_NODES;
	queue->bytes = 0;
	stub = hwt_queue_new_node(queue);
	if (stub == NULL)
		return ENOMEM;
	ck_fifo_spsc_init(&queue->fifo, stub);
	return 0;
}

void hwt_queue_destroy(struct hwt_queue *queue)
{
	while (queue->slabs != NULL) {
		struct hwt_node_slab *slab = queue->slabs;

		queue->slabs = slab->next;
		hwt_mem_free(slab);
	}
}

static bool add_slab(struct hwt_queue *queue)
{
	struct hwt_node_slab *slab;
	size_t bytes = sizeof(*slab) + queue->slab_nodes * sizeof(hwt_node);

	slab = hwt_mem_block(sizeof(hwt_node), bytes);
	if (slab == NULL)
		return false;
	queue->bytes += bytes;
	slab->next = queue->slabs;
	queue->slabs = slab;
	queue->carve = slab->nodes;
	queue->carve_end = slab->nodes + queue->slab_nodes;
	if (queue->slab_nodes < LAST_SLAB_NODES)
		queue->slab_nodes *= 2;
	return true;
}

static_assert(sizeof(struct hwt_node_slab) % sizeof(hwt_node) == 0, "a slab is a multiple of its alignment");

hwt_node *hwt_queue_new_node(struct hwt_queue *queue)
{
	hwt_node *node = queue->spare;

	if (node != NULL) {
		queue->spare = node->next;
		return node;
	}
	if (queue->carve == queue->carve_end && !add_slab(queue))
		return NULL;
	return queue->carve++;
}

void hwt_queue_lock_contended(struct hwt_queue *queue)
{
	unsigned looks = 0, turns = 0;

	do {
		/* Only look while it is held: each try would take the line from its holder. */
		while (ck_spinlock_locked(&queue->fifo.m_tail)) {
			HWT_POINT("blocked");
			if (++looks % LOCK_LOOKS == 0)
				hwt_thread_give_way(&turns);
			else
				ck_pr_stall();
		}
	} while (!queue_try_lock(queue));
}

#ifdef HWT_TEST
bool hwt_queue_next_slab(const struct hwt_queue *queue, struct hwt_node_slab **slab, char **begin, char **end)
{
	size_t nodes = FIRST_SLAB_NODES;

	*slab = *slab == NULL ? queue->slabs : (*slab)->next;
	if (*slab == NULL)
		return false;
	for (struct hwt_node_slab *older = (*slab)->next; older != NULL && nodes < LAST_SLAB_NODES; older = older->next)
		nodes *= 2;
	*begin = (char *)(*slab)->nodes;
	*end = (char *)((*slab)->nodes + nodes);
	return true;
}
#endif
