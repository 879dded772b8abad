/* SPDX-License-Identifier: BSD-2-Clause */
/* Puts.  Single puts share commits: commit.c. */
#include "base/calendar.h"
#include "runs/begun.h"
#include "store/commit.h"
#include "store/kind.h"
#include "store/numbers.h"
#include "store/conns.h"
#include "store/run.h"
#include "store/store.h"
#include "window/window.h"

/* Flags of puts that may change a row that is there. */
#define CHANGES (HWT_STORE_REPLACE | HWT_STORE_REVIVE | HWT_STORE_KEEP_DUE)
/* Most puts in one transaction: a larger herd would hold the database's lock for so long that leases end. */
#define MANY 10000
#define INSTEAD "use hwt_store_put_on with run->connection"
#define LONGEST_PERIOD_NS (HWTS_LONGEST_PERIOD_US * 1000)

struct put_request {
	struct hwts_request base;
	struct hwts_put put;
};

static struct hwts_put *put_of(struct hwts_request *request)
{
	return &((struct put_request *)request)->put; /* base is the first member */
}

/*
 * What users pass
 */

/* Checks period, grace, spread and zone.  The line and the zone are parsed when the first time is computed. */
static int check_series(const hwt_store_spec *spec)
{
	bool series = spec->schedule || spec->period_ns > 0;

	if (spec->period_ns != 0 && (spec->period_ns < HWT_S(1) || spec->period_ns > LONGEST_PERIOD_NS))
		return hwts_fail(EINVAL, "period_ns is 0, or between a second and 100 years");
	if (spec->period_ns != 0 && spec->schedule)
		return hwts_fail(EINVAL, "period_ns and schedule exclude each other");
	if (spec->zone && !spec->schedule)
		return hwts_fail(EINVAL, "zone needs a schedule");
	if (spec->grace_ns < 0 || spec->grace_ns > LONGEST_PERIOD_NS)
		return hwts_fail(EINVAL, "grace_ns is between 0 and 100 years");
	if (spec->spread_ns < 0 || spec->spread_ns > LONGEST_PERIOD_NS)
		return hwts_fail(EINVAL, "spread_ns is between 0 and 100 years");
	if (spec->spread_ns > 0 && !series)
		return hwts_fail(EINVAL, "spread_ns needs a schedule or a period");
	if (spec->period_ns > 0 && spec->spread_ns > spec->period_ns)
		return hwts_fail(EINVAL, "spread_ns is above the period");
	return 0;
}

static int check_spec(const hwt_store_spec *spec)
{
	unsigned changes = spec->flags & CHANGES;
	int rc = hwts_check_kind_name(spec->kind);

	if (rc == 0 && spec->key)
		rc = hwts_check_text("key", spec->key);
	if (rc == 0 && spec->group)
		rc = hwts_check_text("group", spec->group);
	if (rc != 0)
		return rc;
	if (spec->priority < -HWTS_PRIORITY_MAX || spec->priority > HWTS_PRIORITY_MAX)
		return hwts_fail(EINVAL, "priority %d is not between -%d and %d", spec->priority, HWTS_PRIORITY_MAX,
				 HWTS_PRIORITY_MAX);
	if (spec->len > HWT_STORE_DATA_MAX)
		return hwts_fail(EINVAL,
				 "%zu bytes of data are more than 1 MiB: keep them elsewhere and put where they are",
				 spec->len);
	if (spec->len > 0 && !spec->data)
		return hwts_fail(EINVAL, "len is %zu and data is NULL", spec->len);
	if (spec->flags & ~(HWT_STORE_ABSOLUTE | CHANGES))
		return hwts_fail(EINVAL, "flags has unknown bits: %#x", spec->flags);
	if (changes && !spec->key)
		return hwts_fail(EINVAL, "HWT_STORE_REPLACE, HWT_STORE_REVIVE and HWT_STORE_KEEP_DUE need a key");
	if (changes & (changes - 1))
		return hwts_fail(EINVAL,
				 "HWT_STORE_REPLACE, HWT_STORE_REVIVE and HWT_STORE_KEEP_DUE exclude each other");
	if (spec->flags & HWT_STORE_KEEP_DUE && spec->period_ns == 0 && !spec->schedule)
		return hwts_fail(EINVAL, "HWT_STORE_KEEP_DUE needs a period or a schedule");
	if (spec->flags & HWT_STORE_ABSOLUTE && (spec->due_us < 0 || spec->due_us > HWTS_LATEST_US))
		return hwts_fail(EINVAL, "due_us is not between 1970 and the year 10000: it counts microseconds");
	return check_series(spec);
}

