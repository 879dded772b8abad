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
		rc = hwts_rows_find(conn, about->row.id, NULL, about->key, &about->id);
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

struct cancel_request {
	struct hwts_request base;
	int64_t id;
};

static int64_t id_of(const struct hwts_request *request)
{
	return ((const struct cancel_request *)request)->id; /* its first member */
}

static void cancel_one(struct hwts_conn *conn, struct hwts_request *request)
{
	conn->brief = !request->alone;
	request->rc = hwts_rows_cancel(conn, id_of(request), HWTS_NOT_BEGUN);
	request->alone = conn->brief && request->rc == EAGAIN && conn->db->engine->locks_rows;
	conn->brief = false;
	hwts_group_text(request);
}

/* In one transaction, and what is locked in that moment, or fails there, by itself. */
static void cancel_many(struct hwts_conn *conn, struct hwts_request *requests, int64_t *ids, int *rcs, size_t n)
{
	size_t i = 0;
	int rc;

	for (const struct hwts_request *request = requests; request; request = request->next)
		ids[i++] = id_of(request);
	rc = hwts_rows_cancel_all(conn, ids, rcs, n);
	i = 0;
	for (struct hwts_request *request = requests; request; request = request->next, i++) {
		request->rc = rc ? rc : rcs[i];
		if (rc == 0 && (rcs[i] == ENOENT || rcs[i] == EBUSY))
			(void)hwts_rows_explain(rcs[i], ids[i]);
		hwts_group_text(request);
		request->alone = request->rc == EINTR;
		if (rc == EIO || rc == ENOMEM)
			cancel_one(conn, request);
	}
}

void hwts_cancel_group(hwt_store *store, struct hwts_request *requests, size_t n)
{
	int64_t *ids = hwts_alloc(n * (sizeof(*ids) + sizeof(int)));
	struct hwts_conn *conn;
	int rc = hwts_pool_get(store, &conn);

	HWTS_POINT("cancels");
	for (struct hwts_request *request = requests; request && (rc != 0 || n == 1 || !ids); request = request->next) {
		request->rc = rc;
		hwts_group_text(request);
		if (rc == 0)
			cancel_one(conn, request);
	}
	if (rc == 0 && n > 1 && ids)
		cancel_many(conn, requests, ids, (int *)(ids + n), n);
	if (rc == 0)
		hwts_pool_put(store, conn);
	free(ids);
}

/* One that was begun here and has not started is pending for its caller. */
static int cancel_begun(hwt_store *store, int64_t id, bool *again)
{
	struct hwts_row *row = hwts_unbegin(store, id, again);
	struct hwts_conn *conn;
	int rc;

	if (!row)
		return EBUSY;
	*again = false;
	rc = hwts_pool_get(store, &conn);
	if (rc == 0) {
		rc = hwts_rows_cancel(conn, id, row->epoch);
		hwts_pool_put(store, conn);
	}
	hwts_unbegun(store, row, rc == 0, NULL);
	return rc;
}

static int cancel_id(hwt_store *store, int64_t id)
{
	bool again;
	int rc;

	do {
		struct cancel_request request = { .id = id };

		again = false;
		hwts_group_do(store, &store->cancels, &request.base);
		rc = request.base.rc ? hwts_fail(request.base.rc, "%s", request.base.text) : 0;
		if (rc == EBUSY)
			rc = cancel_begun(store, id, &again);
	} while (again);
	return rc;
}

static int find_it(hwt_store *store, struct hwts_conn *conn, struct about *about)
{
	(void)store;
	(void)conn;
	(void)about;
	return 0;
}

/* One with a key may end, and another one be put with it, between the look for it and the cancel. */
static int cancel_about(hwt_store *store, struct about *about)
{
	int rc = about->by_key ? ENOENT : cancel_id(store, about->id);

	for (int i = 0; i < LOOKS && about->by_key && rc == ENOENT; i++) {
		rc = do_about(store, about, find_it);
		if (rc != 0)
			break;
		rc = cancel_id(store, about->id);
	}
	return rc;
}

