/* SPDX-License-Identifier: BSD-2-Clause */
/* Publishing, membarrier, and the claim of a wake; idle.h. */
#define _GNU_SOURCE
#include "base/idle.h"

#include <errno.h>

#if defined(HWT_LINUX) && !defined(HWT_NO_MEMBARRIER)
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* The values of <linux/membarrier.h>, a header that not every C library has. */
#define MEMBARRIER_CMD_PRIVATE_EXPEDITED (1 << 3)
#define MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED (1 << 4)

/* The lower half of `rings` counts the threads that are ringing, the upper half the rings that are over. */
#define RING_BEGUN UINT64_C(1)
#define RING_OVER (UINT64_C(1) << 32)

HWT_TUNABLE(bool, no_membarrier, false)

/* Has all threads of this process execute a full fence, or registers for that.  Returns false if the system refuses. */
static bool membarrier(int command)
{
	bool done = false;
#ifdef SYS_membarrier
	int before = errno;

	done = syscall(SYS_membarrier, command, 0, 0) == 0;
	errno = before;
#else
	(void)command;
#endif
	return done;
}

int hwt_idle_init(struct hwt_idle *idle, const hwt_config *config)
{
	*idle = (struct hwt_idle){ .wake_for_ns = IDLE_AWAKE };
	idle->has_barrier = !no_membarrier() && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
	return hwt_sleeper_init(&idle->sleeper, config);
}

void hwt_idle_destroy(struct hwt_idle *idle)
{
	hwt_sleeper_destroy(&idle->sleeper);
}

bool hwt_idle_fence_all(const struct hwt_idle *idle)
{
	if (likely(idle->has_barrier))
		return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED); /* [idle] [wait] */
	full_fence();                                                /* [idle] [wait] */
	return true;
}

bool hwt_idle_begin(struct hwt_idle *idle, int64_t wake_for_ns)
{
	idle_publish(idle, wake_for_ns);
	HWT_POINT("idle published");
	return hwt_idle_fence_all(idle); /* [idle] */
}

void hwt_idle_sleep(struct hwt_idle *idle, int64_t until_ns)
{
	HWT_POINT("idle sleep");
	hwt_sleeper_sleep_until(&idle->sleeper, until_ns);
}

void hwt_idle_wake(struct hwt_idle *idle, int64_t seen_ns)
{
	uint64_t over = RING_BEGUN;

	HWT_POINT("idle claim");
	/* Relaxed: the fence orders it, [rung]. */
	atomic_fetch_add_explicit(&idle->rings, RING_BEGUN, memory_order_relaxed);
	fence_between(idle->has_barrier); /* [rung] */
	/*
	 * Strong, as a spurious failure would lose the wake.  Acquire: [alarm].  On failure relaxed: no second check is
	 * needed, as another thread has woken the worker, or the worker has published again.  Either came after this
	 * thread's push could be seen, so the worker has checked the lanes since.
	 */
	if (seen_ns != IDLE_AWAKE &&
	    atomic_compare_exchange_strong_explicit(&idle->wake_for_ns, &seen_ns, IDLE_AWAKE, memory_order_acquire,
						    memory_order_relaxed)) {
		HWT_POINT("idle claimed");
		hwt_sleeper_wake(&idle->sleeper);
		over = RING_BEGUN - RING_OVER;
	}
	HWT_POINT("idle rung");
	atomic_fetch_sub_explicit(&idle->rings, over, memory_order_release); /* [rung] */
}

/*
 * The thread that claims the published word calls the loop's function, also if it stops the timer.  So the function is
 * called once for each publication.  If the word is IDLE_AWAKE, the function has been called, or an advance is in
 * progress, and its end sees the stop.
 */
void hwt_idle_stop(struct hwt_idle *idle)
{
	if (idle->sleeper.ring == NULL) {
		hwt_sleeper_wake(&idle->sleeper);
		return;
	}
	(void)hwt_sleeper_set_alarm(&idle->sleeper, 0); /* `rings` counts only claims */
	hwt_idle_wake(idle, idle_look(idle));
}

void hwt_idle_set_alarm(struct hwt_idle *idle, int64_t time_ns)
{
	HWT_POINT("idle alarm");
	/* Before the alarm is set: a ring after the setting is new.  A ring before it may be old or new. */
	atomic_fetch_and_explicit(&idle->rings, RING_OVER - 1, memory_order_acquire); /* [rung] */
	(void)hwt_sleeper_set_alarm(&idle->sleeper, time_ns);
	/*
	 * The system tells of a step of the clock only once.  If a thread that rang was told, this thread was not, and
	 * time_ns is a time of the old clock: ring now.
	 */
	if (unlikely(idle->sleeper.clock == HWT_CLOCK_REALTIME) && time_ns > 0 &&
	    (atomic_load_explicit(&idle->rings, memory_order_acquire) != 0 || /* [rung] */
	     sleeper_has_stepped(&idle->sleeper)))
		(void)hwt_sleeper_set_alarm(&idle->sleeper, 0);
}
