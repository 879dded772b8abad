/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each statement on two databases: the same random script runs on both, and after each move the answers and all rows
 * are the same.  One of the databases may be the tables of the simulation, whose statements are written in C.
 *
 * With the simulation and PostgreSQL two connections have transactions at the same time, so that each has locked rows
 * that the other wants.  There is one thread, so a statement that has to wait for a lock fails with EAGAIN; that has to
 * be the same on both.  SQLite has one writer at a time, and so one connection.
 *
 * A script that fails is shortened as long as it fails at the same statement, and shown.
 *
 *   HWT_SEED          the first seed
 *   HWT_SIM_SECONDS   how long random scripts run, instead of those of a gate; make store-sim
 */
#include "store_query.h"

#include "differs_sides.h"
#include "inside.h"

/* Differences that are intended: this number of columns of an answer is compared. */
static const struct difference {
	enum hwts_sql sql;
	bool of_sqlite; /* only with SQLite */
	unsigned columns;
	const char *why;
} differences[] = {
	{ HWTS_SQL_PUT, true, 0, "SQLite answers with each id, PostgreSQL with one row for all" },
	{ HWTS_SQL_PUT_KEYED, true, 1, "SQLite has no returning for it: the time was known before" },
	{ HWTS_SQL_TAKE, true, 4, "PostgreSQL also returns a shard that it has passed by, with the epoch 0" },
	{ HWTS_SQL_SNAPSHOT, false, 0, "numbers of transactions are a server's own" },
};

/* The statement that replaces one that SQLite does not have. */
static enum hwts_sql on_sqlite_as(enum hwts_sql sql)
{
	return sql == HWTS_SQL_BEGIN_UNLOCKED ? HWTS_SQL_BEGIN : sql;
}

/* The simulation removes no kind. */
static bool simulation_has(enum hwts_sql sql)
{
	return sql != HWTS_SQL_KINDS && sql != HWTS_SQL_KIND_ROWS && sql != HWTS_SQL_KIND_REMOVE &&
	       sql != HWTS_SQL_KIND_RULES;
}

/* Statements that only SQLite has belong to puts. */
static bool is_on(const struct side *side, enum hwts_sql sql)
{
	const struct hwts_statement *as = &hwts_statements[on_sqlite_as(sql)];

	if (side->store && is_of_sqlite(side))
		return as->sqlite[0] && !(as->postgres && !as->postgres[0] && as == &hwts_statements[sql]);
	as = &hwts_statements[sql];
	return !(as->postgres && !as->postgres[0]) && (side->store || simulation_has(sql));
}

static bool with_sqlite, was_drawn; /* was_drawn: by random seeds */

static unsigned compared_columns(enum hwts_sql sql)
{
	for (size_t i = 0; i < HWTS_COUNT(differences); i++)
		if (differences[i].sql == sql && (with_sqlite || !differences[i].of_sqlite))
			return differences[i].columns;
	return meanings[sql].columns;
}

/*
 * One move on one database
 */

struct result {
	int rc;
	struct lines answer, rows;
	struct side *side;
	enum hwts_sql sql;
};

static int collect(void *ctx, const struct hwts_value *row)
{
	struct result *result = ctx;
	unsigned columns = compared_columns(result->sql);
	static char line[1 << 16];
	size_t at = 0;

	if (result->sql == HWTS_SQL_SNAPSHOT)
		hwts_cut(result->side->snapshot, sizeof(result->side->snapshot), row->bytes, row->len);
	if (with_sqlite && result->sql == HWTS_SQL_TAKE && row[1].number == 0) /* shard not taken */
		return 0;
	for (unsigned i = 0; i < columns; i++) {
		if (row[i].bytes || (result->sql == HWTS_SQL_GET && i == 14)) /* SQLite returns null for empty data */
			at += write_hex(line + at, row[i].bytes ? row[i].bytes : "", row[i].len);
		else
			at += (size_t)sprintf(line + at, "%" PRId64, row[i].number);
		line[at++] = ' ';
	}
	line[at] = '\0';
	add_line(&result->answer, line);
	return 0;
}

