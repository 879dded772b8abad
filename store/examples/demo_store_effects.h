/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The database that demo_store.c shows, as the program itself uses it, beside the store: a table of effects, to which
 * each task of the kind in transaction mode adds a row on run->connection.  Exactly one row a timeout, that is the claim.
 *
 * Everything here has the prefix of the demo's schema, hwt_demo, and is dropped before and after it.
 */
#ifndef DEMO_STORE_EFFECTS_H
#define DEMO_STORE_EFFECTS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_SQLITE
#include <sqlite3.h>
#endif
#ifdef HAVE_POSTGRES
#include <libpq-fe.h>
#endif

#include "demo_store_board.h"

#ifndef SCHEMA
#define SCHEMA "hwt_demo"
#endif

#define LOCK_PATIENCE_MS 300000 /* another process may stand still with SQLite's lock */

struct effects {
#ifdef HAVE_SQLITE
	sqlite3 *sqlite;
#endif
#ifdef HAVE_POSTGRES
	PGconn *postgres;
#endif
	int unused;
};

/* For each row of a query: its first column. */
typedef void effects_row(void *ctx, const char *value);

static bool is_sqlite(const char *url)
{
	return strncmp(url, "sqlite:", 7) == 0;
}

static bool effects_open(struct effects *effects, const char *url)
{
	*effects = (struct effects){ 0 };
#ifdef HAVE_SQLITE
	if (is_sqlite(url)) {
		if (sqlite3_open(url + 7, &effects->sqlite) == SQLITE_OK)
			return sqlite3_busy_timeout(effects->sqlite, LOCK_PATIENCE_MS) == SQLITE_OK;
		fprintf(stderr, "demo_store: %s: %s\n", url, sqlite3_errmsg(effects->sqlite));
		return false;
	}
#endif
#ifdef HAVE_POSTGRES
	if (!is_sqlite(url)) {
		effects->postgres = PQconnectdb(strncmp(url, "pg:", 3) == 0 ? url + 3 : url);
		if (PQstatus(effects->postgres) == CONNECTION_OK)
			return true;
		fprintf(stderr, "demo_store: %s\n", PQerrorMessage(effects->postgres));
		return false;
	}
#endif
	fprintf(stderr, "demo_store: %s: built without this engine\n", url);
	return false;
}

static void effects_close(struct effects *effects)
{
#ifdef HAVE_SQLITE
	sqlite3_close(effects->sqlite);
#endif
#ifdef HAVE_POSTGRES
	PQfinish(effects->postgres);
#endif
	*effects = (struct effects){ 0 };
}

#ifdef HAVE_SQLITE
static bool sqlite_query(sqlite3 *sqlite, const char *sql, effects_row *row, void *ctx)
{
	sqlite3_stmt *statement;
	int rc = sqlite3_prepare_v2(sqlite, sql, -1, &statement, NULL);

	while (rc == SQLITE_OK || rc == SQLITE_ROW) {
		rc = sqlite3_step(statement);
		if (rc == SQLITE_ROW && row != NULL)
			row(ctx, (const char *)sqlite3_column_text(statement, 0));
	}
	sqlite3_finalize(statement);
	return rc == SQLITE_DONE;
}
#endif

#ifdef HAVE_POSTGRES
static bool postgres_query(PGconn *postgres, const char *sql, effects_row *row, void *ctx)
{
	PGresult *result = PQexec(postgres, sql);
	bool good = PQresultStatus(result) == PGRES_TUPLES_OK || PQresultStatus(result) == PGRES_COMMAND_OK;

	for (int i = 0; good && row != NULL && i < PQntuples(result); i++)
		row(ctx, PQgetvalue(result, i, 0));
	PQclear(result);
	return good;
}
#endif

static bool effects_query(struct effects *effects, const char *sql, effects_row *row, void *ctx)
{
#ifdef HAVE_SQLITE
	if (effects->sqlite != NULL)
		return sqlite_query(effects->sqlite, sql, row, ctx);
#endif
#ifdef HAVE_POSTGRES
	if (effects->postgres != NULL)
		return postgres_query(effects->postgres, sql, row, ctx);
#endif
	return false;
}

struct names {
	char sql[8192];
};

static void add_drop(void *ctx, const char *name)
{
	struct names *names = ctx;
	size_t used = strlen(names->sql);

	snprintf(names->sql + used, sizeof(names->sql) - used, "DROP TABLE IF EXISTS \"%s\";", name);
}

