/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A run: which run this thread is in, and how the run ends by the answer of its task.
 *
 * Answers other than a number are kept in the run.  So an answer that a task gives for another run, or does not return,
 * ends nothing.
 */
#include "store/kind.h"
#include "store/run.h"
#include "store/store.h"

_Thread_local struct hwts_running *hwts_running;

void hwts_running_init(struct hwts_running *running, hwt_store *store, struct hwts_row *row, void *handle)
{
	*running = (struct hwts_running){
		.store = store,
		.row = row,
		.run = { .id = row->id,
			 .kind = row->kind->name,
			 .key = row->key,
			 .group = row->group,
			 .data = row->data,
			 .len = row->len,
			 .due_us = row->base_us,
			 .attempt = row->attempt,
			 .missed = row->missed,
			 .connection = handle },
	};
}

bool hwts_in_task_of(const hwt_store *store)
{
	return hwts_running && hwts_running->store == store;
}

bool hwts_in_ended(void)
{
	return hwts_running && hwts_running->has_ended;
}

bool hwts_holds_lock(const hwt_store *store)
{
	const char *file = store->db->file;

	/* Two stores on one file, in one process, use the same lock. */
	return hwts_running && hwts_running->run.connection && file && hwts_running->store->db->file &&
	       strcmp(hwts_running->store->db->file, file) == 0;
}

int hwts_check_call(const hwt_store *store, const char *instead)
{
	int rc = hwts_check_store(store);

	if (rc == 0 && hwts_holds_lock(store))
		rc = hwts_fail(EDEADLK, "the transaction of this task has SQLite's lock: %s", instead);
	return rc;
}

/*
 * What a task calls
 */

static int answer(const hwt_store_run *run, enum hwts_answer answer, int64_t delay_ns, const char *why)
{
	struct hwts_running *running = (struct hwts_running *)(uintptr_t)run; /* run is the first member */

	if (!run)
		return EINVAL;
	running->answer = answer;
	running->again_us = hwts_up_to_us(HWTS_MAX(delay_ns, 0));
	hwts_cut(running->why, sizeof(running->why), why, strlen(why));
	if (!hwts_is_utf8(running->why, strlen(running->why)))
		(void)hwts_to_ascii(running->why);
	return HWT_STORE_ANSWER;
}

int hwt_store_again(const hwt_store_run *run, int64_t delay_ns)
{
	return answer(run, HWTS_AGAIN, delay_ns, "");
}

int hwt_store_fail(const hwt_store_run *run, const char *why)
{
	return answer(run, HWTS_FAILED, 0, why && why[0] ? why : "failed");
}

int hwt_store_give_up(const hwt_store_run *run, const char *why)
{
	return answer(run, HWTS_GIVE_UP, 0, why && why[0] ? why : "given up");
}

int hwt_store_end_series(const hwt_store_run *run)
{
	return answer(run, HWTS_END_SERIES, 0, "");
}

/*
 * What becomes of the row
 */

int64_t hwts_back_off_us(const struct hwts_kind *kind, unsigned attempt)
{
	int64_t delay_us = kind->backoff_us;

	for (unsigned i = 1; i < attempt && delay_us < kind->backoff_max_us; i++)
		delay_us *= 2;
	/* Jitter: later than asked for, at the upper limit earlier. */
	if (delay_us >= kind->backoff_max_us)
		return kind->backoff_max_us - (int64_t)(hwts_random() % (uint64_t)(kind->backoff_max_us / 8 + 1));
	return delay_us + (int64_t)(hwts_random() % (uint64_t)(delay_us / 4 + 1));
}

/* Pending again under the same base, after this delay. */
static void come_back(struct hwts_row *row, int64_t delay_us, bool again, bool counts)
{
	row->how = HWTS_AFTER;
	row->serves = false; /* also when a successful end could not be committed */
	row->again = again;
	row->when_us = delay_us;
	row->limit_us = hwts_is_series(row) ? row->grid_due_us : HWTS_NEVER;
	row->next_base_us = row->base_us;
	row->next_attempt = counts ? row->attempt : row->attempt - 1;
}

void hwts_fail_run(struct hwts_row *row, const char *error, bool counts)
{
	hwts_cut(row->error, sizeof(row->error), error, strlen(error));
	come_back(row, hwts_back_off_us(row->kind, row->attempt), false, counts);
	if (counts && row->attempt >= row->kind->max_attempts)
		row->how = HWTS_FAIL;
}

static void succeed(struct hwts_row *row)
{
	row->how = hwts_is_series(row) ? HWTS_AT : HWTS_DONE;
	row->serves = true;
	row->when_us = row->grid_due_us;
	row->next_base_us = row->grid_us;
	row->next_attempt = 0;
}

static void give_up(struct hwts_row *row, const char *why)
{
	hwts_cut(row->error, sizeof(row->error), why, strlen(why));
	row->how = HWTS_FAIL;
}

void hwts_answered(struct hwts_running *running, int rc)
{
	struct hwts_row *row = running->row;
	char text[128];

	row->answer = rc;
	if (rc == 0)
		succeed(row);
	else if (rc == HWT_STORE_ANSWER && running->answer == HWTS_AGAIN)
		come_back(row, running->again_us, true, false); /* filed as after a failure, but not counted as one */
	else if (rc == HWT_STORE_ANSWER && running->answer == HWTS_END_SERIES)
		row->how = HWTS_DONE;
	else if (rc == HWT_STORE_ANSWER && running->answer == HWTS_FAILED)
		hwts_fail_run(row, running->why, true);
	else if (rc == HWT_STORE_ANSWER && running->answer == HWTS_GIVE_UP)
		give_up(row, running->why);
	else
		hwts_fail_run(row, hwts_error_text(rc > 0 ? rc : EINVAL, text, sizeof(text)), true);
}
