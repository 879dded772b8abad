/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of a PostgreSQL store; store/sql/ has their definitions. */
#include "db/postgres.h"

#include <stdio.h>
#include <stdlib.h>

static const char VIEWS[] = HWTS_PG_BE_OWNER
#include "sql/views_postgresql.h"
    ;

static const char TABLES[] =
#include "sql/tables_postgresql.h"
    ;

static const char VERSION[] =
    "select m.version, (select bool_or(row_security_active(t.oid)) from (" HWTS_PG_TABLES ") t (oid)),"
    " m.tableoid::bigint from @_meta m";

/*
 * The tables and the row of @_meta are made in one transaction.  Without the row, the tables were emptied, or policies
 * hide it.
 */
static int read_version(struct pg_conn *conn, int *version)
{
	struct pg_db *db = (struct pg_db *)conn->conn.db;
	PGresult *result;
	bool is, hides;
	int rc = hwts_pg_one(conn, VERSION, &result);

	is = rc == 0 && PQntuples(result) == 1;
	hides = is && hwts_pg_get(result, 0, 1) != 0;
	if (is) {
		*version = (int)hwts_pg_get(result, 0, 0);
		/* Relaxed: the number is all that readers get. */
		atomic_store_explicit(&db->meta, hwts_pg_get(result, 0, 2), memory_order_relaxed);
	}
	PQclear(result);
	if (rc == 0 && (!is || hides))
		rc = hwts_pg_look_hidden(&conn->conn, !is, NULL);
	return rc == 0 && !is ? hwts_fail_emptied(&db->db) : rc;
}

/* *version 0: there are no tables. */
static int version_of(struct pg_conn *conn, int *version)
{
	PGresult *result;
	bool is;
	int rc = hwts_pg_one(conn, "select to_regclass($hwt$@_meta$hwt$) is not null", &result);

	*version = 0;
	is = rc == 0 && hwts_pg_get(result, 0, 0) == 1;
	PQclear(result);
	return is ? read_version(conn, version) : rc;
}

/* Only one process makes the tables.  Another process, whose role may have fewer rights, finds them made. */
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

/* The schema and owner of the tables, and whether this role may act as the owner. */
static const char HOME[] =
    "select quote_ident(r.rolname::text), pg_has_role(r.oid, 'usage'),"
    " pg_has_role(r.oid, case when current_setting('server_version_num')::int < 160000 then 'member' else 'set' end)"
    " and has_schema_privilege(r.oid, n.oid, 'create'),"
    " to_regclass($hwt$@_timeouts$hwt$) is null or to_regclass($hwt$@_kinds$hwt$) is null,"
    " n.nspname !~ '[''$]' and exists (select 1 from pg_language l where l.lanname = 'plpgsql')"
    " from pg_class c, pg_namespace n, pg_roles r"
    " where c.oid = to_regclass($hwt$@_meta$hwt$)::oid and n.oid = c.relnamespace and r.oid = c.relowner";

/* Makes the views.  Only a broken connection and a lack of memory are failures: the store works without them. */
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
	if (rc == 0)
		rc = make_home(conn);
	/* A program that only looks needs no more.  What it may not see comes first. */
	if (rc == 0 && base->db->notice[0] == 0 && hwts_pg_check_writes(conn) == EACCES)
		hwts_cut(base->db->notice, sizeof(base->db->notice), hwts_fail_text(), strlen(hwts_fail_text()));
	return rc;
}
