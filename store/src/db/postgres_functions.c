/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of store/sql/functions.sql.  The store calls none of them, so it also works without: where its role may
 * not make them, or the database has no PL/pgSQL.
 *
 * Each open compares the functions that exist with those that should: text, owner, search path, and whether PUBLIC may
 * call them.  A restored dump without owners or rights, a renamed schema, default privileges or a dropped function show
 * as differences.  The first line of a body has a hash of the whole function.  So equal bodies are equal functions, and
 * functions of an earlier version are told from functions that a user has made under the same name.
 *
 * The functions belong to the owner of the tables, whichever role opens the store.
 */
#include "db/postgres.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const LINE[] = {
#include "sql/functions.h"
};
#define LINES HWTS_COUNT(LINE)
#define FIRST 2 /* the first line of a function; the lines before make the sequence */
#define CREATE "create or replace function `"
#define PATH "search_path=pg_catalog, pg_temp"

static bool begins_function(size_t i)
{
	return strncmp(LINE[i], CREATE, strlen(CREATE)) == 0;
}

/* True for the last line before the body. */
static bool ends_head(const char *line)
{
	static const char end[] = " as $hwt$";

	return strlen(line) >= strlen(end) && strcmp(line + strlen(line) - strlen(end), end) == 0;
}

static bool ends_function(const char *line)
{
	return strcmp(line, "end $hwt$;") == 0;
}

static uint64_t hash_of(size_t i)
{
	uint64_t hash = HWTS_VERSION;

	for (; i < LINES; i++) {
		for (const char *at = LINE[i]; *at; at++)
			hash = hwts_mix(hash ^ (unsigned char)*at);
		if (ends_function(LINE[i]))
			break;
	}
	return hash;
}

static void put_hash(FILE *out, size_t function)
{
	(void)fprintf(out, "-- libhwt-store %016llx\n", (unsigned long long)hash_of(function));
}

static void put_script(FILE *out)
{
	size_t function = 0;

	for (size_t i = 0; i < LINES; i++) {
		function = begins_function(i) ? i : function;
		(void)fprintf(out, "%s\n", LINE[i]);
		if (begins_function(function) && ends_head(LINE[i]))
			put_hash(out, function);
	}
}

/* Writes 'NAME', with a comma before all but the first. */
static void put_name(FILE *out, size_t i, const char *before)
{
	const char *name = strchr(LINE[i], '`') + 1;

	(void)fprintf(out, "%s%s'@_%.*s'", i > FIRST ? ", " : "", before, (int)strcspn(name, "("), name);
}

/*
 * Writes a row of VALUES: name, whether the function runs with its owner's rights, body.  Returns the function's last
 * line.
 */
static size_t put_row(FILE *out, size_t i)
{
	size_t function = i;
	bool definer = false;

	put_name(out, i, "(");
	for (;; i++) {
		definer |= strstr(LINE[i], "security definer") != NULL;
		if (ends_head(LINE[i]))
			break;
	}
	(void)fprintf(out, ", %s, $hwt$\n", definer ? "true" : "false");
	put_hash(out, function);
	for (i++; !ends_function(LINE[i]); i++)
		(void)fprintf(out, "%s\n", LINE[i]);
	(void)fputs("end $hwt$)", out);
	return i;
}

static void put_wanted(FILE *out)
{
	(void)fputs("(values ", out);
	for (size_t i = FIRST; i < LINES; i++)
		if (begins_function(i))
			i = put_row(out, i);
	(void)fputs(")", out);
}

/* Compares the functions that are wanted (w) with those that exist; s is the store's owner and schema. */
#define STORE                                                                                                          \
	" s(owner, place) as (select c.relowner, c.relnamespace from pg_class c"                                       \
	" where c.oid = to_regclass($hwt$@_meta$hwt$)::oid)"
#define IS_RIGHT                                                                                                       \
	"p.pronamespace = s.place and p.proname = w.name and p.prosrc = w.body and p.prosecdef = w.definer"            \
	" and p.proowner = s.owner and coalesce(array_to_string(p.proconfig, ' '), '') = case when"                    \
	" w.definer then '" PATH "' else '' end and not has_function_privilege('public', p.oid, 'execute')"
