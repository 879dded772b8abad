/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Products of 128 bits, in which times and rates are computed.  Targets of 32 bits have no such type: there the product
 * is made of halves.  test/unit_wide.c compares both ways on targets that have the type.
 */
#ifndef HWT_WIDE_H
#define HWT_WIDE_H

#include "base/base.h"

#if defined(__SIZEOF_INT128__) && !defined(HWT_PORTABLE)
__extension__ typedef __int128 hwt_wide;
__extension__ typedef unsigned __int128 hwt_uwide;
#define HWT_HAVE_WIDE 1
#else
/* For counter.c, which finds no counter on these targets and computes nothing. */
typedef uint64_t hwt_uwide;
#endif

struct hwt_halves {
	uint64_t high, low;
};

/* Returns a * b. */
static inline struct hwt_halves halves_multiply(uint64_t a, uint64_t b)
{
	uint64_t low = (a & UINT32_MAX) * (b & UINT32_MAX), middle = (a >> 32) * (b & UINT32_MAX) + (low >> 32);
	uint64_t other = (a & UINT32_MAX) * (b >> 32) + (middle & UINT32_MAX); /* no sum overflows */

	return (struct hwt_halves){ (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32),
				    other << 32 | (low & UINT32_MAX) };
}

/* Returns a * b + c, held within int64_t. */
static inline int64_t halves_multiply_add(int64_t a, int64_t b, int64_t c)
{
	struct hwt_halves sum = halves_multiply(a < 0 ? 0 - (uint64_t)a : (uint64_t)a,
						b < 0 ? 0 - (uint64_t)b : (uint64_t)b);

	if ((a < 0) != (b < 0)) {
		sum.low = 0 - sum.low;
		sum.high = ~sum.high + (sum.low == 0);
	}
	sum.low += (uint64_t)c;
	sum.high += (sum.low < (uint64_t)c) + (c < 0 ? UINT64_MAX : 0);
	if (sum.high == (sum.low >> 63 != 0 ? UINT64_MAX : 0))
		return (int64_t)sum.low;
	return sum.high >> 63 != 0 ? INT64_MIN : INT64_MAX;
}

/* Returns the upper half of a * b. */
static inline uint64_t wide_multiply_high(uint64_t a, uint64_t b)
{
#ifdef HWT_HAVE_WIDE
	return (uint64_t)((hwt_uwide)a * b >> 64);
#else
	return halves_multiply(a, b).high;
#endif
}

/* Returns a * b + c, held within int64_t; the product alone may need more. */
static inline int64_t wide_multiply_add(int64_t a, int64_t b, int64_t c)
{
#ifdef HWT_HAVE_WIDE
	hwt_wide sum = (hwt_wide)a * b + c;

	if (unlikely(sum != (int64_t)sum))
		return sum > 0 ? INT64_MAX : INT64_MIN;
	return (int64_t)sum;
#else
	return halves_multiply_add(a, b, c);
#endif
}

#endif
