/* SPDX-License-Identifier: BSD-2-Clause */
/* The SQL functions, which programs in other languages call.  In this test libpq stands for such programs. */
#include "sql_calls.h"
#include "base/calendar.h"

#ifdef HWT_STORE_POSTGRES

#define PUT_SQL(conn, ...) strtoll(call(conn, "put", __VA_ARGS__), NULL, 10)
static hwt_store *open_sql(void)
{
	hwt_store *store = fresh_store();

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	return store;
}

/* A store with the kind "a", and a user's connection. */
#define SQL_WORLD(store, conn)                                                                                         \
	NEEDS_POSTGRES();                                                                                              \
	CLOSING hwt_store *store = open_sql();                                                                         \
	USER *conn = connect_user()

/* The fields that a run contains. */
static char seen[256];
static int see(const hwt_store_run *run, void *ctx)
{
	(void)ctx;
	(void)snprintf(seen, sizeof(seen), "%s %s %.*s", run->key ? run->key : "-", run->group ? run->group : "-",
		       (int)run->len, run->data ? (const char *)run->data : "");
	atomic_fetch_add(&ran, 1);
	return 0;
}

TEST(what_is_put_by_sql_runs_with_all_that_it_was_given)
{
	SQL_WORLD(store, conn);
	int64_t id;

	register_kind(store, "see", see, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	id = PUT_SQL(conn, "'see', 'gr\xc3\xbc\xc3\x9f', delay => '1 ms', key => 'order 17', grp => 'tenant 9'");
	CHECK_INT(id & 1023, ==, 556);
	CHECK(wait_gone(store, id));
	CHECK(strcmp(seen, "order 17 tenant 9 gr\xc3\xbc\xc3\x9f") == 0);
	id = PUT_SQL(conn, "'see', bytes => '\\x6162'");
	CHECK(wait_gone(store, id));
	CHECK(strcmp(seen, "- - ab") == 0);
}

TEST(what_is_put_by_sql_is_what_a_program_in_c_would_have_put)
{
	SQL_WORLD(store, conn);
	hwt_store_info info;
	int64_t id;

	id = PUT_SQL(conn, "'a', at => '2100-01-01 00:00:00.125+00', key => 'order 17', every => '1.5 s',"
			   " priority => -7, grace => '1 day 2 s'");
	CHECK_INT(id & 1023, ==, 296);
	info = info_of(store, id);
	CHECK_INT(info.state, ==, HWT_STORE_PENDING);
	CHECK_INT(info.due_us, ==, INT64_C(4102444800125000));
	CHECK_INT(info.period_ns, ==, HWT_MS(1500));
	CHECK_INT(info.priority, ==, -7);
	CHECK(strcmp(info.key, "order 17") == 0 && info.group[0] == '\0');
	CHECK_INT(query("select grace_us from %s_timeout where id = %lld", world.schema, (long long)id), ==,
		  INT64_C(86402000000));
	CHECK_INT(COUNT("base_us = due_us and data is null and bucket = 296 and"
			" shard = kind * 1024 + 296 %% 8 and epoch = 0 and attempt = 0"),
		  ==, 1);
	/* A due time of 0 would mean that the time is not known yet. */
	id = PUT_SQL(conn, "'a', at => '1970-01-01 00:00+00'");
	CHECK_INT(info_of(store, id).due_us, ==, 1);
	SAYS("rescheduled", call, conn, "reschedule", "%lld, at => '1970-01-01 00:00+00'", (long long)id);
	CHECK_INT(info_of(store, id).due_us, ==, 1);
	for (int i = 0; i < 4; i++) { /* due now */
		static const char *const now[] = { "null", "'-1 hour'", "'-290000 years'", "'-178000000 years'" };

		id = PUT_SQL(conn, "'a', delay => %s", now[i]);
		CHECK_INT(llabs(info_of(store, id).due_us - now_us()), <, INT64_C(1800) * 1000000);
		SAYS("rescheduled", call, conn, "reschedule", "%lld, delay => %s", (long long)id, now[i]);
		CHECK_INT(llabs(info_of(store, id).due_us - now_us()), <, INT64_C(1800) * 1000000);
	}
}

TEST(sql_and_c_agree_about_buckets)
{
	SQL_WORLD(store, conn);

	for (int i = 0; i < 50; i++) {
		char name[40];
		int64_t id;

		(void)snprintf(name, sizeof(name), "%s%.*s%d", i % 2 ? "\xc3\xbc" : "", i % 20, "tenant of anybody", i);
		id = PUT_SQL(conn, "'a', key => '%s', delay => '1 day'", name);
		CHECK_INT(id, ==, hwts_id_of(id >> HWTS_BUCKET_BITS, NULL, name));
		id = PUT_SQL(conn, "'a', key => 'k', grp => '%s', delay => '1 day'", name);
		CHECK_INT(id, ==, hwts_id_of(id >> HWTS_BUCKET_BITS, name, "k"));
		id = PUT_SQL(conn, "'a', delay => '1 day'");
		CHECK_INT(id, ==, hwts_id_of(id >> HWTS_BUCKET_BITS, NULL, NULL));
		CHECK_INT(id >> HWTS_BUCKET_BITS, >=, HWTS_NUMBERS_END);
		CHECK_INT(id, <, INT64_C(1) << 53);
	}
}

TEST(a_rollback_undoes_a_put_and_its_id_is_not_used_again)
{
	SQL_WORLD(store, conn);
	int64_t first, second;

	(void)sql(conn, "begin");
	first = PUT_SQL(conn, "'a', delay => '1 day'");
	(void)sql(conn, "rollback");
	second = PUT_SQL(conn, "'a', delay => '1 day'");
	CHECK_INT(first, >, 0);
	CHECK_INT(second >> HWTS_BUCKET_BITS, >, first >> HWTS_BUCKET_BITS);
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, 1);
}

