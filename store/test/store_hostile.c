/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A random walk of two hostile roles beside a store that runs.  "web" may execute the SQL functions, and has no other
 * right.  "sly" may connect, and may create schemas, and any object in public, where the tables are.  The judge is a
 * superuser with a search path of pg_catalog alone; after every fourth statement
 *
 *   H1  neither role has gained a right, a membership or an object of the owner's
 *   H2  the owner's objects, their texts, settings, triggers and privileges are unchanged
 *   H3  functions of sly were called only by sly and web
 *   H4  rows that no statement has named are unchanged, and so are the rules of their kinds
 *   H5  each failure belongs to a statement: no internal error, and no session is lost
 *   H6  the store opens, and runs new timeouts
 *   H7  neither role has read the text that names the channels of news
 *
 * HWT_SEED draws another walk; HWT_HOSTILE_S is its length in seconds, otherwise it has STEPS statements.
 */
#include "sql_calls.h"

#ifdef HWT_STORE_POSTGRES

#include "hostile_says.h"

#define STEPS 600
#define SAID 12 /* statements that a failure shows */

enum { WEB, SLY, ROLES };

struct walk {
	struct prng prng;
	hwt_store *store;
	PGconn *judge, *roles[ROLES];
	char before[ROLES][33]; /* states to compare, for H1 and H2, and for H4 */
	char secret[17];
	char said[SAID][512];
	unsigned steps, done[ROLES], lives;
	int64_t ids[16]; /* that web was told */
	unsigned id_count;
};

static const char *const ROLE_NAMES[] = { "web", "sly" };

/* Draws a number below n, mostly one below first. */
static size_t draw_of(struct walk *walk, size_t n, size_t first)
{
	return (size_t)prng_below(&walk->prng, prng_below(&walk->prng, 4) > 0 ? HWTS_MIN(n, first) : n);
}

/* Expands text into out: $d is an id that web was told, or an odd one; $x is the prefix; $hwt$ stays. */
static size_t expand(struct walk *walk, char *out, size_t size, const char *text)
{
	size_t n = 0;

	for (; *text && n + 64 < size; text++) {
		const struct list *list = LISTS;

		if (*text == '`') {
			n += (size_t)snprintf(out + n, size - n, "public.%s_", world.schema);
			continue;
		}
		if (*text == '@' && (text[1] == '_' || text[1] == '.' || text[1] == '%' || !text[1])) {
			n += (size_t)snprintf(out + n, size - n, "%s", world.schema);
			continue;
		}
		if (*text != '$' || !text[1]) {
			out[n++] = *text;
			continue;
		}
		while (list < LISTS + HWTS_COUNT(LISTS) && list->letter != text[1])
			list++;
		if (text[1] == 'x') {
			n += (size_t)snprintf(out + n, size - n, "%s", world.schema);
		} else if (text[1] == 'd') {
			static const char *const odd[] = { "0", "-1", "null", "9223372036854775807" };
			uint64_t which = prng_below(&walk->prng, 12);

			n += which < HWTS_COUNT(odd)
				 ? (size_t)snprintf(out + n, size - n, "%s", odd[which])
				 : (size_t)snprintf(out + n, size - n, "%" PRId64,
						    walk->ids[prng_below(&walk->prng, HWTS_COUNT(walk->ids))]);
		} else if (text[1] == 'r') { /* one of the words in parentheses */
			const char *end = strchr(text, ')'), *at = text + 3;

			for (uint64_t skip = prng_below(&walk->prng, 4); skip > 0; skip--)
				at = memchr(at, '|', (size_t)(end - at)) ? strchr(at, '|') + 1 : text + 3;
			n += (size_t)snprintf(out + n, size - n, "%.*s", (int)strcspn(at, "|)"), at);
			text = end - 1;
		} else if (list < LISTS + HWTS_COUNT(LISTS)) {
			n += expand(walk, out + n, size - n, list->words[draw_of(walk, list->n, PLAIN)]);
		} else {
			out[n++] = *text;
			continue;
		}
		text++;
	}
	out[n] = '\0';
	return n;
}

/*
 * The judge
 */

static void show(const struct walk *walk)
{
	for (unsigned i = walk->steps < SAID ? 0 : walk->steps - SAID; i < walk->steps; i++)
		fprintf(stderr, "    %u %s\n", i, walk->said[i % SAID]);
}

