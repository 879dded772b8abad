/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables of a SQLite store, and the kinds in them.
 */
#include "sqlite.h"

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
	int failed = 0;
	bool row = false;
	sqlite3_stmt *statement = hwts_sqlite_statement(
	    conn, "select count(*) from sqlite_master where type = 'table' and name = '@_meta'", &failed);

	*version = 0;
	if (!statement || (failed = hwts_sqlite_step(conn, statement, &row)) != 0)
		return failed;
	row = row && sqlite3_column_int(statement, 0) != 0;
	sqlite3_reset(statement);
	if (!row)
		return 0;
	statement = hwts_sqlite_statement(conn, "select version from @_meta", &failed);
	if (!statement || (failed = hwts_sqlite_step(conn, statement, &row)) != 0)
		return failed;
	if (row)
		*version = sqlite3_column_int(statement, 0);
	sqlite3_reset(statement);
	return 0;
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
				rc = HWTS_SQLITE_DO(conn,
						    "insert into @_meta values (1, ?, 1, null)"
						    " on conflict (one) do update set version = excluded.version",
						    NULL, HWTS_VERSION);
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
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");

	if (!file || !fgets(boot, (int)size, file))
		(void)snprintf(boot, size, "unknown");
	boot[strcspn(boot, "\n")] = '\0';
	if (file)
		fclose(file);
}

static int is_this_boot(struct sqlite_conn *conn, const char *boot, bool *is)
{
	int failed = 0;
	sqlite3_stmt *statement = hwts_sqlite_statement(conn, "select 1 from @_meta where boot = ?", &failed);

	if (!statement)
		return failed;
	hwts_sqlite_text(statement, 1, boot);
	failed = hwts_sqlite_step(conn, statement, is);
	sqlite3_reset(statement);
	return failed;
}

static int note_boot(struct sqlite_conn *conn)
{
	char boot[64];
	bool is = false;
	sqlite3_stmt *statement;
	int rc;

	read_boot(boot, sizeof(boot));
	rc = is_this_boot(conn, boot, &is);
	if (rc != 0 || is || (rc = hwts_sqlite_begin(conn, true)) != 0)
		return rc;
	rc = is_this_boot(conn, boot, &is);
	if (rc == 0 && !is)
		rc = hwts_sqlite_do(conn, "delete from @_member", NULL, 0, NULL);
	if (rc == 0 && !is && (statement = hwts_sqlite_statement(conn, "update @_meta set boot = ?", &rc)) != NULL) {
		hwts_sqlite_text(statement, 1, boot);
		rc = hwts_sqlite_step(conn, statement, NULL);
	}
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
	int failed = 0;
	sqlite3_stmt *statement =
	    hwts_sqlite_statement(conn, "select id, shards, mode, horizon_us from @_kind where name = ?", &failed);

	if (!statement)
		return failed;
	hwts_count_trip(conn->conn.db);
	hwts_sqlite_text(statement, 1, name);
	failed = hwts_sqlite_step(conn, statement, found);
	if (failed != 0 || !*found)
		return failed;
	*out = (struct hwts_kind_row){
		.id = sqlite3_column_int(statement, 0),
		.shards = (uint32_t)sqlite3_column_int(statement, 1),
		.mode = sqlite3_column_type(statement, 2) == SQLITE_NULL ? HWTS_MODE_OPEN
									 : sqlite3_column_int(statement, 2),
		.horizon_us = sqlite3_column_int64(statement, 3),
	};
	sqlite3_reset(statement);
	return 0;
}

static int make_kind(struct sqlite_conn *conn, const char *name, const struct hwts_kind_row *make)
{
	int failed = 0;
	sqlite3_stmt *statement = hwts_sqlite_statement(
	    conn, "insert into @_kind (name, shards, mode, horizon_us) values (?, ?, ?, ?)", &failed);

	if (!statement)
		return failed;
	hwts_sqlite_text(statement, 1, name);
	sqlite3_bind_int64(statement, 2, make->shards);
	if (make->mode == HWTS_MODE_OPEN)
		sqlite3_bind_null(statement, 3);
	else
		sqlite3_bind_int64(statement, 3, make->mode);
	sqlite3_bind_int64(statement, 4, make->horizon_us);
	failed = hwts_sqlite_step(conn, statement, NULL);
	for (int64_t i = 0, id = sqlite3_last_insert_rowid(conn->handle); failed == 0 && i < make->shards; i++)
		failed = HWTS_SQLITE_DO(conn, "insert into @_shard values (?, ?, 0, null)", NULL,
					id * HWTS_SHARDS_MAX + i, id);
	return failed;
}

/* Sets what the first registration of a kind sets that a put has made. */
static int settle_kind(struct sqlite_conn *conn, const struct hwts_kind_row *is, const struct hwts_kind_row *make)
{
	if (make->mode == HWTS_MODE_OPEN || is->mode != HWTS_MODE_OPEN)
		return 0;
	return HWTS_SQLITE_DO(conn, "update @_kind set mode = ?, horizon_us = ? where id = ?", NULL, make->mode,
			      make->horizon_us, is->id);
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
