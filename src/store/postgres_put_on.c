/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Puts on a connection of the caller: no pipeline, nothing prepared.
 */
#include "postgres.h"

#include <stdlib.h>

#define TRIES 10

static int on_caller(struct pg_conn *conn, const char *text, struct pg_args *args, PGresult **result)
{
	const char *values[HWTS_PG_ARGS];
	int lengths[HWTS_PG_ARGS], formats[HWTS_PG_ARGS], rc = 0;
	char *sql = hwts_sql(conn->conn.db, text);

	*result = NULL;
	for (int i = 0; args && i < args->n; i++) {
		values[i] = args->null[i] ? NULL : args->values[i] ? args->values[i] : "";
		lengths[i] = (int)args->lengths[i];
		formats[i] = 1;
	}
	if (!sql || (args && args->failed)) {
		free(sql);
		return ENOMEM;
	}
	*result = PQexecParams(conn->handle, sql, args ? args->n : 0, NULL, values, lengths, formats, 1);
	free(sql);
	if (PQresultStatus(*result) != PGRES_TUPLES_OK && PQresultStatus(*result) != PGRES_COMMAND_OK) {
		rc = hwts_pg_error(conn, *result, "put on the caller's connection");
		PQclear(*result);
		*result = NULL;
	}
	return rc;
}

static int insert_on(struct pg_conn *conn, struct hwts_put *put)
{
	struct pg_args args = { .n = 0 };
	const struct hwts_put *one = put;
	PGresult *result;
	int rc;

	hwts_pg_insert_args(&args, &one, 1);
	rc = on_caller(conn,
		       !put->key      ? hwts_pg_insert_free
		       : put->replace ? hwts_pg_insert_replace
				      : hwts_pg_insert_keyed,
		       &args, &result);
	hwts_pg_args_free(&args);
	if (rc == 0) {
		put->rc = EEXIST;
		if (PQntuples(result) == 1)
			hwts_pg_returned(put, result, 0);
	}
	PQclear(result);
	return rc;
}

static int find_on(struct pg_conn *conn, struct hwts_put *put, bool *gone)
{
	struct pg_args args = { .n = 0 };
	PGresult *result;
	int rc;

	hwts_pg_int4(&args, put->kind.id);
	hwts_pg_bytes(&args, put->key, strlen(put->key));
	rc = on_caller(conn, "select id, state from @_timeout where kind = $1::int and key = $2::bytea", &args,
		       &result);
	hwts_pg_args_free(&args);
	if (rc != 0)
		return rc;
	*gone = PQntuples(result) == 0;
	if (!*gone) {
		put->found_id = hwts_pg_get(result, 0, 0);
		put->rc = put->replace && hwts_pg_get(result, 0, 1) == HWT_STORE_RUNNING ? EBUSY : EEXIST;
	}
	PQclear(result);
	return 0;
}

int hwts_pg_put_on(struct hwts_db *db, void *connection, struct hwts_put *put)
{
	struct pg_conn conn = { .conn = { .db = db }, .handle = connection };
	struct pg_args args = { .n = 0 };
	PGresult *result = NULL;
	bool gone = true;
	int rc = 0;

	if (PQstatus(conn.handle) != CONNECTION_OK || PQpipelineStatus(conn.handle) != PQ_PIPELINE_OFF)
		return hwts_fail(EINVAL, "the connection is not open, or is in a pipeline");
	for (int tries = 0; tries < TRIES && gone; tries++) {
		gone = false;
		rc = insert_on(&conn, put);
		if (rc == 0 && put->rc != 0)
			rc = find_on(&conn, put, &gone);
	}
	if (rc != 0)
		return rc;
	if (put->rc != 0)
		return put->rc;
	if (!hwts_pg_is_soon(put))
		return 0;
	/* Delivered when the caller commits; also to this process, which does not know when that is. */
	PG_INT8S(&args, 1, put->id);
	rc = on_caller(&conn, hwts_pg_notify_holder, &args, &result);
	hwts_pg_args_free(&args);
	PQclear(result);
	return rc;
}
