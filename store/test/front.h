/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An engine in front of the real one, which makes one exchange with the database fail.
 *
 *   before   the connection broke before the statement was sent: nothing happened, ENOTCONN
 *   after    the statement was executed, and the connection broke before the reply came: ECONNRESET, and no part of the
 *            reply reaches the store
 *
 * The exchanges of a process are counted; front_arm(n, how) chooses the one that fails.  The front is put into an open
 * store before that is started.
 */
#ifndef HWT_TEST_FRONT_H
#define HWT_TEST_FRONT_H

#include "inside.h"

enum front_how { FRONT_BEFORE = 1, FRONT_AFTER };

static const struct hwts_engine *front_real;
static atomic_uint front_count; /* exchanges so far */
static atomic_uint front_at;    /* number of the exchange that fails; 0: none */
static atomic_uint front_span;  /* how many exchanges fail, one after the other */
static _Atomic(enum front_how) front_how_;
static _Atomic(const char *) front_only;   /* only exchanges of this name count; NULL: all */
static _Atomic(const char *) front_failed; /* the name of the first exchange that failed */
/* The reply to a caller's connection is never lost, as SQLite commits in this process. */
static bool front_callers_know;

/* 0: the exchange passes. */
static enum front_how front_fate(const char *name, bool of_caller)
{
	unsigned number, at = atomic_load(&front_at);
	const char *only = atomic_load(&front_only);

	if (only && strcmp(only, name) != 0)
		return 0;
	number = atomic_fetch_add(&front_count, 1) + 1;
	if (at == 0 || number < at || number >= at + atomic_load(&front_span))
		return 0;
	if (number == at)
		atomic_store(&front_failed, name);
	return of_caller && front_callers_know ? FRONT_BEFORE : atomic_load(&front_how_);
}

static int front_break(struct hwts_conn *conn, enum front_how how)
{
	if (conn)
		conn->broken = true;
	return how == FRONT_BEFORE ? hwts_fail(ENOTCONN, "front: the connection broke before the statement")
				   : hwts_fail(ECONNRESET, "front: the connection broke before the reply");
}

/* The memory to which the reply is written is saved before, and restored. */
#define FRONT(name, of_caller, params, args, size, place)                                                              \
	static int front_##name params                                                                                 \
	{                                                                                                              \
		enum front_how how = front_fate(#name, of_caller);                                                     \
		size_t kept_size = (size);                                                                             \
		void *kept;                                                                                            \
		int rc;                                                                                                \
                                                                                                                       \
		if (how == 0)                                                                                          \
			return front_real->name args;                                                                  \
		if (how == FRONT_BEFORE)                                                                               \
			return front_break(conn, how);                                                                 \
		kept = malloc(kept_size + 1);                                                                          \
		memcpy(kept, (place), kept_size);                                                                      \
		rc = front_real->name args;                                                                            \
		if (rc == 0) {                                                                                         \
			memcpy((void *)(uintptr_t)(place), kept, kept_size);                                           \
			rc = front_break(conn, how);                                                                   \
		}                                                                                                      \
		free(kept);                                                                                            \
		return rc;                                                                                             \
	}
#define FRONT_PLAIN(name, of_caller, params, args) FRONT(name, of_caller, params, args, 0, "")

FRONT_PLAIN(listen, false, (struct hwts_conn * conn, const struct hwts_shard_row *shards, size_t n, bool on),
	    (conn, shards, n, on))

/* A reply reaches the store through the callbacks of its steps, so none is called. */
static int front_run(struct hwts_conn *conn, const struct hwts_step *steps, size_t n, unsigned flags)
{
	enum front_how how = front_fate(hwts_statements[steps[0].sql].name, conn->role == HWTS_CALL);
	struct hwts_step *deaf;
	int rc;

	if (how == 0)
		return front_real->run(conn, steps, n, flags);
	if (how == FRONT_BEFORE)
		return front_break(conn, how);
	deaf = malloc(n * sizeof(*deaf));
	for (size_t i = 0; i < n; i++) {
		deaf[i] = steps[i];
		deaf[i].each = NULL;
	}
	rc = front_real->run(conn, deaf, n, flags);
	free(deaf);
	return rc == 0 ? front_break(conn, how) : rc;
}

static int front_connect(struct hwts_db *db, enum hwts_role role, struct hwts_conn **conn)
{
	return front_fate("connect", false) != 0 ? front_break(NULL, FRONT_BEFORE)
						 : front_real->connect(db, role, conn);
}

/* The transaction is open in the database, and ends with its connection. */
static int front_open_run(struct hwts_conn *conn, void **handle)
{
	enum front_how how = front_fate("open_run", false);
	void *opened = NULL;
	int rc = how == FRONT_BEFORE ? 0 : front_real->open_run(conn, &opened);

	if (rc == 0 && how == 0)
		*handle = opened;
	if (rc != 0 || how == 0)
		return rc;
	if (opened)
		front_real->drop_run(conn);
	return front_break(conn, how);
}

static int front_close_run(struct hwts_conn *conn, const struct hwts_step *steps, size_t n)
{
	enum front_how how = front_fate("close_run", false);
	int rc = 0;

	if (how == FRONT_BEFORE)
		front_real->drop_run(conn); /* as the server does when the connection breaks */
	else
		rc = front_real->close_run(conn, steps, n);
	return how == 0 || rc != 0 ? rc : front_break(conn, FRONT_AFTER);
}

static int front_news(struct hwts_conn *conn, bool signalled, hwts_hear *hear, void *ctx, int64_t *again_ns)
{
	if (signalled && front_fate("news", false) != 0)
		return front_break(conn, FRONT_AFTER);
	return front_real->news(conn, signalled, hear, ctx, again_ns);
}

/* From the n-th exchange on, span exchanges fail; n 0: none. */
static void front_arm(unsigned n, enum front_how how, unsigned span)
{
	atomic_store(&front_count, 0);
	atomic_store(&front_failed, NULL);
	atomic_store(&front_how_, how);
	atomic_store(&front_span, span);
	atomic_store(&front_at, n);
}

static void front_put_before(hwt_store *store)
{
	static struct hwts_engine front;

	front_real = store->engine;
	front_callers_know = strcmp(front_real->name, "sqlite") == 0;
	front = *front_real;
	front.run = front_run;
	front.close_run = front_close_run;
	front.listen = front_listen;
	front.connect = front_connect;
	front.open_run = front_open_run;
	front.news = front_news;
	store->engine = store->db->engine = &front;
}

#endif
