/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A PostgreSQL database and its connections.
 */
#include "db/postgres.h"

#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define LOCK_PATIENCE_MS 10000
#define SKIP_LOCK_PATIENCE_MS 200 /* afterwards without the rows that another transaction has locked */

static void close_db(struct hwts_db *base)
{
	struct pg_db *db = (struct pg_db *)base;

	PQconninfoFree(db->options);
	free(db);
}

/* Cuts off the part of the url that libpq cites: it may be of a password. */
static const char *without_citation(char *error)
{
	static const char *const cited[] = { ": \"", " after \"", " in \"" };

	for (size_t i = 0; error && i < HWTS_COUNT(cited); i++) {
		char *at = strstr(error, cited[i]);

		if (at)
			*at = '\0';
	}
	return error ? error : "no memory";
}

/* Parses in English, whatever the program's language: messages in other languages quote in other ways. */
static PQconninfoOption *parse(const char *url, char **error)
{
	locale_t english = newlocale(LC_ALL_MASK, "C", (locale_t)0), before;
	PQconninfoOption *options;

	if (english == (locale_t)0)
		return NULL;
	before = uselocale(english);
	options = PQconninfoParse(url, error);
	(void)uselocale(before);
	freelocale(english);
	return options;
}

/*
 * True: a password with unescaped characters has ended up in the host or the port, and an error of libpq would show it.
 */
static bool is_torn(const PQconninfoOption *options)
{
	for (const PQconninfoOption *option = options; option->keyword; option++) {
		const char *value = option->val ? option->val : "";

		if (strcmp(option->keyword, "port") == 0 && value[strspn(value, "0123456789, ")])
			return true;
		for (const char *at = strchr(value, '@'); at && strcmp(option->keyword, "host") == 0;
		     at = strchr(at + 1, '@'))
			if (at > value && at[-1] != ',') /* otherwise a socket in the abstract namespace */
				return true;
	}
	return false;
}

static int open_db(const char *url, struct hwts_db **out)
{
	struct pg_db *db;
	char *error = NULL;

	if (strncmp(url, "pg:", 3) == 0)
		url += 3;
	db = hwts_alloc(sizeof(*db));
	if (!db)
		return ENOMEM;
	db->options = parse(url, &error);
	if (!db->options) {
		int rc = hwts_fail(EINVAL, "postgresql: the url: %s", without_citation(error));

		PQfreemem(error);
		free(db);
		return rc;
	}
	if (is_torn(db->options)) {
		close_db(&db->db);
		return hwts_fail(EINVAL,
				 "postgresql: the url: its host or port is none; of a password @ is written %%40,"
				 " / %%2F, : %%3A");
	}
	*out = &db->db;
	return 0;
}

static void disconnect(struct hwts_conn *conn)
{
	hwts_pg_hang_up(pg_conn(conn));
}

static int check_version(struct pg_conn *conn)
{
	if (PQserverVersion(conn->handle) < 130000)
		return hwts_fail(ENOTSUP, "postgresql: the server has version %d, 13 is needed",
				 PQserverVersion(conn->handle) / 10000);
	return 0;
}

static int settle(struct pg_conn *conn)
{
	int64_t lease_ms = conn->conn.db->lease_us / 1000;
	char text[1024];
	bool ours = conn->conn.role != HWTS_TASK, synced = conn->conn.role == HWTS_CALL || conn->conn.role == HWTS_TASK;
	int at, rc = check_version(conn);

	if (rc != 0)
		return rc;
	at = snprintf(
	    text, sizeof(text),
	    "%s set idle_in_transaction_session_timeout = %lld; set lock_timeout = %lld; set statement_timeout = 0;"
	    " set default_transaction_isolation = 'read committed';",
	    ours ? "set search_path = " HWTS_PG_PATH ";" : "", (long long)lease_ms,
	    conn->conn.role == HWTS_BEGIN || conn->conn.role == HWTS_END ? (long long)SKIP_LOCK_PATIENCE_MS
	    : conn->conn.role == HWTS_CONTROL ? (long long)HWTS_MIN(lease_ms / 2, LOCK_PATIENCE_MS)
					      : (long long)LOCK_PATIENCE_MS);
	if (PQserverVersion(conn->handle) >= 140000) /* a role may have this setting for sessions of people */
		at += snprintf(text + at, sizeof(text) - (size_t)at, " set idle_session_timeout = 0;");
	/* The tables may have been empty when a statement was planned: so only plans by index are allowed. */
	if (ours)
		at +=
		    snprintf(text + at, sizeof(text) - (size_t)at,
			     " set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off;"
			     " set enable_bitmapscan = off; set enable_indexscan = on; set enable_indexonlyscan = on;"
			     " set enable_nestloop = on; set jit = off; set plan_cache_mode = force_generic_plan;");
	if (!synced) /* synced commits set it back to the role's own setting */
		(void)snprintf(text + at, sizeof(text) - (size_t)at,
			       " select set_config('hwt_store.synced', current_setting('synchronous_commit'), false);"
			       " set synchronous_commit = off;");
	else if (!ours)
		(void)snprintf(text + at, sizeof(text) - (size_t)at, " select " HWTS_PG_NOTE_ROLE ";");
	return hwts_pg_simple(conn, text);
}

