/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plans: no statement of an engine reads more timeouts than it needs.
 *
 * The statements are those of the table in store/sql/, and those found in this program itself, which contains every
 * literal of the library: so a new statement is checked as well, whether a test executes it or not.  The connections of
 * the engine plan each of them: with empty tables that are not analyzed, as when a store begins (a plan is kept from
 * then on); with few rows and with none after a vacuum; and with many rows.
 *
 * HWT_PLANS_URL and HWT_PLANS_SCHEMA name a store that is filled already, as large as can be: store/bench/scale.sh.
 *
 * A plan passes if each scan of the timeouts or the shards uses an index that it names, with a condition on it.  The
 * other tables have a row for each process or kind, or are read from their end.
 */
#include "store_query.h"

#include "inside.h"

#ifdef HWT_STORE_SQLITE
#include "db/sqlite.h"
#endif
#ifdef HWT_STORE_POSTGRES
#include "db/postgres.h"
#endif

#define ROWS 20000
#define STATEMENTS_MAX 256

/* Statements that read all rows: the test has to find and to refuse them. */
static const char READS_ALL[] = "select id from @_timeout where attempt = 77";
static const char READS_ALL_SHARDS[] = "select id from @_shard where epoch = 77";
static const char READS_ALL_GROUPS[] = "select kind from @_group where burst = 77";

/*
 * The statements
 */

struct statements {
	char *image; /* of this program */
	const char *texts[STATEMENTS_MAX];
	size_t n;
};

/* The statements of the table are taken from there. */
static bool is_statement(const char *text)
{
	static const char *const verbs[] = { "select ", "insert ", "update ", "delete ", "with " };

	for (size_t i = 0; i < HWTS_SQLS; i++)
		if (strcmp(text, hwts_statements[i].sqlite) == 0 ||
		    (hwts_statements[i].postgres && strcmp(text, hwts_statements[i].postgres) == 0))
			return false;
	for (size_t i = 0; i < HWTS_COUNT(verbs); i++)
		if (strncmp(text, verbs[i], strlen(verbs[i])) == 0)
			return strstr(text, "@_") && !strstr(text, "create ");
	return false;
}

static struct statements *find_statements(void)
{
	struct statements *found = calloc(1, sizeof(*found));
	FILE *file = fopen("/proc/self/exe", "rb");
	long size;

	REQUIRE(found && file && fseek(file, 0, SEEK_END) == 0);
	size = ftell(file);
	rewind(file);
	REQUIRE(size > 0);
	found->image = calloc(1, (size_t)size + 1);
	REQUIRE(found->image && fread(found->image, 1, (size_t)size, file) == (size_t)size);
	fclose(file);
	for (char *at = found->image, *end = at + size; at < end; at += strlen(at) + 1)
		if (is_statement(at)) {
			REQUIRE(found->n < STATEMENTS_MAX);
			found->texts[found->n++] = at;
		}
	return found;
}

static void free_statements(struct statements *found)
{
	free(found->image);
	free(found);
}

/* True: a statement of the other engine.  Without marks of either it is one of both. */
static bool is_foreign(const char *text)
{
	bool postgres = strchr(text, '$') || strstr(text, "pg_") || strstr(text, "::") || strstr(text, "nextval") ||
			strstr(text, "regclass");
	bool sqlite = strchr(text, '?') || strstr(text, "sqlite_") || strstr(text, "boot"); /* a column of its @_meta */

	CHECK(!(postgres && sqlite));
	return world.sqlite ? postgres : sqlite;
}

/*
 * Plans, a line for each scan
 */

static void add_line(char *plan, size_t size, const char *line)
{
	size_t at = strlen(plan);

	(void)snprintf(plan + at, size - at, "%s\n", line);
}

