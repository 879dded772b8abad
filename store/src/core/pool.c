/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections for the calls of users: as many as calls are under way, of which some are kept.
 *
 * A server may lose its last commits when it crashes or is replaced, and then it answers on new connections alone.  So
 * what this process knows without asking is looked at, or drawn, again with each new one: kinds, and ids.
 */
#include "core/store.h"

#define KEEP 16

int hwts_connect(hwt_store *store, enum hwts_role role, struct hwts_conn **out)
{
	int rc = store->engine->connect(store->db, role, out);

	/* A begin and an end ask for the owner of the shard, which control renews. */
	if (rc != 0 || (role != HWTS_CALL && role != HWTS_CONTROL))
		return rc;
	rc = hwts_kinds_check(store, *out);
	if (rc != 0) {
		store->engine->disconnect(*out);
		*out = NULL;
		return rc;
	}
	pthread_mutex_lock(&store->pool_lock);
	store->connects++;
	store->ids_left = 0;
	pthread_mutex_unlock(&store->pool_lock);
	return 0;
}

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
			return hwts_connect(store, HWTS_CALL, out);
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