static int run_on_database(struct side *side, unsigned conn, const struct hwts_step *step, bool stays_open)
{
	const struct hwts_engine *engine = side->store->engine;
	int rc = engine->run(side->conns[conn], step, 1, stays_open ? HWTS_OPEN : 0);

	return rc != 0 && stays_open ? engine->finish(side->conns[conn], rc) : rc;
}

/* On SQLite the caller of a put adds the clock; rows_send.c. */
static void add_clock(struct hwts_step *step, int64_t now_us)
{
	bool is_array = hwts_statements[step->sql].types[3] == 'I';
	size_t n = is_array ? step->args[3].len : 1;
	int64_t *times = script_alloc((n + 1) * sizeof(*times));

	for (size_t i = 0; i < n; i++)
		times[i] = number_at(step, 3, i) + (number_at(step, 4, i) ? 0 : now_us);
	if (is_array)
		step->args[3].bytes = times;
	else
		step->args[3].number = times[0];
}

static int run_on_sqlite(struct result *result, const struct move *move, struct hwts_step *step)
{
	bool has_row = false;
	int rc;

	if (is_put(step->sql))
		add_clock(step, move->now_us);
	if (step->sql == HWTS_SQL_CLOSE) {
		step->each = hwts_note_row;
		step->ctx = &has_row;
	}
	step->sql = on_sqlite_as(step->sql);
	rc = run_on_database(result->side, move->conn, step, move->stays_open);
	if (step->sql != HWTS_SQL_CLOSE || rc != 0)
		return rc;
	if (has_row) {
		add_line(&result->answer, "1 ");
		return 0;
	}
	return move->stays_open ? result->side->store->engine->finish(result->side->conns[move->conn], ESTALE) : ESTALE;
}

static int run_statement(struct result *result, const struct move *drawn)
{
	struct move open = *drawn, *move = &open;
	struct hwts_step step = move->step;
	struct side *side = result->side;
	size_t used = script_used;
	int rc;

	result->sql = step.sql;
	for (int i = 0; i < HWTS_ARGS; i++)
		if (step.args[i].bytes == NO_SNAPSHOT)
			step.args[i] = (struct hwts_value)HWTS_TEXT(side->snapshot);
	step.each = meanings[step.sql].columns > 0 ? collect : NULL;
	step.ctx = result;
	/* The move that would have ended the transaction may be left out. */
	open.stays_open |= side->is_open[open.conn];
	if (!side->store)
		rc = run_on_simulation(move->conn, &step, move->stays_open);
	else if (is_of_sqlite(side))
		rc = run_on_sqlite(result, move, &step);
	else
		rc = run_on_database(side, move->conn, &step, move->stays_open);
	/* The statement divides by zero; engine->close_run answers ESTALE. */
	if (step.sql == HWTS_SQL_CLOSE && rc == EIO)
		rc = ESTALE;
	side->is_open[move->conn] = rc == 0 && move->stays_open;
	script_used = used;
	return rc;
}

static int end_transaction(struct side *side, unsigned conn, bool commits)
{
	int rc = 0;

	if (!side->store)
		end_on_simulation(conn, commits);
	else
		rc = side->store->engine->finish(side->conns[conn], commits ? 0 : ECANCELED);
	side->is_open[conn] = false;
	return commits ? rc : 0;
}

static void save(struct side *side, unsigned conn)
{
	if (side->store)
		text_on(side, conn, "savepoint differs", NULL);
	else
		sim_saved[conn] = sim_savepoint(sim_txs[conn]);
	side->is_saved[conn] = true;
}

static void go_back(struct side *side, unsigned conn)
{
	if (side->store)
		text_on(side, conn, "rollback to savepoint differs", NULL);
	else
		sim_roll_back_to(sim_txs[conn], sim_saved[conn]);
}

