/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of a SQLite store; store/sql/ has their definitions. */
#include "db/sqlite.h"

#include <stdio.h>
#include <stdlib.h>

static const char VIEWS[] =
#include "sql/views_sqlite.h"
    ;

static const char TABLES[] =
#include "sql/tables_sqlite.h"
    ;

/* *version 0: there are no tables. */
static int version_of(struct sqlite_conn *conn, int64_t *version)
{
	int rc = hwts_sqlite_ask(
	    conn, version, "select count(*) from sqlite_master where type = 'table' and name = '@_meta'", NOTHING);

	if (rc != 0 || *version == 0)
		return rc;
	rc = hwts_sqlite_ask(conn, version, "select coalesce((select version from @_meta), -1)", NOTHING);
	return rc == 0 && *version < 0 ? hwts_fail_emptied(conn->conn.db) : rc;
}

/* Makes missing views.  The store works without them. */
static void find_views(struct sqlite_conn *conn)
{
	int64_t views;
	int rc = hwts_sqlite_ask(
	    conn, &views,
	    "select count(*) from sqlite_master where type = 'view' and name in ('@_timeouts', '@_kinds')", NOTHING);

	if (rc == 0 && views < 2 && hwts_sqlite_begin(conn, true) == 0)
		(void)hwts_sqlite_commit(conn, hwts_sqlite_script(conn, VIEWS));
}

static int make_tables(struct sqlite_conn *conn)
{
	int64_t version = 0;
	int rc = hwts_sqlite_begin(conn, true);

	if (rc != 0)
		return rc;
	rc = version_of(conn, &version);
	if (rc == 0 && version == 0) {
		rc = hwts_sqlite_script(conn, TABLES);
		if (rc == 0)
			rc = hwts_sqlite_do(conn,
					    "insert into @_meta values (1, ?, 1, lower(hex(randomblob(16))), null)",
					    WITH(HWTS_VERSION));
		if (rc == 0)
			rc = hwts_sqlite_script(conn, VIEWS);
	}
	return hwts_sqlite_commit(conn, rc);
}

/*
 * Leases are measured on the clock of this boot, so leases of an earlier boot are over.  A process that cannot read
 * /proc does not know which boot this is, and leaves them alone.
 */

static int note_boot(struct sqlite_conn *conn)
{
	char boot[64], text[256];
	int rc = 0;
	sqlite3_stmt *rows;
	bool is;

	if (!hwts_boot_id(boot, sizeof(boot)))
		return 0;
	rows = hwts_sqlite_rows(conn, &rc, "select coalesce(boot, '') from @_meta", NOTHING);
	is = hwts_sqlite_next(conn, rows, &rc) && strcmp((const char *)sqlite3_column_text(rows, 0), boot) == 0;
	sqlite3_reset(rows);
	if (rc != 0 || is || (rc = hwts_sqlite_begin(conn, true)) != 0)
		return rc;
	/* Another process may have come first.  Members that joined while the boot was unknown may be of this boot. */
	(void)snprintf(text, sizeof(text),
		       "delete from @_member where exists (select 1 from @_meta where boot <> '%s');"
		       "update @_meta set boot = '%s'",
		       boot, boot);
	return hwts_sqlite_commit(conn, hwts_sqlite_script(conn, text));
}

int hwts_sqlite_prepare(struct hwts_conn *base)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	const struct sqlite_db *db = sqlite_db(base);
	int64_t version = 0;
	int rc = version_of(conn, &version);

	if (rc == 0 && version == 0) {
		rc = db->only_looks ? hwts_fail(ENOENT, "sqlite: there is no store in %s: it has no tables %s_*",
						db->path, base->db->prefix)
				    : make_tables(conn);
		if (rc == 0)
			rc = version_of(conn, &version);
	}
	if (rc == 0)
		rc = hwts_check_version(base->db, (int)version);
	if (rc != 0 || db->only_looks)
		return rc;
	find_views(conn);
	return note_boot(conn);
}
