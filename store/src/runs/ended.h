/* SPDX-License-Identifier: BSD-2-Clause */
/* Tells the program of the ends that this process has written: hwt_store_config.ended; ended.c. */
#ifndef HWTS_ENDED_H
#define HWTS_ENDED_H

#include "rows/engine.h"

/* Whether the program is to be told of the end of this row, which is over. */
bool hwts_is_told(const hwt_store *store, const struct hwts_row *row);

/* Without the lock, outside of any transaction. */
void hwts_tell_ended(hwt_store *store, struct hwts_row *row);

/* A run that a take-over has made FAILED, of which no more is known than its id. */
void hwts_tell_died(hwt_store *store, struct hwts_kind *kind, int64_t id);

#endif