static void add_drop_sequence(void *ctx, const char *name)
{
	struct names *names = ctx;
	size_t used = strlen(names->sql);

	snprintf(names->sql + used, sizeof(names->sql) - used, "DROP SEQUENCE IF EXISTS \"%s\";", name);
}

static bool effects_drop_all(struct effects *effects)
{
	struct names names = { "" };

#ifdef HAVE_SQLITE
	if (effects->sqlite != NULL) {
		if (!effects_query(effects,
				   "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB '" SCHEMA "_*'",
				   add_drop, &names))
			return false;
		return sqlite3_exec(effects->sqlite, names.sql, NULL, NULL, NULL) == SQLITE_OK;
	}
#endif
	return effects_query(effects,
			     "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE '" SCHEMA
			     "\\_%' AND relnamespace = current_schema()::regnamespace",
			     add_drop, &names) &&
	       effects_query(effects,
			     "SELECT relname FROM pg_class WHERE relkind = 'S' AND relname LIKE '" SCHEMA
			     "\\_%' AND relnamespace = current_schema()::regnamespace",
			     add_drop_sequence, &names) &&
	       effects_query(effects, names.sql[0] != '\0' ? names.sql : "SELECT 1", NULL, NULL);
}

static bool effects_create(struct effects *effects)
{
	return effects_query(effects, "CREATE TABLE " SCHEMA "_effect (item INTEGER)", NULL, NULL);
}

/* In a task, on its connection. */
static int effects_add(void *connection, bool sqlite, unsigned item)
{
	char sql[96];
	bool good = false;

	snprintf(sql, sizeof(sql), "INSERT INTO " SCHEMA "_effect VALUES (%u)", item);
#ifdef HAVE_SQLITE
	if (sqlite)
		good = sqlite_query(connection, sql, NULL, NULL);
#endif
#ifdef HAVE_POSTGRES
	if (!sqlite)
		good = postgres_query(connection, sql, NULL, NULL);
#endif
	return good ? 0 : EIO;
}

static void count_effect(void *ctx, const char *value)
{
	unsigned item = (unsigned)strtoul(value, NULL, 10);

	if (item < ITEMS_MAX)
		((unsigned *)ctx)[item]++;
}

static bool effects_count(struct effects *effects, unsigned *counts)
{
	return effects_query(effects, "SELECT item FROM " SCHEMA "_effect", count_effect, counts);
}

/*
 * SQLite: whether nobody holds the write lock.  A process that is stopped inside of a transaction keeps it, and all
 * others wait until it goes on; that is SQLite's law and not the store's, so the demo stops its worker outside of one.
 */
static bool effects_nobody_writes(struct effects *effects)
{
#ifdef HAVE_SQLITE
	if (effects->sqlite != NULL) {
		bool free;

		sqlite3_busy_timeout(effects->sqlite, 100);
		free = effects_query(effects, "BEGIN IMMEDIATE", NULL, NULL) &&
		       effects_query(effects, "ROLLBACK", NULL, NULL);
		sqlite3_busy_timeout(effects->sqlite, LOCK_PATIENCE_MS);
		return free;
	}
#endif
	(void)effects;
	return true;
}

static void read_us(void *ctx, const char *value)
{
	*(int64_t *)ctx = strtoll(value, NULL, 10);
}

/* How far the database's clock is ahead of ours: the best of five looks.  A difference that a look cannot tell from none
 * is none: the server runs on this machine, and then early is early by a microsecond, too. */
static void effects_look_at_clock(struct effects *effects, struct board *board)
{
	int64_t best_us = INT64_MAX;

#ifdef HAVE_SQLITE
	if (effects->sqlite != NULL)
		return;
#endif
	for (int i = 0; i < 5; i++) {
		int64_t before_us = wall_us(), there_us = 0, round_us;

		if (!effects_query(effects, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint", read_us,
				   &there_us))
			continue;
		round_us = wall_us() - before_us;
		if (round_us < best_us) {
			best_us = round_us;
			board->offset_us = there_us - before_us - round_us / 2;
			board->tolerance_us = round_us;
		}
	}
	if (board->offset_us >= -best_us && board->offset_us <= best_us)
		board->offset_us = board->tolerance_us = 0;
}

#endif /* DEMO_STORE_EFFECTS_H */
