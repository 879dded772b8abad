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
 *        63                                   16 15         7 6         0
 *       +---------------------------------------+------------+-----------+
 *       | generation                            | flags      | state     |
 *       +---------------------------------------+------------+-----------+
 *
 *   48 bits of generation do not wrap: a record is used again once in a worker's pass at most, or once in thousands
 *   of calls of its lane (lane/reclaim.c), and 2^48 passes of a microsecond take nine years of nothing else.  Most
 *   timeouts never have a flag, and what they cost is what the exchanges on an exact word without one cost.
 *
 *   A timeout with a period or a finaliser has a second record, its extension, whose word stays as it was.
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
 *     finish         RUNNING    EXPIRED    who ran the task, it has returned       the record goes home
 *                               or, DROPPED, CANCELLED
 *     drop           RUNNING,   RUNNING,   any thread                              the run in progress is the last
 *                    REARMED      DROPPED
 *     make_last      RUNNING    RUNNING,   any thread                              the same; it ends as EXPIRED
 *                               LAST
 *     again          RUNNING    ARMED or   who ran the task, REARMED is set          place in the wheel, or push on the
 *                               QUEUED                                             stack of those for the worker
 *     give_back      QUEUED or  CANCELLED  stop, the worker is gone                unprocessed list
 *                    ARMED
 *
 *   All edges out of QUEUED and ARMED are compare-and-swaps on the exact word: one of those who race gets it, and a
 *   handle of another generation changes nothing.  LAZY counts as cancelled for everybody outside.
 *
 * The flags
 *
 *     RESCHEDULING     a thread writes another deadline, its own task perhaps, or is about to push the record.  That
 *                      thread clears the flag.  Other movers, cancel and stop wait for it, some instructions long, so
 *                      that the worker finds in a queue what they tell it afterwards.  The worker does not wait: it
 *                      looks again at the next tick.
 *     RESCHEDULED      the deadline may differ from the place in the wheel.  Stays.
 *     RESCHEDULE_SEEN  the worker has seen RESCHEDULED without RESCHEDULING and looks at the deadline.  Each mover
 *                      clears it, so the worker's exchange for RUNNING fails even if the word came back to the same.
 *     REQUEUED         the record waits in a submitted queue to be placed earlier.  Until then it does not run, and a
 *                      cancel need not push it a second time.
 *     EXTENDED         arg points to the extension.
 *     PERIODIC         it has a period.
 *     REARMED          of a running timeout: it will run once more.  A cancel clears it.
 *     DROPPED          of a running timeout: a cancel cleared REARMED, and it ends as CANCELLED.  Of a cancelled one:
 *                      stop gave it back.
 *     LAST             of a running timeout: a cancel came before REARMED, which its task cannot set any more.
 *
 * Invariants
 *
 *   R1  a record is at each moment in exactly one of: a free list (or on its way back to one), a submitted queue,
 *       the wheel, the wheel and a cancelled queue, a cancelled queue, the worker's batch, the postponed list, the
 *       unprocessed list, the stack of those that run again, the hands of the thread that runs its task; or it is the
 *       extension of another record.  A record of the wheel or the batch is in a submitted queue, too, while and only
 *       while it is REQUEUED.
 *   R2  only a queue's consumer takes records back from it, the worker or a producer for a moment, and an executor's
 *       thread the one whose task it has run: a queue's node may still point at one that a canceller is done with.
 *   R3  place != 0 while and only while the record is in the wheel (a batch that the worker is just going through
 *       aside).
 *   R4  deadline_ns of an ARMED record changes only under RESCHEDULING.  Only its own task, and the thread that runs
 *       it, change that of a RUNNING one.
 *
 * Ordering
 *
 *   [word]   take stores it last (release); cancel loads it (acquire): whoever sees the generation sees task, arg and
 *            deadline.  The later edges are read-modify-writes and carry that on.
 *   [end]    finish stores (release), timeout_state loads (acquire): what the task wrote is visible to who sees
 *            EXPIRED.
 *   [move]   RESCHEDULING is set (acquire) before the deadline is written, and cleared (release) after it.
 *   [look]   the deadline is stored with release.  hwt_record_read_deadline loads it (acquire) between two looks at the
 *            word: a deadline of a later life of the record comes with a word of that life.
 */
