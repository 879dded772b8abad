/* SPDX-License-Identifier: BSD-2-Clause */
/* Why timeouts that are due have not started, of all rooms together; why.c. */
#ifndef HWTS_WHY_H
#define HWTS_WHY_H

#include "store/kind.h"

struct hwts_watching {
	struct hwts_watch of[HWT_STORE_WAITS]; /* of LEASE and DATABASE */
	int64_t last_ns;
};

/* With the lock. */
void hwts_waits_of_kind(hwt_store *store, struct hwts_kind *kind, struct hwts_waits *waits);
void hwts_waits_lose(hwt_store *store); /* the lease is lost, and what the window has of it goes in a moment */

/* By control, as often as it likes: warns of what nobody asked for, once it has lasted for a lease, and of its end. */
void hwts_waits_watch(hwt_store *store, struct hwts_watching *watching);

/*
 * By control: writes why what is due here waits, for the row of this process; kinds with the oldest first, as far as
 * there is room, and memory.
 */
void hwts_waits_tell(hwt_store *store, char text[HWTS_WAITS_MAX + 1]);

#endif