static void make_move(struct side *side, const struct move *move, struct result *result)
{
	unsigned conn = move->conn;

	*result = (struct result){ .side = side };
	set_clock(side, conn, move->now_us);
	if (!side->is_open[conn])
		side->is_saved[conn] = false;
	if (move->what == DOES)
		result->rc = run_statement(result, move);
	else if (move->what == SAVES && side->is_open[conn])
		save(side, conn);
	else if (move->what == GOES_BACK && side->is_saved[conn])
		go_back(side, conn);
	else if ((move->what == COMMITS || move->what == ROLLS_BACK) && side->is_open[conn])
		result->rc = end_transaction(side, conn, move->what == COMMITS);
	if (side->store)
		dump_database(side, conn, &result->rows);
	else
		dump_simulation(conn, &result->rows);
	sort_lines(&result->answer);
	sort_lines(&result->rows);
}

/*
 * A script on two databases
 */

static struct {
	uint64_t scripts, statements, waits, failures;
	unsigned with[HWTS_SQLS], without[HWTS_SQLS]; /* rows returned; without a result, rows changed */
} counts;

/* A look of SQLite returns rows beyond the mark, or overdue, and never under the epoch that is held. */
static bool is_compared(const struct result *result)
{
	for (size_t i = 0; i < result->answer.n && with_sqlite && result->sql == HWTS_SQL_SWEEP; i++)
		if (result->answer.line[i][0] == '2' || result->answer.line[i][0] == '4')
			return false;
	return true;
}

static bool are_alike(const struct lines *a, const struct lines *b)
{
	for (size_t i = 0; i < HWTS_MIN(a->n, b->n); i++)
		if (strcmp(a->line[i], b->line[i]) != 0)
			return false;
	return a->n == b->n;
}

static void show_lines(const char *name, const struct lines *lines, const struct lines *others)
{
	for (size_t i = 0; i < lines->n; i++) {
		bool is_there = false;

		for (size_t j = 0; j < others->n && !is_there; j++)
			is_there = strcmp(lines->line[i], others->line[j]) == 0;
		if (!is_there)
			fprintf(stderr, "#   %s alone: %s\n", name, lines->line[i]);
	}
	if (lines->n != others->n)
		fprintf(stderr, "#   %s: %zu lines\n", name, lines->n);
}

static void show_move(const struct move *move)
{
	static const char *const names[] = { "", "COMMIT", "ROLLBACK", "SAVEPOINT", "ROLLBACK TO SAVEPOINT" };
	const char *types = hwts_statements[move->step.sql].types;
	char text[2048];

	fprintf(stderr, "#   %u at %+" PRId64 ": %s%s", move->conn, move->now_us - FIRST_US,
		move->what == DOES ? meanings[move->step.sql].name : names[move->what],
		move->stays_open ? " (in a transaction)" : "");
	for (int i = 0; move->what == DOES && types[i]; i++) {
		const struct hwts_value *arg = &move->step.args[i];

		fprintf(stderr, " %c:", types[i]);
		if (strchr("KD", types[i])) {
			for (size_t j = 0; j < arg->len; j++) {
				(void)write_hex(text, ((const struct hwts_value *)arg->bytes)[j].bytes,
						((const struct hwts_value *)arg->bytes)[j].len);
				fprintf(stderr, "%s,", text);
			}
		} else if (types[i] <= 'Z' || types[i] == 'l') {
			for (size_t j = 0; j < arg->len; j++)
				fprintf(stderr, "%" PRId64 ",", ((const int64_t *)arg->bytes)[j]);
		} else if (arg->bytes == NO_SNAPSHOT) {
			fprintf(stderr, "snapshot");
		} else if (strchr("tkd", types[i])) {
			(void)write_hex(text, arg->bytes, arg->len);
			fprintf(stderr, "%s", text);
		} else {
			fprintf(stderr, "%" PRId64, arg->number);
		}
	}
	fprintf(stderr, "\n");
}