/* The sequence is set back, as in an old copy of the database. */
TEST(numbers_of_sql_are_never_behind_the_clock)
{
	SQL_WORLD(store, conn);
	USER *other = connect_user();
	int64_t least, id;

	(void)PUT_SQL(conn, "'a', delay => '1 day'");
	(void)sql(conn, "select setval('%s_number', 1)", world.schema);
	least = query("select ((extract(epoch from clock_timestamp()) - 1767225600) * 4000)::bigint");
	(void)sql(conn, "begin");
	id = PUT_SQL(conn, "'a', delay => '1 day'");
	CHECK_INT((id >> HWTS_BUCKET_BITS) - HWTS_NUMBERS_END, >=, least);
	/* A transaction that has advanced the sequence blocks no other that advances it. */
	(void)sql(conn, "select setval('%s_number', 1)", world.schema);
	id = PUT_SQL(other, "'a', delay => '1 day'");
	CHECK_INT((id >> HWTS_BUCKET_BITS) - HWTS_NUMBERS_END, >=, least);
	(void)sql(conn, "commit");
}

TEST(a_key_that_is_in_use_is_an_error_kept_replaced_or_revived)
{
	SQL_WORLD(store, conn);
	int64_t id;

	id = PUT_SQL(conn, "'a', 'one', key => 'k', delay => '1 day'");
	SAYS("!23505 hint", call, conn, "put", "'a', 'two', key => 'k', delay => '2 days'");
	CHECK_INT(PUT_SQL(conn, "'a', 'two', key => 'k', delay => '2 days', if_exists => 'keep'"), ==, id);
	CHECK_INT(PUT_SQL(conn, "'a', 'two', key => 'k', delay => '2 days', if_exists => 'revive'"), ==, id);
	CHECK_INT(COUNT("data = 'one'"), ==, 1);
	CHECK_INT(PUT_SQL(conn, "'a', 'two', key => 'k', at => '2100-01-01 00:00+00', if_exists => 'replace'"), ==, id);
	CHECK_INT(info_of(store, id).due_us, ==, INT64_C(4102444800000000));
	CHECK_INT(COUNT("data = 'two'"), ==, 1);
	/* In another group it is another key. */
	CHECK_INT(PUT_SQL(conn, "'a', key => 'k', grp => 'g', delay => '1 day'"), !=, id);
}

/* The sum of the numbers of rules of all shards. */
static int64_t rules(void)
{
	return query("select sum(rules) from %s_shard", world.schema);
}

TEST(a_wrong_argument_is_an_error_with_a_hint_and_puts_nothing)
{
	SQL_WORLD(store, conn);
	static const char *const wrong[] = {
		"null",
		"'nothing'",
		"'a', delay => '1 s', at => now()",
		"'a', at => 'infinity'",
		"'a', at => '-infinity'",
		"'a', at => '1969-12-31'",
		"'a', at => '10001-01-01'",
		"'a', delay => '9000 years'",
		"'a', delay => '290000 years'",
		"'a', delay => '178000000 years'",
		"'a', 'x', '\\x00'",
		"'a', repeat('x', 1048577)",
		"'a', key => ''",
		"'a', key => repeat('x', 256)",
		"'a', grp => ''",
		"'a', grp => repeat('\xc3\xbc', 128)",
		"'a', every => '1 month'",
		"'a', every => '1 year'",
		"'a', every => '999 ms'",
		"'a', every => '-1 day'",
		"'a', every => '36501 days'",
		"'a', every => '1 day', cron => '* * * * *'",
		"'a', zone => 'Europe/Berlin'",
		"'a', cron => ''",
		"'a', cron => '0 0 * * *; drop'",
		"'a', cron => '* * * * *', zone => 'No/Such'",
		"'a', cron => '* * * * *', zone => '/etc/passwd'",
		"'a', cron => '* * * * *', zone => '../UTC'",
		"'a', priority => 101",
		"'a', priority => -101",
		"'a', priority => null",
		"'a', grace => '-1 s'",
		"'a', grace => '1 month'",
		"'a', if_exists => 'keep'",
		"'a', key => 'k', if_exists => 'merge'",
		"'a', key => 'k', if_exists => null",
	};
	static const char *const wrong_limits[] = { "'a', running => -1",
						    "'a', burst => 2",
						    "'a', running => null",
						    "'a', start_every => '-1 s'",
						    "'a', start_every => '1 month'",
						    "'a', running => 1, remove => true",
						    "'a', grp => ''",
						    "'nothing'" };
	int64_t rules_before = rules();

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		(void)call(conn, "put", "%s", wrong[i]);
		CHECK((answer[0] == '!' && strstr(answer, "hint")) ||
		      (fprintf(stderr, "    %s: %s\n", wrong[i], answer), false));
	}
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, 0);
	for (size_t i = 0; i < sizeof(wrong_limits) / sizeof(wrong_limits[0]); i++) {
		(void)call(conn, "limit", "%s", wrong_limits[i]);
		CHECK(answer[0] == '!' && strstr(answer, "hint"));
	}
	CHECK_INT(rules(), ==, rules_before);
	SAYS("!22023 hint", call, conn, "cancel_key", "'a', null");
	SAYS("!22023 hint", call, conn, "cancel_group", "'a', null");
	SAYS("!22023 hint", call, conn, "reschedule", "1, '1 s', now()");
	SAYS("!22023 hint", call, conn, "make_kind", "repeat('x', 64)");
	SAYS("!22023 hint", call, conn, "make_kind", "''");
	/* A wrong value is not repeated at length. */
	for (size_t i = 0; i < 4; i++) {
		static const char *const longer[] = { "repeat('x', 100000)", "'a', cron => repeat('*', 100000)",
						      "'a', cron => '@daily', zone => repeat('x', 100000)",
						      "'a', key => 'k', if_exists => repeat('x', 100000)" };

		(void)call(conn, "put", "%s", longer[i]);
		CHECK(strstr(answer, "hint") != NULL);
		CHECK_INT(strlen(PQerrorMessage(conn)), <, 1000);
	}
}

