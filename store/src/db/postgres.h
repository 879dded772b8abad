/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The PostgreSQL engine: what its files share.
 *
 * Structure
 *
 *   Each connection prepares a statement of the table when it first needs it.  Parameters and results are binary.  The
 *   steps of an exchange are one pipeline: one round trip.  The steps between two syncs of a pipeline are one
 *   transaction.
 *
 * Durability
 *
 *   Puts, cancels, reschedules and transactions of tasks commit with the session's synchronous_commit.  Begins, ends,
 *   news and given shards commit with "off": the next synced commit flushes the log before it, too.  Always synced are
 *   leases, takes, the statements that at most once rests on, and new kinds: if the commit of a kind were lost, another
 *   kind would get its number.
 *
 * Names
 *
 *   A function or operator that a role has defined in some schema must not be called by the store.  So the store's
 *   statements look up names in pg_catalog alone, and name the schema of their tables.  The store's own connections
 *   have that search path.  The connections of tasks and callers have the user's search path.  It is changed for the
 *   store's statements, and restored before the user's next statement and before the commit, as triggers of the commit
 *   may be the user's.  Through a pooler it is set in each transaction.
 *
 * Waiting
 *
 *   No exchange waits for ever: each has a deadline, after which the connection is given up.  The server ends a
 *   transaction whose client stands still (idle_in_transaction_session_timeout = the lease), so its locks do not
 *   outlive the lease.
 */
#ifndef HWTS_POSTGRES_H
#define HWTS_POSTGRES_H

#include "rows/sql.h"

#include <libpq-fe.h>

/*
 * The server that a store is on, as far as it can be identified: in the lower half of origin the timeline, which each
 * promotion of a standby raises; in the upper half a hash that tells this cluster from others.
 *
 * A server that was cut off while a standby took its place may come back and still accept writes, which will be lost.
 * So a store that has met the newer server uses no connection to the older one.
 *
 * origin is relaxed: each exchange checks it before it is sent, each second while it waits, and after its answer.  An
 * answer that came before the newer server was met may be the older server's.
 */
struct pg_db {
	struct hwts_db db;
	PQconninfoOption *options;
	_Atomic uint64_t origin; /* 0: unknown */
	_Atomic int64_t meta;    /* the oid of @_meta when it was last read; 0: not yet */
	bool met; /* the first connection has found out whether there is a pooler, and where the tables are */
};

/* The binary parameters of a step; the buffers stay with the connection. */
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
	uint64_t origin;       /* the origin of its server; 0: unknown */
	bool was_silent;       /* the server has ended a transaction of it that was silent for too long */
	bool callers;          /* a caller's: nothing is prepared on it */
	bool ready[HWTS_SQLS]; /* the statement is prepared */
	struct pg_args args;   /* of the step that is being sent */
	int64_t patience_ns;
};

static inline bool hwts_pg_is_pooled(const struct pg_conn *conn)
{
	return conn->conn.db->pooled;
}

/* False: each statement is sent with its text. */
static inline bool hwts_pg_prepares(const struct pg_conn *conn)
{
	return !hwts_pg_is_pooled(conn) && !conn->callers;
}

static inline struct pg_conn *pg_conn(struct hwts_conn *conn)
{
	return (struct pg_conn *)conn;
}

/* True: a newer server has been met since this connection was made. */
static inline bool hwts_pg_is_replaced(const struct pg_conn *conn)
{
	const struct pg_db *db = (const struct pg_db *)conn->conn.db;

	/* Relaxed: see struct pg_db. */
	return conn->origin != 0 && conn->origin != atomic_load_explicit(&db->origin, memory_order_relaxed);
}

/* A statement of an exchange: a step of the table, or a text without parameters. */
struct pg_step {
	const struct hwts_step *from;
	const char *text;
	char *made; /* the text of `from`, where nothing is prepared */
	bool sync;  /* a transaction ends here; the last step of an exchange always ends one */
	PGresult *result;
	int rc;
};

#define HWTS_PG_PATH "pg_catalog, pg_temp"
#define HWTS_PG_ENTER "pg_catalog.set_config('search_path', '" HWTS_PG_PATH "', true)" /* until the commit or LEAVE */
#define HWTS_PG_KEEP "pg_catalog.set_config('hwt_store.path', pg_catalog.current_setting('search_path'), true)"
/* Back to the path that KEEP noted. */
#define HWTS_PG_LEAVE "set_config('search_path', current_setting('hwt_store.path'), true)"
/*
 * Until the commit or ROLE_BACK.  A role that a task has taken may have no rights on the schema.  If a task has said
 * "reset all", the role of the connection is forgotten.
 */
#define HWTS_PG_OUR_ROLE                                                                                               \
	"pg_catalog.set_config('hwt_store.task_role', pg_catalog.current_setting('role'), true),"                      \
	" pg_catalog.set_config('role', case when pg_catalog.current_setting('hwt_store.role', true)"                  \
	" operator(pg_catalog.<>) '' then pg_catalog.current_setting('hwt_store.role') else 'none' end, true)"
