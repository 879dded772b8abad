/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Begins and ends in PostgreSQL.
 */
#include "db/postgres.h"

#include <stdlib.h>

/*
 * Begins
 *
 * The shard's row is locked FOR SHARE: a take updates it, so no begin of an old epoch commits after the take.
 * "t.shard + 0", "t.due_us + 0": the planner must go by the primary key, also while the table is empty.
 */

#define BEGIN_FROM                                                                                                     \
	"with c as materialized (select case when $4::bool then '' else set_config('synchronous_commit', 'off', true)" \
	" end x), n as materialized " PG_NOW ", s as materialized (select x.id, x.epoch from @_shard x"                \
	" join unnest($2::int[], $3::bigint[]) h(i, e) on x.id = h.i and x.epoch = h.e where x.owner = $7::text"       \
	" for share of x) update @_timeout t set state = 2, epoch = s.epoch, attempt = t.attempt + 1 from s, c, n"
#define BEGIN_WHERE                                                                                                    \
	" and t.shard + 0 = s.id and t.due_us + 0 <= n.us"                                                             \
	" and (t.state = 1 or (t.state = 2 and t.epoch >= s.epoch * $5::int and t.epoch < s.epoch + $6::int))"         \
	" returning t.id, t.due_us, t.base_us, t.period_us, t.attempt, t.key, t.data, n.us"

static const char BEGIN[] = BEGIN_FROM " where t.id = any($1::bigint[])" BEGIN_WHERE;
/* Without rows that another transaction has locked, for it may hold them as long as it likes. */
static const char BEGIN_UNLOCKED[] = BEGIN_FROM " where t.id = any(array(select u.id from @_timeout u where u.id = "
						"any($1::bigint[]) for update skip locked))" BEGIN_WHERE;

static int by_id(const void *left, const void *right)
{
	const struct hwts_want *const *a = left, *const *b = right;

	return ((*a)->id > (*b)->id) - ((*a)->id < (*b)->id);
}

static struct hwts_want *want_of(struct hwts_want **sorted, size_t n, int64_t id)
{
	struct hwts_want key = { .id = id }, *at = &key, **found = bsearch(&at, sorted, n, sizeof(*sorted), by_id);

	return found ? *found : NULL;
}

static void begin_args(struct pg_args *args, const struct hwts_want *wants, size_t n, bool synced, bool again,
		       const char *me)
{
	size_t shards = 0;
	const struct hwts_want *seen[64] = { NULL };

	PG_INT8S(args, n, wants[i].id);
	/* Each shard once, as far as that is cheap: a lock that is taken twice costs time and nothing else. */
	for (size_t i = 0, j; i < n && shards < HWTS_COUNT(seen); i++) {
		for (j = 0; j < shards && (seen[j]->shard != wants[i].shard || seen[j]->epoch != wants[i].epoch); j++)
			;
		if (j == shards)
			seen[shards++] = &wants[i];
	}
	if (shards == HWTS_COUNT(seen))
		shards = n;
	PG_INT4S(args, shards, shards == n ? wants[i].shard : seen[i]->shard);
	PG_INT8S(args, shards, shards == n ? wants[i].epoch : seen[i]->epoch);
	hwts_pg_bool(args, synced);
	hwts_pg_int4(args, synced); /* at most once: nothing of an older epoch */
	hwts_pg_int4(args, again);
	hwts_pg_text(args, me);
}

static int read_begun(const PGresult *result, struct hwts_want **sorted, size_t n)
{
	for (int i = 0; i < PQntuples(result); i++) {
		struct hwts_want *want = want_of(sorted, n, hwts_pg_get(result, i, 0));
		struct hwts_row *row;

		if (!want || want->row)
			continue;
		row = hwts_row_make(PQgetisnull(result, i, 5) ? NULL : PQgetvalue(result, i, 5),
				    (size_t)PQgetlength(result, i, 5), PQgetvalue(result, i, 6),
				    (size_t)PQgetlength(result, i, 6));
		if (!row)
			return ENOMEM;
		row->id = want->id;
		row->shard = want->shard;
		row->epoch = want->epoch;
		row->due_us = hwts_pg_get(result, i, 1);
		row->base_us = hwts_pg_get(result, i, 2);
		row->period_us = hwts_pg_get(result, i, 3);
		row->attempt = (unsigned)hwts_pg_get(result, i, 4);
		row->now_us = hwts_pg_get(result, i, 7);
		want->row = row;
	}
	return 0;
}

