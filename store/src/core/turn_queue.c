/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue of a group.  Timeouts become due in the order of their times, and mostly have one priority: what comes
 * behind the last, or before the first, goes into a circle in order.  The rest goes into a pairing heap.
 */
#include "core/turns.h"

/* Counted ones first: T4. */
static bool is_before(const struct hwts_turn *a, const struct hwts_turn *b)
{
	if (a->counted != b->counted)
		return a->counted;
	return a->priority != b->priority ? a->priority > b->priority : a->due_us < b->due_us;
}

/* Two heaps, the second of which came later. */
static struct hwts_turn *merge(struct hwts_turn *a, struct hwts_turn *b)
{
	if (is_before(b, a)) {
		struct hwts_turn *other = a;

		a = b;
		b = other;
	}
	b->next = a->child;
	a->child = b;
	return a;
}

/* The heap of siblings: in pairs, and these from the last to the first. */
static struct hwts_turn *merge_all(struct hwts_turn *heap)
{
	struct hwts_turn *pairs = NULL, *all = NULL;

	while (heap) {
		struct hwts_turn *a = heap, *b = a->next;

		heap = b ? b->next : NULL;
		if (b)
			a = merge(a, b);
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

void hwts_turn_push(struct hwts_turn_queue *queue, struct hwts_turn *turn)
{
	struct hwts_turn *last = queue->last;

	turn->child = NULL;
	if (!last) {
		turn->next = turn;
		queue->last = turn;
	} else if (!is_before(turn, last)) {
		turn->next = last->next;
		last->next = turn;
		queue->last = turn;
	} else if (is_before(turn, last->next)) {
		turn->next = last->next;
		last->next = turn;
	} else {
		turn->next = NULL;
		queue->heap = queue->heap ? merge(queue->heap, turn) : turn;
	}
}

static bool is_in_heap(const struct hwts_turn_queue *queue)
{
	return queue->heap && (!queue->last || is_before(queue->heap, queue->last->next));
}

struct hwts_turn *hwts_turn_first(const struct hwts_turn_queue *queue)
{
	if (is_in_heap(queue))
		return queue->heap;
	return queue->last ? queue->last->next : NULL;
}

struct hwts_turn *hwts_turn_pop(struct hwts_turn_queue *queue)
{
	struct hwts_turn *turn = hwts_turn_first(queue);

	if (!turn)
		return NULL;
	if (is_in_heap(queue))
		queue->heap = merge_all(turn->child);
	else if (turn == queue->last)
		queue->last = NULL;
	else
		queue->last->next = turn->next;
	turn->next = turn->child = NULL;
	return turn;
}
