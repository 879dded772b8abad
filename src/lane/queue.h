/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lane's queue: one producer and one consumer at a time.  The consumer does not wait for producers.
 *
 * Structure
 *
 *   Concurrency Kit's ck_fifo_spsc, an unbounded list of nodes of 16 bytes, and its lock for producers.  The list
 *   always has one node more than it has values, the stub.  A dequeued node becomes the stub and comes back to the
 *   producers (ck_fifo_spsc_recycle) with the next dequeue.  So nodes cannot be part of the values; they come from
 *   slabs of their own.
 *
 *   Nodes never leave their queue.  When it is empty, all of its slabs but one may go (look.c).
 *
 * Threads
 *
 *   queue_lock .. queue_unlock  any thread; node, push and recycling only in between.
 *   queue_pop                   the consumer.
 *   queue_is_empty              the consumer, and any thread with the lock.
 *
 * Invariants
 *
 *   Q1  nodes of the slabs = nodes in the list + recyclable + spare + not yet carved, each in one place.  Nodes that
 *       are not in the list are touched under the lock only.
 *   Q2  a producer recycles only nodes before the head that the consumer has published, so never one that the consumer
 *       still reads.  The stub is not among them, so each queue keeps one node.
 *
 * Ordering, by the names that stand at both ends
 *
 *   [push]     store of tail->next (release)  -> load of head->next in queue_is_empty (acquire): node and value are
 *              complete.
 *   [recycle]  store of head in dequeue (release) -> load of head in ck_fifo_spsc_recycle (acquire): the consumer is
 *              done with the node.
 *   [lock]     ck_spinlock.
 *
 *   ck_fifo has barriers between its stores and leaves the acquire side to the address dependency.  The accesses below
 *   replace both; test/weak/ checks them.
 *
 * This is the only file that includes Concurrency Kit.
 *
 * References: D. Vyukov's unbounded SPSC queue; ck_fifo.h.
 */
#ifndef HWT_QUEUE_H
#define HWT_QUEUE_H

#include "base/slab.h"

#ifdef __SANITIZE_THREAD__
#define HWT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HWT_TSAN 1
#endif
#endif

/*
 * Concurrency Kit brings the list and the lock, C11 the accesses.  So the memory order is the same on every processor,
 * with every version of ck_pr.h and ck_md.h; and ThreadSanitizer and the checker of weak memory see the code that
 * ships.  CK_USE_CC_BUILTINS keeps out inline assembly.  ck_pr_store_ptr_unsafe stores to a variable of the caller.
 */
#define CK_USE_CC_BUILTINS 1
#include <ck_pr.h>
#undef ck_pr_load_ptr
#undef ck_pr_store_ptr
#undef ck_pr_store_ptr_unsafe
#undef ck_pr_load_uint
#undef ck_pr_store_uint
#define ck_pr_load_ptr(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)           /* [push] [recycle] */
#define ck_pr_store_ptr(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE) /* [push] [recycle] */
#define ck_pr_store_ptr_unsafe(p, v) (*(void **)(p) = (v))
#define ck_pr_load_uint(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)                          /* [lock] */
#define ck_pr_store_uint(p, v) __atomic_store_n((p), (unsigned int)(v), __ATOMIC_RELEASE)  /* [lock] */
#define ck_pr_fas_uint(p, v) __atomic_exchange_n((p), (unsigned int)(v), __ATOMIC_ACQUIRE) /* [lock] */
#define ck_pr_fence_store() ((void)0)
#define ck_pr_fence_acquire() ((void)0)
#define ck_pr_fence_lock() ((void)0)
#define ck_pr_fence_unlock() ((void)0)

#include <ck_fifo.h>

typedef ck_fifo_spsc_entry_t hwt_node;

extern const struct hwt_slab_kind hwt_node_slab;

/* How many nodes ahead a producer prefetches a node that the consumer has written: some cache lines. */
#define NODES_AHEAD 12

/*
 * The consumer's words lie in the first 64 bytes, the producers' begin at 68.  An owner that places the queue 64 bytes
 * past a multiple of 128 keeps the two in different units.
 */