static int describe(const hwt_store_spec *given, struct hwts_put *put)
{
	hwt_store_spec is;
	const hwt_store_spec *spec = &is;
	int64_t first_us;
	int rc = given ? hwts_given("hwt_store_spec", given, offsetof(hwt_store_spec, group), &is, sizeof(is))
		       : hwts_fail(EINVAL, "the spec is NULL");

	if (rc == 0)
		rc = check_spec(spec);
	if (rc != 0)
		return rc;
	*put = (struct hwts_put){
		.kind_name = spec->kind,
		.group = spec->group,
		.key = spec->key,
		.priority = spec->priority,
		.data = spec->data,
		.len = spec->len,
		.absolute = (spec->flags & HWT_STORE_ABSOLUTE) != 0,
		.replace = (spec->flags & HWT_STORE_REPLACE) != 0,
		.revive = (spec->flags & HWT_STORE_REVIVE) != 0,
		.keep_due = (spec->flags & HWT_STORE_KEEP_DUE) != 0,
		.period_us = hwts_up_to_us(spec->period_ns),
		.schedule = spec->schedule,
		.zone = spec->zone,
		.grace_us = hwts_up_to_us(spec->grace_ns),
		.spread_us = hwts_up_to_us(spec->spread_ns),
	};
	put->when_us = put->absolute ? spec->due_us : hwts_up_to_us(HWTS_MAX(spec->delay_ns, 0));
	/* Wrong lines and zones are refused before the database is asked for anything. */
	return put->schedule ? hwts_calendar_next(put->schedule, put->zone,
						  put->absolute ? put->when_us : hwts_wall_us(), &first_us)
			     : 0;
}

/*
 * Sets the first time of a series, which is after the database's now.  conn NULL: a connection of conns.c is used to
 * read that clock.  On SQLite the clock is this machine's.
 */
static int set_first_time(hwt_store *store, struct hwts_conn *conn, struct hwts_put *put)
{
	int64_t now_us = hwts_wall_us();
	struct hwts_conn *mine = NULL;
	int rc = 0;

	if (put->schedule && !put->absolute && store->engine->locks_rows) {
		if (!conn)
			rc = hwts_conns_get(store, &mine);
		if (rc == 0)
			rc = hwts_rows_clock(conn ? conn : mine, conn ? HWTS_OPEN : HWTS_READS, &now_us);
		if (mine)
			rc = hwts_conns_put(store, mine, rc);
	}
	return rc ? rc : hwts_series_begin(put, now_us);
}

/* Makes the kind if there is none. */
static int prepare(hwt_store *store, const hwt_store_spec *spec, struct hwts_put *put)
{
	struct hwts_kind_row make = hwts_kind_defaults(store);
	int rc = describe(spec, put);

	if (rc == 0)
		rc = hwts_kind_of(store, spec->kind, &make, &put->kind);
	return rc == 0 ? set_first_time(store, NULL, put) : rc;
}

/* *id: the timeout's id, or the id of the timeout that has the key.  Returns rc. */
static int told(const struct hwts_put *put, int rc, int64_t *id)
{
	if (rc == EEXIST)
		(void)hwts_fail(rc, "kind %s: timeout %lld with the key \"%s\" is there", put->kind_name,
				(long long)put->found_id, put->key ? put->key : "");
	if (id && (rc == 0 || rc == ECONNRESET || rc == EEXIST))
		*id = rc == EEXIST ? put->found_id : put->id;
	return rc;
}

/*
 * Putting
 */

/*
 * A row that was put enters the window of this process if its shard is held.  A put that replaces a running row waits
 * for the end of the run.  A row that was begun by this process and has not started is given back instead.
 */
