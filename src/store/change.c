/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cancel, reschedule, and reading what is there.
 */
#include "store.h"

#define PAGE 100
#define LOOKS 10 /* for a key whose timeout changes while it is looked for */

static int check(const hwt_store *store, bool writes)
{
	if (!store)
		return hwts_fail(EINVAL, "the store is NULL");
	return writes && hwts_holds_lock(store)
		   ? hwts_fail(EDEADLK, "the transaction of this task has SQLite's lock: do it after the task")
		   : 0;
}

/* What is ARMED here need not be. */
static void cancelled(hwt_store *store, int64_t id)
{
	pthread_mutex_lock(&store->lock);
	store->stats.cancelled++;
	hwts_window_forget(store, id);
	pthread_mutex_unlock(&store->lock);
}

int hwt_store_cancel(hwt_store *store, int64_t id)
{
	struct hwts_call call = hwts_enter();
	struct hwts_conn *conn;
	int rc = check(store, true);

	if (rc == 0)
		rc = hwts_pool_get(store, &conn);
	if (rc != 0)
		return hwts_leave(call, rc);
	rc = store->engine->cancel(conn, id);
	hwts_pool_put(store, conn);
	if (rc == 0)
		cancelled(store, id);
	return hwts_leave(call, rc);
}

/* The kind without making it: ENOENT if there is none. */
static int find(hwt_store *store, struct hwts_conn *conn, const char *kind, const char *key, int64_t *id)
{
	struct hwts_kind_row row;
	int rc = hwts_kind_of(store, kind, NULL, &row);

	return rc ? rc : store->engine->find(conn, row.id, key, id);
}

static int check_names(const char *kind, const char *key)
{
	int rc = hwts_check_kind_name(kind);

	return rc ? rc : hwts_check_key(key);
}

int hwt_store_cancel_key(hwt_store *store, const char *kind, const char *key)
{
	struct hwts_call call = hwts_enter();
	struct hwts_conn *conn;
	int64_t id;
	int rc = check(store, true);

	if (rc == 0)
		rc = check_names(kind, key);
	if (rc == 0)
		rc = hwts_pool_get(store, &conn);
	if (rc != 0)
		return hwts_leave(call, rc);
	/* It may end, and another one may be put with its key, in between. */
	for (int i = 0; i < LOOKS; i++) {
		rc = find(store, conn, kind, key, &id);
		if (rc != 0)
			break;
		rc = store->engine->cancel(conn, id);
		if (rc != ENOENT)
			break;
	}
	hwts_pool_put(store, conn);
	if (rc == 0)
		cancelled(store, id);
	return hwts_leave(call, rc);
}

int hwt_store_reschedule(hwt_store *store, int64_t id, int64_t delay_ns)
{
	struct hwts_call call = hwts_enter();
	struct hwts_conn *conn;
	struct hwts_due due;
	int64_t delay_us = delay_ns > 0 ? delay_ns / 1000 + (delay_ns % 1000 > 0) : 0;
	int rc = check(store, true);

	if (rc == 0)
		rc = hwts_pool_get(store, &conn);
	if (rc != 0)
		return hwts_leave(call, rc);
	rc = store->engine->reschedule(conn, id, delay_us, &due);
	hwts_pool_put(store, conn);
	if (rc == 0) {
		pthread_mutex_lock(&store->lock);
		hwts_window_see(store, &due);
		pthread_mutex_unlock(&store->lock);
	}
	return hwts_leave(call, rc);
}

/*
 * Reading
 */

static int check_info(const hwt_store *store, const hwt_store_info *info)
{
	if (!store || !info)
		return hwts_fail(EINVAL, "the store or the info is NULL");
	if (info->size < offsetof(hwt_store_info, state))
		return hwts_fail(EINVAL, "hwt_store_info.size must be sizeof(hwt_store_info)");
	return 0;
}

static void copy_info(hwt_store_info *to, const hwt_store_info *from)
{
	size_t size = to->size;

	memcpy(to, from, HWTS_MIN(size, sizeof(*from)));
	to->size = size;
}

