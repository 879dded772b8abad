/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What all parts of a store use: warnings, back-off, the shard of a number, the wake-up of control.
 */
#include "core/store.h"

#include <stdio.h>
#include <unistd.h>

_Thread_local struct hwts_running *hwts_running;

void hwts_warn(hwt_store *store, const char *format, ...)
{
	char text[600];
	va_list args;

	if (!store->config.warn)
		return;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	store->config.warn(store->config.warn_ctx, text);
}

/*
 * A child that was forked has neither the threads nor SQLite's locks, and shares the connections to a server with its
 * parent: whatever it did would spoil them.
 */
int hwts_check_store(const hwt_store *store)
{
	if (!store)
		return hwts_fail(EINVAL, "the store is NULL");
	return store->pid == getpid() ? 0
				      : hwts_fail(EINVAL, "the store was opened before a fork: open one in the child");
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

int64_t hwts_backoff_ns(unsigned failures)
{
	int64_t ns = HWT_MS(20) << HWTS_MIN(failures, 6); /* up to 1.9 s */

	return ns / 2 + (int64_t)(hwts_random() % (uint64_t)ns);
}

void hwts_poke(hwt_store *store)
{
	ssize_t ignored = write(store->poke[1], "", 1); /* full: it is awake */

	(void)ignored;
}

struct hwts_shard *hwts_shard(hwt_store *store, int32_t shard, struct hwts_kind **out)
{
	for (struct hwts_kind *kind = store->kinds; kind; kind = kind->next) {
		uint32_t number = (uint32_t)(shard % HWTS_SHARDS_MAX);

		if (!kind->registered || kind->row.id != shard / HWTS_SHARDS_MAX || shard < 0)
			continue;
		if (out)
			*out = kind;
		return number < kind->row.shards ? &kind->shards[number] : NULL;
	}
	return NULL;
}

void hwts_inactive(hwt_store *store, struct hwts_shard *shard)
{
	store->active--;
	if (--shard->active == 0 && shard->giving)
		hwts_poke(store);
}
