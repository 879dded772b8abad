/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Puts in PostgreSQL.
 *
 * News: transactions that notify commit one after the other, so a notification is a transaction of its own, behind the
 * put in the same pipeline.  It reads the rows that the put has committed: if that failed, there are none.  It tells
 * the holder what is due before now + horizon + 1 s, if the holder is another process; the second covers the time
 * between a put's clock and its commit.  If it is lost, the holder's look-ahead finds the row by tx.
 */
#include "db/postgres.h"

#include <stdlib.h>

#define TRIES 10
#define SLACK_US HWTS_S_US

#define INSERT                                                                                                         \
	"with n as materialized " PG_NOW                                                                               \
	", p as (select * from unnest($1::bigint[], $2::int[], $3::int[], $4::bigint[],"                               \
	" $5::bool[], $6::bigint[], $7::bytea[], $8::bytea[]) x(id, kind, shard, w, absolute, period, key, data))"     \
	" insert into @_timeout as t (id, due_us, base_us, epoch, period_us, kind, shard, attempt, state, key, data)"  \
	" select p.id, d.us, d.us, 0, p.period, p.kind, p.shard, 0, 1, p.key, p.data from p, n,"                       \
	" lateral (select case when p.absolute then p.w else n.us + p.w end us) d"
#define RETURNING " returning t.id, t.due_us, t.shard"

static const char INSERT_FREE[] = INSERT RETURNING;
static const char INSERT_KEYED[] = INSERT " on conflict (kind, key) where key is not null do nothing" RETURNING;
static const char INSERT_REPLACE[] = INSERT
    " on conflict (kind, key) where key is not null do update set due_us = excluded.due_us,"
    " base_us = excluded.base_us, period_us = excluded.period_us, data = excluded.data, attempt = 0, error = null,"
    " tx = pg_current_xact_id() where t.state = 1" RETURNING;

int hwts_pg_ids(struct hwts_conn *base, int64_t *first, int64_t *count)
{
	PGresult *result;
	int rc = hwts_pg_one(pg_conn(base), "select nextval('@_id')", NULL, &result);

	if (rc != 0)
		return rc;
	*first = hwts_pg_get(result, 0, 0);
	*count = HWTS_PG_IDS;
	PQclear(result);
	return 0;
}

static void insert_args(struct pg_args *args, const struct hwts_put *const *puts, size_t n)
{
	PG_INT8S(args, n, puts[i]->id);
	PG_INT4S(args, n, puts[i]->kind.id);
	PG_INT4S(args, n, hwts_shard_of(&puts[i]->kind, puts[i]->id));
	PG_INT8S(args, n, puts[i]->when_us);
	PG_BOOLS(args, n, puts[i]->absolute);
	PG_INT8S(args, n, puts[i]->period_us);
	PG_BYTEAS(args, n, puts[i]->key, puts[i]->key ? strlen(puts[i]->key) : 0);
	PG_BYTEAS(args, n, puts[i]->len ? puts[i]->data : NULL, puts[i]->len);
}

/*
 * A batch: at most as many rows as a statement takes.  Each row that replaces has a statement of its own
 */

struct batch {
	struct hwts_put *puts;
	const struct hwts_put **plain; /* those of the first statement */
	size_t n, plain_count;
	struct pg_step *steps;
	struct pg_args *args;
	size_t step_count;
	bool keyed, all, commits, soon; /* commits: its exchange ends in a commit */
};

static bool is_soon(const struct hwts_put *put)
{
	return put->absolute || put->when_us < put->kind.horizon_us + 2 * SLACK_US;
}

static struct pg_args *add_step(struct batch *batch, const char *text, bool sync)
{
	struct pg_args *args = &batch->args[batch->step_count];

	batch->steps[batch->step_count++] = (struct pg_step){ .text = text, .args = args, .sync = sync };
	return args;
}

