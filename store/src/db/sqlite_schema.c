/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables of a SQLite store: the columns of PostgreSQL's.  The id is the rowid, which each index has at its end, and
 * nothing is partitioned here, so the primary key is the id alone.
 */
#include "db/sqlite.h"
#include "db/views.h"

#include <stdio.h>
#include <stdlib.h>

#define NOW "(julianday('now') - 2440587.5) * 86400000000"
#define MOMENT(us) "strftime('%Y-%m-%d %H:%M:%f', " us " / 1000000.0, 'unixepoch')"
#define AS_TEXT(text) text
#define SECONDS(us) "printf('%.15g', " us " / 1000000.0) || ' s'"

static const char VIEWS[] = HWTS_VIEWS("create view if not exists", NOW, MOMENT, AS_TEXT, SECONDS);

static const char TABLES[] =
    "create table if not exists @_meta (one integer primary key check (one = 1), version integer not null,"
    " next_number integer not null, store text not null, boot text);"
    "create table if not exists @_kind (id integer primary key, name text not null unique, shards integer not null,"
    " mode integer, horizon_us integer not null, paused integer not null default 0, running integer,"
    " start_every_us integer, burst integer, removed integer);"
    "create table if not exists @_shard (id integer primary key, kind integer not null, epoch integer not null,"
    " rules integer not null default 0, owner text, levels blob);"
    "create index if not exists @_ofkind on @_shard (kind);"
    "create table if not exists @_member (name text primary key, incarnation integer not null, until_us integer not "
    "null,"
    " kinds text not null) without rowid;"
    "create table if not exists @_group (bucket integer not null, kind integer not null, grp text not null,"
    " paused integer not null default 0, running integer, start_every_us integer, burst integer,"
    " primary key (bucket, kind, grp)) without rowid;"
    "create table if not exists @_timeout (id integer primary key, due_us integer not null, base_us integer not null,"
    " epoch integer not null, period_us integer not null, bucket integer not null, kind integer not null,"
    " shard integer not null, attempt integer not null, state integer not null, priority integer not null default 0,"
    " grp text not null default '', key text, schedule text, zone text, grace_us integer, spread_us integer,"
    " next_due_us integer, next_base_us integer, next_period_us integer, next_grace_us integer, next_spread_us integer,"
    " next_priority integer, next_schedule text, next_zone text, last integer, error text, data blob, next_data blob);"
    "create index if not exists @_due on @_timeout (shard, due_us);"
    "create index if not exists @_ofgroup on @_timeout (bucket, kind, grp, due_us) where grp <> '';"
    "create unique index if not exists @_key on @_timeout (bucket, kind, grp, key) where key is not null;"
    "create table if not exists @_hint (seq integer primary key autoincrement, id integer not null,"
    " due_us integer not null, shard integer not null, len integer not null, at_us integer not null);";

/* 0: there are no tables. */
static int version_of(struct sqlite_conn *conn, int64_t *version)
{
	int rc = hwts_sqlite_ask(
	    conn, version, "select count(*) from sqlite_master where type = 'table' and name = '@_meta'", NOTHING);

	return rc == 0 && *version > 0 ? hwts_sqlite_ask(conn, version, "select version from @_meta", NOTHING) : rc;
}

/* The store works whether or not both views exist or can be made. */
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
 * Leases are measured on the clock of this boot: those of another one are over.  A process that cannot tell which boot
 * this is, for it does not see /proc, leaves them alone.
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
	/* Another process may have come first.  What joined while nobody knew the boot may be of this one. */
	(void)snprintf(text, sizeof(text),
		       "delete from @_member where exists (select 1 from @_meta where boot <> '%s');"
		       "update @_meta set boot = '%s'",
		       boot, boot);
	return hwts_sqlite_commit(conn, hwts_sqlite_script(conn, text));
}

int hwts_sqlite_prepare(struct hwts_conn *base)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	int64_t version = 0;
	int rc = version_of(conn, &version);

	if (rc == 0 && version == 0) {
		rc = make_tables(conn);
		if (rc == 0)
			rc = version_of(conn, &version);
	}
	if (rc == 0)
		rc = hwts_check_version(base->db, (int)version);
	if (rc == 0)
		find_views(conn);
	return rc == 0 ? note_boot(conn) : rc;
}
