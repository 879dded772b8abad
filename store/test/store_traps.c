/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Traps of the functions: a role that may create functions and operators in the schema of the store makes a trap for
 * each name that the store's functions use, with the same argument types.  The functions never call a trap.
 *
 * The names come from parse trees: the server logs each tree with the text of its statement or expression.  PL/pgSQL
 * parses an expression when it is first reached, so CALLS reach all expressions; MISSED checks that the texts together
 * have each word and operator of the functions' source.
 *
 * Traps of the library's statements: one for each function and operator of pg_catalog, in a schema that is before
 * pg_catalog in the search path of the role.  A statement that looked by that path would call one.
 */
#include "rows/rows.h"
#include "inside.h"
#include "sql_calls.h"

#ifdef HWT_STORE_POSTGRES

/* "!": by the owner.  In the text ` stands for the schema and the prefix. */
static const char *const CALLS[] = {
	"select `put('a')",
	"select `put('a', 'x', key => 'k', grp => 'g', delay => '1 hour')",
	"select `put('a', 'x', key => 'k', grp => 'g', delay => '1 hour')",
	"select `put('a', 'x', key => 'k', grp => 'g', if_exists => 'keep')",
	"select `put('a', 'x', key => 'k', grp => 'g', if_exists => 'replace')",
	"!update `timeout set state = 2, epoch = 1",
	"select `put('a', 'x', key => 'k', grp => 'g', if_exists => 'replace')",
	"select `cancel_key('a', 'k', 'g')",
	"!update `timeout set period_us = 5000000",
	"select `cancel(id) from (select id from `seen) i",
	"select `reschedule(id) from (select id from `seen) i",
	"select `cancel_group('a', 'g')",
	"!update `timeout set state = 3, shard = -1 - shard",
	"select `put('a', 'x', key => 'k', grp => 'g', if_exists => 'revive')",
	"select `reschedule_key('a', 'k', 'g', '1 second')",
	"select `cancel(1)",
	"select `reschedule(1)",
	"select `cancel_key('a', 'k', 'g')",
	"select `put('a', key => 'a long one')",
	"select `bucket(null, 5)",
	"select `cancel_key('a', null)",
	"select `cancel_group('a', null)",
	"select `put('a', repeat('x', 1048577))",
	"select `put('a', priority => 101)",
	"select `put('a', 'x', key => 's', every => '1 day', delay => '1 hour', if_exists => 'keep_due')",
	"select `put('a', 'x', key => 's', every => '1 day', delay => '1 hour', if_exists => 'keep_due')",
	"select `put('a', 'x', key => 's', every => '2 days', if_exists => 'keep_due')",
	"select `put('a', 'x', key => 's', cron => '@daily', if_exists => 'keep_due')",
	"select `put('a', 'y', key => 's', cron => '@daily', if_exists => 'keep_due')",
	"select `put('a', 'x', key => 's', every => '1 s', if_exists => 'keep_due')",
	"!update `timeout set state = 3, shard = -1 - shard where key = 's'",
	"select `put('a', 'x', key => 's', every => '1 s', if_exists => 'keep_due')",
	"!update `timeout set base_us = 1, due_us = 1 where key = 's'",
	"select `put('a', 'x', key => 's', every => '3 days', if_exists => 'keep_due')",
	"select `put('a', 'x', key => 's', every => '4 days', if_exists => 'keep_due')",
	"select `put('a', key => 'once')",
	"select `put('a', key => 'once', every => '1 day', if_exists => 'keep_due')",
	"select `put('a', key => 's', if_exists => 'keep_due')",
	"select `put('a', key => 'k', if_exists => 'merge')",
	"select `put('a', if_exists => 'keep')",
	"select `put('a', 'x', 'x')",
	"select `put('a', key => '')",
	"select `put('a', every => '1 day', cron => '@daily')",
	"select `put('a', every => '1 day', grace => '1 s', at => now())",
	"select `put('a', every => '1 month')",
	"select `put('a', every => '1 ms')",
	"select `put('a', cron => '@daily', zone => 'UTC')",
	"select `put('a', zone => 'UTC')",
	"select `put('a', cron => '?')",
	"select `put('a', cron => '@daily', zone => '/')",
	"select `put('a', cron => '@daily', zone => 'No/Such')",
	"select `put('a', cron => '@daily', zone => 'FOO+5')",
	"select `put('a', delay => '-1 s')",
	"select `put('a', delay => '1 s', at => now())",
	"select `put('a', at => 'infinity')",
	"select `put('a', at => '1969-01-01')",
	"select `put('none')",
	"select `put(null)",
	"!select setval('`number', 1)",
	"select `put('a')",
	"select `put_many('a', array['x', null], array[null, '\\x00'::bytea], null, null, '{m, null}', '{null, m}')",
	"select `put_many('a', array['x'], at => array[now()], key => array['m'], if_exists => 'replace')",
	"select `put_many('a', array['x'], delay => '1 hour', priority => 3)",
	"select `put_many('a', array['x'], key => array['m', 'n'])",
	"select `put_many('a', key => array[['m', 'n'], ['o', 'p']])",
	"select `put_many('a', array['x'], delay => '1 hour', at => array[now()])",
	"select `make_kind('')",
	"select `make_kind('b')",
	"select `put('b', delay => '1 hour')",
	"!update `kind set removed = true where name = 'b'",
	"select `put('b')",
	"select `make_kind('b')",
	"begin; set local synchronous_commit = off; select `make_kind('c'); commit",
	"select `pause('a')",
	"select `pause('a', 'g')",
	"select `resume('a', 'g')",
	"select `resume('a')",
	"select `limit('a', running => -1)",
	"select `limit('a', running => 1, remove => true)",
	"select `limit('a', start_every => '1 s')",
	"select `limit('a', 'g', 3)",
	"select `limit('a', 'g', remove => true)",
	"!update `shard set owner = 'somebody'",
	"begin; select `put('a'); select `put('a'); select `put('a'); select `put('a'); select `put('a'); commit",
	"select `pause('a')",
};

