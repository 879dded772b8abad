/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cancels and reschedules in PostgreSQL, and the statement that brings news of a row to its holder.
 */
#include "db/postgres.h"

/* $1: ids, $2: this process, which needs no news of what it does itself. */
#define NOTIFY                                                                                                         \
	"select pg_notify('@_' || x.shard, case when length(x.news) > 7000 then 'r' else x.news end) from ("           \
	"select t.shard, string_agg(t.id || ':' || t.due_us || ':' || coalesce(octet_length(t.data), 0), ',') news"    \
	" from @_timeout t join @_shard s on s.id = t.shard join @_kind k on k.id = t.kind, " PG_NOW " n"              \
	" where t.id = any($1::bigint[]) and t.state = 1 and s.owner is not null"                                      \
	" and t.due_us < n.us + k.horizon_us + 1000000"

const char hwts_pg_notify_others[] = NOTIFY " and s.owner <> $2::text group by t.shard) x";
const char hwts_pg_notify_holder[] = NOTIFY " group by t.shard) x";

/* Why a row could not be had; 0: it has just changed, try again. */
static int why_not(const PGresult *result, int column, int64_t id)
{
	if (PQgetisnull(result, 0, column))
		return hwts_fail(ENOENT, "there is no timeout %lld", (long long)id);
	if (hwts_pg_get(result, 0, column) == HWT_STORE_RUNNING)
		return hwts_fail(EBUSY, "timeout %lld is running", (long long)id);
	return 0;
}

int hwts_pg_cancel(struct hwts_conn *base, int64_t id)
{
	for (int tries = 0; tries < 100; tries++) {
		struct pg_args args = { .n = 0 };
		PGresult *result;
		bool had;
		int rc;

		hwts_pg_int8(&args, id);
		rc =
		    hwts_pg_one(pg_conn(base),
				"with d as (delete from @_timeout where id = $1::bigint and state <> 2 returning 1)"
				" select (select count(*) from d), (select state from @_timeout where id = $1::bigint)",
				&args, &result);
		if (rc != 0)
			return rc;
		had = hwts_pg_get(result, 0, 0) == 1;
		rc = had ? 0 : why_not(result, 1, id);
		PQclear(result);
		if (had || rc != 0)
			return rc;
		hwts_sleep_ns(HWT_MS(1));
	}
	return hwts_fail(EAGAIN, "timeout %lld changes all the time: try again", (long long)id);
}

static int reschedule_once(struct pg_conn *conn, int64_t id, int64_t delay_us, struct hwts_due *due)
{
	struct pg_args args = { .n = 0 }, news = { .n = 0 };
	struct pg_step steps[] = {
		{ .text = "with n as materialized " PG_NOW ", u as (update @_timeout t set due_us = n.us + $2::bigint,"
			  " base_us = n.us + $2::bigint, attempt = case when t.state = 3 then 0 else t.attempt end,"
			  " shard = case when t.shard < 0 then -1 - t.shard else t.shard end, epoch = 0, state = 1,"
			  " tx = pg_current_xact_id() from n where t.id = $1::bigint and t.state <> 2"
			  " returning t.shard, t.due_us, coalesce(octet_length(t.data), 0) len)"
			  " select u.shard, u.due_us, u.len, (select state from @_timeout where id = $1::bigint)"
			  " from (select 1) one left join u on true",
		  .args = &args,
		  .sync = true },
		{ .text = hwts_pg_notify_others, .args = &news, .sync = true },
	};
	bool soon = delay_us < 3600 * HWTS_S_US; /* the horizon is known to the statement */
	int rc;

	hwts_pg_int8(&args, id);
	hwts_pg_int8(&args, delay_us);
	PG_INT8S(&news, 1, id);
	hwts_pg_text(&news, hwts_me(conn->conn.db));
	rc = hwts_pg_run(conn, steps, soon ? 2 : 1);
	if (rc == 0)
		rc = steps[0].rc;
	if (rc == 0 && PQgetisnull(steps[0].result, 0, 0)) {
		rc = why_not(steps[0].result, 3, id);
		rc = rc ? rc : EINTR;
	} else if (rc == 0) {
		*due = (struct hwts_due){ id, hwts_pg_get(steps[0].result, 0, 1),
					  (int32_t)hwts_pg_get(steps[0].result, 0, 0),
					  (uint32_t)hwts_pg_get(steps[0].result, 0, 2) };
	}
	hwts_pg_clear(steps, 2);
	return rc;
}

int hwts_pg_reschedule(struct hwts_conn *base, int64_t id, int64_t delay_us, struct hwts_due *due)
{
	for (int tries = 0; tries < 100; tries++) {
		int rc = reschedule_once(pg_conn(base), id, delay_us, due);

		if (rc != EINTR)
			return rc;
		hwts_sleep_ns(HWT_MS(1));
	}
	return hwts_fail(EAGAIN, "timeout %lld changes all the time: try again", (long long)id);
}