int hwt_store_get(hwt_store *store, int64_t id, hwt_store_info *info)
{
	struct hwts_call call = hwts_enter();
	hwt_store_info is = HWT_STORE_INFO_INIT;
	struct hwts_conn *conn;
	int rc = check_info(store, info);

	if (rc == 0)
		rc = hwts_pool_get(store, &conn);
	if (rc != 0)
		return hwts_leave(call, rc);
	rc = store->engine->get(conn, id, &is);
	hwts_pool_put(store, conn);
	if (rc == 0)
		copy_info(info, &is);
	return hwts_leave(call, rc);
}

int hwt_store_get_key(hwt_store *store, const char *kind, const char *key, hwt_store_info *info)
{
	struct hwts_call call = hwts_enter();
	hwt_store_info is = HWT_STORE_INFO_INIT;
	struct hwts_conn *conn;
	int64_t id;
	int rc = check_info(store, info);

	if (rc == 0)
		rc = check_names(kind, key);
	if (rc == 0)
		rc = hwts_pool_get(store, &conn);
	if (rc != 0)
		return hwts_leave(call, rc);
	for (int i = 0; i < LOOKS; i++) {
		rc = find(store, conn, kind, key, &id);
		if (rc != 0)
			break;
		rc = store->engine->get(conn, id, &is);
		if (rc != ENOENT)
			break;
	}
	hwts_pool_put(store, conn);
	if (rc == 0)
		copy_info(info, &is);
	return hwts_leave(call, rc);
}

static int each_page(hwt_store *store, const struct hwts_kind_row *kind, unsigned states,
		     bool (*each)(void *ctx, const hwt_store_info *info), void *ctx, hwt_store_info *infos)
{
	int64_t due_us = INT64_MIN, id = 0;

	for (size_t count = PAGE; count == PAGE;) {
		struct hwts_conn *conn;
		int rc = hwts_pool_get(store, &conn);

		if (rc != 0)
			return rc;
		rc = store->engine->page(conn, kind, states, due_us, id, infos, PAGE, &count);
		hwts_pool_put(store, conn);
		if (rc != 0)
			return rc;
		for (size_t i = 0; i < count; i++) {
			infos[i].size = sizeof(infos[i]);
			if (!each(ctx, &infos[i]))
				return 0;
		}
		if (count > 0) {
			due_us = infos[count - 1].due_us;
			id = infos[count - 1].id;
		}
	}
	return 0;
}

int hwt_store_each(hwt_store *store, const char *kind, unsigned states,
		   bool (*each)(void *ctx, const hwt_store_info *info), void *ctx)
{
	const unsigned all = 1u << HWT_STORE_PENDING | 1u << HWT_STORE_RUNNING | 1u << HWT_STORE_FAILED;
	struct hwts_call call = hwts_enter();
	struct hwts_kind_row row;
	hwt_store_info *infos;
	int rc;

	if (!store || !each)
		return hwts_leave(call, hwts_fail(EINVAL, "the store or the function is NULL"));
	if (states == 0 || states & ~all)
		return hwts_leave(call, hwts_fail(EINVAL, "states is a set such as 1u << HWT_STORE_PENDING"));
	rc = hwts_check_kind_name(kind);
	if (rc == 0)
		rc = hwts_kind_of(store, kind, NULL, &row);
	if (rc != 0)
		return hwts_leave(call, rc);
	infos = hwts_alloc(PAGE * sizeof(*infos));
	rc = infos ? each_page(store, &row, states, each, ctx, infos) : ENOMEM;
	free(infos);
	return hwts_leave(call, rc);
}

int hwt_store_read_stats(hwt_store *store, hwt_store_stats *out)
{
	struct hwts_call call = hwts_enter();
	hwt_store_stats stats;
	size_t size;

	if (!store || !out || out->size < offsetof(hwt_store_stats, begun))
		return hwts_leave(call, hwts_fail(EINVAL, "hwt_store_stats.size must be sizeof(hwt_store_stats)"));
	pthread_mutex_lock(&store->lock);
	stats = store->stats;
	stats.window = store->window.count - store->active;
	stats.running = store->active;
	pthread_mutex_unlock(&store->lock);
	stats.round_trips = atomic_load_explicit(&store->db->round_trips,
						 memory_order_relaxed); /* relaxed: a statistic */
	size = out->size;
	memcpy(out, &stats, HWTS_MIN(size, sizeof(stats)));
	out->size = size;
	return hwts_leave(call, 0);
}
