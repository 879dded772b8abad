/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The databases of store_differs.c: SQLite, PostgreSQL, and the tables of the simulation.
 *
 * All of them show the time of the script.  For SQLite the clock_gettime() of this file replaces the C library's; for
 * PostgreSQL a function hides its clock_timestamp(), by the search_path; the simulation has sim_now().
 */
#ifndef HWT_TEST_DIFFERS_SIDES_H
#define HWT_TEST_DIFFERS_SIDES_H

#include "differs_script.h"
#include "sim/statements.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef HWT_STORE_SQLITE
#include "db/sqlite.h"
#endif
#ifdef HWT_STORE_POSTGRES
#include "db/postgres.h"
#endif

/* Sorted lines: the rows of an answer, or of all tables. */
struct lines {
	char *line[2048];
	size_t n;
};

static void add_line(struct lines *lines, const char *text)
{
	REQUIRE(lines->n < HWTS_COUNT(lines->line));
	lines->line[lines->n++] = strdup(text);
}

static int by_text(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

static void sort_lines(struct lines *lines)
{
	qsort(lines->line, lines->n, sizeof(lines->line[0]), by_text);
}

static void free_lines(struct lines *lines)
{
	while (lines->n > 0)
		free(lines->line[--lines->n]);
}

static size_t write_hex(char *to, const void *bytes, size_t len)
{
	if (!bytes)
		return (size_t)sprintf(to, "~");
	for (size_t i = 0; i < len; i++)
		(void)sprintf(to + 2 * i, "%02x", ((const unsigned char *)bytes)[i]);
	to[2 * len] = '\0';
	return 2 * len;
}

struct side {
	const char *name;
	hwt_store *store; /* NULL: this side is the simulation */
	struct hwts_conn *conns[2];
	bool is_open[2], is_saved[2];
	char snapshot[1024];
};

/* The columns that are compared: tables.h. */
struct column {
	const char *name, *type, *null;
	int at;
};

#define NUMBER(at, type, name, null) { #name, #type, #null, at },
#define TEXT(at, type, name) { #name, #type, "", at },
static const struct table_columns {
	const char *name;
	enum table table;
	struct column columns[32];
} tables[] = {
	{ "meta", META, { SIM_META(NUMBER, TEXT) } },    { "kind", KIND, { SIM_KIND(NUMBER, TEXT) } },
	{ "shard", SHARD, { SIM_SHARD(NUMBER, TEXT) } }, { "member", MEMBER, { SIM_MEMBER(NUMBER, TEXT) } },
	{ "group", RULES, { SIM_RULES(NUMBER, TEXT) } }, { "timeout", TIMEOUT, { SIM_TIMEOUT(NUMBER, TEXT) } },
};
#undef NUMBER
#undef TEXT

/*
 * Databases
 */

#ifdef HWT_STORE_POSTGRES
static void pg_text(const struct side *side, unsigned conn, const char *text, struct lines *rows)
{
	PGresult *result = PQexec(pg_conn(side->conns[conn])->handle, text);
	ExecStatusType status = PQresultStatus(result);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		fprintf(stderr, "    %s: %s\n", text, PQresultErrorMessage(result));
	REQUIRE(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK);
	for (int i = 0; i < PQntuples(result) && rows; i++)
		add_line(rows, PQgetvalue(result, i, 0));
	PQclear(result);
}
#endif

#ifdef HWT_STORE_SQLITE
static int add_row(void *rows, int columns, char **values, char **names)
{
	(void)columns;
	(void)names;
	if (rows)
		add_line(rows, values[0]);
	return 0;
}
#endif

static bool is_of_sqlite(const struct side *side)
{
	return strcmp(side->name, "sqlite") == 0;
}

/* Executes a statement of the test.  rows: gets the first column of each row. */
static void text_on(const struct side *side, unsigned conn, const char *text, struct lines *rows)
{
#ifdef HWT_STORE_SQLITE
	if (is_of_sqlite(side)) {
		int rc = sqlite3_exec(sqlite_conn(side->conns[conn])->handle, text, add_row, rows, NULL);

		if (rc != SQLITE_OK)
			fprintf(stderr, "    %s: %s\n", text, sqlite3_errmsg(sqlite_conn(side->conns[conn])->handle));
		REQUIRE(rc == SQLITE_OK);
		return;
	}
#endif
#ifdef HWT_STORE_POSTGRES
	pg_text(side, conn, text, rows);
#endif
}

static void dump_text(const struct side *side, char *text, size_t size)
{
	const char *prefix = side->store->db->prefix;
	bool lite = is_of_sqlite(side);
	size_t at = 0;

#define ADD(...) at += (size_t)snprintf(text + at, size - at, __VA_ARGS__)
	for (size_t i = 0; i < HWTS_COUNT(tables); i++) {
		ADD("%sselect '%s'", i ? " union all " : "", tables[i].name);
		for (const struct column *column = tables[i].columns; column->name; column++) {
			const char *is = column->name;

			ADD(" || ' %s=' || coalesce(", column->name);
			if (*column->type == 'n')
				ADD("cast(%s as text), '~')", is);
			else if (*column->type == 'b')
				ADD("cast(cast(%s as int) as text), '~')", is);
			else if (*column->type == 'l')
				ADD(lite ? "trim(%s, ','), '~')" : "array_to_string(%s, ','), '~')", is);
			else if (lite)
				ADD("case when %s is null then null else lower(hex(cast(%s as blob))) end, '~')", is,
				    is);
			else
				ADD(*column->type == 'k' ? "encode(%s, 'hex'), '~')"
							 : "encode(convert_to(%s, 'UTF8'), 'hex'), '~')",
				    is);
		}
		ADD(" from %s_%s", prefix, tables[i].name);
	}
#undef ADD
	REQUIRE(at < size);
}

static void dump_database(const struct side *side, unsigned conn, struct lines *rows)
{
	static char text[1 << 14];

	dump_text(side, text, sizeof(text));
	text_on(side, conn, is_of_sqlite(side) ? text : "execute dump", rows);
}

static void prepare_dump(const struct side *side, unsigned conn)
{
	static char text[1 << 14] = "prepare dump as ";

	dump_text(side, text + strlen("prepare dump as "), sizeof(text) - strlen("prepare dump as "));
	text_on(side, conn, text, NULL);
}

static void reset_database(const struct side *side)
{
	static const char *const emptied[] = { "kind", "shard", "member", "group", "timeout", "hint" };
	char text[256];

	for (size_t i = 0; i < HWTS_COUNT(emptied) - !is_of_sqlite(side); i++) {
		(void)snprintf(text, sizeof(text), "delete from %s_%s", side->store->db->prefix, emptied[i]);
		text_on(side, 0, text, NULL);
	}
	(void)snprintf(text, sizeof(text), "update %s_meta set next_number = 1, store = 'the store'",
		       side->store->db->prefix);
	text_on(side, 0, text, NULL);
}

/*
 * The simulation
 */

static struct tx *sim_txs[2];
static struct savepoint sim_saved[2];
static int64_t sim_passed_ns, sim_waited_ns;

int64_t sim_now(void)
{
	return sim_passed_ns + sim_waited_ns;
}

/* Never waits: the other connection ends no transaction meanwhile. */
bool sim_wait(const char *where, const void *on, int64_t until_ns)
{
	(void)where;
	(void)on;
	sim_waited_ns = HWTS_MAX(until_ns - sim_passed_ns, sim_waited_ns);
	return false;
}

void sim_sleep(int64_t ns)
{
	(void)ns;
}

int64_t sim_some_time(int64_t max_ns)
{
	return max_ns;
}

void sim_wake_all(const void *on)
{
	(void)on;
}

_Noreturn void sim_fail(const char *file, int line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "%s:%d: ", file, line);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	exit(1);
}

