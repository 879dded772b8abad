/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading the clock together with the counter, and measuring the counter's rate; counter.h. */
#define _GNU_SOURCE
#include "base/counter.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* If the two counts around a reading are further apart than this (4 us at 1 GHz), the thread was interrupted: T1. */
#define MAX_READING UINT64_C(4096)

/*
 * A measurement takes at least this many times as long as the readings at its ends.  The error of a reading is at most
 * half of the time that it took.
 */
#define PRECISION 128

/* Two measurements agree if they differ by less than this part of the rate. */
#define AGREEMENT 64

HWT_OWN struct hwt_reading hwt_reading;

#ifdef HWT_TEST
uint64_t (*hwt_test_counter)(void);
const char *hwt_test_clocksource;
#endif

/*
 * When a thread last asked the kernel, and until when the answer counts.  INT64_MIN: no thread has asked yet, or the
 * kernel does not trust the counter.
 */
static _Atomic int64_t asked_ns = INT64_MIN;
static _Atomic int64_t trusted_until_ns = INT64_MIN;

#if defined(__x86_64__) && defined(HWT_LINUX) && !defined(HWT_NO_COUNTER)
/* Returns true if the kernel's clock itself runs by the counter. */
static bool kernel_trusts(void)
{
	const char *path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
	char source[16] = "";
	int before = errno, fd;
	ssize_t length = 0;

#ifdef HWT_TEST
	if (hwt_test_clocksource != NULL)
		path = hwt_test_clocksource;
#endif
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		length = read(fd, source, sizeof(source) - 1);
		close(fd);
	}
	errno = before;
	return length == 4 && memcmp(source, "tsc\n", 4) == 0;
}
#else
static bool kernel_trusts(void)
{
	return false;
}
#endif

void hwt_counter_ask(int64_t now_ns)
{
	/* Relaxed: of several threads that come at once one asks the kernel, and the others use the last answer. */
	int64_t before_ns = atomic_load_explicit(&asked_ns, memory_order_relaxed);

	if (before_ns != INT64_MIN && grid_distance(before_ns, now_ns) < COUNTER_ASK_AGAIN_NS)
		return;
	if (!atomic_compare_exchange_strong_explicit(&asked_ns, &before_ns, now_ns, memory_order_relaxed,
						     memory_order_relaxed))
		return;
	/*
	 * Relaxed: no other data depends on the word.  A thread that does not see the store yet uses the last answer.
	 */
	atomic_store_explicit(&trusted_until_ns, kernel_trusts() ? add_saturating(now_ns, COUNTER_TRUST_NS) : INT64_MIN,
			      memory_order_relaxed);
}

/* Returns the time until which the counter may be used. */
static int64_t trusted_until(void)
{
#ifdef HWT_TEST
	if (hwt_test_clocksource == NULL && (hwt_test_counter != NULL || hwt_test_clock != NULL))
		return hwt_test_counter != NULL ? INT64_MAX : INT64_MIN;
#endif
	return atomic_load_explicit(&trusted_until_ns, memory_order_relaxed); /* relaxed: as in hwt_counter_ask */
}

/*
 * Returns true if two counts around a reading of the clock are so close that the reading belongs to their middle.  The
 * allowed distance follows the shortest distance seen, and grows slowly while readings take longer.
 */
static bool is_sharp(struct hwt_reading *last, uint64_t took)
{
	if (last->took == 0)
		last->took = MAX_READING;
	if (took > MAX_READING)
		return false;
	if (took > last->took + last->took / 4) {
		last->took += last->took / 8 + 1;
		return false;
	}
	if (took < last->took)
		last->took = took;
	return true;
}

/* Returns ns / counts as a fixed-point number of 32.32 bits, or 0 if no counter runs at such a rate. */
static uint64_t rate_of(uint64_t ns, uint64_t counts)
{
	if (counts < ns / 4 || ns < counts / 16)
		return 0;
	return (uint64_t)(((hwt_uwide)ns << 32) / counts);
}

/* Returns true if two rates agree.  A rate of 0 stands for none, and agrees with no other. */
static bool agree(uint64_t rate, uint64_t other)
{
	return rate != 0 && (rate > other ? rate - other : other - rate) <= other / AGREEMENT;
}

/* Begins a measurement at the last reading. */
static void begin_base(struct hwt_reading *last, uint64_t took)
{
	last->base_count = last->count;
	last->base_ns = last->now_ns;
	last->base_took = took;
}

/* Ends a measurement at the last reading if that is far enough from its beginning, or begins one. */
static void measure(struct hwt_reading *last, uint64_t took)
{
	int64_t ns = last->now_ns - last->base_ns;
	uint64_t counts = last->count - last->base_count, rate;

	if (last->base_ns == 0 || ns > COUNTER_BASE_MAX_NS) {
		if (!last->confirmed)
			last->rate = 0; /* only measurements in a row may agree: T3 */
		begin_base(last, took);
	} else if (ns >= COUNTER_BASE_NS && counts / PRECISION >= (took > last->base_took ? took : last->base_took)) {
		rate = rate_of((uint64_t)ns, counts);
		last->confirmed = agree(rate, last->rate);
		last->rate = rate;
		begin_base(last, took);
	}
	last->good_for = last->confirmed ? ((uint64_t)COUNTER_GOOD_FOR_NS << 32) / last->rate : 0;
}

/* Returns true if the last reading and the rate predict this reading. */
static bool fits(const struct hwt_reading *last, uint64_t count, int64_t now_ns)
{
	uint64_t ns = grid_distance(last->now_ns, now_ns), error_ns = ns / 8 + COUNTER_ERROR_NS / 2;
	hwt_uwide guess_ns = (hwt_uwide)(count - last->count) * last->rate >> 32;

	return !last->confirmed || (guess_ns <= (hwt_uwide)ns + error_ns && guess_ns + error_ns >= ns);
}

int64_t hwt_counter_read_clock(void)
{
	struct hwt_reading *last = &hwt_reading;
	int64_t until_ns = trusted_until(), now_ns;
	uint64_t before, took;

	if (until_ns == INT64_MIN) {
		last->good_for = 0;
		return clock_monotonic();
	}
	before = counter_count();
	now_ns = clock_monotonic();
	took = counter_count() - before;
	if (now_ns >= until_ns || !is_sharp(last, took)) {
		last->good_for = 0;
		return now_ns;
	}
	if (!fits(last, before, now_ns))
		*last = (struct hwt_reading){ 0 };
	last->count = before + took / 2;
	last->now_ns = now_ns;
	measure(last, took);
	return now_ns;
}
