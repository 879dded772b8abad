/* SPDX-License-Identifier: BSD-2-Clause */
/* Which run this thread is in. */
#include "core/run.h"
#include "core/store.h"

_Thread_local struct hwts_running *hwts_running;

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
