/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The record of a timeout, and its state word.
 *
 * Structure
 *
 *   A record of 48 bytes holds one timeout.  Its memory stays a record until the timer is destroyed, so a stale
 *   handle may look at the word for ever.  The word tells which timeout the record serves (the generation, which a
 *   handle carries too) and how far that one has come:
 *
 *        63                                   16 15         8 7         0
 *       +---------------------------------------+------------+-----------+
 *       | generation                            | 0          | state     |
 *       +---------------------------------------+------------+-----------+
 *
 *   48 bits of generation do not wrap: a record is used again once in a worker's pass at most, and 2^48 passes of a
 *   microsecond take nine years of nothing else.
 *
 * The automaton
 *
 *                          take                      arm                      run                   finish
 *     (free: FREE,     --------------> QUEUED -------------------> ARMED ------------> RUNNING ------------> EXPIRED
 *      EXPIRED,                          |                        |  |  |                                     |
 *      CANCELLED,          cancel_queued |          cancel_armed  |  |  | cancel_lazy                         |
 *      LAZY)                             v                        |  |  v                                     |
 *        ^                           CANCELLED <------------------+  | LAZY <-- defer -- CANCELLED            |
 *        |                               ^            give_back      |   |                                    |
 *        |                               +---------------------------+   |                                    |
 *        +------- worker: back to its lane ----------------<-------------+-----------------<------------------+
 *
 *     edge           from       to         who, and what it needs                  then
 *     take           free       QUEUED     producer, lane lock, owns the record    push on submitted
 *     arm            QUEUED     ARMED      worker, popped it from submitted        place in the wheel
 *     cancel_queued  QUEUED     CANCELLED  any thread                              the drain sends the record home
 *     cancel_armed   ARMED      CANCELLED  any thread, cancel lock, node in hand   push on cancelled; the worker
 *                                                                                  unlinks it and sends it home
 *     cancel_lazy    ARMED      LAZY       any thread, no memory for a node        the wheel drops it in its time
 *     defer          CANCELLED  LAZY       worker, popped it from cancelled but    the wheel drops it next tick
 *                                          cannot unlink it now
 *     run            ARMED      RUNNING    worker, collected it                    run the task
 *     finish         RUNNING    EXPIRED    worker, the task has returned           the record goes home
 *     give_back      QUEUED or  CANCELLED  stop, the worker is gone                unprocessed list
 *                    ARMED
 *
 *   All edges out of QUEUED and ARMED are compare-and-swaps on the exact word: one of those who race gets it, and a
 *   handle of another generation changes nothing.  LAZY counts as cancelled for everybody outside.
 *
 * Invariants
 *
 *   R1  a record is at each moment in exactly one of: a free list (or on its way back to one), a submitted queue,
 *       the wheel, the wheel and a cancelled queue, a cancelled queue, the worker's batch, the unprocessed list.
 *   R2  only the worker sends records home: a queue's node may still point at a record that a canceller is done with.
 *   R3  place != 0 while and only while the record is in the wheel (a batch that the worker is just going through
 *       aside).
 *
 * Ordering
 *
 *   [word]   take stores it last (release); cancel loads it (acquire): whoever sees the generation sees task, arg and
 *            deadline.  The later edges are read-modify-writes and carry that on.
 *   [end]    finish stores (release), timeout_state loads (acquire): what the task wrote is visible to who sees
 *            EXPIRED.
 */
#ifndef HWT_TIMEOUT_H
#define HWT_TIMEOUT_H

#include "base.h"

#include <hwt.h>
#include <stdatomic.h>

struct hwt_lane;

enum word_state {
	STATE_FREE,
	STATE_QUEUED,
	STATE_ARMED,
	STATE_RUNNING,
	STATE_EXPIRED,
	STATE_CANCELLED,
	STATE_LAZY,
};

#define GENERATION_SHIFT 16
#define STATE_MASK UINT64_C(0xff)

struct hwt_record {
	_Atomic uint64_t word;

	/*
	 * The lane that took it last: there it goes home.  Atomic because a stale handle may ask for its timer at any
	 * time.
	 */
	_Atomic(struct hwt_lane *) lane;

	union {
		struct { /* of a timeout: written by take, read by the worker, and by whoever ended it */
			int64_t deadline_ns;
			hwt_task *task;
			void *arg;
		};
		struct { /* of a free record */
			struct hwt_record *free_next;
			struct hwt_record *free_ahead; /* the one to prefetch when this one is taken */
		};
	};

	union {
		uintptr_t place;         /* where in the wheel, 0: nowhere; the wheel's own business */
		struct hwt_record *link; /* unprocessed list */
	};
};