static bool compare(const struct result *a, const struct result *b, bool shows)
{
	bool answers = a->rc != 0 || !is_compared(a) || !is_compared(b) || compared_columns(a->sql) == 0 ||
		       are_alike(&a->answer, &b->answer);
	bool rows = are_alike(&a->rows, &b->rows);

	if (shows && a->rc != b->rc)
		fprintf(stderr, "#   %s: %d, %s: %d\n", a->side->name, a->rc, b->side->name, b->rc);
	if (shows && !answers) {
		show_lines(a->side->name, &a->answer, &b->answer);
		show_lines(b->side->name, &b->answer, &a->answer);
	}
	if (shows && !rows) {
		show_lines(a->side->name, &a->rows, &b->rows);
		show_lines(b->side->name, &b->rows, &a->rows);
	}
	return a->rc == b->rc && answers && rows;
}

static void count(const struct move *move, const struct result *result, struct lines *before)
{
	bool found = meanings[move->step.sql].columns > 0 ? result->answer.n > 0 : !are_alike(&result->rows, before);

	counts.statements++;
	counts.waits += result->rc == EAGAIN;
	counts.failures += result->rc != 0 && result->rc != EAGAIN;
	if (result->rc == 0 && found)
		counts.with[move->step.sql]++;
	else
		counts.without[move->step.sql]++;
}

static void reset(struct side *side)
{
	for (unsigned conn = 0; conn < 2; conn++) {
		if (side->is_open[conn])
			(void)end_transaction(side, conn, false);
		side->is_saved[conn] = false;
	}
	(void)strcpy(side->snapshot, "1:1:");
	if (side->store)
		reset_database(side);
	else
		reset_simulation();
}

/* Returns the number of the first move after which the databases differ; MOVES: none. */
static unsigned run_script(struct side *sides, const bool *left_out, bool counts_it, bool shows)
{
	struct lines before = { .n = 0 };
	struct result results[2];
	unsigned at = 0;
	bool alike = true;

	reset(&sides[0]);
	reset(&sides[1]);
	for (; at < moves && alike; at++) {
		if (left_out[at])
			continue;
		if (shows)
			show_move(&script[at]);
		for (int i = 0; i < 2; i++)
			make_move(&sides[i], &script[at], &results[i]);
		alike = compare(&results[0], &results[1], shows);
		if (counts_it && script[at].what == DOES)
			count(&script[at], &results[0], &before);
		free_lines(&before);
		before = results[0].rows;
		free_lines(&results[0].answer);
		free_lines(&results[1].answer);
		free_lines(&results[1].rows);
	}
	free_lines(&before);
	return alike ? MOVES : at - 1;
}

/* Leaves out as many moves as possible, first halves, then single moves. */
static void shrink(struct side *sides, unsigned failed)
{
	bool out[MOVES] = { false }, tried[MOVES];
	enum hwts_sql sql = script[failed].step.sql;

	for (unsigned part = failed; part > 0; part /= 2)
		for (unsigned from = 0; from < failed; from += part) {
			unsigned at;

			memcpy(tried, out, sizeof(tried));
			for (unsigned i = from; i < HWTS_MIN(from + part, failed); i++)
				tried[i] = true;
			at = run_script(sides, tried, false, false);
			if (at < MOVES && script[at].step.sql == sql)
				memcpy(out, tried, sizeof(out));
		}
	(void)run_script(sides, out, false, true);
}

static bool compare_under(uint64_t seed, struct side *sides, unsigned conns)
{
	static const bool none[MOVES];
	bool allowed[HWTS_SQLS];
	unsigned failed;

	for (int i = 0; i < HWTS_SQLS; i++)
		allowed[i] = is_on(&sides[0], (enum hwts_sql)i) && is_on(&sides[1], (enum hwts_sql)i);
	draw_script(seed, allowed, conns);
	counts.scripts++;
	failed = run_script(sides, none, true, false);
	if (failed == MOVES)
		return true;
	fprintf(stderr, "# HWT_SEED=%" PRIu64 ": %s and %s differ after\n", seed, sides[0].name, sides[1].name);
	shrink(sides, failed);
	return false;
}

/*
 * The tests
 */

