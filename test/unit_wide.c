/* SPDX-License-Identifier: BSD-2-Clause */
/* Products made of halves are those of the 128-bit type. */
#include "support.h"
#include "unit.h"

#include "base/wide.h"

#ifdef __SIZEOF_INT128__
__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 uwide;

static const uint64_t edges[] = { 0,
				  1,
				  2,
				  1000000,
				  UINT32_MAX - 1,
				  UINT32_MAX,
				  UINT64_C(1) << 32,
				  UINT64_C(1) << 62,
				  INT64_MAX,
				  UINT64_C(1) << 63,
				  (UINT64_C(1) << 63) + 1,
				  UINT64_MAX - 1,
				  UINT64_MAX };
#define EDGES (sizeof(edges) / sizeof(edges[0]))

static int64_t held(wide number)
{
	return number > INT64_MAX ? INT64_MAX : number < INT64_MIN ? INT64_MIN : (int64_t)number;
}

static void compare(uint64_t a, uint64_t b, uint64_t c)
{
	struct hwt_halves product = halves_multiply(a, b);
	int64_t sum = held((wide)(int64_t)a * (int64_t)b + (int64_t)c);

	CHECK(product.high == (uint64_t)((uwide)a * b >> 64) && product.low == a * b);
	CHECK(wide_multiply_high(a, b) == product.high);
	CHECK_INT(halves_multiply_add((int64_t)a, (int64_t)b, (int64_t)c), ==, sum);
	CHECK_INT(wide_multiply_add((int64_t)a, (int64_t)b, (int64_t)c), ==, sum);
}

TEST(products_of_halves_are_right_at_the_edges)
{
	for (size_t a = 0; a < EDGES; a++)
		for (size_t b = 0; b < EDGES; b++)
			for (size_t c = 0; c < EDGES; c++)
				compare(edges[a], edges[b], edges[c]);
}

/* Factors of all lengths, so that about half of the products fit. */
TEST(products_of_halves_are_right_everywhere)
{
	struct prng prng = { test_seed(__func__) };

	for (int i = 0; i < 200000; i++) {
		uint64_t lengths = prng_next(&prng);

		compare(prng_next(&prng) >> (lengths & 63), prng_next(&prng) >> (lengths >> 6 & 63),
			prng_next(&prng) >> (lengths >> 12 & 63));
	}
}
#else
TEST(products_of_halves_are_right)
{
	SKIP("there is no type to compare with");
}
#endif

TEST(sums_that_fit_are_right_though_their_product_does_not)
{
	CHECK_INT(halves_multiply_add(INT64_MAX, 2, INT64_MIN), ==, INT64_MAX - 1);
	CHECK_INT(halves_multiply_add(INT64_MAX, 2, 0), ==, INT64_MAX);
	CHECK_INT(halves_multiply_add(INT64_MIN, 2, INT64_MAX), ==, INT64_MIN);
	CHECK_INT(halves_multiply_add(-3, 5, 7), ==, -8);
}

TEST_MAIN()
