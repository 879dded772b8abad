/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue's slow paths: nodes, and waiting for the lock; queue.h.
 *
 * The fields of ck_fifo_spsc, and which end may touch them:
 *
 *     garbage --> node --> node --> head (stub) --> node --> tail
 *     producers recycle these       consumer                 producers
 *
 * The consumer moves head forward, and so gives the node before it to the producers.  The producers append at tail and
 * take nodes off garbage up to the head that they last saw.
 */
#include "lane/queue.h"
#include "base/thread.h"

#include <errno.h>
#include <string.h>

/* Tries for a held lock before the thread gives way: the holder may be waiting for this processor. */
#define LOCK_TRIES 64

/* Slabs of nodes have 1 KiB to 64 KiB. */
#define FIRST_SLAB (sizeof(struct hwt_slab) + 64 * sizeof(hwt_node))

const struct hwt_slab_kind hwt_node_slab = {
	.head = sizeof(struct hwt_slab),
	.align = sizeof(hwt_node),
	.first = FIRST_SLAB,
	.last = 64 * FIRST_SLAB,
};

static_assert(sizeof(struct hwt_slab) % sizeof(hwt_node) == 0, "a slab is a multiple of its alignment");

int hwt_queue_init(struct hwt_queue *queue)
{
	hwt_node *stub;

	queue->spare = NULL;
	memset(&queue->slabs, 0, sizeof(queue->slabs));
	queue->retired = NULL;
	stub = hwt_queue_new_node(queue);
	if (stub == NULL)
		return ENOMEM;
	ck_fifo_spsc_init(&queue->fifo, stub);
	return 0;
}

void hwt_queue_destroy(struct hwt_queue *queue)
{
	hwt_slabs_free(queue->slabs.newest);
	hwt_slabs_free(queue->retired);
}

hwt_node *hwt_queue_new_node(struct hwt_queue *queue)
{
	hwt_node *node = queue->spare;

	if (node != NULL) {
		queue->spare = node->next;
		return node;
	}
	node = hwt_slabs_carve(&queue->slabs, sizeof(*node));
	if (node == NULL && hwt_slabs_grow(&queue->slabs, &hwt_node_slab))
		node = hwt_slabs_carve(&queue->slabs, sizeof(*node));
	return node;
}

bool hwt_queue_lock_soon(struct hwt_queue *queue)
{
	for (unsigned tries = 0; tries < LOCK_TRIES; tries++) {
		if (queue_try_lock(queue))
			return true;
		HWT_POINT("held");
		processor_pause();
	}
	return false;
}

void hwt_queue_lock_contended(struct hwt_queue *queue)
{
	unsigned tries = 0, turns = 0;

	do {
		/*
		 * Only loads while the lock is held.  A try is an exchange, and takes the cache line from the holder.
		 */
		while (ck_spinlock_locked(&queue->fifo.m_tail)) {
			HWT_POINT("blocked");
			if (++tries % LOCK_TRIES == 0)
				hwt_thread_give_way(&turns);
			else
				processor_pause();
		}
	} while (!queue_try_lock(queue));
}

/*
 * The lock is a field of ck_fifo_spsc, and the caller holds it: ck_fifo_spsc_init would release it.  So the other
 * fields are stored one by one; head as the consumer stores it, as other threads may read it.
 */
size_t hwt_queue_restart(struct hwt_queue *queue, struct hwt_slab *first)
{
	struct hwt_slab *others;
	hwt_node *stub;

	HWT_ASSERT(queue->retired == NULL);
	if (queue->slabs.newest->next == NULL)
		return 0;
	hwt_slabs_add(&queue->slabs, &hwt_node_slab, first);
	others = hwt_slabs_restart(&queue->slabs, &hwt_node_slab);
	stub = hwt_slabs_carve(&queue->slabs, sizeof(*stub));
	stub->next = NULL;
	queue->spare = NULL;
	ck_pr_store_ptr(&queue->fifo.head, stub);
	queue->fifo.tail = queue->fifo.head_snapshot = queue->fifo.garbage = stub;
	queue->retired = others;
	return slabs_bytes(&queue->slabs);
}
