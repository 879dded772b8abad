/* SPDX-License-Identifier: BSD-2-Clause */
/* The SQL functions: their owner, the roles that may call them, and how each open mends deviations. */
#include "sql_calls.h"

#ifdef HWT_STORE_POSTGRES

static char warning[2048];

static void note_warning(void *ctx, const char *message)
{
	(void)ctx;
	(void)snprintf(warning, sizeof(warning), "%s", message);
}

/* Opens the store of this world and closes it; warning is what the store has said. */
static void open_as(const char *role)
{
	hwt_store_config config = store_config();
	hwt_store *store = NULL;
	char url[TEXT_MAX];

	url_of_role(url, role);
	config.warn = note_warning;
	warning[0] = '\0';
	CHECK_CALL(hwt_store_open(&store, url, &config, NULL, 0), 0);
	CHECK_CALL(hwt_store_close(store), 0);
}

/* A fresh world whose store belongs to the role, which is no superuser. */
static void fresh_app(char role[64])
{
	fresh_world();
	(void)snprintf(role, 64, "%s_app", world.schema);
	(void)query("create role %s login; grant create on schema public to %s", role, role);
	open_as(role);
}

/* The number of functions of this owner for which the condition is true. */
static int64_t count_of(const char *owner, const char *where)
{
	return query("select count(*) from pg_proc p where starts_with(proname, '%s_') and proowner = '%s'::regrole and"
		     " %s",
		     world.schema, owner, where);
}

#define IS_OPEN "has_function_privilege('public', oid, 'execute')"

TEST(an_open_makes_good_what_is_not_as_it_should_be)
{
	NEEDS_POSTGRES();
	static const char *const damages[] = {
		/* formats of query */
		"drop function %s_cancel(bigint)",
		"create or replace function %s_cancel(id bigint) returns text language sql as 'select ''old'''",
		("create or replace function %s_cancel(id bigint) returns text language plpgsql security definer"
		 " set search_path = pg_catalog, pg_temp as 'begin return id; end'"), /* only the text differs */
		"alter function %s_cancel(bigint) security invoker",
		"alter function %s_cancel(bigint) set search_path = public",
		"alter function %s_cancel(bigint) reset all",
		"grant execute on function %s_cancel(bigint) to public",
		"update pg_proc set proacl = null where starts_with(proname, '%s_')", /* as pg_dump -x leaves it */
		"drop function %s_raise cascade",
		"drop trigger %s_raise on %s_group",
	};
	char role[64];
	int64_t all;

	fresh_app(role);
	all = count_of(role, "true");
	CHECK_INT(all, >, 20);
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		(void)query(damages[i], world.schema, world.schema);
		open_as(role);
		CHECK(warning[0] == '\0');
		CHECK_INT(count_of(role, "not " IS_OPEN), ==, all);
		CHECK_INT(count_of(role, "prosecdef and proconfig = '{\"search_path=pg_catalog, pg_temp\"}'"), ==, 12);
		CHECK_INT(count_of(role, "strpos(prosrc, 'libhwt-store') > 0"), ==, all);
		CHECK_INT(query("select count(*) from pg_trigger where tgname = '%s_raise'", world.schema), ==, 2);
	}
}

TEST(functions_follow_their_schema_to_another_name)
{
	NEEDS_POSTGRES();
	size_t end;

	fresh_world();
	end = strlen(world.url);
	(void)query("create schema %s_one", world.schema);
	for (int i = 0; i < 2; i++) {
		(void)snprintf(world.url + end, sizeof(world.url) - end, " options=-csearch_path=%s_%s", world.schema,
			       i == 0 ? "one" : "two");
		CLOSING hwt_store *store = open_store();
		USER *conn = connect_user();

		register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
		CHECK_INT(strtoll(call(conn, "put", "'a', key => 'k%d', delay => '1 day'", i), NULL, 10), >, 0);
		if (i == 0)
			(void)query("alter schema %s_one rename to %s_two", world.schema, world.schema);
	}
}

TEST(default_privileges_do_not_make_the_functions_everybodys)
{
	NEEDS_POSTGRES();
	char role[64];

	fresh_world();
	(void)snprintf(role, sizeof(role), "%s_app", world.schema);
	/* With a grant to another role the server writes down the rights of everybody. */
	(void)query("create role %s login; create role %s_web; grant create on schema public to %s;"
		    " alter default privileges for role %s grant execute on functions to public, %s_web",
		    role, world.schema, role, role, world.schema);
	open_as(role);
	CHECK_INT(count_of(role, IS_OPEN), ==, 0);
	CHECK_INT(count_of(role, "true"), >, 20);
}

