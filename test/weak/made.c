/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two threads come to one seat of a timer and make its lane, while the worker goes through the existing lanes.  There
 * is one lane in the end, and the worker finds it complete.  A record leads to its lane.
 */
#include "lane.h"

static struct hwt_lane room;
static hwt_seat seats[1];
static _Atomic int rooms;
static struct hwt_lane *got[2];

void *hwt_mem_zeroed(size_t align, size_t size)
{
	(void)align;
	assert(size == sizeof(room) && atomic_fetch_add_explicit(&rooms, 1, memory_order_relaxed) == 0);
	return &room;
}

void hwt_mem_free(void *memory)
{
	(void)memory;
	assert(false);
}

void *hwt_slabs_carve(struct hwt_slabs *slabs, size_t bytes)
{
	void *unit = slabs->carve;

	assert(unit == NULL || slabs->carve + bytes == slabs->carve_end);
	return unit;
}

/* Gives each queue its stub. */
bool hwt_slabs_grow(struct hwt_slabs *slabs, const struct hwt_slab_kind *kind)
{
	static hwt_node stubs[2];
	hwt_node *stub = &stubs[slabs == &room.cancelled.slabs];

	(void)kind;
	slabs->carve = (char *)stub;
	slabs->carve_end = (char *)(stub + 1);
	return true;
}

static void *come(void *unused)
{
	got[0] = lanes_at(&lanes, 0);
	if (got[0] == NULL)
		got[0] = hwt_lanes_make(&lanes, 0);
	assert(got[0]->lanes == &lanes);
	return unused;
}

static void *come_too(void *unused)
{
	got[1] = lanes_at(&lanes, 0);
	if (got[1] == NULL)
		got[1] = hwt_lanes_make(&lanes, 0);
	assert(queue_is_empty(&got[1]->submitted));
	return unused;
}

static void *work(void *unused)
{
	assert(hwt_lanes_are_empty(&lanes) && lanes_sum(&lanes, accepted) == 0);
	return unused;
}

int main(void)
{
	pthread_t threads[2];

	made[0] = NULL;
	lanes.made = made;
	lanes.seat = seats;
	atomic_init(&lanes.hurry_ns, INT64_MAX);
	pthread_mutex_init(&lanes.making, NULL);
	threads[0] = weak_start(come);
	threads[1] = weak_start(come_too);
	weak_start(work);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	assert(got[0] == &room && got[1] == &room && lanes_count(&lanes) == 1);
	return 0;
}
