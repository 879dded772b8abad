/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The acts of the nemesis against the actors and the database beneath them.  Each act is written to the log of the
 * nemesis before it is done, so that history.pl knows which delays to excuse.
 *
 *   kill      kill -9, and a new process in its place within a second
 *   freeze    SIGSTOP for longer than the lease, or for a moment, and SIGCONT
 *   restart   hwt_store_stop and hwt_store_start in a process that lives on
 *   quit      SIGTERM: the actor closes its store, and a new process takes its place
 *   pause     of a group or a kind, which is resumed after some seconds
 *   lock      a user's transaction keeps rows locked, or the file (torture_users.c)
 *   storm     200 changes of rules a second, for some seconds (torture_users.c)
 *
 *   PostgreSQL  terminate (pg_terminate_backend of every session), crash (pg_ctl stop -m immediate, and start), cut,
 *               half, hold, delay, choke (the proxy), step (clocks of actors, by up to two days), fail over (once,
 *               halfway), large (a freeze while the answers are more than a socket takes), role (a setting of the role)
 *   SQLite      reader (holds a snapshot, so that a checkpoint cannot finish), full (the disk), copy (sqlite3_backup),
 *               clock (set by up to an hour, forward and back)
 */
#include "torture.h"

#include <hwt_store.h>

static int64_t between(struct torture *torture, int64_t from, int64_t to)
{
	return from + (int64_t)draw(&torture->random, (uint64_t)(to - from));
}

static bool command(const char *server, const char *arguments)
{
	char text[512];

	(void)snprintf(text, sizeof(text), "%s %s", server, arguments);
	return system(text) == 0;
}

/*
 * Actors
 */

/* Draws an actor that runs; NULL if most do not. */
static struct actor *one_that_runs(struct torture *torture)
{
	struct actor *actor = &torture->actors[draw(&torture->random, ACTORS)];
	unsigned running = 0;

	for (unsigned i = 0; i < ACTORS; i++)
		running += torture->actors[i].pid > 0 && torture->actors[i].continue_us == 0;
	return running > 1 && actor->pid > 0 && actor->continue_us == 0 ? actor : NULL;
}

static void kill_one(struct torture *torture)
{
	struct actor *actor = one_that_runs(torture);

	if (actor == NULL)
		return;
	history(torture->log, "kill %s", actor->name);
	(void)kill(actor->pid, SIGKILL);
	(void)waitpid(actor->pid, NULL, 0);
	actor->pid = 0;
	actor->start_us = true_us() + between(torture, 0, 1000000);
}

/* SQLite: not inside of a write, since every other process would wait for that; SQLite allows no other way. */
static void freeze_one(struct torture *torture)
{
	struct actor *actor = one_that_runs(torture);
	int64_t lease_us = TORTURE_LEASE_NS / 1000;

	if (actor == NULL)
		return;
	history(torture->log, "stop %s", actor->name);
	for (int i = 0; i < 50; i++) {
		(void)kill(actor->pid, SIGSTOP);
		sleep_us(1000);
		if (effects_nobody_writes(&torture->database)) {
			actor->continue_us = true_us() + (draw(&torture->random, 3) == 0
							      ? between(torture, 10000, 900000)
							      : lease_us * 5 / 4 + between(torture, 0, lease_us));
			return;
		}
		(void)kill(actor->pid, SIGCONT);
		sleep_us(between(torture, 100, 20000));
	}
}

#ifdef HAVE_POSTGRES
/* Timeouts with large data are due at once, and a moment later an actor stands still. */
static void freeze_answer(struct torture *torture)
{
	enum { ROWS = 60, LEN = 60000 };
	static char data[ROWS][LEN];
	hwt_store_spec specs[ROWS];
	int64_t ids[ROWS] = { 0 };
	hwt_store *store = torture_store(torture);
	unsigned kind = (unsigned)draw(&torture->random, 3), first = torture->items;
	int rc;

	if (store == NULL)
		return;
	for (unsigned i = 0; i < ROWS; i++) {
		memset(data[i], ' ', LEN);
		(void)snprintf(data[i], LEN, "%u ", torture->items);
		data[i][strlen(data[i])] = ' ';
		specs[i] = (hwt_store_spec)HWT_STORE_SPEC_INIT;
		specs[i].kind = kind_names[kind];
		specs[i].data = data[i];
		specs[i].len = LEN;
		history(torture->log, "put? %u %u 0 group=%u", torture->items++, kind, first);
	}
	rc = hwt_store_put_many(store, specs, ROWS, ids);
	for (unsigned i = 0; i < ROWS; i++)
		history(torture->log, "put %u %d %" PRId64, first + i, rc, ids[i]);
	sleep_us(between(torture, 0, 10000));
	freeze_one(torture);
	(void)hwt_store_close(store);
}

