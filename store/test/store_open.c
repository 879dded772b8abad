/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a store is opened on: a file that must stay the same wherever the process and its links go; tables that a user
 * has edited; a url with a password.  And the signals, files and forks of the program around it.
 */
#include "store_query.h"

#include "inside.h"

#include <dirent.h>
#include <locale.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opens the store of a relative url. */
static hwt_store *open_at(const char *url)
{
	hwt_store_config config = store_config();
	hwt_store *store = NULL;

	CHECK_CALL(hwt_store_open(&store, url, &config, NULL, 0), 0);
	REQUIRE(store != NULL);
	return store;
}

/* Uses connections that are made now. */
static void put_and_run(hwt_store *store)
{
	atomic_uint runs = 0;
	int64_t id = put(store, "a", 0);

	register_kind(store, "a", count_run, &runs, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_gone(store, id));
	CHECK_INT(atomic_load(&runs), ==, 1);
	CHECK_CALL(hwt_store_stop(store), 0);
	(void)put(store, "a", HWT_S(3600));
}

/* A link to a file that exists or not yet, by its relative path.  Then process and link go elsewhere. */
static void check_link(bool is_there)
{
	char before[512], link[64], other[64], url[80];
	const char *file;
	hwt_store *store;

	fresh_world();
	REQUIRE(getcwd(before, sizeof(before)) != NULL && chdir(world.folder) == 0);
	file = strrchr(world.url, '/') + 1;
	if (is_there)
		CHECK_CALL(hwt_store_close(open_store()), 0);
	(void)snprintf(link, sizeof(link), "%.40s.link", file);
	(void)snprintf(other, sizeof(other), "%.40s.other", file);
	(void)snprintf(url, sizeof(url), "sqlite:%s", link);
	REQUIRE(symlink(file, link) == 0);
	store = open_at(url);
	REQUIRE(unlink(link) == 0 && symlink(other, link) == 0 && chdir("/") == 0);
	put_and_run(store);
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, 1);
	REQUIRE(chdir(world.folder) == 0);
	CHECK(access(other, F_OK) != 0);
	REQUIRE(chdir(before) == 0);
}

TEST(a_store_stays_where_it_was_opened)
{
	NEEDS_SQLITE();
	check_link(true);
	check_link(false);
}

/*
 * On connections to other stores
 */

/* Another store with tables of the same names, in another file or another database. */
static void name_other(char url[TEXT_MAX])
{
	if (world.sqlite) {
		(void)snprintf(url, TEXT_MAX, "%.*s.other", TEXT_MAX - 8, world.url);
		return;
	}
	(void)query("create database %s", world.schema);
	(void)snprintf(url, TEXT_MAX, "%.*s dbname=%s", TEXT_MAX - 64, world.url, world.schema);
}

static void *connect_to(const char *url)
{
	const struct world own = world;
	void *connection;

	(void)snprintf(world.url, sizeof(world.url), "%s", url);
	connection = connect_user();
	world = own;
	return connection;
}

static void check_refused(hwt_store *store, void *connection)
{
	const hwt_store_which which = { .size = sizeof(which), .kind = "it's mail", .key = "used" };
	static const unsigned flags[] = { 0, HWT_STORE_REPLACE, HWT_STORE_REVIVE };
	static const char *const keys[] = { "free", "used", NULL };

	for (size_t i = 0; i < 3 * HWTS_COUNT(flags); i++) {
		hwt_store_spec spec = SPEC("it's mail", HWT_S(600), .key = keys[i % 3]);
		int64_t id = -7;

		spec.flags = spec.key ? flags[i / 3] : 0;
		CHECK_CALL(hwt_store_put_on(store, connection, &spec, &id), EINVAL);
		CHECK_INT(id, ==, -7);
	}
	CHECK_CALL(hwt_store_cancel_on(store, connection, &which), EINVAL);
	CHECK_CALL(hwt_store_reschedule_on(store, connection, &which, (hwt_store_when){ .delay_ns = 0 }), EINVAL);
}

