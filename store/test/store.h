/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Helpers of the store's tests.  The tests use the real database that HWT_STORE_URL names; without it SQLite files of
 * their own.  Each test has a fresh store: a new file, or a new prefix in the same PostgreSQL database.
 *
 *   HWT_STORE_URL  a postgresql:// or pg: url; unset: SQLite
 *
 * Other processes execute the same program: spawn(...) starts it with "--child".  A worker appends a line to a log for
 * each start of a task, in one write with O_APPEND, so a kill loses no line that was written.
 */
#ifndef HWT_TEST_STORE_H
#define HWT_TEST_STORE_H

#include <hwt_store.h>

#include "rows/engine.h"
#include "support.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define TEXT_MAX 512

struct world {
	char folder[128], url[TEXT_MAX], schema[25], log[192];
	bool sqlite;
};

static struct world world; /* of the test that is running */

static atomic_uint ran;

/* A task that counts its runs, in *ctx or in ran. */
static inline int count_run(const hwt_store_run *run, void *ctx)
{
	(void)run;
	atomic_fetch_add(ctx != NULL ? (atomic_uint *)ctx : &ran, 1);
	return 0;
}

static inline bool on_sqlite(void)
{
	return getenv("HWT_STORE_URL") == NULL;
}

#define NEEDS_SQLITE()                                                                                                 \
	do {                                                                                                           \
		if (!on_sqlite())                                                                                      \
			SKIP("of SQLite");                                                                             \
	} while (0)

#define NEEDS_POSTGRES()                                                                                               \
	do {                                                                                                           \
		if (on_sqlite())                                                                                       \
			SKIP("of PostgreSQL");                                                                         \
	} while (0)

