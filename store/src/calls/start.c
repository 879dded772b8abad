/* SPDX-License-Identifier: BSD-2-Clause */
/* Starting and stopping the threads of a store. */
#include "ahead/ahead.h"
#include "runs/pulled.h"
#include "runs/begun.h"
#include "runs/poll.h"
#include "share/share.h"
#include "store/ability.h"
#include "store/asks.h"
#include "store/clock.h"
#include "store/ends.h"
#include "store/conns.h"
#include "store/run.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

/* The caller holds store->lock. */
static void set_phase(hwt_store *store, enum hwts_phase phase)
{
	store->life->phase = phase;
	hwts_poll_start(store, phase == HWTS_STARTED);
}

/*
 * Starting
 */

static const enum hwts_role roles[] = { HWTS_CONTROL, HWTS_BEGIN, HWTS_READ, HWTS_END };

static int connect_all(hwt_store *store)
{
	int rc = 0;

	for (size_t i = 0; i < HWTS_COUNT(roles) && rc == 0; i++)
		rc = hwts_connect(store, roles[i], hwts_conn_of(store, roles[i]));
	return rc;
}

static void disconnect_all(hwt_store *store)
{
	for (size_t i = 0; i < HWTS_COUNT(roles); i++) {
		struct hwts_conn **conn = hwts_conn_of(store, roles[i]);

		if (*conn)
			store->engine->disconnect(*conn);
		*conn = NULL;
	}
}

/* The last part of a stop, or of a start that failed. */
static void clean_up(hwt_store *store)
{
	disconnect_all(store);
	hwts_fails_forget(store);
	hwts_window_close(store);
	hwts_asks_close(store);
	hwts_lock(store);
	hwts_share_close(store);
	set_phase(store, HWTS_STOPPED);
	hwts_trust(store, 0);
	hwts_ability_forget(store);
	hwts_shards_reset(store);
	hwts_reader_reset(store);
	hwts_unlock(store);
}

/* Ends the threads that were started.  Shards that control has not given are left until the lease ends. */
static void end_threads(hwt_store *store)
{
	hwts_lock(store);
	hwts_halt(store, HWTS_BEGIN);
	hwts_halt(store, HWTS_READ);
	hwts_halt_reads(store->db, true);
	hwts_stir(store);
	hwts_unlock(store);
	hwts_threads_join(store, HWTS_BEGIN);
	hwts_threads_join(store, HWTS_READ);
	hwts_lock(store);
	hwts_give_back_queued(store, true);
	hwts_halt(store, HWTS_TASK);
	hwts_unlock(store);
	hwts_threads_join(store, HWTS_TASK);
	hwts_lock(store);
	hwts_ends_until(store, hwt_now() + store->config.lease_ns);
	hwts_halt(store, HWTS_END);
	hwts_unlock(store);
	hwts_threads_join(store, HWTS_END);
	hwts_lock(store);
	hwts_halt(store, HWTS_CONTROL);
	hwts_unlock(store);
	hwts_poke(store);
	hwts_threads_join(store, HWTS_CONTROL);
}

static int start_threads(hwt_store *store)
{
	int rc = hwts_threads_start(store, HWTS_TASK, hwts_task, store->config.threads);

	if (rc == 0)
		rc = hwts_threads_start(store, HWTS_BEGIN, hwts_beginner, 1);
	if (rc == 0)
		rc = hwts_threads_start(store, HWTS_READ, hwts_reader, 1);
	if (rc == 0)
		rc = hwts_threads_start(store, HWTS_END, hwts_ender, 1);
	if (rc == 0)
		rc = hwts_threads_start(store, HWTS_CONTROL, hwts_control, 1);
	if (rc != 0)
		end_threads(store);
	return rc;
}

/* Control waits for locks only as long as its lease allows; a start is tried for as long as any other call waits. */
#define START_PATIENCE_NS HWT_S(10)

static int join(hwt_store *store)
{
	int64_t until_ns = hwt_now() + START_PATIENCE_NS;
	int rc;

	do
		rc = hwts_share_join(store);
	while (rc == EAGAIN && hwt_now() < until_ns);
	return rc;
}

static int start(hwt_store *store)
{
	int64_t next_ns;
	int rc = hwts_share_open(store), shards = 0;

	hwts_halt_reads(store->db, false);
	if (rc == 0)
		rc = hwts_asks_open(store);
	if (rc == 0)
		rc = hwts_window_open(store);
	if (rc == 0)
		rc = connect_all(store);
	if (rc == 0)
		rc = store->engine->listen(hwts_conn(store, HWTS_CONTROL), NULL, 0, true);
	if (rc == 0)
		rc = join(store);
	if (rc == 0) {
		hwts_lock(store);
		set_phase(store, HWTS_STARTED);
		hwts_unlock(store);
		rc = hwts_share_look(store, &next_ns, &shards);
	}
	if (rc == 0 && store->share->bare) /* else control tries again */
		rc = shards;
	if (rc == 0)
		rc = start_threads(store);
	if (rc != 0) {
		hwts_share_leave(store);
		clean_up(store);
	}
	return rc;
}

