/* SPDX-License-Identifier: BSD-2-Clause */
/* Buckets: order, holes, merging, memory.  A checker recomputes every invariant of bucket.h the stupid way. */
#include "unit.h"
#include "wheel/bucket.h"

#include <limits.h>

#define MANY 20000

static struct hwt_stock stock;
static struct hwt_bucket bucket;
static struct hwt_record *records;

static void begin(void)
{
	memset(&stock, 0, sizeof(stock));
	memset(&bucket, 0, sizeof(bucket));
	records = aligned_alloc(RECORD_ALIGN, MANY * sizeof(*records));
	REQUIRE(records != NULL);
	memset(records, 0, MANY * sizeof(*records));
}

static void end(void)
{
	hwt_stock_destroy(&stock);
	free(records);
}

/* Checks B1 ..  B4, and that the members are `expected`, in this order.  Returns the number of chunks. */
static unsigned check_bucket(struct hwt_record **expected, unsigned count)
{
	struct hwt_chunk *before = NULL;
	unsigned chunks = 0, n = 0;

	for (struct hwt_chunk *chunk = bucket.first; chunk != NULL; before = chunk, chunk = chunk->next, chunks++) {
		unsigned live = 0;

		CHECK(chunk->prev == before && chunk->bucket == &bucket);
		CHECK(chunk->used <= chunk_capacity(chunk));
		for (unsigned i = 0; i < chunk->used; i++) {
			struct hwt_record *record = chunk->records[i];

			if (record == NULL)
				continue;
			live++;
			CHECK(place_chunk(record->place) == chunk && place_index(record->place) == i);
			CHECK_INT(round_distance(chunk->least, chunk_rounds(chunk)[i]), <=, 0);
			CHECK(n < count && expected[n] == record);
			n++;
		}
		CHECK(live == chunk->live && live > 0);
	}
	CHECK(bucket.last == before);
	CHECK_INT(n, ==, count);
	return chunks;
}

static void append(struct hwt_record *record)
{
	CHECK(bucket_append(&stock, &bucket, record, (uint32_t)(record - records) % 7, false));
}

/* Appends and removes at random, and compares with an array. */
static void random_walk(uint64_t *seed, unsigned removals_of_10)
{
	static struct hwt_record *expected[MANY];
	unsigned count = 0, used = 0;

	begin();
	while (used < MANY) {
		if (count > 0 && random_below(seed, 10) < removals_of_10) {
			unsigned i = (unsigned)random_below(seed, count);

			hwt_bucket_remove(&stock, expected[i]);
			CHECK_INT(expected[i]->place, ==, 0);
			memmove(&expected[i], &expected[i + 1], (--count - i) * sizeof(expected[0]));
		} else {
			append(expected[count++] = &records[used++]);
		}
		if (used % 100 == 0)
			check_bucket(expected, count);
	}
	check_bucket(expected, count);
	end();
}

TEST(order_and_invariants_survive_random_removals)
{
	uint64_t seed = random_seed();

	for (unsigned removals = 1; removals <= 6; removals++)
		random_walk(&seed, removals);
}

/* A lonely member, one left in a hundred, must not keep a chunk for itself. */
TEST(sparse_chunks_are_merged)
{
	struct hwt_record *expected[MANY / 100];

	begin();
	for (unsigned i = 0; i < MANY; i++)
		append(&records[i]);
	for (unsigned i = 0; i < MANY; i++)
		if (i % 100 == 0)
			expected[i / 100] = &records[i];
		else
			hwt_bucket_remove(&stock, &records[i]);
	CHECK_INT(check_bucket(expected, MANY / 100), <=, MANY / 100 * 4 / CHUNK_LAST_CAPACITY + 4);
	end();
}

#define ROUND UINT32_C(0xfffffe00) /* near the end, so that rounds wrap */

/* Members have any round from ROUND on.  Random members leave, and the first again and again. */
TEST(the_least_round_is_that_of_a_member_that_is_left)
{
	static uint32_t distance[MANY];
	static bool gone[MANY];
	uint64_t seed = random_seed();

	begin();
	memset(gone, 0, sizeof(gone));
	for (unsigned i = 0; i < 2000; i++) {
		distance[i] = (uint32_t)random_below(&seed, 1000);
		CHECK(bucket_append(&stock, &bucket, &records[i], ROUND + distance[i], false));
	}
	for (unsigned removed = 0; removed <= 2000; removed++) {
		int32_t least = INT32_MAX;
		unsigned first = 0, looks = UINT_MAX;

		for (unsigned i = 0; i < 2000; i++) {
			if (!gone[i] && (int32_t)distance[i] < least) {
				least = (int32_t)distance[i];
				first = i;
			}
		}
		CHECK_INT(hwt_bucket_least(&bucket, ROUND, 0, &looks), ==, least);
		CHECK_INT(hwt_bucket_least(&bucket, ROUND, least, &looks), ==, least);
		looks = 8;
		CHECK_INT(hwt_bucket_least(&bucket, ROUND, -1, &looks), ==,
			  bucket.first == bucket.last ? least : -1); /* the search gives up after the first chunk */
		for (struct hwt_chunk *chunk = bucket.first; chunk != NULL; chunk = chunk->next)
			for (unsigned i = 0; i < chunk->used; i++)
				CHECK(chunk->records[i] == NULL ||
				      round_distance(chunk->least, chunk_rounds(chunk)[i]) <= 0);
		if (removed % 2 != 0)
			do {
				first = (unsigned)random_below(&seed, 2000);
			} while (removed < 2000 && gone[first]);
		if (removed < 2000) {
			gone[first] = true;
			hwt_bucket_remove(&stock, &records[first]);
		}
	}
	CHECK_INT(stock.used, ==, 0);
	end();
}

/* Bytes of chunks a member, as the manual promises. */
TEST(a_member_of_a_long_bucket_takes_13_bytes)
{
	uint64_t bytes = 0;

	begin();
	for (unsigned i = 0; i < MANY; i++)
		append(&records[i]);
	for (struct hwt_chunk *chunk = bucket.first; chunk != NULL; chunk = chunk->next)
		bytes += chunk->class == 3 ? 768 : 512;
	CHECK_INT(bytes * 10, <=, MANY * 131) /* 59 of them in 768 bytes */;
	end();
}

TEST_MAIN()
