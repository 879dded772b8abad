/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Idling: how the worker sleeps, and how producers wake it only if they have to.
 *
 * Structure
 *
 *   wake_for_ns says for what a producer has to wake the worker:
 *
 *       IDLE_AWAKE   for nothing: the worker is at work, or checks again by itself in time
 *       IDLE_NAP     for a lane that has grown long: the worker sleeps to the next tick
 *       a time       for a long lane, and for a timeout due at or before this time: the worker sleeps longer
 *
 *   The worker publishes this word, makes sure that all threads see it, checks the lanes once more, and sleeps.  A
 *   producer pushes, then loads the word.  The producer that exchanges what it saw for IDLE_AWAKE wakes the worker,
 *   the others go on: for each sleep one wake, and so at most one system call.
 *
 * Threads
 *
 *   idle_look, hwt_idle_wake     any thread.
 *   hwt_idle_stop                any thread; wakes the worker whatever the word says.
 *   the others                   the worker.
 *
 * Ordering
 *
 *   [idle]  Each side stores first and loads afterwards, so each needs a fence in between.  The worker: store of the
 *           word, fence, load of the lanes.  A producer: push, fence, load of the word.  Then at least one of them sees
 *           the other's store.  Without the fences both loads could come first: the worker sleeps, and the producer
 *           takes it for awake.  Where the kernel has membarrier, the worker makes the fence in all threads of the
 *           process, and producers only keep the compiler from reordering, which costs them nothing.  A nap needs no
 *           fence: a wake that it misses comes with the next operation.
 *
 *   [alarm]  publish (release) -> the claim (acquire): a thread that wakes sees the alarm that was made before.
 *
 *   [rung]   A slow thread may claim an old word and ring after a newer word and alarm.  So each thread counts itself
 *            in before the claim, and out after the ring (release).  While the count is not 0 the driver (acquire) does
 *            not take the alarm for the one that it set.  The driver sees the count of each claim that came before its
 *            newer word: the thread counts, fences and claims; the driver stores the word, fences and loads the count.
 *            A ring that is over stays noted until the driver sets the alarm, which silences it.
 *
 *   model/sleep.pml is this handshake, with either fence.
 *
 * Reference: Linux, membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED.
 */
#ifndef HWT_IDLE_H
#define HWT_IDLE_H

#include "base/sleeper.h"

#include <stdalign.h>

#define IDLE_AWAKE INT64_MIN
#define IDLE_NAP (INT64_MIN + 1)

struct hwt_idle {
	alignas(HWT_UNIT) _Atomic int64_t wake_for_ns; /* read by all producers, written twice a sleep */
	bool has_barrier;                              /* producers need no fence; never changes */
	_Atomic uint64_t rings; /* not 0: threads are ringing, or have rung since the alarm was set; [rung] */
	alignas(HWT_UNIT) struct hwt_sleeper sleeper;
};

/* Returns 0, ENOMEM, ENOTSUP, or an error of the system.  config: as for hwt_sleeper_init. */
int hwt_idle_init(struct hwt_idle *idle, const hwt_config *config);
void hwt_idle_destroy(struct hwt_idle *idle);

/*
 * The expensive fence between a store and a load.  The threads on the other side use fence_between.  Returns false if
 * the system refuses.
 */
bool hwt_idle_fence_all(const struct hwt_idle *idle);

/* Publishes what a producer has to wake the worker for.  Release: the thread that wakes it sees the alarm. */
static inline void idle_publish(struct hwt_idle *idle, int64_t wake_for_ns)
{
	atomic_store_explicit(&idle->wake_for_ns, wake_for_ns, memory_order_release); /* [alarm] */
}

/*
 * Publishes, and makes the fence that [idle] needs.  When this returns, the lanes show each push whose producer did not
 * wake the worker.  Returns false if the system refuses the fence: then do not sleep past the next tick.
 */
bool hwt_idle_begin(struct hwt_idle *idle, int64_t wake_for_ns);

/* Sleeps until a time.  A wake ends the sleep, also one that came before it. */
void hwt_idle_sleep(struct hwt_idle *idle, int64_t until_ns);

/* Wakes the worker for a stop. */
void hwt_idle_stop(struct hwt_idle *idle);

/*
 * Stands in for sleeping: the alarm rings at a time, or when a producer wakes.  To be called before hwt_idle_begin: in
 * the other order a producer's wake could come in between, and the new setting would silence it.  A loop without a
 * descriptor learns of wakes alone, by its function.
 */
void hwt_idle_set_alarm(struct hwt_idle *idle, int64_t time_ns);

/* Returns the descriptor of the alarm, -1: there is none. */
static inline int idle_alarm(const struct hwt_idle *idle)
{
	return sleeper_alarm(&idle->sleeper);
}

/* Returns true if the caller's loop has an alarm, or a function for producers to call. */
static inline bool idle_is_watched(const struct hwt_idle *idle)
{
	return idle->sleeper.ring != NULL || idle_alarm(idle) >= 0;
}

/* Returns the published time while no producer has rung since the alarm was set; otherwise IDLE_AWAKE. */
static inline int64_t idle_told(const struct hwt_idle *idle)
{
	/* Relaxed: a producer that claims the word after this load rings after this load, too. */
	int64_t told_ns = atomic_load_explicit(&idle->wake_for_ns, memory_order_relaxed);

	return atomic_load_explicit(&idle->rings, memory_order_acquire) == 0 ? told_ns : IDLE_AWAKE; /* [rung] */
}

/* Wakes the worker, unless another thread has woken it since idle_look returned seen_ns. */
void hwt_idle_wake(struct hwt_idle *idle, int64_t seen_ns);

/* The cheap fence between a store and a load.  The thread on the other side uses hwt_idle_fence_all. */
static inline void fence_between(bool has_barrier)
{
	if (likely(has_barrier))
		atomic_signal_fence(memory_order_seq_cst); /* [idle] [wait] */
	else
		full_fence(); /* [idle] [wait] */
}

/* Returns the word after a push, mostly IDLE_AWAKE.  A caller that has a reason to wake hands it to hwt_idle_wake. */
static inline int64_t idle_look(struct hwt_idle *idle)
{
	HWT_POINT("idle look");
	fence_between(idle->has_barrier);
	/* Relaxed: the fences order it, [idle]. */
	return atomic_load_explicit(&idle->wake_for_ns, memory_order_relaxed);
}

#endif
