/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * torture -u URL -d FOLDER [-t SECONDS] [-s SEED] [-c]: the conductor.
 *
 * The conductor starts the actors, acts on them at random moments (torture_acts.c), then mends everything and waits
 * until every timeout has come to its end.  It ends the actors, writes the tables down, and lets history.pl judge.
 * FOLDER must be empty; it keeps the logs for a reader.
 *
 *   -c  clocks: SQLite's wall clock is set; with PostgreSQL the clocks of the actors are hours off, run at other speeds
 *       and step (faketime)
 *
 *   HWT_POSTGRES_CTL   a command such as pg_ctl for the server, which may then be crashed
 *   HWT_STANDBY_CTL    the same for its standby, which is then promoted once, about halfway
 *   HWT_CLUSTER_CTL    the same for a cluster whose nodes fail one after the other; the run ends after the last
 *   HWT_STORE_SOCKET   the folder of the server's unix socket: a proxy is then put before it
 */
#include "torture.h"

#include <getopt.h>
#include <glob.h>
#include <hwt_store.h>
#include <pthread.h>

#define STILL_US INT64_C(300000000) /* if no timeout has ended for this long, the run hangs */
#define END_US INT64_C(300000000)
#define PULSE_US INT64_C(50000)
#define PAUSE_US INT64_C(1000000) /* a longer gap between two pulses: the process had no processor */

extern char **environ;

/*
 * Processes
 */

/* Every second actor has a clock of its own; the others follow a file that the nemesis writes. */
static void fake_time(const struct torture *torture)
{
	static const char *const clocks[] = { "+5h", "-90m", "+0 x1.5", "-3h x0.7" };
	const char *clock = clocks[torture->instances / 2 % 4];
	char file[256];
	glob_t found;

	if (glob("/usr/lib/*/faketime/libfaketimeMT.so.1", 0, NULL, &found) != 0) {
		printf("# faketime is not installed: this actor has the right time\n");
		fflush(stdout);
		return;
	}
	(void)snprintf(file, sizeof(file), "%s/faketime", torture->folder);
	(void)setenv("LD_PRELOAD", found.gl_pathv[0], 1);
	(void)setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1", 1);
	(void)setenv("DONT_FAKE_MONOTONIC", "1", 1);
	(void)setenv("FAKETIME_CACHE_DURATION", "1", 1);
	if (torture->instances % 2 == 0)
		(void)setenv("FAKETIME_TIMESTAMP_FILE", file, 1);
	else
		(void)setenv("FAKETIME", clock, 1);
	/*
	 * Otherwise a timed wait on the monotonic clock ends at once, and threads spin.  At another speed the wait
	 * would hang.
	 */
	if (torture->instances % 2 == 0 || strchr(clock, 'x') == NULL)
		(void)setenv("FAKETIME_FORCE_MONOTONIC_FIX", "0", 1);
}

static pid_t execute(const struct torture *torture, const char *const *args, bool fakes)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	if (fakes)
		fake_time(torture);
	execv("/proc/self/exe", (char *const *)(uintptr_t)args);
	_exit(127);
}

void torture_start(struct torture *torture, struct actor *actor)
{
	char number[16], seed[32];
	const char *args[] = { "torture", "--actor", torture->url, torture->folder, actor->name, number, seed, NULL };

	(void)snprintf(actor->name, sizeof(actor->name), "a%u", ++torture->instances);
	(void)snprintf(number, sizeof(number), "%u", torture->instances);
	(void)snprintf(seed, sizeof(seed), "%" PRIu64, torture->random);
	actor->continue_us = actor->start_us = 0;
	(void)sigprocmask(SIG_BLOCK, torture_signals(), NULL); /* until the child is ready for them */
	actor->pid = execute(torture, args, torture->clocks && !is_sqlite(torture->url));
	(void)sigprocmask(SIG_UNBLOCK, torture_signals(), NULL);
}

static void start_proxy(struct torture *torture, const char *folder)
{
	char path[100];
	const char *args[] = { "torture", "--proxy", path, torture->folder, NULL };

	(void)snprintf(path, sizeof(path), "%s/.s.PGSQL.5432", folder);
	torture->proxy = execute(torture, args, false);
}