static void notify_args(struct pg_args *args, const struct pg_conn *conn, const struct hwts_put *puts, size_t n)
{
	PG_INT8S(args, n, puts[i].id);
	hwts_pg_text(args, hwts_me(conn->conn.db));
}

static int open_batch(struct batch *batch, const struct pg_conn *conn)
{
	struct hwts_put *put = batch->puts;
	bool replaces = false;

	batch->plain = hwts_alloc(batch->n * sizeof(*batch->plain));
	batch->steps = hwts_alloc((batch->n + 3) * sizeof(*batch->steps));
	batch->args = hwts_alloc((batch->n + 3) * sizeof(*batch->args));
	if (!batch->plain || !batch->steps || !batch->args)
		return ENOMEM;
	for (; put < batch->puts + batch->n; put++) {
		put->rc = EEXIST; /* until it is returned */
		put->found_id = 0;
		batch->keyed |= put->key != NULL;
		batch->soon |= is_soon(put);
		replaces |= put->replace;
		if (!put->replace)
			batch->plain[batch->plain_count++] = put;
	}
	if (!batch->commits)
		(void)add_step(batch, "begin", false);
	if (batch->plain_count > 0)
		insert_args(add_step(batch, batch->keyed ? INSERT_KEYED : INSERT_FREE, !replaces), batch->plain,
			    batch->plain_count);
	for (put = batch->puts; put < batch->puts + batch->n; put++) {
		const struct hwts_put *one = put;

		if (put->replace)
			insert_args(add_step(batch, INSERT_REPLACE, false), &one, 1);
	}
	batch->steps[batch->step_count - 1].sync = true;
	/* Of what replaces, the ids are not known yet. */
	if (batch->commits && batch->soon && !replaces)
		notify_args(add_step(batch, hwts_pg_notify_others, true), conn, batch->puts, batch->n);
	return 0;
}

static void close_batch(struct batch *batch)
{
	if (batch->steps && batch->args)
		hwts_pg_clear(batch->steps, batch->step_count);
	free(batch->plain);
	free(batch->steps);
	free(batch->args);
}

static void returned(struct hwts_put *put, const PGresult *result, int row)
{
	put->rc = 0;
	put->id = hwts_pg_get(result, row, 0);
	put->due_us = hwts_pg_get(result, row, 1);
	put->shard = (int32_t)hwts_pg_get(result, row, 2);
}

/* The rows come back in the order in which they went, without the refused ones. */
static void read_batch(struct batch *batch)
{
	size_t step = batch->commits ? 0 : 1;

	if (batch->plain_count > 0) {
		const PGresult *result = batch->steps[step++].result;
		int row = 0;

		for (struct hwts_put *put = batch->puts; put < batch->puts + batch->n; put++)
			if (!put->replace && row < PQntuples(result) && hwts_pg_get(result, row, 0) == put->id)
				returned(put, result, row++);
	}
	for (struct hwts_put *put = batch->puts; put < batch->puts + batch->n; put++)
		if (put->replace && PQntuples(batch->steps[step++].result) == 1)
			returned(put, batch->steps[step - 1].result, 0);
}

/* One exchange. */
static int put_batch(struct pg_conn *conn, struct hwts_put *puts, size_t n, bool commits)
{
	struct batch batch = { .puts = puts, .n = n, .commits = commits };
	size_t inserts;
	int rc = open_batch(&batch, conn);

	if (rc == 0)
		rc = hwts_pg_run(conn, batch.steps, batch.step_count);
	/* A notification that failed is a lost one. */
	inserts = batch.step_count - (batch.steps && batch.steps[batch.step_count - 1].text == hwts_pg_notify_others);
	for (size_t i = 0; i < inserts && rc == 0; i++)
		rc = batch.steps[i].rc;
	if (rc == 0)
		read_batch(&batch);
	close_batch(&batch);
	return rc;
}

