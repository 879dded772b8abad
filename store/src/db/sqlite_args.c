/* SPDX-License-Identifier: BSD-2-Clause */
/* Parameters and rows of SQLite's statements. */
#include "db/sqlite.h"

#include <stdlib.h>

#define NOW 31 /* numbers of the parameters for the clocks; sql.c */
#define BOOT 32
#define MONO 30

/* Binds the list as ",1,5," or "[1,5]", by ends. */
static int bind_list(sqlite3_stmt *made, int at, const char *ends, const struct hwts_value *value)
{
	const int64_t *items = value->bytes;
	char *list = hwts_alloc(value->len * (HWTS_DIGITS + 1) + 2), *end = list;

	if (!list)
		return SQLITE_NOMEM;
	*end++ = ends[0];
	for (size_t i = 0; i < value->len; i++) {
		end = hwts_put_digits(end, items[i]);
		*end++ = ',';
	}
	if (value->len == 0)
		end++;
	end[-1] = ends[1];
	return sqlite3_bind_text(made, at, list, (int)(end - list), free);
}

static int bind(sqlite3_stmt *made, int at, char type, const struct hwts_value *value, size_t element)
{
	switch (type) {
	case 't':
	case 'k':
		return sqlite3_bind_text(made, at, value->bytes, (int)value->len, SQLITE_STATIC);
	case 'd':
		return sqlite3_bind_blob64(made, at, value->bytes, value->len, SQLITE_STATIC);
	case 'l':
		return bind_list(made, at, ",,", value);
	case 'J':
		return bind_list(made, at, "[]", value);
	case 'K':
		value = (const struct hwts_value *)value->bytes + element;
		return sqlite3_bind_text(made, at, value->bytes, (int)value->len, SQLITE_STATIC);
	case 'D':
		value = (const struct hwts_value *)value->bytes + element;
		return sqlite3_bind_blob64(made, at, value->bytes, value->len, SQLITE_STATIC);
	case 'I':
	case 'N':
	case 'B':
		return sqlite3_bind_int64(made, at, ((const int64_t *)value->bytes)[element]);
	default:
		return sqlite3_bind_int64(made, at, value->number);
	}
}

int hwts_sqlite_bind(struct sqlite_conn *conn, const struct hwts_step *step, size_t element)
{
	const char *types = hwts_statements[step->sql].types;
	sqlite3_stmt *made = conn->made[step->sql];
	int rc = SQLITE_OK, most = sqlite3_bind_parameter_count(made);

	/* The text for PostgreSQL may have more parameters. */
	for (int i = 0; i < most && types[i] && rc == SQLITE_OK; i++)
		if (element == 0 || types[i] <= 'Z') /* scalars stay bound from element 0 */
			rc = bind(made, i + 1, types[i], &step->args[i], element);
	if (rc == SQLITE_OK && most >= MONO)
		rc = sqlite3_bind_int64(made, MONO, conn->read_ns);
	if (rc == SQLITE_OK && most >= NOW)
		rc = sqlite3_bind_int64(made, NOW, conn->now_us);
	if (rc == SQLITE_OK && most >= BOOT)
		rc = sqlite3_bind_int64(made, BOOT, conn->boot_us);
	return rc;
}

int hwts_sqlite_tell(sqlite3_stmt *made, const struct hwts_step *step)
{
	struct hwts_value row[HWTS_COLUMNS];

	for (int i = 0; i < sqlite3_column_count(made); i++) {
		int type = sqlite3_column_type(made, i);

		row[i] = (struct hwts_value){ .number = 0 };
		if (type == SQLITE_INTEGER) {
			row[i].number = sqlite3_column_int64(made, i);
		} else if (type != SQLITE_NULL) { /* text is UTF-8 only if it is read as text */
			row[i].bytes = type == SQLITE_TEXT ? (const void *)sqlite3_column_text(made, i)
							   : sqlite3_column_blob(made, i);
			row[i].len = (size_t)sqlite3_column_bytes(made, i);
			if (!row[i].bytes)
				row[i].bytes = "";
		}
	}
	return step->each(step->ctx, row);
}