#define VIEWS "c.relname in ('@_timeouts', '@_kinds') and c.relnamespace = s.place"
#define OURS "p.pronamespace = s.place and p.proname in (select w.name from w)"

static const char COMPARE[] =
    " select (select count(*) from w where not exists (select 1 from pg_proc p where " IS_RIGHT
    ")) + (select 3 - count(*) from (select 1 from pg_trigger t where t.tgname = '@_raise' and t.tgrelid in"
    " (to_regclass($hwt$@_kind$hwt$)::oid, to_regclass($hwt$@_group$hwt$)::oid) union all select 1 from"
    " pg_class c where c.relname = '@_number' and c.relnamespace = s.place and c.relowner = s.owner) there)"
    " + (select count(*) from pg_class c where " VIEWS " and c.relowner <> s.owner),"
    " (select count(*) from pg_proc p where " OURS "), exists (select 1 from pg_proc p where " OURS
    " and p.prosecdef and has_function_privilege('public', p.oid, 'execute')), (select string_agg(c.cure, '; ') from"
    " (select distinct case when r.rolsuper then format('open the store as %s', o.boss::regrole) when o.kind ="
    " 'sequence' then format('alter %s %s owner to %s', o.kind, o.name, s.owner::regrole) else"
    " format('drop %s %s', o.kind, o.name) end as cure from (select 'function' as kind, p.oid::regprocedure || case"
    " p.proname when '@_raise' then ' cascade' else '' end as name, p.proowner as boss from pg_proc p where " OURS
    " union all select case c.relkind when 'v' then 'view' else 'sequence' end, c.oid::regclass::text, c.relowner from"
    " pg_class c where " VIEWS " or c.relname = '@_number' and c.relnamespace = s.place) o, pg_roles r where r.oid ="
    " o.boss and r.oid <> s.owner limit 4) c) from s";

/* Schema, owner and names of the store. */
#define BLOCK                                                                                                          \
	"do $hwt$ declare"                                                                                             \
	" home constant oid := (select c.relnamespace from pg_class c where c.oid = '`meta'::regclass);"               \
	" boss constant oid := (select c.relowner from pg_class c where c.oid = '`meta'::regclass);"                   \
	" names constant name[] := array[%s]; o record; g record; begin "

/*
 * Executed before the functions are made, as the role that opens the store.  An earlier version let a superuser make
 * them as its own: such functions are handed to the owner of the tables.  Functions of a lesser role are left alone:
 * that role may have put them there to be taken over, with rights that it keeps.
 */
static const char ADOPT[] = BLOCK
    "if current_setting('is_superuser') = 'on' then for o in select 'function ' || p.oid::regprocedure as name"
    " from pg_proc p, pg_roles r where p.pronamespace = home and p.proname = any(names) and r.oid = p.proowner"
    " and r.rolsuper and r.oid <> boss union all select case c.relkind when 'v' then 'view ' else 'sequence ' end ||"
    " c.oid::regclass from pg_class c, pg_roles r where c.relnamespace = home and c.relname in ('@_number',"
    " '@_timeouts', '@_kinds') and r.oid = c.relowner and r.rolsuper and r.oid <> boss"
    " loop execute format('alter %%s owner to %%s', o.name, boss::regrole); end loop; end if; end $hwt$;";

/*
 * Executed afterwards.  Functions of an earlier version with other arguments are dropped, and roles that could call
 * them may call the new ones.  PUBLIC may call none, whatever the default privileges are.
 */
static const char TIDY[] = BLOCK
    "for o in select p.oid, p.proname, p.proacl from pg_proc p where p.pronamespace = home and p.proname = any(names)"
    " and p.proowner = boss and strpos(p.prosrc, '-- libhwt-store ') = 2 and p.xmin <> pg_current_xact_id()::xid loop"
    " for g in select distinct a.grantee, n.oid from aclexplode(o.proacl) a, pg_proc n where n.proname = o.proname"
    " and n.pronamespace = home and n.xmin = pg_current_xact_id()::xid and a.grantee <> 0 and a.grantee <> boss loop"
    " execute format('grant execute on function %%s to %%s', g.oid::regprocedure, g.grantee::regrole); end loop;"
    " execute format('drop function %%s', o.oid::regprocedure); end loop;"
    " for o in select p.oid from pg_proc p where p.pronamespace = home and p.proname = any(names)"
    " and strpos(p.prosrc, '-- libhwt-store ') = 2 and has_function_privilege('public', p.oid, 'execute') loop"
    " execute format('revoke all on function %%s from public', o.oid::regprocedure); end loop; end $hwt$;";