TEST(what_a_superuser_makes_belongs_to_the_owner_of_the_tables)
{
	NEEDS_POSTGRES();
	char role[64];
	int64_t all;

	fresh_app(role);
	all = count_of(role, "true");
	(void)query("drop function %s_cancel(bigint); drop view %s_kinds", world.schema, world.schema);
	open_as("hwt");
	CHECK_INT(count_of(role, "not " IS_OPEN), ==, all);
	CHECK_INT(query("select count(*) from pg_class where relname = '%s_kinds' and relowner = '%s'::regrole",
			world.schema, role),
		  ==, 1);
	/* An earlier version has made the function as the superuser's own; roles that may call it keep that right. */
	(void)query("create role %s_web; grant execute on function %s_cancel(bigint) to %s_web;"
		    " alter function %s_cancel(bigint) owner to hwt; alter sequence %s_number owner to hwt",
		    world.schema, world.schema, world.schema, world.schema, world.schema);
	open_as(role);
	CHECK(strstr(warning, "SQL functions") != NULL && strstr(warning, "owner") != NULL);
	CHECK_INT(count_of("hwt", "true"), ==, 1);
	open_as("hwt");
	CHECK(warning[0] == '\0');
	CHECK_INT(count_of(role, "not " IS_OPEN), ==, all);
	CHECK_INT(query("select has_function_privilege('%s_web', '%s_cancel(bigint)', 'execute')::int", world.schema,
			world.schema),
		  ==, 1);
}

/* Executes the statements of the last warning; without any, as the role that is to open the store. */
static void do_as_told(const char *old)
{
	const char *from = strstr(warning, "as a superuser: "), *to = from ? strstr(from, "; then open") : NULL;

	REQUIRE(from != NULL && to != NULL);
	from += strlen("as a superuser: ");
	if (strncmp(from, "open", 4) == 0)
		open_as(strstr(from, "_old") ? old : "hwt");
	else
		CHECK_INT(query("%.*s; select 1", (int)(to - from), from), ==, 1);
}

/* The functions belong to the role that has made them: a former owner of the tables, or a superuser. */
TEST(a_warning_names_what_helps)
{
	NEEDS_POSTGRES();
	static const char *const roles[] = { "login", "superuser login" };
	static const char *const things[] = { "function %s_cancel(bigint)", "function %s_raise()", "sequence %s_number",
					      "view %s_kinds" };
	char role[64], old[64], thing[64];

	for (size_t i = 0; i < 2; i++) {
		fresh_app(role);
		(void)snprintf(old, sizeof(old), "%s_old", world.schema);
		(void)query("create role %s %s; grant create on schema public to %s", old, roles[i], old);
		for (size_t j = 0; j < 5; j++) {
			for (size_t k = j % 4; k <= (j < 4 ? j : 3); k++) {
				(void)snprintf(thing, sizeof(thing), things[k], world.schema);
				(void)query("alter %s owner to %s", thing, old);
			}
			open_as(role);
			do_as_told(old);
			open_as(role);
			CHECK(warning[0] == '\0');
			CHECK_INT(query("select count(*) from pg_class where relname in ('%s_kinds', '%s_number') and"
					" relowner = '%s'::regrole",
					world.schema, world.schema, role),
				  ==, 2);
			CHECK_INT(query("select count(*) from pg_trigger where tgname = '%s_raise'", world.schema), ==,
				  2);
			CHECK_INT(count_of(role, "not " IS_OPEN), >, 20);
		}
	}
}

TEST(what_another_role_has_put_in_the_way_is_not_taken_over)
{
	NEEDS_POSTGRES();
	char role[64];

	fresh_world();
	(void)snprintf(role, sizeof(role), "%s_app", world.schema);
	(void)query("create role %s login; create role %s_web login; grant create on schema public to %s, %s_web", role,
		    world.schema, role, world.schema);
	(void)query("set role %s_web; create function %s_cancel(id bigint) returns text language sql as 'select ''x'''",
		    world.schema, world.schema);
	open_as(role);
	CHECK(strstr(warning, "owner of function") != NULL);
	open_as("hwt");
	CHECK(strstr(warning, "owner of function") != NULL);
	CHECK_INT(count_of(role, "true"), ==, 0);
	(void)query("drop function %s_cancel(bigint)", world.schema);
	open_as("hwt");
	CHECK(warning[0] == '\0');
	CHECK_INT(count_of(role, "true"), >, 20);
}

/* A call that fits both functions would fail with "is not unique". */
TEST(what_an_earlier_version_made_with_other_arguments_goes_and_what_a_user_made_stays)
{
	NEEDS_POSTGRES();
	char role[64];

	fresh_app(role);
	(void)query("create role %s_web; set role %s; create function %s_cancel(id bigint, why text default '') returns"
		    " text language plpgsql as E'\\n-- libhwt-store 0\\nbegin return id; end';"
		    " create function %s_cancel(id text) returns text language sql as 'select id';"
		    " grant execute on function %s_cancel(bigint, text) to %s_web; drop function %s_cancel(bigint)",
		    world.schema, role, world.schema, world.schema, world.schema, world.schema, world.schema);
	open_as(role);
	CHECK(warning[0] == '\0');
	CHECK_INT(query("select count(*) from pg_proc where proname = '%s_cancel'", world.schema), ==, 2);
	CHECK_INT(query("select has_function_privilege('%s_web', '%s_cancel(bigint)', 'execute')::int", world.schema,
			world.schema),
		  ==, 1);
}

STORE_MAIN(NULL)

#else

TEST(rights)
{
	SKIP("of PostgreSQL");
}

STORE_MAIN(NULL)

#endif
