/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cancel and reschedule: one timeout, many, or one on a connection of the caller.
 */
#include "runs/begun.h"
#include "store/commit.h"
#include "store/conns.h"
#include "store/run.h"
#include "store/store.h"
#include "store/which.h"
#include "window/window.h"

#define LOOKS 10 /* tries for a key whose timeout changes meanwhile */

/*
 * Cancel, reschedule
 */

struct cancel_request {
	struct hwts_request base;
	int64_t id;
};

static int64_t id_of(const struct hwts_request *request)
{
	return ((const struct cancel_request *)request)->id; /* base is the first member */
}

/*
 * Cancels all in one transaction.  A request whose row is locked, or that fails, is executed alone by its own thread,
 * and only then waits for a lock.
 */
void hwts_commit_cancels(hwt_store *store, struct hwts_request *requests, size_t n)
{
	int64_t *ids = hwts_alloc(n * (sizeof(*ids) + sizeof(int)));
	struct hwts_conn *conn;
	bool alone = requests->alone;
	size_t i = 0;
	int rc = ids ? hwts_conns_get(store, &conn) : ENOMEM;

	HWTS_POINT("cancels");
	for (const struct hwts_request *request = requests; request && ids; request = request->next)
		ids[i++] = id_of(request);
	if (rc == 0)
		rc = hwts_conns_put(store, conn,
				    alone ? hwts_rows_cancel(conn, ids[0], HWTS_NOT_BEGUN, HWTS_ALL_STATES, false)
					  : hwts_rows_cancel_all(conn, ids, (int *)(ids + n), n, HWTS_ALL_STATES));
	i = 0;
	for (struct hwts_request *request = requests; request; request = request->next, i++) {
		request->rc = rc || alone ? rc : ((int *)(ids + n))[i];
		if (rc == 0 && (request->rc == ENOENT || request->rc == EBUSY))
			(void)hwts_rows_explain(request->rc, ids[i]);
		hwts_commit_text(request);
		request->alone = !alone && (request->rc == EINTR || rc == EIO || rc == ENOMEM);
	}
	free(ids);
}

/*
 * A row that was begun by this process and has not started is pending for the caller.  rc: the result of the cancel in
 * the database.  before: what hwts_begin_before returned earlier.
 */
static int cancel_begun(hwt_store *store, const struct hwts_about *about, uint64_t before, int rc)
{
	bool pending = about->states & 1u << HWT_STORE_PENDING;
	struct hwts_row *row;
	struct hwts_conn *conn;
	int found = pending ? hwts_unbegin(store, about->id, before, &row) : EBUSY;

	if (found != 0)
		return found == EBUSY ? rc : found;
	rc = hwts_conns_get(store, &conn);
	if (rc == 0)
		rc = hwts_conns_put(store, conn, hwts_rows_cancel(conn, about->id, row->epoch, about->states, false));
	hwts_unbegun(store, row, rc == 0, NULL);
	return rc;
}

static int cancel_shared(hwt_store *store, const struct hwts_about *about)
{
	int rc;

	do {
		struct cancel_request request = { .id = about->id };
		uint64_t before = hwts_begin_before(store, about->id);

		hwts_commit_do(store, store->cancels, &request.base);
		rc = request.base.rc ? hwts_fail(request.base.rc, "%s", request.base.text) : 0;
		if (rc == EBUSY)
			rc = cancel_begun(store, about, before, rc);
	} while (rc == EINTR);
	return rc;
}

static int cancel_it(struct hwts_conn *conn, struct hwts_about *about, void *ctx)
{
	(void)ctx;
	return hwts_rows_cancel(conn, about->id, HWTS_NOT_BEGUN, about->states, false);
}

static int cancel_in_states(hwt_store *store, struct hwts_about *about)
{
	int rc;

	do {
		uint64_t before = hwts_begin_before(store,
						    /*
						     * By key: the id is unknown the first time, so before is 0, and the
						     * database is asked again.
						     */
						    about->id);

		rc = hwts_about_do(store, about, cancel_it, NULL);
		if (rc == EBUSY || rc == ENOENT)
			rc = cancel_begun(store, about, before, rc);
	} while (rc == EINTR);
	return rc;
}