/* For each test of a fixed run.  Most statements find a row in a few scripts, and all of them in all scripts. */
#define ALL_SCRIPTS (on_sqlite() ? 195U : 35U)
#define SCRIPTS HWTS_MAX(scaled(ALL_SCRIPTS), 8U)
#define LEAST 1 /* how often each statement must have rows; on PostgreSQL once without */

/* Statements that neither return nor change rows: locks, news, and settings of a session. */
static bool is_silent(enum hwts_sql sql)
{
	return meanings[sql].columns == 0 &&
	       (sql == HWTS_SQL_KIND_LOCK || sql == HWTS_SQL_KIND_SHARE || sql == HWTS_SQL_KIND_MAKING ||
		sql == HWTS_SQL_FLUSH || sql == HWTS_SQL_CALL || sql == HWTS_SQL_TELL || sql == HWTS_SQL_TELL_PUT ||
		sql == HWTS_SQL_SHARE || sql == HWTS_SQL_RULES_LOCK || sql == HWTS_SQL_RULES_TELL);
}

/* Only SQLite has it: for puts, whether another process holds the shard. */
static bool is_of_one(enum hwts_sql sql)
{
	return sql == HWTS_SQL_OTHERS;
}

/* Statements that do nothing unless a removed kind has rules or rows: store_kinds.c tests them. */
static bool needs_removal(enum hwts_sql sql)
{
	return sql == HWTS_SQL_KIND_GROUPS || sql == HWTS_SQL_RULES_BACK;
}

/* Statements that always find a row. */
static bool has_always(enum hwts_sql sql)
{
	return sql == HWTS_SQL_CLOCK || sql == HWTS_SQL_SNAPSHOT || sql == HWTS_SQL_STORE ||
	       sql == HWTS_SQL_MEMBERS || sql == HWTS_SQL_PUT || sql == HWTS_SQL_PUT_REPLACE;
}

static void compare_sides(struct side *sides, unsigned conns)
{
	const char *wish = getenv("HWT_SEED"), *seconds = getenv("HWT_SIM_SECONDS");
	int64_t end_ns = hwt_now() + HWT_S(seconds ? strtoll(seconds, NULL, 0) : 0);
	uint64_t seed = wish ? strtoull(wish, NULL, 0) : seconds ? hwts_random() % 1000000000 : 1;
	unsigned failed = 0, most = getenv("HWT_DIFFERS") ? (unsigned)atoi(getenv("HWT_DIFFERS")) : 1;

	counts.scripts = counts.statements = counts.waits = counts.failures = 0;
	with_sqlite = false;
	for (int i = 0; i < 2; i++)
		with_sqlite |= sides[i].store && is_of_sqlite(&sides[i]);
	for (unsigned i = 0; failed < most && (seconds ? hwt_now() < end_ns : i < SCRIPTS / conns); i++)
		failed += !compare_under(seed + i, sides, conns);
	CHECK_INT(failed, ==, 0);
	printf("# %s and %s: %" PRIu64 " scripts from %" PRIu64 " on, %" PRIu64 " statements, %" PRIu64
	       " wait for a lock, %" PRIu64 " fail\n",
	       sides[0].name, sides[1].name, counts.scripts, seed, counts.statements, counts.waits, counts.failures);
	was_drawn |= wish || seconds;
	shown_us = 0;
}

static void connect_side(struct side *side)
{
	for (int i = 0; i < 2; i++)
		CHECK_INT(side->store->engine->connect(side->store->db, HWTS_CALL, &side->conns[i]), ==, 0);
}

static void close_side(struct side *side)
{
	for (unsigned i = 0; i < 2; i++) {
		if (side->is_open[i])
			(void)end_transaction(side, i, false);
		if (side->store)
			side->store->engine->disconnect(side->conns[i]);
	}
	if (side->store)
		CHECK_CALL(hwt_store_close(side->store), 0);
}