#ifndef HWT_RECORD_H
#define HWT_RECORD_H

#include "base/base.h"

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
#define STATE_MASK UINT64_C(0x7f)

#define WORD_LAST (UINT64_C(1) << 7)
#define WORD_RESCHEDULED (UINT64_C(1) << 8)
#define WORD_RESCHEDULING (UINT64_C(1) << 9)
#define WORD_RESCHEDULE_SEEN (UINT64_C(1) << 10)
#define WORD_REQUEUED (UINT64_C(1) << 11)
#define WORD_EXTENDED (UINT64_C(1) << 12)
#define WORD_PERIODIC (UINT64_C(1) << 13)
#define WORD_REARMED (UINT64_C(1) << 14)
#define WORD_DROPPED (UINT64_C(1) << 15)
#define WORD_FLAGS UINT64_C(0xff80)

/* What a record is that serves another one as extension.  The period is in place of the deadline: record_period. */
struct hwt_extension {
	void *arg;
	void (*release)(void *arg); /* NULL: none, or it has been called */
	uint64_t missed;            /* periods merged into the present run */
};

struct hwt_record {
	_Atomic uint64_t word;

	/*
	 * The lane that took it last: there it goes home.  Atomic because a stale handle may ask for its timer at any
	 * time.
	 */
	_Atomic(struct hwt_lane *) lane;

	/* R4.  Nothing else is ever stored here but an extension's period: a stale handle may look at any time. */
	_Atomic int64_t deadline_ns;

