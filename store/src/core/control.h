/* SPDX-License-Identifier: BSD-2-Clause */
/* Control: the lease, the shards, the news; control.c. */
#ifndef HWTS_CONTROL_H
#define HWTS_CONTROL_H

#include "core/engine.h"

void *hwts_control(void *store);
void hwts_hear_news(void *store, const struct hwts_due *due);

#endif