static void note(hwt_store *store, const struct hwts_put *puts, size_t n)
{
	struct hwts_due due;

	hwts_lock(store);
	for (size_t i = 0; i < n; i++) {
		if (puts[i].rc != 0)
			continue;
		HWTS_TALLY(store, put, 1);
		if (puts[i].runs)
			hwts_give_back_changed(store, puts[i].id);
		if (puts[i].runs || puts[i].stays)
			continue;
		due = (struct hwts_due){
			.id = puts[i].id, .due_us = puts[i].due_us, .shard = puts[i].shard, .len = (uint32_t)puts[i].len
		};
		hwts_due_set(&due, puts[i].group, puts[i].group ? strlen(puts[i].group) : 0, puts[i].priority);
		hwts_window_see(store, &due);
	}
	hwts_unlock(store);
}

/*
 * The reply was lost.  A put that may change a row looks for the row with its key: asking for the drawn id would tell
 * the caller that nothing was put.  id 0: the database cannot be asked now.
 */
static void find_changed(hwt_store *store, struct hwts_put *puts, size_t n)
{
	struct hwts_conn *conn = NULL;
	char text[256];
	int rc = 0;

	hwts_cut(text, sizeof(text), hwts_fail_text(), strlen(hwts_fail_text()));
	for (size_t i = 0; i < n; i++) {
		if (!hwts_changes(&puts[i]))
			continue;
		if (!conn && rc == 0)
			rc = hwts_conns_get(store, &conn);
		if (rc == 0)
			rc = hwts_rows_find(conn, puts[i].kind.id, puts[i].group, puts[i].key, &puts[i].id);
		if (rc == ENOENT) /* not put, or over by now: the id that was drawn says so as well */
			rc = 0;
		else if (rc != 0)
			puts[i].id = 0;
	}
	if (conn)
		(void)hwts_conns_put(store, conn, 0);
	(void)hwts_fail(ECONNRESET, "%s", text);
}

/* brief: other puts wait for this exchange. */
static int put(hwt_store *store, struct hwts_put *puts, size_t n, bool all, bool brief)
{
	struct hwts_conn *conn;
	int rc = hwts_conns_get(store, &conn);

	if (rc != 0)
		return rc;
	rc = hwts_numbers_give(store, conn, puts, n);
	conn->brief = brief;
	if (rc == 0)
		rc = hwts_rows_put(conn, puts, n, all);
	conn->brief = false;
	if (rc == 0)
		note(store, puts, n);
	if (hwts_conns_put(store, conn, rc) == ECONNRESET)
		find_changed(store, puts, n);
	return rc;
}

/* Executes the puts of a commit.  A put that fails for a reason of its own must not fail the others. */
void hwts_commit_puts(hwt_store *store, struct hwts_request *requests, size_t n)
{
	struct hwts_put one = { 0 }, *puts = n == 1 ? &one : hwts_alloc(n * sizeof(*puts));
	size_t i = 0;
	int rc = puts ? 0 : ENOMEM;
	bool brief = false;

	for (struct hwts_request *request = requests; request; request = request->next, i++) {
		brief |= store->engine->locks_rows && !request->alone && put_of(request)->key;
		if (puts)
			puts[i] = *put_of(request);
	}
	if (puts)
		rc = put(store, puts, n, false, brief);
	i = 0;
	for (struct hwts_request *request = requests; request; request = request->next, i++) {
		if (puts)
			*put_of(request) = puts[i];
		request->rc = rc;
		if (n > 1 && (rc == EIO || rc == ENOMEM))
			request->rc = put(store, put_of(request), 1, false, brief);
		request->alone = brief && (request->rc == EAGAIN || put_of(request)->rc == EAGAIN);
		hwts_commit_text(request);
	}
	if (puts != &one)
		free(puts);
}

