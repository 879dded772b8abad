/* SPDX-License-Identifier: BSD-2-Clause */
/* The tree of minima against a plain array. */
#include "unit.h"
#include "wheel/ring.h"

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
	struct hwt_ring ring;

	REQUIRE(ticks != NULL && hwt_ring_make(&ring, buckets));
	for (uint32_t i = 0; i < buckets; i++)
		ticks[i] = HWT_TICK_NEVER;
	for (int step = 0; step < 3000; step++) {
		uint32_t bucket = (uint32_t)random_below(seed, buckets);
		int64_t tick = (int64_t)random_below(seed, 1000);

		switch (random_below(seed, 4)) {
		case 0:
			hwt_ring_set(&ring, bucket, ticks[bucket] = HWT_TICK_NEVER);
			break;
		case 1:
			hwt_ring_set(&ring, bucket, ticks[bucket] = tick);
			break;
		default:
			ring_lower(&ring, bucket, tick);
			ticks[bucket] = tick < ticks[bucket] ? tick : ticks[bucket];
		}
		if (buckets <= 1024 || step % 100 == 0)
			CHECK_INT(ring_first_due(&ring), ==, least_of(ticks, buckets));
		CHECK_INT(ticks[hwt_ring_first(&ring)], ==, ring_first_due(&ring));
	}
	hwt_ring_clear(&ring);
	for (unsigned l = 0; l <= ring.top; l++)
		for (uint32_t i = 0; i <= (buckets - 1) >> (l * RING_FANOUT_BITS); i++)
			CHECK_INT(ring.level[l][i], ==, 0);
	hwt_ring_destroy(&ring);
	free(ticks);
}

TEST(first_is_the_least_of_all_buckets)
{
	uint64_t seed = random_seed();

	for (uint32_t buckets = 1; buckets <= 1u << 17; buckets *= 2)
		compare_with_array(buckets, &seed);
}

TEST_MAIN()
