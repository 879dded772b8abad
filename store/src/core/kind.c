/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kinds: the registered ones, and what is known of kinds that this process only puts.
 */
#include "core/store.h"
#include "core/threads.h"

#define SHARDS 8
#define MAX_ATTEMPTS 20
#define HORIZON_NS HWT_S(5)
#define LONGEST_NS (HWT_S(86400) * 365)
#define HORIZON_LEAST_NS (HWT_S(1) / 3 * 2) /* two thirds of the shortest lease */

int hwts_check_kind_name(const char *name)
{
	size_t len = name ? strlen(name) : 0;

	if (!name)
		return hwts_fail(EINVAL, "the kind is NULL");
	if (len == 0 || len > HWTS_NAME_MAX || !hwts_is_utf8(name, len))
		return hwts_fail(EINVAL, "a kind's name has 1 to %d bytes of UTF-8", HWTS_NAME_MAX);
	return 0;
}

static int check_text(const char *what, const char *text)
{
	size_t len = text ? strlen(text) : 0;

	return len > 0 && len <= HWTS_KEY_MAX && hwts_is_utf8(text, len)
		   ? 0
		   : hwts_fail(EINVAL, "a %s has 1 to %d bytes of UTF-8", what, HWTS_KEY_MAX);
}

int hwts_check_key(const char *key)
{
	return check_text("key", key);
}

int hwts_check_group(const char *group)
{
	return check_text("group", group);
}

/* With the lock. */
static struct hwts_kind *known(hwt_store *store, const char *name)
{
	struct hwts_kind *kind = store->kinds;

	while (kind && strcmp(kind->name, name) != 0)
		kind = kind->next;
	return kind;
}

/* With the lock: appends, for other threads walk along the list. */
static void append(hwt_store *store, struct hwts_kind *kind)
{
	struct hwts_kind **link = &store->kinds;

	while (*link)
		link = &(*link)->next;
	*link = kind;
}

/* Reads or makes a kind, and believes its row only as far as it makes sense. */
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

bool hwts_kind_known(hwt_store *store, const char *name, struct hwts_kind_row *out)
{
	const struct hwts_kind *kind;

	hwts_lock(store);
	kind = known(store, name);
	if (kind)
		*out = kind->row;
	hwts_unlock(store);
	return kind != NULL;
}

int hwts_kind_of(hwt_store *store, const char *name, const struct hwts_kind_row *make, struct hwts_kind_row *out)
{
	struct hwts_conn *conn;
	struct hwts_kind *kind, *made;
	int rc;

	if (hwts_kind_known(store, name, out))
		return 0;
	made = hwts_alloc(sizeof(*made));
	rc = made ? hwts_pool_get(store, &conn) : ENOMEM;
	if (rc == 0) {
		rc = hwts_kind_ask(store, conn, name, make, &made->row);
		hwts_pool_put(store, conn);
	}
	if (rc != 0) {
		free(made);
		return rc;
	}
	*out = made->row;
	hwts_cut(made->name, sizeof(made->name), name, strlen(name));
	hwts_lock(store);
	kind = known(store, name);
	if (!kind)
		append(store, made);
	hwts_unlock(store);
	if (kind)
		free(made);
	return 0;
}

/*
 * Registering
 */

static int check_kind(const hwt_store *store, const hwt_store_kind *kind)
{
	int64_t least_ns = store->config.lease_ns / 3 * 2;
	int rc;

	if (!kind)
		return hwts_fail(EINVAL, "the kind is NULL");
	rc = hwts_check_size("hwt_store_kind", kind, kind->size, sizeof(*kind));
	if (rc == 0)
		rc = hwts_check_kind_name(kind->name);
	if (rc != 0)
		return rc;
	if (!kind->task)
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

static void settle(struct hwts_kind *kind, const hwt_store_kind *from)
{
	kind->task = from->task;
	kind->ctx = from->ctx;
	kind->concurrency = from->concurrency ? from->concurrency : UINT32_MAX;
	kind->max_attempts = from->max_attempts ? from->max_attempts : MAX_ATTEMPTS;
	kind->backoff_us = (from->backoff_ns ? from->backoff_ns : HWT_S(1)) / 1000;
	kind->backoff_max_us = (from->backoff_max_ns ? from->backoff_max_ns : HWT_S(3600)) / 1000;
	kind->backoff_us = HWTS_MAX(HWTS_MIN(kind->backoff_us, kind->backoff_max_us), 1);
	kind->backoff_max_us = HWTS_MAX(kind->backoff_max_us, 1);
	kind->queue_end = &kind->queue;
	for (uint32_t i = 0; i < kind->row.shards; i++)
		kind->shards[i].id = kind->row.id * HWTS_SHARDS_MAX + (int32_t)i;
	kind->registered = true;
}

/* What a kind is that a put or a registration makes. */
struct hwts_kind_row hwts_kind_defaults(const hwt_store *store)
{
	return (struct hwts_kind_row){
		.shards = SHARDS,
		.mode = HWTS_MODE_OPEN,
		.horizon_us = HWTS_MAX(HORIZON_NS, store->config.lease_ns / 3 * 2) / 1000,
	};
}

static int register_kind(hwt_store *store, const hwt_store_kind *kind)
{
	struct hwts_kind_row make = hwts_kind_defaults(store), row;
	struct hwts_conn *conn = NULL;
	struct hwts_kind *made = NULL, *is;
	struct hwts_shard *shards = NULL;
	int rc = hwts_pool_get(store, &conn);

	make.mode = (int)kind->mode;
	make.shards = kind->shards ? kind->shards : make.shards;
	make.horizon_us = kind->horizon_ns ? kind->horizon_ns / 1000 : make.horizon_us;
	if (rc != 0)
		return rc;
	rc = hwts_kind_ask(store, conn, kind->name, &make, &row);
	hwts_pool_put(store, conn);
	if (rc == 0 && row.mode != make.mode)
		rc = hwts_fail(EINVAL, "kind %s is in the database with mode %d, not %d", kind->name, row.mode,
			       make.mode);
	if (rc != 0)
		return rc;
	made = hwts_alloc(sizeof(*made));
	shards = hwts_alloc(row.shards * sizeof(*shards));
	if (!made || !shards) {
		free(made);
		free(shards);
		return ENOMEM;
	}
	hwts_cut(made->name, sizeof(made->name), kind->name, strlen(kind->name));
	hwts_lock(store);
	is = known(store, kind->name);
	if (!is) {
		append(store, made);
		is = made;
		made = NULL;
	}
	is->row = row;
	is->shards = shards;
	settle(is, kind);
	hwts_unlock(store);
	free(made);
	return 0;
}

int hwt_store_register(hwt_store *store, const hwt_store_kind *kind)
{
	struct hwts_call call = hwts_enter();
	const struct hwts_kind *is;
	int rc = hwts_check_store(store);

	if (rc == 0)
		rc = check_kind(store, kind);
	if (rc != 0)
		return hwts_leave(call, rc);
	if (hwts_in_task_of(store))
		return hwts_leave(call, hwts_fail(EBUSY, "the store is started: register before"));
	pthread_mutex_lock(&store->life);
	hwts_lock(store);
	is = known(store, kind->name);
	if (store->phase != HWTS_STOPPED)
		rc = hwts_fail(EBUSY, "the store is started: register before");
	else if (is && is->registered)
		rc = hwts_fail(EEXIST, "kind %s is registered already", kind->name);
	hwts_unlock(store);
	if (rc == 0)
		rc = register_kind(store, kind);
	pthread_mutex_unlock(&store->life);
	return hwts_leave(call, rc);
}