/* Runs the text, with ` as the schema and the prefix, and @ of @_ as the prefix alone. */
static PGresult *run(PGconn *conn, const char *text)
{
	char out[65536];
	size_t n = 0;

	for (; *text; text++)
		if (*text == '`')
			n += (size_t)snprintf(out + n, sizeof(out) - n, "public.%s_", world.schema);
		else if (*text == '@' && text[1] == '_')
			n += (size_t)snprintf(out + n, sizeof(out) - n, "%s", world.schema);
		else
			out[n++] = *text;
	REQUIRE(n < sizeof(out));
	out[n] = '\0';
	return PQexec(conn, out);
}

static void must(PGconn *conn, const char *text)
{
	PGresult *result = run(conn, text);
	ExecStatusType status = PQresultStatus(result);

	CHECK(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ||
	      (fprintf(stderr, "    %s: %s\n", text, PQerrorMessage(conn)), false));
	PQclear(result);
}

/* Prints the first value of each row; returns the number of rows. */
static int list(PGconn *conn, const char *text)
{
	PGresult *result = run(conn, text);
	int n = PQresultStatus(result) == PGRES_TUPLES_OK ? PQntuples(result) : -1;

	for (int i = 0; i < n; i++)
		fprintf(stderr, "    %s\n", PQgetvalue(result, i, 0));
	if (n < 0)
		fprintf(stderr, "    %s\n", PQerrorMessage(conn));
	PQclear(result);
	return n;
}

/*
 * Trees as the server writes them: {LABEL :field value ...}, where a value is words, a node, or a list in parentheses
 */

struct tree {
	const char *at;
	PGconn *notes;
};

struct types {
	unsigned type[40];
	unsigned n;
};

struct node {
	char label[64];
	unsigned function, operator, type;
	bool implicit; /* a cast that the source does not contain */
	struct types args;
};

static bool next_word(struct tree *tree, char word[64])
{
	size_t n = 0;

	tree->at += strspn(tree->at, " \n");
	if (*tree->at && strchr("{}()", *tree->at)) {
		word[n++] = *tree->at++;
	} else {
		for (; *tree->at && !strchr(" \n{}()", *tree->at); tree->at++) {
			if (*tree->at == '\\' && tree->at[1])
				tree->at++;
			if (n < 63)
				word[n++] = *tree->at;
		}
	}
	word[n] = '\0';
	return n > 0;
}

static bool is_one_of(const char *word, const char *words)
{
	const char *at = strstr(words, word);

	return at && at[strlen(word)] == ' ' && (at == words || at[-1] == ' ');
}

