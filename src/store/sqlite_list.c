/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading timeouts in SQLite.
 */
#include "sqlite.h"

#include <stdlib.h>

static void cut_column(char *field, size_t size, sqlite3_stmt *statement, int at)
{
	const char *text = (const char *)sqlite3_column_text(statement, at);

	hwts_cut(field, size, text ? text : "", text ? (size_t)sqlite3_column_bytes(statement, at) : 0);
}

int hwts_sqlite_get(struct hwts_conn *base, int64_t id, hwt_store_info *info)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	int failed = 0;
	bool row = false;
	sqlite3_stmt *statement = hwts_sqlite_statement(
	    conn,
	    "select t.state, t.attempt, t.due_us, t.period_us, k.name, t.key, s.owner, t.error from @_timeout t"
	    " join @_kind k on k.id = t.kind"
	    " left join @_shard s on s.id = iif(t.shard < 0, -1 - t.shard, t.shard) where t.id = ?",
	    &failed);

	if (!statement)
		return failed;
	hwts_count_trip(base->db);
	sqlite3_bind_int64(statement, 1, id);
	failed = hwts_sqlite_step(conn, statement, &row);
	if (failed != 0 || !row)
		return failed ? failed : hwts_fail(ENOENT, "there is no timeout %lld", (long long)id);
	info->id = id;
	info->state = (hwt_store_state)sqlite3_column_int(statement, 0);
	info->attempt = (unsigned)sqlite3_column_int(statement, 1);
	info->due_us = sqlite3_column_int64(statement, 2);
	info->period_ns = sqlite3_column_int64(statement, 3) * 1000;
	cut_column(info->kind, sizeof(info->kind), statement, 4);
	cut_column(info->key, sizeof(info->key), statement, 5);
	cut_column(info->owner, sizeof(info->owner), statement, 6);
	cut_column(info->error, sizeof(info->error), statement, 7);
	sqlite3_reset(statement);
	return 0;
}

int hwts_sqlite_find(struct hwts_conn *base, int32_t kind, const char *key, int64_t *id)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	int failed = 0;
	bool row = false;
	sqlite3_stmt *statement = hwts_sqlite_statement(conn, "select id from @_timeout where kind = ? and key = ?",
							&failed);

	if (!statement)
		return failed;
	hwts_count_trip(base->db);
	sqlite3_bind_int64(statement, 1, kind);
	hwts_sqlite_text(statement, 2, key);
	failed = hwts_sqlite_step(conn, statement, &row);
	if (failed == 0 && row)
		*id = sqlite3_column_int64(statement, 0);
	sqlite3_reset(statement);
	return failed ? failed : row ? 0 : hwts_fail(ENOENT, "there is no timeout with the key \"%s\"", key);
}

/*
 * Pages: the next n of each shard, then the first n of them all.
 */

struct place {
	int64_t due_us, id;
};

static int by_place(const void *left, const void *right)
{
	const struct place *a = left, *b = right;

	if (a->due_us != b->due_us)
		return a->due_us < b->due_us ? -1 : 1;
	return (a->id > b->id) - (a->id < b->id);
}

static int places_of(struct sqlite_conn *conn, int64_t shard, unsigned states, struct place after, size_t n,
		     struct place *places, size_t *count)
{
	int failed = 0;
	/* What runs was due: so those that run are found without looking at all that are pending. */
	int64_t before_us = states & 1u << HWT_STORE_PENDING || shard < 0 ? HWTS_NEVER : hwts_wall_us() + HWTS_S_US;
	sqlite3_stmt *statement = hwts_sqlite_statement(
	    conn,
	    "select due_us, id from @_timeout where shard = ?1 and (due_us, id) > (?2, ?3) and due_us < ?6"
	    " and (1 << state) & ?4 order by due_us, id limit ?5",
	    &failed);

	if (!statement)
		return failed;
	sqlite3_bind_int64(statement, 1, shard);
	sqlite3_bind_int64(statement, 2, after.due_us);
	sqlite3_bind_int64(statement, 3, after.id);
	sqlite3_bind_int64(statement, 4, states);
	sqlite3_bind_int64(statement, 5, (int64_t)n);
	sqlite3_bind_int64(statement, 6, before_us);
	for (bool row = true; row;) {
		failed = hwts_sqlite_step(conn, statement, &row);
		if (failed != 0)
			return failed;
		if (row)
			places[(*count)++] = (struct place){ sqlite3_column_int64(statement, 0),
							     sqlite3_column_int64(statement, 1) };
	}
	return 0;
}

static int first_places(struct sqlite_conn *conn, const struct hwts_kind_row *kind, unsigned states, struct place after,
			size_t n, struct place *places, size_t *count)
{
	int failed = 0;

	for (uint32_t i = 0; i < kind->shards && failed == 0; i++) {
		int64_t shard = (int64_t)kind->id * HWTS_SHARDS_MAX + i;

		if (states & (1u << HWT_STORE_PENDING | 1u << HWT_STORE_RUNNING))
			failed = places_of(conn, shard, states, after, n, places, count);
		if (failed == 0 && states & 1u << HWT_STORE_FAILED)
			failed = places_of(conn, -1 - shard, states, after, n, places, count);
		if (*count > n) {
			qsort(places, *count, sizeof(*places), by_place);
			*count = n;
		}
	}
	qsort(places, *count, sizeof(*places), by_place);
	return failed;
}

int hwts_sqlite_page(struct hwts_conn *base, const struct hwts_kind_row *kind, unsigned states, int64_t due_us,
		     int64_t id, hwt_store_info *out, size_t n, size_t *count)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	struct place *places = hwts_alloc(3 * n * sizeof(*places));
	size_t found = 0;
	int rc = places ? hwts_sqlite_do(conn, "begin", NULL, 0, NULL) : ENOMEM;

	*count = 0;
	if (rc == 0) {
		rc = first_places(conn, kind, states, (struct place){ due_us, id }, n, places, &found);
		for (size_t i = 0; i < found && rc == 0; i++)
			rc = hwts_sqlite_get(base, places[i].id, &out[i]);
		rc = hwts_sqlite_commit(conn, rc);
		*count = rc == 0 ? found : 0;
	}
	free(places);
	return rc;
}
