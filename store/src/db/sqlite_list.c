/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading timeouts in SQLite.
 */
#include "db/sqlite.h"

#include <stdlib.h>

static void cut_column(char *field, size_t size, sqlite3_stmt *statement, int at)
{
	const char *text = (const char *)sqlite3_column_text(statement, at);

	hwts_cut(field, size, text ? text : "", text ? (size_t)sqlite3_column_bytes(statement, at) : 0);
}

int hwts_sqlite_get(struct hwts_conn *base, int64_t id, hwt_store_info *info)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	int rc = 0;
	bool found = false;
	sqlite3_stmt *rows = hwts_sqlite_rows(
	    conn, &rc,
	    "select t.state, t.attempt, t.due_us, t.period_us, k.name, t.key, s.owner, t.error from @_timeout t"
	    " join @_kind k on k.id = t.kind"
	    " left join @_shard s on s.id = iif(t.shard < 0, -1 - t.shard, t.shard) where t.id = ?",
	    WITH(NUMBER(id)));

	hwts_count_trip(base->db);
	for (; hwts_sqlite_next(conn, rows, &rc); found = true) {
		info->id = id;
		info->state = (hwt_store_state)number_of(rows, 0);
		info->attempt = (unsigned)number_of(rows, 1);
		info->due_us = number_of(rows, 2);
		info->period_ns = number_of(rows, 3) * 1000;
		cut_column(info->kind, sizeof(info->kind), rows, 4);
		cut_column(info->key, sizeof(info->key), rows, 5);
		cut_column(info->owner, sizeof(info->owner), rows, 6);
		cut_column(info->error, sizeof(info->error), rows, 7);
	}
	return rc == 0 && !found ? hwts_fail(ENOENT, "there is no timeout %lld", (long long)id) : rc;
}

int hwts_sqlite_find(struct hwts_conn *base, int32_t kind, const char *key, int64_t *id)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	int rc = 0;
	bool found = false;
	sqlite3_stmt *rows = hwts_sqlite_rows(conn, &rc, "select id from @_timeout where kind = ? and key = ?",
					      WITH(NUMBER(kind), TEXT(key)));

	hwts_count_trip(base->db);
	for (; hwts_sqlite_next(conn, rows, &rc); found = true)
		*id = number_of(rows, 0);
	return rc == 0 && !found ? hwts_fail(ENOENT, "there is no timeout with the key \"%s\"", key) : rc;
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
	int rc = 0;
	/* A row that runs was due: without PENDING only rows that are due are read. */
	int64_t before_us = states & 1u << HWT_STORE_PENDING || shard < 0 ? HWTS_NEVER : hwts_wall_us() + HWTS_S_US;
	sqlite3_stmt *rows = hwts_sqlite_rows(
	    conn, &rc,
	    "select due_us, id from @_timeout where shard = ?1 and (due_us, id) > (?2, ?3) and due_us < ?6"
	    " and (1 << state) & ?4 order by due_us, id limit ?5",
	    WITH(NUMBER(shard), NUMBER(after.due_us), NUMBER(after.id), NUMBER(states), NUMBER((int64_t)n),
		 NUMBER(before_us)));

	while (hwts_sqlite_next(conn, rows, &rc))
		places[(*count)++] = (struct place){ number_of(rows, 0), number_of(rows, 1) };
	return rc;
}

static int first_places(struct sqlite_conn *conn, const struct hwts_kind_row *kind, unsigned states, struct place after,
			size_t n, struct place *places, size_t *count)
{
	int rc = 0;

	for (uint32_t i = 0; i < kind->shards && rc == 0; i++) {
		int64_t shard = (int64_t)kind->id * HWTS_SHARDS_MAX + i;

		if (states & (1u << HWT_STORE_PENDING | 1u << HWT_STORE_RUNNING))
			rc = places_of(conn, shard, states, after, n, places, count);
		if (rc == 0 && states & 1u << HWT_STORE_FAILED)
			rc = places_of(conn, -1 - shard, states, after, n, places, count);
		if (*count > n) {
			qsort(places, *count, sizeof(*places), by_place);
			*count = n;
		}
	}
	qsort(places, *count, sizeof(*places), by_place);
	return rc;
}

int hwts_sqlite_page(struct hwts_conn *base, const struct hwts_kind_row *kind, unsigned states, int64_t due_us,
		     int64_t id, hwt_store_info *out, size_t n, size_t *count)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	struct place *places = hwts_alloc(3 * n * sizeof(*places));
	size_t found = 0;
	int rc = places ? hwts_sqlite_do(conn, NULL, "begin", NOTHING) : ENOMEM;

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
