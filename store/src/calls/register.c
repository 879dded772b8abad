/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kinds in the database: looked up, made by a put, registered, listed, removed.
 *
 * A kind that was removed keeps its row, so that no other kind gets its number and shards: processes that know them put
 * without asking.  The kind is listed again as soon as it has timeouts, or a process asks to make it.
 */
#include "store/kind.h"
#include "store/conns.h"
#include "store/run.h"
#include "store/shards.h"
#include "store/store.h"

#define MAX_ATTEMPTS 20
#define LONGEST_NS (HWT_S(86400) * 365)
#define HORIZON_LEAST_NS (HWT_S(1) / 3 * 2) /* two thirds of the shortest lease */

/* Reads or makes a kind.  A row with values out of range is damaged: EIO. */
int hwts_kind_ask(hwt_store *store, struct hwts_conn *conn, const char *name, const struct hwts_kind_row *make,
		  struct hwts_kind_row *row)
{
	int rc = hwts_rows_kind(conn, name, make, row);

	if (rc == 0 &&
	    (row->id < 1 || row->id > INT32_MAX / HWTS_SHARDS_MAX - 1 || row->shards < 1 ||
	     row->shards > HWTS_SHARDS_MAX || row->mode < HWTS_MODE_OPEN || row->mode > (int)HWT_STORE_TRANSACTION ||
	     row->horizon_us < HORIZON_LEAST_NS / 1000 || row->horizon_us > LONGEST_NS / 1000))
		rc = hwts_fail(
		    EIO, "the row of kind %s in %s_kind is damaged: id %d, shards %u, mode %d, horizon_us %lld", name,
		    store->db->prefix, (int)row->id, (unsigned)row->shards, row->mode, (long long)row->horizon_us);
	return rc;
}

int hwts_kind_of(hwt_store *store, const char *name, const struct hwts_kind_row *make, struct hwts_kind_row *out)
{
	struct hwts_conn *conn;
	struct hwts_kind *kind, *made;
	int rc;

	if (hwts_kind_known(store, name, out))
		return 0;
	made = hwts_alloc(sizeof(*made));
	rc = made ? hwts_conns_get(store, &conn) : ENOMEM;
	if (rc == 0)
		rc = hwts_conns_put(store, conn, hwts_kind_ask(store, conn, name, make, &made->row));
	if (rc != 0) {
		free(made);
		return rc;
	}
	*out = made->row;
	hwts_lock(store);
	kind = hwts_kind_add(store, made, name);
	if (kind->row.removed || kind->row.mode == HWTS_MODE_OPEN)
		kind->row = *out;
	kind->asked_ns = hwt_now();
	hwts_unlock(store);
	if (kind != made)
		free(made);
	return 0;
}

/*
 * Registering
 */

static int check_kind(const hwt_store *store, const hwt_store_kind *kind)
{
	int64_t least_ns = store->config.lease_ns / 3 * 2;
	int rc = hwts_check_kind_name(kind->name);

	if (rc != 0)
		return rc;
	if (kind->flags & ~HWT_STORE_PULLED)
		return hwts_fail(EINVAL, "kind %s: there is no such flag", kind->name);
	if (kind->flags & HWT_STORE_PULLED && (kind->task || kind->mode == HWT_STORE_TRANSACTION))
		return hwts_fail(EINVAL, "kind %s is pulled: it has no task, and no transaction", kind->name);
	if (!kind->task && !(kind->flags & HWT_STORE_PULLED))
		return hwts_fail(EINVAL, "kind %s: the task is NULL", kind->name);
	if (kind->mode > HWT_STORE_TRANSACTION)
		return hwts_fail(EINVAL, "kind %s: there is no mode %u", kind->name, kind->mode);
	if (kind->shards > HWTS_SHARDS_MAX)
		return hwts_fail(EINVAL, "kind %s: %u shards are more than %d", kind->name, kind->shards,
				 HWTS_SHARDS_MAX);
	if (kind->horizon_ns != 0 && (kind->horizon_ns < least_ns || kind->horizon_ns > LONGEST_NS))
		return hwts_fail(EINVAL,
				 "kind %s: horizon_ns must be at least 2/3 of the lease, %lld ms, and at most a year",
				 kind->name, (long long)(least_ns / 1000000));
	if (kind->backoff_ns < 0 || kind->backoff_ns > LONGEST_NS || kind->backoff_max_ns < 0 ||
	    kind->backoff_max_ns > LONGEST_NS)
		return hwts_fail(EINVAL, "kind %s: backoff_ns and backoff_max_ns are between 0 and a year", kind->name);
	return 0;
}

static void settle(const hwt_store *store, struct hwts_kind *kind, const hwt_store_kind *from)
{
	unsigned most = from->flags & HWT_STORE_PULLED ? store->config.threads : UINT32_MAX;

	kind->pulled = from->flags & HWT_STORE_PULLED;
	kind->task = from->task;
	kind->ctx = from->ctx;
	kind->concurrency = from->concurrency ? from->concurrency : most;
	kind->max_attempts = from->max_attempts ? from->max_attempts : MAX_ATTEMPTS;
	kind->backoff_us = (from->backoff_ns ? from->backoff_ns : HWT_S(1)) / 1000;
	kind->backoff_max_us = (from->backoff_max_ns ? from->backoff_max_ns : HWT_S(3600)) / 1000;
	kind->backoff_us = HWTS_MAX(HWTS_MIN(kind->backoff_us, kind->backoff_max_us), 1);
	kind->backoff_max_us = HWTS_MAX(kind->backoff_max_us, 1);
	kind->begun.end = &kind->begun.first;
	kind->turns.shards = kind->row.shards;
	for (uint32_t i = 0; i < kind->row.shards; i++)
		kind->shards[i].id = kind->row.id * HWTS_SHARDS_MAX + (int32_t)i;
	kind->registered = true;
}

