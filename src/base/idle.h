/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the worker sleeps, and how producers wake it: only when they have to.
 *
 * Structure
 *
 *   wake_for_ns   what a producer has to wake the worker for:
 *
 *       IDLE_AWAKE   nothing: it is at work, or looks again by itself before it matters
 *       IDLE_NAP     only a lane that has grown long: it sleeps to the next tick
 *       a time       that, and a timeout due at or before this time: it sleeps for longer
 *
 *   The worker publishes, makes sure that all see it, looks at the lanes once more, and sleeps.  A producer pushes,
 *   then looks at the word.  Whoever wins the exchange of what it saw for IDLE_AWAKE wakes the worker, the others go
 *   on: one wake, so at most one system call, for each sleep.
 *
 * Threads
 *
 *   idle_look, hwt_idle_wake     any thread.
 *   hwt_idle_stop                any thread; wakes whatever the word says.
 *   the others                   the worker.
 *
 * Ordering
 *
 *   [idle]  Both sides store first and load then, so a fence has to stand between the two, on either side: worker,
 *           store of the word, fence, look at the lanes; producer, push, fence, load of the word.  One of them sees
 *           the other's store.  Where the kernel has membarrier, the worker's is one for all threads of the process
 *           and producers only keep the compiler from reordering; it costs them nothing.  A nap needs no fence: a
 *           wake that it misses comes with the next operation.
 *
 *   [alarm]  publish (release) -> the claim (acquire): who wakes sees the alarm that was made before.
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
	alignas(HWT_UNIT) struct hwt_sleeper sleeper;
};

/* ENOMEM, or what the system says. */
int hwt_idle_init(struct hwt_idle *idle);
void hwt_idle_destroy(struct hwt_idle *idle);

/*
 * Between a store of this thread and a load of it, against fence_between between those of another.  false: the system
 * refuses.
 */
bool hwt_idle_fence_all(const struct hwt_idle *idle);

/*
 * From here to hwt_idle_end a producer that pushes something due by wake_for_ns wakes the worker: what it pushed before
 * is in the lanes when this returns.  false: the system refuses, do not sleep past the next tick.
 */
bool hwt_idle_begin(struct hwt_idle *idle, int64_t wake_for_ns);

/* Sleeps until a time, IDLE_NAP or earlier published or nothing; a wake ends it, also one that came before. */
void hwt_idle_sleep(struct hwt_idle *idle, int64_t until_ns);

/* From here to hwt_idle_end a lane that has grown long wakes the worker. */
void hwt_idle_begin_nap(struct hwt_idle *idle);
void hwt_idle_end(struct hwt_idle *idle);

void hwt_idle_stop(struct hwt_idle *idle);

/*
 * Instead of sleeping: the alarm rings at a time, or when a producer would wake.  Before hwt_idle_begin, so that a wake
 * comes after it.
 */
void hwt_idle_set_alarm(struct hwt_idle *idle, int64_t time_ns);
bool hwt_idle_has_alarm(const struct hwt_idle *idle);

/* Wakes the worker if nobody else has since idle_look saw this. */
void hwt_idle_wake(struct hwt_idle *idle, int64_t seen_ns);

#ifdef HWT_TEST
extern _Atomic bool hwt_test_no_membarrier; /* for the timers created from now on */
#endif

/* Between a store and a load, against hwt_idle_fence_all. */
static inline void fence_between(bool has_barrier)
{
	if (likely(has_barrier))
		atomic_signal_fence(memory_order_seq_cst); /* [idle] [wait] */
	else
		full_fence(); /* [idle] [wait] */
}

/* After a push: the word, to be handed to hwt_idle_wake if there is a reason.  Mostly IDLE_AWAKE. */
static inline int64_t idle_look(struct hwt_idle *idle)
{
	HWT_POINT("idle look");
	fence_between(idle->has_barrier);
	/* Relaxed: the fences order it, [idle]. */
	return atomic_load_explicit(&idle->wake_for_ns, memory_order_relaxed);
}

#endif