int hwt_store_start(hwt_store *store)
{
	struct hwts_call call = hwts_enter();
	int rc = hwts_check_store(store);

	if (rc != 0 || hwts_in_task_of(store))
		return hwts_leave(call, rc);
	pthread_mutex_lock(&store->life->lock);
	if (store->life->has_stopper || hwts_phase(store) == HWTS_STOPPING)
		rc = hwts_fail(EBUSY, "the store is being stopped: runs of it have not ended");
	else if (hwts_phase(store) == HWTS_STOPPED)
		rc = start(store);
	pthread_mutex_unlock(&store->life->lock);
	return hwts_leave(call, rc);
}

/*
 * Stopping
 */

/* Gives shards in which nothing runs at once, and the others when their runs have ended. */
static void begin_stop(hwt_store *store)
{
	hwts_lock(store);
	set_phase(store, HWTS_STOPPING);
	hwts_halt(store, HWTS_BEGIN);
	hwts_shards_give(store);
	hwts_give_back_queued(store, true);
	if (hwts_shards_active(store) > 0)
		hwts_ask(store, HWTS_LOOK); /* other processes should get these shards before the tasks have ended */
	hwts_unlock(store);
	hwts_poke(store);
}

static int check_stop(hwt_store *store)
{
	int rc = hwts_check_store(store);

	return rc == 0 && hwts_in_task_of(store) ? hwts_fail(EDEADLK, "a task cannot stop its own store") : rc;
}

/* The stopper thread has ended. */
static void join_stopper(hwt_store *store)
{
	pthread_join(store->life->stopper, NULL);
	store->life->has_stopper = false;
	clean_up(store);
}

int hwt_store_stop(hwt_store *store)
{
	struct hwts_call call = hwts_enter();
	int rc = check_stop(store);

	if (rc != 0)
		return hwts_leave(call, rc);
	pthread_mutex_lock(&store->life->lock);
	if (!store->life->has_stopper && hwts_phase(store) != HWTS_STOPPED)
		begin_stop(store);
	if (hwts_pulled_out(store) > 0) {
		rc = hwts_fail(EBUSY, "runs that were pulled have not ended: stop again when they have");
	} else if (store->life->has_stopper) {
		join_stopper(store);
	} else if (hwts_phase(store) != HWTS_STOPPED) {
		end_threads(store);
		clean_up(store);
	}
	pthread_mutex_unlock(&store->life->lock);
	return hwts_leave(call, rc);
}

/*
 * Stopping within a time
 */

static void *run_stopper(void *arg)
{
	hwt_store *store = arg;

	begin_stop(store);
	hwts_pulled_await(store);
	end_threads(store);
	hwts_lock(store);
	store->life->stopper_done = true;
	hwts_stir(store);
	hwts_unlock(store);
	return NULL;
}

/* Returns true if the stopper thread has ended in time. */
static bool wait_stopped(hwt_store *store, int64_t until_ns)
{
	bool done;

	hwts_lock(store);
	while (!store->life->stopper_done && hwt_now() < until_ns)
		hwts_wait_stirred(store, HWTS_MIN(until_ns - hwt_now(), HWT_S(1)));
	done = store->life->stopper_done;
	hwts_unlock(store);
	return done;
}

/* Gives the shards, whatever runs there.  If the database does not answer, they are lost when the lease is over. */
static void abandon(hwt_store *store)
{
	hwts_lock(store);
	hwts_share_abandon(store);
	hwts_unlock(store);
	hwts_poke(store);
	hwts_lock(store);
	while (!store->life->stopper_done && hwts_shards_held(store) > 0 && hwts_trusted(store))
		hwts_wait_stirred(store, HWT_MS(5));
	hwts_unlock(store);
}

/* The caller holds life->lock. */
static int stop_within(hwt_store *store, int64_t until_ns)
{
	int rc;

	if (!store->life->has_stopper) {
		store->life->stopper_done = false;
		rc = hwts_thread(&store->life->stopper, run_stopper, store);
		if (rc != 0)
			return hwts_fail_errno(rc, "a thread");
		store->life->has_stopper = true;
		begin_stop(store); /* at once, even if the new thread is slow to begin */
	}
	if (!wait_stopped(store, until_ns)) {
		abandon(store);
		return hwts_fail(ETIMEDOUT,
				 "tasks, or the database, have taken longer than that: the shards are given back");
	}
	join_stopper(store);
	return 0;
}

int hwt_store_stop_within(hwt_store *store, int64_t ns)
{
	struct hwts_call call = hwts_enter();
	int64_t until_ns = hwt_now() + HWTS_MAX(HWTS_MIN(ns, INT64_MAX / 4), 0);
	int rc = check_stop(store);

	if (rc != 0)
		return hwts_leave(call, rc);
	pthread_mutex_lock(&store->life->lock);
	if (hwts_phase(store) != HWTS_STOPPED)
		rc = stop_within(store, until_ns);
	pthread_mutex_unlock(&store->life->lock);
	return hwts_leave(call, rc);
}