static void note_call(const struct tree *tree, const struct node *node)
{
	char id[16], types[512] = "{", *at = types + 1;
	const char *values[] = { node->operator? "o" : "f", id, types };

	(void)snprintf(id, sizeof(id), "%u", node->operator ? node->operator : node->function);
	for (unsigned i = 0; i < node->args.n && strcmp(node->label, "SCALARARRAYOPEXPR") != 0; i++)
		at += sprintf(at, "%s%u", i > 0 ? "," : "", node->args.type[i]);
	(void)strcpy(at, "}");
	PQclear(PQexecParams(tree->notes, "insert into found values ($1, $2, $3) on conflict do nothing", 3, NULL,
			     values, NULL, NULL, 0));
}

static unsigned read_node(struct tree *tree);

static void read_value(struct tree *tree, const char *field, struct node *node, const char *word)
{
	struct types types = { .n = 0 };
	int depth = 0;

	if (strcmp(word, "{") == 0) {
		types.type[types.n++] = read_node(tree);
	} else if (strcmp(word, "(") == 0) {
		char in[64];

		for (depth = 1; depth > 0 && next_word(tree, in);)
			if (strcmp(in, "{") == 0) {
				unsigned type = read_node(tree);

				if (types.n < 40)
					types.type[types.n++] = type;
			} else {
				depth += in[0] == '(' ? 1 : in[0] == ')' ? -1 : 0;
			}
	} else if (is_one_of(field, "funcid aggfnoid winfnoid ")) {
		node->function = (unsigned)strtoul(word, NULL, 10);
	} else if (strcmp(field, "opno") == 0) {
		node->operator=(unsigned) strtoul(word, NULL, 10);
	} else if (is_one_of(field,
			     "vartype paramtype consttype funcresulttype opresulttype aggtype resulttype casetype "
			     "coalescetype minmaxtype array_typeid refrestype typeId ")) {
		node->type = (unsigned)strtoul(word, NULL, 10);
	} else if (is_one_of(field, "funcformat relabelformat coerceformat ")) {
		node->implicit = strcmp(word, "2") == 0;
	}
	if (is_one_of(field, "args arg expr subselect targetList ") && types.n > 0)
		node->args = types;
}

/* Reads after a node's "{".  Returns the type that the writer has given it, or 0 if it cannot be told. */
static unsigned read_node(struct tree *tree)
{
	struct node node = { .function = 0 };
	char word[64], field[64] = "";
	bool fresh = false; /* the field has no value so far */

	(void)next_word(tree, word);
	(void)snprintf(node.label, sizeof(node.label), "%s", word);
	while (next_word(tree, word) && strcmp(word, "}") != 0) {
		if (word[0] == ':' && word[1]) {
			(void)snprintf(field, sizeof(field), "%s", word + 1);
			fresh = true;
		} else if (fresh || word[0] == '{' || word[0] == '(') {
			read_value(tree, field, &node, word);
			fresh = false;
		}
	}
	if (node.function != 0 || node.operator!= 0)
		note_call(tree, &node);
	if (is_one_of(node.label, "BOOLEXPR NULLTEST BOOLEANTEST SCALARARRAYOPEXPR "))
		return 16;
	if (is_one_of(node.label, "TARGETENTRY QUERY SUBLINK ") || node.implicit)
		return node.args.n > 0 ? node.args.type[0] : 0;
	return node.type;
}

/* Notes a tree of the server's log: its function, its line and its text. */
static void note_tree(void *arg, const PGresult *notice)
{
	static const char in[] = "\"\nPL/pgSQL function ";
	PGconn *notes = arg;
	const char *detail = PQresultErrorField(notice, PG_DIAG_MESSAGE_DETAIL);
	const char *context = PQresultErrorField(notice, PG_DIAG_CONTEXT), *from, *to;
	char text[8192], name[512];
	const char *values[] = { name, text };

	if (!detail || strncmp(detail, "{QUERY", 6) != 0)
		return;
	if (!context || (from = strchr(context, '"')) == NULL || (to = strstr(from, in)) == NULL)
		return; /* written by the caller */
	(void)snprintf(text, sizeof(text), "%.*s", (int)(to - from) - 1, from + 1);
	to += strlen(in);
	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(to, "\n"), to);
	PQclear(PQexecParams(notes, "insert into walked values ($1, $2) on conflict do nothing", 2, NULL, values, NULL,
			     NULL, 0));
	(void)read_node(&(struct tree){ .at = detail + 1, .notes = notes });
}

static atomic_int trapped;

static void note_trap(void *arg, const PGresult *notice)
{
	const char *message = PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY);

	(void)arg;
	if (message && strstr(message, "trapped")) {
		fprintf(stderr, "    %s\n", message);
		atomic_fetch_add(&trapped, 1);
	}
}

