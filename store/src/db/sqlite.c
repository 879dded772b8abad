/* SPDX-License-Identifier: BSD-2-Clause */
/* Exchanges with SQLite: errors, statements, transactions; sqlite.h. */
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
		return EACCES;
	case SQLITE_CANTOPEN:
		return system_error == EMFILE || system_error == ENFILE ? EMFILE : EACCES;
	case SQLITE_NOMEM:
		return ENOMEM;
	default:
		return system_error == ENOSPC || system_error == EDQUOT ? ENOSPC : EIO;
	}
}

static const char *advice(int rc, int code)
{
	if (code == SQLITE_BUSY_SNAPSHOT)
		return "; this transaction has read before another one wrote, and can write no more: roll it back, and"
		       " begin the next with BEGIN IMMEDIATE";
	switch (rc) {
	case EAGAIN:
		return "; another process holds its lock, try again";
	case EMFILE:
		return "; too many files are open: raise the limit of this process (ulimit -n)";
	case ENOSPC:
		return "; the disk is full, make room";
	case EACCES:
		return "; the file and its folder must be writable for this user";
	default:
		return "";
	}
}

/* True: the failure concerns a row or a page, not the file. */
static bool refuses(int rc)
{
	int code = rc & 0xff;

	return code == SQLITE_ERROR || code == SQLITE_CONSTRAINT || code == SQLITE_TOOBIG || code == SQLITE_MISMATCH ||
	       code == SQLITE_CORRUPT;
}

int hwts_sqlite_error(struct sqlite_conn *conn, int rc, const char *doing)
{
	int is = meaning(rc, conn->handle ? sqlite3_system_errno(conn->handle) : 0);
	int code = conn->handle ? sqlite3_extended_errcode(conn->handle) : rc;

	conn->conn.refused = is == EIO && refuses(rc);
	/* A connection that has met a failing disk is closed and made again. */
	if (is == EIO && (!conn->conn.refused || (rc & 0xff) == SQLITE_CORRUPT))
		conn->conn.broken = true;
	return hwts_fail(is, "sqlite: %s: %s (%s)%s", doing, conn->handle ? sqlite3_errmsg(conn->handle) : "no handle",
			 sqlite3_errstr(rc), advice(is, code));
}

/*
 * Statements
 */

/* Each connection prepares a statement once. */
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

