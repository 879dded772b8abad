/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Starting and stopping: the threads of a store, and what they need.
 */
#define _GNU_SOURCE
#include "core/store.h"

#include <fcntl.h>
#include <unistd.h>

/*
 * Starting
 */

static int open_pipe(hwt_store *store)
{
	return pipe2(store->poke, O_NONBLOCK | O_CLOEXEC) == 0 ? 0 : hwts_fail_errno(errno, "pipe2");
}

static int prepare_renewal(hwt_store *store)
{
	size_t kinds = 0;
	int64_t *ids;

	pthread_mutex_lock(&store->lock);
	HWTS_EACH_KIND (store, kind)
		kinds++;
	pthread_mutex_unlock(&store->lock);
	if (kinds == 0)
		return hwts_fail(EINVAL, "no kind is registered: a process that only puts need not start");
	store->renewal = (struct hwts_renewal){ .kind_count = kinds };
	ids = hwts_alloc(kinds * sizeof(*ids));
	store->renewal.kinds = ids;
	store->renewal.members = hwts_alloc(kinds * sizeof(*store->renewal.members));
	if (!ids || !store->renewal.members) {
		free(ids);
		store->renewal.kinds = NULL;
		return ENOMEM;
	}
	kinds = 0;
	pthread_mutex_lock(&store->lock);
	HWTS_EACH_KIND (store, kind)
		ids[kinds++] = kind->row.id;
	pthread_mutex_unlock(&store->lock);
	return 0;
}

static int connect_all(hwt_store *store)
{
	int rc = hwts_connect(store, HWTS_CONTROL, &store->control_conn);

	if (rc == 0)
		rc = store->engine->connect(store->db, HWTS_BEGIN, &store->begin_conn);
	if (rc == 0)
		rc = store->engine->connect(store->db, HWTS_READ, &store->read_conn);
	if (rc == 0)
		rc = store->engine->connect(store->db, HWTS_END, &store->end_conn);
	return rc;
}

static void disconnect_all(hwt_store *store)
{
	struct hwts_conn **conns[] = { &store->control_conn, &store->begin_conn, &store->read_conn, &store->end_conn };

	for (size_t i = 0; i < HWTS_COUNT(conns); i++) {
		if (*conns[i])
			store->engine->disconnect(*conns[i]);
		*conns[i] = NULL;
	}
}

/* The last part of a stop, and of a start that failed. */
static void clean_up(hwt_store *store)
{
	int64_t *kinds = (int64_t *)(uintptr_t)store->renewal.kinds; /* prepare_renewal made it */

	disconnect_all(store);
	if (store->joined && store->name[0] != '\0')
		hwts_cut(store->name, sizeof(store->name), hwts_me(store->db), strlen(hwts_me(store->db)));
	hwts_set_me(store->db, store->putter);
	hwts_window_close(store);
	for (int i = 0; i < 2; i++)
		if (store->poke[i] >= 0)
			close(store->poke[i]);
	if (store->clock_fd >= 0)
		close(store->clock_fd);
	store->poke[0] = store->poke[1] = store->clock_fd = -1;
	free(kinds);
	free(store->renewal.members);
	free(store->renewal.shards);
	store->renewal = (struct hwts_renewal){ .kinds = NULL };
	free(store->task_threads);
	store->task_threads = NULL;
	store->task_count = 0;
	pthread_mutex_lock(&store->lock);
	store->phase = HWTS_STOPPED;
	store->trusted_ns = 0;
	store->joined = store->abandons = false;
	store->ability = (struct hwts_ability){ .failed_ns = 0 };
	HWTS_EACH_KIND (store, kind)
		kind->behind = false;
	HWTS_EACH_SHARD (store, kind, shard)
		*shard = (struct hwts_shard){ .id = shard->id };
	store->stats.shards_held = 0;
	store->read_again = store->sweep_due = store->unread = false;
	pthread_mutex_unlock(&store->lock);
}

/* Ends the threads that have been started; what control has not given back it leaves to the lease. */
static void end_threads(hwt_store *store, unsigned tasks, unsigned others)
{
	pthread_mutex_lock(&store->lock);
	store->begin_halt = store->read_halt = true;
	hwts_halt_reads(store->db, true);
	pthread_cond_broadcast(&store->begin_work);
	pthread_cond_broadcast(&store->read_work);
	pthread_cond_broadcast(&store->drained);
	pthread_mutex_unlock(&store->lock);
	if (others > 0)
		pthread_join(store->beginner_thread, NULL);
	if (others > 1)
		pthread_join(store->reader_thread, NULL);
	pthread_mutex_lock(&store->lock);
	store->task_halt = true;
	hwts_give_back_queued(store, true);
	pthread_cond_broadcast(&store->task_work);
	pthread_mutex_unlock(&store->lock);
	for (unsigned i = 0; i < tasks; i++)
		pthread_join(store->task_threads[i], NULL);
	pthread_mutex_lock(&store->lock);
	store->end_halt = true;
	store->ends_until_ns = hwt_now() + store->config.lease_ns;
	pthread_cond_broadcast(&store->end_work);
	pthread_mutex_unlock(&store->lock);
	if (others > 2)
		pthread_join(store->ender_thread, NULL);
	pthread_mutex_lock(&store->lock);
	store->control_halt = true;
	pthread_mutex_unlock(&store->lock);
	hwts_poke(store);
	if (others > 3)
		pthread_join(store->control_thread, NULL);
}

