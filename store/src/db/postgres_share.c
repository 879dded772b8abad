/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Leases, shards, the look-ahead and news in PostgreSQL.
 *
 * A look reads each shard from its mark on.  A transaction may commit after the look that should have seen its row, so
 * a look also reads what lies before the mark and was written by a transaction that was not finished at the last full
 * look (tx >= xmin of its snapshot).  A look at some of the shards must not move xmin: the others have not been read.
 */
#include "db/postgres.h"

#include <stdio.h>
#include <stdlib.h>

#define CALL_OTHERS "select pg_notify('@_members', '')"

/* Steps in one transaction; the first failure. */
static int run_all(struct pg_conn *conn, struct pg_step *steps, size_t n)
{
	int rc = hwts_pg_run(conn, steps, n);

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = steps[i].rc;
	return rc;
}

int hwts_pg_join(struct hwts_conn *base, const int32_t *kinds, size_t n, bool force)
{
	struct pg_args args = { .n = 0 };
	struct pg_step steps[] = {
		{ .text =
		      "insert into @_member as m (name, incarnation, until_us, kinds)"
		      " select $1::text, $2::bigint, n.us + $3::bigint, $4::int[] from " PG_NOW " n"
		      " on conflict (name) do update set incarnation = excluded.incarnation,"
		      " until_us = excluded.until_us, kinds = excluded.kinds"
		      " where $5::bool or m.incarnation = $2::bigint or m.until_us <= excluded.until_us - $3::bigint"
		      " returning 1",
		  .args = &args },
		{ .text = CALL_OTHERS },
	};
	int rc;

	hwts_pg_text(&args, hwts_me(base->db));
	hwts_pg_int8(&args, base->db->incarnation);
	hwts_pg_int8(&args, base->db->lease_us);
	PG_INT4S(&args, n, kinds[i]);
	hwts_pg_bool(&args, force);
	rc = run_all(pg_conn(base), steps, 2);
	if (rc == 0 && PQntuples(steps[0].result) == 0)
		rc = hwts_fail(EEXIST, "the name %s is in use by another process", hwts_me(base->db));
	hwts_pg_clear(steps, 2);
	return rc;
}

int hwts_pg_leave(struct hwts_conn *base)
{
	struct pg_args args = { .n = 0 };
	struct pg_step steps[] = {
		{ .text = "delete from @_member where name = $1::text and incarnation = $2::bigint", .args = &args },
		{ .text = CALL_OTHERS },
	};
	int rc;

	hwts_pg_text(&args, hwts_me(base->db));
	hwts_pg_int8(&args, base->db->incarnation);
	rc = run_all(pg_conn(base), steps, 2);
	hwts_pg_clear(steps, 2);
	return rc;
}

/*
 * Looking
 */

static void renew_args(struct pg_args *args, const struct hwts_db *db, const struct hwts_look *look)
{
	hwts_pg_text(args, hwts_me(db));
	hwts_pg_int8(args, db->lease_us);
	hwts_pg_int8(args, db->incarnation);
	PG_INT4S(args, look->kind_count, look->kinds[i]);
}

static int read_shards(struct hwts_look *look, const PGresult *result)
{
	for (int row = 0; row < PQntuples(result); row++) {
		struct hwts_shard_row shard = {
			.shard = (int32_t)hwts_pg_get(result, row, 0),
			.epoch = hwts_pg_get(result, row, 1),
			.mine = hwts_pg_get(result, row, 2) == 1,
			.free = hwts_pg_get(result, row, 3) == 1,
			.left_us = hwts_pg_get(result, row, 4),
		};

		look->renewed = hwts_pg_get(result, row, 6) == 1;
		for (size_t i = 0; i < look->kind_count; i++)
			if (look->kinds[i] == shard.shard / HWTS_SHARDS_MAX)
				look->members[i] = (uint32_t)hwts_pg_get(result, row, 5);
		if (!hwts_look_shard(look, &shard))
			return ENOMEM;
	}
	return 0;
}