/* Finds out what is at the other end, checks it, and makes the settings. */
static int greet(struct pg_conn *conn)
{
	struct pg_db *db = (struct pg_db *)conn->conn.db;
	int rc = db->met ? 0 : hwts_pg_find_pooler(conn);

	if (rc == 0 && !db->met)
		rc = hwts_pg_find_place(conn);
	if (!db->met) /* the open makes the first connection, before any other thread */
		db->met = rc == 0;
	if (rc == 0 && db->db.pooled && conn->conn.role != HWTS_CALL)
		return hwts_fail(ENOTSUP,
				 "postgresql: a pooler in transaction mode is in between, which breaks LISTEN and "
				 "prepared statements: a process that starts has to connect to the server directly, or "
				 "to a pool in session mode");
	if (rc == 0 && conn->conn.role != HWTS_CALL && conn->conn.role != HWTS_READ)
		rc = hwts_pg_check_writes(conn);
	if (rc == 0)
		rc = db->db.pooled ? check_version(conn) : settle(conn);
	if (rc == 0)
		rc = hwts_pg_meet(conn);
	return rc == ECONNRESET ? ENOTCONN : rc;
}

static int connect(struct hwts_db *base, enum hwts_role role, struct hwts_conn **out)
{
	struct pg_conn *conn;
	int rc = hwts_pg_dial(base, role, &conn);

	if (rc != 0)
		return rc;
	rc = greet(conn);
	if (rc != 0)
		hwts_pg_hang_up(conn);
	else
		*out = &conn->conn;
	return rc;
}

/* Reads what the server has said last, for instance that it closes the connection, without sending anything. */
static bool alive(struct hwts_conn *base)
{
	struct pg_conn *conn = pg_conn(base);
	struct pollfd fd = { .fd = PQsocket(conn->handle), .events = POLLIN };

	for (int i = 0; i < 3 && !base->broken && poll(&fd, 1, 0) > 0; i++)
		if (!PQconsumeInput(conn->handle) || PQstatus(conn->handle) != CONNECTION_OK)
			base->broken = true;
	return !base->broken && !hwts_pg_is_replaced(conn) && PQstatus(conn->handle) == CONNECTION_OK &&
	       PQtransactionStatus(conn->handle) == PQTRANS_IDLE;
}

/* Statements name the schema, and are in UTF-8. */
static int check_encoding(const struct hwts_db *db, const PGconn *connection)
{
	const char *is = PQparameterStatus(connection, "client_encoding");
	const char *at = db->schema;

	while (*at && (unsigned char)*at < 0x80)
		at++;
	return !*at || (is && strcmp(is, "UTF8") == 0)
		   ? 0
		   : hwts_fail(EINVAL,
			       "postgresql: the schema %s needs client_encoding UTF8, and this connection has %s",
			       db->schema, is ? is : "none");
}

static int borrow(struct hwts_db *db, void *connection, struct hwts_conn **out)
{
	struct pg_conn *conn;
	int rc;

	if (PQstatus(connection) != CONNECTION_OK || PQpipelineStatus(connection) != PQ_PIPELINE_OFF)
		return hwts_fail(EINVAL, "the connection is not open, or is in a pipeline");
	rc = check_encoding(db, connection);
	if (rc != 0)
		return rc;
	conn = hwts_alloc(sizeof(*conn));
	if (!conn)
		return ENOMEM;
	*conn = (struct pg_conn){
		.conn = { .db = db }, .handle = connection, .callers = true, .patience_ns = INT64_MAX / 2
	};
	*out = &conn->conn;
	return 0;
}

static int give_back(struct hwts_conn *conn, int rc)
{
	/* Undefined table, undefined column. */
	if (rc == EIO && (strstr(hwts_fail_text(), "(42P01)") || strstr(hwts_fail_text(), "(42703)")))
		rc = hwts_fail(EINVAL, "postgresql: the connection leads to no store with tables %s_*",
			       conn->db->prefix);
	hwts_pg_args_free(&pg_conn(conn)->args);
	free(conn);
	return rc;
}

static bool blocks(void *connection)
{
	(void)connection;
	return false;
}

static void tend(struct hwts_conn *conn)
{
	(void)conn; /* autovacuum does */
}

const struct hwts_engine hwts_postgres = {
	.name = "postgresql",
	.locks_rows = true,
	.keeps_dead = true,
	.open = open_db,
	.close = close_db,
	.connect = connect,
	.disconnect = disconnect,
	.alive = alive,
	.prepare = hwts_pg_prepare,
	.look_hidden = hwts_pg_look_hidden,
	.run = hwts_pg_exchange,
	.finish = hwts_pg_finish,
	.unblock = hwts_pg_unblock,
	.borrow = borrow,
	.give_back = give_back,
	.blocks = blocks,
	.open_run = hwts_pg_open_run,
	.close_run = hwts_pg_close_run,
	.drop_run = hwts_pg_drop_run,
	.listen = hwts_pg_listen,
	.news_fd = hwts_pg_news_fd,
	.news = hwts_pg_news,
	.tend = tend,
};