static int cancel(hwt_store *store, struct about *about)
{
	struct hwts_call call = hwts_enter();
	int rc = check(store, true);

	if (rc == 0)
		rc = cancel_about(store, about);
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
	struct hwts_row *row = NULL;
	bool again;
	int rc;

	do {
		again = false;
		rc = hwts_rows_reschedule(conn, about->id, HWTS_NOT_BEGUN, about->delay_us, &about->due);
		if (rc == EBUSY)
			row = hwts_unbegin(store, about->id, &again);
	} while (again && !row);
	if (!row)
		return rc;
	rc = hwts_rows_reschedule(conn, about->id, row->epoch, about->delay_us, &about->due);
	hwts_unbegun(store, row, rc == 0, &about->due);
	return rc;
}

int hwt_store_reschedule(hwt_store *store, int64_t id, int64_t delay_ns)
{
	struct hwts_call call = hwts_enter();
	struct about about = { .id = id, .delay_us = hwts_up_to_us(HWTS_MAX(delay_ns, 0)) };
	int rc = check(store, true);
	uint64_t heard = 0;

	if (rc == 0) {
		pthread_mutex_lock(&store->lock);
		heard = hwts_window_heard(store, id);
		pthread_mutex_unlock(&store->lock);
		rc = do_about(store, &about, reschedule_it);
	}
	HWTS_POINT("rescheduled");
	if (rc == 0) {
		pthread_mutex_lock(&store->lock);
		hwts_window_move(store, &about.due, heard);
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
	if (info->size >= sizeof(is)) {
		is.data = info->data;
		is.data_room = info->data_room;
	}
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

static int each_page(hwt_store *store, const char *name, struct hwts_list *list, hwt_store_info *infos, size_t *count)
{
	struct hwts_kind_row kind;
	struct hwts_conn *conn;
	int rc = hwts_kind_of(store, name, NULL, &kind); /* from memory, mostly */

	if (rc == 0)
		rc = hwts_pool_get(store, &conn);
	if (rc != 0)
		return rc;
	rc = hwts_rows_list(conn, &kind, list, infos, PAGE, count);
	hwts_pool_put(store, conn);
	return rc;
}

static int each_of(hwt_store *store, const char *name, unsigned states,
		   bool (*each)(void *ctx, const hwt_store_info *info), void *ctx, hwt_store_info *infos)
{
	struct hwts_list list = { .states = states, .last.due_us = INT64_MIN };
	bool goes_on = true;
	size_t count = 0;
	int rc = 0;

	while (rc == 0 && goes_on && !(list.read && list.at == list.count)) {
		rc = each_page(store, name, &list, infos, &count);
		for (size_t i = 0; i < count && rc == 0 && goes_on; i++) {
			infos[i].size = sizeof(infos[i]);
			goes_on = each(ctx, &infos[i]);
		}
	}
	free(list.places);
	return rc;
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
	rc = infos ? each_of(store, kind, states, each, ctx, infos) : ENOMEM;
	free(infos);
	return hwts_leave(call, rc);
}

/* With the lock: since when the oldest of what is due has been so. */
static int64_t oldest_ns(const hwt_store *store)
{
	int64_t now_us = hwts_clock_db_us(store), oldest_us = now_us;

	for (const struct hwts_kind *kind = store->kinds; kind; kind = kind->next) {
		for (size_t i = 0; i < HWTS_COUNT(kind->due); i++)
			for (const struct hwts_entry *entry = kind->due[i].first; entry; entry = entry->due_next)
				oldest_us = HWTS_MIN(oldest_us, entry->due_us);
		for (const struct hwts_row *row = kind->queue; row; row = row->next)
			oldest_us = HWTS_MIN(oldest_us, row->due_us);
	}
	return (now_us - oldest_us) * 1000;
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
	stats.overdue = store->due_count + store->queued;
	stats.overdue_oldest_ns = stats.overdue ? oldest_ns(store) : 0;
	stats.lateness_minute_max_ns = hwts_peak_read(&store->lateness, hwt_now());
	stats.trusted = store->phase != HWTS_STOPPED && hwts_trusted(store);
	pthread_mutex_unlock(&store->lock);
	stats.round_trips = atomic_load_explicit(&store->db->round_trips,
						 memory_order_relaxed); /* relaxed: a statistic */
	size = out->size;
	memcpy(out, &stats, HWTS_MIN(size, sizeof(stats)));
	out->size = size;
	return hwts_leave(call, 0);
}