/* The first value that a statement of the judge returns. */
static void asked(struct walk *walk, char *out, size_t size, const char *text)
{
	static char sql_text[8192];
	PGresult *result;

	(void)expand(walk, sql_text, sizeof(sql_text), text);
	result = PQexec(walk->judge, sql_text);
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		fprintf(stderr, "    %s: %s", sql_text, PQerrorMessage(walk->judge));
	REQUIRE(PQresultStatus(result) == PGRES_TUPLES_OK);
	(void)snprintf(out, size, "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
	PQclear(result);
}

#define APP "'$x_app'::regrole"

/* H1, H2. */
static const char CATALOGS[] =
    "select md5(string_agg(x, ' ' order by x)) from ("
    "select row('f', p.oid, p.proname, p.prosecdef, p.proconfig, p.prosrc, p.proacl)::text from pg_proc p"
    " where p.proowner = " APP
    " union all select row('c', c.oid, c.relname, c.relacl, c.relhastriggers, c.relhasrules, c.relrowsecurity,"
    " c.reloptions)::text from pg_class c where c.relowner = " APP
    " union all select row('t', t.oid, t.tgenabled, t.tgfoid)::text from pg_trigger t join pg_class c"
    " on c.oid = t.tgrelid where c.relowner = " APP
    " union all select row('n', n.oid)::text from pg_namespace n where n.nspowner = " APP
    " union all select row('y', y.oid)::text from pg_type y where y.typowner = " APP
    " union all select row('o', o.oid)::text from pg_operator o where o.oprowner = " APP
    " union all select row('s', s.setrole, s.setdatabase, s.setconfig)::text from pg_db_role_setting s"
    " where s.setrole not in ('$x_web'::regrole, '$x_sly'::regrole)"
    " union all select row('d', d.defaclobjtype, d.defaclacl)::text from pg_default_acl d where d.defaclrole = " APP
    " union all select row('m', m.roleid, m.member)::text from pg_auth_members m"
    " union all select row('r', r.rolname, r.rolsuper, r.rolcreaterole, r.rolcreatedb, r.rolreplication,"
    " r.rolbypassrls, r.rolcanlogin)::text from pg_roles r where starts_with(r.rolname::text, '$x')) x(x)";

static const char OPEN[] = "select count(*) from pg_proc p where p.proowner = " APP
			   " and has_function_privilege('$x_sly', p.oid, 'execute')";

/* H4. */
static const char OTHERS[] =
    "select md5(coalesce((select string_agg(t::text, ' ' order by t.id) from `timeout t join `kind k on k.id = t.kind"
    " where k.name = 'mine' or t.key = 'own'::bytea), '') || (select string_agg(k::text, ' ' order by k.id) from `kind "
    "k"
    " where k.name in ('mine', 'live')) || coalesce((select string_agg(g::text, ' ' order by g.bucket, g.grp)"
    " from `group g join `kind k on k.id = g.kind where k.name in ('mine', 'live') or g.grp = 'own'::bytea), '') ||"
    " (select m.store from `meta m))";

/* Rows of web are such as C puts. */
static const char ODD_ROWS[] =
    "select count(*) from `timeout t left join `kind k on k.id = t.kind where k.name is distinct from 'live' and (k.id "
    "is"
    " null or t.bucket <> (t.id & 1023) or"
    " t.state <> 1 or t.priority not between -100 and 100 or coalesce(length(t.key), 1) not between 1 and 255 or"
    " length(t.grp) > 255 or coalesce(length(t.data), 0) > 1048576 or t.shard <> k.id * 1024 + t.bucket % k.shards or"
    " t.due_us not between 0 and 253402300800000000 or t.epoch <> 0)";

static void order(struct walk *walk, const char *text)
{
	static char sql_text[8192];
	PGresult *result;

	(void)expand(walk, sql_text, sizeof(sql_text), text);
	result = PQexec(walk->judge, sql_text);
	if (PQresultStatus(result) != PGRES_COMMAND_OK)
		fprintf(stderr, "    %s: %s", sql_text, PQerrorMessage(walk->judge));
	REQUIRE(PQresultStatus(result) == PGRES_COMMAND_OK);
	PQclear(result);
}

static bool stays(struct walk *walk, int which, const char *text)
{
	char now[33];

	asked(walk, now, sizeof(now), text);
	if (walk->before[which][0] == '\0')
		(void)strcpy(walk->before[which], now);
	return strcmp(walk->before[which], now) == 0;
}

static int64_t count(struct walk *walk, const char *text)
{
	char n[33];

	asked(walk, n, sizeof(n), text);
	return strtoll(n, NULL, 10);
}

static void judge(struct walk *walk)
{
	CHECK(stays(walk, 0, CATALOGS)); /* H1, H2 */
	CHECK_INT(count(walk, OPEN), ==, 0);
	CHECK(stays(walk, 1, OTHERS)); /* H4 */
	CHECK_INT(count(walk, ODD_ROWS), ==, 0);
	CHECK_INT(count(walk, "select count(*) from sly.noted where who not in ('$x_web', '$x_sly')"), ==, 0); /* H3 */
}

/* H6. */
static void run_one(struct walk *walk)
{
	walk->lives++;
	(void)put(walk->store, "live", 0);
	WAIT_FOR(atomic_load(&ran) == walk->lives);
}

static hwt_store *open_as_app(void)
{
	hwt_store_config config = store_config();
	char role[64], url[TEXT_MAX];
	hwt_store *store = NULL;

	(void)snprintf(role, sizeof(role), "%s_app", world.schema);
	url_of_role(url, role);
	CHECK_CALL(hwt_store_open(&store, url, &config, NULL, 0), 0);
	return store;
}

/*
 * The walk
 */

static void find_secret(struct walk *walk, const char *text)
{
	if (text)
		CHECK(strstr(text, walk->secret) == NULL);
}

/* H3: a note of a call goes with its transaction, so it is sent as a notice. */
static void hear(void *walk, const PGresult *notice)
{
	const char *said = PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY);
	const char *role = said && strncmp(said, "trapped as ", 11) == 0 ? said + 11 + strlen(world.schema) : "_web";

	CHECK(strcmp(role, "_web") == 0 || strcmp(role, "_sly") == 0);
	find_secret(walk, said);
	find_secret(walk, PQresultErrorField(notice, PG_DIAG_MESSAGE_DETAIL));
}

