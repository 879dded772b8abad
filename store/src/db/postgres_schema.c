/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables of a PostgreSQL store.
 *
 * What follows the prefix has no underscore, in names that the server would choose too, so that no two stores collide:
 * "hwt" has an index hwt_ofkind, and hwt_shard_kind is a table of "hwt_shard".
 *
 * bigints first, then ints: no padding; what few rows have is null, which takes no room.  No index has state, epoch or
 * attempt, so that a begin is a HOT update; the fillfactor leaves it room.  tx is the transaction that wrote due_us
 * last: a look-ahead finds by it what became visible behind its mark.
 *
 * Each unique index has the bucket, so that the table may be partitioned by it.  In the primary key the id leads:
 * begins and ends find their rows by id = any(...), many at once.  No plan may look for an id in the index by due time,
 * so that has a predicate which such a statement does not imply; each row meets it.
 */
#include "db/postgres.h"
#include "db/views.h"

#include <stdio.h>
#include <stdlib.h>

#define NOW "extract(epoch from clock_timestamp()) * 1000000"
#define MOMENT(us) "to_timestamp(" us " / 1000000.0)"
/* Only a database of this encoding has room for all that the bytes may say. */
#define AS_TEXT(text)                                                                                                  \
	"case getdatabaseencoding() when 'UTF8' then convert_from(" text ", 'UTF8') else encode(" text ", 'escape') "  \
	"end"
#define SECONDS(us) "trim_scale(" us " / 1000000.0) || ' s'"

static const char VIEWS[] = HWTS_PG_BE_OWNER HWTS_VIEWS("create or replace view", NOW, MOMENT, AS_TEXT, SECONDS);

static const char TABLES[] =
    "create table @_meta (one int primary key check (one = 1), version int not null,"
    " next_number bigint not null, store text not null);"
    "create table @_kind (id int primary key, name text not null constraint \"@_name\" unique,"
    " shards int not null, mode int, horizon_us bigint not null, paused bool not null default false, running int,"
    " start_every_us bigint, burst int, removed bool);"
    "create table @_shard (epoch bigint not null, rules bigint not null default 0, id int primary key,"
    " kind int not null, owner text, levels bytea) with (fillfactor = 50);"
    "create index \"@_ofkind\" on @_shard (kind);"
    "create table @_member (incarnation bigint not null, until_us bigint not null, name text primary key,"
    " kinds int[] not null) with (fillfactor = 50);"
    "create table @_group (bucket int not null, kind int not null, grp bytea not null,"
    " paused bool not null default false, running int, start_every_us bigint, burst int,"
    " primary key (bucket, kind, grp));"
    "create table @_timeout (id bigint not null, due_us bigint not null, base_us bigint not null,"
    " epoch bigint not null, period_us bigint not null, tx xid8 not null default pg_current_xact_id(),"
    " bucket int not null, kind int not null, shard int, attempt int not null, state smallint not null,"
    " priority smallint not null default 0, grp bytea not null default '', key bytea, schedule text, zone text,"
    " grace_us bigint, spread_us bigint, next_due_us bigint, next_base_us bigint, next_period_us bigint,"
    " next_grace_us bigint, next_spread_us bigint, next_priority smallint, next_schedule text, next_zone text,"
    " last bool, error text, data bytea, next_data bytea, primary key (id, bucket))"
    " with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);"
    "create index \"@_due\" on @_timeout (shard, due_us, id) where shard is not null;"
    "create index \"@_ofgroup\" on @_timeout (bucket, kind, grp, due_us, id) where grp <> '';"
    "create unique index \"@_key\" on @_timeout (bucket, kind, grp, key) where key is not null;"
    "insert into @_meta values (1, 2, 1, replace(gen_random_uuid()::text, '-', '')) on conflict (one) do nothing";

static int version_of(struct pg_conn *conn, int *version)
{
	PGresult *result;
	int rc = hwts_pg_one(conn, "select to_regclass($hwt$@_meta$hwt$) is not null", &result);

	*version = 0;
	if (rc == 0 && hwts_pg_get(result, 0, 0) == 1) {
		PQclear(result);
		rc = hwts_pg_one(conn, "select version from @_meta", &result);
		if (rc == 0 && PQntuples(result) == 1)
			*version = (int)hwts_pg_get(result, 0, 0);
	}
	PQclear(result);
	return rc;
}

/* One makes them.  Another, perhaps of a role that may not add an index to them, finds them made. */
static int make_tables(struct pg_conn *conn, int *version)
{
	int rc = hwts_pg_begin_make(conn);

	if (rc == 0)
		rc = version_of(conn, version);
	if (rc == 0 && *version == 0)
		rc = hwts_pg_simple(conn, TABLES);
	rc = hwts_pg_finish(&conn->conn, rc);
	return rc == 0 ? version_of(conn, version) : rc;
}

/* Where the tables are, and whether this role may act as their owner. */
static const char HOME[] =
    "select quote_ident(r.rolname::text), pg_has_role(r.oid, 'usage'),"
    " pg_has_role(r.oid, case when current_setting('server_version_num')::int < 160000 then 'member' else 'set' end)"
    " and has_schema_privilege(r.oid, n.oid, 'create'),"
    " to_regclass($hwt$@_timeouts$hwt$) is null or to_regclass($hwt$@_kinds$hwt$) is null,"
    " n.nspname !~ '[''$]' and exists (select 1 from pg_language l where l.lanname = 'plpgsql')"
    " from pg_class c, pg_namespace n, pg_roles r"
    " where c.oid = to_regclass($hwt$@_meta$hwt$)::oid and n.oid = c.relnamespace and r.oid = c.relowner";

/* Makes the views that are missing, if this role may.  It asks first, as the server logs each refusal. */
static int make_views(struct pg_conn *conn)
{
	int rc = hwts_pg_make(conn, VIEWS);

	return conn->conn.broken || rc == ENOMEM ? rc : 0;
}

static int make_home(struct pg_conn *conn)
{
	struct hwts_pg_home home = { .may_make = false };
	PGresult *result;
	int rc = hwts_pg_one(conn, HOME, &result);

	if (rc == 0 && PQntuples(result) == 1) {
		hwts_cut(home.owner, sizeof(home.owner), PQgetvalue(result, 0, 0), (size_t)PQgetlength(result, 0, 0));
		home.is_owner = hwts_pg_get(result, 0, 1) != 0;
		home.may_make = hwts_pg_get(result, 0, 2) != 0;
		if (home.may_make && hwts_pg_get(result, 0, 3) != 0)
			rc = make_views(conn);
		if (rc == 0 && hwts_pg_get(result, 0, 4) != 0)
			rc = hwts_pg_make_functions(conn, &home);
	}
	PQclear(result);
	return rc;
}

int hwts_pg_prepare(struct hwts_conn *base)
{
	struct pg_conn *conn = pg_conn(base);
	int version = 0;
	int rc = version_of(conn, &version);

	if (rc == 0 && version == 0) {
		HWTS_POINT("tables");
		rc = make_tables(conn, &version);
	}
	if (rc == 0)
		rc = hwts_check_version(base->db, version);
	return rc == 0 ? make_home(conn) : rc;
}
