/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The base of all files: compiler words, the unit of false sharing, probes, saturating arithmetic.
 */
#ifndef HWT_BASE_H
#define HWT_BASE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* HWT_PORTABLE: the build for a system that has no more than POSIX and C11. */
#if defined(__linux__) && !defined(HWT_PORTABLE)
#define HWT_LINUX 1
#endif

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* A cache line, and the unit that keeps writers apart: processors fetch lines in pairs. */
#define HWT_LINE 64
#define HWT_UNIT 128

/*
 * A thread-local variable.  Hidden, so that position-independent code finds all of these variables by one address.  TLS
 * in the Makefile decides how the code gets that address.
 */
#define HWT_OWN _Thread_local __attribute__((visibility("hidden")))

/* Asserts what the code itself guarantees, in the test build only. */
#ifdef HWT_TEST
#define HWT_ASSERT(x) assert(x)
#else
#define HWT_ASSERT(x) ((void)0)
#endif

/* Defines name(), which returns a constant.  A test may store another value in hwt_test_NAME (test/tunables.h). */
#ifdef HWT_TEST
#define HWT_TUNABLE(type, name, value)                                                                                 \
	_Atomic type hwt_test_##name = (value);                                                                        \
	static type name(void)                                                                                         \
	{                                                                                                              \
		return atomic_load_explicit(&hwt_test_##name, memory_order_acquire); /* a test's */                    \
	}
#else
#define HWT_TUNABLE(type, name, value)                                                                                 \
	static inline type name(void)                                                                                  \
	{                                                                                                              \
		return (value);                                                                                        \
	}
#endif

/*
 * No version of a public structure is larger than this.  A larger `size` is a field that the caller forgot to set, and
 * is refused.
 */
#define HWT_STRUCT_MAX 4096

/*
 * Marks a place where another thread may come in between: before each access to a word for which threads race.  In the
 * test build the macro calls the hook of a test, which yields at random or tries every order.  In other builds it
 * expands to nothing.
 */
#ifdef HWT_TEST
typedef void hwt_point_hook(const char *where);
extern _Atomic(hwt_point_hook *) hwt_test_point;
#define HWT_POINT(where)                                                                                               \
	do {                                                                                                           \
		hwt_point_hook *hook_ = atomic_load_explicit(&hwt_test_point, memory_order_acquire);                   \
		if (hook_ != NULL)                                                                                     \
			hook_(where);                                                                                  \
	} while (0)
#else
#define HWT_POINT(where) ((void)0)
#endif

/*
 * Probes for bpftrace, perf and their like (USDT), if sys/sdt.h is there; -DHWT_NO_PROBES leaves them out.  doc/hwt.bt
 * uses them.
 *
 *   hwt:schedule  entry of the handle, deadline_ns
 *   hwt:cancel    entry; after a cancel that returned 0
 *   hwt:expire    entry, how many ns after the deadline the tick, or off the worker the task, began; before the task
 *   hwt:tick      number of the tick, how many ns its work took
 */
#if !defined(HWT_NO_PROBES) && defined(__has_include)
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#ifdef __clang__
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments" /* sdt.h counts arguments with this extension */
#endif
#define HWT_PROBE(name, first, second) STAP_PROBE2(hwt, name, first, second)
#endif
#endif
#ifndef HWT_PROBE
#define HWT_PROBE(name, first, second) ((void)0)
#endif

/* Fetches the cache line of p for writing. */
static inline void prefetch_for_write(const void *p)
{
#if defined(__x86_64__) && !defined(HWT_PORTABLE)
	/*
	 * The builtin fetches the line for reading, and the store asks for it again: a third of the cost of a pair of
	 * schedule and cancel.
	 */
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
	__builtin_prefetch(p, 1, 3);
#endif
}

/* Tells the processor that this thread waits for a word to change. */
static inline void processor_pause(void)
{
#ifdef HWT_PORTABLE
#elif defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Each thread sees the stores before the fence before this thread makes the loads after it. */
static inline void full_fence(void)
{
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan" /* ThreadSanitizer ignores fences; no caller needs a happens-before */
#endif
	atomic_thread_fence(memory_order_seq_cst);
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
}

/* Returns a + b, held within int64_t. */
static inline int64_t add_saturating(int64_t a, int64_t b)
{
	int64_t sum;

	if (likely(!__builtin_add_overflow(a, b, &sum)))
		return sum;
	return b > 0 ? INT64_MAX : INT64_MIN;
}

/* Returns a - b, held within int64_t. */
static inline int64_t subtract_saturating(int64_t a, int64_t b)
{
	int64_t difference;

	if (likely(!__builtin_sub_overflow(a, b, &difference)))
		return difference;
	return b < 0 ? INT64_MAX : INT64_MIN;
}

#endif