/* In the other store this number is that of another kind: a put by number would run that kind's task. */
TEST(a_put_on_a_connection_to_another_store_is_refused)
{
	char url[TEXT_MAX];
	CLOSING hwt_store *store = fresh_store();
	hwt_store_spec spec;
	void *connection;
	int64_t id;

	put(store, "it's mail", HWT_S(600));
	name_other(url);
	connection = connect_to(url);
	check_refused(store, connection); /* there are no tables yet */
	CLOSING hwt_store *other = open_at(url);
	put(other, "delete", HWT_S(600));
	put_key(other, "it's mail", "used", HWT_S(600));
	CHECK(user_sql(connection, "begin"));
	check_refused(store, connection);
	spec = spec_of("it's mail", HWT_S(600));
	CHECK_CALL(hwt_store_put_on(other, connection, &spec, &id), 0);
	CHECK(user_sql(connection, "commit")); /* the transaction is still good */
	CHECK_CALL(hwt_store_cancel(other, id), 0);
	CHECK_CALL(hwt_store_cancel_key(other, "it's mail", "used"), 0);
	disconnect_user(connection);
	connection = connect_user();
	CHECK_CALL(hwt_store_put_on(store, connection, &spec, &id), 0);
	CHECK_CALL(hwt_store_cancel(store, id), 0);
	disconnect_user(connection);
}

/* A copy made by hand has the same text that tells stores apart, and the same number of the kind. */
TEST(a_put_on_a_connection_to_a_copy_of_the_store_is_refused)
{
	char url[TEXT_MAX];
	CLOSING hwt_store *store = fresh_store();
	hwt_store_spec spec = spec_of("it's mail", HWT_S(600));
	void *connection;
	int64_t id;

	put(store, "it's mail", HWT_S(600));
	name_other(url);
	CLOSING hwt_store *other = open_at(url);
	put(other, "it's mail", HWT_S(600));
	put_key(other, "it's mail", "used", HWT_S(600));
	connection = connect_to(url);
	CHECK(user_sql(connection, "update %s_meta set store = '%s'", world.schema, store->db->store));
	CHECK_CALL(hwt_store_close(other), 0);
	CHECK(user_sql(connection, "begin"));
	check_refused(store, connection);
	CHECK(user_sql(connection, "commit")); /* the transaction is still good */
	other = open_at(url);
	CHECK_CALL(hwt_store_put_on(other, connection, &spec, &id), 0);
	CHECK_CALL(hwt_store_cancel(other, id), 0);
	disconnect_user(connection);
}

/* PostgreSQL: statements name the schema, and a connection with another encoding would look for another name. */
TEST(a_put_on_a_connection_that_cannot_say_the_schema_is_refused)
{
	NEEDS_POSTGRES();
	hwt_store_spec spec = spec_of("a", HWT_S(600));
	size_t end;

	fresh_world();
	end = strlen(world.url);
	(void)query("create schema \"%s_\u00e4\"", world.schema);
	(void)snprintf(world.url + end, sizeof(world.url) - end, " options=-csearch_path=%s_\u00e4", world.schema);
	CLOSING hwt_store *store = open_store();
	USER *connection = connect_user();

	put(store, "a", HWT_S(600));
	CHECK(user_sql(connection, "set client_encoding = 'LATIN1'"));
	CHECK_CALL(hwt_store_put_on(store, connection, &spec, NULL), EINVAL);
	CHECK(strstr(hwt_store_error(), "client_encoding") != NULL);
	CHECK(user_sql(connection, "set client_encoding = 'UTF8'"));
	CHECK_CALL(hwt_store_put_on(store, connection, &spec, NULL), 0);
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, 2);
}

TEST(a_kind_that_has_another_name_on_the_connection_is_not_put)
{
	CLOSING hwt_store *store = fresh_store();

	put(store, "a", HWT_S(600));
	USER *connection = connect_user();
	CHECK(user_sql(connection, "update %s_kind set name = 'b'", world.schema));
	CHECK_CALL(hwt_store_put_on(store, connection, &SPEC("a", HWT_S(600), .flags = 0), NULL), EIO);
	CHECK_INT(query("select count(*) from %s_timeout", world.schema), ==, 1);
}

