/* SPDX-License-Identifier: BSD-2-Clause */
/* A row that is due and stays locked; locked.c. */
#ifndef HWTS_LOCKED_H
#define HWTS_LOCKED_H

#include "rows/want.h"

struct hwts_locked {
	int64_t id, since_ns; /* id 0: no row is watched */
	int64_t tried;        /* the last row for which a connection was to be ended */
};

/* Called by the beginner with the rows of a begin, and what became of them. */
void hwts_unblock(hwt_store *store, const struct hwts_want *wants, size_t n, struct hwts_locked *locked);

#endif
