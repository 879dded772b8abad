/* SPDX-License-Identifier: BSD-2-Clause */
/* Making slabs of records, returning to them, and giving their memory back; record_slab.h. */
#include "lane/record_slab.h"

/* The records of a page. */
#define FIRST_SPAN ((uint32_t)(4096 / sizeof(struct hwt_record) * sizeof(struct hwt_record)))

#define HEAD_BYTES (SLAB_COLOURS * (size_t)HWT_LINE + sizeof(struct hwt_record_slab))

const char hwt_record_slab_worker;

/* The records of a slab that serve. */
HWT_TUNABLE(uint32_t, slab_records, SLAB_RECORDS)

/* Returns the offset of the end of the last record. */
static uint32_t last_end(void)
{
	return slab_records() * (uint32_t)sizeof(struct hwt_record);
}

void hwt_record_slabs_destroy(struct hwt_record_slabs *slabs)
{
	struct hwt_record_slab *slab = record_slabs_newest(slabs), *next;

	for (; slab != NULL; slab = next) {
		next = slab->next;
		hwt_mem_free(record_slab_begin(slab));
	}
}

struct hwt_record_slab *hwt_record_slab_make(struct hwt_record_slabs *slabs, const void *owner)
{
	struct hwt_record *records = hwt_mem_block(SLAB_BYTES, SLAB_BYTES + HEAD_BYTES);
	struct hwt_record_slab *slab, *newest;

	if (records == NULL)
		return NULL;
	/* S5: pages that the allocator has used before may have other bytes. */
	hwt_mem_zero(records, last_end());
	slab = record_slab_of(records);
	*slab = (struct hwt_record_slab){ .slabs = slabs };
	atomic_init(&slab->home, 0);
	atomic_init(&slab->owner, owner);
	atomic_init(&slab->rest, REST_NONE);
	atomic_fetch_add_explicit(&slabs->heads, HEAD_BYTES, memory_order_relaxed); /* relaxed: only a number */
	newest = atomic_load_explicit(&slabs->newest, memory_order_relaxed); /* relaxed: the exchange checks it */
	do
		slab->next = newest;
	while (!atomic_compare_exchange_weak_explicit(&slabs->newest, &newest, slab, memory_order_release, /* [slabs] */
						      memory_order_relaxed));
	return slab;
}

bool hwt_record_slab_has_room(const struct hwt_record_slab *slab)
{
	return record_slab_span(slab) < last_end();
}

bool hwt_record_slab_extend(struct hwt_record_slab *slab, bool all)
{
	uint32_t span = record_slab_span(slab), room = last_end() - span, more = span == 0 ? FIRST_SPAN : span;

	if (room == 0)
		return false;
	if (span == 0)
		hwt_mem_want_huge(record_slab_begin(slab), SLAB_BYTES, all);
	more = all || more > room ? room : more;
	atomic_store_explicit(&slab->span, span + more, memory_order_relaxed); /* relaxed: S5 needs no order */
	atomic_fetch_add_explicit(&slab->slabs->held, more, memory_order_relaxed); /* relaxed: only a number */
	return true;
}

bool hwt_record_slab_claim(struct hwt_record_slab *slab, const void *owner)
{
	const void *nobody = NULL;

	HWT_POINT("slab claim");
	/* Relaxed: a thread that fails goes on without the slab. */
	return atomic_compare_exchange_strong_explicit(&slab->owner, &nobody, owner, memory_order_acquire, /* [owner] */
						       memory_order_relaxed);
}

void hwt_record_slab_release(struct hwt_record_slab *slab)
{
	enum record_slab_rest rest = hwt_record_slab_has_room(slab) ? REST_ROOM : REST_NONE;

	if (slab->free != NULL || slab->carve < record_slab_span(slab))
		rest = REST_SOME;
	/* Relaxed: a hint. */
	atomic_store_explicit(&slab->rest, rest, memory_order_relaxed);
	HWT_POINT("slab release");
	atomic_store_explicit(&slab->owner, NULL, memory_order_release); /* [owner] */
}