/* As the process that holds the row would have left it; a series goes on. */
static void set_running(int64_t id, bool series)
{
	(void)query("update %s_timeout set state = 2, epoch = 1, attempt = 1, period_us = %d where id = %lld",
		    world.schema, series ? 5000000 : 0, (long long)id);
}

TEST(a_cancel_says_what_has_happened)
{
	SQL_WORLD(store, conn);
	int64_t id;

	(void)PUT_SQL(conn, "'a', key => 'k', delay => '1 day'");
	SAYS("none", call, conn, "cancel_key", "'a', 'k', 'g'");
	SAYS("cancelled", call, conn, "cancel_key", "'a', 'k'");
	SAYS("none", call, conn, "cancel_key", "'a', 'k'");
	id = PUT_SQL(conn, "'a', delay => '1 day'");
	set_running(id, false);
	SAYS("running", call, conn, "cancel", "%lld", (long long)id);
	set_running(id, true);
	SAYS("cancelled", call, conn, "cancel", "%lld", (long long)id);
	CHECK_INT(COUNT("last"), ==, 1);
	SAYS("running", call, conn, "cancel", "%lld", (long long)id);
	(void)query("update %s_timeout set state = 3, last = null, shard = -1 - shard", world.schema);
	SAYS("cancelled", call, conn, "cancel", "%lld", (long long)id);
	SAYS("none", call, conn, "cancel", "%lld", (long long)id);
}

TEST(all_of_a_group_are_cancelled_and_what_runs_is_marked)
{
	SQL_WORLD(store, conn);
	int64_t id;

	for (int i = 0; i < 2; i++)
		(void)PUT_SQL(conn, "'a', grp => 'g', delay => '1 day'");
	id = PUT_SQL(conn, "'a', grp => 'g', key => 'k', delay => '1 day'");
	(void)PUT_SQL(conn, "'a', grp => 'h', delay => '1 day'");
	(void)PUT_SQL(conn, "'a', delay => '1 day'");
	set_running(id, false);
	SAYS("3", call, conn, "cancel_group", "'a', 'g'");
	SAYS("0", call, conn, "cancel_group", "'a', 'g'");
	/* The replacement of a last run is dropped, as by the cancel of one timeout, which answers that it runs. */
	CHECK_INT(PUT_SQL(conn, "'a', grp => 'g', key => 'k', delay => '1 day', if_exists => 'replace'"), ==, id);
	SAYS("0", call, conn, "cancel_group", "'a', 'g'");
	CHECK_INT(COUNT("next_due_us is not null"), ==, 0);
	CHECK_INT(COUNT("state = 2 and last"), ==, 1);
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, 3);
}

/* The row was running when the cancel passed it by; the cancel waits for a locked row then. */
TEST(of_a_group_that_is_cancelled_none_is_left_that_is_filed_meanwhile)
{
	SQL_WORLD(store, conn);
	USER *locks = connect_user(), *cancels = connect_user();
	char text[128];

	set_running(PUT_SQL(conn, "'a', grp => 'g', delay => '1 hour', every => '1 day'"), false);
	(void)PUT_SQL(conn, "'a', grp => 'g', delay => '1 day'");
	(void)sql(locks, "begin; select 1 from %s_timeout where state = 1 for update", world.schema);
	(void)snprintf(text, sizeof(text), "select %s_cancel_group('a', 'g')", world.schema);
	CHECK_INT(PQsendQuery(cancels, text), ==, 1);
	WAIT_FOR(query("select count(*) from pg_stat_activity where wait_event_type = 'Lock'") != 0);
	(void)query("update %s_timeout set state = 1, epoch = 0 where state = 2", world.schema);
	(void)sql(locks, "commit");
	SAYS("2", answer_of, cancels);
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, 0);
}

TEST(a_reschedule_moves_what_is_pending_or_has_failed)
{
	SQL_WORLD(store, conn);
	int64_t id;

	CHECK_CALL(hwt_store_start(store), 0);
	id = PUT_SQL(conn, "'a', key => 'k', delay => '1 day'");
	SAYS("rescheduled", call, conn, "reschedule_key", "'a', 'k', at => '2100-01-01 00:00+00'");
	CHECK_INT(info_of(store, id).due_us, ==, INT64_C(4102444800000000));
	(void)query("update %s_timeout set state = 3, attempt = 20, shard = -1 - shard", world.schema);
	SAYS("rescheduled", call, conn, "reschedule", "%lld, '1 day'", (long long)id);
	CHECK_INT(info_of(store, id).state, ==, HWT_STORE_PENDING);
	CHECK_INT(info_of(store, id).attempt, ==, 0);
	set_running(id, true);
	SAYS("running", call, conn, "reschedule", "%lld", (long long)id);
	(void)query("update %s_timeout set state = 1, epoch = 0, period_us = 0", world.schema);
	SAYS("rescheduled", call, conn, "reschedule", "%lld, '1 ms'", (long long)id);
	CHECK(wait_gone(store, id)); /* the holder was told */
	SAYS("none", call, conn, "reschedule", "%lld", (long long)id);
}