/* Reads which of the rows that were not begun are pending, and when they are due; which shards are lost. */
static int read_others(struct pg_conn *conn, struct hwts_want *wants, struct hwts_want **sorted, size_t n)
{
	struct pg_args args = { .n = 0 };
	PGresult *result;
	size_t left = 0;
	int rc;

	for (size_t i = 0; i < n; i++)
		left += !wants[i].row;
	if (left == 0)
		return 0;
	hwts_pg_array(&args, PG_INT8, left);
	for (size_t i = 0; i < n; i++)
		if (!wants[i].row)
			hwts_pg_item_int8(&args, wants[i].id);
	rc = hwts_pg_one(conn,
			 "select t.id, t.due_us, s.epoch from @_timeout t join @_shard s on s.id = t.shard"
			 " where t.id = any($1::bigint[]) and t.state = 1",
			 &args, &result);
	for (int i = 0; rc == 0 && i < PQntuples(result); i++) {
		struct hwts_want *want = want_of(sorted, n, hwts_pg_get(result, i, 0));

		if (!want || want->row)
			continue;
		want->due_us = hwts_pg_get(result, i, 1);
		want->lost = hwts_pg_get(result, i, 2) != want->epoch;
	}
	PQclear(result);
	return rc;
}

/* ECONNRESET: committed, and what came back is not known to be all. */
static int begin_with(struct pg_conn *conn, const char *text, struct hwts_want *wants, struct hwts_want **sorted,
		      size_t n, bool synced, bool again)
{
	struct pg_args args = { .n = 0 };
	PGresult *result;
	int rc;

	begin_args(&args, wants, n, synced, again, hwts_me(conn->conn.db));
	rc = hwts_pg_one(conn, text, &args, &result);
	if (rc == 0 && read_begun(result, sorted, n) != 0)
		rc = ECONNRESET;
	PQclear(result);
	return rc;
}

int hwts_pg_begin(struct hwts_conn *base, struct hwts_want *wants, size_t n, bool synced, bool again)
{
	struct pg_conn *conn = pg_conn(base);
	struct hwts_want **sorted = hwts_alloc(n * sizeof(struct hwts_want *));
	int rc;

	for (size_t i = 0; i < n; i++) {
		wants[i].row = NULL;
		wants[i].due_us = HWTS_NEVER;
		wants[i].lost = false;
		if (sorted)
			sorted[i] = &wants[i];
	}
	if (!sorted)
		return ENOMEM;
	qsort(sorted, n, sizeof(struct hwts_want *), by_id);
	rc = begin_with(conn, BEGIN, wants, sorted, n, synced, again);
	if (rc == EAGAIN && !base->broken)
		rc = begin_with(conn, BEGIN_UNLOCKED, wants, sorted, n, synced, again);
	if (rc == 0 && read_others(conn, wants, sorted, n) != 0)
		rc = ECONNRESET; /* the begin is committed, and its rows are not handed out */
	base->broken |= rc == ECONNRESET;
	for (size_t i = 0; i < n && rc != 0; i++) {
		free(wants[i].row);
		wants[i].row = NULL;
	}
	free(sorted);
	return rc;
}

/*
 * Ends
 */

static bool ends_by(const struct hwts_row *row, int step)
{
	return step == (row->how == HWTS_DONE ? 0 : row->how == HWTS_FAIL ? 2 : 1);
}

static const char END_DONE[] = "delete from @_timeout t using unnest($1::bigint[], $2::bigint[]) e(i, p)"
			       " where t.id = e.i and t.state = 2 and t.epoch = e.p returning t.id, 0::bigint";
