/* SPDX-License-Identifier: BSD-2-Clause */
/* Slabs of records: their addresses, their owners, records coming home, and giving memory back. */
#include "unit.h"

#include <limits.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#define MANY 1000u

static struct hwt_record_slabs slabs;
static struct hwt_pool mine, other;
static size_t given;

static void begin(void)
{
	memset(&slabs, 0, sizeof(slabs));
	mine = (struct hwt_pool){ .slabs = &slabs, .owner = &mine };
	other = (struct hwt_pool){ .slabs = &slabs, .owner = &other };
	given = 0;
}

static void end(void)
{
	hwt_pool_leave(&mine);
	hwt_pool_leave(&other);
	hwt_record_slabs_destroy(&slabs);
	atomic_store(&hwt_test_slab_records, SLAB_RECORDS);
}

static struct hwt_record *take(struct hwt_pool *pool)
{
	struct hwt_record *record = pool_pop(pool);

	if (record == NULL && (record = hwt_pool_refill(pool)) == NULL &&
	    (record = hwt_pool_search(pool, OFFER_MANY)) == NULL)
		record = hwt_pool_grow(pool);
	REQUIRE(record != NULL);
	return record;
}

static void take_many(struct hwt_pool *pool, struct hwt_record **records, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		records[i] = take(pool);
}

static void bring_home(struct hwt_record **records, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		record_slab_chain(records[i]);
	hwt_record_slabs_flush(&slabs);
}

static unsigned count_slabs(void)
{
	unsigned n = 0;

	for (struct hwt_record_slab *slab = record_slabs_newest(&slabs); slab != NULL; slab = slab->next)
		n++;
	return n;
}

static bool look(struct hwt_record_slab *slab, int64_t now_ns)
{
	return hwt_record_slab_look(slab, now_ns, 10, &given);
}

TEST(a_record_leads_to_its_slab_and_heads_do_not_share_a_place)
{
	static struct hwt_record *records[3 * MANY];
	uint64_t places = 0;

	atomic_store(&hwt_test_slab_records, MANY / 10);
	begin();
	take_many(&mine, records, 3 * MANY);
	CHECK_INT(count_slabs(), ==, 30);
	for (unsigned i = 0; i < 3 * MANY; i++) {
		const struct hwt_record_slab *slab = record_slab_of(records[i]);

		CHECK(slab->slabs == &slabs);
		CHECK_INT((char *)records[i] - record_slab_begin(slab), <, SLAB_BYTES);
		CHECK_INT((uintptr_t)record_slab_begin(slab) % SLAB_BYTES, ==, 0);
		places |= UINT64_C(1) << ((uintptr_t)slab % (SLAB_COLOURS * HWT_LINE) / HWT_LINE);
	}
	CHECK_INT(__builtin_popcountll(places), >, 10);
	end();
}

/* A few records are not worth a change of the slab, but serve if there is nothing else. */
TEST(a_slab_is_taken_for_many_or_without_memory_for_any)
{
	struct hwt_record *records[MANY];

	atomic_store(&hwt_test_slab_records, MANY);
	begin();
	take_many(&mine, records, MANY);
	hwt_pool_leave(&mine);
	bring_home(records, 63);
	CHECK(hwt_pool_search(&other, OFFER_MANY) == NULL);
	CHECK(hwt_pool_search(&other, OFFER_ROOM) == NULL);
	CHECK(hwt_pool_search(&other, OFFER_ANY) == records[0]);
	CHECK(hwt_pool_search(&other, OFFER_ANY) == NULL); /* the other 62 belong to the pool `other` */
	hwt_pool_leave(&other);
	bring_home(&records[100], 1);
	CHECK(hwt_pool_search(&mine, OFFER_MANY) == records[1]); /* the slab was left with free records */
	end();
}

TEST(a_prepared_slab_serves_the_next_lane_or_goes)
{
	struct hwt_record_slab *slab;
	struct hwt_record *record;

	begin();
	hwt_pool_prepare(&slabs);
	slab = record_slabs_newest(&slabs);
	CHECK_INT(record_slabs_held(&slabs), ==, SLAB_RECORDS * sizeof(*record));
	hwt_pool_prepare(&slabs);
	CHECK_INT(count_slabs(), ==, 1); /* one slab is enough */
	record = hwt_pool_search(&mine, OFFER_MANY);
	REQUIRE(record != NULL && record_slab_of(record) == slab);
	hwt_pool_leave(&mine);
	bring_home(&record, 1);
	CHECK(look(slab, 100));
	CHECK(!look(slab, 110));
	CHECK_INT(given, ==, SLAB_RECORDS * sizeof(*record));
	hwt_pool_prepare(&slabs); /* the slab that was given back serves again */
	CHECK_INT(count_slabs(), ==, 1);
	CHECK(look(slab, 200)); /* the slab goes again, as no lane came */
	CHECK(!look(slab, 210));
	CHECK_INT(record_slabs_held(&slabs), ==, 0);
	memory_fails(0, UINT64_MAX);
	hwt_pool_prepare(&slabs);
	CHECK_INT(record_slabs_held(&slabs), ==, 0);
	memory_is_back();
	end();
}

/* A walk takes no memory that the allocator has used before for timeouts. */
TEST(a_slab_begins_with_words_of_zero)
{
	enum { SLABS = 4 };
#ifdef __GLIBC__
	char *before;

	if (mallopt(M_MMAP_THRESHOLD, INT_MAX) != 1 || mallopt(M_TRIM_THRESHOLD, INT_MAX) != 1)
		SKIP("the allocator is a sanitizer's");
	before = malloc((SLABS + 2) * SLAB_BYTES);
	REQUIRE(before != NULL);
	memset(before, STATE_ARMED, (SLABS + 2) * SLAB_BYTES);
	free(before);
#endif
	begin();
	for (unsigned i = 0; i < SLABS; i++) {
		struct hwt_record_slab *slab = hwt_record_slab_make(&slabs, &mine);
		hwt_pending pending;

		REQUIRE(slab != NULL && hwt_record_slab_extend(slab, true));
		CHECK_INT(record_slab_span(slab), ==, SLAB_RECORDS * sizeof(struct hwt_record));
		for (unsigned n = 0; n < SLAB_RECORDS; n++)
			CHECK(!record_read((struct hwt_record *)(void *)record_slab_begin(slab) + n, &pending));
	}
	end();
}

TEST_MAIN()