/* Starts a new actor for one that has ended, asked to or by itself. */
static void look_after(struct torture *torture)
{
	for (unsigned i = 0; i < ACTORS; i++) {
		struct actor *actor = &torture->actors[i];
		int status;

		if (actor->pid <= 0 || waitpid(actor->pid, &status, WNOHANG) != actor->pid)
			continue;
		if (status != 0) {
			printf("# %s ended with status 0x%x\n", actor->name, (unsigned)status);
			torture->wrongs++;
		}
		actor->pid = 0;
		actor->start_us = true_us();
	}
}

/*
 * The run
 */

bool torture_open(struct torture *torture, struct effects *database)
{
	for (int i = 0; i < 3000; i++) {
		if (effects_open(database, torture->real_url))
			return true;
		effects_close(database);
		sleep_us(100000);
	}
	return false;
}

static bool prepare(struct torture *torture)
{
	return torture_open(torture, &torture->database) && effects_drop_all(&torture->database) &&
	       torture_create(&torture->database);
}

static void *note_pauses(void *log)
{
	int64_t last_us = true_us(), now_us;

	for (;; last_us = now_us) {
		sleep_us(PULSE_US);
		now_us = true_us();
		if (now_us - last_us > PAUSE_US)
			history_at(*(int *)log, now_us, "pause %" PRId64, last_us);
	}
	return NULL;
}

bool torture_note_pauses(int *log)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, note_pauses, log) == 0 && pthread_detach(thread) == 0;
}

/* Notes the load of the machine, by which judgements of time are excused. */
static void feel_load(struct torture *torture)
{
	double load = 0, cores = (double)sysconf(_SC_NPROCESSORS_ONLN);

	if (getloadavg(&load, 1) == 1 && load / cores > torture->load)
		torture->load = load / cores;
}

/* The actors make the tables and the kinds, all at the same time: no act disturbs that. */
static bool are_made(struct torture *torture)
{
	static int64_t kinds;

	return kinds == 3 || (torture_number(&torture->database,
					     "select count(*) from " SCHEMA "_kind where mode is not null", &kinds) &&
			      kinds == 3);
}

static void torment(struct torture *torture, int64_t seconds)
{
	int64_t until_us = true_us() + seconds * 1000000, act_us = true_us() + 1500000;

	for (unsigned i = 0; i < ACTORS; i++)
		torture_start(torture, &torture->actors[i]);
	while (torture_cluster_is_there() ? !torture_cluster_is_done() : true_us() < until_us) {
		sleep_us(10000);
		look_after(torture);
		torture_mend(torture, true_us());
		torture_cluster(torture);
		if (true_us() > until_us - seconds * 500000)
			torture_fail_over(torture);
		if (true_us() < act_us || true_us() < torture->calm_us || torture_cluster_is_busy() ||
		    !are_made(torture))
			continue;
		torture_act(torture);
		feel_load(torture);
		/* Now and then there is a calm, in which nothing excuses a delay. */
		act_us = true_us() +
			 (int64_t)draw(&torture->random, draw(&torture->random, 6) == 0 ? 8000000 : 1200000);
	}
	torture_mend(torture, INT64_MAX);
}

/* Waits until no timeout is pending or running. */
static void drain(struct torture *torture)
{
	int64_t until_us = true_us() + STILL_US, left = -1, before = -1;

	feel_load(torture);
	history(torture->log, "load %.0f", torture->load * 100);
	history(torture->log, "drain");
	atomic_store(&torture->orders->quiet, true);
	if (is_sqlite(torture->url) && torture->clocks) { /* so that all timeouts are due */
		history(torture->log, "clock %" PRId64, INT64_C(3700000000));
		atomic_store(&torture->orders->wall_us, INT64_C(3700000000));
	}
	while (left != 0 && true_us() < until_us) {
		sleep_us(100000);
		look_after(torture);
		torture_mend(torture, INT64_MAX);
		if (!torture_end_periodic(torture) ||
		    !torture_number(&torture->database, "select count(*) from " SCHEMA "_timeout where state <> 3",
				    &left))
			left = -1;
		if (left != before)
			until_us = true_us() + STILL_US;
		before = left;
	}
	if (left != 0) {
		printf("# %" PRId64 " are left, and none of them has ended for %d s\n", left,
		       (int)(STILL_US / 1000000));
		torture->wrongs++;
	}
}