static void enter(struct walk *walk, int role)
{
	char name[64];

	PQfinish(walk->roles[role]);
	(void)snprintf(name, sizeof(name), "%s_%s", world.schema, ROLE_NAMES[role]);
	walk->roles[role] = connect_as(name);
	(void)PQsetNoticeReceiver(walk->roles[role], hear, walk);
}

/* H5, H7. */
static void look_at(struct walk *walk, int role, const PGresult *result)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	PGnotify *notify;

	CHECK(PQstatus(walk->roles[role]) == CONNECTION_OK);
	CHECK(!state || strncmp(state, "XX", 2) != 0);
	find_secret(walk, PQresultErrorMessage(result));
	for (int row = 0; row < PQntuples(result); row++)
		for (int column = 0; column < PQnfields(result); column++)
			find_secret(walk, PQgetvalue(result, row, column));
	while ((notify = PQnotifies(walk->roles[role])) != NULL) {
		find_secret(walk, notify->relname);
		PQfreemem(notify);
	}
	walk->done[role] += !state;
}

static const char *draw(struct walk *walk, int role)
{
	PGTransactionStatusType is = PQtransactionStatus(walk->roles[role]);
	uint64_t which = prng_below(&walk->prng, 8);

	if (is == PQTRANS_INERROR && which < 6)
		return "rollback";
	if (is == PQTRANS_INTRANS && which == 0)
		return "commit";
	if (which == 1)
		return BOTH_SAY[prng_below(&walk->prng, HWTS_COUNT(BOTH_SAY))];
	return role == WEB ? WEB_SAYS[draw_of(walk, HWTS_COUNT(WEB_SAYS), CALLS)]
			   : SLY_SAYS[prng_below(&walk->prng, HWTS_COUNT(SLY_SAYS))];
}

static void step(struct walk *walk)
{
	static char text[8192];
	const int role = (int)prng_below(&walk->prng, ROLES);
	const char *from = draw(walk, role);
	PGresult *result;

	(void)expand(walk, text, sizeof(text), from);
	(void)snprintf(walk->said[walk->steps++ % SAID], sizeof(walk->said[0]), "%s: %.480s", ROLE_NAMES[role], text);
	result = PQexec(walk->roles[role], text);
	look_at(walk, role, result);
	if (role == WEB && strncmp(from, "select `put", 11) == 0 && PQntuples(result) > 0)
		walk->ids[walk->id_count++ % HWTS_COUNT(walk->ids)] = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
	PQclear(result);
	if (walk->steps % 4 == 0)
		judge(walk);
	if (walk->steps % 8 == 0)
		run_one(walk);
	if (prng_below(&walk->prng, 40) == 0)
		enter(walk, role);
	if (prng_below(&walk->prng, 60) == 0) {
		hwt_store *other;

		for (int i = 0; i < ROLES; i++) /* an open may wait for locks of a transaction */
			PQclear(PQexec(walk->roles[i], "rollback"));
		other = open_as_app();
		CHECK_CALL(hwt_store_close(other), 0);
		order(walk, "grant create on schema public to $x_sly"); /* "drop owned" takes these */
		order(walk, "grant create on database $x to $x_sly");
		judge(walk);
	}
}

