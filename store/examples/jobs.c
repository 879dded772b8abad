/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Delayed and periodic jobs that survive a restart, shared by any number of processes.  A job is a line of text to
 * print, or with "run -x" a command for the shell.
 *
 *     $ build/examples/jobs add 2000 'two seconds later'
 *     1
 *     $ build/examples/jobs add 0 'each minute' -k minute -e 60
 *     2
 *     $ build/examples/jobs run -t 5           SIGTERM and SIGINT end it earlier
 *     each minute
 *     two seconds later
 *     jobs: 2 ran, 0 failed
 *     $ build/examples/jobs list               number, state, attempts, due time, key, last error
 *     2 pending 0 2026-11-22 10:01:00 key=minute
 *     $ build/examples/jobs cancel minute      by number or by key
 *     $ build/examples/jobs stats
 *
 * The jobs are in the file jobs.db, or in what -d URL before the command says: "sqlite:/var/lib/jobs.db", or
 * "postgresql://host/base", and then the processes may be on several machines.
 *
 *     add DELAY_MS TEXT [-k KEY] [-e EVERY_S]   prints its number.  A key that is in use: nothing is added, exit 1
 *     run [-t SECONDS] [-e] [-x] [-j THREADS] [-a ATTEMPTS] [-l LEASE_S] [-m FILE]
 *                    -e ends when no job is left, -m writes statistics for Prometheus to FILE each second
 *     list           jobs that wait, run, or have failed for good; a job that is done is gone
 *     cancel JOB...  JOB is a number or a key; exit 1 if one of them is running or gone
 *     retry [JOB...] failed jobs start again with their first attempt; without JOB all of them
 *     now [JOB...]   jobs that wait are due now; without JOB all of them
 *     stats [-p]     how many there are; -p as text for Prometheus
 *
 * A job may run twice
 *
 *   The mode is HWT_STORE_AT_LEAST_ONCE: a process that dies between the print and the end of the run leaves the job to
 *   another one, which prints it again.  (HWT_STORE_AT_MOST_ONCE is the other choice: such a job is FAILED.)
 *
 * Threads
 *
 *   The store's own threads run the jobs.  Main waits for a signal, and once a second writes the statistics.
 */
#include <hwt_store.h>

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KIND "job"
#define LONGEST_MS INT64_C(315360000000) /* ten years */
#define LOOK_MS 100
#define PENDING (1u << HWT_STORE_PENDING)
#define RUNNING (1u << HWT_STORE_RUNNING)
#define FAILED (1u << HWT_STORE_FAILED)

extern char **environ;

static hwt_store *store;

static void check(const char *what, int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "jobs: %s: %s\n", what, *hwt_store_error() != '\0' ? hwt_store_error() : strerror(rc));
	exit(1);
}

static int64_t wall_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/*
 * Running
 */

static int print_job(const hwt_store_run *run, void *ctx)
{
	(void)ctx;
	/* One call, one line: those of other threads do not come in between. */
	return printf("%.*s\n", (int)run->len, (const char *)run->data) < 0 ? EIO : 0;
}

/* The child gets an empty signal mask: main has blocked the signals that it waits for. */
static int spawn_shell(char *text, pid_t *child)
{
	char shell[] = "/bin/sh", flag[] = "-c", *argv[] = { shell, flag, text, NULL };
	posix_spawnattr_t attributes;
	sigset_t none;
	int rc;

	sigemptyset(&none);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attributes, &none);
	rc = posix_spawn(child, shell, NULL, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	return rc;
}