#ifdef HWT_STORE_SQLITE
static bool explain_sqlite(struct hwts_conn *conn, const char *sql, char *plan, size_t size)
{
	sqlite3 *handle = sqlite_conn(conn)->handle;
	sqlite3_stmt *statement = NULL;
	char *text = sqlite3_mprintf("explain query plan %s", sql);
	int rc = sqlite3_prepare_v2(handle, text, -1, &statement, NULL);

	sqlite3_free(text);
	while (rc == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
		add_line(plan, size, (const char *)sqlite3_column_text(statement, 3));
	sqlite3_finalize(statement);
	if (rc != SQLITE_OK)
		fprintf(stderr, "    %s\n", sqlite3_errmsg(handle));
	return rc == SQLITE_OK;
}

static bool is_good_on_sqlite(const char *plan)
{
	for (const char *line = plan; *line; line = strchr(line, '\n') + 1) {
		size_t len = strcspn(line, "\n");
		char text[512], table[64];

		(void)snprintf(text, sizeof(text), "%.*s ", (int)len, line);
		(void)snprintf(table, sizeof(table), "%s_timeout ", world.schema);
		if (strncmp(text, "SCAN ", 5) == 0 &&
		    (strstr(text, "_shard ") || strstr(text, " s ") || strstr(text, "_group ")))
			return false;
		if (!strstr(text, table) && !strstr(text, " t ")) /* t: the alias of the table in every statement */
			continue;
		if (strncmp(text, "SEARCH ", 7) != 0 || !strstr(text, " USING ") ||
		    !(strstr(text, "=?") || strstr(text, "_due (shard>? AND shard<?)")))
			return false;
	}
	return true;
}
#endif

#ifdef HWT_STORE_POSTGRES
/* A value for a parameter: with null the planner would see that nothing is read at all. */
static const char *value_of(Oid type)
{
	static const struct {
		Oid type;
		const char *value;
	} values[] = {
		{ 16, "true" },      { 17, "'a'" },       { 20, "3" },
		{ 23, "3" },         { 25, "'3'" },       { 1000, "'{true,false}'" },
		{ 1001, "'{a,b}'" }, { 1016, "'{3,4}'" }, { 1007, "'{3,4}'" },
		{ 1009, "'{a,b}'" },
	};

	for (size_t i = 0; i < HWTS_COUNT(values); i++)
		if (values[i].type == type)
			return values[i].value;
	fprintf(stderr, "    a parameter of type %u\n", (unsigned)type);
	return "null";
}

/*
 * On the engine's connections, the generic plan, as they keep it; with the planner's own settings, the plan for these
 * values, as on a caller's connection.
 */
static bool explain_postgres(struct hwts_conn *conn, const char *sql, char *plan, size_t size)
{
	PGconn *handle = pg_conn(conn)->handle;
	PGresult *result = PQprepare(handle, "plan", sql, 0, NULL), *described = PQdescribePrepared(handle, "plan");
	bool ok = PQresultStatus(result) == PGRES_COMMAND_OK;
	char text[1024] = "explain execute plan";

	for (int i = 0; i < PQnparams(described); i++) {
		size_t at = strlen(text);
		const char *value = value_of(PQparamtype(described, i));

		ok = ok && strcmp(value, "null") != 0;
		(void)snprintf(text + at, sizeof(text) - at, "%s %s", i == 0 ? "(" : ",", value);
	}
	if (PQnparams(described) > 0)
		strcat(text, ")");
	if (PQresultStatus(result) != PGRES_COMMAND_OK)
		fprintf(stderr, "    %s\n", PQerrorMessage(handle));
	PQclear(result);
	PQclear(described);
	if (ok) {
		result = PQexec(handle, text);
		ok = PQresultStatus(result) == PGRES_TUPLES_OK;
		if (!ok)
			fprintf(stderr, "    %s\n", PQerrorMessage(handle));
		for (int i = 0; i < PQntuples(result); i++)
			add_line(plan, size, PQgetvalue(result, i, 0));
		PQclear(result);
	}
	PQclear(PQexec(handle, "deallocate plan"));
	return ok;
}

/* "Index Cond: (...)" must name the first column of the index: with only the other columns all of the index is read. */
static bool goes_by_first_column(const char *scan, const char *next)
{
	static const char *const columns[][3] = {
		/* an index, its name in a partition, its first column or a column that is given only with the first */
		{ "_due on", "_shard_due_us_id_idx on", "shard = " }, { "_key on", "_grp_key_idx on", "bucket = " },
		{ "_ofgroup on", "_grp_due_us_id_idx on", "grp = " }, { "_ofkind on", "_kind_idx on", "kind = " },
		{ "_group_pkey", "_group_pkey", "bucket = " },        { "", "", "id = " },
	};
	size_t i = 0;
	char cond[2048];

	while (!strstr(scan, columns[i][0]) && !strstr(scan, columns[i][1]))
		i++;
	next += strspn(next, " ");
	(void)snprintf(cond, sizeof(cond), "%.*s", (int)strcspn(next, "\n"), next);
	/* The range of the shards of a kind. */
	return strncmp(cond, "Index Cond:", 11) == 0 && (strstr(cond, columns[i][2]) || strstr(cond, "(shard >= "));
}

/*
 * "... Scan using INDEX on TABLE t (...)", and then "Index Cond: ...".  With the planner's own settings a bitmap will
 * do, which begins with such a scan.
 */
static bool is_good_on_postgres(const char *plan, bool ours)
{
	char table[64], parts[64], shards[64], groups[64];

	(void)snprintf(table, sizeof(table), " on %s_timeout", world.schema);
	(void)snprintf(parts, sizeof(parts), " on %s_part", world.schema);    /* store/doc/partitioning.md */
	(void)snprintf(shards, sizeof(shards), " on %s_shard", world.schema); /* few: the planner may read them all */
	(void)snprintf(groups, sizeof(groups), " on %s_group", world.schema);
	for (const char *line = plan; *line; line = strchr(line, '\n') + 1) {
		size_t len = strcspn(line, "\n");
		char text[2048];

		(void)snprintf(text, sizeof(text), "%.*s", (int)len, line);
		if (!(strstr(text, table) || strstr(text, parts) ||
		      (ours && (strstr(text, shards) || strstr(text, groups)))) ||
		    strstr(text, "Insert on") || strstr(text, "Update on") || strstr(text, "Delete on"))
			continue;
		if ((!ours || strstr(text, parts)) && strstr(text, "Bitmap ")) /* after a scan of an index */
			continue;
		if (!strstr(text, "Scan using ") || !goes_by_first_column(text, line + len + 1))
			return false;
	}
	return true;
}
#endif

static bool explain(struct hwts_conn *conn, const char *sql, char *plan, size_t size)
{
	plan[0] = '\0';
#ifdef HWT_STORE_SQLITE
	if (world.sqlite)
		return explain_sqlite(conn, sql, plan, size);
#endif
#ifdef HWT_STORE_POSTGRES
	if (!world.sqlite)
		return explain_postgres(conn, sql, plan, size);
#endif
	return false;
}

static bool is_good(const char *plan, bool ours)
{
#ifdef HWT_STORE_SQLITE
	if (world.sqlite)
		return is_good_on_sqlite(plan);
#endif
	(void)ours;
#ifdef HWT_STORE_POSTGRES
	if (!world.sqlite)
		return is_good_on_postgres(plan, ours);
#endif
	return false;
}

/* No connection of a task or a caller looks ahead. */
static bool is_of_tasks(const char *text)
{
	return !strstr(text, "pg_snapshot_xmin") && strcmp(text, READS_ALL_SHARDS) != 0 &&
	       strcmp(text, READS_ALL_GROUPS) != 0;
}

static bool has_good_plan(struct hwts_conn *conn, const char *sql, bool is_bad)
{
	static char plan[65536];
	bool is_planned = explain(conn, sql, plan, sizeof(plan)),
	     good = is_planned && is_good(plan, conn->role != HWTS_TASK);

	CHECK(is_planned);
	if (!is_planned)
		fprintf(stderr, "%s\n", sql);
	else if (!good && !is_bad)
		fprintf(stderr, "no index serves %s\n%s\n", sql, plan);
	return good;
}

/* Checks all statements, as a connection in this role plans them. */
static void check_plans(hwt_store *store, enum hwts_role role)
{
	struct statements *found = find_statements();
	struct hwts_conn *conn = NULL;
	unsigned planned = 0, refused = 0;

	CHECK_INT(store->engine->connect(store->db, role, &conn), ==, 0);
	for (size_t i = 0; i < found->n; i++) {
		bool bad = strcmp(found->texts[i], READS_ALL) == 0 || strcmp(found->texts[i], READS_ALL_SHARDS) == 0 ||
			   strcmp(found->texts[i], READS_ALL_GROUPS) == 0;
		char *sql;

		if (is_foreign(found->texts[i]) || (role == HWTS_TASK && !is_of_tasks(found->texts[i])))
			continue;
		sql = hwts_sql(store->db, found->texts[i]);
		CHECK(has_good_plan(conn, sql, bad) == !bad);
		refused += bad;
		planned++;
		free(sql);
	}
	for (int i = 0; i < HWTS_SQLS; i++) {
		char *sql = hwts_sql_text(store->db, (enum hwts_sql)i, !world.sqlite, NULL);

		if (sql[0] &&
		    (role != HWTS_TASK || (i != HWTS_SQL_LOOK && i != HWTS_SQL_SWEEP && i != HWTS_SQL_LOOK_GROUP &&
					   i != HWTS_SQL_LOOK_NO_GROUP))) {
			CHECK(has_good_plan(conn, sql, false));
			planned++;
		}
		free(sql);
	}
	store->engine->disconnect(conn);
	free_statements(found);
	CHECK_INT(refused, ==, role == HWTS_TASK ? 1 : 3);
	CHECK_INT(planned, >=, 30);
	printf("# %u statements\n", planned);
}

/* Uses the store that the environment names instead of this test's. */
static bool is_given(void)
{
	const char *url = getenv("HWT_PLANS_URL"), *schema = getenv("HWT_PLANS_SCHEMA");

	if (!url || !schema)
		return false;
	world.sqlite = strncmp(url, "sqlite:", 7) == 0;
	(void)snprintf(world.url, sizeof(world.url), "%s", url);
	(void)snprintf(world.schema, sizeof(world.schema), "%s", schema);
	return true;
}

static void fill(hwt_store *store, const char *even, const char *odd)
{
	hwt_store_spec *specs = calloc(ROWS, sizeof(*specs));

	for (int i = 0; i < ROWS; i++)
		specs[i] = spec_of(i % 2 ? odd : even, HWT_S(3600) + HWT_MS(i));
	for (int i = 0; i < ROWS; i += 10000)
		CHECK_CALL(hwt_store_put_many(store, specs + i, 10000, NULL), 0);
	free(specs);
}

/* As autovacuum does a minute after a table has been used: from then on the planner knows how few pages there are. */
static void vacuum(hwt_store *store)
{
	struct hwts_conn *conn = NULL;

	CHECK_INT(store->engine->connect(store->db, HWTS_BEGIN, &conn), ==, 0);
#ifdef HWT_STORE_SQLITE
	if (world.sqlite)
		CHECK_INT(sqlite3_exec(sqlite_conn(conn)->handle, "analyze", NULL, NULL, NULL), ==, SQLITE_OK);
#endif
#ifdef HWT_STORE_POSTGRES
	if (!world.sqlite) {
		static const char *const tables[] = { "timeout", "shard", "kind", "member", "group" };
		char text[sizeof(store->db->schema) + 64];

		PQclear(PQexec(pg_conn(conn)->handle, "set lock_timeout = 0")); /* autovacuum may have the lock */
		for (size_t i = 0; i < HWTS_COUNT(tables); i++) {
			PGresult *result;

			(void)snprintf(text, sizeof(text), "vacuum analyze %s%s_%s", store->db->schema, world.schema,
				       tables[i]);
			result = PQexec(pg_conn(conn)->handle, text);
			CHECK_INT(PQresultStatus(result), ==, PGRES_COMMAND_OK);
			PQclear(result);
		}
	}
#endif
	store->engine->disconnect(conn);
}

TEST(no_statement_reads_all_timeouts_when_there_are_none_yet)
{
	CLOSING hwt_store *store = fresh_store();

	check_plans(store, HWTS_BEGIN);
}

/* All rows lie in one page, so each index costs the same. */
TEST(no_statement_reads_all_timeouts_when_there_are_few)
{
	NEEDS_POSTGRES(); /* which vacuums by itself */
	CLOSING hwt_store *store = fresh_store();
	int64_t ids[2];

	ids[0] = put(store, "a", HWT_S(3600));
	ids[1] = put_key(store, "a", "key", HWT_S(3600));
	vacuum(store);
	check_plans(store, HWTS_BEGIN);
	for (size_t i = 0; i < HWTS_COUNT(ids); i++)
		CHECK_CALL(hwt_store_cancel(store, ids[i]), 0);
	vacuum(store);
	check_plans(store, HWTS_BEGIN);
}

TEST(no_statement_reads_all_timeouts_when_there_are_many)
{
	bool given;

	fresh_world();
	given = is_given();
	CLOSING hwt_store *store = open_store();
	if (!given)
		fill(store, "a", "b");
	else /* if one kind has all shards, a scan without the index is right */
		(void)put(store, "another", HWT_S(3600));
	check_plans(store, HWTS_BEGIN);
	vacuum(store);
	check_plans(store, HWTS_BEGIN);
	check_plans(store, HWTS_TASK); /* the planner's own settings, as on a caller's connection */
}

/*
 * What the statements read
 */

#ifdef HWT_STORE_POSTGRES
/* Reads of sessions are counted once the sessions have ended. */
static bool have_sessions(void)
{
	return query("select count(*) from pg_stat_activity where query like '%%%s%%' and pid <> pg_backend_pid()",
		     world.schema) > 0;
}

/* Entries of the index by due time that sessions have read. */
static int64_t entries_read(int64_t least)
{
	int64_t read = -1;

	WAIT_FOR(!have_sessions() &&
		 (read = query("select idx_tup_read from pg_stat_user_indexes where indexrelname = '%s_due'",
			       world.schema)) >= least);
	return read;
}

/* Rows of the timeouts that were read without an index. */
static int64_t rows_read_in_turn(void)
{
	WAIT_FOR(!have_sessions());
	return query("select seq_tup_read from pg_stat_user_tables where relname = '%s_timeout'", world.schema);
}

static atomic_uint looks;

static void count_look(const char *where)
{
	atomic_fetch_add(&looks, strcmp(where, "looked") == 0);
}

static void look_times(hwt_store *store, unsigned times)
{
	atomic_store(&looks, 0);
	atomic_store(&hwts_test_at, count_look);
	for (unsigned i = 1; i <= times; i++) {
		look_now(store);
		CHECK(wait_count(&looks, i));
	}
	atomic_store(&hwts_test_at, NULL);
}

TEST(a_window_of_many_pages_is_read_once)
{
	NEEDS_POSTGRES(); /* which counts reads */
	hwt_store_kind kind = KIND(.name = "b", .task = count_run, .shards = 1, .horizon_ns = HWT_S(7200));
	hwt_store *store;
	int64_t read = 0;

	store = FRESH(.lease_ns = HWT_S(3600)); /* one look, and what it reads on */
	CHECK_CALL(hwt_store_register(store, &kind), 0);
	fill(store, "b", "b");
	CHECK_CALL(hwt_store_start(store), 0);
	WAIT_FOR(stats_of_store(store).window >= ROWS);
	CHECK_INT(stats_of_store(store).window, ==, ROWS);
	CHECK_CALL(hwt_store_close(store), 0);
	read = entries_read(ROWS);
	CHECK_INT(read, >=, ROWS);
	CHECK_INT(read, <, 2 * ROWS); /* once, and not once more for each of the four pages */
}

#define GONE 3000

/* With an old snapshot deleted rows stay in the index, and each scan that passes them reads them. */
TEST(what_is_gone_is_not_read_by_each_look)
{
	NEEDS_POSTGRES(); /* deleted rows stay in its index */
	hwt_store *store = fresh_store();
	hwt_store_spec *specs = calloc(GONE, sizeof(*specs));
	void *old = connect_user();

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	atomic_store(&hwts_test_look_took, HWT_S(1)); /* as if there were a thousand times as many */
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(user_sql(old, "begin isolation level repeatable read; select 1"));
	for (int i = 0; i < GONE; i++)
		specs[i] = SPEC("a", 0, .flags = HWT_STORE_ABSOLUTE, .due_us = now_us() - INT64_C(3000000000));
	CHECK_CALL(hwt_store_put_many(store, specs, GONE, NULL), 0);
	free(specs);
	CHECK(wait_count(&ran, GONE));
	look_times(store, 20);
	CHECK_CALL(hwt_store_close(store), 0);
	disconnect_user(old);
	atomic_store(&hwts_test_look_took, 0);
	CHECK_INT(entries_read(1), <, 8 * GONE); /* each pass of the sweep reads them, and not each look */
}

#endif

static bool count_one(void *ctx, const hwt_store_info *info)
{
	struct listed {
		size_t count;
		int64_t due_us;
	} *listed = ctx;

	CHECK_INT(info->due_us, >=, listed->due_us);
	listed->due_us = info->due_us;
	listed->count++;
	return true;
}

TEST(a_list_reads_each_row_a_few_times_with_many_shards)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	struct {
		size_t count;
		int64_t due_us;
	} listed = { 0, 0 };
	hwt_store *store;
	int64_t read = 0;

	store = fresh_store();
	kind.name = "a";
	kind.task = count_run;
	kind.shards = 1024;
	CHECK_CALL(hwt_store_register(store, &kind), 0);
	fill(store, "a", "a");
	CHECK_CALL(hwt_store_each(store, "a", 1u << HWT_STORE_PENDING, count_one, &listed), 0);
	CHECK_INT(listed.count, ==, ROWS);
	CHECK_CALL(hwt_store_close(store), 0);
#ifdef HWT_STORE_POSTGRES
	if (!world.sqlite)
		read = entries_read(ROWS);
#endif
	CHECK_INT(read, <, 8 * ROWS);
}

