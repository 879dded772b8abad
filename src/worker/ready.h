/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue of the task threads: READY records in the order in which the worker handed them over, linked through
 * themselves.  So it needs no memory and refuses nothing.
 *
 * Structure
 *
 *   The worker puts a whole chain at once and wakes as many threads as it has records.  Threads take one record at a
 *   time: a record that a thread had set aside for later would wait behind its slow task while others are idle.
 *
 *   How long a record has waited is known without a word of its own.  The queue is first in, first out, so of the
 *   records of one chain the last one waits longest.  A stamp says when the last record of a chain was put.  There are
 *   some dozens of stamps.  When all are in use, the newest moves on to the next chain: what is known is still exact,
 *   of fewer records.
 *
 *   A record that is cancelled while it waits stays until a thread takes it.  When many wait the worker takes the
 *   cancelled ones out itself, as it hands over more.  It does so again when as many more wait as were left, or as few
 *   as threads have left since: that costs a few loads a record.  So fewer than READY_MANY wait, or fewer than twice as
 *   many as were once pending among them, whatever has been cancelled since (G5).
 *
 * Threads
 *
 *   hwt_ready_put   the worker.
 *   hwt_ready_take  the task threads; they sleep here.
 *   hwt_ready_close  any thread.
 *   hwt_ready_take_left  stop, when worker and task threads have gone.
 *
 *   A cancel or a mover changes the word of a record that waits here and leaves the queue alone; tasks.c finds out.
 *
 * Invariants
 *
 *   T1  put - taken = records between first and last = waiting.  What is swept out counts as never put.
 *   T2  the stamps in use are of rising numbers, taken < nth <= put, and of rising times.
 *   T3  a thread sleeps only while the queue is empty and open.
 *
 * Ordering: everything is under the mutex.  Only `waiting` is read without it, for statistics.
 */
#ifndef HWT_READY_H
#define HWT_READY_H

#include "base/record.h"
#include "base/sleeper.h"

#define READY_STAMPS 32

/* From this many records on the worker searches for cancelled ones. */
#define READY_MANY 4096

/* Returned for a record that has no stamp. */
#define READY_NOT_MARKED INT64_MIN

/* Records in the hands of the worker, linked by link. */
struct hwt_ready_chain {
	struct hwt_record *first, *last;
	uint64_t count;
};

struct hwt_ready_stamp {
	uint64_t nth;   /* the record is the nth that was ever put */
	int64_t put_ns; /* CLOCK_MONOTONIC */
};

struct hwt_ready {
	struct hwt_monitor monitor;
	struct hwt_record *first, *last;
	uint64_t put, taken; /* ever */
	uint32_t sleeping;   /* threads in hwt_ready_take that wait */
	uint64_t many;       /* so many waiting are a reason to search for cancelled ones */
	bool closed;
	struct hwt_ready_stamp stamp[READY_STAMPS]; /* a ring */
	uint32_t stamp_first, stamps;
	_Atomic uint64_t waiting; /* written under the mutex */
};

/* Returns 0, or an error as hwt_monitor_init. */
int hwt_ready_init(struct hwt_ready *ready);
void hwt_ready_destroy(struct hwt_ready *ready);

/*
 * Appends a chain that is not empty, and wakes threads.  now_ns is CLOCK_MONOTONIC.  If many wait, *chain comes back
 * with the cancelled ones among them, which belong to the caller; otherwise empty.
 */
void hwt_ready_put(struct hwt_ready *ready, struct hwt_ready_chain *chain, int64_t now_ns);

/*
 * Takes the oldest record; sleeps while there is none.  *put_ns is when it was put, or READY_NOT_MARKED.  Returns NULL
 * once the queue is closed, whatever it still holds.
 */
struct hwt_record *hwt_ready_take(struct hwt_ready *ready, int64_t *put_ns);

/* Lets hwt_ready_take return NULL from now on. */
void hwt_ready_close(struct hwt_ready *ready);

/* Takes the oldest record of a closed queue, NULL if there is none. */
struct hwt_record *hwt_ready_take_left(struct hwt_ready *ready);

static inline uint64_t ready_waiting(const struct hwt_ready *ready)
{
	return atomic_load_explicit(&ready->waiting, memory_order_relaxed); /* relaxed: it only counts */
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
