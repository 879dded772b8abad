/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file that is damaged or hostile: each column of each table is edited before a store opens it.
 *
 * Checked  whatever the column contains, each call returns, with a text if it fails; the store closes; and once the
 * column
 *          is restored, all timeouts run.  A part of the columns and values is drawn each time; HWT_EACH=1: all.
 */
#include "store_query.h"

#include "inside.h"

#define COLUMNS_MAX 128
#define LOOKS 2

static struct column {
	char table[64], name[64];
} columns[COLUMNS_MAX];
static size_t column_count;

/* Values of all types; a value that a column does not accept is passed over. */
static const char *const values[] = {
	"null", "0",   "-1",          "33",   "2147483647", "9223372036854775807", "-9223372036854775807",
	"''",   "'x'", "'{-1,null}'", "1e300"
};

/*
 * The tables
 */

static void add_column(const char *table, const char *name)
{
	struct column *column = &columns[column_count++];

	REQUIRE(column_count < COLUMNS_MAX);
	(void)snprintf(column->table, sizeof(column->table), "%s", table);
	(void)snprintf(column->name, sizeof(column->name), "%s", name);
}

#ifdef HWT_STORE_SQLITE
static int note_column(void *ctx, int count, char **row, char **names)
{
	(void)ctx;
	(void)names;
	REQUIRE(count == 2);
	add_column(row[0], row[1]);
	return 0;
}
#endif

static void find_columns(void *user)
{
	char text[512];

	column_count = 0;
#ifdef HWT_STORE_SQLITE
	if (world.sqlite) {
		(void)snprintf(text, sizeof(text),
			       "select m.name, p.name from sqlite_master m, pragma_table_info(m.name) p where m.type = "
			       "'table' and m.name like '%s_%%'",
			       world.schema);
		CHECK_INT(sqlite3_exec(user, text, note_column, NULL, NULL), ==, SQLITE_OK);
	}
#endif
#ifdef HWT_STORE_POSTGRES
	if (!world.sqlite) {
		PGresult *result;

		(void)snprintf(text, sizeof(text),
			       "select c.relname, a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid "
			       "where c.relkind = 'r' and c.relname like '%s_%%' and a.attnum > 0 order by 1, a.attnum",
			       world.schema);
		result = PQexec(user, text);
		for (int i = 0; i < PQntuples(result); i++)
			add_column(PQgetvalue(result, i, 0), PQgetvalue(result, i, 1));
		PQclear(result);
	}
#endif
	CHECK_INT(column_count, >, 40);
}

/* For each table. */
static void for_each_table(void *user, const char *first, const char *second)
{
	for (size_t i = 0; i < column_count; i++) {
		const char *table = columns[i].table;

		if (i > 0 && strcmp(table, columns[i - 1].table) == 0)
			continue;
		CHECK(user_sql(user, first, table, table));
		if (second)
			CHECK(user_sql(user, second, table, table));
	}
}

/* Edits all rows, or one if the values must differ.  False: the column does not accept the value. */
static bool edit(void *user, const struct column *column, const char *value)
{
	return user_sql(user, "update %s set %s = %s", column->table, column->name, value) ||
	       user_sql(user, "update %s set %s = %s where %s = (select min(%s) from %s)", column->table, column->name,
			value, column->name, column->name, column->table);
}

/*
 * What the store contains
 */

static int run_any(const hwt_store_run *run, void *ctx)
{
	(void)ctx;
	atomic_fetch_add(&ran, 1);
	return run->len > 0 ? EIO : 0;
}

/* *rc: the first failure. */
static void register_kinds(hwt_store *store, int *rc)
{
	static const char *const names[] = { "a", "b", "c" };

	for (unsigned mode = 0; mode < HWTS_COUNT(names) && *rc == 0; mode++)
		PATIENTLY(*rc, hwt_store_register(store, &KIND(.name = names[mode], .task = run_any, .mode = mode,
							       .max_attempts = 2, .backoff_ns = HWT_MS(1))));
}

/* Rows in all states, of each kind; some are due, and some run in a process that has died. */
static void fill(hwt_store *store)
{
	static const char *const names[] = { "a", "b", "c" };
	int64_t id;

	for (size_t i = 0; i < HWTS_COUNT(names); i++) {
		(void)put(store, names[i], HWT_S(36000));
		(void)put(store, names[i], 0);
		(void)put_spec(store, &SPEC(names[i], 0, .data = "fails", .len = 5));
		(void)put_spec(store, &SPEC(names[i], 0, .period_ns = HWT_S(3600), .group = "g", .priority = 3));
		(void)put_spec(store, &SPEC(names[i], HWT_S(60), .schedule = "0 * * * *", .grace_ns = HWT_S(60),
					    .spread_ns = HWT_S(1)));
		id = put_key(store, names[i], "runs", 0);
		(void)query("update %s_timeout set state = 2, epoch = 0, attempt = 1 where id = %lld", world.schema,
			    (long long)id);
		(void)put_spec(store, &SPEC(names[i], HWT_S(5), .key = "runs", .flags = HWT_STORE_REPLACE));
		CHECK_CALL(hwt_store_limit(store, names[i], "g",
					   &LIMITS(.running = 3, .start_every_ns = HWT_MS(1), .burst = 2)),
			   0);
	}
	(void)query("insert into %s_member (name, incarnation, until_us, kinds) values ('dead', 7, 1, '%s')",
		    world.schema, world.sqlite ? ",1,2," : "{1,2}");
	if (world.sqlite)
		(void)query("insert into %s_hint (id, due_us, shard, len, at_us) values (7, 7, 1024, 7, 7)",
			    world.schema);
}