/* Cancels of any state share commits. */
static int cancel_one_of(hwt_store *store, struct hwts_about *about)
{
	int rc = 0;

	if (about->states != HWTS_ALL_STATES)
		return cancel_in_states(store, about);
	if (!about->by_key)
		return cancel_shared(store, about);
	/* Between the search for the key and the cancel the timeout may end, and another be put with that key. */
	for (int i = 0; i < LOOKS; i++) {
		rc = hwts_about_do(store, about, NULL, NULL);
		if (rc == 0)
			rc = cancel_shared(store, about);
		else
			break;
		if (rc != ENOENT)
			break;
	}
	return rc;
}

static int cancel(hwt_store *store, const hwt_store_which *which, uint64_t *n)
{
	struct hwts_about about;
	uint64_t count = 0;
	int rc = hwts_check_call(store, HWTS_LATER);

	if (rc == 0)
		rc = hwts_about_of(which, HWTS_MAY_BE_MANY, &about);
	if (rc == 0 && about.all) {
		rc = hwts_many(store, &about, NULL, &count);
	} else if (rc == 0) {
		rc = cancel_one_of(store, &about);
		count = rc == 0;
	}
	if (n)
		*n = count;
	if (count == 0 || about.all)
		return rc;
	hwts_lock(store); /* an ARMED entry of the row is not needed any more */
	HWTS_TALLY(store, cancelled, 1);
	hwts_window_forget(store, about.id);
	hwts_give_back_changed(store, about.id);
	hwts_unlock(store);
	return rc;
}

int hwt_store_cancel_ex(hwt_store *store, const hwt_store_which *which, uint64_t *n)
{
	struct hwts_call call = hwts_enter();

	return hwts_leave(call, cancel(store, which, n));
}

int hwt_store_cancel(hwt_store *store, int64_t id)
{
	return hwt_store_cancel_ex(store, &HWTS_BY_ID(id, 0), NULL);
}

int hwt_store_cancel_key(hwt_store *store, const char *kind, const char *key)
{
	return hwt_store_cancel_ex(store, &HWTS_BY_KEY(kind, key), NULL);
}

struct moving {
	hwt_store *store;
	struct hwts_move move;
	struct hwts_due due;
};

static int move_it(struct hwts_conn *conn, struct hwts_about *about, void *ctx)
{
	struct moving *moving = ctx;

	return hwts_rows_reschedule(conn, about->id, &moving->move, &moving->due);
}

/* A row that was begun by this process and has not started is pending. */
static int move_begun(struct hwts_conn *conn, struct hwts_about *about, void *ctx)
{
	struct moving *moving = ctx;
	struct hwts_row *row;
	int rc, found;

	do {
		uint64_t before = hwts_begin_before(moving->store, about->id);

		rc = move_it(conn, about, ctx);
		if (rc != EBUSY || !(about->states & 1u << HWT_STORE_PENDING))
			return rc;
		found = hwts_unbegin(moving->store, about->id, before, &row);
	} while (found == EINTR);
	if (found != 0)
		return found;
	moving->move.epoch = row->epoch;
	rc = move_it(conn, about, ctx);
	moving->move.epoch = HWTS_NOT_BEGUN;
	hwts_unbegun(moving->store, row, rc == 0, &moving->due);
	return rc;
}

static int check_when(hwt_store_when when, struct hwts_move *move)
{
	if (when.due_us < 0 || when.due_us > HWTS_LATEST_US)
		return hwts_fail(EINVAL, "due_us is not between 1970 and the year 10000: it counts microseconds");
	move->absolute = when.due_us != 0;
	move->when_us = move->absolute ? when.due_us : hwts_up_to_us(HWTS_MAX(when.delay_ns, 0));
	return 0;
}

static int move_one(hwt_store *store, struct hwts_about *about, struct moving *moving)
{
	uint64_t heard = 0;
	int rc = about->by_key ? hwts_about_do(store, about, NULL, NULL) : 0;

	if (rc == 0) {
		hwts_lock(store);
		heard = hwts_window_heard(store, about->id);
		hwts_unlock(store);
		rc = hwts_about_do(store, about, move_begun, moving);
	}
	HWTS_POINT("rescheduled");
	if (rc == 0) {
		hwts_lock(store);
		hwts_window_move(store, &moving->due, heard);
		HWTS_TALLY(store, rescheduled, 1);
		hwts_unlock(store);
	}
	return rc;
}

