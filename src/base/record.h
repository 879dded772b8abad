/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The record of a timeout.
 *
 * Structure
 *
 *   A record of 48 bytes holds one timeout.  Its address stays that of a record until the timer is destroyed, so the
 *   holder of a stale handle may read the word at any time.  While its memory is given back (record_slab.h) the word is
 *   0.  The word (word.h) says which timeout the record serves, and how far that has come.
 *
 *   A timeout with a period or a finaliser has a second record, its extension.  The extension's word does not change.
 *
 * Invariants
 *
 *   R1  at each moment a record is in exactly one of: a free list (or on its way back to one), a submitted queue, the
 *       wheel, the wheel and a cancelled queue, a cancelled queue, the worker's batch, the postponed list, the
 *       unprocessed list, the stack of rearmed records, the queue of the task threads, the hands of an executor or of
 *       the thread that runs its task; or it is the extension of another record.  A record of the wheel or the batch is
 *       in a submitted queue, too, if and only if it is REQUEUED.
 *   R2  only the worker takes records back from a queue.  A job takes back only its own record, a task thread those
 *       that it took from its queue.  A canceller takes back none, since a node of a queue may still point at the
 *       record.
 *   R3  place != 0 if and only if the record is in the wheel.  The batch that the worker is running is excepted.
 *   R4  deadline_ns of an ARMED or READY record changes only under RESCHEDULING.  That of a RUNNING record is changed
 *       only by its own task and by the thread that runs the task.
 *
 * Ordering
 *
 *   [word]   take stores the word last (release), cancel loads it (acquire): a thread that sees the generation sees
 *            task, arg and deadline.  The later edges are read-modify-writes and carry that on.
 *   [end]    finish stores the word (release), hwt_timeout_state loads it (acquire): a thread that sees EXPIRED sees
 *            what the task wrote.
 *   [move]   RESCHEDULING is set (acquire) before the deadline is written, and cleared (release) after it.
 *   [look]   deadline, task and arg are stored with release, and so is all that shares their memory.  A look loads them
 *            (acquire) between two loads of the word: a thread that reads what was written after the end of a timeout
 *            then also sees the word of that end.  The memory of an extension is overwritten after the end of the
 *            timeout that has it.
 */
#ifndef HWT_RECORD_H
#define HWT_RECORD_H

#include "base/thread.h"
#include "base/word.h"

struct hwt_lane;

/* The contents of a record that is the extension of another.  Its deadline_ns holds the period: record_period. */
struct hwt_extension {
	_Atomic(void *) arg;
	void (*_Atomic release)(void *arg); /* NULL: there is none, or it has been called */
	uint64_t missed;                    /* periods merged into the present run */
};

struct hwt_record {
	_Atomic uint64_t word;

	/*
	 * The lane that took the record last, which leads to the timer.  Atomic because the holder of a stale handle
	 * may ask for the timer at any time.
	 */
	_Atomic(struct hwt_lane *) lane;

	/* R4.  Holds a deadline or a period and nothing else: the holder of a stale handle may read it at any time. */
	_Atomic int64_t deadline_ns;

	union {
		struct {
			union {
				struct { /* of a timeout: written by take, atomic for looks: [look] */
					_Atomic(hwt_task *) task;
					_Atomic(void *) arg;
				};
				struct { /* of a free record */
					_Atomic(struct hwt_record *) free_next;
					/* The record to prefetch when this one is taken. */
					_Atomic(struct hwt_record *) free_ahead;
				};
			};
			union {
				uintptr_t place;         /* where in the wheel, as its layout encodes it; 0: nowhere */
				struct hwt_record *link; /* the next one of a list, the stack, or ready.h's queue */
			};
		};
		struct hwt_extension extension;
	};
};

#define RECORD_SIZE 48
#define RECORD_ALIGN 8 /* of its atomics, where pointers have 4 bytes, too; leaves the lowest bit free for place */

