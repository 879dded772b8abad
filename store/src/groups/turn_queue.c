/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A pairing heap: the queue of a group, the groups that wait for a time, the rests that are not due.  Timeouts come due
 * in the order of their times, and mostly with one priority.  The heap takes and returns what arrives in order in a few
 * nanoseconds.
 */
#include "groups/turns.h"

/* Counted turns are first: T4 in turns.h. */
static bool is_before(const struct hwts_turn *a, const struct hwts_turn *b)
{
	if (a->counted != b->counted)
		return a->counted;
	return a->priority != b->priority ? a->priority > b->priority : a->due_us < b->due_us;
}

/* b was pushed after a: of two equal turns the earlier push comes first. */
static struct hwts_turn *merge(struct hwts_turn *a, struct hwts_turn *b)
{
	if (is_before(b, a)) {
		struct hwts_turn *other = a;

		a = b;
		b = other;
	}
	b->prev = a;
	b->next = a->child;
	if (b->next)
		b->next->prev = b;
	a->child = b;
	return a;
}

/* Merges a list of siblings, newest first, into one heap: in pairs, then the pairs from the oldest to the newest. */
static struct hwts_turn *merge_all(struct hwts_turn *heap)
{
	struct hwts_turn *pairs = NULL, *all = NULL;

	while (heap) {
		struct hwts_turn *a = heap, *b = a->next;

		heap = b ? b->next : NULL;
		if (b)
			a = merge(b, a);
		a->next = pairs;
		pairs = a;
	}
	while (pairs) {
		struct hwts_turn *rest = pairs->next;

		all = all ? merge(all, pairs) : pairs;
		pairs = rest;
	}
	return all;
}

void hwts_turn_push(struct hwts_turn **queue, struct hwts_turn *turn)
{
	turn->next = turn->prev = turn->child = NULL;
	*queue = *queue ? merge(*queue, turn) : turn;
}

/* The turn's children take its place, so equal turns keep their order. */
void hwts_turn_remove(struct hwts_turn **queue, struct hwts_turn *turn)
{
	struct hwts_turn *heap = merge_all(turn->child), *next = turn->next, *prev = turn->prev;

	if (heap) {
		heap->prev = prev;
		heap->next = next;
	}
	if (next)
		next->prev = heap ? heap : prev;
	heap = heap ? heap : next;
	if (!prev)
		*queue = heap;
	else if (prev->child == turn)
		prev->child = heap;
	else
		prev->next = heap;
}