TEST(the_holder_computes_the_first_time_of_a_cron_line)
{
	SQL_WORLD(store, conn);
	int64_t id, wrong, first_us;

	id = PUT_SQL(conn, "'a', cron => '30 8 * * *', zone => 'UTC', at => '2100-01-01 09:00+00'");
	wrong = PUT_SQL(conn, "'a', cron => '99 8 * * *'");
	CHECK_INT(info_of(store, id).due_us, ==, 0);
	CHECK_INT(query("select count(*) from %s_timeouts where due is null and not overdue", world.schema), ==, 2);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_store_state(store, wrong, HWT_STORE_FAILED));
	CHECK(strstr(info_of(store, wrong).error, "minute") != NULL);
	WAIT_FOR(info_of(store, id).due_us != 0);
	CHECK_CALL(hwt_store_next_time("30 8 * * *", NULL, INT64_C(4102477200000000), &first_us, NULL, 0), 0);
	CHECK_INT(info_of(store, id).due_us, ==, first_us);
	CHECK_INT(info_of(store, id).attempt, ==, 0);
	CHECK_INT(COUNT("base_us = due_us and state = 1"), ==, 1);
	CHECK_INT(atomic_load(&ran), ==, 0);
}

/* The server accepts more: abbreviations, rules, letters of either case. */
TEST(sql_takes_the_zones_that_c_takes)
{
	SQL_WORLD(store, conn);
	static const char zones[] =
	    "UTC Etc/UTC GMT0 Etc/GMT+5 EST EST5EDT CET W-SU Europe/Berlin America/Port-au-Prince"
	    " America/Argentina/Buenos_Aires Etc/GMT+25 EST5 PST PDT MSK FOO FOO+5 Z utc"
	    " Europe/Berlin+5 europe/berlin EUROPE/BERLIN posix/UTC right/UTC localtime posixrules";
	char before[64], zone[64];
	int64_t at_us;
	int taken = 0, len = 0;

	(void)snprintf(before, sizeof(before), "%s", sql(conn, "show timezone"));
	for (const char *at = zones; sscanf(at, "%63s%n", zone, &len) == 1; at += len) {
		int rc = hwt_store_next_time("@daily", zone, now_us(), &at_us, NULL, 0);

		(void)call(conn, "put", "'a', cron => '@daily', zone => '%s'", zone);
		CHECK((rc == 0 ? answer[0] != '!' : strcmp(answer, "!22023 hint") == 0) ||
		      (fprintf(stderr, "    %s: %d, %s\n", zone, rc, answer), false));
		taken += rc == 0;
	}
	CHECK_INT(taken, >, 5);
	SAYS(before, sql, conn, "show timezone");
}

/* The zone's file is missing at first, or processes have died: the row does not run before a time of its line. */
TEST(a_cron_line_gets_its_first_time_though_that_fails_before)
{
	SQL_WORLD(store, conn);
	hwt_store_kind kind = KIND(.name = "b", .task = count_run, .backoff_ns = 1000);
	const char *zone = "Europe/Berlin";
	int64_t late, dead, first_us;

	CHECK_CALL(hwt_store_register(store, &kind), 0);
	late = PUT_SQL(conn, "'b', cron => '30 8 * * *', zone => '%s', at => '2100-01-01 09:00+00'", zone);
	dead = PUT_SQL(conn, "'b', cron => '30 8 * * *', at => '2100-01-01 09:00+00'");
	(void)query("update %s_timeout set state = 2, attempt = 2 where id = %lld", world.schema, (long long)dead);
	atomic_store(&hwts_test_zones, "/nowhere");
	CHECK_CALL(hwt_store_start(store), 0);
	WAIT_FOR(stats_of_store(store).retried >= 3);
	atomic_store(&hwts_test_zones, NULL);
	CHECK_CALL(hwt_store_next_time("30 8 * * *", NULL, INT64_C(4102477200000000), &first_us, NULL, 0), 0);
	WAIT_FOR(info_of(store, dead).due_us == first_us || atomic_load(&ran) > 0);
	CHECK_CALL(hwt_store_next_time("30 8 * * *", zone, INT64_C(4102477200000000), &first_us, NULL, 0), 0);
	WAIT_FOR(info_of(store, late).due_us == first_us || atomic_load(&ran) > 0);
	CHECK_INT(atomic_load(&ran), ==, 0);
}

static void listen_to_all(PGconn *ear)
{
	(void)sql(ear,
		  "do 'declare s text; begin for s in select left(store, 16) || ''_'' || id from %s_shard, %s_meta loop"
		  " execute ''listen %s_'' || s; end loop; end'",
		  world.schema, world.schema, world.schema);
}

/* How many notifications came with the last statement of ear; counts those of the constant text in *constant. */
static unsigned heard_by(PGconn *ear, unsigned *constant)
{
	PGnotify *heard;
	unsigned count = 0;

	for (; (heard = PQnotifies(ear)) != NULL; count++) {
		*constant += strcmp(heard->extra, "r") == 0;
		PQfreemem(heard);
	}
	return count;
}