sqlite3_stmt *hwts_sqlite_rows(struct sqlite_conn *conn, int *rc, const char *text, const int64_t *values, size_t n)
{
	sqlite3_stmt *rows = *rc == 0 ? prepared(conn, rc, text) : NULL;

	for (size_t i = 0; i < n && rows; i++)
		sqlite3_bind_int64(rows, (int)i + 1, values[i]);
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

int hwts_sqlite_ask(struct sqlite_conn *conn, int64_t *number, const char *text, const int64_t *values, size_t n)
{
	int rc = 0;
	sqlite3_stmt *rows = hwts_sqlite_rows(conn, &rc, text, values, n);

	*number = hwts_sqlite_next(conn, rows, &rc) ? number_of(rows, 0) : 0;
	sqlite3_reset(rows);
	return rc;
}

int hwts_sqlite_do(struct sqlite_conn *conn, const char *text, const int64_t *values, size_t n)
{
	int64_t ignored;

	return hwts_sqlite_ask(conn, &ignored, text, values, n);
}

int hwts_sqlite_script(struct sqlite_conn *conn, const char *text)
{
	char *sql = hwts_sql(conn->conn.db, text);
	int done = sql ? sqlite3_exec(conn->handle, sql, NULL, NULL, NULL) : SQLITE_NOMEM;

	free(sql);
	return done == SQLITE_OK ? 0 : hwts_sqlite_error(conn, done, "execute");
}

void hwts_sqlite_forget(struct sqlite_conn *conn)
{
	for (size_t i = 0; i < HWTS_SQLITE_STATEMENTS && conn->statements[i].text; i++) {
		sqlite3_finalize(conn->statements[i].made);
		conn->statements[i] = (struct sqlite_statement){ NULL, NULL };
	}
	for (size_t i = 0; i < HWTS_SQLS; i++) {
		sqlite3_finalize(conn->made[i]);
		conn->made[i] = NULL;
	}
}

/*
 * Transactions
 */

int hwts_sqlite_begin(struct sqlite_conn *conn, bool full)
{
	int rc = hwts_sqlite_be_writer(conn);

	if (rc != 0)
		return rc;
	if (full != conn->full) {
		rc = hwts_sqlite_do(conn, full ? "pragma synchronous = full" : "pragma synchronous = normal", NOTHING);
		if (rc == 0)
			conn->full = full;
	}
	hwts_count_trip(conn->conn.db);
	if (rc == 0)
		rc = hwts_sqlite_do(conn, "begin immediate", NOTHING);
	conn->until_ns = 0;
	if (rc == 0 && (rc = hwts_sqlite_check_files(conn)) != 0)
		return hwts_sqlite_commit(conn, rc);
	if (rc != 0) {
		conn->is_writer = false;
		hwts_sqlite_write_unlock(sqlite_db(&conn->conn));
	}
	return rc;
}

int hwts_sqlite_commit(struct sqlite_conn *conn, int rc)
{
	if (rc == 0)
		rc = hwts_sqlite_do(conn, "commit", NOTHING);
	/* A commit that failed leaves its transaction open. */
	if (rc != 0 && !sqlite3_get_autocommit(conn->handle)) {
		for (size_t i = 0; i < HWTS_SQLITE_STATEMENTS && conn->statements[i].text; i++)
			sqlite3_reset(conn->statements[i].made);
		for (size_t i = 0; i < HWTS_SQLS; i++)
			sqlite3_reset(conn->made[i]);
		if (sqlite3_exec(conn->handle, "rollback", NULL, NULL, NULL) != SQLITE_OK)
			conn->conn.broken = true;
	}
	if (conn->is_writer) {
		conn->is_writer = false;
		hwts_sqlite_write_unlock(sqlite_db(&conn->conn));
	}
	return rc;
}

/*
 * Exchanges
 */

static int make(struct sqlite_conn *conn, enum hwts_sql sql)
{
	char *text = hwts_sql_text(conn->conn.db, sql, false, conn->conn.here);
	int rc;

	if (!text)
		return ENOMEM;
	rc = sqlite3_prepare_v3(conn->handle, text, -1, SQLITE_PREPARE_PERSISTENT, &conn->made[sql], NULL);
	free(text);
	return rc == SQLITE_OK ? 0 : hwts_sqlite_error(conn, rc, "prepare");
}

/* Executes a statement, for an array once for each element. */
static int execute(struct sqlite_conn *conn, const struct hwts_step *step)
{
	const struct hwts_statement *statement = &hwts_statements[step->sql];
	size_t times = 1;
	int rc = 0, failed;

	if (!statement->sqlite[0])
		return 0;
	for (size_t i = 0; statement->types[i]; i++)
		if (statement->types[i] <= 'Z' && statement->types[i] != 'J')
			times = step->args[i].len;
	if (!conn->made[step->sql])
		rc = make(conn, step->sql);
	for (size_t i = 0; i < times && rc == 0; i++) {
		sqlite3_stmt *made = conn->made[step->sql];

		failed = hwts_sqlite_bind(conn, step, i);
		rc = failed != SQLITE_OK ? hwts_sqlite_error(conn, failed, "bind") : 0;
		while (rc == 0 && (failed = sqlite3_step(made)) != SQLITE_DONE)
			rc = failed != SQLITE_ROW ? hwts_sqlite_error(conn, failed, "step")
						  : (step->each ? hwts_sqlite_tell(made, step) : 0);
		if (rc == 0 && step->each && sqlite3_column_count(made) == 0 && sqlite3_changes(conn->handle) > 0)
			rc = step->each(step->ctx, (const struct hwts_value[HWTS_COLUMNS]){
						       { .number = ((const int64_t *)step->args[0].bytes)[i] } });
		sqlite3_reset(made);
	}
	return rc;
}

int hwts_sqlite_exchange(struct hwts_conn *base, const struct hwts_step *steps, size_t n, unsigned flags)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	bool ends = !conn->callers && !(flags & HWTS_OPEN);
	int rc = 0;

	if (conn->callers) {
		rc = 0;
	} else if (sqlite3_get_autocommit(conn->handle) && flags & HWTS_READS) {
		hwts_count_trip(base->db);
		rc = hwts_sqlite_do(conn, "begin", NOTHING);
		if (rc == 0 && (rc = hwts_sqlite_check_files(conn)) != 0)
			return hwts_sqlite_commit(conn, rc);
	} else if (sqlite3_get_autocommit(conn->handle)) {
		conn->hasty = (flags & HWTS_HASTY) != 0;
		rc = hwts_sqlite_begin(conn, (flags & HWTS_SYNCED) != 0);
		conn->hasty = false;
	}
	if (rc != 0)
		return rc;
	conn->now_us = hwts_wall_us(); /* under the lock: rows_send.c says why */
	conn->read_ns = hwt_now();
	conn->boot_us = hwts_boot_ns() / 1000;
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = execute(conn, &steps[i]);
	return ends ? hwts_sqlite_finish(base, rc) : rc;
}

int hwts_sqlite_finish(struct hwts_conn *base, int rc)
{
	return sqlite_conn(base)->callers ? rc : hwts_sqlite_commit(sqlite_conn(base), rc);
}
