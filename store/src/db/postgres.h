/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The PostgreSQL engine: what its files share.
 *
 * Structure
 *
 *   Each connection prepares a statement of the table when it first needs it.  Parameters and results are binary.  The
 *   steps of an exchange go as one pipeline: one round trip.  What lies between two syncs of a pipeline is one
 *   transaction.
 *
 * Durability
 *
 *   Puts, cancels, reschedules and transactions of tasks commit as the session's synchronous_commit says.  Begins,
 *   ends, news, and shards that are given, commit with "off": the next synced commit flushes the log before it, too.
 *   Flushed in any case are a new kind, for the number of one that was lost would be given to another, and leases,
 *   takes and what at most once rests on.
 *
 * Names
 *
 *   What a role defines in a schema must not be called here: the statements look for nothing outside pg_catalog, and
 *   name the schema of the tables.  So a connection of the store's own has this search path.  That of a task and of a
 *   caller has the user's; it changes for the store's statements and comes back before the user's next one, and before
 *   the commit, whose triggers may be the user's.  Through a pooler it is set in each transaction.
 *
 * Waiting
 *
 *   No exchange waits for ever: each has a deadline, after which the connection is given up.  The server gives up a
 *   transaction whose process stands still (idle_in_transaction_session_timeout = the lease), so that its locks do not
 *   outlive the lease.
 */
#ifndef HWTS_POSTGRES_H
#define HWTS_POSTGRES_H

#include "rows/sql.h"

#include <libpq-fe.h>

/*
 * The server that a store is on, as far as it can be told: its timeline, which each promotion of a standby raises, and
 * in the upper half what tells this cluster from others.  A server that was cut off while another took its place may
 * come back, and still believes that it writes; what it is told then is lost.  So a store that has met the newer one
 * uses no connection to the older.
 *
 *   relaxed: each exchange asks before it is sent, again each second that it waits, and once it is answered; what was
 *            answered before the newer server was met may have been sent to the older one, too
 */
struct pg_db {
	struct hwts_db db;
	PQconninfoOption *options;
	_Atomic uint64_t origin; /* 0: not known */
	_Atomic int64_t meta;    /* the oid of @_meta as it was last seen; 0: not yet */
	bool met;                /* the first connection has told what is in between */
};

/* Parameters of a step in binary; the buffers stay with the connection. */
struct pg_args {
	int n;
	char *values[HWTS_ARGS];
	size_t rooms[HWTS_ARGS];
	const char *sent[HWTS_ARGS]; /* as libpq takes them */
	int lengths[HWTS_ARGS], formats[HWTS_ARGS];
};

struct pg_conn {
	struct hwts_conn conn;
	PGconn *handle;
	uint64_t origin;       /* of its server; 0: not known */
	bool was_silent;       /* its server has given up a transaction in which nothing was said for too long */
	bool callers;          /* not ours: nothing is prepared there */
	bool ready[HWTS_SQLS]; /* prepared */
	struct pg_args args;   /* of the step that is sent */
	int64_t patience_ns;
};

static inline bool hwts_pg_is_pooled(const struct pg_conn *conn)
{
	return conn->conn.db->pooled;
}

/* Each statement is sent with its text. */
static inline bool hwts_pg_prepares(const struct pg_conn *conn)
{
	return !hwts_pg_is_pooled(conn) && !conn->callers;
}

static inline struct pg_conn *pg_conn(struct hwts_conn *conn)
{
	return (struct pg_conn *)conn;
}

/* By now. */
static inline bool hwts_pg_is_replaced(const struct pg_conn *conn)
{
	const struct pg_db *db = (const struct pg_db *)conn->conn.db;

	/* Relaxed: see struct pg_db. */
	return conn->origin != 0 && conn->origin != atomic_load_explicit(&db->origin, memory_order_relaxed);
}

/* One statement of an exchange: a step of the table, or a text without parameters. */
struct pg_step {
	const struct hwts_step *from;
	const char *text;
	char *made; /* of from, where nothing is prepared */
	bool sync;  /* a transaction ends here; the last step of an exchange has one in any case */
	PGresult *result;
	int rc;
};

#define HWTS_PG_PATH "pg_catalog, pg_temp"
#define HWTS_PG_ENTER "pg_catalog.set_config('search_path', '" HWTS_PG_PATH "', true)" /* until the commit, or LEAVE */
#define HWTS_PG_KEEP "pg_catalog.set_config('hwt_store.path', pg_catalog.current_setting('search_path'), true)"
#define HWTS_PG_LEAVE "set_config('search_path', current_setting('hwt_store.path'), true)" /* to that of KEEP */
/*
 * Until the commit, or ROLE_BACK: a role that a task has taken may have no rights on the schema.  A task that has said
 * "reset all" has made the store forget the role that the connection had.
 */
#define HWTS_PG_OUR_ROLE                                                                                               \
	"pg_catalog.set_config('hwt_store.task_role', pg_catalog.current_setting('role'), true),"                      \
	" pg_catalog.set_config('role', case when pg_catalog.current_setting('hwt_store.role', true)"                  \
	" operator(pg_catalog.<>) '' then pg_catalog.current_setting('hwt_store.role') else 'none' end, true)"
