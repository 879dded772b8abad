/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state word of a record (record.h), and functions of the word alone.
 *
 * Structure
 *
 *   The word says which timeout the record serves (the generation, which the handle carries too) and how far that
 *   timeout has come:
 *
 *        63                                   16 15         7 6         0
 *       +---------------------------------------+------------+-----------+
 *       | generation                            | flags      | state     |
 *       +---------------------------------------+------------+-----------+
 *
 *   48 bits of generation last for nine years: between two lives of a record the worker makes a pass, and 2^48 passes
 *   of a microsecond take that long.
 *
 * The states and the generation
 *
 *              take               arm               run               finish
 *     free  ----------> QUEUED ----------> ARMED ----------> RUNNING ---------> EXPIRED
 *                         |                |  |                |  |
 *           cancel_queued |   cancel_armed |  | cancel_lazy    |  +-- finish, DROPPED: CANCELLED
 *               give_back |      give_back |  |                |
 *                         v                v  v                +-- rearm, on the worker:     ARMED
 *                     CANCELLED    CANCELLED  LAZY             +-- rearm, on another thread: QUEUED
 *
 *   With task threads or an executor, instead of run:
 *
 *                     hand_over            start
 *             ARMED ------------> READY ----------> RUNNING
 *                                 |   |
 *                    cancel_ready |   +-- send_back: QUEUED
 *                       give_back |
 *                                 v
 *                             CANCELLED
 *
 *   EXPIRED, CANCELLED and LAZY are ends.  The record goes home to its slab and keeps the word.  The next take makes it
 *   QUEUED with the generation one higher; a record that never served is FREE.
 *
 *     edge           taken by                                        the same thread then
 *     take           a producer that holds the lane's lock           pushes it on submitted
 *     arm            the worker, after popping it from submitted     places it in the wheel
 *     run            the worker, after collecting it                 runs the task
 *     hand_over      the same, if tasks run elsewhere                puts it into a queue, or calls execute
 *     start          the task thread or the job that has it          runs the task
 *     send_back      the same, if the deadline has not come          pushes it on the stack of the worker
 *     finish         the thread that ran the task                    returns the record to its slab
 *     rearm          the same, if REARMED is set                     places it, or pushes it on the stack of the worker
 *     cancel_queued  any thread                                      nothing: the drain finds and returns it
 *     cancel_ready   any thread                                      nothing: the task thread or the job returns it
 *     cancel_armed   any thread, with cancel lock and a node         pushes it on cancelled; the worker unlinks it
 *     cancel_lazy    any thread that finds no memory for a node      nothing: the wheel drops it when it is due
 *     mark_lazy      the worker, CANCELLED to LAZY, if it cannot     nothing: the wheel drops it at the next tick
 *                    unlink the record that it popped
 *     give_back      stop, after the worker has gone                 puts it on the unprocessed list
 *
 *   Each edge out of QUEUED, ARMED and READY is a compare-and-swap on the exact word.  So exactly one of several racing
 *   threads takes it, and a handle of another generation changes nothing.  To callers LAZY means cancelled.
 *
 * The flags
 *
 *   Most timeouts never have one: their edges compare with a word without flags, which costs nothing more.  A take
 *   clears all flags, and sets EXTENDED and PERIODIC for a timeout that has them.
 *
 *     RESCHEDULING     a thread is writing another deadline, or is about to push the record: a mover, the timeout's own
 *                      task, or a task thread or job that rearms or sends back.  That thread clears the flag some
 *                      instructions later.  Other movers, task threads, jobs, cancel and stop wait until it has: what
 *                      they push or wake for afterwards the worker then finds in a queue.  The worker does not wait; it
 *                      checks again at the next tick.
 *     RESCHEDULED      the deadline may differ from the place in the wheel.  Stays until the next life in the wheel.
 *     RESCHEDULE_SEEN  the worker, or the thread that begins a READY record, has seen RESCHEDULED without RESCHEDULING,
 *                      and is reading the deadline.  Each mover clears it.  So the exchange for RUNNING fails after a
 *                      move, even if the other bits have come back to what they were.
 *     REQUEUED         the record is in a submitted queue, to be placed earlier.  Until the worker pops it, it does not
 *                      run, and a cancel need not push it a second time.
 *     EXTENDED         arg points to the extension.
 *     PERIODIC         the timeout has a period.
 *     REARMED          RUNNING: the timeout will run once more.  A cancel clears it and sets DROPPED (drop).
 *     DROPPED          RUNNING: a cancel has cleared REARMED, so this run is the last and ends as CANCELLED.
 *                      CANCELLED: stop gave the timeout back.
 *     LAST             RUNNING: a cancel came while REARMED was not set (make_last).  The task can no longer set it, so
 *                      this run is the last; it ends as EXPIRED.
 */
#ifndef HWT_WORD_H
#define HWT_WORD_H

#include "base/base.h"

#include <hwt.h>

enum word_state {
	STATE_FREE,
	STATE_QUEUED,
	STATE_ARMED,
	STATE_RUNNING,
	STATE_EXPIRED,
	STATE_CANCELLED,
	STATE_LAZY,
	STATE_READY,
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

/* The same for a word whose state is known to be `from`: one addition. */
static inline uint64_t word_step(uint64_t word, enum word_state from, enum word_state to)
{
	return word + (uint64_t)to - (uint64_t)from;
}

/* The same for `to`, a state with flags; of its old flags the word keeps only EXTENDED and PERIODIC. */
static inline uint64_t word_again(uint64_t word, uint64_t to)
{
	return (word & ~(STATE_MASK | WORD_FLAGS)) | (word & (WORD_EXTENDED | WORD_PERIODIC)) | to;
}

static inline bool word_has(uint64_t word, uint64_t flag)
{
	return (word & flag) != 0;
}

/* Returns true if the timeout waits for a run, and may be cancelled or moved. */
static inline bool word_is_pending(uint64_t word)
{
	enum word_state state = word_state(word);

	return state == STATE_QUEUED || state == STATE_ARMED || state == STATE_READY;
}

/* Returns true if the word is that of a timeout that has not ended. */
static inline bool word_is_alive(uint64_t word)
{
	return word_is_pending(word) || word_state(word) == STATE_RUNNING;
}

/* Returns true if the word has this state and no flag. */
static inline bool word_is_plain(uint64_t word, enum word_state state)
{
	return (word & (STATE_MASK | WORD_FLAGS)) == (uint64_t)state;
}

/* Returns the public state of a timeout of this generation. */
static inline hwt_state word_public_state(uint64_t word, uint64_t generation)
{
	if (word_generation(word) != generation)
		return HWT_RETIRED;
	switch (word_state(word)) { /* there are no others */
	case STATE_QUEUED:
	case STATE_ARMED:
	case STATE_READY:
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
