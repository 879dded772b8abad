/* SPDX-License-Identifier: BSD-2-Clause */
/* Why timeouts that are due have not started, of all rooms together; why.c. */
#ifndef HWTS_WHY_H
#define HWTS_WHY_H

#include "base/waits.h"

struct hwts_kind;

/* With the lock. */
void hwts_waits_of_kind(hwt_store *store, const struct hwts_kind *kind, struct hwts_waits *waits);

#endif