static void look_args(struct pg_args *args, const struct hwts_look *look)
{
	char xmin[32];
	size_t n = look->held_count;

	PG_INT4S(args, n, look->held[i].shard);
	PG_INT8S(args, n, look->held[i].epoch);
	PG_INT8S(args, n, look->held[i].horizon_us);
	PG_INT8S(args, n, look->held[i].mark_due_us);
	PG_INT8S(args, n, look->held[i].mark_id);
	hwts_pg_int8(args, (int64_t)look->page);
	(void)snprintf(xmin, sizeof(xmin), "%llu", (unsigned long long)look->xmin);
	hwts_pg_text(args, xmin);
	hwts_pg_int8(args, look->renew ? look->overdue_us : HWTS_LATEST_US);
	hwts_pg_bool(args, look->renew);
}

#define SHARDS_AND_MARKS "unnest($1::int[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) m(s, e, h, d, i)"
#define MAY_BEGIN "(t.state = 1 or (t.state = 2 and t.epoch < m.e))"
#define ROW "t.id, t.due_us, t.shard, coalesce(octet_length(t.data), 0)"

/*
 * Rows are (part, id, due_us, shard, len).  Part 0 is one row with the clock and xmin, 1 what lies beyond the marks, 2
 * what became visible before them, 3 what is overdue, and 4 what is overdue and runs under the epoch that is held.
 *
 * Pages that are read on have no part 2, which reads all that lies before the marks.  What becomes visible behind such
 * a page is found by the next look that renews: its xmin is older.
 */
static const char LOOK[] =
    "with n as materialized " PG_NOW
    " select 0 part, pg_snapshot_xmin(pg_current_snapshot())::text::bigint, n.us, 0, 0 from n"
    " union all select 1, x.* from " SHARDS_AND_MARKS ", n, lateral (select " ROW " from @_timeout t"
    " where t.shard = m.s and (t.due_us, t.id) > (m.d, m.i) and t.due_us < n.us + m.h and " MAY_BEGIN
    " order by t.due_us, t.id limit $6::bigint) x"
    " union all select 2, x.* from " SHARDS_AND_MARKS ", lateral (select " ROW " from @_timeout t"
    " where $9::bool and t.shard = m.s and (t.due_us, t.id) <= (m.d, m.i) and t.tx >= $7::text::xid8"
    " and " MAY_BEGIN ") x"
    " union all select x.* from " SHARDS_AND_MARKS ", n, lateral (select case when " MAY_BEGIN
    " then 3 else 4 end, " ROW
    " from @_timeout t where t.shard = m.s and t.due_us < n.us - $8::bigint and (t.state = 1 or (t.state = 2 and"
    " t.epoch <= m.e)) order by t.due_us, t.id limit $6::bigint) x";

static struct hwts_held *held_of(struct hwts_look *look, int32_t shard)
{
	for (size_t i = 0; i < look->held_count; i++)
		if (look->held[i].shard == shard)
			return &look->held[i];
	return NULL;
}

/* Rows of some parts, in their order: a mark goes with the rows of part 1. */
static int read_rows(struct hwts_look *look, const PGresult *result, int from, int to, size_t *seen)
{
	for (int row = 0; row < PQntuples(result); row++) {
		struct hwts_due due = { hwts_pg_get(result, row, 1), hwts_pg_get(result, row, 2),
					(int32_t)hwts_pg_get(result, row, 3), (uint32_t)hwts_pg_get(result, row, 4) };
		struct hwts_held *held = held_of(look, due.shard);
		int64_t part = hwts_pg_get(result, row, 0);

		if (part == 1 && from == 1 && held) {
			seen[held - look->held]++;
			held->mark_due_us = due.due_us;
			held->mark_id = due.id;
		}
		if (part >= from && part <= to && !hwts_look_due(look, &due))
			return ENOMEM;
		if (part == 0 && look->renew)
			look->xmin = (uint64_t)due.id;
		if (part == 0)
			look->now_us = due.due_us;
	}
	return 0;
}

static int read_dues(struct hwts_look *look, const PGresult *result)
{
	size_t *seen = hwts_alloc(look->held_count * sizeof(*seen));
	int rc = seen ? read_rows(look, result, 1, 2, seen) : ENOMEM;

	look->overdue_from = look->due_count;
	if (rc == 0)
		rc = read_rows(look, result, 3, 3, seen);
	look->running_from = look->due_count;
	if (rc == 0)
		rc = read_rows(look, result, 4, 4, seen);
	for (size_t i = 0; i < look->held_count && rc == 0; i++) {
		struct hwts_held *held = &look->held[i];

		held->full = seen[i] >= look->page;
		if (!held->full && look->now_us + held->horizon_us > held->mark_due_us) {
			held->mark_due_us = look->now_us + held->horizon_us;
			held->mark_id = 0;
		}
	}
	free(seen);
	return rc;
}