	union {
		struct {
			union {
				struct
				{ /* of a timeout: written by take, read by the worker, and by whoever ended it */
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
				struct hwt_record *link; /* unprocessed list, stack */
			};
		};
		struct hwt_extension extension;
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

static inline bool word_has(uint64_t word, uint64_t flag)
{
	return (word & flag) != 0;
}

/* Relaxed: what is read with it is ordered by the word, [word] [move]. */
static inline int64_t record_deadline(const struct hwt_record *record)
{
	return atomic_load_explicit(&record->deadline_ns, memory_order_relaxed);
}

/* Release: whoever looks at this deadline sees how far the word was, [look]. */
static inline void record_set_deadline(struct hwt_record *record, int64_t deadline_ns)
{
	atomic_store_explicit(&record->deadline_ns, deadline_ns, memory_order_release); /* [look] */
}

/* EXTENDED. */
static inline struct hwt_extension *record_extension(const struct hwt_record *record)
{
	return &((struct hwt_record *)record->arg)->extension;
}

/* EXTENDED.  0: none. */
static inline int64_t record_period(const struct hwt_record *record)
{
	return record_deadline(record->arg);
}

/* What the user gave as arg. */
static inline void *record_arg(const struct hwt_record *record, uint64_t word)
{
	return unlikely(word_has(word, WORD_EXTENDED)) ? record_extension(record)->arg : record->arg;
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
static inline hwt_timeout record_take(struct hwt_record *record, hwt_task *task, void *arg, int64_t deadline_ns,
				      uint64_t flags)
{
	/* Relaxed: only the owner changes a free record's word. */
	uint64_t generation = word_generation(atomic_load_explicit(&record->word, memory_order_relaxed)) + 1;

	record_set_deadline(record, deadline_ns);
	record->task = task;
	record->arg = arg;
	record->place = 0;
	HWT_POINT("word take");
	atomic_store_explicit(&record->word, word_make(generation, STATE_QUEUED) | flags,
			      memory_order_release); /* [word] */
	return (hwt_timeout){ record, generation };
}

/*
 * One edge out of the exact word *word, which is brought up to date when it has changed.  Acquire on failure too: the
 * caller looks again.
 */
static inline bool record_change(struct hwt_record *record, uint64_t *word, uint64_t to)
{
	HWT_POINT("word edge");
	return atomic_compare_exchange_strong_explicit(&record->word, word, to, memory_order_acq_rel,
						       memory_order_acquire);
}

static inline bool record_edge(struct hwt_record *record, uint64_t *word, enum word_state to)
{
	return record_change(record, word, word_with_state(*word, to));
}

static inline bool word_is_plain(uint64_t word, enum word_state state)
{
	return (word & (STATE_MASK | WORD_FLAGS)) == (uint64_t)state;
}

/* arm, for one without flags: false when it has some or was cancelled; *word is the word before the edge. */
static inline bool record_arm(struct hwt_record *record, uint64_t *word)
{
	*word = record_word(record);
	return likely(word_is_plain(*word, STATE_QUEUED)) && record_edge(record, word, STATE_ARMED);
}

/* run, for one without flags: false when it has some or was cancelled; *word is the word before the edge. */
static inline bool record_run(struct hwt_record *record, uint64_t *word)
{
	*word = record_word(record);
	return likely(word_is_plain(*word, STATE_ARMED)) && record_edge(record, word, STATE_RUNNING);
}

/*
 * finish, where `word` is what run has left.  A plain store: only its task changes the word of a running timeout, but
 * for LAST, which says nothing any more when the task has returned and may be lost here.  false: the word has got a
 * flag, nothing was done.
 */
static inline bool record_finish(struct hwt_record *record, uint64_t word)
{
	HWT_POINT("word finish");
	/* Relaxed: what has to be seen was written by this thread. */
	if (unlikely(atomic_load_explicit(&record->word, memory_order_relaxed) != word))
		return false;
	atomic_store_explicit(&record->word, word_with_state(word, STATE_EXPIRED), memory_order_release); /* [end] */
	return true;
}

/*
 * finish or again, for one with flags: what has become of it.  `again` is the state, with flags, of one that runs
 * again; for its next life in the wheel it begins anew.
 */
static inline enum word_state record_end(struct hwt_record *record, uint64_t again)
{
	uint64_t word = record_word(record);
	enum word_state end;

	while (word_has(word, WORD_REARMED)) {
		uint64_t kept = word & ~(STATE_MASK | WORD_FLAGS);

		kept |= word & (WORD_EXTENDED | WORD_PERIODIC);
		if (record_change(record, &word, kept | again))
			return word_state(again);
	}
	/* Nobody sets REARMED any more, so nobody but for LAST changes the word. */
	end = word_has(word, WORD_DROPPED) ? STATE_CANCELLED : STATE_EXPIRED;
	word &= ~WORD_LAST;
	atomic_store_explicit(&record->word, word_with_state(word, end), memory_order_release); /* [end] */
	return end;
}

/* defer.  A plain store, relaxed: after the cancelled queue has given it up the record is the worker's alone. */
static inline void record_mark_lazy(struct hwt_record *record)
{
	uint64_t word = atomic_load_explicit(&record->word, memory_order_relaxed);

	HWT_ASSERT(word_state(word) == STATE_CANCELLED);
	atomic_store_explicit(&record->word, word_with_state(word, STATE_LAZY), memory_order_relaxed);
}

/* Lets the thread go on that is writing the deadline, as this word says.  Returns the word when it is no longer so. */
uint64_t hwt_record_await_mover(struct hwt_record *record, uint64_t word);

/* The deadline of one that is pending; false: it is not.  Changes nothing, waits for nobody.  */
bool hwt_record_read_deadline(struct hwt_record *record, uint64_t generation, int64_t *deadline_ns);

/* He is ready.  The worker may have armed it meanwhile, or taken REQUEUED away. */
static inline void record_end_reschedule(struct hwt_record *record)
{
	HWT_POINT("moved");
	atomic_fetch_and_explicit(&record->word, ~WORD_RESCHEDULING, memory_order_release); /* [move] */
}

/* give_back: true when this call ended the timeout, false when somebody had before. */
static inline bool record_give_back(struct hwt_record *record)
{
	uint64_t word = record_word(record);

	while (word_state(word) == STATE_QUEUED || word_state(word) == STATE_ARMED) {
		if (unlikely(word_has(word, WORD_RESCHEDULING)))
			word = hwt_record_await_mover(record, word);
		else if (record_change(record, &word, word_with_state(word, STATE_CANCELLED) | WORD_DROPPED))
			return true;
	}
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
