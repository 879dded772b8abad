/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The processes of demo_store.c beside its main: workers, which run what is due, and the producer, which puts most
 * timeouts at once and the rest while they run, cancels some of them and moves others.
 *
 * Each is forked before its parent has opened the store, and shares nothing with it but the board.
 */
#ifndef DEMO_STORE_ROLES_H
#define DEMO_STORE_ROLES_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "demo_store_board.h"
#include "demo_store_effects.h"

#define SPAN_US INT64_C(10000000) /* in which all are due */
#define AHEAD_US INT64_C(500000)  /* a batch is put at least this long before its timeouts are due */
#define LEASE_NS HWT_S(2)
#define BATCH 100
#define PUTTERS 4
#define WORK_US 2000 /* that a task takes, outside of transactions */

struct role {
	struct board *board;
	const char *url;
	unsigned number; /* of a worker */
	hwt_store *store;
};

static void role_begin(pid_t parent)
{
	sigset_t term;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* whatever becomes of main, this process ends */
	if (getppid() != parent)
		_exit(1);
	alarm(0);
	signal(SIGALRM, SIG_DFL);
	signal(SIGINT, SIG_IGN); /* main's to handle */
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &term, NULL);
}

/* Nothing has happened where another process stands still with SQLite's lock: once more. */
#define PATIENTLY(rc, call)                                                                                            \
	do                                                                                                             \
		(rc) = (call);                                                                                         \
	while ((rc) == EAGAIN)

static bool role_open(struct role *role, const char *name)
{
	hwt_store_config config = HWT_STORE_CONFIG_INIT;
	char error[256];
	int rc;

	config.name = name;
	config.schema = SCHEMA;
	config.lease_ns = LEASE_NS;
	config.warn = NULL; /* leases are lost here on purpose; the board counts them */
	PATIENTLY(rc, hwt_store_open(&role->store, role->url, &config, error, sizeof(error)));
	if (rc == 0)
		return true;
	wrong(role->board, "%s: cannot open the store: %s", name, error);
	return false;
}

/*
 * A worker
 */

static int run_item(const hwt_store_run *run, void *ctx)
{
	struct role *role = ctx;
	struct board *board = role->board;
	unsigned number = atomic_fetch_add(&board->starts, 1), item;
	struct start *start = &board->start[number];
	int rc = 0;

	if (number >= sizeof(board->start) / sizeof(board->start[0]) || run->len != sizeof(item))
		return EPROTO;
	memcpy(&item, run->data, sizeof(item));
	*start = (struct start){ .item = item,
				 .worker = role->number,
				 .attempt = run->attempt,
				 .due_us = run->due_us,
				 .begun_us = wall_us() + board->offset_us };
	atomic_store(&start->begun, true);
	if (run->connection != NULL)
		rc = effects_add(run->connection, is_sqlite(role->url), item);
	else
		sleep_us(WORK_US);
	atomic_store(&start->done, rc == 0);
	atomic_fetch_add(&board->worker[role->number].runs, 1);
	return rc;
}

static bool worker_register(struct role *role)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	int rc;

	kind.task = run_item;
	kind.ctx = role;
	for (kind.mode = HWT_STORE_AT_LEAST_ONCE; kind.mode <= HWT_STORE_TRANSACTION; kind.mode++) {
		kind.name = kind_names[kind.mode];
		PATIENTLY(rc, hwt_store_register(role->store, &kind));
		if (rc != 0) {
			wrong(role->board, "cannot register %s: %s", kind.name, hwt_store_error());
			return false;
		}
	}
	return true;
}

static int worker_run(struct role *role)
{
	struct worker *me = &role->board->worker[role->number];
	char name[] = "worker A";
	hwt_store_stats stats = HWT_STORE_STATS_INIT;
	sigset_t term;
	int rc;

	name[7] = (char)('A' + role->number);
	if (!role_open(role, name) || !worker_register(role))
		return 1;
	PATIENTLY(rc, hwt_store_start(role->store));
	if (rc != 0) {
		wrong(role->board, "%s: cannot start: %s", name, hwt_store_error());
		return 1;
	}
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	while (sigtimedwait(&term, NULL, &(struct timespec){ 0, 50000000 }) != SIGTERM)
		if (hwt_store_read_stats(role->store, &stats) == 0) {
			atomic_store(&me->shards, (unsigned)stats.shards_held);
			atomic_store(&me->lost_leases, stats.lost_leases);
		}
	if (hwt_store_stop(role->store) != 0 || hwt_store_read_stats(role->store, &stats) != 0 ||
	    hwt_store_close(role->store) != 0)
		return 1;
	atomic_store(&me->lost_leases, stats.lost_leases);
	atomic_store(&me->ended_well, true);
	return 0;
}

/*
 * The producer
 */

struct putter {
	struct role *role;
	pthread_t thread;
	unsigned from, to; /* items */
	uint64_t random;
};

static hwt_store_spec item_spec(struct board *board, const unsigned *item)
{
	hwt_store_spec spec = HWT_STORE_SPEC_INIT;

	board->item[*item].mode = *item % 3;
	spec.kind = kind_names[*item % 3];
	spec.data = item;
	spec.len = sizeof(*item);
	return spec;
}

static void item_accepted(struct board *board, unsigned item, int64_t id)
{
	atomic_store(&board->item[item].id, id);
	atomic_store(&board->item[item].fate, ACCEPTED);
	atomic_fetch_add(&board->accepted, 1);
}