static const char END_AGAIN[] =
    "with c as materialized (select case when $9::bool then set_config('synchronous_commit',"
    " current_setting('hwt_store.synced'), true) else '' end x), n as materialized " PG_NOW
    " update @_timeout t set state = 1, epoch = 0, due_us = w.us,"
    " base_us = case when t.period_us > 0 then e.b else w.us end, attempt = e.a, error = nullif(e.t, ''),"
    " tx = pg_current_xact_id()"
    " from c, n, unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bool[], $5::bigint[], $6::bigint[], $7::int[], "
    "$8::text[])"
    " e(i, p, w, after, l, b, a, t), lateral (select case when e.after then least(n.us + e.w, e.l) else e.w end us) w"
    " where t.id = e.i and t.state = 2 and t.epoch = e.p returning t.id, t.due_us";
static const char END_FAIL[] = "update @_timeout t set state = 3, shard = -1 - t.shard, error = e.t"
			       " from unnest($1::bigint[], $2::bigint[], $3::text[]) e(i, p, t)"
			       " where t.id = e.i and t.state = 2 and t.epoch = e.p returning t.id, 0::bigint";

#define FOR_ROWS(row)                                                                                                  \
	for (const struct hwts_row *(row) = rows; (row); (row) = (row)->next)                                          \
		if (ends_by((row), step))

static void end_args(struct pg_args *args, const struct hwts_row *rows, int step, size_t n)
{
	bool synced = false;

	hwts_pg_array(args, PG_INT8, n);
	FOR_ROWS(row) hwts_pg_item_int8(args, row->id);
	hwts_pg_array(args, PG_INT8, n);
	FOR_ROWS(row) hwts_pg_item_int8(args, row->epoch);
	if (step == 1) {
		hwts_pg_array(args, PG_INT8, n);
		FOR_ROWS(row) hwts_pg_item_int8(args, row->when_us);
		hwts_pg_array(args, PG_BOOL, n);
		FOR_ROWS(row) hwts_pg_item_bool(args, row->how == HWTS_AFTER);
		hwts_pg_array(args, PG_INT8, n);
		FOR_ROWS(row) hwts_pg_item_int8(args, row->limit_us);
		hwts_pg_array(args, PG_INT8, n);
		FOR_ROWS(row) hwts_pg_item_int8(args, row->next_base_us);
		hwts_pg_array(args, PG_INT4, n);
		FOR_ROWS(row) hwts_pg_item_int4(args, (int32_t)row->next_attempt);
		FOR_ROWS(row) synced |= row->synced;
	}
	if (step == 0)
		return;
	hwts_pg_array(args, PG_TEXT, n);
	FOR_ROWS(row) hwts_pg_item_bytes(args, row->error, strlen(row->error));
	if (step == 1)
		hwts_pg_bool(args, synced);
}

static void read_ends(const PGresult *result, struct hwts_row *rows)
{
	for (int i = 0; i < PQntuples(result); i++) {
		int64_t id = hwts_pg_get(result, i, 0);

		/* They mostly come back in the order in which they went. */
		for (struct hwts_row *row = rows; row; row = row->next) {
			if (row->id != id || row->hit)
				continue;
			row->hit = true;
			if (row->how == HWTS_AFTER) {
				row->when_us = hwts_pg_get(result, i, 1);
				row->how = HWTS_AT;
			}
			break;
		}
	}
}

int hwts_pg_end(struct hwts_conn *base, struct hwts_row *rows)
{
	static const char *const texts[] = { END_DONE, END_AGAIN, END_FAIL };
	struct pg_args args[3] = { { .n = 0 } };
	struct pg_step steps[3];
	size_t used = 0;
	int rc;

	for (int step = 0; step < 3; step++) {
		size_t n = 0;

		FOR_ROWS(row) n++;
		if (n == 0)
			continue;
		end_args(&args[used], rows, step, n);
		steps[used] = (struct pg_step){ .text = texts[step], .args = &args[used] };
		used++;
	}
	for (struct hwts_row *row = rows; row; row = row->next)
		row->hit = false;
	rc = hwts_pg_run(pg_conn(base), steps, used);
	for (size_t i = 0; i < used && rc == 0; i++)
		rc = steps[i].rc;
	for (size_t i = 0; i < used && rc == 0; i++)
		read_ends(steps[i].result, rows);
	hwts_pg_clear(steps, used);
	return rc;
}