/* A process that lives on notices the other store with its next connection. */
TEST(a_store_that_took_the_place_of_another_is_told)
{
	struct hwts_conn *conn = NULL;
	CLOSING hwt_store *store = fresh_store();

	put(store, "a", HWT_S(600));
	(void)query("update %s_meta set store = 'another'", world.schema);
	CHECK_INT(hwts_connect(store, HWTS_CALL, &conn), ==, EIO);
	CHECK(conn == NULL);
	CHECK_CALL(hwt_store_close(store), 0);
	store = open_store();
	put(store, "a", HWT_S(600));
}

/* A task of one store may not call the other, whose lock its transaction has: EDEADLK, by whichever path. */
static hwt_store *other_store;
static atomic_int other_rc;

static int put_into_other(const hwt_store_run *run, void *ctx)
{
	hwt_store_spec spec = spec_of("a", 0);

	(void)run;
	(void)ctx;
	atomic_store(&other_rc, put_patiently(other_store, &spec, NULL));
	return 0;
}

TEST(two_paths_to_a_file_are_one_lock)
{
	NEEDS_SQLITE();
	char url[160];
	hwt_store *store = fresh_store();

	(void)snprintf(url, sizeof(url), "sqlite:%s/../%s%s", world.folder, strrchr(world.folder, '/') + 1,
		       strrchr(world.url, '/'));
	other_store = open_at(url);
	atomic_store(&other_rc, -1);
	(void)run_tasks(store, put_into_other, HWT_STORE_TRANSACTION);
	CHECK(wait_gone(store, put(store, "a", 0)));
	CHECK_INT(atomic_load(&other_rc), ==, EDEADLK);
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_CALL(hwt_store_close(other_store), 0);
}

#ifdef HWT_STORE_SQLITE
static sqlite3_vfs without_memory;
static sqlite3_io_methods methods;

/* As on a network file system: no memory is shared. */
static int open_without_memory(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *got)
{
	sqlite3_vfs *real = vfs->pAppData;
	int rc = real->xOpen(real, name, file, flags, got);

	if (rc == SQLITE_OK && file->pMethods) {
		methods = *file->pMethods;
		methods.iVersion = 1;
		file->pMethods = &methods;
	}
	return rc;
}

TEST(a_file_that_cannot_have_a_write_ahead_log_is_refused)
{
	NEEDS_SQLITE();
	hwt_store *store = NULL;

	fresh_world();
	const hwt_store_config config = store_config();
	without_memory = *sqlite3_vfs_find(NULL);
	without_memory.pAppData = sqlite3_vfs_find(NULL);
	without_memory.zName = "without memory";
	without_memory.xOpen = open_without_memory;
	REQUIRE(sqlite3_vfs_register(&without_memory, 1) == SQLITE_OK);
	CHECK_CALL(hwt_store_open(&store, world.url, &config, NULL, 0), ENOTSUP);
	CHECK(strstr(hwt_store_error(), "write-ahead log") != NULL);
	REQUIRE(sqlite3_vfs_unregister(&without_memory) == SQLITE_OK);
	CHECK_CALL(hwt_store_close(open_store()), 0);
}

static int keep_key(const hwt_store_run *run, void *ctx)
{
	(void)snprintf(ctx, 64, "%s", run->key);
	return 0;
}