static void call_all(PGconn *owner, PGconn *caller)
{
	for (size_t i = 0; i < sizeof(CALLS) / sizeof(CALLS[0]); i++) {
		if (CALLS[i][0] == '!')
			must(owner, CALLS[i] + 1);
		else
			PQclear(run(caller, CALLS[i]));
	}
}

static const char WALK[] =
    "create unlogged table found (kind text, id oid, types oid[], unique (kind, id, types));"
    "create unlogged table walked (place text, said text, unique (place, said));"
    "create view `seen as select id from `timeout where state = 2; grant select on `seen to public;";

/* Replaces the functions: loops end at once, and UTF8 stands for SQL_ASCII, so that the code after these is reached. */
static const char SHORTEN[] =
    "do 'declare f record; begin for f in select p.oid, pg_get_functiondef(p.oid) d from pg_proc p where"
    " starts_with(p.proname, ''@_'') loop"
    " execute replace(replace(f.d, ''1 .. 100 loop'', ''1 .. 0 loop''), ''SQL_ASCII'', ''UTF8''); end loop; end'";

/*
 * Words and operators of the sources, without literals and text that is no expression; and how often each was walked.
 */
#define WORDS(text)                                                                                                    \
	"regexp_matches(regexp_replace(regexp_replace(" text                                                           \
	", E'''[^'']*''|(#variable_conflict|--)[^\\n]*', '', 'g'),"                                                    \
	" '(using|,)\\s+(message|hint)\\s+=|:=|get diagnostics n =', ' ', 'g'),"                                       \
	" '[a-z_]+(?=\\()|[-+*/<>=~!@#%^&|]+|::|\\m(?:between|in|zone)\\M', 'g')"

static const char MISSED[] = "with source as (select p.proname, w[1] word, count(*) n from pg_proc p, " WORDS(
    "p.prosrc") " w"
		" where starts_with(p.proname, '@_') and p.prolang <> 12 group by 1, 2),"
		" seen as (select split_part(t.place, '(', 1) proname, w[1] word, count(*) n from (select distinct"
		" replace(place, 'public.', '') place, said from walked) t, " WORDS(
		    "t.said") " w"
			      " group by 1, 2)"
			      " select s.proname || ': ' || s.word || ' ' || s.n || ' ' || coalesce(w.n, 0)"
			      " from source s left join seen w using (proname, word) where coalesce(w.n, 0) < s.n"
			      " and s.word not in (select word from pg_get_keywords() where catcode = 'R') order by 1";

static void walk(PGconn *notes)
{
	USER *conn = connect_user();

	(void)PQsetNoticeReceiver(conn, note_tree, notes);
	must(conn, "set debug_print_parse = on; set debug_pretty_print = off; set client_min_messages = log;"
		   "set log_min_messages = panic");
	call_all(notes, conn);
}

/* Each call with the types of its arguments, and the statement that makes a trap for it. */
static const char TRAPS[] =
    "create view calls as select f.kind, p.oid, p.proname::text as name, p.pronamespace as place,"
    " p.prorettype as result, p.proargtypes::oid[] as wants, f.types from found f join pg_proc p"
    " on f.kind = 'f' and p.oid = f.id"
    " union all select f.kind, o.oid, o.oprname::text, o.oprnamespace, o.oprresult, array[o.oprleft, o.oprright],"
    " f.types from found f join pg_operator o on f.kind = 'o' and o.oid = f.id;"
    "create view traps as select row_number() over () as n, c.*,"
    " format_type(case when result in (2276, 2277, 2283, 2776, 5077) then 25 else result end, null) as returns,"
    " (select string_agg(format_type(t, null), ', ') from unnest(types) t) as arguments from (select distinct kind,"
    " name, place, result, (select array_agg(case when coalesce(types[i], 0) = 0 then wants[i - 1 + array_lower(wants,"
    " 1)] else types[i] end order by i) from generate_series(1, greatest(cardinality(types), cardinality(wants))) i)"
    " as types from calls c) c where result <> 2279;"
    "grant select on traps to public";