static int start_threads(hwt_store *store)
{
	struct {
		pthread_t *thread;
		void *(*run)(void *);
	} others[] = {
		{ &store->beginner_thread, hwts_beginner },
		{ &store->reader_thread, hwts_reader },
		{ &store->ender_thread, hwts_ender },
		{ &store->control_thread, hwts_control },
	};
	unsigned tasks = 0, count = 0;
	int rc = 0;

	store->begin_halt = store->read_halt = store->task_halt = store->end_halt = store->control_halt = false;
	while (rc == 0 && tasks < store->task_count) {
		rc = hwts_thread(&store->task_threads[tasks], hwts_task_thread, store);
		tasks += rc == 0;
	}
	while (rc == 0 && count < HWTS_COUNT(others)) {
		rc = hwts_thread(others[count].thread, others[count].run, store);
		count += rc == 0;
	}
	if (rc != 0) {
		(void)hwts_fail_errno(rc, "a thread");
		end_threads(store, tasks, count);
	}
	return rc;
}

static int start(hwt_store *store)
{
	int64_t next_ns;
	int rc = prepare_renewal(store);

	hwts_halt_reads(store->db, false);
	if (rc == 0)
		rc = open_pipe(store);
	if (rc == 0)
		rc = hwts_window_open(store);
	if (rc == 0) {
		store->task_threads = hwts_alloc(store->config.threads * sizeof(*store->task_threads));
		store->task_count = store->config.threads;
		rc = store->task_threads ? connect_all(store) : ENOMEM;
	}
	if (rc == 0)
		rc = store->engine->listen(store->control_conn, NULL, 0, true);
	if (rc == 0)
		rc = hwts_share_join(store, true);
	if (rc == 0) {
		pthread_mutex_lock(&store->lock);
		store->phase = HWTS_STARTED;
		pthread_mutex_unlock(&store->lock);
		rc = hwts_share_look(store, &next_ns);
	}
	if (rc == 0)
		rc = start_threads(store);
	if (rc != 0) {
		if (store->joined)
			(void)hwts_rows_leave(store->control_conn);
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
	pthread_mutex_lock(&store->life);
	if (store->has_stopper)
		rc = hwts_fail(EBUSY, "the store is being stopped: tasks of it still run");
	else if (store->phase == HWTS_STOPPED)
		rc = start(store);
	pthread_mutex_unlock(&store->life);
	return hwts_leave(call, rc);
}

/*
 * Stopping
 */

/* Shards in which nothing runs go at once; the others when their tasks have ended. */
static void stop(hwt_store *store)
{
	pthread_mutex_lock(&store->lock);
	store->phase = HWTS_STOPPING;
	store->begin_halt = true;
	HWTS_EACH_SHARD (store, kind, shard)
		shard->giving = shard->held;
	hwts_give_back_queued(store, true);
	pthread_mutex_unlock(&store->lock);
	hwts_poke(store);
	end_threads(store, store->task_count, 4);
}

static int check_stop(hwt_store *store)
{
	int rc = hwts_check_store(store);

	return rc == 0 && hwts_in_task_of(store) ? hwts_fail(EDEADLK, "a task cannot stop its own store") : rc;
}

/* The thread of a stop that need not come to its end has come to it. */
static void join_stopper(hwt_store *store)
{
	pthread_join(store->stopper, NULL);
	store->has_stopper = false;
	clean_up(store);
}

int hwt_store_stop(hwt_store *store)
{
	struct hwts_call call = hwts_enter();
	int rc = check_stop(store);

	if (rc != 0)
		return hwts_leave(call, rc);
	pthread_mutex_lock(&store->life);
	if (store->has_stopper) {
		join_stopper(store);
	} else if (store->phase != HWTS_STOPPED) {
		stop(store);
		clean_up(store);
	}
	pthread_mutex_unlock(&store->life);
	return hwts_leave(call, 0);
}

/*
 * Within a time
 */

static void *run_stopper(void *arg)
{
	hwt_store *store = arg;

	stop(store);
	pthread_mutex_lock(&store->lock);
	store->stopper_done = true;
	pthread_cond_broadcast(&store->drained);
	pthread_mutex_unlock(&store->lock);
	return NULL;
}

/* True: it has stopped. */
static bool wait_stopped(hwt_store *store, int64_t until_ns)
{
	bool done;

	pthread_mutex_lock(&store->lock);
	while (!store->stopper_done && hwt_now() < until_ns)
		hwts_wait_ns(&store->drained, &store->lock, HWTS_MIN(until_ns - hwt_now(), HWT_S(1)));
	done = store->stopper_done;
	pthread_mutex_unlock(&store->lock);
	return done;
}

/* Gives the shards, whatever runs there; without an answer of the database they are lost when the lease is over. */
static void abandon(hwt_store *store)
{
	pthread_mutex_lock(&store->lock);
	store->abandons = true;
	pthread_mutex_unlock(&store->lock);
	hwts_poke(store);
	pthread_mutex_lock(&store->lock);
	while (!store->stopper_done && store->stats.shards_held > 0 && hwts_trusted(store))
		hwts_wait_ns(&store->drained, &store->lock, HWT_MS(5));
	pthread_mutex_unlock(&store->lock);
}

/* With life. */
static int stop_within(hwt_store *store, int64_t until_ns)
{
	int rc;

	if (!store->has_stopper) {
		store->stopper_done = false;
		rc = hwts_thread(&store->stopper, run_stopper, store);
		if (rc != 0)
			return hwts_fail_errno(rc, "a thread");
		store->has_stopper = true;
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
	pthread_mutex_lock(&store->life);
	if (store->phase != HWTS_STOPPED)
		rc = stop_within(store, until_ns);
	pthread_mutex_unlock(&store->life);
	return hwts_leave(call, rc);
}
