/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much of a kind is due and has not started, and how much runs: of the rows that are due first.  And why what is
 * due waits, as the processes of the kind say, and what helps.
 */
#include "jobs.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define LOOKS 100 /* rows of a kind: a page of hwt_store_each, so mostly one read of the database */

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

/*
 * Reasons
 */

#define MORE "more processes, more threads or shorter tasks help"

static const struct {
	const char *word, *says, *helps;
} reasons[HWT_STORE_WAITS] = {
	[HWT_STORE_STARTS] = { "starts", "is about to start", "" },
	[HWT_STORE_WAITS_THREAD] = { "thread", "all threads are busy", MORE },
	[HWT_STORE_WAITS_CAP] = { "cap", "as many of the group run as may", "hwt-jobs limit changes that" },
	[HWT_STORE_WAITS_RATE] = { "rate", "the group may not start more yet", "hwt-jobs limit changes that" },
	[HWT_STORE_WAITS_TURN] = { "turn", "other groups go first", MORE },
	[HWT_STORE_WAITS_PAUSE] = { "pause", "paused", "hwt-jobs resume goes on" },
	[HWT_STORE_WAITS_ELSEWHERE] = { "elsewhere", "runs of a dead process still count",
					"look for what locks the rows of these runs" },
	[HWT_STORE_WAITS_RULES] = { "rules", "new rules are being read",
				    "look for what locks the tables of groups and shards" },
	[HWT_STORE_WAITS_READ] = { "read", "not read yet",
				   "look for locks and old transactions in the database; a backlog takes its time" },
	[HWT_STORE_WAITS_ZONE] = { "zone", "the time zone cannot be read", "install tzdata where its process runs" },
	[HWT_STORE_WAITS_ROW] = { "row", "rows are locked, damaged or refused",
				  "look for what locks them; the warnings of the process say more" },
	[HWT_STORE_WAITS_LEASE] = { "lease", "a process is silent, or gives its shards away",
				    "look whether its processes and their machines run, and at their warnings" },
	[HWT_STORE_WAITS_DATABASE] = { "database", "a process has no connection that can write",
				       "its warnings say why: rights, a full disk; on PostgreSQL also a standby,"
				       " default_transaction_read_only" },
	[HWT_STORE_WAITS_NOBODY] = { "nobody", "no process runs it",
				     "start one; if one should run, its warnings, or hwt-jobs by its URL, say why" },
};

void json_waiting(const struct jobs *jobs, bool *first, const hwt_store_kind_info *info)
{
	bool none = true;

	json_member(jobs->out, first, "waiting");
	fputc('{', jobs->out);
	for (int i = 0; i < HWT_STORE_WAITS; i++)
		if (info->waiting[i] > 0) {
			json_member(jobs->out, &none, reasons[i].word);
			fprintf(jobs->out, "{\"count\": %" PRIu64 ", \"oldest_ns\": %" PRId64 "}", info->waiting[i],
				info->waiting_oldest_ns[i]);
		}
	fputc('}', jobs->out);
	json_member(jobs->out, first, "waiting_age_ns");
	fprintf(jobs->out, "%" PRId64, info->waiting_age_ns);
}

void print_waiting(const hwt_store_kind_info *info)
{
	char oldest[32], age[32];

	write_duration(info->waiting_age_ns, age, sizeof(age));
	for (int i = HWT_STORE_STARTS + 1; i < HWT_STORE_WAITS; i++)
		if (info->waiting[i] > 0) {
			bool told = i != HWT_STORE_WAITS_LEASE && i != HWT_STORE_WAITS_NOBODY;

			write_duration(info->waiting_oldest_ns[i], oldest, sizeof(oldest));
			fputs("  ", stdout);
			print_cut(info->kind, 0);
			printf(": %" PRIu64 " wait, the oldest for %s: %s%s%s%s -> %s\n", info->waiting[i], oldest,
			       reasons[i].says, told ? " (unchanged for " : "", told ? age : "", told ? ")" : "",
			       reasons[i].helps);
		}
}

static bool say_why(void *ctx, const hwt_store_kind_info *info)
{
	const struct names *names = ctx;

	for (size_t i = 0; i < names->n; i++)
		if (strcmp(info->kind, names->names[i]) == 0)
			print_waiting(info);
	return true;
}

void print_why(const struct jobs *jobs, struct names *names)
{
	(void)hwt_store_each_kind(jobs->store, say_why, names);
}
