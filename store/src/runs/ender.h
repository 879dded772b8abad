/* SPDX-License-Identifier: BSD-2-Clause */
/* After the commit of an end; ender.c. */
#ifndef HWTS_ENDER_H
#define HWTS_ENDER_H

#include "rows/engine.h"

/*
 * The caller holds store->lock.  The end of this row is in the database, or another process has the row.  The caller
 * tells the program of it (ended.h), and frees the row.
 */
void hwts_finished(hwt_store *store, struct hwts_row *row);

#endif
