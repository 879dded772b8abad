/* SPDX-License-Identifier: BSD-2-Clause */
/* Why due timeouts have not started: the counts of all rooms together; why.c. */
#ifndef HWTS_WHY_H
#define HWTS_WHY_H

#include "store/kind.h"

struct hwts_watching {
	struct hwts_watch of[HWT_STORE_WAITS]; /* of LEASE and DATABASE, which concern all kinds */
	int64_t last_ns;
};

/* The caller holds store->lock. */
void hwts_waits_of_kind(hwt_store *store, struct hwts_kind *kind, struct hwts_waits *waits);
void hwts_waits_lose(hwt_store *store); /* before the window drops the rows of a lost lease */

/*
 * Called by control, at any pace.  Warns of a wait that no user asked for, once it has lasted for a lease, and of its
 * end.
 */
void hwts_waits_watch(hwt_store *store, struct hwts_watching *watching);

/*
 * Called by control.  Writes the text of waits.h for the row of this process: the kinds with the oldest timeouts
 * first, as far as room and memory go.
 */
void hwts_waits_tell(hwt_store *store, char text[HWTS_WAITS_MAX + 1]);
void hwts_starts_tell(hwt_store *store, char text[HWTS_WAITS_MAX + 1]); /* the same of starts; kinds in their order */

#endif
