/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parameters and results in PostgreSQL's binary form.  Integers are in network order.  An array is: number of
 * dimensions, whether it may have nulls, type, count, first index; then each item with its length.
 */
#include "db/postgres.h"

#include <stdlib.h>

enum { BOOL = 16, BYTEA = 17, INT8 = 20, INT2 = 21, INT4 = 23 }; /* oids of the types */

#define HEAD 20 /* bytes of an array before its first item */

static void put_number(char **to, uint64_t value, unsigned len)
{
	hwts_put_bytes(*to, value, len);
	*to += len;
}

static unsigned width_of(char type)
{
	return type == 'b' || type == 'B' ? 1 : type == 'i' || type == 'I' || type == 'J' ? 8 : 4;
}

static size_t bytes_of(const struct hwts_value *values, size_t n)
{
	size_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += values[i].len;
	return bytes;
}

/* Writes an array of keys or data. */
static void put_bytes(char **to, const struct hwts_value *values, size_t n)
{
	put_number(to, n > 0, 4); /* dimensions */
	put_number(to, 1, 4);     /* may have nulls */
	put_number(to, BYTEA, 4);
	if (n == 0)
		return;
	put_number(to, n, 4);
	put_number(to, 1, 4);
	for (size_t i = 0; i < n; i++) {
		put_number(to, values[i].bytes ? values[i].len : UINT32_MAX, 4);
		if (values[i].bytes)
			memcpy(*to, values[i].bytes, values[i].len);
		*to += values[i].bytes ? values[i].len : 0;
	}
}

static void put_array(char **to, char type, const struct hwts_value *value)
{
	const int64_t *items = value->bytes;
	unsigned width = width_of(type);

	put_number(to, value->len > 0, 4); /* dimensions */
	put_number(to, 0, 4);              /* has no nulls */
	put_number(to, width == 8 ? INT8 : width == 4 ? INT4 : BOOL, 4);
	if (value->len == 0)
		return;
	put_number(to, value->len, 4);
	put_number(to, 1, 4);
	for (size_t i = 0; i < value->len; i++) {
		put_number(to, width, 4);
		put_number(to, (uint64_t)items[i], width);
	}
}

/* Makes room for all parameters, so that no step fails for memory once statements are being sent. */
int hwts_pg_reserve(struct pg_args *args, const struct hwts_step *step)
{
	const char *types = hwts_statements[step->sql].types;

	for (int i = 0; types[i]; i++) {
		size_t more = strchr("KD", types[i]) ? bytes_of(step->args[i].bytes, step->args[i].len) : 0;

		if (!hwts_grow(&args->values[i], &args->rooms[i], HEAD + (4 + 8) * step->args[i].len + more, 1))
			return ENOMEM;
	}
	return 0;
}

void hwts_pg_encode(struct pg_args *args, const struct hwts_step *step)
{
	const char *types = hwts_statements[step->sql].types;

	for (args->n = 0; types[args->n]; args->n++) {
		const struct hwts_value *value = &step->args[args->n];
		char *to = args->values[args->n];

		args->sent[args->n] = to;
		if (strchr("KD", types[args->n]))
			put_bytes(&to, value->bytes, value->len);
		else if (types[args->n] <= 'Z' || types[args->n] == 'l')
			put_array(&to, types[args->n], value);
		else if (strchr("inb", types[args->n]))
			put_number(&to, (uint64_t)value->number, width_of(types[args->n]));
		else
			args->sent[args->n] = value->bytes;
		args->lengths[args->n] = strchr("tkd", types[args->n]) ? (int)value->len
								       : (int)(to - args->values[args->n]);
		args->formats[args->n] = 1;
	}
}

void hwts_pg_args_free(struct pg_args *args)
{
	for (int i = 0; i < HWTS_ARGS; i++)
		free(args->values[i]);
}

int64_t hwts_pg_get(const PGresult *result, int row, int column)
{
	int len = PQgetlength(result, row, column);
	uint64_t value = hwts_get_bytes(PQgetvalue(result, row, column), (unsigned)len);

	if (len == 2)
		return (int16_t)value;
	return len == 4 ? (int32_t)value : (int64_t)value;
}

int hwts_pg_decode(const PGresult *result, const struct hwts_step *step)
{
	struct hwts_value values[HWTS_COLUMNS];
	int rc = 0;

	for (int row = 0; row < PQntuples(result) && rc == 0; row++) {
		for (int i = 0; i < PQnfields(result); i++) {
			Oid type = PQftype(result, i);

			values[i] = (struct hwts_value){ .number = 0 };
			if (type == INT8 || type == INT4 || type == INT2 || type == BOOL)
				values[i].number = hwts_pg_get(result, row, i);
			else if (!PQgetisnull(result, row, i))
				values[i] = (struct hwts_value)HWTS_BYTES(PQgetvalue(result, row, i),
									  (size_t)PQgetlength(result, row, i));
		}
		rc = step->each(step->ctx, values);
	}
	return rc;
}