TEST(a_file_whose_texts_are_utf16_is_read_as_any_other)
{
	NEEDS_SQLITE();
	hwt_store_info info = HWT_STORE_INFO_INIT;
	sqlite3 *db = NULL;
	char key[64] = "";
	int64_t id;

	fresh_world();
	REQUIRE(sqlite3_open(world.url + strlen("sqlite:"), &db) == SQLITE_OK);
	CHECK_INT(sqlite3_exec(db, "pragma encoding = 'UTF-16'; create table mine (x)", NULL, NULL, NULL), ==,
		  SQLITE_OK);
	sqlite3_close(db);
	CLOSING hwt_store *store = open_store();
	register_and_start(store, &KIND(.name = "k\xc3\xa4se", .task = keep_key, .ctx = key));
	CHECK(wait_held(store, 8));
	id = put_key(store, "k\xc3\xa4se", "schl\xc3\xbcssel", HWT_S(3600));
	CHECK_CALL(hwt_store_get(store, id, &info), 0);
	CHECK(strcmp(info.kind, "k\xc3\xa4se") == 0);
	CHECK(strcmp(info.key, "schl\xc3\xbcssel") == 0);
	CHECK(strlen(info.owner) > 1);
	CHECK_CALL(hwt_store_reschedule(store, id, 0), 0);
	CHECK(wait_gone(store, id));
	CHECK(strcmp(key, "schl\xc3\xbcssel") == 0);
}
#endif

static void check_says_no_password(void)
{
	static const char *const urls[] = {
		"postgress://app:s3cret@db1/app",          "app:s3cret@db1",
		"postgresql://app:s3cret%zz@db1/a",        "postgresql://app:s3cret@db1/a?x=s3cret=s3cret",
		"postgresql://app:s3cret@[db1/a",          "postgresql://app:s3cret@[::1]s3cret/a",
		"pg:user=app password=my s3cret dbname=a", "postgresql://app:my@s3cret@db1/app",
		"postgresql://app:s3cret/7@db1/app",
	};

	for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
		hwt_store *store = NULL;
		char error[512] = "";
		int rc = hwt_store_open(&store, urls[i], NULL, error, sizeof(error));

		CHECK(rc == EINVAL || rc == ENOTSUP); /* ENOTSUP: built without PostgreSQL */
		CHECK(error[0] != '\0');
		CHECK(strstr(error, "s3cret") == NULL);
	}
}

/* Nor does it in a language with other quotes than English, if texts of that language are installed. */
TEST(an_error_about_a_url_does_not_have_its_password)
{
	check_says_no_password();
	(void)setlocale(LC_ALL, "C.UTF-8");
	REQUIRE(setenv("LANGUAGE", "de", 1) == 0);
	check_says_no_password();
	(void)unsetenv("LANGUAGE");
	(void)setlocale(LC_ALL, "C");
}

/* Opens the store again, as another process would. */
static void check_damaged(const char *column, const char *value, const char *before)
{
	hwt_store_spec spec = spec_of("a", 0);
	hwt_store *store;

	(void)query("update %s_kind set %s = %s", world.schema, column, value);
	store = open_store();
	CHECK_CALL(hwt_store_register(store, &KIND(.name = "a", .task = count_run)), EIO);
	CHECK(strstr(hwt_store_error(), "damaged") != NULL);
	CHECK_CALL(hwt_store_put(store, &spec, NULL), EIO);
	CHECK_CALL(hwt_store_close(store), 0);
	(void)query("update %s_kind set %s = %s", world.schema, column, before);
}

TEST(a_damaged_kind_is_told)
{
	CLOSING hwt_store *store = fresh_store();

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_close(store), 0);
	check_damaged("shards", "0", "8");
	check_damaged("shards", "-1", "8");
	check_damaged("shards", "1025", "8");
	check_damaged("mode", "3", "0");
	check_damaged("mode", "-2", "0");
	check_damaged("horizon_us", "0", "5000000");
	check_damaged("horizon_us", "-1", "5000000");
	check_damaged("horizon_us", "9000000000000000000", "5000000");
	if (world.sqlite) /* on PostgreSQL rows refer to it */
		check_damaged("id", "2147483647", "1");
	store = open_store();
	put_and_run(store);
}

/* The row says that this process has the shard. */
TEST(a_shard_that_its_kind_has_not_is_passed_over)
{
	CLOSING hwt_store *store = FRESH(.name = "me");
	int64_t kind;

	(void)put(store, "a", HWT_S(3600));
	kind = query("select id from %s_kind", world.schema);
	(void)query("insert into %s_shard (id, kind, epoch, owner) values (%lld, %lld, 1, 'me')", world.schema,
		    (long long)(kind * 1024 + 1000), (long long)kind);
	put_and_run(store);
}

