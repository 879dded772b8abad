/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes the tables of the store, and the tables of effects and intents, as history.pl reads them. */
#include "torture.h"

#include <hwt_store.h>

static void read_number(void *ctx, const char *value)
{
	*(int64_t *)ctx = strtoll(value, NULL, 10);
}

bool torture_number(struct effects *database, const char *sql, int64_t *number)
{
	return effects_query(database, sql, read_number, number);
}

static void write_row(void *ctx, const char *value)
{
	fprintf(ctx, "%s\n", value);
}

/*
 * The tables beside the store's: a transaction of a task adds its effect, a transaction in which a user puts adds its
 * intent
 */

bool torture_create(struct effects *database)
{
	return effects_query(database, "create table " SCHEMA "_effect (item bigint, due bigint)", NULL, NULL) &&
	       effects_query(database, "create table " SCHEMA "_intent (item bigint)", NULL, NULL);
}

bool torture_query(void *connection, bool sqlite, const char *sql)
{
#ifdef HAVE_SQLITE
	if (sqlite)
		return sqlite_query(connection, sql, NULL, NULL);
#endif
#ifdef HAVE_POSTGRES
	if (!sqlite)
		return postgres_query(connection, sql, NULL, NULL);
#endif
	(void)connection;
	(void)sql;
	return false;
}

int torture_effect(void *connection, bool sqlite, uint64_t item, int64_t due_us)
{
	char sql[128];

	(void)snprintf(sql, sizeof(sql), "insert into " SCHEMA "_effect values (%" PRIu64 ", %" PRId64 ")", item,
		       due_us);
	return torture_query(connection, sqlite, sql) ? 0 : EIO;
}

/* The number that the data begin with: large data go on after it. */
#define SQLITE_ITEM "cast(cast(data as text) as integer)"
#define POSTGRES_ITEM "split_part(convert_from(data, 'UTF8'), ' ', 1)"

/*
 * Timeouts that would go on for ever
 */

struct periodic {
	hwt_store *store;
	int log;
};

static void cancel_periodic(void *ctx, const char *value)
{
	const struct periodic *periodic = ctx;
	long long item = 0, id = 0;

	if (sscanf(value, "%lld %lld", &item, &id) != 2)
		return;
	history(periodic->log, "cancel? %lld %lld", item, id);
	history(periodic->log, "cancel %lld %lld %d", item, id, hwt_store_cancel(periodic->store, id));
}

/* A timeout that is running is cancelled the next time. */
bool torture_end_periodic(struct torture *torture)
{
#define PERIODIC(data) "select " data " || ' ' || id from " SCHEMA "_timeout where period_us > 0 and state = 1"
	struct periodic periodic = { .store = torture_store(torture), .log = torture->log };
	bool good;

	if (periodic.store == NULL)
		return false;
	good = effects_query(&torture->database,
			     is_sqlite(torture->url) ? PERIODIC(SQLITE_ITEM) : PERIODIC(POSTGRES_ITEM), cancel_periodic,
			     &periodic);
	return hwt_store_close(periodic.store) == 0 && good;
}

/*
 * Writing all tables
 */

/* The number of the kind's name in kind_names, which is also its mode. */
#define KIND "case k.name when 'remind' then 0 when 'ring' then 1 else 2 end"
#define ROWS(data)                                                                                                     \
	"select 'row ' || " data " || ' ' || t.id || ' ' || " KIND                                                     \
	" || ' ' || t.state || ' ' || t.attempt || ' ' || t.grp from " SCHEMA "_timeout t join " SCHEMA                \
	"_kind k on k.id = t.kind order by t.id"

static bool is_whole(struct effects *database)
{
#ifdef HAVE_SQLITE
	int64_t bad = 0;

	if (database->sqlite != NULL)
		return torture_number(database,
				      "select count(*) from pragma_integrity_check where integrity_check <> 'ok'",
				      &bad) &&
		       bad == 0;
#endif
	(void)database;
	return true;
}

/* In one transaction, so that the tables are of one moment. */
bool torture_tables(struct effects *database, const char *path)
{
	FILE *file = fopen(path, "w");
	const char *rows = ROWS(POSTGRES_ITEM), *begin = "begin isolation level repeatable read";
	bool good;

	if (file == NULL)
		return false;
#ifdef HAVE_SQLITE
	if (database->sqlite != NULL) {
		rows = ROWS(SQLITE_ITEM);
		begin = "begin";
	}
#endif
	good = effects_query(database, begin, NULL, NULL) && effects_query(database, rows, write_row, file) &&
	       effects_query(database, "select 'effect ' || item || ' ' || due from " SCHEMA "_effect", write_row,
			     file) &&
	       effects_query(database, "select 'intent ' || item from " SCHEMA "_intent", write_row, file) &&
	       effects_query(database, "commit", NULL, NULL) && is_whole(database);
	return fclose(file) == 0 && good;
}
