/* SPDX-License-Identifier: BSD-2-Clause */
/* What follows when the end of a run is committed; ender.c. */
#ifndef HWTS_ENDER_H
#define HWTS_ENDER_H

#include "rows/engine.h"

/*
 * With the lock: the end of this row is in the database, or another process has the row.  The caller frees it, after it
 * has told the program: ended.h.
 */
void hwts_finished(hwt_store *store, struct hwts_row *row);

#endif
