/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A store's life: open and close.
 */
#define _GNU_SOURCE
#include "ahead/ahead.h"
#include "runs/pulled.h"
#include "runs/begun.h"
#include "runs/poll.h"
#include "share/share.h"
#include "store/ability.h"
#include "store/asks.h"
#include "store/clock.h"
#include "store/ends.h"
#include "store/commit.h"
#include "store/kind.h"
#include "store/numbers.h"
#include "store/conns.h"
#include "store/run.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

#include <stdio.h>
#include <unistd.h>

#define THREADS 4
#define BATCH 500
#define LEASE_NS HWT_S(6)
#define TICK_NS HWT_MS(1)

/* The parts of a store that are named like their structures.  MEMBER and POINTER are applied to each. */
#define PARTS(part)                                                                                                    \
	part(life) part(conns) part(numbers) part(asks) part(clock) part(ability) part(shards) part(share)             \
	    part(window) part(runs) part(poll) part(pulled) part(ends) part(reading) part(tally)
#define MEMBER(name) struct hwts_##name name;
#define POINTER(name) store->name = &whole->name;

struct whole {
	hwt_store store;
	struct hwts_commit puts, cancels;
	struct hwts_threads threads[HWTS_ROLES];
	PARTS(MEMBER)
};

static int read_config(hwt_store_config *out, const hwt_store_config *config)
{
	int rc = 0;

	*out = (hwt_store_config){ .size = sizeof(*out) };
	if (config)
		rc = hwts_given("hwt_store_config", config, offsetof(hwt_store_config, ended), out, sizeof(*out));
	if (rc != 0)
		return rc;
	out->threads = out->threads ? out->threads : THREADS;
	out->batch = out->batch ? out->batch : BATCH;
	out->lease_ns = out->lease_ns ? out->lease_ns : LEASE_NS;
	out->tick_ns = out->tick_ns ? out->tick_ns : TICK_NS;
	out->schema = out->schema ? out->schema : "hwt";
	for (size_t i = 0; i < HWTS_COUNT(out->reserved); i++)
		if (out->reserved[i])
			return hwts_fail(ENOTSUP, "hwt_store_config.reserved must be 0");
	if (out->threads > 1024 || out->batch > 10000)
		return hwts_fail(EINVAL, "threads is at most 1024, batch at most 10000");
	if (out->lease_ns < HWT_S(1) || out->lease_ns > HWT_S(3600))
		return hwts_fail(EINVAL, "lease_ns is between 1 s and an hour");
	if (out->tick_ns < HWT_MS(1) || out->tick_ns > HWT_S(1))
		return hwts_fail(EINVAL, "tick_ns is between 1 ms and 1 s");
	if (strlen(out->schema) < 1 || strlen(out->schema) > 24 ||
	    strspn(out->schema, "abcdefghijklmnopqrstuvwxyz_") != strlen(out->schema))
		return hwts_fail(EINVAL, "schema is 1 to 24 of a to z and _");
	if (out->name && (out->name[0] == '\0' || strlen(out->name) > HWTS_MEMBER_MAX ||
			  !hwts_is_utf8(out->name, strlen(out->name))))
		return hwts_fail(EINVAL, "name has 1 to %d bytes of UTF-8", HWTS_MEMBER_MAX);
	return 0;
}

static int choose_engine(const char *url, const struct hwts_engine **engine)
{
	*engine = NULL;
	if (!url)
		return hwts_fail(EINVAL, "the url is NULL");
	if (strncmp(url, "sqlite:", 7) == 0) {
#ifdef HWT_STORE_SQLITE
		*engine = &hwts_sqlite;
#endif
	} else if (strncmp(url, "postgresql://", 13) == 0 || strncmp(url, "postgres://", 11) == 0 ||
		   strncmp(url, "pg:", 3) == 0) {
#ifdef HWT_STORE_POSTGRES
		*engine = &hwts_postgres;
#endif
	} else {
		/* The url is not in the text: it may have a password. */
		return hwts_fail(EINVAL,
				 "this is no url of a store: sqlite:PATH, postgresql://... or pg:key=value ... are");
	}
	return *engine ? 0
		       : hwts_fail(ENOTSUP, "this library was built without the engine of %.*s urls",
				   (int)strcspn(url, ":"), url);
}

/* Makes a name that no other process has. */
static void name_process(struct hwts_db *db)
{
	char host[64] = "localhost", made[HWTS_MEMBER_MAX + 1];

	(void)gethostname(host, sizeof(host) - 1);
	(void)snprintf(made, sizeof(made), "%s:%ld:%08x", host, (long)getpid(), (unsigned)hwts_random());
	hwts_set_me(db, made);
	db->incarnation = hwts_share_incarnation();
}

