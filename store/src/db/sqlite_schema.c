/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables of a SQLite store, and the kinds in them.
 */
#include "db/sqlite.h"

#include <stdio.h>
#include <stdlib.h>

static const char TABLES[] =
    "create table if not exists @_meta (one integer primary key check (one = 1), version integer not null,"
    " next_id integer not null, boot text);"
    "create table if not exists @_kind (id integer primary key, name text not null unique, shards integer not null,"
    " mode integer, horizon_us integer not null);"
    "create table if not exists @_shard (id integer primary key, kind integer not null, epoch integer not null,"
    " owner text);"
    "create index if not exists @_shard_kind on @_shard (kind);"
    "create table if not exists @_member (name text primary key, incarnation integer not null, until_us integer not "
    "null,"
    " kinds text not null) without rowid;"
    "create table if not exists @_timeout (id integer primary key, due_us integer not null, base_us integer not null,"
    " epoch integer not null, period_us integer not null, kind integer not null, shard integer not null,"
    " attempt integer not null, state integer not null, key text, error text, data blob);"
    "create index if not exists @_due on @_timeout (shard, due_us);"
    "create unique index if not exists @_key on @_timeout (kind, key) where key is not null;"
    "create table if not exists @_hint (seq integer primary key autoincrement, id integer not null,"
    " due_us integer not null, shard integer not null, len integer not null, at_us integer not null);";

/* 0: there are no tables. */
static int version_of(struct sqlite_conn *conn, int *version)
{
	int rc = 0;
	sqlite3_stmt *rows = hwts_sqlite_rows(
	    conn, &rc, "select count(*) from sqlite_master where type = 'table' and name = '@_meta'", NOTHING);
	bool there = hwts_sqlite_next(conn, rows, &rc) && number_of(rows, 0) == 1;

	sqlite3_reset(rows);
	*version = 0;
	if (!there)
		return rc;
	rows = hwts_sqlite_rows(conn, &rc, "select version from @_meta", NOTHING);
	while (hwts_sqlite_next(conn, rows, &rc))
		*version = (int)number_of(rows, 0);
	return rc;
}

static int make_tables(struct sqlite_conn *conn)
{
	char *sql = hwts_sql(conn->conn.db, TABLES);
	int rc, version = 0;

	if (!sql)
		return ENOMEM;
	rc = hwts_sqlite_begin(conn, true);
	if (rc == 0) {
		rc = version_of(conn, &version);
		if (rc == 0 && version < HWTS_VERSION) {
			int made = sqlite3_exec(conn->handle, sql, NULL, NULL, NULL);

			rc = made == SQLITE_OK ? 0 : hwts_sqlite_error(conn, made, "make the tables");
			if (rc == 0)
				rc = hwts_sqlite_do(conn, NULL,
						    "insert into @_meta values (1, ?, 1, null)"
						    " on conflict (one) do update set version = excluded.version",
						    WITH(NUMBER(HWTS_VERSION)));
		}
		rc = hwts_sqlite_commit(conn, rc);
	}
	free(sql);
	return rc;
}

/*
 * Leases are measured on the clock of this boot: those of another one are over.
 */

static void read_boot(char *boot, size_t size)
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (!file || !fgets(boot, (int)size, file))
		(void)snprintf(boot, size, "unknown");
	boot[strcspn(boot, "\n")] = '\0';
	if (file)
		(void)fclose(file);
}

static int note_boot(struct sqlite_conn *conn)
{
	char boot[64];
	bool is;
	int changes = 0, rc = 0;
	sqlite3_stmt *rows;

	read_boot(boot, sizeof(boot));
	rows = hwts_sqlite_rows(conn, &rc, "select 1 from @_meta where boot = ?", WITH(TEXT(boot)));
	is = hwts_sqlite_next(conn, rows, &rc);
	sqlite3_reset(rows);
	if (rc != 0 || is || (rc = hwts_sqlite_begin(conn, true)) != 0)
		return rc;
	/* Another process may have come first. */
	rc = hwts_sqlite_do(conn, &changes, "update @_meta set boot = ?1 where boot is not ?1", WITH(TEXT(boot)));
	if (rc == 0 && changes == 1)
		rc = hwts_sqlite_do(conn, NULL, "delete from @_member", NOTHING);
	return hwts_sqlite_commit(conn, rc);
}

