/* SPDX-License-Identifier: BSD-2-Clause */
/* Sorting free records by slab, and slabs that leave; sorter.h. */
#include "lane/sorter.h"
#include "base/mem.h"
#include "base/thread.h"

#include <string.h>

/* Records sorted at a time: some tens of microseconds, as most of them are not in the cache. */
#define SLICE 1024

#define LARGE HWT_HUGE_PAGE
#define MIN_BITS 4

static void set_hint(_Atomic bool *hint, bool value)
{
	atomic_store_explicit(hint, value, memory_order_relaxed); /* relaxed: a hint; the mutex orders the rest */
}

static bool is_hinted(const _Atomic bool *hint)
{
	return atomic_load_explicit(hint, memory_order_relaxed); /* relaxed: as above */
}

/* Relaxed: written under the mutex, and only a number to others. */
static void count_bytes(struct hwt_sorter *sorter, size_t more)
{
	atomic_store_explicit(&sorter->bytes, sorter_bytes(sorter) + more, memory_order_relaxed);
}

int hwt_sorter_init(struct hwt_sorter *sorter)
{
	memset(sorter, 0, sizeof(*sorter));
	return pthread_mutex_init(&sorter->mutex, NULL);
}

void hwt_sorter_destroy(struct hwt_sorter *sorter)
{
	hwt_mem_free(sorter->table);
	hwt_slabs_free(sorter->leaving);
	hwt_slabs_free(sorter->given);
	pthread_mutex_destroy(&sorter->mutex);
}

static struct hwt_record_slab *head_of(const void *address)
{
	return (struct hwt_record_slab *)((uintptr_t)address & ~(uintptr_t)(LARGE - 1));
}

/* Returns the place of a slab, or the empty one where it would be.  The table is at most half full. */
static struct hwt_record_slab **find(const struct hwt_sorter *sorter, const struct hwt_record_slab *slab)
{
	size_t i = (size_t)((uint64_t)((uintptr_t)slab / LARGE) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - sorter->bits));

	while (sorter->table[i] != NULL && sorter->table[i] != slab)
		i = (i + 1) & (((size_t)1 << sorter->bits) - 1);
	return &sorter->table[i];
}

bool hwt_sorter_begin(struct hwt_sorter *sorter, size_t slabs)
{
	struct hwt_record_slab **table;
	unsigned bits = MIN_BITS;

	while ((size_t)1 << bits < 2 * slabs)
		bits++;
	table = hwt_mem_zeroed(sizeof(*table), sizeof(*table) << bits);
	if (table == NULL)
		return false;
	pthread_mutex_lock(&sorter->mutex);
	sorter->table = table;
	sorter->bits = bits;
	sorter->taken_back = 0;
	pthread_mutex_unlock(&sorter->mutex);
	set_hint(&sorter->holds_records, true);
	return true;
}

void hwt_sorter_add(struct hwt_sorter *sorter, struct hwt_slab *slab)
{
	struct hwt_record_slab *large = (struct hwt_record_slab *)(void *)slab;

	if (slab->bytes != LARGE)
		return;
	pthread_mutex_lock(&sorter->mutex);
	*find(sorter, large) = large;
	pthread_mutex_unlock(&sorter->mutex);
}

void hwt_sorter_put(struct hwt_sorter *sorter, struct hwt_record *first)
{
	pthread_mutex_lock(&sorter->mutex);
	HWT_ASSERT(sorter->unsorted == NULL);
	sorter->unsorted = first;
	sorter->taken_back = 0;
	pthread_mutex_unlock(&sorter->mutex);
}

/* Sorts a record.  Relaxed: nobody changes the word of a free record, and the list came by [home] or a lock. */
static void sort(struct hwt_sorter *sorter, struct hwt_record_slab *slab, struct hwt_record *record)
{
	uint64_t generation = word_generation(atomic_load_explicit(&record->word, memory_order_relaxed));

	if (slab == NULL) {
		chain_append(&sorter->rest, record);
		return;
	}
	record->free_next = slab->sorted;
	record->free_ahead = record; /* what it pointed to may leave */
	if (slab->sorted == NULL)
		slab->sorted_last = record;
	slab->sorted = record;
	slab->sorted_count++;
	if (generation > slab->generation)
		slab->generation = generation;
}

bool hwt_sorter_sort(struct hwt_sorter *sorter)
{
	const struct hwt_record_slab *last = NULL;
	struct hwt_record_slab *slab = NULL;
	bool more;

	pthread_mutex_lock(&sorter->mutex);
	for (unsigned i = 0; i < SLICE && sorter->unsorted != NULL; i++) {
		struct hwt_record *record = sorter->unsorted;

		sorter->unsorted = record->free_next;
		record_prefetch(record->free_ahead);
		if (head_of(record) != last) {
			last = head_of(record);
			slab = *find(sorter, last);
		}
		sort(sorter, slab, record);
	}
	more = sorter->unsorted != NULL;
	pthread_mutex_unlock(&sorter->mutex);
	return more;
}

bool hwt_sorter_has(const struct hwt_slab *slab, size_t records)
{
	return slab->bytes == LARGE && ((const struct hwt_record_slab *)(const void *)slab)->sorted_count == records;
}

static struct hwt_record *take_sorted(struct hwt_record_slab *slab)
{
	struct hwt_record *first = slab->sorted;

	slab->sorted = slab->sorted_last = NULL;
	slab->sorted_count = 0;
	return first;
}

void hwt_sorter_leave(struct hwt_sorter *sorter, struct hwt_slab *slab)
{
	(void)take_sorted((struct hwt_record_slab *)(void *)slab);
	slab->next = sorter->leaving;
	sorter->leaving = slab;
	sorter->left++;
	count_bytes(sorter, LARGE);
	set_hint(&sorter->holds_slabs, true);
}

