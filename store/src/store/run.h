/* SPDX-License-Identifier: BSD-2-Clause */
/* A run of a task, its answer, and the end of its row. */
#ifndef HWTS_RUN_H
#define HWTS_RUN_H

#include "rows/engine.h"

/* A row that runs: on the stack of a task thread, or pulled. */
struct hwts_running {
	hwt_store_run run;
	hwt_store *store;
	struct hwts_row *row;

	/* The answer if the task returns HWT_STORE_ANSWER; the last call counts. */
	enum hwts_answer { HWTS_NO_ANSWER, HWTS_AGAIN, HWTS_FAILED, HWTS_GIVE_UP, HWTS_END_SERIES } answer;
	int64_t again_us; /* the delay of HWTS_AGAIN */
	bool has_ended;   /* this thread is in a call of ended for the run */
	char why[HWTS_ERROR_MAX + 1];
};

extern _Thread_local struct hwts_running *hwts_running; /* the innermost run of this thread */

/* run.c */
void hwts_running_init(struct hwts_running *running, hwt_store *store, struct hwts_row *row, void *handle);
bool hwts_in_task_of(const hwt_store *store);
bool hwts_in_ended(void);                     /* this thread is in a call of ended, and the next ends wait for it */
bool hwts_holds_lock(const hwt_store *store); /* true: this thread is in a transaction that would block the call */
/* Checks a call that writes.  EDEADLK: the text says what to do instead. */
int hwts_check_call(const hwt_store *store, const char *instead);
#define HWTS_LATER "do it after the task"
int64_t hwts_back_off_us(const struct hwts_kind *kind, unsigned attempt); /* the delay after that attempt */
void hwts_fail_run(struct hwts_row *row, const char *error, bool counts);
void hwts_answered(struct hwts_running *running, int rc); /* sets how the row ends, by what the task returned */

/* workers.c.  The caller holds store->lock; the row was taken from the queue. */
bool hwts_may_start(hwt_store *store, struct hwts_row *row); /* false: the row has been given back */
/* The time of the start, for the grid of the series. */
int64_t hwts_start_us(hwt_store *store, const struct hwts_row *row);
void hwts_note_start(hwt_store *store, struct hwts_row *row);

/* series.c */
static inline bool hwts_is_series(const struct hwts_row *row)
{
	return row->period_us > 0 || row->schedule;
}
/* Before a run: finds its place on the grid.  False: the run must not start, and row says how it ends. */
bool hwts_series_may_start(struct hwts_row *row, int64_t now_us);
/* Finds the first time of a put. */
int hwts_series_begin(struct hwts_put *put, int64_t now_us);

#endif
