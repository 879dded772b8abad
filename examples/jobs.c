/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Delayed jobs that survive a restart: SQLite keeps them, a timer runs them.  A job is a line of text to print.
 *
 *     $ build/examples/jobs add 2000 'two seconds later'
 *     1
 *     $ build/examples/jobs add 60000 'a minute later'
 *     2
 *     $ build/examples/jobs run -t 5           SIGTERM and SIGINT end it earlier
 *     two seconds later
 *     jobs: 1 ran, 1 saved
 *     $ build/examples/jobs list
 *     1 done 1 two seconds later
 *     2 waiting 0 a minute later
 *     $ build/examples/jobs now                all that wait are due
 *     $ build/examples/jobs run -e             ends when no job is left
 *     a minute later
 *     jobs: 1 ran, 0 saved
 *
 * The file is jobs.db, or what -d FILE before the command says.  "list" shows number, state, times run, text.
 *
 * States of a job
 *
 *     waiting --- run: loaded, a timeout --> taken --- its task --> done
 *        ^                                     |
 *        +-- the end of a run: unprocessed ----+   or the next start, if the run was killed
 *
 *   A run takes what waits, also what "add" brings while it lasts: it looks ten times a second.  At its end
 *   hwt_timer_stop leaves each timeout either run or unprocessed, never both; those that are unprocessed become
 *   waiting again.  A job is marked done before it is printed: after SIGKILL or a power cut the next run finds jobs
 *   that are taken, and that have not been printed.  So no job runs twice, and only one that was just about to print
 *   can be lost.  (Print first and mark then, and none is lost but one may run twice.)
 *
 *   A lock on FILE.lock, which dies with its process, sees to it that there is one run at a time.
 *
 * Time
 *
 *   The file has times of the wall clock, for CLOCK_MONOTONIC begins anew when the machine starts.  They are converted
 *   where a job is taken and where it is saved; while it is in the timer, steps of the wall clock do not move it.
 *
 * Threads
 *
 *   Main opens the database, and then waits for a signal.  Between start and stop only the timer's worker uses it: in
 *   the tasks, and in the periodic one that looks for new jobs.  So it needs no lock.  A task that writes to a disk
 *   holds up the others; here all of them would wait for the same file anyway.
 */
#include <hwt.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS HWT_MS(100)
#define LONGEST_MS INT64_C(315360000000) /* ten years */

struct job {
	sqlite3_int64 id;
	int64_t deadline_ns;
	char *text;
};

static sqlite3 *db;
static hwt_timer *timer;
static bool end_when_done;
static unsigned ran; /* the worker's until the stop */

static void check(const char *what, int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "jobs: %s: %s\n", what, strerror(rc));
	exit(1);
}

static int64_t wall_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return HWT_S(now.tv_sec) + now.tv_nsec;
}

/*
 * The database
 */

static void check_db(int rc)
{
	if (rc == SQLITE_OK || rc == SQLITE_ROW || rc == SQLITE_DONE)
		return;
	fprintf(stderr, "jobs: database: %s\n", sqlite3_errmsg(db));
	exit(1);
}

static void sql(const char *text)
{
	check_db(sqlite3_exec(db, text, NULL, NULL, NULL));
}

/* A statement with numbers for its first two parameters; those that it does not have are ignored. */
static sqlite3_stmt *statement(const char *text, int64_t first, int64_t second)
{
	sqlite3_stmt *made;

	check_db(sqlite3_prepare_v2(db, text, -1, &made, NULL));
	if (sqlite3_bind_parameter_count(made) > 0)
		check_db(sqlite3_bind_int64(made, 1, first));
	if (sqlite3_bind_parameter_count(made) > 1)
		check_db(sqlite3_bind_int64(made, 2, second));
	return made;
}

static void execute(const char *text, int64_t first, int64_t second)
{
	sqlite3_stmt *made = statement(text, first, second);

	check_db(sqlite3_step(made));
	check_db(sqlite3_finalize(made));
}

