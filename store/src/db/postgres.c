/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exchanges with a PostgreSQL server.
 */
#include "db/postgres.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define HALT_MS 50 /* how often a waiting look checks whether the store is being stopped */

static int gave_up(struct pg_conn *conn)
{
	conn->conn.broken = true;
	return hwts_fail(ECONNRESET, "postgresql: no answer for %lld s", (long long)(conn->patience_ns / HWT_S(1)));
}

/* Cancels the statement: otherwise the server would go on with it though no client waits any more. */
static int halt(struct pg_conn *conn)
{
	PGcancel *cancel = PQgetCancel(conn->handle);
	char ignored[256];

	if (cancel)
		(void)PQcancel(cancel, ignored, sizeof(ignored));
	PQfreeCancel(cancel);
	conn->conn.broken = true;
	return hwts_fail(ECONNRESET, "postgresql: the store is being stopped");
}

static int wait_for(struct pg_conn *conn, short events, int64_t until_ns)
{
	int64_t left_ms = (until_ns - hwt_now()) / 1000000 + 1;
	struct pollfd fd = { .fd = PQsocket(conn->handle), .events = events };

	if (left_ms <= 0)
		return gave_up(conn);
	if (hwts_read_halts(&conn->conn))
		return halt(conn);
	if (hwts_pg_is_replaced(conn)) {
		conn->conn.broken = true;
		return hwts_fail(ECONNRESET,
				 "postgresql: no answer, and another server has taken the place of this one");
	}
	if (poll(&fd, 1, (int)HWTS_MIN(left_ms, conn->conn.role == HWTS_READ ? HALT_MS : 1000)) < 0 && errno != EINTR)
		return hwts_pg_error(conn, NULL, "poll");
	return 0;
}

/* Sends what is buffered.  Reads meanwhile, so that the server can go on sending. */
static int flush(struct pg_conn *conn, int64_t until_ns)
{
	int left, rc = 0;

	while ((left = PQflush(conn->handle)) > 0 && rc == 0) {
		rc = wait_for(conn, POLLIN | POLLOUT, until_ns);
		if (rc == 0 && !PQconsumeInput(conn->handle))
			rc = hwts_pg_error(conn, NULL, "send");
	}
	return rc == 0 && left < 0 ? hwts_pg_error(conn, NULL, "send") : rc;
}

static int result_of(struct pg_conn *conn, int64_t until_ns, PGresult **result)
{
	int rc = 0;

	while (rc == 0 && PQisBusy(conn->handle)) {
		rc = wait_for(conn, POLLIN, until_ns);
		if (rc == 0 && !PQconsumeInput(conn->handle))
			rc = hwts_pg_error(conn, NULL, "receive");
	}
	*result = rc == 0 ? PQgetResult(conn->handle) : NULL;
	return rc;
}

/* Nothing has happened so far, so a broken connection is ENOTCONN. */
static int prepare(struct pg_conn *conn, const char *name, const char *sql)
{
	int64_t until_ns = hwt_now() + conn->patience_ns;
	PGresult *result, *end = NULL;
	int rc;

	hwts_count_trip(conn->conn.db);
	rc = PQsendPrepare(conn->handle, name, sql, 0, NULL) ? flush(conn, until_ns)
							     : hwts_pg_error(conn, NULL, "prepare");
	if (rc == 0)
		rc = result_of(conn, until_ns, &result);
	if (rc == 0) {
		if (PQresultStatus(result) != PGRES_COMMAND_OK)
			rc = hwts_pg_error(conn, result, "prepare");
		PQclear(result);
		while (!conn->conn.broken && result_of(conn, until_ns, &end) == 0 && end)
			PQclear(end);
	}
	return rc == ECONNRESET ? ENOTCONN : rc;
}

/*
 * Prepares a statement on the connection of a task.  Names are looked up at that time, by the user's search path and
 * with the rights of the role that the task has taken: so both are changed for it.
 */
static int prepare_for_task(struct pg_conn *conn, const char *name, const char *sql)
{
	int rc = hwts_pg_simple(conn, "select " HWTS_PG_KEEP ", " HWTS_PG_ENTER ", " HWTS_PG_OUR_ROLE);

	if (rc == 0)
		rc = prepare(conn, name, sql);
	if (rc == 0)
		rc = hwts_pg_simple(conn, "select " HWTS_PG_ROLE_BACK ", " HWTS_PG_LEAVE);
	return rc == ECONNRESET ? ENOTCONN : rc;
}

