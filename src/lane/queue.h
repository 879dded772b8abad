/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lane's queue: many producers one at a time, and one consumer at a time, which does not wait for them.
 *
 * Structure
 *
 *   Concurrency Kit's ck_fifo_spsc, an unbounded list of nodes of 16 bytes, with the producer lock it brings along.
 *   The list always holds one node more than values, the stub: a node that has been dequeued lives on as the stub, and
 *   comes back to the producers (ck_fifo_spsc_recycle) with the next dequeue.  So nodes are not part of the values,
 *   and are allocated in slabs that grow.
 *
 *   A queue that needs nodes may take those that another one does not need.  Slabs stay with the queue that allocated
 *   them, until the timer is destroyed: a node may lie in any queue of the timer.
 *
 * Threads
 *
 *   queue_lock .. queue_unlock  any thread; node, push and recycling only in between.
 *   hwt_queue_take_nodes        the same, with the locks of both queues.
 *   queue_pop                   the consumer alone; where more than one thread may be that, between
 *                               queue_begin_consume and queue_end_consume.
 *   queue_is_empty              any thread that may be the consumer.
 *   hwt_queue_sift              the consumer, with the lock.
 *
 * Invariants
 *
 *   Q1  nodes of the slabs of all queues = nodes in their lists + recyclable + spare + not yet carved, each in one
 *       place; all but a list's are touched under the lock of their queue only.
 *   Q2  a producer recycles only nodes behind the head that the consumer has published, so never one that it still
 *       reads.  The stub is not among them, so each queue keeps one node.
 *
 * Ordering, by the names that stand at both ends
 *
 *   [push]     store of tail->next (release)  -> load of head->next in queue_is_empty (acquire): node and value are
 *              complete.
 *   [recycle]  store of head in dequeue (release) -> load of head in ck_fifo_spsc_recycle (acquire): the consumer is
 *              done with the node.
 *   [lock]     ck_spinlock.
 *   [consume]  the same, of the consumer's end.
 *
 *   ck_fifo leaves the acquire side to the address dependency; the fences below make it explicit.  They cost nothing
 *   on x86.
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
 * ThreadSanitizer sees neither inline assembly nor volatile accesses as atomic.  For it, ck_pr is built without
 * assembly and the five accesses that ck_fifo_spsc and its lock make are given as atomics, before ck_fifo.h expands
 * them.
 */
#ifdef HWT_TSAN
#define CK_USE_CC_BUILTINS 1
#include <ck_pr.h>
#undef ck_pr_load_ptr
#undef ck_pr_store_ptr
#undef ck_pr_store_ptr_unsafe
#undef ck_pr_load_uint
#undef ck_pr_store_uint
#define ck_pr_load_ptr(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define ck_pr_store_ptr(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define ck_pr_store_ptr_unsafe(p, v) (*(void **)(p) = (v))
#define ck_pr_load_uint(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define ck_pr_store_uint(p, v) __atomic_store_n((p), (unsigned int)(v), __ATOMIC_RELEASE)
#define ck_pr_fas_uint(p, v) __atomic_exchange_n((p), (unsigned int)(v), __ATOMIC_SEQ_CST)
#endif

#include <ck_fifo.h>

/* ck_md.h is made for one architecture; another's says TSO and would drop every barrier. */
#if defined(__aarch64__) && defined(CK_MD_TSO)
#error "this ck_md.h is not for aarch64: install Concurrency Kit for the target (Debian: libck-dev:arm64)"
#endif

typedef ck_fifo_spsc_entry_t hwt_node;

extern const struct hwt_slab_kind hwt_node_slab;

/* How far ahead nodes that the consumer has written are fetched: some lines. */
#define NODES_AHEAD 12

/*
 * The consumer's words lie in the first 64 bytes, the producers' begin at 68.  An owner that places the queue 64
 * bytes past a multiple of 128 keeps them in different units.
 */
struct hwt_queue {
	ck_fifo_spsc_t fifo;