struct hwt_queue {
	ck_fifo_spsc_t fifo;

	/* Under the lock. */
	hwt_node *spare;        /* nodes that producers gave back unused */
	struct hwt_slabs slabs; /* from which new nodes are carved */

	struct hwt_slab *retired; /* the consumer's: slabs that a restart has taken out */
};

static_assert(offsetof(ck_fifo_spsc_t, m_tail) >= HWT_LINE, "producers' words share a line with the consumer's");

/* Allocates the stub.  Returns 0 or ENOMEM. */
int hwt_queue_init(struct hwt_queue *queue);

/* Frees the nodes, also if hwt_queue_init failed or was never called (bytes of zero). */
void hwt_queue_destroy(struct hwt_queue *queue);

/* Slow half of queue_node. */
hwt_node *hwt_queue_new_node(struct hwt_queue *queue);

/* Slow half of queue_lock. */
void hwt_queue_lock_contended(struct hwt_queue *queue);

/*
 * Makes the queue begin again with the slab `first`, and retires its other slabs, if it has more than one.  Returns the
 * bytes of `first`, or 0: then `first` is still the caller's.  For the consumer, under the lock, while the queue is
 * empty.
 */
size_t hwt_queue_restart(struct hwt_queue *queue, struct hwt_slab *first);

/*
 * Tries for the lock about as long as a holder needs for a push, and returns false if it does not get it.  For a thread
 * that holds another lock, for which the holder of this lock may wait: to wait without end would be a deadlock.
 */
bool hwt_queue_lock_soon(struct hwt_queue *queue);

static inline bool queue_try_lock(struct hwt_queue *queue)
{
	return ck_fifo_spsc_enqueue_trylock(&queue->fifo); /* [lock] */
}

static inline void queue_lock(struct hwt_queue *queue)
{
	HWT_POINT("lock");
	if (unlikely(!queue_try_lock(queue)))
		hwt_queue_lock_contended(queue);
}

static inline void queue_unlock(struct hwt_queue *queue)
{
	ck_fifo_spsc_enqueue_unlock(&queue->fifo); /* [lock] */
}

/* Returns a node that the consumer has given back, or NULL if there is none.  Under the lock. */
static inline hwt_node *queue_recycled(struct hwt_queue *queue)
{
	hwt_node *node = ck_fifo_spsc_recycle(&queue->fifo); /* [recycle] */

	if (unlikely(node == NULL))
		return NULL;
	/*
	 * Nodes mostly come back in the order of their addresses.  Beyond the end of a slab the prefetch is useless and
	 * harmless.
	 */
	prefetch_for_write(node + NODES_AHEAD);
	return node;
}

/* Returns a node for one push, or NULL if there is no memory.  Under the lock. */
static inline hwt_node *queue_node(struct hwt_queue *queue)
{
	hwt_node *node = queue_recycled(queue);

	return likely(node != NULL) ? node : hwt_queue_new_node(queue);
}

/* Gives a node back unused.  Under the lock. */
static inline void queue_node_unused(struct hwt_queue *queue, hwt_node *node)
{
	node->next = queue->spare;
	queue->spare = node;
}

/* Pushes a value.  Under the lock.  From the store of tail->next on the consumer may pop and use the value. */
static inline void queue_push(struct hwt_queue *queue, hwt_node *node, void *value)
{
	HWT_POINT("queue push");
	ck_fifo_spsc_enqueue(&queue->fifo, node, value); /* [push] */
}

/*
 * Returns true if the queue has no value.  To a thread that is not the consumer the answer may be old by the time it is
 * used.
 */
static inline bool queue_is_empty(struct hwt_queue *queue)
{
	return ck_fifo_spsc_isempty(&queue->fifo); /* [push] */
}

/* Takes out and returns the oldest value, or NULL if there is none. */
static inline void *queue_pop(struct hwt_queue *queue)
{
	void *value = NULL;

	HWT_POINT("queue pop");
	if (queue_is_empty(queue))
		return NULL;
	ck_fifo_spsc_dequeue(&queue->fifo, &value); /* [push] [recycle] */
	return value;
}

#endif
