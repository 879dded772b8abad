/* SPDX-License-Identifier: BSD-2-Clause */
/* The threads that run tasks; tasks.c. */
#ifndef HWTS_TASKS_H
#define HWTS_TASKS_H

#include "core/engine.h"

void *hwts_task_thread(void *store);

/* With the lock, of a row that was taken from the queue. */
bool hwts_may_start(hwt_store *store, struct hwts_row *row);         /* false: it has been given back */
int64_t hwts_start_us(hwt_store *store, const struct hwts_row *row); /* the time of its start, for its series */
void hwts_note_start(hwt_store *store, struct hwts_row *row);

#endif