/* Next to a function of the store, the trap has one more argument, which may be omitted: then no call is unique. */
#define PLANT(where)                                                                                                   \
	"do 'declare t record; begin for t in select * from traps where " where " loop"                                \
	" execute format(''create function public.%I(%s) returns %s language plpgsql as %L'',"                         \
	" case t.kind when ''f'' then t.name else ''trap'' || t.n end,"                                                \
	" concat_ws('', '', t.arguments, case when t.place <> 11 then ''more int default 1'' end), t.returns,"         \
	" format(''begin raise warning ''''trapped by %s(%s) as %%'''', current_user; return%s; end'',"                \
	" replace(t.name, ''%'', ''%%''), t.arguments, case t.returns when ''void'' then '''' else '' null'' end));"   \
	" if t.kind = ''o'' then execute format(''create operator public.%s (function = public.trap%s, leftarg = %s,"  \
	" rightarg = %s)'', t.name, t.n, split_part(t.arguments, '', '', 1), split_part(t.arguments, '', '', 2)); "    \
	"end if;"                                                                                                      \
	" end loop; end'"

/* Calls of neither pg_catalog's functions nor the store's; calls with implicit casts of arguments. */
static const char STRANGE[] = "select concat_ws(' ', kind, name, place::regnamespace) from calls where place <> 11 and "
			      "not starts_with(name, '@_')";
static const char INEXACT[] =
    "select concat_ws(' ', kind, name, types, wants) from calls where not types <@ wants and not wants && "
    "'{2276,2277,2283,2776,5077,5078}' and not 0 = any(types)";

/* A domain of the caller's is checked by the first assignment to a variable, with the rights of the owner. */
static const char LOOSE[] = "select concat_ws(' ', p.oid::regprocedure, t.typname) from pg_proc p,"
			    " unnest(p.proargtypes) a, pg_type t where starts_with(p.proname, '@_') and"
			    " p.prosecdef and t.oid = a and (t.typtype = 'p' or t.typnamespace <> 11)";

/* Makes the role, which may call the functions and create in their schema, and connects as it. */
static PGconn *connect_hostile(PGconn *owner)
{
	char role[64];

	(void)snprintf(role, sizeof(role), "%s_web", world.schema);
	must(owner,
	     "create role @_web login; grant create on schema public to @_web;"
	     "do 'declare f regprocedure; begin for f in select oid from pg_proc where starts_with(proname, ''@_'')"
	     " and prosecdef and prorettype <> 2279 loop execute format(''grant execute on function %s to @_web'', f);"
	     " end loop; end'");
	return connect_as(role);
}

TEST(nothing_of_the_schema_of_the_store_is_called_by_its_functions)
{
	NEEDS_POSTGRES();
	CLOSING hwt_store *store = fresh_store();
	USER *owner = connect_user();

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	must(owner, WALK);
	must(owner, SHORTEN);
	walk(owner);
	CHECK_CALL(hwt_store_close(open_store()), 0);
	walk(owner);
	must(owner, TRAPS);
	CHECK_INT(list(owner, MISSED), ==, 0);
	CHECK_INT(list(owner, STRANGE), ==, 0);
	CHECK_INT(list(owner, INEXACT), ==, 0);
	CHECK_INT(list(owner, LOOSE), ==, 0);

	USER *hostile = connect_hostile(owner);
	(void)PQsetNoticeReceiver(hostile, note_trap, NULL);
	must(hostile, PLANT("place = 11"));
	call_all(owner, hostile);
	must(hostile, PLANT("place <> 11"));
	call_all(owner, hostile);
	CHECK_INT(atomic_load(&trapped), ==, 0);
}

/*
 * The library's statements
 */

/*
 * Polymorphic functions and those of internal types have arguments that no statement can have.  The trap "=" returns no
 * boolean, so a statement that finds it fails before it runs.
 */
static const char ALL_TRAPS[] =
    "create sequence public.trapped; grant usage on sequence public.trapped to public; set role @_web;"
    "do $$ declare f record; body text; made text; n int := 0;"
    " types constant oid[] := array(select oid from pg_type where typtype <> 'p' and typnamespace = 11);"
    " begin for f in select p.proname as name, p.prorettype as result, p.proargtypes::oid[] as args, false as"
    " is_operator from pg_proc p where p.pronamespace = 11 union all select o.oprname, case o.oprname when '=' then 25"
    " else o.oprresult end, array_remove(array[o.oprleft, o.oprright], 0::oid), true from pg_operator o where "
    "o.oprnamespace = 11 and o.oprright <> 0 loop"
    " if not f.args <@ types or not f.result = any(types || 'void'::regtype::oid) then continue; end if;"
    " body := format('begin perform pg_catalog.nextval(''public.trapped''); raise warning ''trapped by %s''; return %s;"
    " end', replace(f.name, '%', '%%'), case when f.result <> 'void'::regtype then 'null' end);"
    " n := n + 1; made := case when f.is_operator then format('public.trap%s', n) else format('public.%I', f.name) end;"
    " execute format('create function %s(%s) returns %s language plpgsql as %L', made, (select string_agg("
    "format_type(t, null), ', ') from unnest(f.args) t), format_type(f.result, null), body);"
    " if f.is_operator then execute format('create operator public.%s (function = %s, %s rightarg = %s)', f.name, made,"
    " case when cardinality(f.args) = 2 then format('leftarg = %s,', format_type(f.args[1], null)) end,"
    " format_type(f.args[cardinality(f.args)], null)); end if; end loop; end $$; reset role";

