/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests only: recomputes every numbered invariant of the headers the stupid way.
 *
 * Structure
 *
 *   Three inventories (check_inventory.h): of all records, of a queue's nodes, of the wheel's chunks.  Every list that
 *   can be walked puts its mark on what it finds.  Then each record's word is held against its place.
 *
 * Threads: the timer must be quiet: nobody in a call, no pass under way.  hwt_worker_request_stop may have ended the
 * last pass in the middle of its batch.
 *
 * What is checked, by the numbers of the headers
 *
 *   grid.h     E1 E3   of each deadline in the wheel, in 128 bits
 *   queue.h    Q1 Q2   nodes of the slabs = recyclable + list + spare + not carved; the producers' view of the head
 *   record.h  R1 R3   each record in exactly one place, or in the wheel and a cancelled queue; its word and its place
 *                      member fit that; R2 in so far as the home chains are empty between passes
 *   record_slab.h   S1 S2 S3 S4   what is free, home, in the chain and out; generations; owners
 *   lane.h     L1 L2 L3   pending = records queued or armed; begun = sum of generations; the limit counts the same
 *   bucket.h   B1 B2 B3 B5 B6   store: free + used + not carved = slabs.  B4, the order, is for who knows what was put
 *                      in: the oracle
 *   due.h      D1 D2
 *   wheel.h    W1      and the unplaced list's own bound.  W2 and W3 need a history: the oracle
 *   hashed.c  H1 H2
 *   levels.h   K1 K2 K3
 *   ready.h    T1 T2
 *   tasks.h    T4      in so far as nothing waits for a thread after a stop
 *   worker.h   P2 P3   the batch's bounds; what it still holds is a place of R1, cancelled ones still in their queue
 */
#ifndef HWT_CHECK_H
#define HWT_CHECK_H

#include "check/check_wheel.h"
#include "timer/timer.h"

#ifdef HWT_TEST

/* Counts of records by place. */
struct hwt_check_counts {
	size_t place[PLACES];
	size_t cancelled; /* in a cancelled queue, with or without another place */
	size_t requeued;  /* in a submitted queue and another place */
	size_t chunks;    /* chunks of the wheel in use */
	int64_t
	    first; /* the least tick at which a member of the wheel has its place; of the levels only those unmoved */
};

/* Checks all invariants; counts may be NULL.  The first violation prints the invariant and aborts. */
void hwt_check_count(hwt_timer *timer, struct hwt_check_counts *counts);
void hwt_check(hwt_timer *timer);

#endif

#endif
