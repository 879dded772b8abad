/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stack of records, linked through themselves, which therefore needs no memory.  An executor's thread or a task
 * thread pushes a record that is to run again; the worker takes it.
 *
 * Threads
 *
 *   stack_push      any.
 *   stack_take_all  the worker.
 *
 * Ordering
 *
 *   [stack]  push (release) -> take_all (acquire): the record is complete.  The worker always takes all records, so a
 *            push needs no counter against reuse.
 */
#ifndef HWT_STACK_H
#define HWT_STACK_H

#include "base/record.h"

typedef _Atomic(struct hwt_record *) hwt_stack;

/* Pushes a record. */
static inline void stack_push(hwt_stack *stack, struct hwt_record *record)
{
	struct hwt_record *top = atomic_load_explicit(stack, memory_order_relaxed); /* relaxed: the exchange checks */

	do {
		record->link = top;
		HWT_POINT("stack push");
	} while (!atomic_compare_exchange_weak_explicit(stack, &top, record, memory_order_release, /* [stack] */
							memory_order_relaxed));
}

static inline bool stack_is_empty(hwt_stack *stack)
{
	return atomic_load_explicit(stack, memory_order_acquire) == NULL; /* [stack] */
}

/* Takes all records and returns the oldest; the others follow through link in the order of their pushes. */
static inline struct hwt_record *stack_take_all(hwt_stack *stack)
{
	struct hwt_record *record, *oldest = NULL;

	if (likely(stack_is_empty(stack)))
		return NULL;
	HWT_POINT("stack take");
	record = atomic_exchange_explicit(stack, NULL, memory_order_acquire); /* [stack] */
	while (record != NULL) {
		struct hwt_record *next = record->link;

		record->link = oldest;
		oldest = record;
		record = next;
	}
	return oldest;
}

#endif