/* Prepares a statement of the table when it is first needed. */
static int make_ready(struct pg_conn *conn, enum hwts_sql sql)
{
	char name[16], *text;
	int rc;

	if (conn->ready[sql])
		return 0;
	(void)snprintf(name, sizeof(name), "hwts_%d", (int)sql);
	text = hwts_sql_text(conn->conn.db, sql, true, NULL);
	if (!text)
		rc = ENOMEM;
	else
		rc = conn->conn.role == HWTS_TASK ? prepare_for_task(conn, name, text) : prepare(conn, name, text);
	free(text);
	conn->ready[sql] = rc == 0;
	return rc;
}

/* Called before anything is sent: afterwards no step can fail for memory. */
static int reserve_step(struct pg_conn *conn, struct pg_step *step)
{
	int rc = hwts_pg_prepares(conn) ? make_ready(conn, step->from->sql) : 0;

	if (rc == 0 && !hwts_pg_prepares(conn)) {
		step->made = hwts_sql_text(conn->conn.db, step->from->sql, true, conn->conn.here);
		rc = step->made ? 0 : ENOMEM;
	}
	return rc == 0 ? hwts_pg_reserve(&conn->args, step->from) : rc;
}

static int send_step(struct pg_conn *conn, const struct pg_step *step)
{
	struct pg_args *args = &conn->args;
	char name[16];
	int sent;

	if (step->made) {
		hwts_pg_encode(args, step->from);
		sent = PQsendQueryParams(conn->handle, step->made, args->n, NULL, args->sent, args->lengths,
					 args->formats, 1);
	} else if (step->from) {
		hwts_pg_encode(args, step->from);
		(void)snprintf(name, sizeof(name), "hwts_%d", (int)step->from->sql);
		sent = PQsendQueryPrepared(conn->handle, name, args->n, args->sent, args->lengths, args->formats, 1);
	} else {
		sent = PQsendQueryParams(conn->handle, step->text, 0, NULL, NULL, NULL, NULL, 1);
	}
	return sent ? 0 : hwts_pg_error(conn, NULL, "send");
}

/* Reads the result of a step, and the NULL that ends it. */
static int receive_step(struct pg_conn *conn, struct pg_step *step, int64_t until_ns)
{
	PGresult *result = NULL;
	int rc = result_of(conn, until_ns, &step->result);

	if (rc != 0)
		return rc;
	switch (PQresultStatus(step->result)) {
	case PGRES_TUPLES_OK:
	case PGRES_COMMAND_OK:
		break;
	case PGRES_PIPELINE_ABORTED:
		step->rc = ECANCELED; /* a step before this one has failed */
		break;
	default:
		step->rc = hwts_pg_error(conn, step->result, "execute");
	}
	rc = result_of(conn, until_ns, &result);
	if (rc == 0 && result) {
		PQclear(result);
		rc = hwts_pg_error(conn, NULL, "receive: more than one result");
	}
	return rc;
}

static int receive_sync(struct pg_conn *conn, int64_t until_ns)
{
	PGresult *result = NULL;
	int rc = result_of(conn, until_ns, &result);

	if (rc == 0 && PQresultStatus(result) != PGRES_PIPELINE_SYNC)
		rc = hwts_pg_error(conn, NULL, "receive: no end of the pipeline");
	PQclear(result);
	return rc;
}

/*
 * Leaves the pipeline, since a caller goes on with the connection.  A pipeline without its end is given a statement
 * that the server refuses, so that it has no effect.
 */
static void leave_pipeline(struct pg_conn *conn, bool ended)
{
	bool had = true;

	if (!ended) {
		(void)PQsendQueryParams(conn->handle, "hwt_store gives up", 0, NULL, NULL, NULL, NULL, 1);
		(void)PQpipelineSync(conn->handle);
	}
	while (PQstatus(conn->handle) == CONNECTION_OK && !PQexitPipelineMode(conn->handle)) {
		PGresult *result = PQgetResult(conn->handle);

		if (!result && !had)
			break;
		had = result != NULL;
		PQclear(result);
	}
}

