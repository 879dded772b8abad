/* SPDX-License-Identifier: BSD-2-Clause */
/*
 *     cliff_calls    -t threads of one process make each call for -T seconds: calls a second, how often EAGAIN was the
 *                    answer, and how long the slowest took.  What was put and not cancelled must be there in the end
 */
#include "common.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY 100u

struct caller {
	pthread_t thread;
	uint64_t done, again;
	int64_t longest_us;
};

static hwt_store *store;
static int64_t *ids, until_us;
static atomic_uint next; /* of the ids, and of the keys */
static int (*call)(unsigned number);

static int put(unsigned number)
{
	hwt_store_spec spec = in_an_hour();

	(void)number;
	return hwt_store_put(store, &spec, NULL);
}

static int put_key(unsigned number)
{
	hwt_store_spec spec = in_an_hour();
	char key[16];

	snprintf(key, sizeof(key), "key%u", number);
	spec.key = key;
	return hwt_store_put(store, &spec, NULL);
}

static int put_many(unsigned number)
{
	hwt_store_spec specs[MANY];

	(void)number;
	for (unsigned i = 0; i < MANY; i++)
		specs[i] = in_an_hour();
	return hwt_store_put_many(store, specs, MANY, NULL);
}

static int get(unsigned number)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;

	return hwt_store_get(store, ids[number % n], &info);
}

static int reschedule(unsigned number)
{
	return hwt_store_reschedule(store, ids[number % n], HWT_S(7200));
}

/* Each once. */
static int cancel(unsigned number)
{
	return number < n ? hwt_store_cancel(store, ids[number]) : ECANCELED;
}

static void *make_calls(void *arg)
{
	struct caller *caller = arg;
	int64_t start_us = clock_us(CLOCK_MONOTONIC), end_us;

	for (; start_us < until_us; start_us = end_us) {
		unsigned number = atomic_fetch_add(&next, 1);
		int rc;

		while ((rc = call(number)) == EAGAIN) /* it ends: what is locked is not locked for ever */
			caller->again++;
		end_us = clock_us(CLOCK_MONOTONIC);
		if (rc == ECANCELED)
			break;
		check("a call", rc);
		caller->done++;
		caller->longest_us = end_us - start_us > caller->longest_us ? end_us - start_us : caller->longest_us;
	}
	return NULL;
}

/* How many were answered. */
static uint64_t measure(const char *name, int (*what)(unsigned number))
{
	struct caller *callers = calloc(thread_count, sizeof(*callers));
	int64_t start_us = clock_us(CLOCK_MONOTONIC), longest_us = 0;
	uint64_t done = 0, again = 0;
	char figure[64];

	check("memory", callers != NULL ? 0 : ENOMEM);
	call = what;
	atomic_store(&next, 0);
	until_us = start_us + (seconds > 0 ? seconds : 2) * INT64_C(1000000);
	for (unsigned i = 0; i < thread_count; i++)
		check("thread", pthread_create(&callers[i].thread, NULL, make_calls, &callers[i]));
	for (unsigned i = 0; i < thread_count; i++) {
		pthread_join(callers[i].thread, NULL);
		done += callers[i].done;
		again += callers[i].again;
		longest_us = callers[i].longest_us > longest_us ? callers[i].longest_us : longest_us;
	}
	print_figure(name, "1/s", (double)done * 1e6 / (double)(clock_us(CLOCK_MONOTONIC) - start_us));
	snprintf(figure, sizeof(figure), "%s_eagain", name);
	print_figure(figure, "calls", (double)again);
	snprintf(figure, sizeof(figure), "%s_max", name);
	print_figure(figure, "ms", (double)longest_us / 1e3);
	free(callers);
	return done;
}

static void put_ids(void)
{
	hwt_store_spec specs[BATCH];

	ids = calloc(n, sizeof(*ids));
	check("memory", ids != NULL ? 0 : ENOMEM);
	for (unsigned i = 0; i < BATCH; i++)
		specs[i] = in_an_hour();
	for (unsigned from = 0; from < n; from += BATCH)
		check("put_many", hwt_store_put_many(store, specs, n - from < BATCH ? n - from : BATCH, ids + from));
}

void cliff_calls(void)
{
	void *user;
	int64_t rows;

	store = start_store();
	put_ids();
	rows = n;
	rows += (int64_t)measure("put", put);
	rows += (int64_t)measure("put_key", put_key);
	rows += MANY * (int64_t)measure("put_many", put_many);
	(void)measure("get", get);
	(void)measure("reschedule", reschedule);
	rows -= (int64_t)measure("cancel", cancel);
	check("close", hwt_store_close(store));
	user = user_open();
	if (user_sql(user, "select count(*) from %s_timeout", schema) != rows) {
		fputs("store_bench: not what was put and not cancelled is there\n", stderr);
		exit(1);
	}
	user_close(user);
	free(ids);
}
