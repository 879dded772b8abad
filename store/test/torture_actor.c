/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An actor of the torture: a process with a store.  Two threads put, cancel and reschedule (torture_putter.c); the
 * store's threads run the timeouts; main obeys the conductor.  All answers, starts and ends go to its log.  Every
 * second actor pulls timeouts of modes without a transaction, on threads of its own.
 *
 *   SIGUSR1  stop the store and start it again        SIGTERM  close it and end
 *
 * The tasks  Most return 0 within milliseconds, tasks of groups within 150, so that limits matter.  One in 8 takes half
 *            a second or less, so that a task runs whenever a process dies.  One in 25 fails and is tried again, and
 *            one item in 97 fails until it is FAILED.  A transaction inserts its item into the table of effects, and
 *            one in four puts another timeout in it.
 */
#include "torture_actor.h"
#include "base/waits.h"

#include <poll.h>

volatile sig_atomic_t asked_to_end;
static volatile sig_atomic_t asked_to_restart;

static void on_signal(int number)
{
	if (number == SIGTERM)
		asked_to_end = 1;
	else
		asked_to_restart = 1;
}

static void log_lost(void *arg, const char *message)
{
	struct actor_self *self = arg;

	if (strstr(message, "the lease of") != NULL)
		history(self->log, "lost");
	else
		history(self->log, "said %.200s", message);
}

/*
 * The disk of SQLite: full when the conductor orders it
 */

#ifdef HWT_STORE_SQLITE
static struct orders *disk_orders;

static bool disk_is_full(void)
{
	if (atomic_load(&disk_orders->disk_full))
		errno = ENOSPC;
	return atomic_load(&disk_orders->disk_full);
}

static ssize_t disk_write(int fd, const void *data, size_t size)
{
	return disk_is_full() ? -1 : write(fd, data, size);
}

static ssize_t disk_pwrite(int fd, const void *data, size_t size, off_t at)
{
	return disk_is_full() ? -1 : pwrite(fd, data, size, at);
}

static void disk_take_over(struct orders *orders)
{
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

	disk_orders = orders;
	(void)vfs->xSetSystemCall(vfs, "write", (sqlite3_syscall_ptr)disk_write);
	(void)vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)disk_pwrite);
	(void)vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)disk_pwrite);
}
#endif

/*
 * Tasks
 */

/* A key that is in use is no failure: the transaction goes on unchanged. */
static int take_effect(struct actor_self *self, const hwt_store_run *run, uint64_t item, uint64_t *random)
{
	int rc = torture_effect(run->connection, is_sqlite(self->url), item, run->due_us);

	if (rc != 0 || draw(random, 4) != 0)
		return rc;
	rc = put_in_task(self, run, random);
	return rc == EEXIST || rc == EBUSY ? 0 : rc;
}

static int run_item(const hwt_store_run *run, void *ctx)
{
	struct actor_self *self = ctx;
	const struct hwts_running *running = (const struct hwts_running *)run; /* the epoch is not public */
	uint64_t random = hwts_mix((uint64_t)true_us()) | 1;
	uint64_t item;
	char text[32] = "";
	int64_t end_us;
	bool mine;
	int rc = 0;

	memcpy(text, run->data, run->len < sizeof(text) ? run->len : sizeof(text) - 1);
	item = strtoull(text, NULL, 10);
	history(self->log, "start %" PRIu64 " %" PRId64 " %u %u %" PRId64 " %" PRId64 " %" PRIu64, item, run->id,
		running->row->kind->row.mode, run->attempt, running->row->epoch, run->due_us, run->missed);
	if (run->connection != NULL)
		rc = take_effect(self, run, item, &random);
	else if (run->key != NULL && draw(&random, 4) == 0)
		replace_own(self, run, &random);
	else
		sleep_us((int64_t)draw(&random, draw(&random, 8) == 0 ? 500000 : run->group != NULL ? 150000 : 3000));
	if (rc == 0 && (item % 97 == 5 || draw(&random, 25) == 0))
		rc = EPROTO;
	end_us = true_us(); /* before the call: its answer may be old when it is written down */
	mine = hwt_store_is_mine(run);
	history_at(self->log, end_us, "end %" PRIu64 " %" PRId64 " %u %" PRId64 " %d %d", item, run->id, run->attempt,
		   running->row->epoch, rc, mine);
	return rc;
}

/* Pulls until the store has stopped for good.  If another process has begun the row meanwhile, the end is refused. */
static void *pull(void *arg)
{
	struct actor_self *self = arg;
	struct pollfd set = { .fd = -1, .events = POLLIN };
	int rc;

	while (hwt_store_fd(self->store, &set.fd) != 0)
		sleep_us(10000);
	do {
		hwt_store_run *run = NULL;

		rc = hwt_store_next(self->store, &run);
		if (rc == 0)
			(void)hwt_store_end(run, run_item(run, self));
		else if (rc == EAGAIN)
			(void)poll(&set, 1, 1000);
		else
			sleep_us(10000);
	} while (!(asked_to_end && rc == ECANCELED));
	return NULL;
}

static bool start_pullers(struct actor_self *self)
{
	for (unsigned i = 0; i < TORTURE_PULLERS && self->pulls; i++)
		if (pthread_create(&self->pullers[i], NULL, pull, self) != 0)
			return false;
	return true;
}

