/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records come home to their slab: the worker returns a chain of two, another thread returns one, and a producer takes
 * the records that have come home.  Each comes back once, and complete.  If a look finds all records home the slab is
 * empty, and no thread accesses it any more.
 */
#include "slab.h"

#include "lane/record_slab.c"

#define WEAK_RECORDS 3

static struct hwt_record_slabs slabs;
static int taken;
/* In place of what threads write to the records: not atomic, so the checker sees races. */
static int used[WEAK_RECORDS];

static void *flush(void *unused)
{
	used[0] = used[1] = 1;
	record_slab_chain(&records[0]);
	record_slab_chain(&records[1]);
	hwt_record_slabs_flush(&slabs);
	return unused;
}

static void *come_back(void *unused)
{
	used[2] = 1;
	record_slab_return_one(&records[2]);
	return unused;
}

static void take_all(void)
{
	struct hwt_record *record = NULL;
	uint32_t count = record_slab_take_home(&slab, &record);

	for (; count > 0; count--, record = record_next(record)) {
		taken++;
		used[record - records] = 0;
		record_set_ahead(record, NULL);
	}
}

/* Takes records as the owner does: a lane, or the worker in a look. */
static void *take(void *unused)
{
	uint64_t home;

	if (is_empty(&slab, &home)) {
		for (int i = 0; i < WEAK_RECORDS; i++) {
			assert(used[i] == 1);
			record_set_ahead(&records[i], NULL);
		}
	}
	take_all();
	return unused;
}

int main(void)
{
	pthread_t worker, executor, producer;

	slab_make(&slabs, WEAK_RECORDS);
	slab.carve = record_slab_span(&slab);
	slab.out = WEAK_RECORDS;
	worker = weak_start(flush);
	executor = weak_start(come_back);
	producer = weak_start(take);
	pthread_join(worker, NULL);
	pthread_join(executor, NULL);
	pthread_join(producer, NULL);
	take_all();
	assert(taken == WEAK_RECORDS);
	for (int i = 0; i < WEAK_RECORDS; i++) /* no thread has written since */
		assert(atomic_load_explicit(&records[i].free_ahead, memory_order_relaxed) == NULL);
	return 0;
}
