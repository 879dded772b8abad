/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlines from the processor's counter, because a reading of the clock is half of the cost of a timeout.
 *
 * Structure
 *
 *   A wheel knows deadlines to a tick, so now + delay need not be known better than that.  Each thread remembers its
 *   last reading of the clock, the count of the processor's counter at that moment (x86: rdtsc, without waiting for
 *   earlier instructions), and how many nanoseconds a count takes:
 *
 *       now = now_ns + (count - last count) * rate            for COUNTER_GOOD_FOR_NS after the reading
 *
 *   If now + delay lies further than COUNTER_ERROR_NS from both ends of its tick, the exact deadline is in the same
 *   tick.  Otherwise, or if the reading is too old, the thread reads the clock.  So ticks are exact.  Only the deadline
 *   in hwt_unprocessed may be some nanoseconds off.
 *
 *   The thread measures the rate again and again, from one reading to a later one:
 *
 *       readings   |  |  | |      |  |                          |  |  |
 *       measured   +------+-------+   too long: no measurement  +------ ...
 *                     1       2
 *
 *   A rate is used once two measurements in a row agree, until a measurement disagrees or a reading does not fit.  Then
 *   two are needed again.  A thread that calls rarely reads the clock each time.
 *
 * Invariants
 *
 *   T1  the guess is wrong by less than COUNTER_ERROR_NS while the rate is right to 1/8.  The sum: 4 us of 32, 4 us
 *       for the reading itself, 2 us for a counter that the processor reads earlier than the program says.
 *   T2  the counter is used only where the kernel's own clock runs by it (clocksource tsc), so it runs at one rate on
 *       all cores and with the clock.  Elsewhere it is not even read.  The workers ask the kernel again, together once
 *       a second, and an answer counts for COUNTER_TRUST_NS.
 *   T3  the rate in use is right to 1/8.  A measurement is right to 1/128, and the one in use differs from the one
 *       before by at most 1/64.  During a suspension the clock stands still and the counter goes on.  But a measurement
 *       takes at most COUNTER_BASE_MAX_NS, less than a machine is awake between two suspensions, so of two in a row at
 *       least one contains none.  The kernel speeds its clock up or down by at most 1/10.
 *
 *   Not covered: a counter that begins again from 0 in a suspension and passes the very count of a thread's last
 *   reading when that thread next calls; and a virtual machine that is restored with its clock set forward and its
 *   counter as it was.  An old reading then serves for the rest of its 32 us.
 *
 * Threads: each has its own reading.
 *
 * Reference: Intel SDM, vol. 3, "Time-stamp counter"; Linux, arch/x86/kernel/tsc.c for what its own trust rests on.
 */
#ifndef HWT_COUNTER_H
#define HWT_COUNTER_H

#include "base/grid.h"
#include "base/sleeper.h"

#include <hwt.h>

#define COUNTER_GOOD_FOR_NS HWT_US(32)
#define COUNTER_ERROR_NS HWT_US(10)
#define COUNTER_BASE_NS HWT_US(50)
#define COUNTER_BASE_MAX_NS HWT_US(200)
#define COUNTER_ASK_AGAIN_NS NS_PER_S
#define COUNTER_TRUST_NS HWT_S(10)

struct hwt_reading {
	uint64_t count;
	uint64_t good_for; /* in counts; 0: the reading is of no use, and the counter may not be read */
	int64_t now_ns;
	uint64_t rate;  /* nanoseconds per count, times 2^32, by the last measurement; 0: none yet */
	bool confirmed; /* the last two measurements agree */

	uint64_t took;       /* about the fewest counts that a reading took */
	uint64_t base_took;  /* `took` of the reading with which the present measurement began */
	uint64_t base_count; /* count and time of that reading */
	int64_t base_ns;     /* 0: no measurement has begun */
};

extern HWT_OWN struct hwt_reading hwt_reading;

#ifdef HWT_TEST
extern uint64_t (*hwt_test_counter)(void); /* NULL: the real counter, or no counter with a virtual clock */
extern const char *hwt_test_clocksource;   /* NULL: the kernel's file, or no file with a virtual clock */
#endif

/* Asks the kernel whether it trusts the counter, unless a thread has done so within COUNTER_ASK_AGAIN_NS. */
void hwt_counter_ask(int64_t now_ns);

/*
 * Reads the clock, remembers the reading and returns the time.  Cold, so that the fast path saves no registers for the
 * call.
 */
int64_t hwt_counter_read_clock(void) __attribute__((cold));

static inline uint64_t counter_count(void)
{
	uint64_t count = 0;

#ifdef __x86_64__
	count = __builtin_ia32_rdtsc();
#endif
#ifdef HWT_TEST
	if (hwt_test_counter != NULL)
		return hwt_test_counter();
	if (hwt_test_clock != NULL)
		return hwt_reading.count - 1; /* no count is in time */
#endif
	return count;
}

/* Guesses now + delay from the counter.  Returns false if only the clock knows the tick. */
static inline bool counter_guess(const struct hwt_grid *grid, int64_t delay_ns, int64_t *deadline_ns)
{
	const struct hwt_reading *last = &hwt_reading;
	uint64_t passed;

	if (unlikely(last->good_for == 0))
		return false;
	passed = counter_count() - last->count;
	if (unlikely(passed >= last->good_for))
		return false;
	/* Rounded up. */
	*deadline_ns = add_saturating(last->now_ns + (int64_t)(passed * last->rate >> 32) + 1, delay_ns);
	return grid_is_within(grid, *deadline_ns, COUNTER_ERROR_NS);
}

/* Returns now + delay, or another time in the same tick. */
static inline int64_t counter_deadline(const struct hwt_grid *grid, int64_t delay_ns)
{
	int64_t deadline_ns;

	if (likely(counter_guess(grid, delay_ns, &deadline_ns)))
		return deadline_ns;
	return add_saturating(hwt_counter_read_clock(), delay_ns);
}

#endif