static int execute_job(const hwt_store_run *run, void *ctx)
{
	char *text = strndup(run->data, run->len);
	int status = 0, rc = text != NULL ? 0 : ENOMEM;
	pid_t child;

	(void)ctx;
	if (rc == 0)
		rc = spawn_shell(text, &child);
	free(text);
	if (rc != 0)
		return rc;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return errno;
	if (status == 0)
		return 0;
	fprintf(stderr, "jobs: %" PRId64 ": attempt %u: %s %d\n", run->id, run->attempt,
		WIFEXITED(status) ? "exit status" : "signal",
		WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	return EIO;
}

static hwt_store_stats read_stats(void)
{
	hwt_store_stats stats = HWT_STORE_STATS_INIT;

	check("stats", hwt_store_read_stats(store, &stats));
	return stats;
}

/* What this process has done, and what the database knows.  Renamed into place: no reader sees half of it. */
static void write_metrics(const char *file)
{
	char other[4096], text[65536];
	FILE *out;

	if (snprintf(other, sizeof(other), "%s.%d", file, (int)getpid()) >= (int)sizeof(other))
		check(file, ENAMETOOLONG);
	if (hwt_store_prometheus(store, text, sizeof(text)) < 0)
		check("metrics", ENOMEM);
	out = fopen(other, "w");
	if (out == NULL || fputs(text, out) < 0 || fclose(out) != 0 || rename(other, file) != 0) {
		fprintf(stderr, "jobs: %s: %s\n", other, strerror(errno));
		exit(1);
	}
}

/*
 * Looking
 */

/* Zero of a kind that nobody has put yet. */
static void for_each(unsigned states, bool (*each)(void *ctx, const hwt_store_info *info), void *ctx)
{
	int rc = hwt_store_each(store, KIND, states, each, ctx);

	check("list", rc == ENOENT ? 0 : rc);
}

static bool found_one(void *ctx, const hwt_store_info *info)
{
	(void)info;
	*(bool *)ctx = true;
	return false;
}

static bool list_one(void *ctx, const hwt_store_info *info)
{
	static const char *const names[] = { "", "pending", "running", "failed" };
	time_t due_s = (time_t)(info->due_us / 1000000);
	struct tm due;
	char text[32];

	(void)ctx;
	strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", localtime_r(&due_s, &due));
	printf("%" PRId64 " %s %u %s", info->id, names[info->state], info->attempt, text);
	if (info->key[0] != '\0')
		printf(" key=%s", info->key);
	if (info->period_ns > 0)
		printf(" every=%" PRId64, info->period_ns / HWT_S(1));
	if (info->error[0] != '\0')
		printf(" error=%s", info->error);
	putchar('\n');
	return true;
}

struct census {
	uint64_t count[HWT_STORE_FAILED + 1], due, periodic;
	int64_t now_us, oldest_us; /* how long ago the first of the pending ones was due */
};

static bool count_one(void *ctx, const hwt_store_info *info)
{
	struct census *census = ctx;
	int64_t ago_us = census->now_us - info->due_us;

	census->count[info->state]++;
	census->periodic += info->period_ns > 0;
	if (info->state == HWT_STORE_PENDING && ago_us >= 0) {
		census->due++;
		census->oldest_us = ago_us > census->oldest_us ? ago_us : census->oldest_us;
	}
	return true;
}

static void print_number(FILE *out, const char *name, const char *type, const char *help, uint64_t value)
{
	fprintf(out, "# HELP jobs_%s %s\n# TYPE jobs_%s %s\njobs_%s %" PRIu64 "\n", name, help, name, type, name,
		value);
}

static void print_census(bool prometheus)
{
	struct census census = { .now_us = wall_us() };

	for_each(PENDING | RUNNING | FAILED, count_one, &census);
	if (!prometheus) {
		printf("%" PRIu64 " pending (%" PRIu64 " due, for up to %.1f s), %" PRIu64 " running, %" PRIu64
		       " failed; %" PRIu64 " of them periodic\n",
		       census.count[HWT_STORE_PENDING], census.due, (double)census.oldest_us / 1e6,
		       census.count[HWT_STORE_RUNNING], census.count[HWT_STORE_FAILED], census.periodic);
		return;
	}
	print_number(stdout, "pending", "gauge", "Jobs that wait.", census.count[HWT_STORE_PENDING]);
	print_number(stdout, "due", "gauge", "Jobs that wait although they are due.", census.due);
	print_number(stdout, "oldest_due_seconds", "gauge", "How long ago the first of them was due.",
		     (uint64_t)census.oldest_us / 1000000);
	print_number(stdout, "running", "gauge", "Jobs that run.", census.count[HWT_STORE_RUNNING]);
	print_number(stdout, "failed", "gauge", "Jobs that have failed for good.", census.count[HWT_STORE_FAILED]);
	print_number(stdout, "periodic", "gauge", "Jobs with a period.", census.periodic);
}

/*
 * Commands
 */

struct options {
	const char *key, *metrics;
	int64_t every_s, seconds, threads, attempts, lease_s;
	bool until_done, execute, prometheus;
	char **words; /* what is no option */
	int n;
};

static void usage(void)
{
	fputs("usage: jobs [-d URL] add DELAY_MS TEXT [-k KEY] [-e EVERY_S]\n"
	      "                     run [-t SECONDS] [-e] [-x] [-j THREADS] [-a ATTEMPTS] [-l LEASE_S] [-m FILE]\n"
	      "                     list | cancel JOB... | retry [JOB...] | now [JOB...] | stats [-p]\n",
	      stderr);
	exit(2);
}

static int64_t number(const char *text, int64_t least, int64_t most)
{
	char *end;
	intmax_t value;

	errno = 0;
	value = strtoimax(text, &end, 10);
	if (end == text || *end != '\0' || errno != 0 || value < least || value > most) {
		fprintf(stderr, "jobs: %s is not a number from %" PRId64 " to %" PRId64 "\n", text, least, most);
		exit(2);
	}
	return value;
}

static int add(const struct options *options)
{
	hwt_store_spec spec = HWT_STORE_SPEC_INIT;
	int64_t id;
	int rc;

	if (options->n != 2)
		usage();
	spec.kind = KIND;
	spec.key = options->key;
	spec.data = options->words[1];
	spec.len = strlen(options->words[1]);
	spec.delay_ns = HWT_MS(number(options->words[0], 0, LONGEST_MS));
	spec.period_ns = HWT_S(options->every_s);
	rc = hwt_store_put(store, &spec, &id);
	if (rc == EEXIST) {
		fprintf(stderr, "jobs: %s is in use by job %" PRId64 "\n", spec.key, id);
		return 1;
	}
	check("add", rc);
	printf("%" PRId64 "\n", id);
	return 0;
}

static int run(const struct options *options)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	struct timespec look = { 0, LOOK_MS * 1000000 };
	hwt_store_stats stats;
	sigset_t signals;
	bool left = true;
	int signal = -1;

	if (options->n != 0)
		usage();
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL); /* in the store's threads too, which inherit it */
	kind.name = KIND;
	kind.task = options->execute ? execute_job : print_job;
	kind.max_attempts = (unsigned)options->attempts;
	check("run", hwt_store_register(store, &kind));
	check("run", hwt_store_start(store));
	for (int64_t ms = 0; signal < 0 && left && (options->seconds < 0 || ms < options->seconds * 1000);
	     ms += LOOK_MS) {
		signal = sigtimedwait(&signals, NULL, &look);
		if (options->metrics != NULL && ms % 1000 == 0)
			write_metrics(options->metrics);
		if (options->until_done) {
			left = false;
			for_each(PENDING | RUNNING, found_one, &left);
		}
	}
	check("stop", hwt_store_stop(store));
	if (options->metrics != NULL)
		write_metrics(options->metrics);
	stats = read_stats();
	printf("jobs: %" PRIu64 " ran, %" PRIu64 " failed\n", stats.done, stats.failed);
	return 0;
}

