/* SPDX-License-Identifier: BSD-2-Clause */
#include "wheel/due.h"
#include "base/mem.h"

#include <errno.h>

static size_t level_entries(uint32_t buckets, unsigned level)
{
	/* Rounded up to a whole group, so that a group can be read without looking for its end. */
	return ((((size_t)buckets - 1) >> (level * DUE_FANOUT_BITS)) + DUE_FANOUT) / DUE_FANOUT * DUE_FANOUT;
}

static unsigned top_level(uint32_t buckets)
{
	unsigned top = 0;

	while (((uint64_t)buckets - 1) >> (top * DUE_FANOUT_BITS) != 0)
		top++;
	return top;
}

size_t hwt_due_bytes(uint32_t buckets)
{
	size_t entries = 0;

	for (unsigned l = 0; l <= top_level(buckets); l++)
		entries += level_entries(buckets, l);
	return entries * sizeof(uint64_t);
}

int hwt_due_init(struct hwt_due *due, uint32_t buckets)
{
	uint64_t *memory = hwt_mem_zeroed(sizeof(*memory), hwt_due_bytes(buckets));

	if (memory == NULL)
		return ENOMEM;
	due->top = top_level(buckets);
	for (unsigned l = 0; l <= due->top; l++) {
		due->level[l] = memory;
		memory += level_entries(buckets, l);
	}
	return 0;
}

void hwt_due_destroy(struct hwt_due *due)
{
	hwt_mem_free(due->level[0]);
}

static uint64_t group_urgency(const uint64_t *group)
{
	uint64_t most = 0;

	for (unsigned i = 0; i < DUE_FANOUT; i++)
		most = group[i] > most ? group[i] : most;
	return most;
}

void hwt_due_set(struct hwt_due *due, uint32_t bucket, int64_t tick)
{
	uint64_t urgency = due_urgency(tick);

	for (unsigned l = 0;; l++) {
		due->level[l][bucket] = urgency;
		if (l == due->top)
			return;
		urgency = group_urgency(&due->level[l][bucket & ~(uint32_t)(DUE_FANOUT - 1)]);
		bucket >>= DUE_FANOUT_BITS;
		if (due->level[l + 1][bucket] == urgency)
			return;
	}
}

uint32_t hwt_due_first_bucket(const struct hwt_due *due)
{
	uint64_t urgency = due->level[due->top][0];
	uint32_t entry = 0;

	for (unsigned l = due->top; l-- > 0;)
		for (entry <<= DUE_FANOUT_BITS; due->level[l][entry] != urgency;) /* D1: one of the group has it */
			entry++;
	return entry;
}

static void clear_below(struct hwt_due *due, unsigned level, uint32_t entry)
{
	uint32_t first = entry << DUE_FANOUT_BITS;

	if (due->level[level][entry] == 0)
		return;
	due->level[level][entry] = 0;
	for (uint32_t i = first; level > 0 && i < first + DUE_FANOUT; i++)
		clear_below(due, level - 1, i);
}

void hwt_due_clear(struct hwt_due *due)
{
	clear_below(due, due->top, 0);
}

bool hwt_due_any(const struct hwt_due *due, uint32_t *bucket)
{
	uint32_t entry = 0;

	if (due->level[due->top][0] == 0)
		return false;
	for (unsigned l = due->top; l-- > 0;)
		for (entry <<= DUE_FANOUT_BITS; due->level[l][entry] == 0;) /* D1: one of the group is not */
			entry++;
	*bucket = entry;
	return true;
}
