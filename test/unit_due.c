/* SPDX-License-Identifier: BSD-2-Clause */
/* The tree of minima against a plain array. */
#include "unit.h"
#include "wheel/due.h"

static int64_t least_of(const int64_t *ticks, uint32_t count)
{
	int64_t least = HWT_TICK_NEVER;

	for (uint32_t i = 0; i < count; i++)
		least = ticks[i] < least ? ticks[i] : least;
	return least;
}

static void compare_with_array(uint32_t buckets, uint64_t *seed)
{
	int64_t *ticks = malloc(buckets * sizeof(*ticks));
	struct hwt_due due;

	REQUIRE(ticks != NULL && hwt_due_init(&due, buckets) == 0);
	for (uint32_t i = 0; i < buckets; i++)
		ticks[i] = HWT_TICK_NEVER;
	for (int step = 0; step < 3000; step++) {
		uint32_t bucket = (uint32_t)random_below(seed, buckets);
		int64_t tick = (int64_t)random_below(seed, 1000);

		switch (random_below(seed, 4)) {
		case 0:
			hwt_due_set(&due, bucket, ticks[bucket] = HWT_TICK_NEVER);
			break;
		case 1:
			hwt_due_set(&due, bucket, ticks[bucket] = tick);
			break;
		default:
			due_lower(&due, bucket, tick);
			ticks[bucket] = tick < ticks[bucket] ? tick : ticks[bucket];
		}
		if (buckets <= 1024 || step % 100 == 0)
			CHECK_INT(due_first(&due), ==, least_of(ticks, buckets));
		CHECK_INT(ticks[hwt_due_first_bucket(&due)], ==, due_first(&due));
		if (hwt_due_any(&due, &bucket))
			CHECK_INT(ticks[bucket], !=, HWT_TICK_NEVER);
		else
			CHECK_INT(least_of(ticks, buckets), ==, HWT_TICK_NEVER);
	}
	hwt_due_clear(&due);
	for (unsigned l = 0; l <= due.top; l++)
		for (uint32_t i = 0; i <= (buckets - 1) >> (l * DUE_FANOUT_BITS); i++)
			CHECK_INT(due.level[l][i], ==, 0);
	hwt_due_destroy(&due);
	free(ticks);
}

TEST(first_is_the_least_of_all_buckets)
{
	uint64_t seed = random_seed();

	for (uint32_t buckets = 1; buckets <= 1u << 17; buckets *= 2)
		compare_with_array(buckets, &seed);
}

TEST(the_ends_of_the_range)
{
	struct hwt_due due;

	REQUIRE(hwt_due_init(&due, 512) == 0);
	CHECK_INT(due_first(&due), ==, HWT_TICK_NEVER);
	due_lower(&due, 511, HWT_TICK_MAX);
	CHECK_INT(due_first(&due), ==, HWT_TICK_MAX);
	due_lower(&due, 0, 0);
	CHECK_INT(due_first(&due), ==, 0);
	hwt_due_set(&due, 0, HWT_TICK_NEVER);
	CHECK_INT(due_first(&due), ==, HWT_TICK_MAX);
	hwt_due_destroy(&due);
	memory_fails(0, 1);
	CHECK_INT(hwt_due_init(&due, 512), ==, ENOMEM);
	memory_is_back();
}

TEST_MAIN()