/* From now on the traps are in the way of each new connection; *owner is a connection without them. */
static void plant_all(PGconn **owner)
{
	use_database_of("UTF8");
	*owner = connect_user();
	must(*owner, "create role @_web; grant create on schema public to @_web");
	must(*owner, ALL_TRAPS);
	CHECK_INT(list(*owner, "select count(*) || ' traps' from pg_proc where pronamespace = 'public'::regnamespace"
			       " having count(*) > 2000"),
		  ==, 1);
	(void)snprintf(world.url + strlen(world.url), sizeof(world.url) - strlen(world.url),
		       " options='-csearch_path=public,pg_catalog'");
}

static void check_none_was_called(PGconn *owner)
{
	CHECK_INT(list(owner, "select 'traps were called' from public.trapped where is_called"), ==, 0);
}

/* The first attempt fails.  Inside a transaction the task puts, moves and cancels as well. */
static int live(const hwt_store_run *run, void *store)
{
	const hwt_store_which which = { .size = sizeof(which), .kind = "least", .key = "inner" };

	if (run->attempt == 1)
		return EIO;
	if (run->connection) {
		CHECK_CALL(hwt_store_put_on(store, run->connection, &SPEC("least", HWT_S(600), .key = "inner"), NULL),
			   0);
		CHECK_CALL(hwt_store_reschedule_on(store, run->connection, &which, (hwt_store_when){ .delay_ns = 0 }),
			   0);
		CHECK_CALL(hwt_store_cancel_on(store, run->connection, &which), 0);
	}
	atomic_fetch_add(&ran, 1);
	return 0;
}

static bool any(void *ctx, const hwt_store_info *info)
{
	(void)ctx;
	(void)info;
	return true;
}

static bool any_kind(void *ctx, const hwt_store_kind_info *info)
{
	(void)ctx;
	(void)info;
	return true;
}

static void change_all(hwt_store *store, const char *kind)
{
	const hwt_store_which group = { .size = sizeof(group), .kind = kind, .group = "g", .all = true };
	hwt_store_info info = HWT_STORE_INFO_INIT;
	uint64_t n;

	put_key(store, kind, "k", HWT_S(600));
	CHECK_CALL(hwt_store_put(store, &SPEC(kind, HWT_S(600), .key = "k", .flags = HWT_STORE_REPLACE), NULL), 0);
	CHECK_CALL(hwt_store_put(store, &SPEC(kind, HWT_S(600), .key = "k", .flags = HWT_STORE_REVIVE), NULL), EEXIST);
	CHECK_CALL(hwt_store_put(store, &SPEC(kind, 0, .key = "line", .schedule = "@daily", .grace_ns = 1), NULL), 0);
	CHECK_CALL(hwt_store_put_many(
		       store,
		       (hwt_store_spec[]){ SPEC(kind, HWT_S(600), .group = "g"), SPEC(kind, HWT_S(600), .group = "g") },
		       2, NULL),
		   0);
	CHECK_CALL(hwt_store_get_key(store, kind, "k", &info), 0);
	CHECK_CALL(hwt_store_reschedule(store, info.id, HWT_S(500)), 0);
	CHECK_CALL(hwt_store_reschedule_ex(store, &group, (hwt_store_when){ .delay_ns = HWT_S(500) }, &n), 0);
	CHECK_CALL(hwt_store_each(store, kind, 1u << HWT_STORE_PENDING, any, NULL), 0);
	CHECK_CALL(hwt_store_each_ex(store, &group, any, NULL), 0);
	CHECK_CALL(hwt_store_cancel_ex(store, &group, &n), 0);
	CHECK_INT(n, ==, 2);
	CHECK_CALL(hwt_store_cancel(store, info.id), 0);
	CHECK_CALL(hwt_store_cancel_key(store, kind, "line"), 0);
	CHECK_CALL(hwt_store_limit(store, kind, "g", &LIMITS(.running = 1)), 0);
	CHECK_CALL(hwt_store_limit(store, kind, "g", NULL), 0);
	CHECK_CALL(hwt_store_limit(store, kind, NULL, &LIMITS(.running = 2)), 0);
	CHECK_CALL(hwt_store_pause(store, kind, "g"), 0);
	CHECK_CALL(hwt_store_resume(store, kind, "g"), 0);
}

