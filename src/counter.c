/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE
#include "counter.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* A reading between two counts further apart than this was interrupted: at 1 GHz, 4 us.  See T1. */
#define MAX_READING UINT64_C(4096)

/* The rate is measured anew after this long, to follow a clock that is being disciplined. */
#define BASE_AGAIN_NS NS_PER_S

HWT_OWN struct hwt_reading hwt_reading;

#ifdef HWT_TEST
uint64_t (*hwt_test_counter)(void);
#endif

enum { UNKNOWN, TRUSTED, NOT_TRUSTED };

static _Atomic int trust = UNKNOWN;

#if defined(__x86_64__) && defined(__linux__) && !defined(HWT_NO_COUNTER)
/* Does the kernel's clock itself run by the counter? */
static bool kernel_trusts(void)
{
	char source[16] = "";
	int before = errno, fd;
	ssize_t length = 0;

	fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
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

void hwt_counter_init(void)
{
	/* Relaxed: whoever does not see it yet reads the clock, and two who find out find the same. */
	if (atomic_load_explicit(&trust, memory_order_relaxed) == UNKNOWN)
		atomic_store_explicit(&trust, kernel_trusts() ? TRUSTED : NOT_TRUSTED, memory_order_relaxed);
}

/*
 * Whether the clock was read right in the middle between two counts: the closer they are, the less can be in between.
 * What is asked for grows until it can be had.
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

static bool is_trusted(void)
{
#ifdef HWT_TEST
	if (hwt_test_counter != NULL || hwt_test_clock != NULL)
		return hwt_test_counter != NULL;
#endif
	return atomic_load_explicit(&trust, memory_order_relaxed) == TRUSTED; /* relaxed: see init */
}

/* ns / counts in 32.32, 0 if no counter is as fast or as slow. */
static uint64_t rate_of(uint64_t ns, uint64_t counts)
{
	__extension__ typedef unsigned __int128 wide;

	if (counts < ns / 4 || ns < counts / 16)
		return 0;
	return (uint64_t)(((wide)ns << 32) / counts);
}

static void begin_base(struct hwt_reading *last)
{
	last->base_count = last->count;
	last->base_ns = last->now_ns;
}

/* After a reading: the rate, if enough time has passed since its measurement began. */
static void measure(struct hwt_reading *last)
{
	int64_t ns = last->now_ns - last->base_ns;

	if (last->base_ns == 0)
		begin_base(last);
	else if (ns >= BASE_AGAIN_NS || (last->rate == 0 && ns >= COUNTER_BASE_NS)) {
		last->rate = rate_of((uint64_t)ns, last->count - last->base_count);
		begin_base(last);
	}
	last->good_for = last->rate == 0 ? 0 : ((uint64_t)COUNTER_GOOD_FOR_NS << 32) / last->rate;
}

/* Does the rate lead from the last reading to this one?  After long pauses nobody asks: it is measured over them. */
static bool fits(const struct hwt_reading *last, uint64_t count, int64_t now_ns)
{
	uint64_t ns = (uint64_t)(now_ns - last->now_ns), passed = count - last->count, guess;

	if (last->rate == 0)
		return true;
	if (passed >> 31 != 0)
		return ns >= NS_PER_S / 16;
	guess = passed * last->rate >> 32;
	return (guess > ns ? guess - ns : ns - guess) <= ns / 8 + COUNTER_ERROR_NS / 2;
}

int64_t hwt_counter_read_clock(void)
{
	struct hwt_reading *last = &hwt_reading;
	uint64_t before, after;
	int64_t now_ns;

	if (!is_trusted())
		return hwt_clock_now();
	before = counter_count();
	now_ns = hwt_clock_now();
	after = counter_count();
	if (!is_sharp(last, after - before)) {
		last->good_for = 0;
		return now_ns;
	}
	if (!fits(last, before, now_ns))
		*last = (struct hwt_reading){ 0 };
	last->count = before + (after - before) / 2;
	last->now_ns = now_ns;
	measure(last);
	return now_ns;
}
