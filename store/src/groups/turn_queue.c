/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A pairing heap: the queue of a group, and the groups that wait for a time.  Timeouts become due in the order of their
 * times, and mostly have one priority, and what comes in order it takes and gives in a few nanoseconds.
 */
#include "groups/turns.h"

/* Counted ones first: T4. */
static bool is_before(const struct hwts_turn *a, const struct hwts_turn *b)
{
	if (a->counted != b->counted)
		return a->counted;
	return a->priority != b->priority ? a->priority > b->priority : a->due_us < b->due_us;
}

/* Two heaps, the second of which came later: of what is equal the one goes first that came first. */
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

/* The heap of siblings, the last of which came first: in pairs, and these from the last to the first. */
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

/* Its children take its place, so that what is equal stays in its order. */
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
