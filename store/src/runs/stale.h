/* SPDX-License-Identifier: BSD-2-Clause */
/* Begun rows that have waited for long; stale.c. */
#ifndef HWTS_STALE_H
#define HWTS_STALE_H

#include "rows/want.h"
#include "store/kind.h"

/* The caller holds store->lock. */

/*
 * Gives back rows that have waited for a thread for too long, and those that have waited to be pulled and that the
 * database has otherwise than they were begun.  The lock is released while these are read.  wants has room for a batch.
 */
void hwts_see_to_stale(hwt_store *store, struct hwts_want *wants, unsigned *failures);
/* The first step: returns the rows that wait to be pulled and have to be read, at most `most`. */
size_t hwts_begun_stale(hwt_store *store, struct hwts_want *wants, size_t most);
/* How long until a row may have waited for too long; INT64_MAX: no row waits. */
int64_t hwts_begun_stale_ns(const hwt_store *store);

#endif
