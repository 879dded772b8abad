/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parameters and results in PostgreSQL's binary form: integers in network order, an array as dimensions, whether it has
 * nulls, the type, the count, the first index, and then each item with its length.
 */
#include "db/postgres.h"

#include <stdlib.h>

static void append(struct pg_args *args, int at, const void *bytes, size_t len)
{
	void *value = args->values[at];

	if (!args->failed && !hwts_grow(&value, &args->rooms[at], args->lengths[at] + len, 1))
		args->failed = true;
	args->values[at] = value;
	if (args->failed)
		return;
	if (len > 0)
		memcpy(args->values[at] + args->lengths[at], bytes, len);
	args->lengths[at] += len;
}

static void append_number(struct pg_args *args, int at, uint64_t value, unsigned len)
{
	unsigned char bytes[8];

	for (unsigned i = 0; i < len; i++)
		bytes[i] = (unsigned char)(value >> 8 * (len - 1 - i));
	append(args, at, bytes, len);
}

static int next(struct pg_args *args)
{
	return args->n++;
}

void hwts_pg_int8(struct pg_args *args, int64_t value)
{
	append_number(args, next(args), (uint64_t)value, 8);
}

void hwts_pg_int4(struct pg_args *args, int32_t value)
{
	append_number(args, next(args), (uint32_t)value, 4);
}

void hwts_pg_bool(struct pg_args *args, bool value)
{
	append_number(args, next(args), value, 1);
}

void hwts_pg_text(struct pg_args *args, const char *text)
{
	int at = next(args);

	args->null[at] = !text;
	append(args, at, text ? text : "", text ? strlen(text) : 0);
}

void hwts_pg_bytes(struct pg_args *args, const char *bytes, size_t len)
{
	append(args, next(args), bytes, len);
}

void hwts_pg_array(struct pg_args *args, enum pg_type type, size_t n)
{
	int at = next(args);

	append_number(args, at, n > 0, 4); /* dimensions */
	append_number(args, at, 1, 4);     /* may have nulls */
	append_number(args, at, type, 4);
	if (n == 0)
		return;
	append_number(args, at, n, 4);
	append_number(args, at, 1, 4);
}

void hwts_pg_item_int8(struct pg_args *args, int64_t value)
{
	append_number(args, args->n - 1, 8, 4);
	append_number(args, args->n - 1, (uint64_t)value, 8);
}

void hwts_pg_item_int4(struct pg_args *args, int32_t value)
{
	append_number(args, args->n - 1, 4, 4);
	append_number(args, args->n - 1, (uint32_t)value, 4);
}

void hwts_pg_item_bool(struct pg_args *args, bool value)
{
	append_number(args, args->n - 1, 1, 4);
	append_number(args, args->n - 1, value, 1);
}

void hwts_pg_item_bytes(struct pg_args *args, const void *bytes, size_t len)
{
	append_number(args, args->n - 1, bytes ? len : UINT32_MAX, 4);
	append(args, args->n - 1, bytes, bytes ? len : 0);
}

void hwts_pg_args_free(struct pg_args *args)
{
	for (int i = 0; i < args->n; i++)
		free(args->values[i]);
	*args = (struct pg_args){ .n = 0 };
}

int64_t hwts_pg_get(const PGresult *result, int row, int column)
{
	const unsigned char *bytes = (const unsigned char *)PQgetvalue(result, row, column);
	int len = PQgetlength(result, row, column);
	uint64_t value = 0;

	if (len == 0)
		return 0;
	for (int i = 0; i < len; i++)
		value = value << 8 | bytes[i];
	if (len == 2)
		return (int16_t)value;
	return len == 4 ? (int32_t)value : (int64_t)value;
}
