/* SPDX-License-Identifier: BSD-2-Clause */
/* Begun rows that have waited for long; stale.c. */
#ifndef HWTS_STALE_H
#define HWTS_STALE_H

#include "rows/want.h"
#include "store/kind.h"

/* Reads rows that wait to be pulled, by halves: a row that cannot be read stays as it is, and holds up no other. */
int hwts_stale_read(hwt_store *store, struct hwts_want *wants, size_t n);

/*
 * The caller holds store->lock.
 *
 * Rows that have waited for too long.  hwts_begun_stale gives back those that wait for a thread, and returns those that
 * wait to be pulled, at most `most`: they have to be read.  hwts_begun_read: of these, each that is `locked` runs as it
 * was begun; the others are given back.  sent_ns: hwts_boot_ns() before the reading.
 */
size_t hwts_begun_stale(hwt_store *store, struct hwts_want *wants, size_t most);
void hwts_begun_read(hwt_store *store, const struct hwts_want *wants, size_t n, int64_t sent_ns);
int64_t hwts_begun_stale_ns(const hwt_store *store); /* how long until a row may have; INT64_MAX: no row waits */

#endif
