/* SPDX-License-Identifier: BSD-2-Clause */
/* The reader gives groups what the window has not kept of them; refill.c. */
#ifndef HWTS_REFILL_H
#define HWTS_REFILL_H

#include "core/engine.h"

bool hwts_refill_wanted(hwt_store *store); /* with the lock */
int hwts_refill_read(hwt_store *store, struct hwts_conn *conn);

#endif
