/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The statements of a store as one table, and how an engine executes them.  The build makes the table of
 * store/sql/statements/.
 *
 * A statement has a text for SQLite and one for PostgreSQL, mostly the same.  In a text
 *
 *   @_x    is the table x of the store             @any(?1)  with "=": a value of the array ?1
 *          with its schema; in quotes: its name
 *   `x     is x with the prefix and the schema, also in quotes
 *   @in(?1)@end  is "= any(?1)", on SQLite too     @tx       PostgreSQL: ", tx = " and this transaction
 *   @now   is the clock of the database in us
 *   @news  is the channel of news without the shard: PostgreSQL, in quotes
 *   @boot  is the clock on which leases count      ?1        is the first parameter
 *   @mono  is hwt_now() as @now was read; PostgreSQL: 0
 *   @here  is the condition of the connection, "here" of struct hwts_conn.  SQLite: only in puts, behind @values
 *
 * types has a letter for each parameter: int64 i, int32 n, bool b, text t, key k, data d, a list of int32 l.  A capital
 * letter is an array.  PostgreSQL takes the array as a parameter.  SQLite executes the statement for each element,
 * except for J (int64): there it is a list in JSON.  On SQLite, a statement without a result returns its first
 * parameter, which is an array, as a row if it has changed something.
 */
#ifndef HWTS_SQL_H
#define HWTS_SQL_H

#include "rows/engine.h"

/* A name for each statement. */
enum hwts_sql {
#define HWTS_STATEMENT(name, ...) HWTS_SQL_##name,
#include "sql/statements.h"
#undef HWTS_STATEMENT
	HWTS_SQLS
};

struct hwts_statement {
	const char *name, *types;
	const char *sqlite, *postgres; /* postgres NULL: the text of SQLite; "": nothing to do */
};

extern const struct hwts_statement hwts_statements[HWTS_SQLS];

/* A parameter, or a column of a row. */
struct hwts_value {
	int64_t number;
	const void *bytes; /* text, key, data: NULL is null.  An array: of int64_t; of keys and data: of hwts_value */
	size_t len;        /* in bytes, or in elements */
};

/* clang-format off */
#define HWTS_NUMBER(value) { .number = (value) }
#define HWTS_BYTES(value, size) { .bytes = (value), .len = (size) }
#define HWTS_TEXT(value) { .bytes = (value), .len = (value) ? strlen(value) : 0 }
/* clang-format on */
#define HWTS_ARGS 15
#define HWTS_COLUMNS 15

typedef int hwts_each(void *ctx, const struct hwts_value *row);

/* A statement of an exchange. */
struct hwts_step {
	enum hwts_sql sql;
	struct hwts_value args[HWTS_ARGS];
	hwts_each *each; /* called for each row, or NULL; if the run fails, perhaps for some rows */
	void *ctx;
	bool commits; /* PostgreSQL: the transaction ends with this step */
	bool after;   /* PostgreSQL executes it after the commit; its failure does not matter */
};

/* clang-format off */
/* A step: the statement, the callback for its rows with its ctx, and the parameters. */
#define HWTS_ASK(is, by, into, ...) { .sql = HWTS_SQL_##is, .args = { __VA_ARGS__ }, .each = (by), .ctx = (into) }
#define HWTS_DO(is, ...) { .sql = HWTS_SQL_##is, .args = { __VA_ARGS__ } }
/* clang-format on */

enum {
	HWTS_READS = 1,  /* nothing is written: a lost connection is ENOTCONN */
	HWTS_SYNCED = 2, /* the commit is synced */
	HWTS_OPEN = 4,   /* the transaction stays open until the next run without this flag, or engine->finish */
	HWTS_HASTY = 8,  /* SQLite: EAGAIN soon, if another process has the lock */
	HWTS_LEASE = 16  /* PostgreSQL: synced, since processes outlive the server: rows_share.c */
};

static inline int hwts_run(struct hwts_conn *conn, const struct hwts_step *steps, size_t n, unsigned flags)
{
	conn->refused = false;
	return conn->db->engine->run(conn, steps, n, flags);
}

static inline int hwts_finish(struct hwts_conn *conn, int rc)
{
	return conn->db->engine->finish(conn, rc);
}

/*
 * PostgreSQL: which database of which cluster a connection leads to.  A restored copy of a store has the same text in
 * @_meta.  initdb draws a number for each cluster, and each database has an oid in it; a standby has those of its
 * primary.
 */
#define HWTS_PLACE                                                                                                     \
	"(select c.system_identifier operator(pg_catalog.#) d.oid::bigint from pg_catalog.pg_control_system() c,"      \
	" pg_catalog.pg_database d where d.datname operator(pg_catalog.=) pg_catalog.current_database())"

#define HWTS_DIED "its process died or was cut off while it ran"
#define HWTS_CLOSING 5 /* most steps that end a run in its task's transaction */

/* sql.c */
char *hwts_sql_text(const struct hwts_db *db, enum hwts_sql sql, bool postgres, const char *here);
char *hwts_sql(const struct hwts_db *db, const char *text); /* replaces each @ by the prefix */
hwts_each hwts_note_row;                                    /* ctx, a bool: there is a row */
hwts_each hwts_note_number;                                 /* ctx, an int64_t: the first column */

#endif
