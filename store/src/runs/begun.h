/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows that were begun and have not started: the queue of each kind, and what threads are free for; begun.c.
 */
#ifndef HWTS_BEGUN_H
#define HWTS_BEGUN_H

#include "store/kind.h"

/* Of all kinds that have tasks: pulled ones need no thread. */
struct hwts_runs {
	unsigned queued, running;
	size_t queued_bytes;
	unsigned doubts; /* how often the server was gone: hwts_doubt_begun */
};

/* With the lock. */
void hwts_begun_push(hwt_store *store, struct hwts_row *row);
/* Of a kind that is pulled, or not.  NULL: none may have one more run. */
struct hwts_row *hwts_begun_next(hwt_store *store, unsigned *turn, bool pulled);
void hwts_begun_runs(hwt_store *store, struct hwts_kind *kind); /* one that was taken; then ran */
void hwts_begun_ran(hwt_store *store, struct hwts_kind *kind, int64_t took_ns);
unsigned hwts_queued(const hwt_store *store, const struct hwts_kind *kind); /* NULL: of all, for threads */
int64_t hwts_begun_oldest_us(const struct hwts_kind *kind);                 /* HWTS_NEVER: it is empty */
void hwts_begun_waits(hwt_store *store, const struct hwts_kind *kind, struct hwts_waits *waits); /* its queue */
/* How many more rows of a kind can start at once, beside others that are about to be queued. */
unsigned hwts_begun_free(const hwt_store *store, const struct hwts_kind *kind, size_t others);
bool hwts_begun_may_run(const struct hwts_kind *kind); /* one more on a thread, as far as its concurrency goes */
/* How many more will start soon; those others take work_ns. */
unsigned hwts_begun_ahead(const hwt_store *store, const struct hwts_kind *kind, int64_t work_ns);
bool hwts_begun_is_full(const hwt_store *store);         /* of data */
int64_t hwts_begun_run_ns(const struct hwts_kind *kind); /* how long a run takes; 0: nobody knows */

void hwts_give_back(hwt_store *store, struct hwts_row *row);       /* it was not started */
void hwts_give_back_queued(hwt_store *store, bool all);            /* those of shards that are not held, or all */
void hwts_give_back_stale(hwt_store *store, int64_t age_ns);       /* those that have waited for so long */
void hwts_give_back_changed(hwt_store *store, int64_t id);         /* its row says what becomes of it */
void hwts_begin_again(hwt_store *store, struct hwts_entry *entry); /* nobody knows whether it is begun */
void hwts_doubt(hwt_store *store, struct hwts_row *row);           /* it was not started; frees it */
void hwts_doubt_begun(hwt_store *store);                           /* the server is gone */
unsigned hwts_doubts(const hwt_store *store);

/*
 * Without the lock: takes a row that has not started out of the queue.  EBUSY: it has started, or is not begun here.
 * EINTR: it was begun when the database was asked, which is to be asked once more, and is given back by now.  EAGAIN:
 * what becomes of it is not known for too long.  before: what hwts_begin_before said then.  Then unbegun: it is gone,
 * or moved to due; or neither.
 */
uint64_t hwts_begin_before(hwt_store *store, int64_t id);
int hwts_unbegin(hwt_store *store, int64_t id, uint64_t before, struct hwts_row **row);
void hwts_unbegun(hwt_store *store, struct hwts_row *row, bool changed, const struct hwts_due *due);

#endif