/* Why a put was refused, and by which timeout.  *again: that timeout is gone, or may be replaced now. */
static int explain(struct pg_conn *conn, struct hwts_put *put, bool *again)
{
	struct pg_args args = { .n = 0 };
	PGresult *result;
	int64_t state;
	int rc;

	hwts_pg_int4(&args, put->kind.id);
	hwts_pg_bytes(&args, put->key, strlen(put->key));
	rc = hwts_pg_one(conn, "select id, state from @_timeout where kind = $1::int and key = $2::bytea", &args,
			 &result);
	if (rc != 0)
		return rc;
	*again = PQntuples(result) == 0;
	if (!*again) {
		put->found_id = hwts_pg_get(result, 0, 0);
		state = hwts_pg_get(result, 0, 1);
		put->rc = put->replace && state == HWT_STORE_RUNNING ? EBUSY : EEXIST;
		*again = put->replace && state == HWT_STORE_PENDING;
	}
	PQclear(result);
	return 0;
}

/* Sends news of a batch in which puts replaced: open_batch left it out, for their ids came with the reply. */
static void notify_replaced(struct pg_conn *conn, const struct hwts_put *puts, size_t n)
{
	struct pg_args args = { .n = 0 };
	PGresult *result = NULL;
	bool replaces = false, soon = false;

	for (size_t i = 0; i < n; i++) {
		replaces |= puts[i].replace;
		soon |= puts[i].rc == 0 && is_soon(&puts[i]);
	}
	if (!replaces || !soon)
		return;
	notify_args(&args, conn, puts, n);
	(void)hwts_pg_one(conn, hwts_pg_notify_others, &args, &result); /* lost: the look-ahead finds them */
	PQclear(result);
}

/* One that was refused: why, or once more. */
static int put_again(struct pg_conn *conn, struct hwts_put *put)
{
	bool again = true;
	int rc = 0;

	for (int tries = 0; again && rc == 0 && tries < TRIES; tries++) {
		again = false;
		HWTS_POINT("refused");
		rc = explain(conn, put, &again);
		if (rc == 0 && again)
			rc = put_batch(conn, put, 1, true);
		again = again && put->rc != 0;
	}
	if (rc == 0)
		notify_replaced(conn, put, 1);
	return rc;
}

/* What fails after the batch is a failure of that put alone: the others may be in the database. */
static int put_each(struct pg_conn *conn, struct hwts_put *puts, size_t n)
{
	int rc = put_batch(conn, puts, n, true);

	if (rc != 0)
		return rc;
	notify_replaced(conn, puts, n);
	for (size_t i = 0; i < n; i++) {
		rc = puts[i].rc != 0 ? put_again(conn, &puts[i]) : 0;
		if (rc != 0)
			puts[i].rc = rc;
	}
	return 0;
}

/* Two of them have the same key, and neither was there. */
static bool have_twice(const struct hwts_put *puts, size_t n, const struct hwts_put *put)
{
	for (size_t i = 0; i < n; i++)
		if (&puts[i] != put && puts[i].key && puts[i].kind.id == put->kind.id &&
		    strcmp(puts[i].key, put->key) == 0)
			return true;
	return false;
}

static size_t batch_size(const struct hwts_put *puts, size_t n, size_t most)
{
	size_t count = 0, bytes = 0;

	for (; count < n && count < most && bytes < (size_t)32 << 20; count++)
		bytes += puts[count].len;
	return count;
}