static_assert(sizeof(void *) != 8 || sizeof(struct hwt_record) == RECORD_SIZE, "a record is three quarters of a line");
static_assert(sizeof(struct hwt_record) % RECORD_ALIGN == 0 && offsetof(struct hwt_record, word) % RECORD_ALIGN == 0 &&
		  offsetof(struct hwt_record, deadline_ns) % RECORD_ALIGN == 0,
	      "an atomic of 8 bytes that is not aligned traps or tears");

/* Returns the deadline.  Relaxed: the load of the word has ordered it, [word] [move]. */
static inline int64_t record_deadline(const struct hwt_record *record)
{
	return atomic_load_explicit(&record->deadline_ns, memory_order_relaxed);
}

/* Stores the deadline.  Release: a thread that reads it then also sees how far the word was, [look]. */
static inline void record_set_deadline(struct hwt_record *record, int64_t deadline_ns)
{
	atomic_store_explicit(&record->deadline_ns, deadline_ns, memory_order_release); /* [look] */
}

/* Returns the task of a timeout.  Relaxed: the load of the word has ordered it, [word]. */
static inline hwt_task *record_task(const struct hwt_record *record)
{
	return atomic_load_explicit(&record->task, memory_order_relaxed);
}

/* Returns the record of the extension of a record that is EXTENDED.  Relaxed: as in record_task. */
static inline struct hwt_record *record_second(const struct hwt_record *record)
{
	return atomic_load_explicit(&record->arg, memory_order_relaxed);
}

/* Returns the extension of a record that is EXTENDED. */
static inline struct hwt_extension *record_extension(const struct hwt_record *record)
{
	return &record_second(record)->extension;
}

/* Returns the period of a record that is EXTENDED, 0 if it has none. */
static inline int64_t record_period(const struct hwt_record *record)
{
	return record_deadline(record_second(record));
}

/* Returns the address of the user's arg: in the record or in its extension. */
static inline const _Atomic(void *) *record_arg_at(const struct hwt_record *record, uint64_t word)
{
	return unlikely(word_has(word, WORD_EXTENDED)) ? &record_extension(record)->arg : &record->arg;
}

/* Returns the user's arg.  Relaxed: as in record_task. */
static inline void *record_arg(const struct hwt_record *record, uint64_t word)
{
	return atomic_load_explicit(record_arg_at(record, word), memory_order_relaxed);
}

/* Asks for both ends of the record, as records straddle cache lines. */
static inline void record_prefetch(const struct hwt_record *record)
{
	prefetch_for_write(record);
	prefetch_for_write((const char *)record + sizeof(*record) - 1);
}

/* Loads the word.  Acquire: [word], [end]. */
static inline uint64_t record_word(struct hwt_record *record)
{
	HWT_POINT("word load");
	return atomic_load_explicit(&record->word, memory_order_acquire);
}

/*
 * The edge take.  The caller owns the free record.  The handle is built here and not after the push: by the time the
 * push returns, the timeout may have ended and the record may serve another one.
 */
static inline hwt_timeout record_take(struct hwt_record *record, hwt_task *task, void *arg, int64_t deadline_ns,
				      uint64_t flags)
{
	/* Relaxed: only its owner changes the word of a free record. */
	uint64_t before = word_generation(atomic_load_explicit(&record->word, memory_order_relaxed));
	uint64_t generation = (before + 1) & (UINT64_MAX >> GENERATION_SHIFT); /* it wraps as in the word */

	record_set_deadline(record, deadline_ns);
	atomic_store_explicit(&record->task, task, memory_order_release); /* [look] */
	atomic_store_explicit(&record->arg, arg, memory_order_release);   /* [look] */
	record->place = 0;
	HWT_POINT("word take");
	atomic_store_explicit(&record->word, word_make(generation, STATE_QUEUED) | flags,
			      memory_order_release); /* [word] */
	return (hwt_timeout){ record, generation };
}

/*
 * Takes one edge out of the exact word *word.  If the word has changed, it returns false and updates *word.  Acquire on
 * failure too, as the caller tries again and acts on the new word.
 */
static inline bool record_change(struct hwt_record *record, uint64_t *word, uint64_t to)
{
	HWT_POINT("word edge");
	return atomic_compare_exchange_strong_explicit(&record->word, word, to, memory_order_acq_rel,
						       memory_order_acquire);
}