int hwt_store_put(hwt_store *store, const hwt_store_spec *spec, int64_t *id)
{
	struct hwts_call call = hwts_enter();
	struct put_request request = { .base.done = false };
	int rc = hwts_check_call(store, INSTEAD);

	if (rc == 0)
		rc = prepare(store, spec, &request.put);
	if (rc != 0)
		return hwts_leave(call, rc);
	request.base.bytes = request.put.len;
	hwts_commit_do(store, store->puts, &request.base);
	rc = request.base.rc ? request.base.rc : request.put.rc;
	if (rc != 0)
		(void)hwts_fail(rc, "%s", request.base.text);
	return hwts_leave(call, told(&request.put, rc, id));
}

static int put_many(hwt_store *store, const hwt_store_spec *specs, size_t n, struct hwts_put *puts, int64_t *ids)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		const hwt_store_spec *spec = (const void *)((const char *)specs + i * specs->size);

		rc = prepare(store, spec, &puts[i]);
		if (rc == 0 && spec->size != specs->size)
			rc = hwts_fail(EINVAL, "its size is not that of the first");
		if (rc != 0)
			(void)hwts_fail(rc, "spec %zu: %s", i, hwts_fail_text());
	}
	if (rc == 0)
		rc = put(store, puts, n, true, false);
	for (size_t i = 0; i < n && ids && (rc == 0 || rc == ECONNRESET); i++)
		ids[i] = puts[i].id;
	for (size_t i = 0; i < n && rc == EEXIST; i++) {
		if (puts[i].rc == 0)
			continue;
		(void)told(&puts[i], rc, ids);
		(void)hwts_fail(rc, "spec %zu: %s", i, hwts_fail_text());
		break;
	}
	return rc;
}

int hwt_store_put_many(hwt_store *store, const hwt_store_spec *specs, size_t n, int64_t *ids)
{
	struct hwts_call call = hwts_enter();
	struct hwts_put *puts;
	int rc = hwts_check_call(store, INSTEAD);

	if (rc == 0 && !specs && n > 0)
		rc = hwts_fail(EINVAL, "the array of specs is NULL");
	if (rc == 0 && n > MANY)
		rc = hwts_fail(EINVAL, "%zu are more than %d specs: put them by several calls", n, MANY);
	if (rc != 0 || n == 0)
		return hwts_leave(call, rc);
	puts = hwts_alloc(n * sizeof(*puts));
	rc = puts ? put_many(store, specs, n, puts, ids) : ENOMEM;
	free(puts);
	return hwts_leave(call, rc);
}

/*
 * The caller's transaction may keep the store from writing: then an unknown kind can only be made inside that
 * transaction.  It may be rolled back, so the kind is not remembered.
 */
static int put_on(hwt_store *store, void *connection, struct hwts_put *put)
{
	struct hwts_kind_row make = hwts_kind_defaults(store);
	bool inside = hwts_holds_lock(store) || store->engine->blocks(connection);
	struct hwts_conn *conn;
	int rc = 0;

	if (!hwts_kind_known(store, put->kind_name, &put->kind) && !inside)
		rc = hwts_kind_of(store, put->kind_name, &make, &put->kind);
	if (rc == 0)
		rc = hwts_numbers_give_on(store, connection, put);
	if (rc == 0)
		rc = store->engine->borrow(store->db, connection, &conn);
	if (rc != 0)
		return rc;
	if (put->kind.id == 0)
		rc = hwts_kind_ask(store, conn, put->kind_name, &make, &put->kind);
	if (rc == 0)
		rc = set_first_time(store, conn, put);
	if (rc == 0)
		rc = hwts_rows_put_on(conn, put);
	return store->engine->give_back(conn, rc ? rc : put->rc);
}

int hwt_store_put_on(hwt_store *store, void *connection, const hwt_store_spec *spec, int64_t *id)
{
	struct hwts_call call = hwts_enter();
	struct hwts_put put = { 0 };
	int rc = hwts_check_store(store);

	if (rc == 0 && !connection)
		rc = hwts_fail(EINVAL, "the connection is NULL");
	if (rc == 0)
		rc = describe(spec, &put);
	if (rc == 0) {
		rc = put_on(store, connection, &put);
		hwts_numbers_refill(store);
	}
	if (rc == 0)
		HWTS_TALLY_ALONE(store, put, 1);
	return hwts_leave(call, told(&put, rc, id));
}
