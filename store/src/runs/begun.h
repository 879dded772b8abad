/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows that were begun and have not started: the queue of each kind, and how many rows threads are free for; begun.c.
 */
#ifndef HWTS_BEGUN_H
#define HWTS_BEGUN_H

#include "rows/want.h"
#include "store/kind.h"

/* Numbers of all kinds that have tasks; pulled rows need no thread. */
struct hwts_runs {
	unsigned queued, running;
	size_t queued_bytes;
	unsigned doubts; /* how often the server was gone: hwts_doubt_begun */
};

/* The caller holds store->lock. */
void hwts_begun_push(hwt_store *store, struct hwts_row *row);
/* pulled: of a kind that is pulled, or of one with tasks.  NULL: no kind may have one more run. */
struct hwts_row *hwts_begun_next(hwt_store *store, unsigned *turn, bool pulled);
/* The row that next returned runs; hwts_begun_ran: it has ended. */
void hwts_begun_runs(hwt_store *store, struct hwts_kind *kind);
void hwts_begun_ran(hwt_store *store, struct hwts_kind *kind, int64_t took_ns);
/* How many rows wait; kind NULL: those of all kinds that wait for threads. */
unsigned hwts_queued(const hwt_store *store, const struct hwts_kind *kind);
int64_t hwts_begun_oldest_us(const struct hwts_kind *kind); /* HWTS_NEVER: the queue is empty */
/* Adds the rows of the queue. */
void hwts_begun_waits(hwt_store *store, const struct hwts_kind *kind, struct hwts_waits *waits);
/* How many more rows of a kind can start at once, beside `others` that are about to be queued. */
unsigned hwts_begun_free(const hwt_store *store, const struct hwts_kind *kind, size_t others);
/* One more run on a thread, as far as the kind's concurrency allows. */
bool hwts_begun_may_run(const struct hwts_kind *kind);
/* How many more rows will start soon, if the runs that are about to be queued take work_ns. */
unsigned hwts_begun_ahead(const hwt_store *store, const struct hwts_kind *kind, int64_t work_ns);
bool hwts_begun_is_full(const hwt_store *store);         /* the rows in queues have too many bytes of data */
int64_t hwts_begun_run_ns(const struct hwts_kind *kind); /* how long a run takes; 0: not known */

/* Takes the row to which link leads out of the queue. */
struct hwts_row *hwts_unqueue(hwt_store *store, struct hwts_kind *kind, struct hwts_row **link);
void hwts_give_back(hwt_store *store, struct hwts_row *row);       /* the row was not started */
void hwts_give_back_queued(hwt_store *store, bool all);            /* rows of shards that are not held, or all */
void hwts_give_back_changed(hwt_store *store, int64_t id);         /* gives back a queued row that was changed */

void hwts_begin_again(hwt_store *store, struct hwts_entry *entry); /* nobody knows whether the row was begun */
void hwts_doubt(hwt_store *store, struct hwts_row *row);           /* the row was not started: begins it again */
void hwts_doubt_begun(hwt_store *store);                           /* doubts queued rows: the server is gone */
unsigned hwts_doubts(const hwt_store *store);

/*
 * Without store->lock.  hwts_unbegin lends a row that has not started to a call.  before: what hwts_begin_before
 * answered before the call asked the database.
 *
 *   0       the row is out of the queue; hwts_unbegun brings it back: changed (cancelled, or moved to due) or not
 *   EBUSY   the row has started, or was not begun by this process
 *   EINTR   the row was begun as the call asked, and has been given back since: the call asks once more
 *   EAGAIN  a begin or a return of the row has been under way for too long
 */
uint64_t hwts_begin_before(hwt_store *store, int64_t id);
int hwts_unbegin(hwt_store *store, int64_t id, uint64_t before, struct hwts_row **row);
void hwts_unbegun(hwt_store *store, struct hwts_row *row, bool changed, const struct hwts_due *due);

#endif