#define RECORD_SIZE 48
#define RECORD_ALIGN 16 /* leaves the low bits of a record's address to place */

static_assert(sizeof(void *) != 8 || sizeof(struct hwt_record) == RECORD_SIZE, "a record is three quarters of a line");

static inline enum word_state word_state(uint64_t word)
{
	return (enum word_state)(word & STATE_MASK);
}

static inline uint64_t word_generation(uint64_t word)
{
	return word >> GENERATION_SHIFT;
}

static inline uint64_t word_make(uint64_t generation, enum word_state state)
{
	return generation << GENERATION_SHIFT | (uint64_t)state;
}

static inline uint64_t word_with_state(uint64_t word, enum word_state state)
{
	return (word & ~STATE_MASK) | (uint64_t)state;
}

/* Records straddle lines: both ends. */
static inline void record_prefetch(const struct hwt_record *record)
{
	prefetch_for_write(record);
	prefetch_for_write((const char *)record + sizeof(*record) - 1);
}

/* Acquire: [word], [end]. */
static inline uint64_t record_word(struct hwt_record *record)
{
	HWT_POINT("word load");
	return atomic_load_explicit(&record->word, memory_order_acquire);
}

/*
 * The edge take.  The caller owns the free record.  The handle must be built here: once the record is pushed it may
 * end, and serve somebody else, before push returns.
 */
static inline hwt_timeout record_take(struct hwt_record *record, hwt_task *task, void *arg, int64_t deadline_ns)
{
	/* Relaxed: only the owner changes a free record's word. */
	uint64_t generation = word_generation(atomic_load_explicit(&record->word, memory_order_relaxed)) + 1;

	record->deadline_ns = deadline_ns;
	record->task = task;
	record->arg = arg;
	record->place = 0;
	HWT_POINT("word take");
	atomic_store_explicit(&record->word, word_make(generation, STATE_QUEUED), memory_order_release); /* [word] */
	return (hwt_timeout){ record, generation };
}

/*
 * One edge out of the exact word *word, which is brought up to date when it has changed.  Acquire on failure too: the
 * caller looks again.
 */
static inline bool record_edge(struct hwt_record *record, uint64_t *word, enum word_state to)
{
	HWT_POINT("word edge");
	return atomic_compare_exchange_strong_explicit(&record->word, word, word_with_state(*word, to),
						       memory_order_acq_rel, memory_order_acquire);
}

/* arm: false when it was cancelled while queued. */
static inline bool record_arm(struct hwt_record *record)
{
	uint64_t word = record_word(record);

	return word_state(word) == STATE_QUEUED && record_edge(record, &word, STATE_ARMED);
}

/* run: false when it was cancelled; *word is the word before the edge in either case. */
static inline bool record_run(struct hwt_record *record, uint64_t *word)
{
	*word = record_word(record);
	return word_state(*word) == STATE_ARMED && record_edge(record, word, STATE_RUNNING);
}

/* finish.  A plain store: nobody else changes the word of a running timeout. */
static inline void record_finish(struct hwt_record *record, uint64_t word)
{
	HWT_POINT("word finish");
	atomic_store_explicit(&record->word, word_with_state(word, STATE_EXPIRED), memory_order_release); /* [end] */
}

/* defer.  A plain store, relaxed: after the cancelled queue has given it up the record is the worker's alone. */
static inline void record_defer(struct hwt_record *record)
{
	uint64_t word = atomic_load_explicit(&record->word, memory_order_relaxed);

	HWT_ASSERT(word_state(word) == STATE_CANCELLED);
	atomic_store_explicit(&record->word, word_with_state(word, STATE_LAZY), memory_order_relaxed);
}

/* give_back: true when this call ended the timeout, false when somebody had before. */
static inline bool record_give_back(struct hwt_record *record)
{
	uint64_t word = record_word(record);

	while (word_state(word) == STATE_QUEUED || word_state(word) == STATE_ARMED)
		if (record_edge(record, &word, STATE_CANCELLED))
			return true;
	return false;
}

/* What a word says to the holder of a handle of this generation. */
static inline hwt_state word_public_state(uint64_t word, uint64_t generation)
{
	if (word_generation(word) != generation)
		return HWT_RETIRED;
	switch (word_state(word)) { /* there are no others */
	case STATE_QUEUED:
	case STATE_ARMED:
		return HWT_PENDING;
	case STATE_RUNNING:
		return HWT_RUNNING;
	case STATE_EXPIRED:
		return HWT_EXPIRED;
	case STATE_CANCELLED:
	case STATE_LAZY:
		return HWT_CANCELLED;
	case STATE_FREE:
		break;
	}
	return HWT_NONE;
}

#endif