/* The server sends equal notifications once. */
TEST(many_rows_of_a_transaction_notify_a_few_times)
{
	SQL_WORLD(store, conn);
	USER *ear = connect_user();
	unsigned constant = 0;

	CHECK_CALL(hwt_store_start(store), 0);
	listen_to_all(ear);
	SAYS("100", sql, conn, "select count(%s_put('a', grp => 'g')) from generate_series(1, 100)", world.schema);
	(void)sql(conn, "select %s_put('a', delay => '1 day')", world.schema);
	(void)sql(ear, "select 1");
	CHECK_INT(heard_by(ear, &constant), ==, 5);
	CHECK_INT(constant, ==, 1);
	WAIT_FOR(query("select count(*) from %s_timeout", world.schema) == 1);
}

#define MANY(conn, ...) call(conn, "put_many", __VA_ARGS__)

/* In one statement these puts put what each of them puts alone. */
TEST(many_in_one_statement_are_what_each_alone_would_be)
{
	SQL_WORLD(store, conn);
	static const char rows[] =
	    "array['x', null, '', null, 'gr\xc3\xbc\xc3\x9f'], array[null, '\\x00ff', null, null, null]"
	    "::bytea[], array['2100-01-01 00:00:00.125+00', '2100-01-02', '1970-01-01 00:00+00',"
	    " '2262-04-11 23:47:16.854775+00', '2100-01-03']::timestamptz[],"
	    " array['k', null, 'k', null, 'a key'], array[null, null, 'tenant 9', 'tenant 10', null]";
	char ids[256];

	register_kind(store, "b", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	(void)snprintf(
	    ids, sizeof(ids), "%s",
	    sql(conn, "with r(d, b, a, k, g) as (values (%s)) select %s_put_many('a', d, b, null, a, k, g, -7) from r",
		rows, world.schema));
	CHECK(ids[0] == '{' || (fprintf(stderr, "    %s\n", ids), false));
	(void)sql(conn,
		  "with r(d, b, a, k, g) as (values (%s)) select %s_put('b', u.d, u.b, null, u.a, u.k, u.g,"
		  " priority => -7) from r, unnest(d, b, a, k, g) u(d, b, a, k, g)",
		  rows, world.schema);
#define SAME                                                                                                           \
	"due_us, base_us, epoch, period_us, attempt, state, priority, grp, key, schedule, zone, grace_us, spread_us, " \
	"data,"                                                                                                        \
	" case when grp <> '' or key is not null then bucket end, id & 1023 = bucket, shard - kind * 1024 - bucket "   \
	"%% 8"
	CHECK_INT(query("select count(*) from (select " SAME
			" from %s_timeout where kind = (select id from %s_kind where name ="
			" 'a') intersect select " SAME
			" from %s_timeout where kind = (select id from %s_kind where name = 'b')) t",
			world.schema, world.schema, world.schema, world.schema),
		  ==, 5);
	/* The ids come in the order of the puts. */
	CHECK_INT(
	    query(
		"select count(*) from unnest('%s'::bigint[]) with ordinality u(id, n) join %s_timeout t on t.id = u.id"
		" and t.due_us = (array[4102444800125000, extract(epoch from '2100-01-02'::timestamptz)::bigint * "
		"1000000,"
		" 1, 9223372036854775, extract(epoch from '2100-01-03'::timestamptz)::bigint * 1000000])[u.n]",
		ids, world.schema),
	    ==, 5);
}

TEST(many_of_nothing_are_none)
{
	SQL_WORLD(store, conn);

	SAYS("{}", MANY, conn, "'a'");
	SAYS("{}", MANY, conn, "'a', (select array_agg('x'::text) where false), delay => '1 day'");
	SAYS("{}", MANY, conn, "'a', '{}'");
	SAYS("!42704 hint", MANY, conn, "'nothing'");
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, 0);
}

TEST(many_that_are_due_soon_run_and_notify_a_few_times)
{
	SQL_WORLD(store, conn);
	USER *ear = connect_user();
	unsigned constant = 0;

	CHECK_CALL(hwt_store_start(store), 0);
	listen_to_all(ear);
	CHECK_INT(strlen(MANY(conn, "'a', grp => array_fill('g'::text, array[9])")), >, 9);
	(void)MANY(conn, "'a', array['x'], delay => '1 day'");
	(void)sql(ear, "select 1");
	CHECK_INT(heard_by(ear, &constant), ==, 5);
	CHECK_INT(constant, ==, 1);
	WAIT_FOR(query("select count(*) from %s_timeout", world.schema) == 1);
	CHECK_INT(atomic_load(&ran), ==, 9);
}

TEST(keys_that_are_in_use_among_many_are_an_error_kept_or_replaced)
{
	SQL_WORLD(store, conn);
	char ids[64];
	int64_t id;

	id = PUT_SQL(conn, "'a', 'old', key => 'k', delay => '1 day'");
	SAYS("!23505 hint", MANY, conn, "'a', array['1', '2'], key => array['new', 'k'], delay => '1 day'");
	SAYS("!23505 hint", MANY, conn, "'a', array['1', '2'], key => array['new', 'new'], delay => '1 day'");
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, 1);
	(void)snprintf(ids, sizeof(ids), "%s",
		       MANY(conn, "'a', array['1', '2'], key => array['k', 'new'],"
				  " delay => '1 day', if_exists => 'keep'"));
	CHECK_INT(strtoll(ids + 1, NULL, 10), ==, id);
	CHECK_INT(COUNT("convert_from(data, 'UTF8') in ('old', '2')"), ==, 2);
	SAYS(ids, MANY, conn,
	     "'a', array['3', '4'], key => array['k', 'new'], delay => '1 day', if_exists => 'replace'");
	CHECK_INT(COUNT("convert_from(data, 'UTF8') in ('3', '4')"), ==, 2);
	/* The last of a key is the one that stays. */
	(void)MANY(conn,
		   "'a', array['5', '6', '7'], key => array['k', 'k', 'k'], delay => '1 day', if_exists => 'replace'");
	CHECK_INT(query("select count(*) from %s_timeout where data = '7' and id = %lld", world.schema, (long long)id),
		  ==, 1);
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, 2);
}