static void refused(struct board *board, const char *what, int rc)
{
	if (atomic_fetch_add(&board->refused, 1) == 0)
		wrong(board, "%s: %s (%s)", what, strerror(rc), hwt_store_error());
}

static void put_batches(struct role *role, unsigned to, uint64_t *random)
{
	struct board *board = role->board;

	for (unsigned from = 0; from < to; from += BATCH) {
		unsigned items[BATCH], n = to - from < BATCH ? to - from : BATCH;
		hwt_store_spec specs[BATCH];
		int64_t ids[BATCH];
		int rc;

		for (unsigned i = 0; i < n; i++) {
			items[i] = from + i;
			specs[i] = item_spec(board, &items[i]);
			specs[i].flags = HWT_STORE_ABSOLUTE;
			specs[i].due_us = board->start_us + board->offset_us + AHEAD_US +
					  (int64_t)draw(random, SPAN_US - AHEAD_US);
		}
		PATIENTLY(rc, hwt_store_put_many(role->store, specs, n, ids));
		for (unsigned i = 0; rc == 0 && i < n; i++)
			item_accepted(board, items[i], ids[i]);
		if (rc != 0)
			refused(board, "put_many", rc);
	}
}

/* Whichever thread put it: what becomes of an item is written by the call that succeeds. */
static void cancel_item(struct role *role, struct item *item)
{
	struct board *board = role->board;
	int rc;

	if (atomic_load(&item->fate) != ACCEPTED)
		return;
	PATIENTLY(rc, hwt_store_cancel(role->store, atomic_load(&item->id)));
	if (rc == 0) {
		item->cancelled_us = wall_us() + board->offset_us;
		if (atomic_exchange(&item->fate, CANCELLED) == CANCELLED)
			wrong(board, "two cancels of one timeout returned 0");
		atomic_fetch_add(&board->cancelled, 1);
	} else if (rc == EBUSY || rc == ENOENT) {
		atomic_fetch_add(&board->too_late, 1);
	} else {
		refused(board, "cancel", rc);
	}
}

static void move_one(struct role *role, uint64_t *random)
{
	struct board *board = role->board;
	struct item *item = &board->item[draw(random, board->items)];
	int64_t left_us = board->start_us + SPAN_US - wall_us(), delay_ns;
	int rc;

	/* One that is FAILED would run again, and those that ring at most once become that when a worker dies. */
	if (atomic_load(&item->fate) != ACCEPTED || left_us <= 0 || item->mode == HWT_STORE_AT_MOST_ONCE)
		return;
	delay_ns = 1000 * (int64_t)draw(random, (uint64_t)left_us);
	PATIENTLY(rc, hwt_store_reschedule(role->store, atomic_load(&item->id), delay_ns));
	if (rc == 0)
		atomic_fetch_add(&board->moved, 1);
	else if (rc != EBUSY && rc != ENOENT)
		refused(board, "reschedule", rc);
}

/*
 * Spread over nine seconds, each due within the next second and a half.  But every fourth is due in a moment, and is
 * cancelled just then: one of the two comes first.
 */
static void put_one(struct putter *putter, unsigned number)
{
	struct role *role = putter->role;
	struct board *board = role->board;
	hwt_store_spec spec = item_spec(board, &number);
	bool race = number % 4 == 0;
	int64_t id = 0;
	int rc;

	spec.delay_ns = race ? HWT_MS(5) : HWT_US(draw(&putter->random, 1500000));
	PATIENTLY(rc, hwt_store_put(role->store, &spec, &id));
	if (rc != 0) {
		refused(board, "put", rc);
		return;
	}
	item_accepted(board, number, id);
	if (race) {
		sleep_us(4000 + (int64_t)draw(&putter->random, 4000));
		cancel_item(role, &board->item[number]);
	}
}

static void *put_live(void *arg)
{
	struct putter *putter = arg;
	struct role *role = putter->role;
	struct board *board = role->board;

	for (unsigned number = putter->from; number < putter->to; number++) {
		sleep_us(board->start_us - wall_us() +
			 SPAN_US * 9 / 10 * (number - putter->from) / (putter->to - putter->from));
		put_one(putter, number);
		cancel_item(role, &board->item[draw(&putter->random, board->items)]);
		if (number % 3 == 0)
			move_one(role, &putter->random);
	}
	return NULL;
}

static int producer_run(struct role *role)
{
	struct board *board = role->board;
	struct putter putters[PUTTERS];
	uint64_t random = (uint64_t)board->start_us * 2 + 1;
	unsigned batched = board->items * 7 / 10, each = (board->items - batched) / PUTTERS;

	if (!role_open(role, "producer"))
		return 1;
	put_batches(role, batched, &random);
	for (unsigned i = 0; i < PUTTERS; i++) {
		putters[i] = (struct putter){ .role = role, .from = batched + i * each };
		putters[i].to = i + 1 < PUTTERS ? putters[i].from + each : board->items;
		putters[i].random = random + 2 * i;
		if (pthread_create(&putters[i].thread, NULL, put_live, &putters[i]) != 0)
			return 1;
	}
	for (unsigned i = 0; i < PUTTERS; i++)
		pthread_join(putters[i].thread, NULL);
	return hwt_store_close(role->store) == 0 ? 0 : 1;
}

#endif /* DEMO_STORE_ROLES_H */
