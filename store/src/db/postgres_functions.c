/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of functions.h: made when a store is opened, and made again when their text has changed.  The store
 * itself calls none of them, so a program goes on without: where its role may not make them, or the database has no
 * PL/pgSQL.
 *
 * Which text was made stands in the comment on the sequence of their numbers.
 */
#include "db/functions.h"
#include "db/functions_put.h"
#include "db/postgres.h"

#include <stdio.h>
#include <stdlib.h>

/* What is new has no rights of its own yet: everybody could call it. */
static const char REVOKE[] =
    "do $hwt$ declare f oid; begin for f in select p.oid from pg_catalog.pg_proc p where p.pronamespace ="
    " pg_catalog.to_regnamespace(pg_catalog.quote_ident(pg_catalog.current_schema())) and p.proacl is null and "
    "p.proname"
    " in ('@_draw', '@_bucket', '@_bytes', '@_span', '@_moment', '@_find', '@_line', '@_tell', '@_put', '@_cancel',"
    " '@_named', '@_raise', '@_ruled', '@_pause', '@_resume', '@_limit', '@_cancel_key', '@_cancel_group', "
    "'@_reschedule', "
    "'@_reschedule_key', '@_make_kind') loop execute"
    " pg_catalog.format('revoke all on function %s from public', f::pg_catalog.regprocedure); end loop; end $hwt$;";

#define LINES (HWTS_COUNT(FUNCTIONS_PUT) + HWTS_COUNT(FUNCTIONS))

static const char *line_of(size_t i)
{
	return i < HWTS_COUNT(FUNCTIONS_PUT) ? FUNCTIONS_PUT[i] : FUNCTIONS[i - HWTS_COUNT(FUNCTIONS_PUT)];
}

static uint64_t mark_of_text(void)
{
	uint64_t mark = HWTS_VERSION;

	for (size_t i = 0; i < LINES; i++)
		for (const char *at = line_of(i); *at; at++)
			mark = hwts_mix(mark ^ (unsigned char)*at);
	return mark;
}

static void put_line(FILE *out, const char *line, const char *schema)
{
	for (const char *at = line; *at; at++)
		if (*at != '`')
			(void)fputc(*at, out);
		else if (at[1] == '`')
			(void)fputs((at++, schema), out);
		else
			(void)fprintf(out, "%s.@_", schema);
	(void)fputc('\n', out);
}

/* The functions of a schema, and the note that they are made; NULL: no memory. */
static char *text_of(const char *schema, uint64_t mark)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	bool failed;

	if (!out)
		return NULL;
	for (size_t i = 0; i < LINES; i++)
		put_line(out, line_of(i), schema);
	(void)fprintf(out, "%s;comment on sequence @_number is '%016llx'", REVOKE, (unsigned long long)mark);
	failed = ferror(out);
	if (fclose(out) == 0 && !failed)
		return text;
	free(text);
	return NULL;
}

static int make(struct pg_conn *conn, const char *text)
{
	int rc = hwts_pg_simple(conn, "begin; select pg_advisory_xact_lock(hashtext('@_meta'))");

	if (rc == 0)
		rc = hwts_pg_simple(conn, text);
	rc = hwts_pg_finish(&conn->conn, rc);
	return conn->conn.broken ? rc : 0;
}

/* It asks first, as the server logs each refusal. */
int hwts_pg_make_functions(struct pg_conn *conn)
{
	char asks[800], *text = NULL;
	uint64_t mark = mark_of_text();
	PGresult *result;
	int rc;

	(void)snprintf(asks, sizeof(asks),
		       "select quote_ident(current_schema()) from pg_class c where c.oid = to_regclass('@_meta')"
		       " and coalesce(obj_description(to_regclass('@_number'), 'pg_class'), '') <> '%016llx'"
		       " and pg_has_role(c.relowner, 'usage') and has_schema_privilege(c.relnamespace, 'create')"
		       " and c.relnamespace = to_regnamespace(quote_ident(current_schema()))"
		       " and position(chr(39) in current_schema()) = 0"
		       " and exists (select 1 from pg_language l where l.lanname = 'plpgsql')",
		       (unsigned long long)mark);
	rc = hwts_pg_one(conn, asks, &result);
	if (rc == 0 && PQntuples(result) == 1) {
		char *schema = hwts_alloc((size_t)PQgetlength(result, 0, 0) + 1);

		if (schema)
			memcpy(schema, PQgetvalue(result, 0, 0), (size_t)PQgetlength(result, 0, 0));
		text = schema ? text_of(schema, mark) : NULL;
		rc = text ? make(conn, text) : hwts_fail(ENOMEM, "no memory for the functions");
		free(schema);
	}
	PQclear(result);
	free(text);
	return rc;
}
