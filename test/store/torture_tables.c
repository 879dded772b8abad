/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables of the store and the one of effects, as history.pl reads them.
 */
#include "torture.h"

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

/* KIND is the number of its name in kind_names, which is its mode. */
#define KIND "case k.name when 'remind' then 0 when 'ring' then 1 else 2 end"
#define ROWS(data)                                                                                                     \
	"select 'row ' || " data " || ' ' || t.id || ' ' || " KIND                                                     \
	" || ' ' || t.state || ' ' || t.attempt from " SCHEMA "_timeout t join " SCHEMA                                \
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

/* In one transaction, so that it is one moment. */
bool torture_tables(struct effects *database, const char *path)
{
	FILE *file = fopen(path, "w");
	const char *rows = ROWS("convert_from(t.data, 'UTF8')"), *begin = "begin isolation level repeatable read";
	bool good;

	if (file == NULL)
		return false;
#ifdef HAVE_SQLITE
	if (database->sqlite != NULL) {
		rows = ROWS("cast(t.data as text)");
		begin = "begin";
	}
#endif
	good = effects_query(database, begin, NULL, NULL) && effects_query(database, rows, write_row, file) &&
	       effects_query(database, "select 'effect ' || item from " SCHEMA "_effect", write_row, file) &&
	       effects_query(database, "commit", NULL, NULL) && is_whole(database);
	return fclose(file) == 0 && good;
}