TEST(one_wrong_argument_among_many_is_an_error_with_a_hint_and_puts_nothing)
{
	SQL_WORLD(store, conn);
	static const char *const wrong[] = {
		"null, array['x']",
		"'nothing', array['x']",
		"'a', array['x', 'y'], key => array['k']",
		"'a', key => array[['k', 'l'], ['m', 'n']], if_exists => 'keep'",
		"'a', array_fill('x'::text, array[10001])",
		"'a', array['x'], array['\\x00', '\\x01']::bytea[]",
		"'a', array['x', 'y'], array[null, '\\x00']::bytea[]",
		"'a', array['x', repeat('x', 1048577)]",
		"'a', bytes => array[null, convert_to(repeat('x', 1048577), 'UTF8')]",
		"'a', array['x'], delay => '1 s', at => array[now()]",
		"'a', array['x'], delay => '9000 years'",
		"'a', array['x', 'y'], at => array['2100-01-01', 'infinity']::timestamptz[]",
		"'a', array['x', 'y'], at => array['2100-01-01', '1969-12-31']::timestamptz[]",
		"'a', array['x', 'y'], key => array['k', '']",
		"'a', array['x', 'y'], grp => array['g', repeat('x', 256)]",
		"'a', array['x', 'y'], priority => 101",
		"'a', array['x', 'y'], priority => null",
		"'a', array['x', 'y'], if_exists => 'keep'",
		"'a', array['x', 'y'], key => array['k', null], if_exists => 'keep'",
		"'a', array['x', 'y'], key => array['k', 'l'], if_exists => 'keep_due'",
		"'a', array['x', 'y'], key => array['k', 'l'], if_exists => 'merge'",
		"'a', array['x', 'y'], key => array['k', 'l'], if_exists => null",
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		(void)MANY(conn, "%s", wrong[i]);
		CHECK((answer[0] == '!' && strstr(answer, "hint")) ||
		      (fprintf(stderr, "    %s: %s\n", wrong[i], answer), false));
	}
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, 0);
}

/* If two transactions read in an index where the other puts, the second commit would fail. */
TEST(serializable_transactions_that_put_do_not_conflict)
{
	SQL_WORLD(store, conn);
	static const char *const what[] = { "", ", 'x', grp => 'g'", ", key => 'k%d'", ", delay => '1 day'" };
	USER *other = connect_user();
	PGconn *const both[] = { conn, other };
	char arguments[64];

	(void)query("update %s_shard set owner = 'somebody'", world.schema);
	for (size_t i = 0; i < sizeof(what) / sizeof(what[0]); i++) {
		for (int step = 0; step < 6; step++) {
			if (step < 2)
				(void)sql(both[step], "begin isolation level serializable");
			(void)snprintf(arguments, sizeof(arguments), what[i], step);
			CHECK_INT(PUT_SQL(both[step % 2], "'a'%s", arguments), >, 0);
		}
		SAYS("", sql, conn, "commit");
		SAYS("", sql, other, "commit");
	}
}

/*
 * Begins compare the number of rules in the rows of the shards, and would wait for these rows.  A transaction may have
 * made its constraints immediate before.
 */
TEST(a_transaction_that_pauses_holds_up_nothing_before_it_commits)
{
	SQL_WORLD(store, conn);
	USER *other = connect_user();

	CHECK_CALL(hwt_store_start(store), 0);
	for (int immediate = 0; immediate < 2; immediate++) {
		int64_t before = rules();

		(void)sql(conn, immediate ? "begin; set constraints all immediate" : "begin");
		(void)call(conn, "pause", "'a', 'g'");
		(void)call(conn, "limit", "'a', running => 3");
		(void)call(conn, "resume", "'a', 'g'");
		SAYS("0", sql, conn,
		     "select count(*) from pg_locks where pid = pg_backend_pid() and relation = '%s_shard'::regclass"
		     " and mode <> 'AccessShareLock'",
		     world.schema);
		for (int i = 0; i < 20 && strcmp(answer, "0") == 0; i++)
			CHECK(wait_gone(store, PUT_SQL(other, "'a', grp => 'g', key => 'k%d'", i)));
		CHECK_INT(rules(), ==, before);
		(void)sql(conn, "rollback");
		CHECK_INT(rules(), ==, before);
	}
}

/* The nth group of a shard. */
static const char *group_in(uint32_t shard, unsigned n)
{
	static char names[4][16];
	static unsigned at;
	char *name = names[at++ % 4];

	for (unsigned i = 0; n > 0; i++) {
		(void)snprintf(name, sizeof(names[0]), "group %u", i);
		n -= hwts_bucket(name, strlen(name)) % 8 == shard;
	}
	return name;
}

/*
 * The groups differ, and their shards are the same.  Two other sessions make sure that both transactions wait for their
 * first shard, and then conn for its second one.
 */
