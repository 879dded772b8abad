/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of runs that have ended, until the ender commits their ends; ends.c.  The caller holds store->lock. */
#ifndef HWTS_ENDS_H
#define HWTS_ENDS_H

#include "rows/engine.h"

struct hwts_ends {
	struct hwts_row *first, **end;
	unsigned lent;    /* rows that calls have taken out of the queue: hwts_unbegin */
	int64_t until_ns; /* once the ender halts: until when it waits for rows that other transactions have locked */
};

void hwts_end(hwt_store *store, struct hwts_row *row);      /* a run has ended: row says how */
void hwts_ends_put(hwt_store *store, struct hwts_row *row); /* queues the end once more */
struct hwts_row *hwts_ends_pop(hwt_store *store);           /* takes up to a batch; the list must not be empty */
void hwts_ends_lend(hwt_store *store, int n); /* n = 1: a call has taken a row; -1: the call is done with it */
void hwts_ends_until(hwt_store *store, int64_t until_ns);

#endif
