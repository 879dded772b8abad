/* SPDX-License-Identifier: BSD-2-Clause */
/* The rules of groups, as the holder of a shard has them; ruling.c. */
#ifndef HWTS_RULING_H
#define HWTS_RULING_H

#include "core/engine.h"

/* With the lock: those of a shard are to be read again. */
void hwts_rules_changed(hwt_store *store, int32_t shard);
bool hwts_rules_wanted(hwt_store *store);

/* By the reader: reads those of a kind's shards that are to be read. */
int hwts_rules_read(hwt_store *store, struct hwts_conn *conn);

#endif