/* Writes the names, separated by commas. */
static void put_names(FILE *out)
{
	for (size_t i = FIRST; i < LINES; i++)
		if (begins_function(i))
			put_name(out, i, "");
}

/* Closes out, and returns what was written.  NULL: no memory. */
static char *closed(FILE *out, char **text)
{
	bool failed = ferror(out);

	if (fclose(out) == 0 && !failed)
		return *text;
	free(*text);
	return NULL;
}

static char *names(void)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	put_names(out);
	return closed(out, &text);
}

static char *comparison(void)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	(void)fputs("with w(name, definer, body) as ", out);
	put_wanted(out);
	(void)fputs("," STORE, out);
	(void)fputs(COMPARE, out);
	return closed(out, &text);
}

static char *script(void)
{
	char *text = NULL, *list = names();
	size_t len;
	FILE *out = list ? open_memstream(&text, &len) : NULL;

	if (out) {
		(void)fprintf(out, ADOPT, list);
		(void)fputs(HWTS_PG_BE_OWNER, out);
		put_script(out);
		(void)fprintf(out, TIDY, list);
	}
	free(list);
	return out ? closed(out, &text) : NULL;
}

struct comparison {
	int64_t wrong;
	bool exist, open; /* exist: some do.  open: PUBLIC may call one that runs with its owner's rights */
	char cure[1000];  /* statements that mend what belongs to another role, for a few of them; "": none */
};

static int compare(struct pg_conn *conn, struct comparison *is)
{
	char *text = comparison();
	PGresult *result = NULL;
	int rc = text ? hwts_pg_one(conn, text, &result) : hwts_fail(ENOMEM, "no memory for the functions");

	free(text);
	is->wrong = 0;
	if (rc == 0 && PQntuples(result) == 1) {
		is->wrong = hwts_pg_get(result, 0, 0);
		is->exist = hwts_pg_get(result, 0, 1) != 0;
		is->open = hwts_pg_get(result, 0, 2) != 0;
		hwts_cut(is->cure, sizeof(is->cure), PQgetvalue(result, 0, 3), (size_t)PQgetlength(result, 0, 3));
	}
	PQclear(result);
	return rc;
}

/*
 * Does not try what would be refused: the server logs each refusal, and it need not show that a role without rights
 * opened the store.
 */
static int make(struct pg_conn *conn, const struct hwts_pg_home *home, struct comparison *is)
{
	char *text, reason[200] = "the role may not act as the owner, or the owner may not create in the schema";
	int rc = EACCES;

	if (home->may_make) {
		text = script();
		if (!text)
			return hwts_fail(ENOMEM, "no memory for the functions");
		rc = hwts_pg_make(conn, text);
		free(text);
		if (rc != 0)
			hwts_cut(reason, sizeof(reason), hwts_fail_text(), strlen(hwts_fail_text()));
		else
			rc = compare(conn, is);
	}
	if (is->wrong && (is->exist || home->is_owner))
		(void)snprintf(conn->conn.db->notice, sizeof(conn->conn.db->notice),
			       "the SQL functions are not those of this version%s: %s%s%s; %sopen the store as %s",
			       is->open ? ", and EVERYBODY may call them" : "",
			       rc == 0 ? "another role owns some of them" : reason,
			       is->cure[0] ? "; as a superuser: " : "", is->cure, is->cure[0] ? "then " : "",
			       home->owner);
	return conn->conn.broken ? rc : 0;
}

int hwts_pg_make_functions(struct pg_conn *conn, const struct hwts_pg_home *home)
{
	struct comparison is;
	int rc = compare(conn, &is);

	return rc == 0 && is.wrong ? make(conn, home, &is) : rc;
}
