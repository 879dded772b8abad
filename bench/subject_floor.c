/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * No timer at all: a floor.  It does the least that any timer of this kind must do for a timeout: take an uncontended
 * lock (an exchange), write a record of 48 bytes and a queue node of 16, and read the clock in schedule.  One producer,
 * and no timeout fires.
 *
 * Records and nodes are taken in the order of their addresses; the second filling finds them written before, as in the
 * steady state (S1w, S1wat).
 */
#include "measure.h"
#include "rivals.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

struct floor_record {
	_Atomic uint64_t word;
	void *lane;
	int64_t deadline_ns;
	subject_task *task;
	void *arg;
	uint64_t place;
};

struct floor_node {
	void *value;
	struct floor_node *next;
};

#define SLAB ((size_t)1 << 16)
#define SLABS 1024

static struct floor {
	_Alignas(UNSHARED) atomic_uint lock;
	size_t next, accepted, cancelled;
	struct floor_node *last;
	subject_task *task;
	struct floor_record *records[SLABS];
	struct floor_node *nodes[SLABS];
} lane;

static int grow(size_t slab)
{
	if (slab >= SLABS)
		return ENOMEM;
	lane.records[slab] = malloc(SLAB * sizeof(**lane.records));
	lane.nodes[slab] = malloc(SLAB * sizeof(**lane.nodes));
	return lane.records[slab] && lane.nodes[slab] ? 0 : ENOMEM;
}

static void *floor_init(const struct subject_config *config, subject_task *task)
{
	(void)config;
	lane.task = task;
	if (grow(0) != 0)
		return NULL;
	lane.last = &lane.nodes[0][SLAB - 1]; /* a node to which the first one is linked */
	return &lane;
}

static int floor_schedule_at(void *timer, void *arg, int64_t deadline_ns, struct handle *out)
{
	size_t slab = lane.next / SLAB;
	struct floor_record *record;
	struct floor_node *node;

	(void)timer;
	while (atomic_exchange_explicit(&lane.lock, 1, memory_order_acquire))
		;
	if (!lane.records[slab] && grow(slab) != 0)
		return ENOMEM;
	record = &lane.records[slab][lane.next % SLAB];
	node = &lane.nodes[slab][lane.next % SLAB];
	lane.next++;
	lane.accepted++;
	record->lane = &lane;
	record->deadline_ns = deadline_ns;
	record->task = lane.task;
	record->arg = arg;
	record->place = 0;
	atomic_store_explicit(&record->word, lane.next, memory_order_release);
	node->value = record;
	node->next = NULL;
	lane.last->next = node;
	lane.last = node;
	atomic_store_explicit(&lane.lock, 0, memory_order_release);
	out->pointer = record;
	out->number = lane.next;
	return 0;
}

static int floor_schedule(void *timer, void *arg, int64_t delay_ns, struct handle *out)
{
	return floor_schedule_at(timer, arg, now_ns() + delay_ns, out);
}

/* Counts a cancel.  After the last one all memory is free again. */
static int floor_cancel(void *timer, struct handle *handle)
{
	struct floor_record *record = handle->pointer;

	(void)timer;
	atomic_store_explicit(&record->word, 0, memory_order_release);
	if (++lane.cancelled == lane.accepted)
		lane.next = 0;
	return 0;
}

static uint64_t floor_destroy(void *timer)
{
	(void)timer;
	return lane.accepted - lane.cancelled;
}

static const char *floor_version(void)
{
	return "(no timer: an exchange, the writes of a record and a node; S1, S1w: and the clock)";
}

const struct subject subject_floor = {
	.name = "floor",
	.version = floor_version,
	.init = floor_init,
	.schedule = floor_schedule,
	.schedule_at = floor_schedule_at,
	.cancel = floor_cancel,
	.destroy = floor_destroy,
	.producers_max = 1,
	.only = " S1 S1t S1at S1w S1wat ",
};