/*
 * A process on the edited tables
 */

static void check_text(int rc)
{
	CHECK((hwt_store_error()[0] != '\0') == (rc != 0));
}

static bool see(void *ctx, const hwt_store_info *info)
{
	(void)ctx;
	CHECK(info->state >= HWT_STORE_PENDING && info->state <= HWT_STORE_FAILED);
	CHECK(memchr(info->key, '\0', sizeof(info->key)) && memchr(info->error, '\0', sizeof(info->error)));
	return true;
}

static bool see_kind(void *ctx, const hwt_store_kind_info *info)
{
	(void)ctx;
	CHECK(memchr(info->kind, '\0', sizeof(info->kind)) != NULL);
	return true;
}

static void make_calls(hwt_store *store)
{
	hwt_store_stats stats = HWT_STORE_STATS_INIT;
	hwt_store_which all = { .size = sizeof(all), .kind = "a", .all = true, .any_group = true };
	hwt_store_spec spec = SPEC("a", HWT_MS(1), .key = "new", .flags = HWT_STORE_REPLACE);
	hwt_store_info info = HWT_STORE_INFO_INIT;
	char metrics[4096];

	check_text(hwt_store_each_kind(store, see_kind, NULL));
	check_text(hwt_store_each_ex(store, &all, see, NULL));
	if (hwt_store_get_key(store, "a", "runs", &info) == 0)
		(void)see(NULL, &info);
	CHECK_CALL(hwt_store_read_stats(store, &stats), 0);
	check_text(hwt_store_put(store, &spec, NULL));
	check_text(hwt_store_reschedule_ex(store, &all, (hwt_store_when){ .delay_ns = HWT_MS(1) }, NULL));
	check_text(hwt_store_pause(store, "a", "g"));
	check_text(hwt_store_resume(store, "a", "g"));
	(void)hwt_store_prometheus(store, metrics, sizeof(metrics));
	check_text(hwt_store_cancel_ex(store, &all, NULL));
}

/* The store may be unable to work, but must not hang. */
static void live(void)
{
	hwt_store_config config = store_config();
	hwt_store *store = NULL;
	int rc;

	config.lease_ns = HWT_S(1);
	PATIENTLY(rc, hwt_store_open(&store, world.url, &config, NULL, 0));
	check_text(rc);
	if (rc != 0)
		return;
	register_kinds(store, &rc);
	if (rc == 0)
		PATIENTLY(rc, hwt_store_start(store));
	count_passes("looked");
	for (int i = 0; i < 20 && rc == 0 && atomic_load(&passes) < LOOKS; i++) {
		look_now(store);
		sleep_ms(2);
	}
	make_calls(store);
	for (int i = 0; i < 5 && rc == 0; i++)
		sleep_ms(1);
	CHECK_CALL(hwt_store_close(store), 0);
}

TEST(whatever_a_column_says_all_calls_return)
{
	struct prng prng = { test_seed("edited") };
	unsigned step = getenv("HWT_EACH") != NULL ? 1 : 24, edits = 0;
	CLOSING hwt_store *store = fresh_store();
	void *user;
	int rc = 0;

	register_kinds(store, &rc);
	CHECK_INT(rc, ==, 0);
	fill(store);
	CHECK_CALL(hwt_store_close(store), 0);
	user = connect_user();
	find_columns(user);
	for_each_table(user, "create table kept_%s as select * from %s", NULL);
	for (size_t i = prng_below(&prng, step); i < column_count * HWTS_COUNT(values); i += step) {
		const struct column *column = &columns[i / HWTS_COUNT(values)];
		const char *value = values[i % HWTS_COUNT(values)];

		if (!edit(user, column, value))
			continue;
		printf("# %s.%s = %s\n", strchr(column->table, '_'), column->name, value);
		fflush(stdout);
		live();
		edits++;
		for_each_table(user, "delete from %s", "insert into %s select * from kept_%s");
	}
	atomic_store(&hwts_test_at, NULL);
	CHECK_INT(edits, >, 5);
	disconnect_user(user);
	atomic_store(&ran, 0);
	store = open_store();
	register_kinds(store, &rc);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_count(&ran, 6));
}

STORE_MAIN(NULL)
