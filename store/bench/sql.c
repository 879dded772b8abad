/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Puts by the SQL functions beside those of C.  On PostgreSQL.
 *
 *     sql_late   N puts by a connection of a user's, 200 a second, each due 0.1 to 3 s later: lateness of the starts
 *     sql_far    due in an hour: sixteen connections that call hwt_put, as many that call hwt_put_many for ten, and
 *                hwt_store_put from sixteen threads.  They take turns of half a second
 *     sql_many   `select hwt_put(...) from` 10,000 rows, `select hwt_put_many(array_agg(...)) from` as many, and
 *                hwt_store_put_many of as many, in turns.  Also with keys
 *
 * Ratios are medians of those of the turns, so that a noisy minute strikes both alike.
 */
#include "common.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_POSTGRES
#include <libpq-fe.h>
#endif

#define SQL_RATE 200
#define TURNS 9
#define TURN_US 500000
#define AT_ONCE 16
#define MANY 10000
#define FEW 10

static void sql_putter(void)
{
	void *user = user_open();
	int64_t bytes;

	while (atomic_load(&shared->ready) == 0)
		sleep_us(1000);
	for (unsigned number = 0; number < n; number++) {
		sleep_us(atomic_load(&shared->started_us) + (int64_t)number * 1000000 / SQL_RATE -
			 clock_us(CLOCK_REALTIME));
		shared->due_us[number] = clock_us(CLOCK_REALTIME) + 100000 + (int64_t)number * 7919 % 2900000;
		bytes = user_sql(user,
				 "select %s_put('" KIND "', bytes => '\\x%02x%02x%02x%02x' || repeat('00', %d)::bytea,"
				 " at => to_timestamp(%lld) + %lld * interval '1 us')",
				 schema, number & 255, number >> 8 & 255, number >> 16 & 255, number >> 24, PAYLOAD - 4,
				 (long long)(shared->due_us[number] / 1000000),
				 (long long)(shared->due_us[number] % 1000000));
		check("put", bytes > 0 ? 0 : 1);
	}
	user_close(user);
}

void sql_late(void)
{
	run_what_is_put("sql_late", sql_putter);
}

struct putter {
	void *user;            /* or NULL, and then by the store */
	const char *statement; /* of the user: a prepared one, which puts */
	unsigned each;         /* so many at a time */
	hwt_store *store;
	pthread_t thread;
	uint64_t puts;
	int64_t end_us;
};

static void put_prepared(const struct putter *putter)
{
#ifdef HAVE_POSTGRES
	PGresult *result = PQexecPrepared(putter->user, putter->statement, 0, NULL, NULL, NULL, 0);

	check("put", PQresultStatus(result) == PGRES_TUPLES_OK ? 0 : 1);
	PQclear(result);
#else
	(void)putter;
#endif
}

static void *put_until(void *arg)
{
	struct putter *putter = arg;
	hwt_store_spec spec = in_an_hour();

	for (putter->puts = 0; clock_us(CLOCK_MONOTONIC) < putter->end_us; putter->puts += putter->each) {
		if (putter->user != NULL)
			put_prepared(putter);
		else
			check("put", hwt_store_put(putter->store, &spec, NULL));
	}
	return NULL;
}