static void open_db(const char *file)
{
	if (sqlite3_open(file, &db) != SQLITE_OK) {
		fprintf(stderr, "jobs: %s: %s\n", file, sqlite3_errmsg(db));
		exit(1);
	}
	check_db(sqlite3_busy_timeout(db, 10000));
	sql("CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, state TEXT NOT NULL DEFAULT 'waiting', "
	    "due_ms INTEGER NOT NULL, runs INTEGER NOT NULL DEFAULT 0, text TEXT NOT NULL)");
	sql("CREATE INDEX IF NOT EXISTS jobs_state ON jobs (state)");
}

/* For as long as this process lives. */
static void lock_runs(const char *file)
{
	char *name = sqlite3_mprintf("%s.lock", file);
	int fd;

	check("lock", name ? 0 : ENOMEM);
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		check(name, errno);
	if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		fprintf(stderr, "jobs: %s: another run is in progress\n", name);
		exit(1);
	}
	sqlite3_free(name);
}

/*
 * Jobs in the timer
 */

static void free_job(struct job *job)
{
	free(job->text);
	free(job);
}

static void run_job(hwt_timeout timeout, void *arg)
{
	struct job *job = arg;

	(void)timeout;
	if (hwt_now() < job->deadline_ns) {
		fprintf(stderr, "jobs: %lld runs before its time\n", (long long)job->id);
		exit(1);
	}
	execute("UPDATE jobs SET state = 'done', runs = runs + 1 WHERE id = ?", job->id, 0);
	puts(job->text);
	ran++;
	free_job(job);
}

static void take_job(sqlite3_stmt *row)
{
	int64_t delay_ms = sqlite3_column_int64(row, 1) - wall_ns() / 1000000;
	struct job *job = calloc(1, sizeof(*job));

	check("job", job ? 0 : ENOMEM);
	if (delay_ms < 0)
		delay_ms = 0;
	if (delay_ms > LONGEST_MS)
		delay_ms = LONGEST_MS;
	job->id = sqlite3_column_int64(row, 0);
	job->deadline_ns = hwt_now() + HWT_MS(delay_ms);
	job->text = strdup((const char *)sqlite3_column_text(row, 2));
	check("job", job->text ? 0 : ENOMEM);
	check("schedule", hwt_new_timeout_at(timer, run_job, job, job->deadline_ns, NULL));
}

/* The periodic task. */
static void look_for_jobs(hwt_timeout timeout, void *arg)
{
	sqlite3_stmt *rows;

	(void)timeout;
	(void)arg;
	/* Only this thread runs jobs, so none of those taken here is done before the transaction is. */
	sql("BEGIN IMMEDIATE");
	rows = statement("SELECT id, due_ms, text FROM jobs WHERE state = 'waiting' ORDER BY due_ms, id", 0, 0);
	while (sqlite3_step(rows) == SQLITE_ROW)
		take_job(rows);
	check_db(sqlite3_finalize(rows));
	sql("UPDATE jobs SET state = 'taken' WHERE state = 'waiting'");
	sql("COMMIT");
	if (end_when_done && hwt_pending_timeouts(timer) == 1) /* this one */
		kill(getpid(), SIGTERM);
}

static unsigned save_jobs(void)
{
	int64_t to_wall_ns = wall_ns() - hwt_now();
	hwt_unprocessed left;
	unsigned saved = 0;

	sql("BEGIN IMMEDIATE");
	while (hwt_timer_next_unprocessed(timer, &left)) {
		struct job *job = left.arg;

		if (left.task != run_job)
			continue;
		execute("UPDATE jobs SET state = 'waiting', due_ms = ?2 WHERE id = ?1", job->id,
			(job->deadline_ns + to_wall_ns + 999999) / 1000000);
		free_job(job);
		saved++;
	}
	sql("COMMIT");
	return saved;
}

/*
 * Commands
 */