TEST(transactions_that_pause_several_groups_lock_their_shards_in_one_order)
{
	SQL_WORLD(store, conn);
	USER *other = connect_user(), *holds_2 = connect_user(), *holds_5 = connect_user();

	(void)store;
	SAYS("", sql, holds_2, "begin");
	SAYS("", sql, holds_5, "begin");
	(void)sql(holds_2, "select 1 from %s_shard where id %% 1024 = 2 for update", world.schema);
	(void)sql(holds_5, "select 1 from %s_shard where id %% 1024 = 5 for update", world.schema);
	SAYS("", sql, conn, "begin");
	SAYS("", sql, other, "begin");
	SAYS("", call, conn, "pause", "'a', '%s'", group_in(2, 1));
	SAYS("", call, conn, "pause", "'a', '%s'", group_in(5, 1));
	SAYS("", call, other, "limit", "'a', '%s', running => 3", group_in(5, 2));
	SAYS("", call, other, "pause", "'a', '%s'", group_in(2, 2));
	CHECK_INT(PQsendQuery(conn, "commit"), ==, 1);
	CHECK_INT(PQsendQuery(other, "commit"), ==, 1);
	WAIT_FOR(IS_BLOCKED(conn) && IS_BLOCKED(other));
	SAYS("", sql, holds_2, "commit");
	WAIT_FOR(IS_BLOCKED(conn));
	SAYS("", sql, holds_5, "commit");
	SAYS("", answer_of, conn);
	SAYS("", answer_of, other);
}

/* A pause that stays raises the number of its shard once, whether at the commit or before. */
TEST(a_pause_that_is_rolled_back_locks_no_shard)
{
	SQL_WORLD(store, conn);
	USER *holder = connect_user();

	(void)store;
	SAYS("", sql, holder, "begin");
	(void)sql(holder, "select 1 from %s_shard where id %% 1024 = 2 for update", world.schema);
	SAYS("", sql, conn, "set lock_timeout = '20s'");
	SAYS("", sql, conn, "begin");
	SAYS("", call, conn, "pause", "'a', '%s'", group_in(5, 1));
	SAYS("", sql, conn, "savepoint s");
	SAYS("", call, conn, "pause", "'a', '%s'", group_in(2, 1));
	SAYS("", sql, conn, "rollback to savepoint s");
	SAYS("", sql, conn, "set constraints all immediate");
	SAYS("", call, conn, "pause", "'a', '%s'", group_in(5, 2));
	SAYS("", sql, conn, "commit");
	SAYS("", sql, holder, "commit");
	CHECK_INT(query("select rules from %s_shard where id %% 1024 = 2", world.schema), ==, 0);
	CHECK_INT(query("select rules from %s_shard where id %% 1024 = 5", world.schema), ==, 2);
}

TEST(a_kind_can_be_made_and_a_process_registers_it_later)
{
	SQL_WORLD(store, conn);
	int64_t id;

	SAYS("!42704 hint", call, conn, "put", "'later'");
	(void)call(conn, "make_kind", "'later'");
	(void)call(conn, "make_kind", "'later'");
	id = PUT_SQL(conn, "'later'");
	CHECK_INT(id, >, 0);
	register_kind(store, "later", count_run, NULL, HWT_STORE_AT_MOST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_gone(store, id));
	CHECK_INT(atomic_load(&ran), ==, 1);
}

/* Keys, data and names of kinds are UTF-8 whatever the database's encoding is. */
static void check_encoding(const char *encoding, bool knows_characters)
{
	int64_t id;

	fresh_world();
	use_database_of(encoding);
	CLOSING hwt_store *store = open_store();
	USER *conn = connect_user();
	(void)PQsetClientEncoding(conn, "UTF8");
	SAYS("!22023 hint", call, conn, "make_kind", "repeat('\xc3\xbc', 32)");
	SAYS("", call, conn, "make_kind", "repeat('\xc3\xbc', 31)");
	id = PUT_SQL(conn, "repeat('\xc3\xbc', 31), '\xc3\xbc', key => '\xc3\xbc', delay => '1 day'");
	CHECK_INT(id, ==, hwts_id_of(id >> HWTS_BUCKET_BITS, NULL, "\xc3\xbc"));
	CHECK(strcmp(info_of(store, id).key, "\xc3\xbc") == 0 && strlen(info_of(store, id).kind) == 62);
	if (!knows_characters) {
		(void)sql(conn, "set client_encoding = 'SQL_ASCII'");
		(void)call(conn, "make_kind", "'\xff'");
		CHECK(answer[0] == '!');
		(void)call(conn, "put", "repeat('\xc3\xbc', 31), key => '\xff'");
		CHECK(answer[0] == '!');
	}
}

TEST(texts_are_utf8_in_a_database_of_another_encoding)
{
	NEEDS_POSTGRES();
	check_encoding("latin1", true);
	check_encoding("sql_ascii", false);
}