/* The differential test judges nothing. */
void sim_judge_gone(const struct version *version, bool again)
{
	(void)version;
	(void)again;
}

void sim_judge_lost(const struct version *version)
{
	(void)version;
}

void sim_judge_made(const struct version *version)
{
	(void)version;
}

void sim_judge_left(const struct version *version)
{
	(void)version;
}

void sim_judge_begin(struct act *act, const struct version *t, const struct version *before)
{
	(void)act;
	(void)t;
	(void)before;
}

void sim_judge_order(struct act *act, const struct version *begun)
{
	(void)act;
	(void)begun;
}

void sim_note_rules(int64_t kind, const struct hwts_value *group)
{
	(void)kind;
	(void)group;
}

bool sim_is_poisoned(const struct row *row, bool ends)
{
	(void)row;
	(void)ends;
	return false;
}

bool sim_is_unreadable(const struct version *t)
{
	(void)t;
	return false;
}

void sim_send_news(struct news *news)
{
	for (struct news *next; news; news = next) {
		next = news->next;
		free(news);
	}
}

static void write_sim_cell(char *to, const struct column *column, const struct version *t)
{
	const char null = *column->null;
	int64_t number = t->n[column->at];
	const struct text *text = t->s[column->at];
	size_t at = 0;

	if (strchr("tk", *column->type)) {
		(void)write_hex(to, text ? text->bytes : NULL, text ? text->len : 0);
	} else if (*column->type == 'l') {
		for (size_t i = 0; text && i < text->len / sizeof(number); i++) {
			memcpy(&number, text->bytes + i * sizeof(number), sizeof(number));
			at += (size_t)sprintf(to + at, "%s%" PRId64, i ? "," : "", number);
		}
		to[at] = '\0';
	} else if ((null == '0' && number == 0) || (null == '-' && number == -1) || (null == 'N' && !t->n[NEXT_BASE]) ||
		   (null == 'L' && !t->n[RULES_LIMITED])) {
		(void)strcpy(to, "~");
	} else {
		(void)sprintf(to, "%" PRId64, number);
	}
}

