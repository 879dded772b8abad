/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A bin of the histogram of lateness is opened, counts two runs along and is closed, while a reader reads it
 * twice: it never goes down, and never counts a run of another bin (worker/counts.h).
 */
#include "weak.h"

#include "../../src/worker/counts.c"

#define LATE_NS 5000000

static struct hwt_counts counts;
static _Atomic uint64_t runs;

static void count(int64_t deadline_ns)
{
	if (!counts_belongs(&counts, deadline_ns))
		hwt_counts_lateness(&counts, deadline_ns, counts_get(&runs));
	atomic_store_explicit(&runs, counts_get(&runs) + 1, memory_order_release); /* [count] */
}

static void *work(void *unused)
{
	count(LATE_NS); /* the last task that is counted by itself */
	count(LATE_NS); /* opens the bin */
	count(LATE_NS); /* counts in the open bin */
	count(0);       /* closes it */
	return unused;
}

static void *look(void *unused)
{
	uint64_t first = hwt_counts_late(&counts, &runs, 0), second = hwt_counts_late(&counts, &runs, 0);

	assert(first >= COUNTS_ALIKE - 2 && first <= second && second <= COUNTS_ALIKE + 1);
	return unused;
}

int main(void)
{
	counts_begin(&counts, LATE_NS);
	for (unsigned i = 0; i < COUNTS_ALIKE - 2; i++)
		count(LATE_NS);
	weak_start(work);
	weak_start(look);
	return 0;
}
