/* SPDX-License-Identifier: BSD-2-Clause */
/* Slabs: growth, alignment, lack of memory. */
#include "unit.h"
#include "wheel/bucket.h"

#define KIB ((size_t)1024)

/* Checks the sizes of slabs, on which the memory of a small timer depends. */
static void check_growth(const struct hwt_slab_kind *kind, size_t first, size_t last, size_t head, size_t unit)
{
	struct hwt_slabs slabs;
	size_t expected = first, sum = 0;

	memset(&slabs, 0, sizeof(slabs));
	CHECK((size_t)(slabs.carve_end - slabs.carve) == 0);
	for (int i = 0; i < 14; i++) {
		size_t bytes = expected;

		REQUIRE(hwt_slabs_grow(&slabs, kind));
		sum += bytes;
		CHECK_INT(slabs.newest->bytes, ==, bytes);
		CHECK_INT(slabs_bytes(&slabs), ==, sum);
		CHECK_INT((uintptr_t)slabs.newest % kind->align, ==, 0);
		CHECK(slabs.carve == (char *)slabs.newest + head);
		CHECK_INT((size_t)(slabs.carve_end - slabs.carve), ==, bytes - head);
		expected = expected < last ? expected * 2 : last;
		while ((size_t)(slabs.carve_end - slabs.carve) > 0)
			CHECK_INT((uintptr_t)hwt_slabs_carve(&slabs, unit) % SLAB_UNIT_ALIGN, ==, 0);
	}
	hwt_slabs_free(slabs.newest);
}

TEST(slabs_double_up_to_the_last_size)
{
	check_growth(&hwt_node_slab, 65 * sizeof(hwt_node), 64 * 65 * sizeof(hwt_node), sizeof(struct hwt_slab),
		     sizeof(hwt_node));
	check_growth(&hwt_chunk_slab, 4 * KIB, 256 * KIB, CHUNK_ALIGN, CHUNK_ALIGN);
}

TEST(without_memory_nothing_changes)
{
	struct hwt_slabs slabs, before;

	memset(&slabs, 0, sizeof(slabs));
	REQUIRE(hwt_slabs_grow(&slabs, &hwt_chunk_slab));
	(void)hwt_slabs_carve(&slabs, 128);
	memcpy(&before, &slabs, sizeof(slabs));
	memory_fails(0, 1);
	errno = 17;
	CHECK(!hwt_slabs_grow(&slabs, &hwt_chunk_slab));
	CHECK_INT(errno, ==, 17);
	memory_is_back();
	CHECK_INT(memcmp(&before, &slabs, sizeof(slabs)), ==, 0);
	CHECK(hwt_slabs_grow(&slabs, &hwt_chunk_slab));
	hwt_slabs_free(slabs.newest);
}

TEST_MAIN()
