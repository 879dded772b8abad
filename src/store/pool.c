/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections for the calls of users: as many as calls are under way, of which some are kept.
 */
#include "store.h"

#define KEEP 16

int hwts_pool_get(hwt_store *store, struct hwts_conn **out)
{
	struct hwts_conn *conn;

	do {
		pthread_mutex_lock(&store->pool_lock);
		conn = store->idle;
		if (conn) {
			store->idle = conn->next;
			store->idle_count--;
		}
		pthread_mutex_unlock(&store->pool_lock);
		if (!conn)
			return store->engine->connect(store->db, HWTS_CALL, out);
		/* The server may have closed it meanwhile, which must not spoil a call. */
		if (store->engine->alive(conn)) {
			*out = conn;
			return 0;
		}
		store->engine->disconnect(conn);
	} while (true);
}

void hwts_pool_put(hwt_store *store, struct hwts_conn *conn)
{
	bool kept = false;

	if (!conn->broken) {
		pthread_mutex_lock(&store->pool_lock);
		kept = store->idle_count < KEEP;
		if (kept) {
			conn->next = store->idle;
			store->idle = conn;
			store->idle_count++;
		}
		pthread_mutex_unlock(&store->pool_lock);
	}
	if (!kept)
		store->engine->disconnect(conn);
}

void hwts_pool_close(hwt_store *store)
{
	for (struct hwts_conn *next; store->idle; store->idle = next) {
		next = store->idle->next;
		store->engine->disconnect(store->idle);
	}
	store->idle_count = 0;
}