static void stop(struct actor_self *self)
{
	while (hwt_store_stop(self->store) == EBUSY) /* EBUSY: runs are out */
		sleep_us(10000);
}

/*
 * The process
 */

static bool open_and_register(struct actor_self *self, const char *name)
{
	hwt_store_config config = HWT_STORE_CONFIG_INIT;
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	char error[256];

	config.schema = SCHEMA;
	config.name = name;
	config.lease_ns = TORTURE_LEASE_NS;
	config.warn = log_lost;
	config.warn_ctx = self;
	if (hwt_store_open(&self->store, self->url, &config, error, sizeof(error)) != 0) {
		history(self->log, "said open: %s", error);
		return false;
	}
	kind.max_attempts = TORTURE_ATTEMPTS;
	kind.backoff_ns = HWT_MS(10);
	kind.backoff_max_ns = HWT_MS(100);
	for (kind.mode = 0; kind.mode < 3; kind.mode++) {
		bool pulled = self->pulls && kind.mode != HWT_STORE_TRANSACTION;

		kind.name = kind_names[kind.mode];
		kind.flags = pulled ? HWT_STORE_PULLED : 0;
		kind.concurrency = pulled ? TORTURE_PULLERS : 0;
		kind.task = pulled ? NULL : run_item;
		kind.ctx = pulled ? NULL : self;
		if (hwt_store_register(self->store, &kind) != 0) {
			history(self->log, "said register: %s", hwt_store_error());
			(void)hwt_store_close(self->store);
			return false;
		}
	}
	return true;
}

/* Tries until the store has started, or the actor is asked to end. */
static bool start(struct actor_self *self)
{
	while (!asked_to_end && hwt_store_start(self->store) != 0) {
		history(self->log, "said start: %s", hwt_store_error());
		sleep_us(50000);
	}
	return !asked_to_end;
}

/* Logs the clock in two lines: between them either offset may be in use. */
static bool take_clock(struct actor_self *self, bool first)
{
	int64_t us = atomic_load(&self->orders->wall_us);

	if (!first && atomic_load(&hwts_test_wall_us) == us)
		return false;
	history(self->log, "clock? %" PRId64, us);
	atomic_store(&hwts_test_wall_us, us);
	history(self->log, "clock %" PRId64, us);
	return true;
}

/* The kernel tells a store when the machine's clock is set; this clock is only the store's, so the actor does. */
static void set_clock(struct actor_self *self)
{
	if (!take_clock(self, false))
		return;
	pthread_mutex_lock(&self->store->lock);
	hwts_ask(self->store, HWTS_LOOK | HWTS_LOAD);
	pthread_mutex_unlock(&self->store->lock);
	if (self->store->asks->poke[1] >= 0)
		hwts_poke(self->store);
}

/* Logs why timeouts of each kind wait. */
static void say_waits(struct actor_self *self)
{
	for (unsigned kind = 0; kind < 3; kind++) {
		hwt_store_stats stats = HWT_STORE_STATS_INIT;
		char text[256] = "";
		size_t at = 0;

		if (hwt_store_read_kind_stats(self->store, kind_names[kind], &stats) != 0)
			continue;
		for (size_t why = HWT_STORE_STARTS + 1; why < HWT_STORE_WAITS; why++)
			if (stats.waiting[why] > 0 && at < sizeof(text))
				at += (size_t)snprintf(text + at, sizeof(text) - at, " %s=%" PRIu64,
						       hwts_wait_word(why), stats.waiting[why]);
		if (at > 0)
			history(self->log, "waits %u%s", kind, text);
	}
}

/* Logs the clock for a reader. */
static void say_clock(struct actor_self *self)
{
	history(self->log, "said its clock is ahead by %" PRId64 " s", (wall_us() - true_us()) / 1000000);
}

int torture_actor(const char *url, const char *folder, const char *name, unsigned number, uint64_t seed)
{
	static struct actor_self the_actor;
	struct actor_self *self = &the_actor;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGTERM, on_signal);
	(void)signal(SIGUSR1, on_signal);
	(void)sigprocmask(SIG_UNBLOCK, torture_signals(), NULL);
	self->url = url;
	self->orders = orders_map(folder);
	self->log = history_open(folder, name);
	self->first_item = (uint64_t)number * 1000000;
	self->pulls = number % 2 == 0;
	if (self->orders == NULL || self->log < 0 || !torture_note_pauses(&self->log))
		return 2;
	say_clock(self);
#ifdef HWT_STORE_SQLITE
	disk_take_over(self->orders);
#endif
	(void)take_clock(self, true);
	while (!open_and_register(self, name)) {
		if (asked_to_end)
			return 0;
		sleep_us(50000);
	}
	while (!asked_to_end && !torture_limits(self->store, self->log))
		sleep_us(50000);
	if (!putters_start(self, seed + (uint64_t)number * 16) || !start_pullers(self))
		return 2;
	(void)start(self);
	for (unsigned i = 1; !asked_to_end; i++) {
		sleep_us(10000);
		set_clock(self);
		if (i % 50 == 0)
			say_waits(self);
		if (!asked_to_restart)
			continue;
		asked_to_restart = 0;
		stop(self);
		(void)start(self);
	}
	say_clock(self);
	putters_join(self);
	stop(self);
	for (unsigned i = 0; i < TORTURE_PULLERS && self->pulls; i++)
		pthread_join(self->pullers[i], NULL);
	return hwt_store_close(self->store) == 0 ? 0 : 4;
}