void hwt_sorter_return(struct hwt_record_slab *slab, struct hwt_pool *pool)
{
	if (slab->sorted == NULL)
		return;
	slab->sorted_last->free_next = pool->free;
	pool->free = take_sorted(slab);
}

void hwt_sorter_return_rest(struct hwt_sorter *sorter, struct hwt_pool *pool)
{
	struct hwt_chain *rest = &sorter->rest;

	if (rest->first != NULL) {
		rest->last->free_next = pool->free;
		pool->free = rest->first;
	}
	memset(rest, 0, sizeof(*rest));
}

void hwt_sorter_end(struct hwt_sorter *sorter)
{
	struct hwt_record_slab **table;

	pthread_mutex_lock(&sorter->mutex);
	HWT_ASSERT(sorter->unsorted == NULL && sorter->rest.first == NULL);
	table = sorter->table;
	sorter->table = NULL;
	pthread_mutex_unlock(&sorter->mutex);
	set_hint(&sorter->holds_records, false);
	hwt_mem_free(table);
}

/* Takes the first slab of a list, NULL: it is empty. */
static struct hwt_record_slab *pop(struct hwt_slab **list)
{
	struct hwt_slab *slab = *list;

	if (slab != NULL)
		*list = slab->next;
	return (struct hwt_record_slab *)(void *)slab;
}

/*
 * The head goes with the rest, or the system would keep all of a huge page.  A thread that looks for the lane meanwhile
 * waits; hwt_sorter_lane.
 */
static bool give_back(struct hwt_record_slab *slab)
{
	struct hwt_lane *lane = record_slab_lane(slab);
	uint64_t generation = slab->generation;
	bool given;

	HWT_POINT("give back");
	given = hwt_mem_give_back(slab, LARGE);
	HWT_POINT("given");
	slab->slab.bytes = LARGE;
	slab->generation = generation;
	atomic_store_explicit(&slab->lane, lane, memory_order_release); /* [given] */
	return given;
}

bool hwt_sorter_give_back(struct hwt_sorter *sorter, size_t *bytes)
{
	struct hwt_record_slab *slab;
	bool given;

	pthread_mutex_lock(&sorter->mutex);
	slab = pop(&sorter->leaving);
	pthread_mutex_unlock(&sorter->mutex);
	if (slab == NULL)
		return false;
	given = give_back(slab);
	pthread_mutex_lock(&sorter->mutex);
	slab->is_given = given;
	slab->slab.next = sorter->given;
	sorter->given = &slab->slab;
	/* Meanwhile a producer may have found neither list to have one. */
	set_hint(&sorter->holds_slabs, true);
	if (given)
		count_bytes(sorter, -LARGE);
	pthread_mutex_unlock(&sorter->mutex);
	*bytes += given ? LARGE : 0;
	return true;
}

/* Takes the next sorted list of the table. */
static struct hwt_record *take_back_sorted(struct hwt_sorter *sorter)
{
	for (; sorter->taken_back < (size_t)1 << sorter->bits; sorter->taken_back++) {
		struct hwt_record_slab *slab = sorter->table[sorter->taken_back];

		if (slab != NULL && slab->sorted != NULL)
			return take_sorted(slab);
	}
	return NULL;
}

struct hwt_record *hwt_sorter_take_back(struct hwt_sorter *sorter)
{
	struct hwt_record *first;

	if (likely(!is_hinted(&sorter->holds_records)))
		return NULL;
	HWT_POINT("take back");
	pthread_mutex_lock(&sorter->mutex);
	first = sorter->unsorted;
	if (first != NULL) {
		sorter->unsorted = NULL;
	} else if ((first = sorter->rest.first) != NULL) {
		memset(&sorter->rest, 0, sizeof(sorter->rest));
	} else if (sorter->table != NULL) {
		first = take_back_sorted(sorter);
	}
	pthread_mutex_unlock(&sorter->mutex);
	return first;
}

/* Takes a slab that left, best one that still has its memory.  NULL: there is none. */
static struct hwt_record_slab *take_slab(struct hwt_sorter *sorter)
{
	struct hwt_record_slab *slab;

	if (likely(!is_hinted(&sorter->holds_slabs)))
		return NULL;
	pthread_mutex_lock(&sorter->mutex);
	slab = pop(&sorter->leaving);
	if (slab == NULL)
		slab = pop(&sorter->given);
	if (slab == NULL)
		set_hint(&sorter->holds_slabs, false);
	else if (!slab->is_given)
		count_bytes(sorter, -LARGE);
	pthread_mutex_unlock(&sorter->mutex);
	if (slab != NULL && slab->is_given)
		hwt_mem_reuse(slab, LARGE);
	return slab;
}

bool hwt_sorter_grow(struct hwt_sorter *sorter, struct hwt_pool *pool)
{
	struct hwt_record_slab *slab = hwt_pool_is_large(pool) ? take_slab(sorter) : NULL;

	if (slab == NULL && hwt_pool_grow(pool))
		return true;
	if (slab == NULL)
		slab = take_slab(sorter);
	if (slab == NULL)
		return false;
	slab->is_given = false;
	hwt_pool_adopt(pool, slab);
	return true;
}

struct hwt_lane *hwt_sorter_lane(const struct hwt_record *record)
{
	struct hwt_record_slab *slab = head_of(record);
	struct hwt_lane *lane;
	unsigned turns = 0;

	while ((lane = atomic_load_explicit(&slab->lane, memory_order_acquire)) == NULL) /* [given] */
		hwt_thread_give_way(&turns);
	return lane;
}
