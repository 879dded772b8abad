/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The statements of a store, as one table, and how an engine executes them.  Their texts are in store/sql/statements/,
 * which the build makes a table of.
 *
 * A statement has a text for SQLite and one for PostgreSQL, which mostly are the same.  In it
 *
 *   @_x    is the table x of the store             @any(?1)  with "=": one of the array ?1
 *          with its schema; in quotes: its name
 *   `x     is it with its schema, also in quotes
 *   @in(?1)@end  is "= any(?1)" for SQLite, too    @tx       PostgreSQL: ", tx = " and this transaction
 *   @now   is the clock of the database in us
 *   @news  is the channel of news, without the shard: PostgreSQL, in quotes
 *   @boot  is the clock on which leases count      ?1        is the first parameter
 *   @mono  is hwt_now() as @now was read; PostgreSQL: 0
 *   @here  is what the connection says, "here" of struct hwts_conn.  SQLite: only of puts; @values stands before it
 *
 * types has a letter for each parameter: int64 i, int32 n, bool b, text t, key k, data d, a list of int32 l.  A capital
 * letter is an array.  PostgreSQL takes it as one; SQLite executes the statement for each element, but J, of int64, is
 * a list in JSON there.  On SQLite a statement whose text returns no rows stands for one with its first parameter,
 * which is an array, if it has changed something.
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
	const char *sqlite, *postgres; /* postgres NULL: that of SQLite; "": there is nothing to do */
};

extern const struct hwts_statement hwts_statements[HWTS_SQLS];

/* A parameter, or a value of a row. */
struct hwts_value {
	int64_t number;
	const void *bytes; /* text, key, data: NULL is null; an array: int64_t, of keys and data: hwts_value */
	size_t len;        /* bytes, or elements */
};

/* clang-format off */
#define HWTS_NUMBER(value) { .number = (value) }
#define HWTS_BYTES(value, size) { .bytes = (value), .len = (size) }
#define HWTS_TEXT(value) { .bytes = (value), .len = (value) ? strlen(value) : 0 }
/* clang-format on */
#define HWTS_ARGS 15
#define HWTS_COLUMNS 18

typedef int hwts_each(void *ctx, const struct hwts_value *row);

/* A statement of an exchange. */
struct hwts_step {
	enum hwts_sql sql;
	struct hwts_value args[HWTS_ARGS];
	hwts_each *each; /* or NULL: called for each row; if the run fails, perhaps for some */
	void *ctx;
	bool commits; /* PostgreSQL: the transaction ends with this step */
	bool after;   /* PostgreSQL executes it after the commit, and nobody minds if it fails */
};

/* clang-format off */
/* A step: the statement, the callback for its rows with its ctx, and the parameters. */
#define HWTS_ASK(is, by, into, ...) { .sql = HWTS_SQL_##is, .args = { __VA_ARGS__ }, .each = (by), .ctx = (into) }
#define HWTS_DO(is, ...) { .sql = HWTS_SQL_##is, .args = { __VA_ARGS__ } }
/* clang-format on */

enum {
	HWTS_READS = 1,  /* nothing is written, so that it is known what happened */
	HWTS_SYNCED = 2, /* the commit is synced */
	HWTS_OPEN = 4,   /* the transaction stays open, to the next run without this or to engine->finish */
	HWTS_HASTY = 8,  /* SQLite: EAGAIN soon, if another process has the lock */
	HWTS_LEASE = 16  /* PostgreSQL: synced, for processes outlive the server: rows_share.c */
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
 * @_meta; initdb draws a number for each cluster, and a database has one in it.  Standbys have their primary's.
 */
#define HWTS_PLACE                                                                                                     \
	"(select c.system_identifier operator(pg_catalog.#) d.oid::bigint from pg_catalog.pg_control_system() c,"      \
	" pg_catalog.pg_database d where d.datname operator(pg_catalog.=) pg_catalog.current_database())"

#define HWTS_DIED "its process died or was cut off while it ran"
#define HWTS_CLOSING 5 /* most steps that end a run in its task's transaction */

/* In sql.c. */
char *hwts_sql_text(const struct hwts_db *db, enum hwts_sql sql, bool postgres, const char *here);
char *hwts_sql(const struct hwts_db *db, const char *text); /* with the prefix for each @ */
hwts_each hwts_note_row;                                    /* ctx, a bool: there is one */
hwts_each hwts_note_number;                                 /* ctx, an int64_t: the first column */

#endif