static inline void fresh_world(void)
{
	static unsigned number;
	uint64_t random = hwts_random();

	if (world.folder[0] == '\0') {
		(void)snprintf(world.folder, sizeof(world.folder), "%s/hwt-store-XXXXXX",
			       getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
		REQUIRE(mkdtemp(world.folder) != NULL);
	}
	world.sqlite = on_sqlite();
	number++;
	if (world.sqlite)
		(void)snprintf(world.url, sizeof(world.url), "sqlite:%s/%u.db", world.folder, number);
	else
		(void)snprintf(world.url, sizeof(world.url), "%s", getenv("HWT_STORE_URL"));
	for (size_t i = 0; i < 10; i++, random /= 26)
		world.schema[i] = (char)('a' + random % 26);
	world.schema[10] = '\0';
	(void)snprintf(world.log, sizeof(world.log), "%s/%u.log", world.folder, number);
	atomic_store(&ran, 0);
	atomic_store(&hwts_test_keeps_begun, false);
}

static inline void end_world(void)
{
	char command[160];

	if (world.folder[0] == '\0')
		return;
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", world.folder);
	CHECK_INT(system(command), ==, 0);
}

/*
 * Stores and kinds
 */

static inline hwt_store_config store_config(void)
{
	hwt_store_config config = HWT_STORE_CONFIG_INIT;

	config.schema = world.schema;
	/* Longer than any machine stands still: a store loses its lease only in tests that want it. */
	config.lease_ns = HWT_S(600);
	if (!getenv("HWT_STORE_LOUD"))
		config.warn = NULL;
	return config;
}

/*
 * rc = call, repeated while another process has SQLite's lock for longer than a call waits: that process may stand
 * still.
 */
#define PATIENTLY(rc, call)                                                                                            \
	do {                                                                                                           \
		struct patience patience_ = PATIENCE(#call);                                                           \
                                                                                                                       \
		while (((rc) = (call)) == EAGAIN && patience_lasts(&patience_, 0))                                     \
			;                                                                                              \
	} while (0)

/* The same for calls that fail because a server is slow: with a short connect_timeout, or a short lease. */
#define DESPITE_TIMEOUTS(rc, call)                                                                                     \
	do {                                                                                                           \
		struct patience timeouts_ = PATIENCE(#call);                                                           \
                                                                                                                       \
		while (((rc) = (call)) == ENOTCONN && patience_lasts(&timeouts_, 0))                                   \
			;                                                                                              \
	} while (0)

static inline hwt_store *open_with(const hwt_store_config *config)
{
	hwt_store *store = NULL;
	char error[256] = "";
	int rc;

	PATIENTLY(rc, hwt_store_open(&store, world.url, config, error, sizeof(error)));
	if (rc != 0)
		fprintf(stderr, "open %s: %d %s\n", world.url, rc, error);
	REQUIRE(rc == 0);
	return store;
}

static inline hwt_store *open_store(void)
{
	hwt_store_config config = store_config();

	return open_with(&config);
}

/* The store of a new world; FRESH(.threads = 1) changes its settings.  OPEN: another store of this world. */
static inline hwt_store *fresh_store(void)
{
	fresh_world();
	return open_store();
}

/* PostgreSQL: a store whose role has this synchronous_commit. */
static inline hwt_store *fresh_store_that_syncs(const char *how)
{
	size_t end;

	fresh_world();
	end = strlen(world.url);
	(void)snprintf(world.url + end, sizeof(world.url) - end, " options=-csynchronous_commit=%s", how);
	return open_store();
}

static inline hwt_store *open_of(hwt_store_config config)
{
	hwt_store_config usual = store_config();

	config.schema = usual.schema;
	config.lease_ns = config.lease_ns != 0 ? config.lease_ns : usual.lease_ns;
	config.warn = config.warn != NULL ? config.warn : usual.warn;
	return open_with(&config);
}

static inline hwt_store *fresh_of(hwt_store_config config)
{
	fresh_world();
	return open_of(config);
}

/* SQLite: a transaction of a task keeps others from writing.  Returns the number of modes that do not. */
static inline unsigned modes_beside_others(void)
{
	return on_sqlite() ? HWT_STORE_TRANSACTION : HWT_STORE_TRANSACTION + 1;
}

#define OPEN(...) open_of((hwt_store_config){ .size = sizeof(hwt_store_config), __VA_ARGS__ })
#define FRESH(...) fresh_of((hwt_store_config){ .size = sizeof(hwt_store_config), __VA_ARGS__ })
#define KIND(...) ((hwt_store_kind){ .size = sizeof(hwt_store_kind), __VA_ARGS__ })
#define LIMITS(...) ((hwt_store_limits){ .size = sizeof(hwt_store_limits), __VA_ARGS__ })
#define SPEC(its_kind, its_delay, ...)                                                                                 \
	((hwt_store_spec){ .size = sizeof(hwt_store_spec), .kind = (its_kind), .delay_ns = (its_delay), __VA_ARGS__ })

/* Waits for the condition.  Only a hang ends the wait otherwise, and fails the test. */
#define WAIT_FOR(condition)                                                                                            \
	do {                                                                                                           \
		struct patience wait_ = PATIENCE(#condition);                                                          \
		bool wait_met_;                                                                                        \
                                                                                                                       \
		while (!(wait_met_ = (condition)) && patience_lasts(&wait_, HWT_MS(1)))                                \
			;                                                                                              \
		if (!wait_met_)                                                                                        \
			test_fail(__FILE__, __LINE__, #condition, 0, 0, false);                                        \
	} while (0)

static inline int checked(const char *file, int line, const char *what, int rc, int want)
{
	if (rc != want) {
		test_fail(file, line, what, rc, want, true);
		fprintf(stderr, "    %s\n", hwt_store_error());
	}
	return rc;
}

/*
 * Checks that the call returns want.  If not, the text of the failure is shown; that text must not be empty if the call
 * should fail.  After EAGAIN nothing has happened: the call is repeated.
 */
#define CHECK_CALL(call, want)                                                                                         \
	do {                                                                                                           \
		struct patience call_ = PATIENCE(#call);                                                               \
		int call_rc_;                                                                                          \
                                                                                                                       \
		do {                                                                                                   \
			errno = ERRNO_MARK;                                                                            \
			call_rc_ = (call);                                                                             \
		} while (call_rc_ == EAGAIN && (want) != EAGAIN && patience_lasts(&call_, 0));                         \
		test_waited(__FILE__, __LINE__, #call, system_now() - call_.begin_ns);                                 \
		(void)checked(__FILE__, __LINE__, #call, call_rc_, (want));                                            \
		CHECK_INT(errno, ==, ERRNO_MARK);                                                                      \
		CHECK((hwt_store_error()[0] != '\0') == (call_rc_ != 0));                                              \
	} while (0)

/* Before the declaration of a store: closes the store when the test returns, the last one first. */
#define CLOSING __attribute__((cleanup(close_store), unused))

static inline void close_store(hwt_store *const *store)
{
	CHECK_CALL(hwt_store_close(*store), 0);
}

static inline int register_patiently(hwt_store *store, const hwt_store_kind *kind)
{
	int rc;

	PATIENTLY(rc, hwt_store_register(store, kind));
	return rc;
}

static inline int put_patiently(hwt_store *store, const hwt_store_spec *spec, int64_t *id)
{
	int rc;

	PATIENTLY(rc, hwt_store_put(store, spec, id));
	return rc;
}

static inline void register_kind(hwt_store *store, const char *name, hwt_store_task *task, void *ctx, unsigned mode)
{
	hwt_store_kind kind = HWT_STORE_KIND_INIT;

	kind.name = name;
	kind.task = task;
	kind.ctx = ctx;
	kind.mode = mode;
	kind.backoff_ns = HWT_MS(20);
	CHECK_CALL(register_patiently(store, &kind), 0);
}

/* For a child process. */
static inline void register_and_start(hwt_store *store, const hwt_store_kind *kind)
{
	int rc;

	REQUIRE(register_patiently(store, kind) == 0);
	PATIENTLY(rc, hwt_store_start(store));
	REQUIRE(rc == 0);
}

static inline hwt_store_spec spec_of(const char *kind, int64_t delay_ns)
{
	hwt_store_spec spec = HWT_STORE_SPEC_INIT;

	spec.kind = kind;
	spec.delay_ns = delay_ns;
	return spec;
}

static inline int64_t put_spec(hwt_store *store, const hwt_store_spec *spec)
{
	int64_t id = 0;

	CHECK_CALL(put_patiently(store, spec, &id), 0);
	CHECK_INT(id, >, 0);
	return id;
}

static inline int64_t put_key(hwt_store *store, const char *kind, const char *key, int64_t delay_ns)
{
	hwt_store_spec spec = spec_of(kind, delay_ns);

	spec.key = key;
	return put_spec(store, &spec);
}

static inline int64_t put(hwt_store *store, const char *kind, int64_t delay_ns)
{
	return put_key(store, kind, NULL, delay_ns);
}

static inline hwt_store_info info_of(hwt_store *store, int64_t id)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;

	CHECK_CALL(hwt_store_get(store, id, &info), 0);
	return info;
}

static inline hwt_store_stats stats_of_store(hwt_store *store)
{
	hwt_store_stats stats = HWT_STORE_STATS_INIT;

	CHECK_CALL(hwt_store_read_stats(store, &stats), 0);
	return stats;
}

/* The statistics once nothing runs: counters follow the commit of an end. */
#define settled_stats(store) settled_stats_in(PATIENT("nothing of " #store " runs"), store)
static inline hwt_store_stats settled_stats_in(struct patience patience, hwt_store *store)
{
	hwt_store_stats stats;

	while ((stats = stats_of_store(store)).running != 0 && patience_lasts(&patience, HWT_MS(1)))
		;
	return stats;
}

/* Waits for ENOENT: the timeout is done. */
#define wait_gone(store, id) wait_gone_in(PATIENT(#id " is gone"), store, id)
static inline bool wait_gone_in(struct patience patience, hwt_store *store, int64_t id)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;

	while (hwt_store_get(store, id, &info) != ENOENT)
		if (!patience_lasts(&patience, HWT_MS(1)))
			return false;
	return true;
}

#define wait_store_state(store, id, state) wait_store_state_in(PATIENT(#id " is " #state), store, id, state)
static inline bool wait_store_state_in(struct patience patience, hwt_store *store, int64_t id, hwt_store_state state)
{
	hwt_store_info info = HWT_STORE_INFO_INIT;

	while (hwt_store_get(store, id, &info) == 0 && info.state != state)
		if (!patience_lasts(&patience, HWT_MS(1)))
			return false;
	return info.state == state;
}

/* Answers by a letter: again, give up, end the series, fail, or done. */
static inline int answer_by(const hwt_store_run *run, char letter, int64_t again_ns)
{
	switch (letter) {
	case 'a':
		return hwt_store_again(run, again_ns);
	case 'g':
		return hwt_store_give_up(run, "no such account");
	case 'e':
		return hwt_store_end_series(run);
	case 'f':
		return EIO;
	default:
		return 0;
	}
}

/* Microseconds since 1970 on this machine's clock. */
static inline int64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Waits until the store holds this number of shards. */
#define wait_held(store, shards) wait_held_in(PATIENT(#store " holds " #shards), store, shards)
static inline bool wait_held_in(struct patience patience, hwt_store *store, uint64_t shards)
{
	while (stats_of_store(store).shards_held != shards)
		if (!patience_lasts(&patience, HWT_MS(2)))
			return false;
	return true;
}

/* Starts a store that runs the kind "a" with this task and mode, and waits until it holds all shards. */
static inline hwt_store *run_tasks(hwt_store *store, hwt_store_task *task, unsigned mode)
{
	register_kind(store, "a", task, NULL, mode);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	return store;
}

void hwts_poke(hwt_store *store); /* declared in the store's own store.h, whose name this file has */
void hwts_hear_news(void *store, const struct hwts_due *due);

/* Makes a started store renew and look ahead now. */
static inline void look_now(hwt_store *store)
{
	hwts_hear_news(store, &(struct hwts_due){ .id = 0 });
	hwts_poke(store);
}

/* Makes the store look again and again until the condition holds. */
#define LOOK_UNTIL(store, condition) WAIT_FOR((condition) || (look_now(store), sleep_ms(10), false))

/*
 * Pretends that tasks of the first kind are quick: rows that will start within 20 ms are begun ahead.  They stay begun
 * until hwts_test_keeps_begun is false again, however long the runs before them take.  Needs store/store.h.
 */
#define BEGIN_AHEAD(store)                                                                                             \
	do {                                                                                                           \
		pthread_mutex_lock(&(store)->lock);                                                                    \
		(store)->kinds->begun.run_ns = 1;                                                                      \
		atomic_store(&hwts_test_keeps_begun, true);                                                            \
		hwts_wake(store, HWTS_BEGIN);                                                                          \
		pthread_mutex_unlock(&(store)->lock);                                                                  \
	} while (0)

#define IS_CONTROL(store)                                                                                              \
	((store)->threads[HWTS_CONTROL].ids && pthread_equal(pthread_self(), (store)->threads[HWTS_CONTROL].ids[0]))

/*
 * Other processes
 */

/* Executes this program: --child WHAT URL SCHEMA LOG MORE...  MORE ends with NULL. */
static inline pid_t spawn(const char *what, ...)
{
	const char *args[16] = { "/proc/self/exe", "--child", what, world.url, world.schema, world.log };
	char *copies[16];
	size_t n = 6;
	sigset_t term;
	va_list more;
	pid_t pid;

	va_start(more, what);
	while (n < 15 && (args[n] = va_arg(more, const char *)) != NULL)
		n++;
	va_end(more);
	args[n] = NULL;
	for (size_t i = 0; i <= n; i++)
		copies[i] = args[i] ? strdup(args[i]) : NULL;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		/* SIGTERM waits until enter_world has set its handler. */
		(void)sigemptyset(&term);
		(void)sigaddset(&term, SIGTERM);
		(void)sigprocmask(SIG_BLOCK, &term, NULL);
		execv("/proc/self/exe", copies);
		_exit(127);
	}
	for (size_t i = 0; i < n; i++)
		free(copies[i]);
	REQUIRE(pid > 0);
	return pid;
}

static inline void kill_child(pid_t pid)
{
	int status;

	(void)kill(pid, SIGKILL);
	CHECK_INT(waitpid(pid, &status, 0), ==, pid);
}

/* Asks a child to stop, and checks that it exits with 0. */
static inline void end_child(pid_t pid)
{
	int status = -1;

	(void)kill(pid, SIGTERM);
	(void)kill(pid, SIGCONT);
	CHECK_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK_INT(status, ==, 0); /* a signal would be in the low bits */
}

/*
 * The log of starts: lines "ID DUE AT ATTEMPT PID"
 */

struct start {
	int64_t id, due_us, at_us;
	unsigned attempt;
	int pid;
};

static int log_fd = -1;

static inline void log_open(const char *name)
{
	log_fd = open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	REQUIRE(log_fd >= 0);
}

static inline void log_start(const hwt_store_run *run)
{
	char line[128];
	int len = snprintf(line, sizeof(line), "%" PRId64 " %" PRId64 " %" PRId64 " %u %d\n", run->id, run->due_us,
			   now_us(), run->attempt, (int)getpid());

	REQUIRE(write(log_fd, line, (size_t)len) == len);
}

/* Reads the whole log; the caller frees the result. */
static inline struct start *log_read(size_t *count)
{
	FILE *file = fopen(world.log, "r");
	struct start *starts = NULL, start;
	size_t room = 0;

	*count = 0;
	while (file && fscanf(file, "%" SCNd64 " %" SCNd64 " %" SCNd64 " %u %d\n", &start.id, &start.due_us,
			      &start.at_us, &start.attempt, &start.pid) == 5) {
		if (*count == room) {
			room = room ? room * 2 : 1024;
			starts = realloc(starts, room * sizeof(*starts));
			REQUIRE(starts != NULL);
		}
		starts[(*count)++] = start;
	}
	if (file)
		fclose(file);
	return starts;
}

static inline int by_id(const void *left, const void *right)
{
	const struct start *a = left, *b = right;

	return (a->id > b->id) - (a->id < b->id);
}

/* Returns how many different ids have started; *early: how many starts came before the due time. */
static inline size_t log_ids(size_t *starts, size_t *early)
{
	struct start *all = log_read(starts);
	size_t ids = 0;

	*early = 0;
	if (*starts > 0)
		qsort(all, *starts, sizeof(*all), by_id);
	for (size_t i = 0; i < *starts; i++) {
		ids += i == 0 || all[i].id != all[i - 1].id;
		*early += all[i].at_us < all[i].due_us;
	}
	free(all);
	return ids;
}

/* Waits until this number of different ids have started: after a kill some start twice. */
#define wait_log(count) wait_log_in(PATIENT(#count " have started"), count)
static inline bool wait_log_in(struct patience patience, size_t count)
{
	size_t starts, early, seen = 0, now;

	for (; (now = log_ids(&starts, &early)) < count; seen = now) {
		if (now != seen)
			patience_moved(&patience);
		if (!patience_lasts(&patience, HWT_MS(5)))
			return false;
	}
	return true;
}

static atomic_bool asked_to_stop; /* tasks read it on other threads */

static inline void on_term(int signal)
{
	(void)signal;
	atomic_store(&asked_to_stop, true);
}

/* The main function of a child; each test program has one. */
typedef int child_main(int argc, char **argv);

/* argv: URL SCHEMA LOG MORE...  Makes the world of the parent this process's world. */
static inline void enter_world(char **argv)
{
	sigset_t term;

	(void)snprintf(world.url, sizeof(world.url), "%s", argv[0]);
	(void)snprintf(world.schema, sizeof(world.schema), "%s", argv[1]);
	(void)snprintf(world.log, sizeof(world.log), "%s", argv[2]);
	world.sqlite = on_sqlite();
	log_open(world.log);
	(void)signal(SIGTERM, on_term);
	(void)sigemptyset(&term);
	(void)sigaddset(&term, SIGTERM);
	(void)sigprocmask(SIG_UNBLOCK, &term, NULL);
}

#define STORE_MAIN(child)                                                                                              \
	int main(int argc, char **argv)                                                                                \
	{                                                                                                              \
		child_main *run_child = child;                                                                         \
		int rc;                                                                                                \
                                                                                                                       \
		if (argc > 5 && strcmp(argv[1], "--child") == 0)                                                       \
			return run_child ? run_child(argc - 2, argv + 2) : 127;                                        \
		rc = test_run_all(argc, argv);                                                                         \
		end_world();                                                                                           \
		return rc;                                                                                             \
	}

#endif
