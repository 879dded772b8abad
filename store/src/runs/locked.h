/* SPDX-License-Identifier: BSD-2-Clause */
/* A row that is due and stays locked; locked.c. */
#ifndef HWTS_LOCKED_H
#define HWTS_LOCKED_H

#include "rows/engine.h"

struct hwts_locked {
	int64_t id, since_ns; /* 0: there is none */
	int64_t tried;        /* the last one for which a connection was to be ended */
};

/* What became of the rows of a begin; by the beginner. */
void hwts_unblock(hwt_store *store, const struct hwts_want *wants, size_t n, struct hwts_locked *locked);

#endif