static int list(const struct options *options)
{
	if (options->n != 0)
		usage();
	for_each(PENDING | RUNNING | FAILED, list_one, NULL);
	return 0;
}

/* A word that is no number is a key. */
static int find(const char *word, int64_t *id)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;
	char *end;
	int rc;

	errno = 0;
	*id = strtoll(word, &end, 10);
	if (end != word && *end == '\0' && errno == 0)
		return 0;
	rc = hwt_store_get_key(store, KIND, word, &info);
	*id = info.id;
	return rc;
}

static int cancel(const struct options *options)
{
	int status = 0;

	if (options->n == 0)
		usage();
	for (int i = 0; i < options->n; i++) {
		int64_t id = 0;
		int rc = find(options->words[i], &id);

		if (rc == 0)
			rc = hwt_store_cancel(store, id);
		if (rc == EBUSY)
			fprintf(stderr, "jobs: %s is running\n", options->words[i]);
		else if (rc == ENOENT)
			fprintf(stderr, "jobs: %s is done, cancelled, or was never there\n", options->words[i]);
		else
			check("cancel", rc);
		status |= rc != 0;
	}
	return status;
}

struct ids {
	int64_t *id;
	size_t n, room;
};

static bool collect(void *ctx, const hwt_store_info *info)
{
	struct ids *ids = ctx;

	if (ids->n == ids->room) {
		ids->room = ids->room * 2 + 64;
		ids->id = realloc(ids->id, ids->room * sizeof(*ids->id));
		check("list", ids->id != NULL ? 0 : ENOMEM);
	}
	ids->id[ids->n++] = info->id;
	return true;
}