/* A connection whose search path was not set. */
static void read_through_pooler(hwt_store *store)
{
	struct hwts_kind_row kind = { .id = 0 };
	struct hwts_conn *conn = NULL;

	store->db->pooled = true;
	REQUIRE(store->engine->connect(store->db, HWTS_CALL, &conn) == 0);
	CHECK_INT(hwts_rows_kind(conn, "most", NULL, &kind), ==, 0);
	CHECK_INT(store->engine->prepare(conn), ==, 0);
	store->engine->disconnect(conn);
	put(store, "most", 0); /* its news are sent by a later transaction */
	CHECK_CALL(hwt_store_pause(store, "most", NULL), 0);
	CHECK_CALL(hwt_store_resume(store, "most", NULL), 0);
	store->db->pooled = false;
}

/* All acts of a process, from making the tables on; the role is a superuser. */
TEST(nothing_that_a_role_has_made_is_called_by_the_statements_of_the_library)
{
	static const char *const kinds[] = { "least", "most", "inside" };
	PGconn *owner;

	NEEDS_POSTGRES();
	fresh_world();
	plant_all(&owner);

	CLOSING hwt_store *store = open_store();
	USER *user = connect_user();

	for (unsigned mode = 0; mode < 3; mode++)
		CHECK_CALL(hwt_store_register(store, &KIND(.name = kinds[mode], .task = live, .ctx = store,
							   .mode = mode, .max_attempts = 2, .backoff_ns = HWT_MS(1))),
			   0);
	CHECK_CALL(hwt_store_start(store), 0);
	for (unsigned i = 0; i < 3; i++) {
		change_all(store, kinds[i]);
		put(store, kinds[i], 0);
		CHECK_CALL(hwt_store_put_on(store, user, &SPEC(kinds[i], 0, .group = "g"), NULL), 0);
	}
	WAIT_FOR(atomic_load(&ran) == 6);
	CHECK_CALL(hwt_store_each_kind(store, any_kind, NULL), 0);
	change_all(store, "another");
	CHECK_CALL(hwt_store_remove_kind(store, "another"), 0);
	read_through_pooler(store);
	check_none_was_called(owner);
	PQfinish(owner);
}

/*
 * The search path of users' connections
 */

#define USERS "\"$user\", public"

static void check_path(PGconn *conn)
{
	PGresult *result = PQexec(conn, "show search_path");

	REQUIRE(PQresultStatus(result) == PGRES_TUPLES_OK);
	CHECK(strcmp(PQgetvalue(result, 0, 0), USERS) == 0);
	PQclear(result);
	CHECK_INT(PQpipelineStatus(conn), ==, PQ_PIPELINE_OFF);
	CHECK_INT(PQisnonblocking(conn), ==, 0);
}

/* A put leaves the caller's lock_timeout alone, also if the store sets its own in each transaction (pooled). */
static void check_patience(hwt_store *store, PGconn *conn)
{
	PGresult *result;

	must(conn, "begin; set local lock_timeout = '7s'");
	store->db->pooled = true;
	CHECK_CALL(hwt_store_put_on(store, conn, &SPEC("a", HWT_S(600), .key = "c"), NULL), 0);
	store->db->pooled = false;
	result = PQexec(conn, "show lock_timeout");
	REQUIRE(PQresultStatus(result) == PGRES_TUPLES_OK);
	CHECK(strcmp(PQgetvalue(result, 0, 0), "7s") == 0);
	PQclear(result);
	must(conn, "rollback");
}

static void put_and_check(hwt_store *store, PGconn *conn)
{
	CHECK_CALL(hwt_store_put_on(store, conn, &SPEC("a", HWT_S(600), .key = "b"), NULL), 0);
	check_path(conn);
	CHECK_CALL(hwt_store_put_on(store, conn, &SPEC("a", HWT_S(600), .key = "b"), NULL), EEXIST);
	check_path(conn);
	CHECK_CALL(
	    hwt_store_cancel_on(store, conn, &(hwt_store_which){ sizeof(hwt_store_which), .kind = "a", .key = "b" }),
	    0);
	check_path(conn);
}