/* The same for an edge that changes only the state. */
static inline bool record_edge(struct hwt_record *record, uint64_t *word, enum word_state to)
{
	return record_change(record, word, word_with_state(*word, to));
}

/*
 * The edge arm of a record without flags.  Returns false if the record has a flag or has been cancelled.  *word is the
 * word before the edge.
 */
static inline bool record_arm(struct hwt_record *record, uint64_t *word)
{
	*word = record_word(record);
	return likely(word_is_plain(*word, STATE_QUEUED)) && record_edge(record, word, STATE_ARMED);
}

/*
 * The edge run of a record without flags.  It races with cancel and with movers; the exchange decides.  If it returns
 * true, *word is the word after the edge.
 */
static inline bool record_run(struct hwt_record *record, uint64_t *word)
{
	uint64_t armed = record_word(record);

	*word = word_step(armed, STATE_ARMED, STATE_RUNNING);
	return likely(word_is_plain(armed, STATE_ARMED)) && record_change(record, &armed, *word);
}

/*
 * The edge finish of a record whose word, after run, was `word`.  Returns false and does nothing if a flag has been set
 * since: the task has rearmed the timeout, or a cancel has come.
 *
 * A load and a store suffice where the other edges need an exchange.  REARMED is set by the task alone, which has
 * returned.  DROPPED needs REARMED first.  So only LAST can still come between the load and the store, from a cancel;
 * the store overwrites it.  That is harmless, because LAST only tells the task not to rearm.
 */
static inline bool record_finish(struct hwt_record *record, uint64_t word)
{
	HWT_POINT("word finish");
	/* Relaxed: all that matters here was written by this thread. */
	if (unlikely(atomic_load_explicit(&record->word, memory_order_relaxed) != word))
		return false;
	word = word_step(word, STATE_RUNNING, STATE_EXPIRED);
	atomic_store_explicit(&record->word, word, memory_order_release); /* [end] */
	return true;
}

/*
 * The edge finish or rearm of a record with flags.  Returns the new state.  `again` is the new state, with flags, of a
 * record that runs again.
 *
 * The loop races with the cancel that turns REARMED into DROPPED.  If the exchange here wins, the cancel finds ARMED or
 * QUEUED and cancels that.  If the cancel wins, the loop ends and the timeout ends as CANCELLED.
 */
static inline enum word_state record_end(struct hwt_record *record, uint64_t again)
{
	uint64_t word = record_word(record);
	enum word_state end;

	while (word_has(word, WORD_REARMED))
		if (record_change(record, &word, word_again(word, again)))
			return word_state(again);
	/* REARMED can no longer be set, so only LAST may still come from another thread.  The store drops it. */
	end = word_has(word, WORD_DROPPED) ? STATE_CANCELLED : STATE_EXPIRED;
	word &= ~WORD_LAST;
	atomic_store_explicit(&record->word, word_with_state(word, end), memory_order_release); /* [end] */
	return end;
}

/* The edge mark_lazy.  Relaxed, no exchange: a record popped from the cancelled queue belongs to the worker alone. */
static inline void record_mark_lazy(struct hwt_record *record)
{
	uint64_t word = atomic_load_explicit(&record->word, memory_order_relaxed);

	HWT_ASSERT(word_state(word) == STATE_CANCELLED);
	atomic_store_explicit(&record->word, word_with_state(word, STATE_LAZY), memory_order_relaxed);
}

/*
 * Yields to the thread that, as this word says, is writing the deadline.  Returns the word once RESCHEDULING is clear
 * or the record serves another timeout.  Cold, so that the caller's fast path saves no registers for the call.
 */
static inline __attribute__((cold)) uint64_t record_await_mover(struct hwt_record *record, uint64_t word)
{
	uint64_t generation = word_generation(word);
	unsigned turns = 0;

	do {
		hwt_thread_give_way(&turns);
		word = record_word(record);
	} while (word_has(word, WORD_RESCHEDULING) && word_generation(word) == generation);
	return word;
}

