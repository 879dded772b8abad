/* SPDX-License-Identifier: BSD-2-Clause */
#include "lane/queue.h"
#include "base/mem.h"
#include "base/thread.h"

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
	queue->source = 0;
	if (!hwt_queue_grow(queue))
		return ENOMEM;
	stub = hwt_queue_spare_node(queue);
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

bool hwt_queue_grow(struct hwt_queue *queue)
{
	struct hwt_node_slab *slab;
	size_t bytes = sizeof(*slab) + queue->slab_nodes * sizeof(hwt_node);

	HWT_ASSERT(queue->carve == queue->carve_end);
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

static hwt_node *pop_spare(struct hwt_queue *queue)
{
	hwt_node *node = queue->spare;

	if (node != NULL)
		queue->spare = node->next;
	return node;
}

hwt_node *hwt_queue_spare_node(struct hwt_queue *queue)
{
	hwt_node *node = pop_spare(queue);

	if (node != NULL)
		return node;
	return queue->carve != queue->carve_end ? queue->carve++ : NULL;
}

/* One that has served.  The rest of a queue's slab stays with it: it is about to be used, and no lane is left bare. */
static hwt_node *used_node(struct hwt_queue *queue)
{
	hwt_node *node = queue_recycled(queue);

	return node != NULL ? node : pop_spare(queue);
}

size_t hwt_queue_take_nodes(struct hwt_queue *queue, struct hwt_queue *from, size_t max)
{
	hwt_node *first = NULL, **end = &first, *node;
	size_t taken = 0;

	/* In the order in which they came back: queue_recycled relies on it. */
	for (; taken < max && (node = used_node(from)) != NULL; taken++) {
		*end = node;
		end = &node->next;
	}
	*end = queue->spare;
	queue->spare = first;
	return taken;
}

bool hwt_queue_lock_soon(struct hwt_queue *queue)
{
	for (unsigned looks = 0; looks < LOCK_LOOKS; looks++) {
		if (queue_try_lock(queue))
			return true;
		HWT_POINT("held");
		ck_pr_stall();
	}
	return false;
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