#define HWTS_PG_ROLE_BACK "set_config('role', current_setting('hwt_store.task_role'), true)"
#define HWTS_PG_NOTE_ROLE "pg_catalog.set_config('hwt_store.role', pg_catalog.current_setting('role'), false)"

/* In postgres_args.c. */
void hwts_pg_args_free(struct pg_args *args);
int hwts_pg_reserve(struct pg_args *args, const struct hwts_step *step);
void hwts_pg_encode(struct pg_args *args, const struct hwts_step *step);
int hwts_pg_decode(const PGresult *result, const struct hwts_step *step); /* calls step->each */
int64_t hwts_pg_get(const PGresult *result, int row, int column);         /* of any integer type, bool too; null: 0 */

/* In postgres_error.c. */
int hwts_pg_error(struct pg_conn *conn, const PGresult *result, const char *doing);
int hwts_pg_says_reads(const struct pg_conn *conn); /* EACCES, if it has been said that it may only read */
void hwts_pg_note_silence(struct pg_conn *conn, const char *state); /* of an error; NULL: it has none */

/* In postgres.c. */
int hwts_pg_run(struct pg_conn *conn, struct pg_step *steps, size_t n);
/* One statement; *result is the caller's, and NULL on failure.  _by_path: by that of the role. */
int hwts_pg_one(struct pg_conn *conn, const char *text, PGresult **result);
int hwts_pg_one_by_path(struct pg_conn *conn, const char *text, PGresult **result);
int hwts_pg_simple(struct pg_conn *conn, const char *text); /* any number of statements, no parameters; @ too */

/* In postgres_exchange.c. */
int hwts_pg_exchange(struct hwts_conn *conn, const struct hwts_step *steps, size_t n, unsigned flags);
int hwts_pg_finish(struct hwts_conn *conn, int rc);
int hwts_pg_begin_make(struct pg_conn *conn); /* a transaction in which one process makes something */
int hwts_pg_make(struct pg_conn *conn, const char *text);

/* In postgres_unblock.c. */
int hwts_pg_unblock(struct hwts_conn *conn, bool shard, int64_t id, int64_t age_ns);

/* In postgres_dial.c. */
void hwts_pg_hear_notices(struct pg_conn *conn);
int hwts_pg_dial(struct hwts_db *db, enum hwts_role role, struct pg_conn **conn); /* says nothing to the server yet */
void hwts_pg_hang_up(struct pg_conn *conn);
int hwts_pg_find_pooler(struct pg_conn *conn); /* by the first connection of a database: sets pooled */
int hwts_pg_find_place(struct pg_conn *conn);  /* likewise: sets schema */
int hwts_pg_meet(struct pg_conn *conn);        /* a new connection: ENOTCONN if its server has been replaced */

/* In postgres_schema.c. */
int hwts_pg_prepare(struct hwts_conn *conn);

/* The tables, by oid.  Of another version one may be missing: null. */
#define HWTS_PG_TABLES                                                                                                 \
	"values (to_regclass($hwt$@_meta$hwt$)::oid), (to_regclass($hwt$@_kind$hwt$)::oid),"                           \
	" (to_regclass($hwt$@_shard$hwt$)::oid), (to_regclass($hwt$@_member$hwt$)::oid),"                              \
	" (to_regclass($hwt$@_group$hwt$)::oid), (to_regclass($hwt$@_timeout$hwt$)::oid)"

/* In postgres_hidden.c. */
int hwts_pg_look_hidden(struct hwts_conn *conn, bool missing, bool *remade);

/* Whose the tables are, as a statement has it, and what this role may do there. */
struct hwts_pg_home {
	char owner[132];
	bool is_owner; /* this role has the rights of the owner */
	bool may_make; /* the owner may create there, and this role may act as the owner */
};

/* Until the commit. */
#define HWTS_PG_BE_OWNER                                                                                               \
	"select set_config('role', pg_get_userbyid(c.relowner)::text, true) from pg_class c"                           \
	" where c.oid = to_regclass($hwt$@_meta$hwt$)::oid;"

/* In postgres_functions.c. */
int hwts_pg_make_functions(struct pg_conn *conn, const struct hwts_pg_home *home);

/* In postgres_news.c. */
int hwts_pg_listen(struct hwts_conn *conn, const struct hwts_shard_row *shards, size_t n, bool on);
int hwts_pg_news_fd(struct hwts_conn *conn);
int hwts_pg_news(struct hwts_conn *conn, bool signalled, hwts_hear *hear, void *ctx, int64_t *again_ns);

/* In postgres_run.c. */
int hwts_pg_open_run(struct hwts_conn *conn, void **handle);
int hwts_pg_close_run(struct hwts_conn *conn, const struct hwts_step *steps, size_t n);
void hwts_pg_drop_run(struct hwts_conn *conn);

#endif