#ifdef HWT_STORE_POSTGRES
/* The clock of this side is a function of the same name, which its connections find before the server's. */
static void open_postgres(struct side *side)
{
	static const char clock[] =
	    "create schema if not exists hwt_clock; create or replace function hwt_clock.clock_timestamp() returns"
	    " timestamptz language sql volatile as $$ select case coalesce(current_setting('hwt_test.now', true), '')"
	    " when '' then pg_catalog.clock_timestamp() else timestamptz 'epoch' + current_setting('hwt_test.now',"
	    " true)::bigint * interval '1 microsecond' end $$";
	fresh_world();
	(void)query("set client_min_messages = warning; %s", clock);
	*side = (struct side){ .name = "postgresql", .store = open_store() };
	connect_side(side);
	for (unsigned i = 0; i < 2; i++)
		text_on(side, i,
			"set search_path = public, hwt_clock, pg_catalog; set lock_timeout = 10;"
			" select set_config('hwt_store.synced', 'on', false)",
			NULL);
	for (size_t i = 0; i < HWTS_COUNT(tables); i++) { /* autovacuum would lock them */
		char text[128];

		(void)snprintf(text, sizeof(text), "alter table %s_%s set (autovacuum_enabled = off)",
			       side->store->db->prefix, tables[i].name);
		text_on(side, 0, text, NULL);
	}
	for (unsigned i = 0; i < 2; i++)
		prepare_dump(side, i);
}
#endif

#ifdef HWT_STORE_SQLITE
static void open_sqlite(struct side *side)
{
	fresh_world();
	world.sqlite = true;
	(void)snprintf(world.url, sizeof(world.url), "sqlite:%s/differs.db", world.folder);
	*side = (struct side){ .name = "sqlite", .store = open_store() };
	connect_side(side);
}
#endif

static void open_side(struct side *side)
{
#ifdef HWT_STORE_SQLITE
	if (on_sqlite()) {
		open_sqlite(side);
		return;
	}
#endif
#ifdef HWT_STORE_POSTGRES
	open_postgres(side);
#endif
}

TEST(the_simulation_answers_as_the_database_does)
{
	struct side sides[2] = { { .name = "" }, { .name = "simulation" } };

	open_side(&sides[0]);
	compare_sides(sides, 1);
	close_side(&sides[0]);
	close_side(&sides[1]);
}

TEST(two_connections_wait_for_the_same_rows_in_the_simulation)
{
	struct side sides[2] = { { .name = "" }, { .name = "simulation" } };

	NEEDS_POSTGRES(); /* SQLite has one writer */
	open_side(&sides[0]);
	compare_sides(sides, 2);
	close_side(&sides[0]);
	close_side(&sides[1]);
}

#ifdef HWT_STORE_SQLITE
TEST(both_databases_answer_alike)
{
	struct side sides[2];

	NEEDS_POSTGRES();
	open_side(&sides[0]);
	open_sqlite(&sides[1]);
	compare_sides(sides, 1);
	close_side(&sides[0]);
	close_side(&sides[1]);
}
#endif

/* Judges the tests before this one, by their counts. */
TEST(each_statement_was_compared_with_rows_and_without)
{
	if (was_drawn || SCRIPTS < ALL_SCRIPTS)
		SKIP("other seeds, or few");
	for (enum hwts_sql sql = 0; sql < HWTS_SQLS; sql++) {
		const struct hwts_statement *statement = &hwts_statements[sql];
		unsigned with = counts.with[sql], without = counts.without[sql];
		bool is_both = statement->sqlite[0] && !(statement->postgres && !statement->postgres[0]);

		if (getenv("HWT_DIFFERS"))
			fprintf(stderr, "%s %u:%u, ", meanings[sql].name, with, without);
		if (is_of_one(sql) || needs_removal(sql) || (on_sqlite() && (!is_both || !simulation_has(sql))))
			continue;
		if ((with < LEAST && !is_silent(sql)) || (without < 1 && !has_always(sql) && !on_sqlite())) {
			fprintf(stderr, "    %s: %u times with rows, %u without\n", meanings[sql].name, with, without);
			CHECK(!on_sqlite()); /* PostgreSQL: fewer scripts run */
		}
	}
}

STORE_MAIN(NULL)