/* Each name of one schema followed by a name of the other: a table of one must be no index of the other. */
TEST(a_schema_may_begin_with_the_names_of_another)
{
	static const char *const behind[] = { "shard", "kind",   "kind_name", "timeout",
					      "meta",  "member", "hint",      "members" };
	char before[sizeof(world.schema)];

	fresh_world();
	(void)snprintf(before, sizeof(before), "%s", world.schema);
	CHECK_CALL(hwt_store_close(open_store()), 0);
	for (size_t i = 0; i < sizeof(behind) / sizeof(behind[0]); i++) {
		(void)snprintf(world.schema, sizeof(world.schema), "%.10s_%s", before, behind[i]);
		CLOSING hwt_store *store = open_store();
		(void)put_key(store, "a", "k", HWT_S(3600));
		put_and_run(store);
	}
	(void)snprintf(world.schema, sizeof(world.schema), "%s", before);
	CLOSING hwt_store *store = open_store();
	put_and_run(store);
}

static void remove_file(const char *end)
{
	char path[192];

	(void)snprintf(path, sizeof(path), "%.180s%.4s", world.url + strlen("sqlite:"), end);
	REQUIRE(unlink(path) == 0);
}

static void check_lost(hwt_store *store)
{
	hwt_store_spec spec = spec_of("a", HWT_S(3600));

	CHECK_CALL(hwt_store_put(store, &spec, NULL), EIO);
	CHECK(strstr(hwt_store_error(), "removed") != NULL);
}

TEST(what_is_put_into_files_that_were_removed_is_refused)
{
	NEEDS_SQLITE();
	CLOSING hwt_store *store = fresh_store();
	int64_t id;

	id = put(store, "a", HWT_S(3600));
	remove_file("");
	remove_file("-wal");
	remove_file("-shm");
	check_lost(store);
	CHECK_CALL(hwt_store_cancel(store, id), EIO); /* a new connection finds no tables */
}

/* Another process that opens the file and closes it: the last to close removes the log. */
static int visit(int argc, char **argv)
{
	(void)argc;
	enter_world(argv + 1);
	return query("select count(*) from %s_timeout", world.schema) == 1 ? 0 : 1;
}

/* POSIX: a process that closes a file loses all its locks on that file. */
TEST(a_log_that_another_process_took_away_is_noticed)
{
	NEEDS_SQLITE();
	int64_t id;
	CLOSING hwt_store *store = fresh_store();
	int fd, status = -1;

	id = put(store, "a", HWT_S(3600));
	CHECK_INT(waitpid(spawn("visit", NULL), &status, 0), >, 0);
	CHECK_INT(status, ==, 0);
	CHECK_CALL(hwt_store_cancel(store, id), 0); /* the log stays while the locks are there */
	id = put(store, "a", HWT_S(3600));
	fd = open(world.url + strlen("sqlite:"), O_RDONLY);
	REQUIRE(fd >= 0 && close(fd) == 0);
	CHECK_INT(waitpid(spawn("visit", NULL), &status, 0), >, 0);
	CHECK_INT(status, ==, 0);
	check_lost(store);
	CHECK_CALL(hwt_store_cancel(store, id), 0); /* on a new connection, as all others know only the old log */
}

