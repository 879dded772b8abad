/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue of the task threads: READY records in the order in which the worker handed them over.  They are linked
 * through themselves, so the queue needs no memory and refuses no record.
 *
 * Structure
 *
 *   The worker puts a whole chain at once and wakes a thread for each record.  Threads take one record at a time: if a
 *   thread took more, the others would wait behind its slow task while other threads are idle.
 *
 *   Of one record at a time, the marked one, the queue knows how long it has waited: of the last record of a chain
 *   that was put while no record was marked.
 *
 *   A record that is cancelled while it waits stays until a thread takes it.
 *
 * Threads
 *
 *   hwt_ready_put   the worker.
 *   hwt_ready_take  the task threads; they sleep here.
 *   hwt_ready_close  any thread.
 *   hwt_ready_take_left  stop, after the worker and the task threads have ended.
 *
 *   A cancel or a mover changes the word of a record that waits here and leaves the queue alone; tasks.c finds out.
 *
 * Invariants
 *
 *   T1  put - taken = number of records from first to last = waiting.
 *   T2  mark <= put.
 *   T3  a thread sleeps only while the queue is empty and open.
 *
 * Ordering: everything is under the mutex.  Only `waiting` is read without it, for statistics.
 */
#ifndef HWT_READY_H
#define HWT_READY_H

#include "base/record.h"
#include "base/sleeper.h"

/* The answer of hwt_ready_take for a record that is not marked. */
#define READY_NOT_MARKED INT64_MIN

/* Records that the worker is going to put, linked by link. */
struct hwt_ready_chain {
	struct hwt_record *first, *last;
	uint64_t count;
};

struct hwt_ready {
	struct hwt_monitor monitor;
	struct hwt_record *first, *last;
	uint64_t put, taken; /* ever */
	uint32_t sleeping;   /* threads that wait in hwt_ready_take */
	bool closed;
	uint64_t mark;   /* the number of the marked record, as `put` counts; <= taken: none */
	int64_t mark_ns; /* CLOCK_MONOTONIC */
	_Atomic uint64_t waiting; /* written under the mutex */
};

/* Returns 0, or an error as hwt_monitor_init. */
int hwt_ready_init(struct hwt_ready *ready);
void hwt_ready_destroy(struct hwt_ready *ready);

/* Appends a chain that is not empty, and wakes threads.  now_ns is CLOCK_MONOTONIC. */
void hwt_ready_put(struct hwt_ready *ready, const struct hwt_ready_chain *chain, int64_t now_ns);

/*
 * Takes the oldest record; sleeps while there is none.  *put_ns is the time at which it was put, or READY_NOT_MARKED.
 * Returns NULL once the queue is closed, even if it still has records.
 */
struct hwt_record *hwt_ready_take(struct hwt_ready *ready, int64_t *put_ns);

/* Lets hwt_ready_take return NULL from now on. */
void hwt_ready_close(struct hwt_ready *ready);

/* Takes the oldest record of a closed queue, NULL if there is none. */
struct hwt_record *hwt_ready_take_left(struct hwt_ready *ready);

static inline uint64_t ready_waiting(const struct hwt_ready *ready)
{
	return atomic_load_explicit(&ready->waiting, memory_order_relaxed); /* relaxed: only a number for statistics */
}

static inline void ready_chain_append(struct hwt_ready_chain *chain, struct hwt_record *record)
{
	record->link = NULL;
	if (chain->first == NULL)
		chain->first = record;
	else
		chain->last->link = record;
	chain->last = record;
	chain->count++;
}

#endif