/* A database of its own, since sly leaves objects behind. */
static void set_up(struct walk *walk)
{
	static const char *const texts[] = {
		"set search_path = pg_catalog, pg_temp",
		"create role $x_app login; create role $x_web login; create role $x_sly login",
		"alter role $x_web set lock_timeout = '300ms'; alter role $x_web set statement_timeout = '20s'",
		"alter role $x_sly set lock_timeout = '300ms'; alter role $x_sly set statement_timeout = '20s'",
		"grant create on schema public to $x_app, $x_sly; grant create on database $x to $x_sly",
		"create schema sly; grant usage on schema sly to public; create table sly.noted (who text);"
		" grant insert on sly.noted to public",
		"create function sly.note() returns int language plpgsql as 'begin raise notice ''trapped as %'', "
		"current_user;"
		" insert into sly.noted values (current_user); return 1; exception when others then return 1; end'",
		"create function sly.fire() returns trigger language plpgsql as 'begin perform sly.note(); return new; "
		"end'",
	};

	fresh_world();
	use_database_of("UTF8");
	walk->judge = connect_user();
	for (size_t i = 0; i < HWTS_COUNT(texts); i++)
		order(walk, texts[i]);
	walk->store = open_as_app();
	for (const char *const *name = (const char *const[]){ "a", "b", "mine", NULL }; *name; name++)
		(void)put(walk->store, *name, HWT_S(86400));
	for (const char *const *key = (const char *const[]){ "k", "g", "own", NULL }; *key; key++) {
		hwt_store_spec spec = SPEC("mine", HWT_S(86400), .key = *key, .group = "g");

		(void)put_spec(walk->store, &spec);
		spec.key = spec.group = NULL;
		(void)put_spec(walk->store, &spec);
	}
	(void)put_key(walk->store, "a", "own", HWT_S(86400));
	CHECK_CALL(hwt_store_limit(walk->store, "mine", "g", &LIMITS(.running = 2)), 0);
	CHECK_CALL(hwt_store_pause(walk->store, "a", "own"), 0);
	register_kind(walk->store, "live", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(walk->store), 0);
	order(walk,
	      "do 'declare f regprocedure; begin for f in select oid from pg_proc where proowner = ''$x_app''::regrole"
	      " and prosecdef and prorettype <> ''trigger''::regtype loop execute ''grant execute on function '' || f"
	      " || '' to $x_web''; end loop; end'");
	CHECK_INT(count(walk, "select count(*) from pg_proc where has_function_privilege('$x_web', oid, 'execute')"
			      " and proowner = '$x_app'::regrole"),
		  >=, 10);
	asked(walk, walk->secret, sizeof(walk->secret), "select left(store, 16) from `meta");
	CHECK_INT(strlen(walk->secret), ==, 16);
	for (int role = 0; role < ROLES; role++)
		enter(walk, role);
}

TEST(two_hostile_roles_get_no_rights_and_change_nothing_of_others)
{
	NEEDS_POSTGRES();
	static struct walk walk;
	const char *seconds = getenv("HWT_HOSTILE_S");
	const int64_t until_ns = hwt_now() + (seconds ? HWT_S(strtol(seconds, NULL, 10)) : 0);

	walk.prng = (struct prng){ test_seed("hostile") };
	set_up(&walk);
	judge(&walk);
	while (atomic_load(&test_failures) == 0 && (seconds ? hwt_now() < until_ns : walk.steps < STEPS))
		step(&walk);
	if (atomic_load(&test_failures) > 0)
		show(&walk);
	printf("# %u statements; of web %u succeeded, of sly %u; %u runs\n", walk.steps, walk.done[WEB], walk.done[SLY],
	       walk.lives);
	for (int role = 0; role < ROLES; role++) {
		CHECK_INT(walk.done[role], >, walk.steps / 10); /* else nothing is tested */
		PQfinish(walk.roles[role]);
	}
	run_one(&walk);
	CHECK_CALL(hwt_store_close(walk.store), 0);
	PQfinish(walk.judge);
}

STORE_MAIN(NULL)

#else

TEST(hostile)
{
	SKIP("of PostgreSQL");
}

STORE_MAIN(NULL)

#endif