/* As a daemon does. */
TEST(a_child_that_was_forked_is_refused)
{
	hwt_store_spec spec = spec_of("a", HWT_S(3600));
	hwt_store_info info = HWT_STORE_INFO_INIT;
	hwt_store_stats stats = HWT_STORE_STATS_INIT;
	hwt_store_run *run;
	CLOSING hwt_store *store = fresh_store();
	int64_t id;
	int status = -1, fd;
	pid_t pid;

	id = put(store, "a", HWT_S(3600));
	pid = fork();
	if (pid == 0) {
		int bad = 0;

		bad |= hwt_store_put(store, &spec, NULL) != EINVAL || strstr(hwt_store_error(), "fork") == NULL;
		bad |= hwt_store_put_many(store, &spec, 1, NULL) != EINVAL;
		bad |= hwt_store_put_on(store, store, &spec, NULL) != EINVAL;
		bad |= hwt_store_cancel(store, id) != EINVAL || hwt_store_reschedule(store, id, 0) != EINVAL;
		bad |= hwt_store_get(store, id, &info) != EINVAL || hwt_store_start(store) != EINVAL;
		bad |= hwt_store_fd(store, &fd) != EINVAL || hwt_store_next(store, &run) != EINVAL;
		bad |= hwt_store_read_stats(store, &stats) != EINVAL;
		bad |= hwt_store_read_kind_stats(store, "a", &stats) != EINVAL;
		bad |= hwt_store_stop(store) != EINVAL || hwt_store_close(store) != EINVAL;
		_exit(bad);
	}
	CHECK_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK_INT(status, ==, 0);
	CHECK_CALL(hwt_store_cancel(store, id), 0);
}

static int open_in_a_child(void)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		hwt_store_config config = store_config();
		hwt_store *store = NULL;
		char error[256] = "";
		int rc = hwt_store_open(&store, world.url, &config, error, sizeof(error));

		_exit(rc == 0 ? 0 : rc == EINVAL && store == NULL && strstr(error, "forked") ? 1 : 2);
	}
	REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* The child has copies of SQLite's mutexes, and of its list of the locks of a process. */
TEST(a_child_opens_sqlite_if_no_store_was_open_at_the_fork)
{
	hwt_store *store = fresh_store();

	CHECK_INT(open_in_a_child(), ==, on_sqlite() ? 1 : 0);
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(open_in_a_child(), ==, 0);
}

static unsigned attempt_seen;
static _Atomic uint64_t missed_seen;

static int see_attempt(const hwt_store_run *run, void *ctx)
{
	attempt_seen = run->attempt;
	atomic_store(&missed_seen, run->missed);
	return count_run(run, ctx);
}

TEST(a_timeout_whose_numbers_are_damaged_runs)
{
	static const char *const columns[] = { "due_us = -9223372036854775807", "base_us = -9223372036854775807",
					       "attempt = -5", "period_us = -9223372036854775807" };
	atomic_uint runs = 0;
	CLOSING hwt_store *store = fresh_store();
	hwt_store_info info = HWT_STORE_INFO_INIT;
	int64_t id;

	register_kind(store, "a", see_attempt, &runs, HWT_STORE_AT_LEAST_ONCE);
	for (unsigned i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		id = put(store, "a", 0);
		(void)query("update %s_timeout set %s where id = %lld", world.schema, columns[i], (long long)id);
		CHECK_CALL(hwt_store_start(store), 0);
		CHECK(wait_gone(store, id));
		CHECK_INT(atomic_load(&runs), ==, i + 1);
		CHECK_INT(attempt_seen, ==, 1);
		CHECK_CALL(hwt_store_stop(store), 0);
	}
	/* A series with a period. */
	CHECK_CALL(hwt_store_put(store, &SPEC("a", HWT_S(3600), .period_ns = HWT_S(60)), &id), 0);
	(void)query("update %s_timeout set due_us = 5, base_us = -9223372036854775807, period_us = 9223372036854775807",
		    world.schema);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_count(&runs, 5));
	CHECK(wait_store_state(store, id, HWT_STORE_PENDING));
	CHECK_CALL(hwt_store_get(store, id, &info), 0);
	CHECK_INT(info.due_us, >, now_us());
	CHECK_INT(info.period_ns, >, 0);
	CHECK_INT(atomic_load(&missed_seen), ==, 0);
}

/* Lets this number of files more be opened; returns the old limit. */
static struct rlimit limit_files(rlim_t more)
{
	struct rlimit before, less;
	int fd = open("/dev/null", O_RDONLY);

	REQUIRE(fd >= 0 && close(fd) == 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
	less = before;
	less.rlim_cur = (rlim_t)fd + more;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &less) == 0);
	return before;
}

