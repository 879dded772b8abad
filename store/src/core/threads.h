/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock of a store, and its threads: each role of a connection has some, one but for tasks.
 */
#ifndef HWTS_THREADS_H
#define HWTS_THREADS_H

#include "core/engine.h"

#define HWTS_ROLES (HWTS_TASK + 1)

struct hwts_threads {
	pthread_t *ids;
	unsigned count;
	pthread_cond_t work;
	bool halt;
	struct hwts_conn *conn; /* each task has its own */
};

void hwts_threads_init(hwt_store *store);
void hwts_threads_destroy(hwt_store *store);
int hwts_threads_start(hwt_store *store, enum hwts_role role, void *(*run)(void *), unsigned n);
void hwts_threads_join(hwt_store *store, enum hwts_role role); /* those that were started */
struct hwts_conn **hwts_conn_of(hwt_store *store, enum hwts_role role);

void hwts_lock(hwt_store *store);
void hwts_unlock(hwt_store *store);

/* With the lock. */
void hwts_wake(hwt_store *store, enum hwts_role role); /* one thread that waits for work */
void hwts_wake_all(hwt_store *store, enum hwts_role role);
void hwts_wait(hwt_store *store, enum hwts_role role);
void hwts_wait_for(hwt_store *store, enum hwts_role role, int64_t ns);
void hwts_halt(hwt_store *store, enum hwts_role role);
bool hwts_halts(const hwt_store *store, enum hwts_role role);
void hwts_rest(hwt_store *store, unsigned *failures); /* after one more failure, unless it is stirred */
void hwts_stir(hwt_store *store);                     /* those that rest, and those that wait for a stop */
void hwts_wait_stirred(hwt_store *store, int64_t ns);

/* What they run; in the files of these names, and in ahead.c. */
void *hwts_beginner(void *store);
void *hwts_control(void *store);
void *hwts_ender(void *store);
void *hwts_reader(void *store);
void *hwts_task(void *store);

static inline struct hwts_conn *hwts_conn(hwt_store *store, enum hwts_role role)
{
	return *hwts_conn_of(store, role);
}

#endif
