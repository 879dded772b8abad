/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The statements of a store, as one table, and how an engine executes them.
 *
 * A statement has a text for SQLite and one for PostgreSQL, which mostly are the same.  In it
 *
 *   @_x    is the table x of the store             @any(?1)  with "=": one of the array ?1
 *          with its schema; in quotes: its name
 *   `x     is it with its schema, also in quotes
 *   @in(?1)@end  is "= any(?1)" for SQLite, too    @tx       PostgreSQL: ", tx = " and this transaction
 *   @now   is the clock of the database in us
 *   @boot  is the clock on which leases count      ?1        is the first parameter
 *   @mono  is hwt_now() as @now was read; PostgreSQL: 0
 *   @here  is nothing; on a connection of a caller " where " it leads to this store.  SQLite: @values stands before it
 *
 * types has a letter for each parameter: int64 i, int32 n, bool b, text t, key k, data d, a list of int32 l.  A capital
 * letter is an array.  PostgreSQL takes it as one; SQLite executes the statement for each element, but J, of int64, is
 * a list in JSON there.  A statement that returns no rows stands for one with its first parameter, if it has changed
 * something.
 */
#ifndef HWTS_SQL_H
#define HWTS_SQL_H

#include "rows/engine.h"

/* clang-format off */
enum hwts_sql {
	HWTS_SQL_GET, HWTS_SQL_FIND, HWTS_SQL_PLACES, HWTS_SQL_GROUP_PLACES, HWTS_SQL_INFOS,
	HWTS_SQL_CANCEL, HWTS_SQL_CANCEL_ALL, HWTS_SQL_CANCEL_LAST, HWTS_SQL_CANCEL_NEXT, HWTS_SQL_RESCHEDULE,
	HWTS_SQL_RESCHEDULE_ALL, HWTS_SQL_STATES, HWTS_SQL_TELL,
	HWTS_SQL_KIND, HWTS_SQL_KIND_LOCK, HWTS_SQL_KIND_SHARE, HWTS_SQL_KIND_MAKING, HWTS_SQL_FLUSH,
	HWTS_SQL_KIND_MAKE, HWTS_SQL_KIND_OPEN, HWTS_SQL_KIND_SHARDS,
	HWTS_SQL_KINDS, HWTS_SQL_KIND_REMOVE, HWTS_SQL_KIND_GROUPS, HWTS_SQL_KIND_RULES,
	HWTS_SQL_JOIN, HWTS_SQL_NAMESAKE, HWTS_SQL_LEAVE, HWTS_SQL_BURY, HWTS_SQL_CALL, HWTS_SQL_RENEW,
	HWTS_SQL_MEMBERS, HWTS_SQL_SHARDS, HWTS_SQL_RENEW_ALL, HWTS_SQL_CLOCK,
	HWTS_SQL_SNAPSHOT, HWTS_SQL_LOOK, HWTS_SQL_LOOK_GROUP, HWTS_SQL_LOOK_NO_GROUP, HWTS_SQL_LOOK_NEXT,
	HWTS_SQL_LOOK_NEXT_IN, HWTS_SQL_SWEEP,
	HWTS_SQL_OVER, HWTS_SQL_TAKE, HWTS_SQL_GIVE,
	HWTS_SQL_SHARE, HWTS_SQL_BEGIN, HWTS_SQL_BEGIN_UNLOCKED, HWTS_SQL_PENDING, HWTS_SQL_INHERIT,
	HWTS_SQL_END_LOCK, HWTS_SQL_END_DONE, HWTS_SQL_END_AGAIN, HWTS_SQL_END_FAIL, HWTS_SQL_END_LAST,
	HWTS_SQL_END_NEXT, HWTS_SQL_CLOSE,
	HWTS_SQL_DRAW, HWTS_SQL_PUT, HWTS_SQL_PUT_KEYED, HWTS_SQL_PUT_REPLACE, HWTS_SQL_PUT_REVIVE,
	HWTS_SQL_PUT_SERIES,
	HWTS_SQL_STORE, HWTS_SQL_HERE, HWTS_SQL_OTHERS,
	HWTS_SQL_RULES, HWTS_SQL_RULES_OWN, HWTS_SQL_RULES_RUN, HWTS_SQL_RULES_LOCK, HWTS_SQL_RULES_RAISE,
	HWTS_SQL_RULES_TELL, HWTS_SQL_RULES_BACK, HWTS_SQL_RULES_THERE,
	HWTS_SQL_PAUSE_KIND, HWTS_SQL_PAUSE_GROUP, HWTS_SQL_LIMIT_KIND, HWTS_SQL_LIMIT_GROUP,
	HWTS_SQL_TIDY_GROUP,
	HWTS_SQLS
};
/* clang-format on */

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
#define HWTS_COLUMNS 16

typedef int hwts_each(void *ctx, const struct hwts_value *row);

/* A statement of an exchange. */
struct hwts_step {
	enum hwts_sql sql;
	struct hwts_value args[HWTS_ARGS];
	hwts_each *each; /* or NULL: called for each row; if the run fails, perhaps for some */
	void *ctx;
	bool commits; /* PostgreSQL: the transaction ends with this step */
	bool after;   /* of news: PostgreSQL executes it after the commit, and nobody minds if it fails */
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

#define HWTS_DIED "its process died or was cut off while it ran"
#define HWTS_CLOSING 4 /* most steps that end a run in its task's transaction */

/* In sql_text.c. */
char *hwts_sql_text(const struct hwts_db *db, enum hwts_sql sql, bool postgres, const char *here);
char *hwts_sql(const struct hwts_db *db, const char *text); /* with the prefix for each @ */
hwts_each hwts_note_row;                                    /* ctx, a bool: there is one */
hwts_each hwts_note_number;                                 /* ctx, an int64_t: the first column */

#endif