static inline bool record_is_running(struct hwt_record *record, uint64_t generation)
{
	uint64_t word = record_word(record);

	return word_generation(word) == generation && word_state(word) == STATE_RUNNING;
}

static inline bool record_is_pending(struct hwt_record *record, uint64_t generation)
{
	uint64_t word = record_word(record);

	return word_generation(word) == generation && word_is_pending(word);
}

/*
 * Reads the deadline of a pending timeout; false if it is not pending.  Changes nothing and waits for no thread.
 *
 * Two loads of the word enclose the load of the deadline.  If the timeout is pending in both, the deadline is one that
 * it had in between, so no mover has to be kept out.  Without the second load the deadline could be that of the
 * record's next life: a cancel, a return to the slab and a take fit between the first load and that.  The loads
 * acquire, [look]: a reader that sees the deadline of the next life also sees its word, and returns false.
 */
static inline bool record_read_deadline(struct hwt_record *record, uint64_t generation, int64_t *deadline_ns)
{
	int64_t seen_ns;

	if (!record_is_pending(record, generation))
		return false;
	HWT_POINT("look");
	seen_ns = atomic_load_explicit(&record->deadline_ns, memory_order_acquire); /* [look] */
	if (!record_is_pending(record, generation))
		return false;
	*deadline_ns = seen_ns;
	return true;
}

static inline bool record_is_alive(struct hwt_record *record, uint64_t generation)
{
	uint64_t word = record_word(record);

	return word_generation(word) == generation && word_is_alive(word);
}

/*
 * Reads the timeout that the record serves; false if there is none, or if it ends meanwhile.  As record_read_deadline
 * it changes nothing and waits for no thread.  It follows arg to an extension only after a second load of the word has
 * shown that the timeout has not ended.
 */
static inline bool record_read(struct hwt_record *record, hwt_pending *out)
{
	/* No HWT_POINT: a walk comes by at many records that serve nothing. */
	uint64_t word = atomic_load_explicit(&record->word, memory_order_acquire); /* [word] */
	uint64_t generation = word_generation(word), now;
	const struct hwt_record *second;

	if (likely(!word_is_alive(word)))
		return false;
	HWT_POINT("look");
	*out = (hwt_pending){ .timeout = { record, generation } };
	out->task = atomic_load_explicit(&record->task, memory_order_acquire);               /* [look] */
	out->arg = atomic_load_explicit(&record->arg, memory_order_acquire);                 /* [look] */
	out->deadline_ns = atomic_load_explicit(&record->deadline_ns, memory_order_acquire); /* [look] */
	if (unlikely(word_has(word, WORD_EXTENDED))) {
		if (!record_is_alive(record, generation))
			return false;
		HWT_POINT("look");
		second = out->arg;
		out->arg = atomic_load_explicit(&second->extension.arg, memory_order_acquire);     /* [look] */
		out->period_ns = atomic_load_explicit(&second->deadline_ns, memory_order_acquire); /* [look] */
	}
	HWT_POINT("look");
	now = record_word(record);
	out->state = word_state(now) == STATE_RUNNING ? HWT_RUNNING : HWT_PENDING;
	return word_generation(now) == generation && word_is_alive(now);
}

/*
 * Clears RESCHEDULING: the mover is done.  An atomic and, not a store, because in the meantime the worker may have
 * armed the record, cleared REQUEUED or set RESCHEDULED.
 */
static inline void record_end_reschedule(struct hwt_record *record)
{
	HWT_POINT("moved");
	atomic_fetch_and_explicit(&record->word, ~WORD_RESCHEDULING, memory_order_release); /* [move] */
}

/* The edge give_back.  Returns true if this call ended the timeout, false if it had ended before. */
static inline bool record_give_back(struct hwt_record *record)
{
	uint64_t word = record_word(record);

	while (word_is_pending(word)) {
		if (unlikely(word_has(word, WORD_RESCHEDULING)))
			word = record_await_mover(record, word);
		else if (record_change(record, &word, word_with_state(word, STATE_CANCELLED) | WORD_DROPPED))
			return true;
	}
	return false;
}

#endif
