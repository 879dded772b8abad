/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections of callers; conns.c. */
#ifndef HWTS_CONNS_H
#define HWTS_CONNS_H

#include "rows/engine.h"

struct hwts_conns {
	pthread_mutex_t lock;
	pthread_cond_t freed;
	struct hwts_conn *idle;
	unsigned idle_count, used_count;
	unsigned connects; /* counts new connections to a server: numbers drawn before may be drawn again */
	bool gone;         /* the last check found another store, or none: each call connects, and checks it again */
	_Atomic int told[HWTS_ROLES]; /* the failure of which each role has warned; 0: it works.  Relaxed */
};

/*
 * Whether a connection leads to the store that this process knows: EIO, EACCES.  missing: rows that ought to be there
 * are not seen.  *remade is set if the tables have been made again; NULL: it is a new connection.
 */
int hwts_check_here(hwt_store *store, struct hwts_conn *conn, bool missing, bool *remade);
int hwts_connect(hwt_store *store, enum hwts_role role, struct hwts_conn **conn);
int hwts_connect_role(hwt_store *store, enum hwts_role role); /* if its connection is of no use */
int hwts_reconnect(hwt_store *store, struct hwts_conn **conn, enum hwts_role role);
/* Warns of a failure, unless the role has warned of such a one before; of its end hwts_works does. */
void hwts_fails(hwt_store *store, enum hwts_role role, int rc);
void hwts_fails_forget(hwt_store *store); /* at a stop: the task thread that would say that it works again is gone */
/*
 * After an exchange; that a connection was made is no success.  After failures the database is back: the other threads
 * try at once, too.  Without the lock.
 */
void hwts_works(hwt_store *store, enum hwts_role role, unsigned *failures);
int hwts_conns_get(hwt_store *store, struct hwts_conn **conn);
int hwts_conns_put(hwt_store *store, struct hwts_conn *conn, int rc); /* returns rc */
void hwts_conns_init(struct hwts_conns *conns);
void hwts_conns_close(hwt_store *store);
unsigned hwts_conns_connects(hwt_store *store);

#endif
