/* SPDX-License-Identifier: BSD-2-Clause */
/* The ends of runs, until the database has them; ender.c. */
#ifndef HWTS_ENDER_H
#define HWTS_ENDER_H

#include "rows/engine.h"

struct hwts_ends {
	struct hwts_row *first, **end;
	unsigned lent;    /* rows that calls have; queue.c */
	int64_t until_ns; /* once the ender halts: how long it waits for rows that others have locked */
};

/* With the lock. */
void hwts_end(hwt_store *store, struct hwts_row *row);
void hwts_finished(hwt_store *store, struct hwts_row *row); /* its end is committed; frees it */
void hwts_ends_lend(hwt_store *store, int n);               /* 1: a call has a row; -1: it is back */
void hwts_ends_until(hwt_store *store, int64_t until_ns);

#endif