static const char RENEW[] =
    "with n as materialized " PG_NOW ", r as (update @_member set until_us = n.us + $2::bigint from n"
    " where name = $1::text and incarnation = $3::bigint and until_us > n.us returning 1)"
    " select s.id, s.epoch, s.owner = $1::text, s.owner is null or coalesce(m.until_us, 0) <= n.us,"
    " coalesce(m.until_us - n.us, 0), (select count(*) from @_member l where l.until_us > n.us and s.kind = "
    "any(l.kinds)),"
    " (select count(*) from r), n.us from n cross join @_shard s left join @_member m on m.name = s.owner"
    " where s.kind = any($4::int[])";

int hwts_pg_look(struct hwts_conn *base, struct hwts_look *look)
{
	struct pg_conn *conn = pg_conn(base);
	struct pg_args renew = { .n = 0 }, ahead = { .n = 0 };
	struct pg_step steps[2] = { { .text = RENEW, .args = &renew, .sync = true },
				    { .text = LOOK, .args = &ahead, .sync = true } };
	size_t from = look->renew ? 0 : 1;
	int rc;

	look->shard_count = look->due_count = 0;
	look->renewed = look->renewed && !look->renew;
	if (look->renew)
		renew_args(&renew, base->db, look);
	look_args(&ahead, look);
	look->sent_ns = hwt_now();
	rc = run_all(conn, steps + from, 2 - from);
	look->reply_ns = hwt_now();
	if (rc == 0 && look->renew)
		rc = read_shards(look, steps[0].result);
	if (rc == 0)
		rc = read_dues(look, steps[1].result);
	hwts_pg_clear(steps, 2);
	return rc;
}

/*
 * Taking, giving
 */

/*
 * Each statement must see what was committed before the one before it had its locks.  The first notes that the leases
 * of the owners are over.  Without it a renewal that has read the clock just before the end could commit after the
 * take, and its process would trust it, and start what it had begun in these shards.
 */
int hwts_pg_take(struct hwts_conn *base, struct hwts_shard_row *shards, size_t n)
{
	struct pg_args over = { .n = 0 }, take = { .n = 0 }, fail = { .n = 0 };
	struct pg_step steps[] = {
		{ .text = "with n as materialized " PG_NOW
			  " update @_member m set until_us = 0 from n where m.until_us > 0"
			  " and m.until_us <= n.us and m.name in (select owner from @_shard where id = any($1::int[]))",
		  .args = &over },
		{ .text = "with n as materialized " PG_NOW " update @_shard s set epoch = s.epoch + 1, owner = $1::text"
			  " from unnest($2::int[], $3::bigint[]) t(i, e), n where s.id = t.i and s.epoch = t.e"
			  " and (s.owner is null or s.owner = $1::text or not exists (select 1 from @_member m"
			  " where m.name = s.owner and m.until_us > n.us)) returning s.id, s.epoch",
		  .args = &take },
		{ .text = "with n as materialized " PG_NOW " update @_timeout t set state = 3, shard = -1 - t.shard,"
			  " error = 'its process died or was cut off while it ran' from @_shard s, n,"
			  " unnest($2::int[], $3::bigint[], $4::bool[]) h(i, e, f)"
			  " where h.f and s.id = h.i and s.epoch = h.e + 1 and s.owner = $1::text and t.shard = s.id"
			  " and t.due_us < n.us + 86400000000 and t.state = 2",
		  .args = &fail },
	};
	bool fails = false;
	int rc;

	for (size_t i = 0; i < n; i++)
		fails |= shards[i].fail_running;
	PG_INT4S(&over, n, shards[i].shard);
	hwts_pg_text(&take, hwts_me(base->db));
	PG_INT4S(&take, n, shards[i].shard);
	PG_INT8S(&take, n, shards[i].epoch);
	hwts_pg_text(&fail, hwts_me(base->db));
	PG_INT4S(&fail, n, shards[i].shard);
	PG_INT8S(&fail, n, shards[i].epoch);
	PG_BOOLS(&fail, n, shards[i].fail_running);
	rc = run_all(pg_conn(base), steps, fails ? 3 : 2);
	for (size_t i = 0; i < n && rc == 0; i++) {
		shards[i].epoch = 0;
		for (int row = 0; row < PQntuples(steps[1].result); row++)
			if (hwts_pg_get(steps[1].result, row, 0) == shards[i].shard)
				shards[i].epoch = hwts_pg_get(steps[1].result, row, 1);
	}
	hwts_pg_clear(steps, 3);
	return rc;
}

