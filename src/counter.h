/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlines from the processor's counter: what reading the clock costs is half of what a timeout costs.
 *
 * Structure
 *
 *   A wheel knows deadlines to a tick, so now + delay need not be known better than that.  Each thread remembers its
 *   last reading of the clock with the count of the processor's counter (x86: rdtsc, without waiting for what comes
 *   before it) at that moment, and how many nanoseconds a count takes:
 *
 *       now = now_ns + (count - last count) * rate            for COUNTER_GOOD_FOR_NS after the reading
 *
 *   If now + delay lies further than COUNTER_ERROR_NS from both ends of its tick, it is in the same tick as the exact
 *   deadline.  If not, or the reading is too old, the clock is read.  So ticks are exact; only the deadline that a
 *   returned timeout shows may be some nanoseconds off.
 *
 *   The rate is measured, over COUNTER_BASE_NS at the least and again and again; a reading that does not fit it begins
 *   anew.  A thread that calls rarely reads the clock each time.
 *
 * Invariants
 *
 *   T1  the guess is wrong by less than COUNTER_ERROR_NS while the rate is right to 1/8.  The sum: 4 us of 32, 4 us
 *       for the reading itself, 2 us for a counter that is read earlier than the program says.
 *   T2  only where the kernel trusts the counter with its own clock (clocksource tsc): it runs at one rate on all
 *       cores, and with the clock.  Not covered: a virtual machine that is restored with its clock set on and its
 *       counter as it was; a reading of before serves it for the rest of its 32 us.
 *
 * Threads: each has its own reading.
 *
 * Reference: Intel SDM, vol. 3, "Time-stamp counter"; Linux, arch/x86/kernel/tsc.c for what its own trust rests on.
 */
#ifndef HWT_COUNTER_H
#define HWT_COUNTER_H

#include "clock.h"

#include <hwt.h>

#define COUNTER_GOOD_FOR_NS HWT_US(32)
#define COUNTER_ERROR_NS HWT_US(10)
#define COUNTER_BASE_NS HWT_MS(2)

struct hwt_reading {
	uint64_t count;
	uint64_t good_for; /* counts; 0: not at all */
	int64_t now_ns;
	uint64_t rate; /* nanoseconds a count, times 2^32; 0: not known yet */

	uint64_t took;       /* the fewest counts that a reading took, more or less */
	uint64_t base_count; /* where the measurement of the rate began */
	int64_t base_ns;
};

extern HWT_OWN struct hwt_reading hwt_reading;

#ifdef HWT_TEST
extern uint64_t (*hwt_test_counter)(void); /* NULL: the real one, and none with a virtual clock */
#endif

/* Finds out whether the counter may be used.  Before the first reading; again costs nothing. */
void hwt_counter_init(void);

/* The clock, exact; remembers it. */
int64_t hwt_counter_read_clock(void);

static inline uint64_t counter_count(void)
{
#ifdef HWT_TEST
	if (hwt_test_counter != NULL)
		return hwt_test_counter();
	if (hwt_test_clock != NULL)
		return hwt_reading.count - 1; /* is no good */
#endif
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return 0;
#endif
}

/* Now + delay, or another time in the same tick. */
static inline int64_t counter_deadline(const struct hwt_grid *grid, int64_t delay_ns)
{
	const struct hwt_reading *last = &hwt_reading;
	uint64_t passed = counter_count() - last->count;

	if (likely(passed < last->good_for)) {
		int64_t now_ns = last->now_ns + (int64_t)(passed * last->rate >> 32) + 1; /* rounded up */
		int64_t deadline_ns = add_saturating(now_ns, delay_ns);

		if (likely(grid_is_within(grid, deadline_ns, COUNTER_ERROR_NS)))
			return deadline_ns;
	}
	return add_saturating(hwt_counter_read_clock(), delay_ns);
}

#endif