/* Whether a backend of the store waits for its client to read. */
static void say_clogged(struct torture *torture)
{
	int64_t number = 0;

	if (torture_number(&torture->database,
			   "select count(*) from pg_stat_activity where application_name = 'libhwt-store' and"
			   " wait_event = 'ClientWrite'",
			   &number) &&
	    number > 0)
		history(torture->log, "clogged %" PRId64, number);
}
#endif

static void restart_one(struct torture *torture)
{
	struct actor *actor = one_that_runs(torture);

	if (actor != NULL && kill(actor->pid, SIGUSR1) == 0)
		history(torture->log, "restart %s", actor->name);
}

static void end_one(struct torture *torture)
{
	struct actor *actor = one_that_runs(torture);

	if (actor != NULL && kill(actor->pid, SIGTERM) == 0)
		history(torture->log, "quit %s", actor->name); /* the conductor notices that it has ended */
}

/*
 * PostgreSQL
 */

#ifdef HAVE_POSTGRES
static void crash(struct torture *torture)
{
	if (torture->server == NULL || torture->reset_us != 0) /* the role may have synchronous_commit = off */
		return;
	atomic_fetch_add(&torture->breaks, 1);
	history(torture->log, "away");
	effects_close(&torture->database);
	if (!command(torture->server, "-m immediate stop"))
		torture->wrongs++;
	sleep_us(between(torture, 0, 2500000));
	if (!command(torture->server, "start") || !torture_open(torture, &torture->database))
		torture->wrongs++;
	history(torture->log, "back");
}

static void proxy_cuts(struct torture *torture)
{
	history(torture->log, "cut");
	atomic_fetch_add(draw(&torture->random, 2) ? &torture->orders->proxy_cuts : &torture->orders->proxy_halves, 1);
}

static void proxy_chokes(struct torture *torture)
{
	atomic_store(&torture->orders->proxy_chokes, true); /* torture_proxy.c logs it when there is such an answer */
}

static void proxy_slows(struct torture *torture)
{
	bool holds = draw(&torture->random, 2);

	if (torture->pass_us != 0)
		return;
	history(torture->log, "away");
	atomic_store(holds ? &torture->orders->proxy_holds : &torture->orders->proxy_delays, true);
	torture->pass_us = true_us() + between(torture, 100000, 3500000);
}
#endif

void torture_fail_over(struct torture *torture)
{
	if (torture->standby == NULL || torture->server == torture->standby)
		return;
	atomic_fetch_add(&torture->breaks, 1);
	history(torture->log, "away");
	effects_close(&torture->database);
	if (!command(torture->server, "-m immediate stop") || !command(torture->standby, "promote"))
		torture->wrongs++;
	torture->server = torture->standby;
	if (!torture_open(torture, &torture->database))
		torture->wrongs++;
	history(torture->log, "back");
}

/* Steps the clocks of actors that read their time from this file; the database's clock is not touched. */
void torture_step_clocks(struct torture *torture)
{
	char path[256], hours[16];
	int fd, at = snprintf(hours, sizeof(hours), "%+dh\n", (int)between(torture, -48, 48));

	history(torture->log, "step %.*s", at - 1, hours);
	(void)snprintf(path, sizeof(path), "%s/faketime", torture->folder);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0 || ftruncate(fd, 0) != 0 || write(fd, hours, (size_t)at) != at)
		torture->wrongs++;
	close(fd);
}

/*
 * SQLite
 */

#ifdef HAVE_SQLITE
/* Holds a snapshot that is seconds old; the checkpoint of another connection cannot get past it. */
static void hold_snapshot(struct torture *torture)
{
	static struct effects reader;
	int64_t rows = 0;

	history(torture->log, "reader");
	if (reader.sqlite == NULL &&
	    (!effects_open(&reader, torture->url) || !effects_query(&reader, "BEGIN", NULL, NULL))) {
		torture->wrongs++;
		return;
	}
	if (!torture_number(&reader, "SELECT count(*) FROM " SCHEMA "_timeout", &rows))
		torture->wrongs++;
	sleep_us(between(torture, 100000, 1500000));
	sqlite3_busy_timeout(torture->database.sqlite, 50);
	(void)effects_query(&torture->database, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL);
	sqlite3_busy_timeout(torture->database.sqlite, LOCK_PATIENCE_MS);
	if (draw(&torture->random, 3) > 0) /* otherwise the snapshot stays through the next acts */
		effects_close(&reader);
}

static void fill_disk(struct torture *torture)
{
	if (torture->room_us != 0)
		return;
	history(torture->log, "away");
	atomic_store(&torture->orders->disk_full, true);
	torture->room_us = true_us() + between(torture, 50000, 3000000);
}

