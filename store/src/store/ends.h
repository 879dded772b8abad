/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of runs that have ended, until the ender has the database commit them; ends.c.  With the store's lock. */
#ifndef HWTS_ENDS_H
#define HWTS_ENDS_H

#include "rows/engine.h"

struct hwts_ends {
	struct hwts_row *first, **end;
	unsigned lent;    /* rows that calls of hwt_store_next have */
	int64_t until_ns; /* once the ender halts: until when it waits for rows that others have locked */
};

void hwts_end(hwt_store *store, struct hwts_row *row);      /* a run has ended, as row says */
void hwts_ends_put(hwt_store *store, struct hwts_row *row); /* its commit is tried once more */
struct hwts_row *hwts_ends_pop(hwt_store *store);          /* up to a batch; the list is not empty */
void hwts_ends_lend(hwt_store *store, int n);               /* 1: a call has a row; -1: it is back */
void hwts_ends_until(hwt_store *store, int64_t until_ns);

#endif
