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
	for (int i = 0; i < HWTS_PG_ARGS; i++)
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

/*
 * Steps
 */

static void encode_array(struct pg_args *args, char type, const struct hwts_value *value)
{
	const int64_t *items = value->bytes;

	hwts_pg_array(args, type == 'I' ? PG_INT8 : type == 'B' ? PG_BOOL : PG_INT4, value->len);
	for (size_t i = 0; i < value->len; i++) {
		if (type == 'I')
			hwts_pg_item_int8(args, items[i]);
		else if (type == 'B')
			hwts_pg_item_bool(args, items[i] != 0);
		else
			hwts_pg_item_int4(args, (int32_t)items[i]);
	}
}

/* Room for all parameters, so that nothing fails for memory once statements are on their way. */
int hwts_pg_reserve(struct pg_args *args, const struct hwts_step *step)
{
	const char *types = hwts_statements[step->sql].types;

	for (int i = 0; types[i]; i++) {
		size_t len = types[i] <= 'Z' || types[i] == 'l' ? 20 + 12 * step->args[i].len : 8 + step->args[i].len;
		void *value = args->values[i];
		bool ok = hwts_grow(&value, &args->rooms[i], len, 1);

		args->values[i] = value;
		args->n = HWTS_MAX(args->n, i + 1);
		if (!ok)
			return ENOMEM;
	}
	return 0;
}

int hwts_pg_encode(struct pg_args *args, const struct hwts_step *step)
{
	const char *types = hwts_statements[step->sql].types;

	args->n = 0;
	args->failed = false;
	memset(args->lengths, 0, sizeof(args->lengths));
	memset(args->null, 0, sizeof(args->null));
	for (const struct hwts_value *value = step->args; *types; types++, value++) {
		switch (*types) {
		case 'i':
			hwts_pg_int8(args, value->number);
			break;
		case 'n':
			hwts_pg_int4(args, (int32_t)value->number);
			break;
		case 'b':
			hwts_pg_bool(args, value->number != 0);
			break;
		case 't':
		case 'k':
		case 'd':
			args->null[args->n] = !value->bytes;
			hwts_pg_bytes(args, value->bytes, value->bytes ? value->len : 0);
			break;
		default:
			encode_array(args, *types, value);
		}
	}
	return args->failed ? ENOMEM : 0;
}

int hwts_pg_decode(const PGresult *result, const struct hwts_step *step)
{
	struct hwts_value values[HWTS_COLUMNS];
	int rc = 0;

	for (int row = 0; row < PQntuples(result) && rc == 0; row++) {
		for (int i = 0; i < PQnfields(result); i++) {
			Oid type = PQftype(result, i);

			values[i] = (struct hwts_value){ .number = 0 };
			if (type == PG_INT8 || type == PG_INT4 || type == PG_INT2 || type == PG_BOOL)
				values[i].number = hwts_pg_get(result, row, i);
			else if (!PQgetisnull(result, row, i))
				values[i] = (struct hwts_value)HWTS_BYTES(PQgetvalue(result, row, i),
									  (size_t)PQgetlength(result, row, i));
		}
		rc = step->each(step->ctx, values);
	}
	return rc;
}
