/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What every file may use: compiler words, the false-sharing unit, saturating arithmetic.
 */
#ifndef HWT_BASE_H
#define HWT_BASE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* A cache line, and the unit that keeps writers apart: processors fetch lines in pairs. */
#define HWT_LINE 64
#define HWT_UNIT 128

/*
 * A word that each thread has for itself.  Hidden: position-independent code finds all of them by one address.  How
 * it gets that address is the Makefile's TLS.
 */
#define HWT_OWN _Thread_local __attribute__((visibility("hidden")))

/* Checks of what the code itself guarantees: only in the test build, where a broken promise must be loud. */
#ifdef HWT_TEST
#define HWT_ASSERT(x) assert(x)
#else
#define HWT_ASSERT(x) ((void)0)
#endif

/*
 * No version's structure is larger.  A `size` beyond it was never set by the caller: nothing is read or written by it.
 */
#define HWT_STRUCT_MAX 4096

/*
 * A place where another thread may come in between: before each access to a word that threads race for.  In the test
 * build a hook of a test stands there, which yields at random or tries every order; otherwise nothing.
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

static inline void prefetch_for_write(const void *p)
{
#ifdef __x86_64__
	/* The builtin would fetch the line to read, and the store ask for it again: a third of what S2 costs. */
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
	__builtin_prefetch(p, 1, 3);
#endif
}

/* Stores before it are seen by all before loads after it are made. */
static inline void full_fence(void)
{
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan" /* it counts for no happens-before there, which no use of it needs */
#endif
	atomic_thread_fence(memory_order_seq_cst);
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
}

/* a + b, held within int64_t. */
static inline int64_t add_saturating(int64_t a, int64_t b)
{
	int64_t sum;

	if (likely(!__builtin_add_overflow(a, b, &sum)))
		return sum;
	return b > 0 ? INT64_MAX : INT64_MIN;
}

/* a - b, the same. */
static inline int64_t subtract_saturating(int64_t a, int64_t b)
{
	int64_t difference;

	if (likely(!__builtin_sub_overflow(a, b, &difference)))
		return difference;
	return b < 0 ? INT64_MAX : INT64_MIN;
}

#endif
