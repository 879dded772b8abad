/* SPDX-License-Identifier: BSD-2-Clause */
/* Exchanges with SQLite: errors, turns at writing, statements, transactions; sqlite.h. */
#include "db/sqlite.h"

#include <stdlib.h>

/*
 * Failures
 */

static int meaning(int rc, int system_error)
{
	switch (rc & 0xff) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return EAGAIN;
	case SQLITE_FULL:
		return ENOSPC;
	case SQLITE_READONLY:
	case SQLITE_PERM:
	case SQLITE_AUTH:
	case SQLITE_CANTOPEN:
		return EACCES;
	case SQLITE_NOMEM:
		return ENOMEM;
	default:
		return system_error == ENOSPC || system_error == EDQUOT ? ENOSPC : EIO;
	}
}

static const char *advice(int rc)
{
	switch (rc) {
	case EAGAIN:
		return "; another process holds its lock, try again";
	case ENOSPC:
		return "; the disk is full, make room";
	case EACCES:
		return "; the file and its folder must be writable for this user";
	default:
		return "";
	}
}

int hwts_sqlite_error(struct sqlite_conn *conn, int rc, const char *doing)
{
	int is = meaning(rc, conn->handle ? sqlite3_system_errno(conn->handle) : 0);

	/* A connection that has met a failing disk is made again. */
	if (is == EIO && (rc & 0xff) != SQLITE_ERROR && (rc & 0xff) != SQLITE_CONSTRAINT)
		conn->conn.broken = true;
	return hwts_fail(is, "sqlite: %s: %s (%s)%s", doing, conn->handle ? sqlite3_errmsg(conn->handle) : "no handle",
			 sqlite3_errstr(rc), advice(is));
}

/*
 * The turn
 */

void hwts_sqlite_turn(struct sqlite_db *db)
{
	uint64_t mine;

	pthread_mutex_lock(&db->lock);
	mine = db->drawn++;
	while (db->serving != mine)
		hwts_wait_ns(&db->turned, &db->lock, HWT_S(1)); /* woken; or looks itself */
	pthread_mutex_unlock(&db->lock);
}

void hwts_sqlite_turn_end(struct sqlite_db *db)
{
	pthread_mutex_lock(&db->lock);
	db->serving++;
	pthread_cond_broadcast(&db->turned);
	pthread_mutex_unlock(&db->lock);
}

/*
 * Statements
 */

/* Prepared once in each connection. */
static sqlite3_stmt *prepared(struct sqlite_conn *conn, int *rc, const char *text)
{
	struct sqlite_statement *statement = conn->statements;
	char *sql;
	int made;

	for (size_t i = 0; statement->text != NULL && statement->text != text; i++, statement++)
		if (i == HWTS_SQLITE_STATEMENTS - 1)
			return *rc = hwts_fail(ENOMEM, "sqlite: too many statements"), NULL;
	if (statement->made) {
		sqlite3_reset(statement->made);
		return statement->made;
	}
	sql = hwts_sql(conn->conn.db, text);
	if (!sql)
		return *rc = ENOMEM, NULL;
	made = sqlite3_prepare_v3(conn->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement->made, NULL);
	if (made != SQLITE_OK)
		*rc = hwts_sqlite_error(conn, made, "prepare");
	else
		statement->text = text;
	free(sql);
	return statement->made;
}

sqlite3_stmt *hwts_sqlite_rows(struct sqlite_conn *conn, int *rc, const char *text, const struct sqlite_value *values,
			       size_t n)
{
	sqlite3_stmt *rows = *rc == 0 ? prepared(conn, rc, text) : NULL;

	for (size_t i = 0; i < n && rows; i++) {
		int at = (int)i + 1;

		if (values[i].is == SQLITE_IS_NUMBER)
			sqlite3_bind_int64(rows, at, values[i].number);
		else if (!values[i].bytes)
			sqlite3_bind_null(rows, at);
		else if (values[i].is == SQLITE_IS_TEXT)
			sqlite3_bind_text(rows, at, values[i].bytes, -1, SQLITE_STATIC);
		else
			sqlite3_bind_blob64(rows, at, values[i].bytes, values[i].len, SQLITE_STATIC);
	}
	return rows;
}

bool hwts_sqlite_next(struct sqlite_conn *conn, sqlite3_stmt *rows, int *rc)
{
	int step = rows ? sqlite3_step(rows) : SQLITE_DONE;

	if (step == SQLITE_ROW)
		return true;
	if (step != SQLITE_DONE)
		*rc = hwts_sqlite_error(conn, step, "step");
	sqlite3_reset(rows);
	return false;
}

int hwts_sqlite_do(struct sqlite_conn *conn, int *changes, const char *text, const struct sqlite_value *values,
		   size_t n)
{
	int rc = 0;
	sqlite3_stmt *rows = hwts_sqlite_rows(conn, &rc, text, values, n);

	while (hwts_sqlite_next(conn, rows, &rc))
		;
	if (changes)
		*changes = rc ? 0 : sqlite3_changes(conn->handle);
	return rc;
}

void hwts_sqlite_forget(struct sqlite_conn *conn)
{
	for (size_t i = 0; i < HWTS_SQLITE_STATEMENTS && conn->statements[i].text; i++) {
		sqlite3_finalize(conn->statements[i].made);
		conn->statements[i] = (struct sqlite_statement){ NULL, NULL };
	}
}

/*
 * Transactions
 */

int hwts_sqlite_begin(struct sqlite_conn *conn, bool full)
{
	int rc = 0;

	hwts_sqlite_turn(sqlite_db(&conn->conn));
	conn->has_turn = true;
	if (full != conn->full) {
		rc = hwts_sqlite_do(conn, NULL, full ? "pragma synchronous = full" : "pragma synchronous = normal",
				    NOTHING);
		if (rc == 0)
			conn->full = full;
	}
	hwts_count_trip(conn->conn.db);
	if (rc == 0)
		rc = hwts_sqlite_do(conn, NULL, "begin immediate", NOTHING);
	if (rc != 0) {
		conn->has_turn = false;
		hwts_sqlite_turn_end(sqlite_db(&conn->conn));
	}
	return rc;
}

int hwts_sqlite_commit(struct sqlite_conn *conn, int rc)
{
	if (rc == 0)
		rc = hwts_sqlite_do(conn, NULL, "commit", NOTHING);
	/* Also after a commit that failed: its transaction is still open then. */
	if (rc != 0 && !sqlite3_get_autocommit(conn->handle)) {
		char text[512];

		hwts_cut(text, sizeof(text), hwts_fail_text(), strlen(hwts_fail_text()));
		for (size_t i = 0; i < HWTS_SQLITE_STATEMENTS && conn->statements[i].text; i++)
			sqlite3_reset(conn->statements[i].made);
		if (sqlite3_exec(conn->handle, "rollback", NULL, NULL, NULL) != SQLITE_OK)
			conn->conn.broken = true;
		(void)hwts_fail(rc, "%s", text);
	}
	if (conn->has_turn) {
		conn->has_turn = false;
		hwts_sqlite_turn_end(sqlite_db(&conn->conn));
	}
	return rc;
}
