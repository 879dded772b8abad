/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Puts by the SQL functions beside those of C.  On PostgreSQL.
 *
 *     sql_late   N puts by a connection of a user's, 200 a second, each due 0.1 to 3 s later: lateness of the starts
 *     sql_far    single puts, due in an hour: sixteen connections that call hwt_put, and hwt_store_put from sixteen
 *                threads.  They take turns of half a second
 *     sql_many   `select hwt_put(...) from` 10,000 rows, and hwt_store_put_many of as many, in turns.  Also with keys
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
	void *user; /* or NULL, and then */
	hwt_store *store;
	pthread_t thread;
	uint64_t puts;
	int64_t end_us;
};

static void put_prepared(void *user)
{
#ifdef HAVE_POSTGRES
	PGresult *result = PQexecPrepared(user, "put", 0, NULL, NULL, NULL, 0);

	check("put", PQresultStatus(result) == PGRES_TUPLES_OK ? 0 : 1);
	PQclear(result);
#else
	(void)user;
#endif
}

static void *put_until(void *arg)
{
	struct putter *putter = arg;
	hwt_store_spec spec = in_an_hour();

	for (putter->puts = 0; clock_us(CLOCK_MONOTONIC) < putter->end_us; putter->puts++) {
		if (putter->user != NULL)
			put_prepared(putter->user);
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

static double median(double *of)
{
	qsort(of, TURNS, sizeof(*of), compare);
	return of[TURNS / 2];
}

/* NAME_sql and NAME_c, a second, and NAME_ratio. */
static void print_pair(const char *name, double *sql, double *c)
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
	static struct putter of_sql[AT_ONCE], of_c[AT_ONCE];
	double sql[TURNS], c[TURNS];
	hwt_store *store = open_store();

	register_kinds(store);
	for (unsigned i = 0; i < AT_ONCE; i++) {
		of_c[i].store = store;
		of_sql[i].user = user_open();
		(void)user_sql(of_sql[i].user,
			       "prepare put as select %s_put('" KIND "', repeat('x', %d), delay => '1 hour')", schema,
			       PAYLOAD);
	}
	for (unsigned i = 0; i < TURNS; i++) {
		sql[i] = take_turn(of_sql);
		c[i] = take_turn(of_c);
	}
	for (unsigned i = 0; i < AT_ONCE; i++)
		user_close(of_sql[i].user);
	print_pair("sql_far", sql, c);
	check("close", hwt_store_close(store));
}

static double rate_of_sql(void *user, const char *key)
{
	int64_t start_us = clock_us(CLOCK_MONOTONIC);
	int64_t put = user_sql(user,
			       "select count(%s_put('" KIND "', repeat('x', %d), delay => '1 hour'%s))"
			       " from generate_series(1, %d) i",
			       schema, PAYLOAD, key, MANY);

	check("put", put == MANY ? 0 : 1);
	return MANY * 1e6 / (double)(clock_us(CLOCK_MONOTONIC) - start_us);
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
		double sql[TURNS], c[TURNS];

		for (unsigned i = 0; i < TURNS; i++) {
			char key[64] = "";

			if (with_key)
				snprintf(key, sizeof(key), ", key => '%lld ' || i",
					 (long long)clock_us(CLOCK_REALTIME));
			sql[i] = rate_of_sql(user, key);
			c[i] = rate_of_c(store, with_key);
		}
		print_pair(with_key ? "sql_many_keys" : "sql_many", sql, c);
	}
	user_close(user);
	check("close", hwt_store_close(store));
}