/*
 * Returns true if all records of the slab are home or never served.  The threads that returned them have finished their
 * accesses.
 */
static bool is_empty(struct hwt_record_slab *slab, uint64_t *home)
{
	*home = atomic_load_explicit(&slab->home, memory_order_acquire); /* [home] */
	return home_count(*home) == slab->out;
}

/*
 * Forgets all records of an empty slab, and gives their memory back.  If the system refuses, the slab is nevertheless
 * carved again from its beginning.
 *
 * No other thread writes to the slab: only a record that is out can be returned, and no record is out.
 */
static void give(struct hwt_record_slab *slab, size_t *bytes)
{
	uint32_t held = record_slab_span(slab);

	slab->base += slab->refills + 2;
	slab->refills = 0;
	slab->free = NULL;
	slab->out = slab->carve = 0;
	slab->empty_ns = 0;
	/* Relaxed: nobody takes from it before the slab is released, [owner]. */
	atomic_store_explicit(&slab->home, 0, memory_order_relaxed);
	HWT_POINT("slab give");
	if (!hwt_mem_give_back(record_slab_begin(slab), SLAB_BYTES))
		return;
	HWT_POINT("slab given");
	atomic_store_explicit(&slab->span, 0, memory_order_relaxed); /* relaxed: a walk finds no record here anyway */
	atomic_fetch_sub_explicit(&slab->slabs->held, held, memory_order_relaxed); /* relaxed: only a number */
	*bytes += held;
}

bool hwt_record_slab_look(struct hwt_record_slab *slab, int64_t now_ns, int64_t hold_ns, size_t *bytes)
{
	bool is_waiting = false;
	uint64_t home;

	/* The slab belongs to a lane, which has most likely used it. */
	if (!hwt_record_slab_claim(slab, &hwt_record_slab_worker))
		return false;
	if (slab->carve == 0 || !is_empty(slab, &home)) {
		slab->empty_ns = 0;
	} else {
		if (slab->empty_ns == 0 || slab->is_used)
			slab->empty_ns = now_ns;
		is_waiting = now_ns - slab->empty_ns < hold_ns;
		if (!is_waiting)
			give(slab, bytes);
	}
	slab->is_used = false;
	hwt_record_slab_release(slab);
	return is_waiting;
}

void hwt_record_slab_return(struct hwt_record_slab *slab, struct hwt_record *first, struct hwt_record *last,
			    uint32_t count)
{
	/* Relaxed: this thread does not read the records that are home, it only links to them. */
	uint64_t home = atomic_load_explicit(&slab->home, memory_order_relaxed), added;

	do {
		record_set_next(last, home_first(slab, home));
		added = (uint64_t)(home_count(home) + count) << 32 | record_slab_offset(first);
		HWT_POINT("slab return");
	} while (!atomic_compare_exchange_weak_explicit(&slab->home, &home, added, memory_order_release, /* [home] */
							memory_order_relaxed));
}

void hwt_record_slab_begin_chain(struct hwt_record_slab *slab, struct hwt_record *record)
{
	slab->first = slab->last = record;
	slab->count = 1;
	record_set_ahead(record, record);
	for (unsigned i = 0; i < HWT_RETURN_AHEAD; i++)
		slab->recent[i] = record_slab_offset(record);
	slab->touched = slab->slabs->touched;
	slab->slabs->touched = slab;
}

void hwt_record_slabs_flush(struct hwt_record_slabs *slabs)
{
	struct hwt_record_slab *slab = slabs->touched;

	slabs->touched = NULL;
	for (; slab != NULL; slab = slab->touched) {
		hwt_record_slab_return(slab, slab->first, slab->last, slab->count);
		slabs->returned += slab->count;
		slab->count = 0;
	}
}
