/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cancel, reschedule, and reading what is there.
 */
#include "core/store.h"

#define PAGE 100
#define LOOKS 10 /* for a key whose timeout changes while it is looked for */

static int check(const hwt_store *store, bool writes)
{
	int rc = hwts_check_store(store);

	if (rc != 0)
		return rc;
	return writes && hwts_holds_lock(store)
		   ? hwts_fail(EDEADLK, "the transaction of this task has SQLite's lock: do it after the task")
		   : 0;
}

/*
 * A timeout, by its id or by its key
 */

struct about {
	int64_t id;
	bool by_key; /* id is not known yet */
	const char *kind, *key;
	struct hwts_kind_row row;
	int64_t delay_us;     /* to reschedule */
	struct hwts_due due;  /* where it was rescheduled to */
	hwt_store_info *info; /* to read */
};

typedef int do_it(hwt_store *store, struct hwts_conn *conn, struct about *about);

/* By its key: it may end, and another one may be put with that key, in between. */
static int find_and_do(hwt_store *store, struct hwts_conn *conn, struct about *about, do_it *act)
{
	int rc = ENOENT;

	for (int i = 0; i < LOOKS && rc == ENOENT; i++) {
		rc = hwts_rows_find(conn, about->row.id, about->key, &about->id);
		if (rc != 0)
			return rc;
		rc = act(store, conn, about);
	}
	return rc;
}

static int do_about(hwt_store *store, struct about *about, do_it *act)
{
	struct hwts_conn *conn;
	int rc = about->by_key ? hwts_check_kind_name(about->kind) : 0;

	if (rc == 0 && about->by_key)
		rc = hwts_check_key(about->key);
	if (rc == 0 && about->by_key)
		rc = hwts_kind_of(store, about->kind, NULL, &about->row); /* ENOENT: it is not made */
	if (rc == 0)
		rc = hwts_pool_get(store, &conn);
	if (rc != 0)
		return rc;
	rc = about->by_key ? find_and_do(store, conn, about, act) : act(store, conn, about);
	hwts_pool_put(store, conn);
	return rc;
}

/*
 * Cancel, reschedule
 */

static int cancel_it(hwt_store *store, struct hwts_conn *conn, struct about *about)
{
	(void)store;
	return hwts_rows_cancel(conn, about->id);
}

static int cancel(hwt_store *store, struct about *about)
{
	struct hwts_call call = hwts_enter();
	int rc = check(store, true);

	if (rc == 0)
		rc = do_about(store, about, cancel_it);
	if (rc == 0) { /* what is ARMED here need not be */
		pthread_mutex_lock(&store->lock);
		store->stats.cancelled++;
		hwts_window_forget(store, about->id);
		pthread_mutex_unlock(&store->lock);
	}
	return hwts_leave(call, rc);
}

int hwt_store_cancel(hwt_store *store, int64_t id)
{
	return cancel(store, &(struct about){ .id = id });
}

int hwt_store_cancel_key(hwt_store *store, const char *kind, const char *key)
{
	return cancel(store, &(struct about){ .by_key = true, .kind = kind, .key = key });
}

static int reschedule_it(hwt_store *store, struct hwts_conn *conn, struct about *about)
{
	(void)store;
	return hwts_rows_reschedule(conn, about->id, about->delay_us, &about->due);
}

int hwt_store_reschedule(hwt_store *store, int64_t id, int64_t delay_ns)
{
	struct hwts_call call = hwts_enter();
	struct about about = { .id = id, .delay_us = hwts_up_to_us(HWTS_MAX(delay_ns, 0)) };
	int rc = check(store, true);

	if (rc == 0)
		rc = do_about(store, &about, reschedule_it);
	if (rc == 0) {
		pthread_mutex_lock(&store->lock);
		hwts_window_see(store, &about.due);
		pthread_mutex_unlock(&store->lock);
	}
	return hwts_leave(call, rc);
}

/*
 * Reading
 */

static int get_it(hwt_store *store, struct hwts_conn *conn, struct about *about)
{
	(void)store;
	return hwts_rows_get(conn, about->id, about->info);
}

static int get(hwt_store *store, struct about *about, hwt_store_info *info)
{
	struct hwts_call call = hwts_enter();
	hwt_store_info is = HWT_STORE_INFO_INIT;
	int rc = hwts_check_store(store);

	if (rc == 0 && !info)
		rc = hwts_fail(EINVAL, "the info is NULL");
	if (rc != 0)
		return hwts_leave(call, rc);
	if (info->size < offsetof(hwt_store_info, state))
		return hwts_leave(call, hwts_fail(EINVAL, "hwt_store_info.size must be sizeof(hwt_store_info)"));
	about->info = &is;
	rc = do_about(store, about, get_it);
	about->info = NULL;
	if (rc == 0) {
		is.size = info->size;
		memcpy(info, &is, HWTS_MIN(info->size, sizeof(is)));
	}
	return hwts_leave(call, rc);
}

int hwt_store_get(hwt_store *store, int64_t id, hwt_store_info *info)
{
	return get(store, &(struct about){ .id = id }, info);
}

int hwt_store_get_key(hwt_store *store, const char *kind, const char *key, hwt_store_info *info)
{
	return get(store, &(struct about){ .by_key = true, .kind = kind, .key = key }, info);
}

static int each_page(hwt_store *store, const char *name, unsigned states,
		     bool (*each)(void *ctx, const hwt_store_info *info), void *ctx, hwt_store_info *infos)
{
	int64_t due_us = INT64_MIN, id = 0;
	struct hwts_kind_row kind;

	for (size_t count = PAGE; count == PAGE;) {
		struct hwts_conn *conn;
		int rc = hwts_kind_of(store, name, NULL, &kind); /* from memory, mostly */

		if (rc == 0)
			rc = hwts_pool_get(store, &conn);
		if (rc != 0)
			return rc;
		rc = hwts_rows_page(conn, &kind, states, due_us, id, infos, PAGE, &count);
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
	hwt_store_info *infos;
	int rc = hwts_check_store(store);

	if (rc == 0 && !each)
		rc = hwts_fail(EINVAL, "the function is NULL");
	if (rc != 0)
		return hwts_leave(call, rc);
	if (states == 0 || states & ~all)
		return hwts_leave(call, hwts_fail(EINVAL, "states is a set such as 1u << HWT_STORE_PENDING"));
	rc = hwts_check_kind_name(kind);
	if (rc != 0)
		return hwts_leave(call, rc);
	infos = hwts_alloc(PAGE * sizeof(*infos));
	rc = infos ? each_page(store, kind, states, each, ctx, infos) : ENOMEM;
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
