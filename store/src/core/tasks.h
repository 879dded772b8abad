/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows that were begun: the queue of each kind, and the threads that run them; tasks.c, unbegin.c. */
#ifndef HWTS_TASKS_H
#define HWTS_TASKS_H

#include "core/kind.h"

#define HWTS_BATCH_BYTES ((size_t)4 << 20)
#define HWTS_QUEUE_BYTES ((size_t)16 << 20)

struct hwts_runs {
	unsigned queued, running; /* of all kinds */
	size_t queued_bytes;
	unsigned doubts; /* how often the server was gone: hwts_doubt_begun */
};

void *hwts_task_thread(void *store);
/* With the lock. */
unsigned hwts_runs_queued(const hwt_store *store);
void hwts_give_back(hwt_store *store, struct hwts_row *row); /* it was not started */
void hwts_doubt_begun(hwt_store *store);                     /* the server is gone */
void hwts_queue(hwt_store *store, struct hwts_row *row);
struct hwts_row *hwts_unqueue(hwt_store *store, struct hwts_kind *kind, struct hwts_row **link);
void hwts_give_back_queued(hwt_store *store, bool all); /* those of shards that are not held, or all */
void hwts_begin_again(struct hwts_entry *entry);
void hwts_doubt(hwt_store *store, struct hwts_row *row); /* it was not started; frees it */
/* A run that nobody can account for. */
bool hwts_fail_lost(hwt_store *store, const struct hwts_entry *entry, int64_t epoch, const char *error);

/* In unbegin.c. */
void hwts_give_back_stale(hwt_store *store, int64_t age_ns); /* with the lock; those that have waited for so long */
/*
 * Without the lock: takes a row that has not started out of the queue, after a moment if that is not known yet.  NULL:
 * there is none; *waited: it may have changed meanwhile.  Then unbegun: it is gone, or moved to due; or neither.
 */
struct hwts_row *hwts_unbegin(hwt_store *store, int64_t id, bool *waited);
void hwts_unbegun(hwt_store *store, struct hwts_row *row, bool changed, const struct hwts_due *due);

#endif