static int exchange(struct pg_conn *conn, struct pg_step *steps, size_t n)
{
	int64_t until_ns = hwt_now() + conn->patience_ns;
	bool synced = false; /* a transaction may be committing */
	bool ended = false;  /* the server will answer all that was sent */
	int rc = 0;

	if (!PQenterPipelineMode(conn->handle)) {
		(void)hwts_pg_error(conn, NULL, "pipeline");
		return ENOTCONN;
	}
	hwts_count_trip(conn->conn.db);
	for (size_t i = 0; i < n && rc == 0; i++) {
		rc = send_step(conn, &steps[i]);
		if (rc != 0 || !(steps[i].sync || i + 1 == n))
			continue;
		synced = true;
		ended = PQpipelineSync(conn->handle);
		if (!ended)
			rc = hwts_pg_error(conn, NULL, "send");
	}
	if (rc != 0) { /* what is still buffered must not be executed */
		conn->conn.broken = true;
		if (conn->callers)
			leave_pipeline(conn, ended);
		return synced ? ECONNRESET : rc == ECONNRESET ? ENOTCONN : rc;
	}
	rc = flush(conn, until_ns);
	HWTS_POINT("sent");
	for (size_t i = 0; i < n && rc == 0; i++) {
		rc = receive_step(conn, &steps[i], until_ns);
		if (rc == 0 && (steps[i].sync || i + 1 == n))
			rc = receive_sync(conn, until_ns);
		if (rc == 0 && steps[i].sync)
			conn->conn.committed_ns = hwt_now();
	}
	if (rc == 0 && !PQexitPipelineMode(conn->handle))
		rc = hwts_pg_error(conn, NULL, "pipeline");
	if (rc != 0 && conn->callers)
		leave_pipeline(conn, true);
	return rc;
}

static int check_replaced(struct pg_conn *conn, int rc)
{
	if (!hwts_pg_is_replaced(conn))
		return 0;
	conn->conn.broken = true;
	return hwts_fail(rc, "postgresql: another server has taken the place of this one");
}

/* Called before an exchange.  A broken connection may still be open, amid an exchange whose end never comes. */
static int check_usable(struct pg_conn *conn)
{
	if (conn->conn.broken)
		return hwts_fail(ENOTCONN, "postgresql: the connection broke before");
	return check_replaced(conn, ENOTCONN);
}

/* 0: each step has its own rc.  Otherwise the exchange as a whole has failed. */
int hwts_pg_run(struct pg_conn *conn, struct pg_step *steps, size_t n)
{
	int rc = check_usable(conn), was_nonblocking = PQisnonblocking(conn->handle);

	for (size_t i = 0; i < n; i++) {
		steps[i].result = NULL;
		steps[i].made = NULL;
		steps[i].rc = 0;
	}
	(void)PQsetnonblocking(conn->handle, 1);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = steps[i].from ? reserve_step(conn, &steps[i]) : 0;
	if (rc == 0)
		rc = exchange(conn, steps, n);
	for (size_t i = 0; i < n; i++)
		free(steps[i].made);
	if (rc == 0)
		/* The server may have been replaced before the exchange reached it. */
		rc = check_replaced(conn, ECONNRESET);
	if (!conn->conn.broken || conn->callers)
		(void)PQsetnonblocking(conn->handle, was_nonblocking);
	return rc;
}

/* *result: of the last statement. */
static int run_texts(struct pg_conn *conn, struct pg_step *steps, size_t n, PGresult **result)
{
	int rc = steps[n - 1].text ? hwts_pg_run(conn, steps, n) : ENOMEM;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = steps[i].rc;
	*result = rc == 0 ? steps[n - 1].result : NULL;
	for (size_t i = 0; i < n; i++)
		if (steps[i].result != *result)
			PQclear(steps[i].result);
	return rc;
}

int hwts_pg_one_by_path(struct pg_conn *conn, const char *text, PGresult **result)
{
	char *sql = hwts_sql(conn->conn.db, text);
	int rc = run_texts(conn, &(struct pg_step){ .text = sql }, 1, result);

	free(sql);
	return rc;
}

int hwts_pg_one(struct pg_conn *conn, const char *text, PGresult **result)
{
	char *sql;
	int rc;

	if (!hwts_pg_is_pooled(conn))
		return hwts_pg_one_by_path(conn, text, result);
	sql = hwts_sql(conn->conn.db, text);
	rc = run_texts(conn, (struct pg_step[]){ { .text = "select " HWTS_PG_ENTER }, { .text = sql } }, 2, result);
	free(sql);
	return rc;
}

int hwts_pg_simple(struct pg_conn *conn, const char *text)
{
	int64_t until_ns = hwt_now() + conn->patience_ns;
	char *sql = hwts_sql(conn->conn.db, text);
	PGresult *result = NULL;
	int rc = check_usable(conn), failed = 0;

	if (!sql)
		return ENOMEM;
	hwts_count_trip(conn->conn.db);
	if (rc == 0 && !PQsendQuery(conn->handle, sql))
		rc = hwts_pg_error(conn, NULL, "send");
	free(sql);
	while (rc == 0 && (rc = result_of(conn, until_ns, &result)) == 0 && result) {
		ExecStatusType status = PQresultStatus(result);

		if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && failed == 0)
			failed = hwts_pg_error(conn, result, "execute");
		PQclear(result);
	}
	if (rc == 0)
		rc = failed ? failed : check_replaced(conn, ECONNRESET);
	return rc;
}