static void destroy(hwt_store *store)
{
	hwts_numbers_close(store);
	hwts_conns_close(store);
	hwts_kinds_free(store);
	if (store->db)
		store->engine->close(store->db);
	hwts_poll_destroy(store);
	pthread_mutex_destroy(&store->life->lock);
	hwts_threads_destroy(store);
	hwts_commit_destroy(store->puts);
	hwts_commit_destroy(store->cancels);
	free(store->url);
	free(store);
}

static hwt_store *make(const hwt_store_config *config)
{
	struct whole *whole = hwts_alloc(sizeof(*whole));
	hwt_store *store;

	if (!whole)
		return NULL;
	store = &whole->store;
	PARTS(POINTER)
	store->puts = &whole->puts;
	store->cancels = &whole->cancels;
	store->threads = whole->threads;
	store->config = *config;
	store->config.name = store->config.schema = NULL; /* they belong to the caller */
	store->pid = getpid();
	hwts_commit_init(store->puts, hwts_commit_puts);
	hwts_commit_init(store->cancels, hwts_commit_cancels);
	whole->ends.end = &whole->ends.first;
	hwts_asks_init(store);
	hwts_poll_init(store);
	pthread_mutex_init(&store->life->lock, NULL);
	hwts_conns_init(store->conns);
	hwts_threads_init(store);
	hwts_numbers_init(store->numbers);
	return store;
}

static int open_db(hwt_store *store, const hwt_store_config *config)
{
	struct hwts_conn *conn;
	struct hwts_store_row is = { .kind = 0 };
	int rc = store->engine->open(store->url, &store->db);

	if (rc != 0)
		return rc;
	store->db->engine = store->engine;
	store->db->url = store->url;
	store->db->lease_us = config->lease_ns / 1000;
	hwts_cut(store->db->prefix, sizeof(store->db->prefix), config->schema, strlen(config->schema));
	name_process(store->db);
	hwts_share_name(store, config->name);
	rc = store->engine->connect(store->db, HWTS_CALL, &conn);
	if (rc != 0)
		return rc;
	rc = store->engine->prepare(conn);
	if (rc == 0 && store->db->notice[0])
		hwts_warn(store, "%s", store->db->notice);
	if (rc == 0)
		rc = hwts_rows_store(conn, NULL, &is);
	hwts_cut(store->db->store, sizeof(store->db->store), is.text, strlen(is.text));
	(void)snprintf(store->db->channel, sizeof(store->db->channel), "%s_%.16s_", store->db->prefix,
		       store->db->store);
	if (rc == 0)
		hwts_numbers_open(store, conn);
	return hwts_conns_put(store, conn, rc);
}

static int open_store(hwt_store **out, const char *url, const hwt_store_config *wish)
{
	hwt_store_config config;
	const struct hwts_engine *engine;
	hwt_store *store;
	int rc = choose_engine(url, &engine);

	if (rc == 0)
		rc = read_config(&config, wish);
	if (rc != 0)
		return rc;
	store = make(&config);
	if (!store)
		return ENOMEM;
	store->engine = engine;
	store->url = hwts_copy(url);
	rc = store->url ? open_db(store, &config) : ENOMEM;
	if (rc == 0)
		*out = store;
	else
		destroy(store);
	return rc;
}

int hwt_store_open(hwt_store **out, const char *url, const hwt_store_config *wish, char *error, size_t error_len)
{
	struct hwts_call call = hwts_enter();
	int rc = out ? open_store(out, url, wish) : hwts_fail(EINVAL, "the pointer to the store is NULL");

	if (rc != 0 && error && error_len > 0)
		hwts_cut(error, error_len, hwts_fail_text(), strlen(hwts_fail_text()));
	return hwts_leave(call, rc);
}

int hwt_store_close(hwt_store *store)
{
	struct hwts_call call = hwts_enter();
	int rc = hwts_check_store(store);

	if (rc != 0)
		return hwts_leave(call, rc);
	if (hwts_in_task_of(store))
		return hwts_leave(call, hwts_fail(EDEADLK, "a task cannot close its own store"));
	if (hwt_store_stop(store) == EBUSY) {
		hwts_pulled_drop(store);
		(void)hwt_store_stop(store);
	}
	destroy(store);
	return hwts_leave(call, 0);
}
