/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What all parts of a store use: warnings, the check of a store, back-off.
 */
#include "core/store.h"

#include <stdio.h>
#include <unistd.h>

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

int64_t hwts_backoff_ns(unsigned failures)
{
	int64_t ns = HWT_MS(20) << HWTS_MIN(failures, 6); /* up to 1.9 s */

	return ns / 2 + (int64_t)(hwts_random() % (uint64_t)ns);
}