int hwts_sqlite_prepare(struct hwts_conn *base)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	int version = 0;
	int rc = version_of(conn, &version);

	if (rc == 0 && version < HWTS_VERSION) {
		rc = make_tables(conn);
		if (rc == 0)
			rc = version_of(conn, &version);
	}
	if (rc == 0 && version > HWTS_VERSION)
		rc = hwts_fail(ENOTSUP,
			       "sqlite: the tables %s_* have version %d, this library knows %d; use a newer one",
			       base->db->prefix, version, HWTS_VERSION);
	return rc == 0 ? note_boot(conn) : rc;
}

/*
 * Kinds
 */

static int read_kind(struct sqlite_conn *conn, const char *name, struct hwts_kind_row *out, bool *found)
{
	int rc = 0;
	sqlite3_stmt *rows = hwts_sqlite_rows(
	    conn, &rc, "select id, shards, ifnull(mode, -1), horizon_us from @_kind where name = ?", WITH(TEXT(name)));

	hwts_count_trip(conn->conn.db);
	for (*found = false; hwts_sqlite_next(conn, rows, &rc); *found = true)
		*out = (struct hwts_kind_row){ (int32_t)number_of(rows, 0), (uint32_t)number_of(rows, 1),
					       (int)number_of(rows, 2), number_of(rows, 3) };
	return rc;
}

static int make_kind(struct sqlite_conn *conn, const char *name, const struct hwts_kind_row *make)
{
	int rc = hwts_sqlite_do(conn, NULL,
				"insert into @_kind (name, shards, mode, horizon_us) values (?, ?, nullif(?, -1), ?)",
				WITH(TEXT(name), NUMBER(make->shards), NUMBER(make->mode), NUMBER(make->horizon_us)));

	for (int64_t i = 0, id = sqlite3_last_insert_rowid(conn->handle); rc == 0 && i < make->shards; i++)
		rc = hwts_sqlite_do(conn, NULL, "insert into @_shard values (?, ?, 0, null)",
				    WITH(NUMBER(id * HWTS_SHARDS_MAX + i), NUMBER(id)));
	return rc;
}

/* Sets what the first registration of a kind sets that a put has made. */
static int settle_kind(struct sqlite_conn *conn, const struct hwts_kind_row *is, const struct hwts_kind_row *make)
{
	if (make->mode == HWTS_MODE_OPEN || is->mode != HWTS_MODE_OPEN)
		return 0;
	return hwts_sqlite_do(conn, NULL, "update @_kind set mode = ?, horizon_us = ? where id = ?",
			      WITH(NUMBER(make->mode), NUMBER(make->horizon_us), NUMBER(is->id)));
}

int hwts_sqlite_kind(struct hwts_conn *base, const char *name, const struct hwts_kind_row *make,
		     struct hwts_kind_row *out)
{
	struct sqlite_conn *conn = sqlite_conn(base);
	struct hwts_kind_row is = { 0 };
	bool found = false;
	int rc = read_kind(conn, name, &is, &found);

	if (rc != 0)
		return rc;
	if (!make && !found)
		return hwts_fail(ENOENT, "there is no kind \"%s\"", name);
	if (make && (!found || (is.mode == HWTS_MODE_OPEN && make->mode != HWTS_MODE_OPEN))) {
		rc = hwts_sqlite_begin(conn, true);
		if (rc != 0)
			return rc;
		rc = read_kind(conn, name, &is, &found);
		if (rc == 0)
			rc = found ? settle_kind(conn, &is, make) : make_kind(conn, name, make);
		if (rc == 0)
			rc = read_kind(conn, name, &is, &found);
		rc = hwts_sqlite_commit(conn, rc);
	}
	if (rc == 0)
		*out = is;
	return rc;
}