static void copy(struct torture *torture)
{
	char path[256];
	struct effects to = { 0 };
	sqlite3_backup *backup;
	int rc = SQLITE_OK;

	history(torture->log, "copy");
	(void)snprintf(path, sizeof(path), "%s/%u.db", torture->folder, torture->copies);
	if (sqlite3_open(path, &to.sqlite) != SQLITE_OK)
		return;
	/* In one step, as the shell's .backup does: in several steps it would begin again at each write of others. */
	backup = sqlite3_backup_init(to.sqlite, "main", torture->database.sqlite, "main");
	for (int i = 0; backup != NULL && i < LOCK_PATIENCE_MS / 2 && rc != SQLITE_DONE; i++) {
		rc = sqlite3_backup_step(backup, -1);
		if (rc == SQLITE_BUSY)
			sleep_us(2000);
	}
	(void)sqlite3_backup_finish(backup);
	(void)snprintf(path, sizeof(path), "%s/%u.copy", torture->folder, torture->copies++);
	if (rc != SQLITE_DONE || !torture_tables(&to, path))
		torture->wrongs++;
	effects_close(&to);
}

static void set_clock(struct torture *torture)
{
	int64_t us = between(torture, -3600, 3600) * 1000000 / (draw(&torture->random, 2) ? 1 : 1000);

	history(torture->log, "clock %" PRId64, us);
	atomic_store(&torture->orders->wall_us, us);
}
#endif

/*
 * Choosing and mending
 */

typedef void act(struct torture *torture);

static size_t acts_of(const struct torture *torture, act *acts[])
{
	act *const always[] = { kill_one,      kill_one,      freeze_one,   freeze_one,   restart_one,  end_one,
				torture_pause, torture_pause, torture_lock, torture_lock, torture_storm };
	size_t n = sizeof(always) / sizeof(always[0]);

	memcpy(acts, always, sizeof(always));
#ifdef HAVE_SQLITE
	if (is_sqlite(torture->url)) {
		acts[n++] = hold_snapshot;
		acts[n++] = hold_snapshot;
		acts[n++] = fill_disk;
		acts[n++] = copy;
		if (torture->clocks)
			acts[n++] = set_clock;
	}
#endif
#ifdef HAVE_POSTGRES
	if (!is_sqlite(torture->url)) {
		acts[n++] = torture_terminate;
		acts[n++] = crash;
		acts[n++] = freeze_answer;
		if (torture->server != NULL && torture->standby == NULL)
			acts[n++] = torture_role;
		if (torture->clocks)
			acts[n++] = torture_step_clocks;
		if (torture->proxy > 0) {
			acts[n++] = proxy_cuts;
			acts[n++] = proxy_slows;
			acts[n++] = proxy_chokes;
		}
	}
#endif
	return n;
}

/* Draws as from a deck of cards: each act comes before any comes again. */
void torture_act(struct torture *torture)
{
	static act *deck[24];
	static size_t left;
	size_t drawn;

	if (left == 0)
		left = acts_of(torture, deck);
	drawn = draw(&torture->random, left--);
	deck[drawn](torture);
	deck[drawn] = deck[left];
}

void torture_mend(struct torture *torture, int64_t now_us)
{
	for (unsigned i = 0; i < ACTORS; i++) {
		struct actor *actor = &torture->actors[i];

		if (actor->pid > 0 && actor->continue_us != 0 && actor->continue_us <= now_us) {
#ifdef HAVE_POSTGRES
			if (!is_sqlite(torture->url))
				say_clogged(torture);
#endif
			history(torture->log, "cont %s", actor->name);
			(void)kill(actor->pid, SIGCONT);
			actor->continue_us = 0;
		}
		if (actor->pid <= 0 && actor->start_us <= now_us)
			torture_start(torture, actor);
	}
	if (torture->resume_us != 0 && torture->resume_us <= now_us)
		torture_resume(torture);
#ifdef HAVE_POSTGRES
	if (torture->reset_us != 0 && torture->reset_us <= now_us)
		torture_role_back(torture);
#endif
	if (torture->room_us != 0 && torture->room_us <= now_us) {
		atomic_store(&torture->orders->disk_full, false);
		history(torture->log, "back");
		torture->room_us = 0;
	}
	if (torture->pass_us != 0 && torture->pass_us <= now_us) {
		atomic_store(&torture->orders->proxy_holds, false);
		atomic_store(&torture->orders->proxy_delays, false);
		history(torture->log, "back");
		torture->pass_us = 0;
	}
	if (now_us == INT64_MAX) {
		torture_lock_over();
		torture_storm_over();
	}
}