static int reschedule(hwt_store *store, const hwt_store_which *which, hwt_store_when when, uint64_t *n)
{
	struct moving moving = { .store = store, .move.epoch = HWTS_NOT_BEGUN };
	struct hwts_about about;
	uint64_t count = 0;
	int rc = hwts_check_call(store, HWTS_LATER);

	if (rc == 0)
		rc = hwts_about_of(which, HWTS_MAY_BE_MANY | HWTS_MOVES, &about);
	if (rc == 0)
		rc = check_when(when, &moving.move);
	if (rc == 0) {
		moving.move.states = about.states;
		rc = about.all ? hwts_many(store, &about, &moving.move, &count) : move_one(store, &about, &moving);
		count += rc == 0 && !about.all;
	}
	if (n)
		*n = count;
	return rc;
}

int hwt_store_reschedule_ex(hwt_store *store, const hwt_store_which *which, hwt_store_when when, uint64_t *n)
{
	struct hwts_call call = hwts_enter();

	return hwts_leave(call, reschedule(store, which, when, n));
}

int hwt_store_reschedule(hwt_store *store, int64_t id, int64_t delay_ns)
{
	return hwt_store_reschedule_ex(store, &HWTS_BY_ID(id, 1u << HWT_STORE_PENDING | 1u << HWT_STORE_FAILED),
				       (hwt_store_when){ .delay_ns = delay_ns }, NULL);
}

/*
 * On a connection of the caller
 */

static int do_on(hwt_store *store, void *connection, struct hwts_about *about, hwts_do_it *act, void *ctx)
{
	struct hwts_conn *conn;
	int rc = connection ? 0 : hwts_fail(EINVAL, "the connection is NULL");

	if (rc == 0)
		rc = store->engine->borrow(store->db, connection, &conn);
	if (rc != 0)
		return rc;
	rc = hwts_rows_here(conn);
	if (rc == 0 && about->by_key) /* the kind as this transaction sees it */
		rc = hwts_rows_kind(conn, about->kind, NULL, &about->row);
	if (rc == 0)
		rc = hwts_about_do_on(conn, about, act, ctx);
	return store->engine->give_back(conn, rc);
}

/* If the row runs, its replacement is dropped, and that change stays. */
static int cancel_it_on(struct hwts_conn *conn, struct hwts_about *about, void *ctx)
{
	int rc = cancel_it(conn, about, NULL);

	*(bool *)ctx = rc == EBUSY;
	return rc == EBUSY ? 0 : rc;
}

int hwt_store_cancel_on(hwt_store *store, void *connection, const hwt_store_which *which)
{
	struct hwts_call call = hwts_enter();
	struct hwts_about about;
	bool runs = false;
	int rc = hwts_check_store(store);

	if (rc == 0)
		rc = hwts_about_of(which, 0, &about);
	if (rc == 0)
		rc = do_on(store, connection, &about, cancel_it_on, &runs);
	if (rc == 0 && runs)
		rc = hwts_rows_explain(EBUSY, about.id);
	if (rc == 0)
		HWTS_TALLY_ALONE(store, cancelled, 1);
	return hwts_leave(call, rc);
}

int hwt_store_reschedule_on(hwt_store *store, void *connection, const hwt_store_which *which, hwt_store_when when)
{
	struct hwts_call call = hwts_enter();
	struct moving moving = { .move = { .tells_all = true, .epoch = HWTS_NOT_BEGUN } };
	struct hwts_about about;
	int rc = hwts_check_store(store);

	if (rc == 0)
		rc = hwts_about_of(which, HWTS_MOVES, &about);
	if (rc == 0)
		rc = check_when(when, &moving.move);
	if (rc == 0) {
		moving.move.states = about.states;
		rc = do_on(store, connection, &about, move_it, &moving);
	}
	if (rc == 0)
		HWTS_TALLY_ALONE(store, rescheduled, 1);
	return hwts_leave(call, rc);
}
