/* SPDX-License-Identifier: BSD-2-Clause */
/* A run of a task, what it answers, and what becomes of its row. */
#ifndef HWTS_RUN_H
#define HWTS_RUN_H

#include "rows/engine.h"

/* A row that runs, on the stack of its thread, or pulled. */
struct hwts_running {
	hwt_store_run run;
	hwt_store *store;
	struct hwts_row *row;

	/* What it says if its task returns HWT_STORE_ANSWER; the last call counts. */
	enum hwts_answer { HWTS_NO_ANSWER, HWTS_AGAIN, HWTS_FAILED, HWTS_GIVE_UP, HWTS_END_SERIES } answer;
	int64_t again_us; /* the delay */
	bool has_ended;   /* this thread tells of its end */
	char why[HWTS_ERROR_MAX + 1];
};

extern _Thread_local struct hwts_running *hwts_running; /* the innermost run of this thread */

/* In run.c. */
void hwts_running_init(struct hwts_running *running, hwt_store *store, struct hwts_row *row, void *handle);
bool hwts_in_task_of(const hwt_store *store);
bool hwts_in_ended(void);                     /* this thread tells of an end, and others wait for it */
bool hwts_holds_lock(const hwt_store *store); /* this thread is in a transaction that would block the call */
/* Of a call that writes: EINVAL, or EDEADLK and what to do instead. */
int hwts_check_call(const hwt_store *store, const char *instead);
#define HWTS_LATER "do it after the task"
int64_t hwts_back_off_us(const struct hwts_kind *kind, unsigned attempt); /* behind that attempt */
void hwts_fail_run(struct hwts_row *row, const char *error, bool counts);
void hwts_answered(struct hwts_running *running, int rc); /* what the task has returned */

/* In workers.c.  With the lock, of a row that was taken from the queue. */
bool hwts_may_start(hwt_store *store, struct hwts_row *row);         /* false: it has been given back */
int64_t hwts_start_us(hwt_store *store, const struct hwts_row *row); /* the time of its start, for its series */
void hwts_note_start(hwt_store *store, struct hwts_row *row);

/* In series.c. */
static inline bool hwts_is_series(const struct hwts_row *row)
{
	return row->period_us > 0 || row->schedule;
}
/* Before a run: where it is on its grid.  False: it is not to start, and how it ends is set. */
bool hwts_series_may_start(struct hwts_row *row, int64_t now_us);
/* A put: its first time. */
int hwts_series_begin(struct hwts_put *put, int64_t now_us);

#endif