/* Those of the state, or the named ones if they are in it, become due now.  Collected first: to move them while
 * hwt_store_each goes through them in order of time would show them twice. */
static int make_due(const struct options *options, hwt_store_state state)
{
	struct ids ids = { NULL, 0, 0 };
	int status = 0;

	for (int i = 0; i < options->n; i++) {
		hwt_store_info info = HWT_STORE_INFO_INIT;
		int64_t id = 0;
		int rc = find(options->words[i], &id);

		if (rc == 0)
			rc = hwt_store_get(store, id, &info);
		if (rc == 0 && info.state == state) {
			collect(&ids, &info);
			continue;
		}
		check("get", rc == ENOENT ? 0 : rc);
		fprintf(stderr, "jobs: %s is not %s\n", options->words[i],
			state == HWT_STORE_FAILED ? "failed" : "waiting");
		status = 1;
	}
	if (options->n == 0)
		for_each(1u << state, collect, &ids);
	for (size_t i = 0; i < ids.n; i++) {
		int rc = hwt_store_reschedule(store, ids.id[i], 0);

		/* Another process may have begun or ended it meanwhile. */
		check("reschedule", rc == ENOENT || rc == EBUSY ? 0 : rc);
	}
	free(ids.id);
	return status;
}

static int retry(const struct options *options)
{
	return make_due(options, HWT_STORE_FAILED);
}

static int now(const struct options *options)
{
	return make_due(options, HWT_STORE_PENDING);
}

static int stats(const struct options *options)
{
	if (options->n != 0)
		usage();
	print_census(options->prometheus);
	return 0;
}

static const struct command {
	const char *name, *options;
	int (*execute)(const struct options *options);
} commands[] = {
	{ "add", "+k:e:", add },   { "run", "+t:exj:a:l:m:", run }, { "list", "+", list },
	{ "cancel", "+", cancel }, { "retry", "+", retry },         { "now", "+", now },
	{ "stats", "+p", stats },
};

/* Options and words in any order. */
static void parse(const struct command *command, int argc, char **argv, struct options *options)
{
	options->words = calloc((size_t)argc + 1, sizeof(*options->words));
	check("options", options->words != NULL ? 0 : ENOMEM);
	while (optind < argc) {
		int c = getopt(argc, argv, command->options);

		if (c == -1 && optind < argc)
			options->words[options->n++] = argv[optind++];
		switch (c) {
		case 'k':
			options->key = optarg;
			break;
		case 'e':
			options->until_done = command->execute == run;
			if (command->execute == add)
				options->every_s = number(optarg, 1, LONGEST_MS / 1000);
			break;
		case 't':
			options->seconds = number(optarg, 0, LONGEST_MS / 1000);
			break;
		case 'x':
			options->execute = true;
			break;
		case 'j':
			options->threads = number(optarg, 1, 1024);
			break;
		case 'a':
			options->attempts = number(optarg, 1, 1000000);
			break;
		case 'l':
			options->lease_s = number(optarg, 1, 3600);
			break;
		case 'm':
			options->metrics = optarg;
			break;
		case 'p':
			options->prometheus = true;
			break;
		case '?':
			usage();
			break;
		default:
			break;
		}
	}
}

int main(int argc, char **argv)
{
	hwt_store_config config = HWT_STORE_CONFIG_INIT;
	struct options options = { .seconds = -1 };
	const struct command *command = NULL;
	const char *url = "sqlite:jobs.db";
	char error[256];
	int c, status;

	while ((c = getopt(argc, argv, "+d:")) == 'd')
		url = optarg;
	if (c != -1 || optind == argc)
		usage();
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(argv[optind], commands[i].name) == 0)
			command = &commands[i];
	if (command == NULL)
		usage();
	optind++;
	parse(command, argc, argv, &options);
	setvbuf(stdout, NULL, _IOLBF, 0);
	config.threads = (unsigned)options.threads;
	config.lease_ns = HWT_S(options.lease_s);
	if (hwt_store_open(&store, url, &config, error, sizeof(error)) != 0) {
		fprintf(stderr, "jobs: %s\n", error);
		return 1;
	}
	status = command->execute(&options);
	check("close", hwt_store_close(store));
	free(options.words);
	return status;
}
