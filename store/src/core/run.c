/* SPDX-License-Identifier: BSD-2-Clause */
/* A run, and which one this thread is in. */
#include "core/run.h"
#include "core/kind.h"
#include "core/store.h"

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
			 .due_us = hwts_is_series(row) ? row->base_us : row->due_us,
			 .attempt = row->attempt,
			 .missed = row->missed,
			 .connection = handle },
	};
}

bool hwts_in_task_of(const hwt_store *store)
{
	return hwts_running && hwts_running->store == store;
}

bool hwts_holds_lock(const hwt_store *store)
{
	const char *file = store->db->file;

	/* Two stores on one file are two in one process with the same lock. */
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