static void *draw(void *number)
{
	*(uint64_t *)number = hwts_random();
	return NULL;
}

/* Names of processes are random numbers. */
TEST(threads_draw_different_numbers_where_no_file_can_be_opened)
{
	struct rlimit before = limit_files(0);
	uint64_t numbers[2] = { 0, 0 };

	for (int i = 0; i < 2; i++) {
		pthread_t thread;

		CHECK_INT(pthread_create(&thread, NULL, draw, &numbers[i]), ==, 0);
		CHECK_INT(pthread_join(thread, NULL), ==, 0);
	}
	CHECK_INT(setrlimit(RLIMIT_NOFILE, &before), ==, 0);
	CHECK(numbers[0] != numbers[1]);
}

TEST(too_many_open_files_are_told_as_such)
{
	NEEDS_SQLITE();
	hwt_store *store = NULL;

	CHECK_CALL(hwt_store_close(fresh_store()), 0);
	const hwt_store_config config = store_config();
	for (rlim_t more = 0; more < 3; more++) { /* the file, its log, its index */
		struct rlimit before = limit_files(more);

		CHECK_CALL(hwt_store_open(&store, world.url, &config, NULL, 0), EMFILE);
		REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
	}
	CHECK_CALL(hwt_store_close(open_store()), 0);
}

#ifdef HWT_STORE_SQLITE
/* The transaction can never succeed, so the error must not be one that asks for a repetition of the call. */
TEST(a_transaction_that_read_before_another_wrote_is_told_to_begin_anew)
{
	NEEDS_SQLITE();
	hwt_store_spec spec = spec_of("a", HWT_S(3600));
	CLOSING hwt_store *store = fresh_store();
	sqlite3 *db = NULL;

	(void)put(store, "a", HWT_S(3600));
	REQUIRE(sqlite3_open(world.url + strlen("sqlite:"), &db) == SQLITE_OK);
	sqlite3_busy_timeout(db, (int)(PATIENCE_NS / HWT_MS(1))); /* the store may be drawing ids */
	REQUIRE(sqlite3_exec(db, "begin; select count(*) from sqlite_master", NULL, NULL, NULL) == SQLITE_OK);
	(void)put(store, "a", HWT_S(3600));
	CHECK_CALL(hwt_store_put_on(store, db, &spec, NULL), EAGAIN);
	CHECK(strstr(hwt_store_error(), "try again") == NULL);
	CHECK(strstr(hwt_store_error(), "BEGIN IMMEDIATE") != NULL);
	REQUIRE(sqlite3_exec(db, "rollback; begin immediate", NULL, NULL, NULL) == SQLITE_OK);
	CHECK_CALL(hwt_store_put_on(store, db, &spec, NULL), 0);
	REQUIRE(sqlite3_exec(db, "commit", NULL, NULL, NULL) == SQLITE_OK);
	sqlite3_close(db);
}
#endif

#ifdef __linux__
static bool blocks_usr1(const char *task)
{
	unsigned long long blocked = 0;
	char path[64], line[256];
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%.20s/status", task);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		(void)sscanf(line, "SigBlk: %llx", &blocked);
	if (file)
		(void)fclose(file);
	return !file || (blocked >> (SIGUSR1 - 1) & 1) != 0; /* the thread has ended: not one of the store */
}
#endif

TEST(signals_are_for_the_programs_own_threads)
{
#ifdef __linux__
	CLOSING hwt_store *store = run_tasks(fresh_store(), count_run, HWT_STORE_AT_LEAST_ONCE);
	const struct dirent *entry;
	unsigned others = 0;
	DIR *tasks = opendir("/proc/self/task");

	REQUIRE(tasks != NULL);
	while ((entry = readdir(tasks)) != NULL) {
		if (entry->d_name[0] == '.' || atol(entry->d_name) == (long)getpid())
			continue;
		CHECK(blocks_usr1(entry->d_name));
		others++;
	}
	closedir(tasks);
	CHECK_INT(others, >=, 3);
#else
	SKIP("of Linux");
#endif
}

STORE_MAIN(visit)