/*
 * A run in a transaction
 */

int hwts_pg_open_run(struct hwts_conn *base, void **handle)
{
	struct pg_conn *conn = pg_conn(base);
	/* The savepoint is gone if the task ends the transaction. */
	int rc = hwts_pg_simple(conn, "begin; savepoint hwt_run");

	if (rc != 0) {
		hwts_pg_drop_run(base);
		return rc;
	}
	*handle = conn->handle;
	return 0;
}

/* Nothing ended: 1/0, and the commit behind it in the pipeline does not happen. */
static const char CLOSE_DONE[] =
    "with d as (delete from @_timeout where id = $1::bigint and state = 2 and epoch = $2::bigint"
    " returning 1) select 1 / (select count(*) from d)";
static const char CLOSE_AGAIN[] =
    "with d as (update @_timeout set state = 1, epoch = 0, due_us = $3::bigint, base_us = $4::bigint, attempt = 0, "
    "error = null,"
    " tx = pg_current_xact_id() where id = $1::bigint and state = 2 and epoch = $2::bigint returning 1)"
    " select 1 / (select count(*) from d)";

static bool is_state(const struct pg_step *step, const char *state)
{
	const char *is = step->result ? PQresultErrorField(step->result, PG_DIAG_SQLSTATE) : NULL;

	return is && strcmp(is, state) == 0;
}

int hwts_pg_close_run(struct hwts_conn *base, const struct hwts_row *row)
{
	struct pg_conn *conn = pg_conn(base);
	struct pg_args args = { .n = 0 };
	struct pg_step steps[] = {
		{ .text = "release savepoint hwt_run" },
		{ .text = row->how == HWTS_DONE ? CLOSE_DONE : CLOSE_AGAIN, .args = &args },
		{ .text = "commit" },
	};
	int rc = 0;

	if (PQstatus(conn->handle) != CONNECTION_OK)
		rc = hwts_pg_error(conn, NULL, "run");
	else if (PQtransactionStatus(conn->handle) == PQTRANS_IDLE)
		rc = hwts_fail(EPROTO, "the task ended the transaction that it was given");
	else if (PQtransactionStatus(conn->handle) != PQTRANS_INTRANS)
		rc = hwts_fail(EPROTO, "a statement of the task failed, and the task returned 0");
	if (rc == 0) {
		hwts_pg_int8(&args, row->id);
		hwts_pg_int8(&args, row->epoch);
		if (row->how != HWTS_DONE) {
			hwts_pg_int8(&args, row->when_us);
			hwts_pg_int8(&args, row->next_base_us);
		}
		HWTS_POINT("close_run");
		rc = hwts_pg_run(conn, steps, HWTS_COUNT(steps));
		if (rc == 0 && is_state(&steps[0], "3B001"))
			rc = hwts_fail(EPROTO, "the task ended the transaction that it was given");
		else if (rc == 0 && is_state(&steps[1], "22012"))
			rc = hwts_fail(ESTALE, "timeout %lld was taken over while it ran", (long long)row->id);
		for (size_t i = 0; i < HWTS_COUNT(steps) && rc == 0; i++)
			rc = steps[i].rc;
		hwts_pg_clear(steps, HWTS_COUNT(steps));
	}
	if (rc != 0) {
		char text[512];

		hwts_cut(text, sizeof(text), hwts_fail_text(), strlen(hwts_fail_text()));
		hwts_pg_drop_run(base);
		(void)hwts_fail(rc, "%s", text);
	}
	return rc;
}

void hwts_pg_drop_run(struct hwts_conn *base)
{
	struct pg_conn *conn = pg_conn(base);
	PGTransactionStatusType status = PQtransactionStatus(conn->handle);

	if (status == PQTRANS_IDLE)
		return;
	/* In the middle of a copy, say: a new connection is cheaper than to find out. */
	if ((status != PQTRANS_INTRANS && status != PQTRANS_INERROR) || hwts_pg_simple(conn, "rollback") != 0)
		base->broken = true;
}
