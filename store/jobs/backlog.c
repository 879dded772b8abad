/* SPDX-License-Identifier: BSD-2-Clause */
/* How much of a kind is due and has not started, and how much runs: of the rows that are due first. */
#include "jobs.h"

#include <errno.h>

#define LOOKS 300 /* rows of a kind */

struct looking {
	struct backlog *backlog;
	int64_t now_us;
	unsigned seen;
};

/* The list is in order of time, so nothing behind a row of the future is due. */
static bool look_at(void *ctx, const hwt_store_info *info)
{
	struct looking *looking = ctx;

	if (info->state == HWT_STORE_RUNNING)
		looking->backlog->running++;
	else if (info->due_us > looking->now_us)
		return false;
	else
		looking->backlog->due++;
	looking->backlog->more = ++looking->seen == LOOKS;
	return !looking->backlog->more;
}

int read_backlog(hwt_store *store, const char *kind, int64_t now_us, struct backlog *backlog)
{
	struct looking looking = { .backlog = backlog, .now_us = now_us };
	hwt_store_which which = HWT_STORE_WHICH_INIT;
	int rc;

	*backlog = (struct backlog){ .due = 0 };
	which.kind = kind;
	which.all = which.any_group = true;
	which.states = PENDING | RUNNING;
	rc = hwt_store_each_ex(store, &which, look_at, &looking);
	return rc == ENOENT ? 0 : rc;
}