static int64_t number(const char *text, int64_t most)
{
	char *end;
	intmax_t value;

	errno = 0;
	value = strtoimax(text, &end, 10);
	if (end == text || *end != '\0' || errno != 0 || value < 0 || value > most) {
		fprintf(stderr, "jobs: %s is not a number from 0 to %" PRId64 "\n", text, most);
		exit(2);
	}
	return value;
}

static void add(const char *delay_ms, const char *text)
{
	int64_t due_ns = wall_ns() + HWT_MS(number(delay_ms, LONGEST_MS));
	sqlite3_stmt *made = statement("INSERT INTO jobs (due_ms, text) VALUES (?, ?)", (due_ns + 999999) / 1000000, 0);

	check_db(sqlite3_bind_text(made, 2, text, -1, SQLITE_STATIC));
	check_db(sqlite3_step(made));
	check_db(sqlite3_finalize(made));
	printf("%lld\n", (long long)sqlite3_last_insert_rowid(db));
}

static void list(void)
{
	sqlite3_stmt *rows = statement("SELECT id, state, runs, text FROM jobs ORDER BY id", 0, 0);

	while (sqlite3_step(rows) == SQLITE_ROW)
		printf("%lld %s %d %s\n", (long long)sqlite3_column_int64(rows, 0),
		       (const char *)sqlite3_column_text(rows, 1), sqlite3_column_int(rows, 2),
		       (const char *)sqlite3_column_text(rows, 3));
	check_db(sqlite3_finalize(rows));
}

/* seconds < 0: for ever. */
static void run(const char *file, int64_t seconds)
{
	struct timespec most = { (time_t)seconds, 0 };
	hwt_config config = HWT_CONFIG_INIT;
	sigset_t signals;
	unsigned saved;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL); /* in the worker too, which inherits it */
	lock_runs(file);
	sql("UPDATE jobs SET state = 'waiting' WHERE state = 'taken'"); /* by a run that was killed */
	config.tick_duration_ns = HWT_MS(10);
	check("timer", hwt_timer_create(&timer, &config));
	check("schedule", hwt_new_periodic(timer, look_for_jobs, NULL, 0, LOOK_NS, NULL));
	while (sigtimedwait(&signals, NULL, seconds < 0 ? NULL : &most) < 0 && errno == EINTR)
		; /* stopped and continued: the time starts anew */
	check("stop", hwt_timer_stop(timer, NULL));
	saved = save_jobs();
	check("destroy", hwt_timer_destroy(timer));
	printf("jobs: %u ran, %u saved\n", ran, saved);
}

static void usage(void)
{
	fputs("usage: jobs [-d FILE] add DELAY_MS TEXT | run [-t SECONDS] [-e] | list | now\n", stderr);
	exit(2);
}

int main(int argc, char **argv)
{
	const char *file = "jobs.db", *command;
	int64_t seconds = -1;
	int option;

	while ((option = getopt(argc, argv, "+d:")) == 'd')
		file = optarg;
	if (option != -1 || optind == argc)
		usage();
	command = argv[optind++];
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (strcmp(command, "run") == 0) {
		while ((option = getopt(argc, argv, "+t:e")) != -1) {
			if (option == 't')
				seconds = number(optarg, LONGEST_MS / 1000);
			else if (option == 'e')
				end_when_done = true;
			else
				usage();
		}
	}
	if (argc - optind != (strcmp(command, "add") == 0 ? 2 : 0))
		usage();
	open_db(file);
	if (strcmp(command, "run") == 0)
		run(file, seconds);
	else if (strcmp(command, "add") == 0)
		add(argv[optind], argv[optind + 1]);
	else if (strcmp(command, "list") == 0)
		list();
	else if (strcmp(command, "now") == 0)
		execute("UPDATE jobs SET due_ms = ? WHERE state = 'waiting'", wall_ns() / 1000000, 0);
	else
		usage();
	check_db(sqlite3_close(db));
	return 0;
}
