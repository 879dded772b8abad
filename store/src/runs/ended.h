/* SPDX-License-Identifier: BSD-2-Clause */
/* Tells the program of ends that this process has written: hwt_store_config.ended; ended.c. */
#ifndef HWTS_ENDED_H
#define HWTS_ENDED_H

#include "rows/engine.h"

/* Whether the program has to be told of the end of this row. */
bool hwts_is_told(const hwt_store *store, const struct hwts_row *row);

/* Without store->lock, and outside of any transaction. */
void hwts_tell_ended(hwt_store *store, struct hwts_row *row);

/* A take-over has made this run FAILED.  Only its id is known. */
void hwts_tell_died(hwt_store *store, struct hwts_kind *kind, int64_t id);

#endif