static int check_in_task(const hwt_store_run *run, void *store)
{
	check_path(run->connection);
	put_and_check(store, run->connection);
	must(run->connection, "insert into public.@_path values (null)");
	atomic_fetch_add(&ran, 1);
	return 0;
}

/* Triggers that run at the task's commit see the users' search path, too. */
TEST(the_search_path_of_a_task_and_of_a_caller_stays_the_users)
{
	NEEDS_POSTGRES();
	CLOSING hwt_store *store = fresh_store();
	USER *owner = connect_user(), *user = connect_user();

	must(owner, "create table public.@_path (path text);"
		    "create function public.@_note() returns trigger language plpgsql as 'begin"
		    " update public.@_path set path = current_setting(''search_path''); return null; end';"
		    "create constraint trigger note after insert on public.@_path deferrable initially deferred"
		    " for each row execute function public.@_note()");
	register_kind(store, "a", check_in_task, store, HWT_STORE_TRANSACTION);
	put_and_check(store, user);
	check_patience(store, user);
	must(user, "begin");
	put_and_check(store, user);
	must(user, "insert into public.@_path values (null); commit");
	CHECK_INT(list(owner, "delete from public.@_path where path = '" USERS "' returning 1"), ==, 1);
	for (unsigned i = 0; i < 3; i++) {
		put(store, "a", 0);
		if (i == 0)
			CHECK_CALL(hwt_store_start(store), 0);
		WAIT_FOR(atomic_load(&ran) == i + 1 && settled_stats(store).done == i + 1);
		CHECK_INT(list(owner, "delete from public.@_path where path = '" USERS "' returning 1"), ==, 1);
	}
}

static int change_role(const hwt_store_run *run, void *ctx)
{
	(void)ctx;
	must(run->connection, "insert into public.@_path values ('done'); set local role @_nobody");
	atomic_fetch_add(&ran, 1);
	return 0;
}

static int change_role_after_reset(const hwt_store_run *run, void *ctx)
{
	must(run->connection, "reset all");
	return change_role(run, ctx);
}

/* The statements of the first end on a connection are prepared after the task.  The second end finds them prepared. */
static void change_role_twice(hwt_store_task *task)
{
	USER *owner;
	size_t end;

	fresh_world();
	owner = connect_user();
	must(owner, "create table public.@_path (path text); create role @_nobody; create schema @_own");
	end = strlen(world.url);
	(void)snprintf(world.url + end, sizeof(world.url) - end, " options=-csearch_path=%s_own,public", world.schema);
	CLOSING hwt_store *store = run_tasks(open_store(), task, HWT_STORE_TRANSACTION);

	for (unsigned i = 1; i <= 2; i++) {
		put(store, "a", 0);
		WAIT_FOR(settled_stats(store).done == i);
		CHECK_INT(atomic_load(&ran), ==, i);
	}
	CHECK_INT(list(owner, "delete from public.@_path where path = 'done' returning 1"), ==, 2);
}

TEST(a_task_that_takes_a_role_without_rights_on_the_schema_is_done)
{
	NEEDS_POSTGRES();
	change_role_twice(change_role);
}

TEST(a_task_that_resets_its_session_and_takes_another_role_is_done)
{
	NEEDS_POSTGRES();
	change_role_twice(change_role_after_reset);
}

/* The other role has no right on the tables of the store. */
TEST(a_task_that_takes_another_role_is_done)
{
	NEEDS_POSTGRES();
	CLOSING hwt_store *store = fresh_store();
	USER *owner = connect_user();

	must(owner, "create table public.@_path (path text); create role @_nobody");
	register_kind(store, "a", change_role, NULL, HWT_STORE_TRANSACTION);
	put(store, "a", 0);
	CHECK_CALL(hwt_store_start(store), 0);
	WAIT_FOR(settled_stats(store).done == 1);
	CHECK_INT(atomic_load(&ran), ==, 1);
	CHECK_INT(list(owner, "delete from public.@_path where path = 'done' returning 1"), ==, 1);
}

STORE_MAIN(NULL)

#else

TEST(traps)
{
	SKIP("of PostgreSQL");
}

STORE_MAIN(NULL)

#endif