static void end_actors(struct torture *torture)
{
	int64_t until_us = true_us() + END_US;
	int status;

	for (unsigned i = 0; i < ACTORS; i++)
		if (torture->actors[i].pid > 0)
			(void)kill(torture->actors[i].pid, SIGTERM);
	for (unsigned i = 0; i < ACTORS; i++) {
		struct actor *actor = &torture->actors[i];

		while (actor->pid > 0 && true_us() < until_us && waitpid(actor->pid, &status, WNOHANG) == 0)
			sleep_us(10000);
		if (actor->pid > 0 && (true_us() >= until_us || status != 0)) {
			printf("# %s did not stop well\n", actor->name);
			torture->wrongs++;
			(void)kill(actor->pid, SIGKILL);
		}
	}
	if (torture->proxy > 0)
		(void)kill(torture->proxy, SIGTERM);
}

static int judge(struct torture *torture)
{
	char path[256], text[512];

	(void)snprintf(path, sizeof(path), "%s/database.tables", torture->folder);
	if (!torture_tables(&torture->database, path)) {
		printf("# the tables cannot be read, or are damaged\n");
		torture->wrongs++;
	}
	fflush(stdout);
	(void)snprintf(text, sizeof(text), "perl store/test/history.pl '%s'", torture->folder);
	if (system(text) != 0)
		torture->wrongs++;
	return torture->wrongs == 0 ? 0 : 1;
}

static int run(struct torture *torture, int64_t seconds)
{
	const char *socket = getenv("HWT_STORE_SOCKET");
	static char url[256];

	torture->orders = orders_map(torture->folder);
	torture->log = history_open(torture->folder, "nemesis");
	torture->real_url = torture->url;
	torture->items = 1;
	torture->server = getenv("HWT_POSTGRES_CTL");
	torture->standby = getenv("HWT_STANDBY_CTL");
	torture_cluster_find();
	if (torture->orders == NULL || torture->log < 0 || !torture_note_pauses(&torture->log) || !prepare(torture)) {
		fprintf(stderr, "torture: cannot begin in %s at %s\n", torture->folder, torture->url);
		return 2;
	}
	if (socket != NULL && !is_sqlite(torture->url)) {
		start_proxy(torture, socket);
		(void)snprintf(url, sizeof(url), "pg:host=%s user=hwt dbname=postgres connect_timeout=3",
			       torture->folder);
		torture->url = url;
	}
	history(torture->log, "world %" PRId64 " %d %" PRId64 " %" PRId64, TORTURE_LEASE_NS / 1000, TORTURE_ATTEMPTS,
		TORTURE_PATIENCE_US, TORTURE_PROMPT_US);
	if (torture->clocks && !is_sqlite(torture->url))
		torture_step_clocks(torture);
	torment(torture, seconds);
	drain(torture);
	end_actors(torture);
	return judge(torture);
}

int main(int argc, char **argv)
{
	static struct torture torture;
	int64_t seconds = 15;
	uint64_t seed = (uint64_t)true_us() % 1000000;
	int c, rc;

	if (argc == 7 && strcmp(argv[1], "--actor") == 0)
		return torture_actor(argv[2], argv[3], argv[4], (unsigned)atoi(argv[5]), strtoull(argv[6], NULL, 10));
	if (argc == 4 && strcmp(argv[1], "--proxy") == 0)
		return torture_proxy(argv[2], argv[3]);
	while ((c = getopt(argc, argv, "u:d:t:s:c")) != -1) {
		switch (c) {
		case 'u':
			torture.url = optarg;
			break;
		case 'd':
			torture.folder = optarg;
			break;
		case 't':
			seconds = strtoll(optarg, NULL, 10);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 10);
			break;
		case 'c':
			torture.clocks = true;
			break;
		default:
			return 2;
		}
	}
	if (torture.url == NULL || torture.folder == NULL || optind < argc) {
		fprintf(stderr, "usage: torture -u URL -d FOLDER [-t SECONDS] [-s SEED] [-c]\n");
		return 2;
	}
	torture.random = (seed * UINT64_C(0x9e3779b97f4a7c15)) | 1;
	printf("# HWT_SEED=%" PRIu64 ", %" PRId64 " s\n", seed, seconds);
	rc = run(&torture, seconds);
	effects_close(&torture.database);
	return rc;
}