#ifdef HWT_STORE_POSTGRES
/* A process that takes shards need not know their far rows. */
TEST(a_take_of_what_runs_at_most_once_reads_no_far_rows)
{
	NEEDS_POSTGRES(); /* which counts reads */
	hwt_store *store = fresh_store();

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_MOST_ONCE);
	fill(store, "a", "a");
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(entries_read(0), <, ROWS / 2);
}

/* Rounds of ten, each in a transaction of its own. */
static void run_ten(hwt_store *store)
{
	unsigned before = atomic_load(&ran);
	int64_t ids[10];

	for (size_t i = 0; i < HWTS_COUNT(ids); i++)
		ids[i] = put(store, "a", 0);
	CHECK(wait_count(&ran, before + HWTS_COUNT(ids)));
	for (size_t i = 0; i < HWTS_COUNT(ids); i++)
		CHECK(wait_gone(store, ids[i]));
}

/* Rows of a paused group, each of which the sweeps of 100 looks could read. */
TEST(a_backlog_that_waits_is_read_a_few_times)
{
	NEEDS_POSTGRES(); /* which counts reads */
	hwt_store_kind kind = KIND(.name = "b", .task = count_run, .shards = 1);
	hwt_store_which all = HWT_STORE_WHICH_INIT;
	uint64_t n = 0;
	hwt_store *store;

	store = FRESH(.lease_ns = HWT_S(3600));
	CHECK_CALL(hwt_store_register(store, &kind), 0);
	fill(store, "b", "b");
	all.kind = "b";
	all.all = true;
	CHECK_CALL(hwt_store_pause(store, "b", NULL), 0);
	CHECK_CALL(
	    hwt_store_reschedule_ex(store, &all, (hwt_store_when){ .due_us = now_us() - INT64_C(86400000000) }, &n), 0);
	CHECK_INT(n, ==, ROWS);
	CHECK_CALL(hwt_store_start(store), 0);
	WAIT_FOR(stats_of_store(store).window >= ROWS);
	look_times(store, 100);
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(entries_read(ROWS), <, 10 * ROWS);
}

/* The connection of a task plans with its user's settings; the end of the transaction must not read all rows then. */
TEST(the_end_of_a_transaction_is_not_planned_for_a_table_of_few)
{
	NEEDS_POSTGRES(); /* PostgreSQL keeps a plan while the table grows */
	hwt_store *store;

	store = FRESH(.threads = 1); /* one connection */
	register_kind(store, "a", count_run, NULL, HWT_STORE_TRANSACTION);
	CHECK_CALL(hwt_store_start(store), 0);
	run_ten(store);
	vacuum(store);
	run_ten(store);
	fill(store, "b", "c");
	run_ten(store);
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(rows_read_in_turn(), <, ROWS);
}

#endif

STORE_MAIN(NULL)