int hwts_pg_give(struct hwts_conn *base, const struct hwts_shard_row *shards, size_t n)
{
	struct pg_args args = { .n = 0 };
	struct pg_step steps[] = {
		{ .text = "update @_shard s set owner = null from unnest($2::int[], $3::bigint[]) t(i, e)"
			  " where s.id = t.i and s.epoch = t.e and s.owner = $1::text",
		  .args = &args },
		{ .text = CALL_OTHERS },
	};
	int rc;

	hwts_pg_text(&args, hwts_me(base->db));
	PG_INT4S(&args, n, shards[i].shard);
	PG_INT8S(&args, n, shards[i].epoch);
	rc = run_all(pg_conn(base), steps, 2);
	hwts_pg_clear(steps, 2);
	return rc;
}

/*
 * News
 */

int hwts_pg_listen(struct hwts_conn *base, const struct hwts_shard_row *shards, size_t n, bool on)
{
	char *text = hwts_alloc((n + 1) * 32), *at = text;
	int rc;

	if (!text)
		return ENOMEM;
	if (on)
		at += sprintf(at, "listen @_members;");
	for (size_t i = 0; i < n; i++)
		at += sprintf(at, "%s @_%d;", on ? "listen" : "unlisten", (int)shards[i].shard);
	rc = at == text ? 0 : hwts_pg_simple(pg_conn(base), text);
	free(text);
	return rc;
}

int hwts_pg_news_fd(struct hwts_conn *base)
{
	return PQsocket(pg_conn(base)->handle);
}

/* Reads a number and the character that must follow it, if any; what is beyond the range is the end of the range. */
static bool read_number(const char **news, char behind, int64_t *number)
{
	char *end;

	*number = strtoll(*news, &end, 10);
	if (end == *news || (behind && *end != behind))
		return false;
	*news = behind ? end + 1 : end;
	return true;
}

/* "id:due:len,..." */
static void hear_rows(const char *news, int32_t shard, hwts_hear *hear, void *ctx)
{
	int64_t id, due_us, len;

	while (read_number(&news, ':', &id) && read_number(&news, ':', &due_us) && read_number(&news, '\0', &len)) {
		len = HWTS_MAX(HWTS_MIN(len, (int64_t)HWT_STORE_DATA_MAX), 0);
		if (id > 0)
			hear(ctx, &(struct hwts_due){ id, due_us, shard, (uint32_t)len });
		if (*news != ',')
			break;
		news++;
	}
}

int hwts_pg_news(struct hwts_conn *base, bool signalled, hwts_hear *hear, void *ctx, int64_t *again_ns)
{
	struct pg_conn *conn = pg_conn(base);
	size_t prefix = strlen(base->db->prefix) + 1;
	PGnotify *notify;

	*again_ns = 0;
	if (signalled && !PQconsumeInput(conn->handle)) {
		base->broken = true;
		return hwts_fail(ENOTCONN, "postgresql: the connection broke: %s", PQerrorMessage(conn->handle));
	}
	while ((notify = PQnotifies(conn->handle)) != NULL) {
		const char *channel = notify->relname + prefix;

		if (HWTS_TEST(deaf) || strlen(notify->relname) <= prefix)
			;
		else if (strcmp(channel, "members") == 0)
			hear(ctx, &(struct hwts_due){ .id = 0 });
		else if (notify->extra[0] == 'r')
			hear(ctx, &(struct hwts_due){ .id = -1 });
		else
			hear_rows(notify->extra, (int32_t)strtol(channel, NULL, 10), hear, ctx);
		PQfreemem(notify);
	}
	if (PQstatus(conn->handle) != CONNECTION_OK) {
		base->broken = true;
		return hwts_fail(ENOTCONN, "postgresql: the connection broke");
	}
	return 0;
}
