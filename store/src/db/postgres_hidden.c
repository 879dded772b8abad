/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Row level security: tables whose rows this role does not see, or perhaps not all of them.
 */
#include "db/postgres.h"

#include <stdio.h>

/*
 * Reads only the store's tables on which row level security is active, as pg_get_expr locks the table of each policy.
 * Without a policy that lets this role read, a table shows nothing.  With a policy for all commands that is just
 * "true", and no restrictive policy, it shows everything.
 */
static const char HIDDEN[] =
    "with ours (oid) as materialized (" HWTS_PG_TABLES "),"
    " p as materialized (select p.polrelid, p.polpermissive, p.polcmd, pg_get_expr(p.polqual, p.polrelid) = 'true'"
    " as is_open from pg_policy p where p.polrelid in (select oid from ours) and exists (select from"
    " unnest(p.polroles) r (oid) where case when r.oid = 0 then true else pg_has_role(r.oid, 'usage') end)),"
    " t as materialized (select c.oid, c.relname::text as name, exists (select from p where p.polrelid = c.oid"
    " and p.polpermissive and p.polcmd in ('*', 'r')) as shows from pg_class c where row_security_active(c.oid)"
    " and c.oid in (select oid from ours))"
    " select string_agg(t.name, ', ' order by t.name) filter (where not t.shows),"
    " string_agg(t.name, ', ' order by t.name) filter (where t.shows and (exists (select from p"
    " where p.polrelid = t.oid and not p.polpermissive) or not exists (select from p where p.polrelid = t.oid"
    " and p.polpermissive and p.polcmd = '*' and p.is_open))),"
    " quote_ident(current_user::text), coalesce(to_regclass($hwt$@_meta$hwt$)::oid::bigint, 0) from t";

#define CURE                                                                                                           \
	"let a superuser say \"alter role %s bypassrls\", or give each of them a policy for all that has \"using "     \
	"(true)\""

static int judge(struct pg_conn *conn, const PGresult *result, bool missing)
{
	const char *hidden = PQgetvalue(result, 0, 0), *doubtful = PQgetvalue(result, 0, 1);
	const char *role = PQgetvalue(result, 0, 2);
	char *notice = conn->conn.db->notice;

	if (hidden[0] || (missing && doubtful[0]))
		return hwts_fail(EACCES, "postgresql: row level security hides rows of %s from this process: " CURE,
				 hidden[0] ? hidden : doubtful, role);
	if (doubtful[0] && !conn->conn.db->store[0]) /* a store is being opened */
		(void)snprintf(notice, sizeof(conn->conn.db->notice),
			       "row level security may hide rows of %s: what this process does not see it does not run;"
			       " " CURE,
			       doubtful, role);
	return 0;
}

int hwts_pg_look_hidden(struct hwts_conn *base, bool missing, bool *remade)
{
	struct pg_conn *conn = pg_conn(base);
	struct pg_db *db = (struct pg_db *)base->db;
	PGresult *result;
	int rc = hwts_pg_one(conn, HIDDEN, &result);

	if (rc == 0 && PQntuples(result) == 1) {
		int64_t meta = hwts_pg_get(result, 0, 3);

		if (remade) /* relaxed: one number */
			*remade |= atomic_exchange_explicit(&db->meta, meta, memory_order_relaxed) != meta;
		rc = judge(conn, result, missing);
	}
	PQclear(result);
	return rc;
}
