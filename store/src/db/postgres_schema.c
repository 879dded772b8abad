/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables of a PostgreSQL store, and the kinds in them.
 *
 * bigints first, then ints: no padding.  No index has state, epoch or attempt, so that a begin is a HOT update; the
 * fillfactor leaves it room.  tx is the transaction that wrote due_us last: a look-ahead finds by it what became
 * visible behind its mark.
 */
#include "db/postgres.h"

#include <stdio.h>

static const char TABLES[] =
    "select pg_advisory_xact_lock(hashtext('@_meta'));"
    "create table if not exists @_meta (one int primary key check (one = 1), version int not null);"
    "create table if not exists @_kind (id int primary key, name text not null unique, shards int not null,"
    " mode int, horizon_us bigint not null);"
    "create table if not exists @_shard (epoch bigint not null, id int primary key, kind int not null, owner text)"
    " with (fillfactor = 50);"
    "create index if not exists @_shard_kind on @_shard (kind);"
    "create table if not exists @_member (incarnation bigint not null, until_us bigint not null, name text primary key,"
    " kinds int[] not null) with (fillfactor = 50);"
    "create sequence if not exists @_id increment by 1000;"
    "create table if not exists @_timeout (id bigint primary key, due_us bigint not null, base_us bigint not null,"
    " epoch bigint not null, period_us bigint not null, tx xid8 not null default pg_current_xact_id(),"
    " kind int not null, shard int not null, attempt int not null, state smallint not null,"
    " key bytea, error text, data bytea)"
    " with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);"
    "create index if not exists @_due on @_timeout (shard, due_us, id);"
    "create unique index if not exists @_key on @_timeout (kind, key) where key is not null;"
    "insert into @_meta values (1, 1) on conflict (one) do update set version = excluded.version"
    " where @_meta.version < excluded.version";

static int version_of(struct pg_conn *conn, int *version)
{
	struct pg_args args = { .n = 0 };
	char name[40];
	PGresult *result;
	int rc;

	*version = 0;
	(void)snprintf(name, sizeof(name), "%s_meta", conn->conn.db->prefix);
	hwts_pg_text(&args, name);
	rc = hwts_pg_one(conn, "select to_regclass($1::text) is not null", &args, &result);
	if (rc != 0)
		return rc;
	if (hwts_pg_get(result, 0, 0) == 1) {
		PQclear(result);
		rc = hwts_pg_one(conn, "select version from @_meta", NULL, &result);
		if (rc == 0 && PQntuples(result) == 1)
			*version = (int)hwts_pg_get(result, 0, 0);
	}
	PQclear(result);
	return rc;
}

int hwts_pg_prepare(struct hwts_conn *base)
{
	struct pg_conn *conn = pg_conn(base);
	int version = 0;
	int rc = hwts_pg_refuse_pooler(conn);

	if (rc == 0)
		rc = version_of(conn, &version);
	if (rc == 0 && version < HWTS_VERSION) {
		rc = hwts_pg_simple(conn, TABLES);
		if (rc == 0)
			rc = version_of(conn, &version);
	}
	if (rc == 0 && version > HWTS_VERSION)
		rc = hwts_fail(ENOTSUP,
			       "postgresql: the tables %s_* have version %d, this library knows %d; use a newer one",
			       base->db->prefix, version, HWTS_VERSION);
	return rc;
}

/*
 * Kinds
 */

static int read_kind(struct pg_conn *conn, const char *name, struct hwts_kind_row *out, bool *found)
{
	struct pg_args args = { .n = 0 };
	PGresult *result;
	int rc;

	hwts_pg_text(&args, name);
	rc = hwts_pg_one(conn, "select id, shards, mode, horizon_us from @_kind where name = $1::text", &args, &result);
	if (rc != 0)
		return rc;
	*found = PQntuples(result) == 1;
	if (*found)
		*out = (struct hwts_kind_row){
			.id = (int32_t)hwts_pg_get(result, 0, 0),
			.shards = (uint32_t)hwts_pg_get(result, 0, 1),
			.mode = PQgetisnull(result, 0, 2) ? HWTS_MODE_OPEN : (int)hwts_pg_get(result, 0, 2),
			.horizon_us = hwts_pg_get(result, 0, 3),
		};
	PQclear(result);
	return 0;
}

/* Makes it, or sets what the first registration of a kind sets that a put has made. */
static int make_kind(struct pg_conn *conn, const char *name, const struct hwts_kind_row *make)
{
	struct pg_args kind = { .n = 0 }, open = { .n = 0 }, shards = { .n = 0 };
	struct pg_step steps[] = {
		{ .text = "select pg_advisory_xact_lock(hashtext('@_kind'))" },
		{ .text = "select case when current_setting('synchronous_commit') in ('off', 'local')"
			  " then set_config('synchronous_commit', 'on', true) end" },
		{ .text =
		      "insert into @_kind (id, name, shards, mode, horizon_us)"
		      " select coalesce(max(id), 0) + 1, $1::text, $2::int, nullif($3::int, -1), $4::bigint from @_kind"
		      " on conflict (name) do nothing",
		  .args = &kind },
		{ .text = "update @_kind set mode = $2::int, horizon_us = $3::bigint"
			  " where name = $1::text and mode is null and $2::int >= 0",
		  .args = &open },
		{ .text = "insert into @_shard (id, kind, epoch, owner) select k.id * 1024 + i, k.id, 0, null from "
			  "@_kind k,"
			  " generate_series(0, k.shards - 1) i where k.name = $1::text on conflict (id) do nothing",
		  .args = &shards },
	};
	int rc;

	hwts_pg_text(&kind, name);
	hwts_pg_int4(&kind, (int32_t)make->shards);
	hwts_pg_int4(&kind, make->mode);
	hwts_pg_int8(&kind, make->horizon_us);
	hwts_pg_text(&open, name);
	hwts_pg_int4(&open, make->mode);
	hwts_pg_int8(&open, make->horizon_us);
	hwts_pg_text(&shards, name);
	rc = hwts_pg_run(conn, steps, HWTS_COUNT(steps));
	for (size_t i = 0; i < HWTS_COUNT(steps) && rc == 0; i++)
		rc = steps[i].rc;
	hwts_pg_clear(steps, HWTS_COUNT(steps));
	return rc;
}

int hwts_pg_kind(struct hwts_conn *base, const char *name, const struct hwts_kind_row *make, struct hwts_kind_row *out)
{
	struct pg_conn *conn = pg_conn(base);
	struct hwts_kind_row is = { 0 };
	bool found = false;
	int rc = read_kind(conn, name, &is, &found);

	if (rc == 0 && make && (!found || (is.mode == HWTS_MODE_OPEN && make->mode != HWTS_MODE_OPEN))) {
		rc = make_kind(conn, name, make);
		if (rc == 0)
			rc = read_kind(conn, name, &is, &found);
	}
	if (rc == 0 && !found)
		rc = hwts_fail(ENOENT, "there is no kind \"%s\"", name);
	if (rc == 0)
		*out = is;
	return rc == ECONNRESET ? ENOTCONN : rc;
}