/* With a key among them, or more than a statement's rows: begin, batches, commit. */
static int put_in_transaction(struct pg_conn *conn, struct hwts_put *puts, size_t n)
{
	bool refused = false;
	int rc = 0;

	for (size_t at = 0, size; at < n && rc == 0 && !refused; at += size) {
		size = batch_size(puts + at, n - at, 1000);
		rc = put_batch(conn, puts + at, size, false);
		for (size_t i = at; i < at + size && rc == 0; i++)
			refused |= puts[i].rc != 0;
	}
	if (rc != 0 || refused) {
		char text[512];

		hwts_cut(text, sizeof(text), hwts_fail_text(), strlen(hwts_fail_text()));
		if (!conn->conn.broken && hwts_pg_simple(conn, "rollback") != 0)
			conn->conn.broken = true;
		/* Nothing was committed. */
		rc = rc == ECONNRESET ? ENOTCONN : rc ? rc : EEXIST;
		return hwts_fail(rc, "%s", text);
	}
	rc = hwts_pg_simple(conn, "commit");
	for (size_t at = 0, size; at < n && rc == 0; at += size) {
		struct pg_args args = { .n = 0 };
		PGresult *result = NULL;
		bool soon = false;

		size = HWTS_MIN(n - at, 1000);
		for (size_t i = at; i < at + size; i++)
			soon |= is_soon(&puts[i]);
		if (!soon)
			continue;
		notify_args(&args, conn, puts + at, size);
		(void)hwts_pg_one(conn, hwts_pg_notify_others, &args, &result);
		PQclear(result);
	}
	return rc;
}

static int put_all(struct pg_conn *conn, struct hwts_put *puts, size_t n)
{
	bool keyed = false, again = true;
	int rc = 0;

	for (size_t i = 0; i < n; i++)
		keyed |= puts[i].key != NULL;
	if (!keyed && batch_size(puts, n, 10000) == n)
		return put_batch(conn, puts, n, true);
	for (int tries = 0; again && tries < TRIES; tries++) {
		struct hwts_put *put = puts;

		again = false;
		rc = put_in_transaction(conn, puts, n);
		if (rc != EEXIST)
			return rc;
		while (put < puts + n && put->rc == 0)
			put++;
		rc = explain(conn, put, &again);
		if (rc == 0)
			rc = put->rc;
		if (put->found_id == 0 && have_twice(puts, n, put))
			return rc;
	}
	return rc;
}

int hwts_pg_put(struct hwts_conn *base, struct hwts_put *puts, size_t n, bool all)
{
	for (size_t i = 0; i < n; i++)
		puts[i].shard = hwts_shard_of(&puts[i].kind, puts[i].id);
	return all ? put_all(pg_conn(base), puts, n) : put_each(pg_conn(base), puts, n);
}

/*
 * On a connection of the caller, in the caller's transaction
 */

static int insert_one(struct pg_conn *conn, struct hwts_put *put)
{
	struct pg_args args = { .n = 0 };
	const struct hwts_put *one = put;
	PGresult *result;
	int rc;

	insert_args(&args, &one, 1);
	rc = hwts_pg_one(conn, !put->key ? INSERT_FREE : put->replace ? INSERT_REPLACE : INSERT_KEYED, &args, &result);
	put->rc = EEXIST;
	if (rc == 0 && PQntuples(result) == 1)
		returned(put, result, 0);
	PQclear(result);
	return rc;
}

int hwts_pg_put_on(struct hwts_db *db, void *connection, struct hwts_put *put)
{
	struct pg_conn conn = { .conn = { .db = db }, .handle = connection, .callers = true };
	struct pg_args args = { .n = 0 };
	PGresult *result = NULL;
	bool again = true;
	int rc = 0;

	if (PQstatus(conn.handle) != CONNECTION_OK || PQpipelineStatus(conn.handle) != PQ_PIPELINE_OFF)
		return hwts_fail(EINVAL, "the connection is not open, or is in a pipeline");
	for (int tries = 0; tries < TRIES && again && rc == 0; tries++) {
		again = false;
		rc = insert_one(&conn, put);
		if (rc == 0 && put->rc != 0)
			rc = explain(&conn, put, &again);
	}
	if (rc != 0 || put->rc != 0 || !is_soon(put))
		return rc ? rc : put->rc;
	/* Delivered when the caller commits; also to this process, which does not know when that is. */
	PG_INT8S(&args, 1, put->id);
	rc = hwts_pg_one(&conn, hwts_pg_notify_holder, &args, &result);
	PQclear(result);
	return rc;
}
