/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections for calls, and how threads report failures; conns.c. */
#ifndef HWTS_CONNS_H
#define HWTS_CONNS_H

#include "rows/engine.h"

/* Errands, whose failures are told once.  Those below HWTS_ROLES are the exchanges of each role. */
enum {
	HWTS_TAKES = HWTS_ROLES, /* balancing shards, after a renewal that succeeded */
	HWTS_ERRANDS
};

struct hwts_told {
	int sorts[4];      /* of the failures that were told, newest first; all 0: the errand works */
	int64_t failed_ns; /* hwt_now() of the last failure */
	int64_t calm_ns;   /* of task threads: for how long none may fail until they work again; 0: the least */
	bool worked;       /* an exchange has worked since */
};

struct hwts_conns {
	pthread_mutex_t lock;
	pthread_cond_t freed;
	struct hwts_conn *idle;
	unsigned idle_count, used_count;
	/* Counts new connections to a server: after a new one, numbers drawn earlier may be drawn again. */
	unsigned connects;
	bool gone; /* the last check found another store, or none: each call makes a new connection, which is checked */
	struct hwts_told told[HWTS_ERRANDS];
};

/*
 * Checks that a connection leads to the store that this process knows: EIO or EACCES if not.  missing: rows that should
 * be there are not seen.  *remade: set if the tables have been made again; NULL: the connection is new.
 */
int hwts_check_here(hwt_store *store, struct hwts_conn *conn, bool missing, bool *remade);
int hwts_look_hidden(const hwt_store *store, struct hwts_conn *conn, bool missing, bool *remade); /* engine.h */
int hwts_connect(hwt_store *store, enum hwts_role role, struct hwts_conn **conn);
int hwts_connect_role(hwt_store *store, enum hwts_role role); /* connects again if the connection is broken */
int hwts_reconnect(hwt_store *store, struct hwts_conn **conn, enum hwts_role role);
void hwts_fails(hwt_store *store, unsigned what, int rc); /* warns of a failure, unless that sort was told before */
void hwts_fails_forget(hwt_store *store);                 /* at a stop: no task thread is left that may work again */
/*
 * Call after an exchange; a connection alone is no success.  After failures the database is back, so the other threads
 * try at once, too.  Without store->lock.
 */
void hwts_works(hwt_store *store, unsigned what, unsigned *failures);
/*
 * Warns that an errand works again.  One task thread may work while others fail, so task threads work again once one
 * of them has worked and none has failed for a lease: control calls this for them.  A thread that always fails may
 * seldom have a run, so that time is twice as long after each end, up to 64 leases.
 */
void hwts_tell_works(hwt_store *store, unsigned what);
int hwts_conns_get(hwt_store *store, struct hwts_conn **conn);
int hwts_conns_put(hwt_store *store, struct hwts_conn *conn, int rc); /* returns rc */
void hwts_conns_init(struct hwts_conns *conns);
void hwts_conns_close(hwt_store *store);
unsigned hwts_conns_connects(hwt_store *store);

#endif