/* Makes tables, functions and operators that come first in the caller's search path, and report each call. */
static void set_trap(PGconn *conn, const char *role)
{
	static const char *const functions[] = { "nextval(regclass)",     "convert_to(text, name)", "length(bytea)",
						 "pg_notify(text, text)", "clock_timestamp()",      "hashtext(text)" };
	static const char *const returns[] = { "bigint", "bytea", "int", "void", "timestamptz", "int" };
	static const char *const tables[] = { "timeout", "kind", "shard", "meta" };

	(void)sql(conn, "create schema %s authorization %s", role, role);
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		(void)sql(conn, "create function %s.%s returns %s language plpgsql as 'begin raise ''trapped''; end'",
			  role, functions[i], returns[i]);
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		(void)sql(conn, "create table %s.%s_%s (id int)", role, world.schema, tables[i]);
	/* Operators for all types that occur. */
	(void)sql(
	    conn,
	    "do 'declare o record; n int := 0; begin for o in select oprname, oprleft::regtype l, oprright::regtype r,"
	    " oprresult::regtype t from pg_operator where oprnamespace = 11 and oprkind = ''b'' and oprcode <> 0 and"
	    " oprleft in (16, 17, 19, 20, 21, 23, 25, 701, 1184, 1186, 1700) loop"
	    " execute format(''create function %s.f%%s(%%s, %%s) returns %%s language plpgsql as %%L'', n, o.l, o.r,"
	    " o.t, ''begin raise ''''trapped''''; end'');"
	    " execute format(''create operator %s.%%s (function = %s.f%%s, leftarg = %%s, rightarg = %%s)'',"
	    " o.oprname, n, o.l, o.r); n := n + 1; end loop; end'",
	    role, role, role);
	(void)sql(conn, "set search_path = %s, pg_catalog, public", role);
	CHECK_INT(
	    query("select count(*) from pg_operator o join pg_roles r on r.oid = o.oprowner where r.rolname = '%s'",
		  role),
	    >, 100);
}

TEST(a_role_with_execute_alone_can_put_and_nothing_else)
{
	SQL_WORLD(store, conn);
	static const char *const granted[] = { "put",          "put_many",   "cancel",         "cancel_key",
					       "cancel_group", "reschedule", "reschedule_key", "pause",
					       "resume",       "limit",      "make_kind" };
	static const char *const calls[] = {
		"reschedule_key('a', 'k', 'g', delay => '2 days')",
		"pause('a')",
		"pause('a', 'g')",
		"resume('a', 'g')",
		"resume('a')",
		"limit('a', running => 3, start_every => '1 s', burst => 2)",
		"limit('a', 'g', running => 3)",
		"limit('a', 'g', remove => true)",
		"limit('a', remove => true)",
		"put('a', key => 'k', grp => 'g', at => '2100-01-01', cron => '@daily', zone => 'UTC',"
		" if_exists => 'replace')",
		"cancel_key('a', 'k', 'g')",
		"put('a', bytes => '\\x00', key => 'k', grp => 'g', every => '1 day', grace => '1 s', priority => 3,"
		" if_exists => 'revive')",
		"put_many('a', array['x', null], at => array['2100-01-01', null]::timestamptz[], key => array['m', "
		"'l'],"
		" grp => array['g', null])",
		"put_many('a', array['x', null], key => array['m', 'l'], grp => array['g', null], if_exists => "
		"'replace')",
		"cancel_group('a', 'g')",
		"put('a')",
		"reschedule(1, '1 day')",
	};
	char role[64];

	(void)snprintf(role, sizeof(role), "%s_web", world.schema);
	(void)sql(conn, "create role %s login; grant create on database %s to %s", role, PQdb(conn), role);
	disconnect_user(conn);
	conn = connect_as(role);
	SAYS("!42501", call, conn, "put", "'a', delay => '1 day'");
	for (size_t i = 0; i < sizeof(granted) / sizeof(granted[0]); i++)
		(void)query("do 'begin execute ''grant execute on function '' || (select oid::regprocedure from pg_proc"
			    " where proname = ''%s_%s'') || '' to %s''; end'",
			    world.schema, granted[i], role);
	set_trap(conn, role);
	CHECK_INT(
	    strtoll(sql(conn, "select public.%s_put('a', 'x', key => 'k', delay => '1 day')", world.schema), NULL, 10),
	    >, 0);
	SAYS("f", sql, conn, "select public.%s_put('a', key => 'k', delay => '1 s', if_exists => 'replace') is null",
	     world.schema);
	SAYS("cancelled", sql, conn, "select public.%s_cancel_key('a', 'k')", world.schema);
	SAYS("", sql, conn, "select public.%s_make_kind('b')", world.schema);
	SAYS("!42501", sql, conn, "select public.%s_draw(0)", world.schema);
	SAYS("!42501", sql, conn,
	     "create table %s.mine (id int); create trigger t after insert on %s.mine for each row execute function"
	     " public.%s_raise()",
	     role, role, world.schema);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		(void)sql(conn, "select public.%s_%s", world.schema, calls[i]);
		CHECK(answer[0] != '!' || (fprintf(stderr, "    %s: %s\n", calls[i], PQerrorMessage(conn)), false));
	}
	SAYS("!42501", sql, conn, "select count(*) from public.%s_timeout", world.schema);
}

TEST(no_argument_becomes_part_of_a_statement)
{
	SQL_WORLD(store, conn);
	static const char *const words[] = { "'; drop table x; --", "$$", "%s%I%L", "\\x00", "${}", "\"" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		char *word = PQescapeLiteral(conn, words[i], strlen(words[i]));

		CHECK_INT(PUT_SQL(conn, "'a', %s, key => %s, grp => %s, delay => '1 day'", word, word, word), >, 0);
		SAYS("!42704 hint", call, conn, "put", "%s", word);
		(void)call(conn, "make_kind", "%s", word);
		CHECK_INT(PUT_SQL(conn, "%s, delay => '1 day'", word), >, 0);
		SAYS("cancelled", call, conn, "cancel_key", "'a', %s, %s", word, word);
		SAYS("0", call, conn, "cancel_group", "%s, %s", word, word);
		PQfreemem(word);
	}
}

STORE_MAIN(NULL)

#else

TEST(sql)
{
	SKIP("of PostgreSQL");
}

STORE_MAIN(NULL)

#endif