static void dump_simulation(unsigned conn, struct lines *rows)
{
	struct act act = { .tx = sim_txs[conn], .sees = sim_server.commits };
	char line[8192];

	for (size_t i = 0; i < HWTS_COUNT(tables); i++)
		EACH_SEEN (&act, tables[i].table, t) {
			size_t at = (size_t)sprintf(line, "%s", tables[i].name);

			for (const struct column *column = tables[i].columns; column->name; column++) {
				at += (size_t)sprintf(line + at, " %s=", column->name);
				write_sim_cell(line + at, column, t);
				at += strlen(line + at);
			}
			add_line(rows, line);
		}
}

static struct version *insert_in_simulation(struct act *act, enum table table)
{
	return sim_insert(act, table);
}

/* An hour later no transaction needs the old versions. */
static void reset_simulation(void)
{
	struct act act = { .tx = sim_begin_tx(0) };
	struct version *meta;

	for (int table = 0; table < TABLES; table++)
		EACH_ROW(table, row)
	if (sim_see_last(&act, row))
		sim_remove(&act, row);
	sim_commit_tx(act.tx);
	sim_passed_ns += HWT_S(3600);
	sim_settle();
	act = (struct act){ .tx = sim_begin_tx(0) };
	meta = insert_in_simulation(&act, META);
	meta->n[META_NEXT] = 1;
	sim_set_text(meta, META_STORE, "the store", 9);
	for (int i = 0; i <= ADVISORY_LOCKS; i++)
		insert_in_simulation(&act, ADVISORY)->n[0] = i;
	sim_commit_tx(act.tx);
}

static int run_on_simulation(unsigned conn, const struct hwts_step *step, bool stays_open)
{
	struct output output = { .end = &output.first };
	int64_t took_ns = 0;
	int rc;

	if (!sim_txs[conn])
		sim_txs[conn] = sim_begin_tx(1);
	rc = sim_execute(sim_txs[conn], step, &output, &took_ns);
	(void)sim_hand_out(&output, rc == 0);
	if (rc == 0 && stays_open)
		return 0;
	if (rc == 0)
		sim_commit_tx(sim_txs[conn]);
	else
		sim_abort_tx(sim_txs[conn]);
	sim_txs[conn] = NULL;
	return rc;
}

static void end_on_simulation(unsigned conn, bool commits)
{
	if (commits)
		sim_commit_tx(sim_txs[conn]);
	else
		sim_abort_tx(sim_txs[conn]);
	sim_txs[conn] = NULL;
}

/*
 * Time
 */

static int64_t shown_us; /* 0: the real time */

int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (shown_us == 0 || clock == CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, clock, now);
	*now = (struct timespec){ shown_us / 1000000, shown_us % 1000000 * 1000 };
	return 0;
}

static void set_clock(const struct side *side, unsigned conn, int64_t us)
{
	char text[128];

	if (!side->store) {
		sim_waited_ns = 0;
		sim_server.clock_ns = us * 1000 - sim_passed_ns;
	} else if (is_of_sqlite(side)) {
		shown_us = us;
	} else {
		(void)snprintf(text, sizeof(text), "select set_config('hwt_test.now', '%" PRId64 "', false)", us);
		text_on(side, conn, text, NULL);
	}
}

#endif
