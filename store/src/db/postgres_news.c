/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * News between processes on a PostgreSQL server: notifications on a channel for each shard.
 *
 * Each role that may connect to a database may listen and notify in it.  So the name of each channel contains a part of
 * the store's random text: a role that may not read @_meta can neither hear news, with its ids and groups, nor send
 * any.
 */
#include "db/postgres.h"

#include <stdio.h>
#include <stdlib.h>

int hwts_pg_listen(struct hwts_conn *base, const struct hwts_shard_row *shards, size_t n, bool on)
{
	const char *channel = base->db->channel;
	char *text = hwts_alloc((n + 1) * (sizeof(base->db->channel) + 24)), *at = text;
	int rc;

	if (!text)
		return ENOMEM;
	if (on)
		at += sprintf(at, "listen %smembers;", channel);
	for (size_t i = 0; i < n; i++)
		at += sprintf(at, "%s %s%d;", on ? "listen" : "unlisten", channel, (int)shards[i].shard);
	rc = at == text ? 0 : hwts_pg_simple(pg_conn(base), text);
	free(text);
	return rc;
}

int hwts_pg_news_fd(struct hwts_conn *base)
{
	return PQsocket(pg_conn(base)->handle);
}

/*
 * Reads a number and the character that must follow it, if any.  A number beyond the range becomes the end of the
 * range.
 */
static bool read_number(const char **news, char behind, int64_t *number)
{
	char *end;

	*number = strtoll(*news, &end, 10);
	if (end == *news || (behind && *end != behind))
		return false;
	*news = behind ? end + 1 : end;
	return true;
}

static int digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Reads ":priority:group" if it follows; the group has two hex digits for each byte. */
static void read_group(const char **news, struct hwts_due *due)
{
	const char *at = *news + 1;
	char group[HWTS_KEY_MAX];
	int64_t priority;
	size_t len = 0;

	if (**news != ':' || !read_number(&at, ':', &priority))
		return;
	for (; len < sizeof(group) && digit(at[0]) >= 0 && digit(at[1]) >= 0; at += 2)
		group[len++] = (char)(digit(at[0]) << 4 | digit(at[1]));
	hwts_due_set(due, group, len, priority);
	*news = at;
}

/* Reads "id:due:len,...". */
static void hear_rows(const char *news, int32_t shard, hwts_hear *hear, void *ctx)
{
	int64_t id, due_us, len;

	while (read_number(&news, ':', &id) && read_number(&news, ':', &due_us) && read_number(&news, '\0', &len)) {
		struct hwts_due due = { .id = id, .due_us = due_us, .shard = shard };

		due.len = (uint32_t)HWTS_MAX(HWTS_MIN(len, (int64_t)HWT_STORE_DATA_MAX), 0);
		read_group(&news, &due);
		if (id > 0)
			hear(ctx, &due);
		if (*news != ',')
			break;
		news++;
	}
}

int hwts_pg_news(struct hwts_conn *base, bool signalled, hwts_hear *hear, void *ctx, int64_t *again_ns)
{
	struct pg_conn *conn = pg_conn(base);
	size_t prefix = strlen(base->db->channel);
	PGnotify *notify;

	*again_ns = 0;
	if (signalled && !PQconsumeInput(conn->handle)) {
		base->broken = true;
		return hwts_fail(ENOTCONN, "postgresql: the connection broke: %s", PQerrorMessage(conn->handle));
	}
	while ((notify = PQnotifies(conn->handle)) != NULL) {
		const char *channel = notify->relname + prefix;

		if (HWTS_TEST(deaf) || strlen(notify->relname) <= prefix)
			;
		else if (strcmp(channel, "members") == 0)
			hear(ctx, &(struct hwts_due){ .id = 0 });
		else if (notify->extra[0] == 'l')
			hear(ctx,
			     &(struct hwts_due){ .id = HWTS_RULES_ID, .shard = (int32_t)strtol(channel, NULL, 10) });
		else if (notify->extra[0] == 'r')
			hear(ctx, &(struct hwts_due){ .id = -1 });
		else
			hear_rows(notify->extra, (int32_t)strtol(channel, NULL, 10), hear, ctx);
		PQfreemem(notify);
	}
	if (PQstatus(conn->handle) != CONNECTION_OK) {
		base->broken = true;
		return hwts_fail(ENOTCONN, "postgresql: the connection broke");
	}
	return 0;
}