static int register_kind(hwt_store *store, const hwt_store_kind *kind)
{
	struct hwts_kind_row make = hwts_kind_defaults(store), row;
	struct hwts_conn *conn = NULL;
	struct hwts_kind *made, *is;
	struct hwts_shard *shards;
	int rc = hwts_conns_get(store, &conn);

	make.mode = (int)kind->mode;
	make.shards = kind->shards ? kind->shards : make.shards;
	make.horizon_us = kind->horizon_ns ? kind->horizon_ns / 1000 : make.horizon_us;
	if (rc != 0)
		return rc;
	rc = hwts_conns_put(store, conn, hwts_kind_ask(store, conn, kind->name, &make, &row));
	if (rc == 0 && row.mode != make.mode)
		rc = hwts_fail(EINVAL, "kind %s is in the database with mode %d, not %d", kind->name, row.mode,
			       make.mode);
	if (rc != 0)
		return rc;
	made = hwts_alloc(sizeof(*made));
	shards = hwts_alloc(row.shards * (sizeof(*shards) + sizeof(*is->turns.empty_ns)));
	if (!made || !shards) {
		free(made);
		free(shards);
		return ENOMEM;
	}
	hwts_lock(store);
	is = hwts_kind_add(store, made, kind->name);
	is->row = row;
	is->shards = shards;
	is->turns.empty_ns = (int64_t *)(shards + row.shards); /* behind the shards */
	settle(store, is, kind);
	hwts_unlock(store);
	if (is != made)
		free(made);
	return 0;
}

int hwt_store_register(hwt_store *store, const hwt_store_kind *given)
{
	struct hwts_call call = hwts_enter();
	const struct hwts_kind *is;
	hwt_store_kind kind;
	int rc = hwts_check_store(store);

	if (rc == 0)
		rc = given ? hwts_given("hwt_store_kind", given, offsetof(hwt_store_kind, flags), &kind, sizeof(kind))
			   : hwts_fail(EINVAL, "the kind is NULL");
	if (rc == 0)
		rc = check_kind(store, &kind);
	if (rc != 0)
		return hwts_leave(call, rc);
	if (hwts_in_task_of(store))
		return hwts_leave(call, hwts_fail(EBUSY, "the store is started: register before"));
	pthread_mutex_lock(&store->life->lock);
	hwts_lock(store);
	is = hwts_kind_find(store, kind.name);
	if (hwts_phase(store) != HWTS_STOPPED)
		rc = hwts_fail(EBUSY, "the store is started: register before");
	else if (is && is->registered)
		rc = hwts_fail(EEXIST, "kind %s is registered already", kind.name);
	hwts_unlock(store);
	if (rc == 0)
		rc = register_kind(store, &kind);
	pthread_mutex_unlock(&store->life->lock);
	return hwts_leave(call, rc);
}

/*
 * Listing and removing kinds
 */

int hwt_store_each_kind(hwt_store *store, bool (*each)(void *ctx, const hwt_store_kind_info *info), void *ctx)
{
	struct hwts_call call = hwts_enter();
	hwt_store_kind_info *infos = NULL;
	struct hwts_conn *conn;
	int64_t now_us;
	size_t count = 0;
	int rc = hwts_check_store(store);

	if (rc == 0 && !each)
		rc = hwts_fail(EINVAL, "the function is NULL");
	if (rc == 0)
		rc = hwts_conns_get(store, &conn);
	if (rc != 0)
		return hwts_leave(call, rc);
	rc = hwts_conns_put(store, conn, hwts_rows_kinds(conn, &infos, &count, &now_us));
	for (size_t i = 0; i < count && each(ctx, &infos[i]); i++)
		;
	free(infos);
	return hwts_leave(call, rc);
}

/* A process that is about to start with this kind makes it again. */
static int remove_kind(hwt_store *store, const char *name)
{
	struct hwts_conn *conn;
	struct hwts_kind *kind;
	bool registered;
	int rc;

	hwts_lock(store);
	kind = hwts_kind_find(store, name);
	registered = kind && kind->registered;
	hwts_unlock(store);
	if (registered)
		return hwts_fail(EBUSY, "kind %s is registered by this process", name);
	rc = hwts_conns_get(store, &conn);
	if (rc != 0)
		return rc;
	rc = hwts_conns_put(store, conn, hwts_rows_kind_remove(conn, name));
	hwts_lock(store);
	kind = rc == 0 ? hwts_kind_find(store, name) : NULL;
	if (kind)
		kind->row.removed = true; /* the next put asks the database */
	hwts_unlock(store);
	return rc;
}

int hwt_store_remove_kind(hwt_store *store, const char *kind)
{
	struct hwts_call call = hwts_enter();
	int rc = hwts_check_call(store, HWTS_LATER);

	if (rc == 0)
		rc = hwts_check_kind_name(kind);
	return hwts_leave(call, rc == 0 ? remove_kind(store, kind) : rc);
}

int hwts_kinds_keep(hwt_store *store, struct hwts_conn *conn)
{
	int rc = 0;

	for (const struct hwts_kind *kind = NULL; rc == 0;) {
		struct hwts_kind_row row = { .id = 0 };

		hwts_lock(store);
		kind = hwts_kind_next(store, kind);
		hwts_unlock(store);
		if (!kind)
			break;
		rc = hwts_rows_kind_keep(conn, kind->name, &kind->row, &row);
		if (rc == 0 && row.mode != kind->row.mode)
			rc = hwts_fail(EINVAL, "kind %s was removed, and was registered again with mode %d, not %d",
				       kind->name, row.mode, kind->row.mode);
	}
	return rc;
}