/* Puts a second of all of them. */
static double take_turn(struct putter *putters)
{
	int64_t start_us = clock_us(CLOCK_MONOTONIC);
	double puts = 0;

	for (unsigned i = 0; i < AT_ONCE; i++) {
		putters[i].end_us = start_us + TURN_US;
		check("thread", pthread_create(&putters[i].thread, NULL, put_until, &putters[i]));
	}
	for (unsigned i = 0; i < AT_ONCE; i++) {
		pthread_join(putters[i].thread, NULL);
		puts += (double)putters[i].puts;
	}
	return puts * 1e6 / (double)(clock_us(CLOCK_MONOTONIC) - start_us);
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static double median(const double *of)
{
	double sorted[TURNS];

	memcpy(sorted, of, sizeof(sorted));
	qsort(sorted, TURNS, sizeof(*sorted), compare);
	return sorted[TURNS / 2];
}

/* NAME_sql and NAME_c, a second, and NAME_ratio. */
static void print_pair(const char *name, const double *sql, const double *c)
{
	double ratio[TURNS];
	char figure[64];

	for (unsigned i = 0; i < TURNS; i++)
		ratio[i] = sql[i] / c[i];
	snprintf(figure, sizeof(figure), "%s_sql", name);
	print_figure(figure, "1/s", median(sql));
	snprintf(figure, sizeof(figure), "%s_c", name);
	print_figure(figure, "1/s", median(c));
	snprintf(figure, sizeof(figure), "%s_ratio", name);
	print_figure(figure, "ratio", median(ratio));
}

void sql_far(void)
{
	static struct putter of_sql[AT_ONCE], of_arrays[AT_ONCE], of_c[AT_ONCE];
	double sql[TURNS], arrays[TURNS], c[TURNS];
	hwt_store *store = open_store();

	register_kinds(store);
	for (unsigned i = 0; i < AT_ONCE; i++) {
		void *user = user_open();

		(void)user_sql(user, "prepare one as select %s_put('" KIND "', repeat('x', %d), delay => '1 hour')",
			       schema, PAYLOAD);
		(void)user_sql(user,
			       "prepare few as select %s_put_many('" KIND "', array_fill(repeat('x', %d), array[%d]),"
			       " delay => '1 hour')",
			       schema, PAYLOAD, FEW);
		of_sql[i] = (struct putter){ .user = user, .statement = "one", .each = 1 };
		of_arrays[i] = (struct putter){ .user = user, .statement = "few", .each = FEW };
		of_c[i] = (struct putter){ .store = store, .each = 1 };
	}
	for (unsigned i = 0; i < TURNS; i++) {
		sql[i] = take_turn(of_sql);
		arrays[i] = take_turn(of_arrays);
		c[i] = take_turn(of_c);
	}
	for (unsigned i = 0; i < AT_ONCE; i++)
		user_close(of_sql[i].user);
	print_pair("sql_far", sql, c);
	print_pair("sql_far_arrays", arrays, c);
	check("close", hwt_store_close(store));
}

/* The statement returns how many it has put. */
static double rate_of_sql(void *user, const char *text)
{
	int64_t start_us = clock_us(CLOCK_MONOTONIC);

	check("put", user_sql(user, "%s from generate_series(1, %d) i", text, MANY) == MANY ? 0 : 1);
	return MANY * 1e6 / (double)(clock_us(CLOCK_MONOTONIC) - start_us);
}

static double rate_of_calls(void *user, const char *key)
{
	char text[256];

	snprintf(text, sizeof(text), "select count(%s_put('" KIND "', repeat('x', %d), delay => '1 hour'%s%s))", schema,
		 PAYLOAD, *key ? ", key => " : "", key);
	return rate_of_sql(user, text);
}

static double rate_of_arrays(void *user, const char *key)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "select cardinality(%s_put_many('" KIND "', array_agg(repeat('x', %d)), delay => '1 hour'%s%s%s))",
		 schema, PAYLOAD, *key ? ", key => array_agg(" : "", key, *key ? ")" : "");
	return rate_of_sql(user, text);
}

static double rate_of_c(hwt_store *store, bool with_key)
{
	static hwt_store_spec specs[MANY];
	static char keys[MANY][40];
	int64_t start_us = clock_us(CLOCK_REALTIME);

	for (unsigned i = 0; i < MANY; i++) {
		specs[i] = in_an_hour();
		snprintf(keys[i], sizeof(keys[i]), "%lld %u", (long long)start_us, i);
		specs[i].key = with_key ? keys[i] : NULL;
	}
	start_us = clock_us(CLOCK_MONOTONIC);
	check("put_many", hwt_store_put_many(store, specs, MANY, NULL));
	return MANY * 1e6 / (double)(clock_us(CLOCK_MONOTONIC) - start_us);
}

void sql_many(void)
{
	hwt_store *store = open_store();
	void *user = user_open();

	register_kinds(store);
	for (int with_key = 0; with_key < 2; with_key++) {
		double calls[TURNS], arrays[TURNS], c[TURNS];

		for (unsigned i = 0; i < TURNS; i++) {
			char key[64] = "";

			if (with_key)
				snprintf(key, sizeof(key), "'%lld ' || i", (long long)clock_us(CLOCK_REALTIME));
			calls[i] = rate_of_calls(user, key);
			if (with_key)
				snprintf(key, sizeof(key), "'%lld ' || i", (long long)clock_us(CLOCK_REALTIME));
			arrays[i] = rate_of_arrays(user, key);
			c[i] = rate_of_c(store, with_key);
		}
		print_pair(with_key ? "sql_many_keys" : "sql_many", calls, c);
		print_pair(with_key ? "sql_arrays_keys" : "sql_arrays", arrays, c);
	}
	user_close(user);
	check("close", hwt_store_close(store));
}