#define HWTS_PG_ROLE_BACK "set_config('role', current_setting('hwt_store.task_role'), true)"
#define HWTS_PG_NOTE_ROLE "pg_catalog.set_config('hwt_store.role', pg_catalog.current_setting('role'), false)"

/* postgres_args.c */
void hwts_pg_args_free(struct pg_args *args);
int hwts_pg_reserve(struct pg_args *args, const struct hwts_step *step);
void hwts_pg_encode(struct pg_args *args, const struct hwts_step *step);
int hwts_pg_decode(const PGresult *result, const struct hwts_step *step); /* calls step->each */
int64_t hwts_pg_get(const PGresult *result, int row, int column);         /* of any integer type or bool; null: 0 */

/* postgres_error.c */
int hwts_pg_error(struct pg_conn *conn, const PGresult *result, const char *doing);
int hwts_pg_says_reads(const struct pg_conn *conn); /* EACCES, if the server has said that this session may only read */
void hwts_pg_note_silence(struct pg_conn *conn, const char *state); /* state: of an error, or NULL */

/* postgres.c */
int hwts_pg_run(struct pg_conn *conn, struct pg_step *steps, size_t n);
/*
 * One statement.  *result belongs to the caller, and is NULL on failure.  _by_path: with the search path of the role.
 */
int hwts_pg_one(struct pg_conn *conn, const char *text, PGresult **result);
int hwts_pg_one_by_path(struct pg_conn *conn, const char *text, PGresult **result);
/* Any number of statements without parameters; replaces @. */
int hwts_pg_simple(struct pg_conn *conn, const char *text);

/* postgres_exchange.c */
int hwts_pg_exchange(struct hwts_conn *conn, const struct hwts_step *steps, size_t n, unsigned flags);
int hwts_pg_finish(struct hwts_conn *conn, int rc);
int hwts_pg_begin_make(struct pg_conn *conn); /* begins a transaction that only one process at a time can be in */
int hwts_pg_make(struct pg_conn *conn, const char *text);

/* postgres_unblock.c */
int hwts_pg_unblock(struct hwts_conn *conn, bool shard, int64_t id, int64_t age_ns);

/* postgres_dial.c */
void hwts_pg_hear_notices(struct pg_conn *conn);
int hwts_pg_dial(struct hwts_db *db, enum hwts_role role, struct pg_conn **conn); /* sends no statement yet */
void hwts_pg_hang_up(struct pg_conn *conn);
int hwts_pg_find_pooler(struct pg_conn *conn); /* called for the first connection of a database: sets pooled */
int hwts_pg_find_place(struct pg_conn *conn);  /* called for the first connection of a database: sets schema */
int hwts_pg_meet(struct pg_conn *conn); /* called for each connection: ENOTCONN if its server has been replaced */
int hwts_pg_check_writes(struct pg_conn *conn); /* as hwts_pg_says_reads, but asks the server if it has said so */

/* postgres_schema.c */
int hwts_pg_prepare(struct hwts_conn *conn);

/* The tables, by oid.  Another version may lack some: null. */
#define HWTS_PG_TABLES                                                                                                 \
	"values (to_regclass($hwt$@_meta$hwt$)::oid), (to_regclass($hwt$@_kind$hwt$)::oid),"                           \
	" (to_regclass($hwt$@_shard$hwt$)::oid), (to_regclass($hwt$@_member$hwt$)::oid),"                              \
	" (to_regclass($hwt$@_group$hwt$)::oid), (to_regclass($hwt$@_timeout$hwt$)::oid)"

/* postgres_hidden.c */
int hwts_pg_look_hidden(struct hwts_conn *conn, bool missing, bool *remade);

/* The name of the tables' owner, quoted for a statement, and what this role may do. */
struct hwts_pg_home {
	char owner[132];
	bool is_owner; /* this role has the owner's rights */
	bool may_make; /* the owner may create objects in the schema, and this role may act as the owner */
};

/* Until the commit this session has the role of the owner. */
#define HWTS_PG_BE_OWNER                                                                                               \
	"select set_config('role', pg_get_userbyid(c.relowner)::text, true) from pg_class c"                           \
	" where c.oid = to_regclass($hwt$@_meta$hwt$)::oid;"

/* postgres_functions.c */
int hwts_pg_make_functions(struct pg_conn *conn, const struct hwts_pg_home *home);

/* postgres_news.c */
int hwts_pg_listen(struct hwts_conn *conn, const struct hwts_shard_row *shards, size_t n, bool on);
int hwts_pg_news_fd(struct hwts_conn *conn);
int hwts_pg_news(struct hwts_conn *conn, bool signalled, hwts_hear *hear, void *ctx, int64_t *again_ns);

/* postgres_run.c */
int hwts_pg_open_run(struct hwts_conn *conn, void **handle);
int hwts_pg_close_run(struct hwts_conn *conn, const struct hwts_step *steps, size_t n);
void hwts_pg_drop_run(struct hwts_conn *conn);

#endif