	/* All under the lock. */
	hwt_node *spare;        /* nodes that were not used, or taken from another queue */
	struct hwt_slabs slabs; /* where nodes come from that were never used */
	uint32_t source;        /* the owner's: which lane had nodes for it last */
};

static_assert(offsetof(ck_fifo_spsc_t, m_tail) >= HWT_LINE, "producers' words share a line with the consumer's");

/* Allocates the stub.  ENOMEM. */
int hwt_queue_init(struct hwt_queue *queue);

/* Frees the nodes, also when init failed or never came (zero bytes). */
void hwt_queue_destroy(struct hwt_queue *queue);

/* Slow half of queue_node. */
hwt_node *hwt_queue_spare_node(struct hwt_queue *queue);

/* Allocates nodes, when there is none at hand.  false without memory.  Under the lock. */
bool hwt_queue_grow(struct hwt_queue *queue);

/* Moves up to max nodes that have served and that `from` has at hand.  Returns how many.  Under both locks. */
size_t hwt_queue_take_nodes(struct hwt_queue *queue, struct hwt_queue *from, size_t max);

/* Slow half of queue_lock. */
void hwt_queue_lock_contended(struct hwt_queue *queue);

/*
 * Takes out the values, from the oldest on, that `is_done` accepts; the others stay in their order.  Returns how many.
 * The nodes have come back.  The consumer, under the lock.
 */
size_t hwt_queue_sift(struct hwt_queue *queue, bool (*is_done)(void *ctx, void *value), void *ctx);

/* Slow half of queue_begin_consume. */
bool hwt_queue_consume_soon(struct hwt_queue *queue);

/*
 * Looks at a held lock as often as it takes its holder to push, and gives up then: the holder may not run.  For a
 * thread that holds another lock, for which that holder may wait.
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

/* A node that has come back, NULL if there is none.  Under the lock. */
static inline hwt_node *queue_recycled(struct hwt_queue *queue)
{
	hwt_node *node = ck_fifo_spsc_recycle(&queue->fifo);

	if (unlikely(node == NULL))
		return NULL;
	ck_pr_fence_acquire(); /* [recycle] */
	/* Nodes come back in the order of memory, mostly.  Beyond a slab this fetches nothing of ours. */
	prefetch_for_write(node + NODES_AHEAD);
	return node;
}

/* A node for one push.  NULL when none is at hand.  Under the lock. */
static inline hwt_node *queue_node(struct hwt_queue *queue)
{
	hwt_node *node = queue_recycled(queue);

	return likely(node != NULL) ? node : hwt_queue_spare_node(queue);
}

/* Gives a node back unused.  Under the lock. */
static inline void queue_node_unused(struct hwt_queue *queue, hwt_node *node)
{
	node->next = queue->spare;
	queue->spare = node;
}

/* Under the lock. */
static inline void queue_push(struct hwt_queue *queue, hwt_node *node, void *value)
{
	HWT_POINT("queue push");
	ck_fifo_spsc_enqueue(&queue->fifo, node, value); /* [push] */
}

/*
 * The caller is the consumer, until queue_end_consume.  false: another thread is and does not get done; it only has to
 * take out some values, so it lacks a processor.
 */
static inline bool queue_begin_consume(struct hwt_queue *queue)
{
	HWT_POINT("consume");
	return likely(ck_fifo_spsc_dequeue_trylock(&queue->fifo)) || hwt_queue_consume_soon(queue); /* [consume] */
}

static inline void queue_end_consume(struct hwt_queue *queue)
{
	ck_fifo_spsc_dequeue_unlock(&queue->fifo); /* [consume] */
}

static inline bool queue_is_empty(struct hwt_queue *queue)
{
	return ck_fifo_spsc_isempty(&queue->fifo);
}

/* The oldest value, NULL when empty. */
static inline void *queue_pop(struct hwt_queue *queue)
{
	void *value = NULL;

	HWT_POINT("queue pop");
	if (queue_is_empty(queue))
		return NULL;
	ck_pr_fence_acquire();                      /* [push] */
	ck_fifo_spsc_dequeue(&queue->fifo, &value); /* [recycle] */
	return value;
}

#endif
