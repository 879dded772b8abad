/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engines called directly, and the code between engines and threads: faults that a whole store hides because
 * something else makes up for them, and cases that need a pooler or a server that is not there.
 *
 * This program puts functions of its own in front of a few of libpq: one says that the server is another, others that a
 * pooler is between.
 */
#include "store_query.h"

#include "inside.h"

#include <dirent.h>
#include <dlfcn.h>
#include <poll.h>

#ifdef HWT_STORE_SQLITE
#include "db/sqlite.h"
#endif
#ifdef HWT_STORE_POSTGRES
#include "db/postgres.h"
#endif

/*
 * Kinds
 */

static void register_plain(hwt_store *store, const char *name)
{
	CHECK_CALL(hwt_store_register(store, &KIND(.name = name, .task = count_run)), 0);
}

/* The error of a death is written by a statement, and by a take in C. */
TEST(a_statement_writes_the_text_of_a_death_that_c_knows)
{
	CHECK(strstr(hwts_statements[HWTS_SQL_INHERIT].sqlite, "error = '" HWTS_DIED "'"));
}

TEST(what_a_kind_leaves_open_is_as_the_header_says)
{
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(2));
	const struct hwts_kind *kind;

	register_plain(store, "a");
	kind = store->kinds;
	CHECK_INT(kind->row.shards, ==, 8);
	CHECK_INT(kind->row.mode, ==, HWT_STORE_AT_LEAST_ONCE);
	CHECK_INT(kind->row.horizon_us, ==, 5000000);
	CHECK_INT(kind->max_attempts, ==, 20);
	CHECK_INT(kind->concurrency, >=, 1024); /* as many as there can be threads */
	CHECK_INT(kind->backoff_us, ==, 1000000);
	CHECK_INT(kind->backoff_max_us, ==, INT64_C(3600000000));
	CHECK_CALL(hwt_store_register(store, &KIND(.name = "short", .task = count_run, .backoff_ns = HWT_S(10),
						   .backoff_max_ns = HWT_S(2))),
		   0);
	CHECK_INT(kind->next->backoff_us, ==, 2000000); /* never above the maximum */
	CHECK_CALL(hwt_store_close(store), 0);
	/* The smallest horizon is 2/3 of the lease. */
	store = OPEN(.lease_ns = HWT_S(30));
	register_plain(store, "b");
	CHECK_INT(store->kinds->row.horizon_us, ==, 20000000);
}

/* News may name any shard. */
TEST(a_shard_that_a_kind_does_not_have_is_not_found)
{
	static const int32_t others[] = { 8, 1023, 1024, -1024 };
	CLOSING hwt_store *store = fresh_store();
	int32_t first;

	register_plain(store, "a");
	first = store->kinds->row.id * HWTS_SHARDS_MAX;
	for (int32_t i = 0; i < 8; i++) {
		CHECK(hwts_shard(store, first + i, NULL) == &store->kinds->shards[i]);
		CHECK_INT(store->kinds->shards[i].id, ==, first + i);
	}
	for (size_t i = 0; i < HWTS_COUNT(others); i++)
		CHECK(!hwts_shard(store, first + others[i], NULL));
	CHECK(!hwts_shard(store, -1 - first, NULL));
}

TEST(the_first_registration_of_a_kind_settles_it)
{
	struct hwts_kind_row made = { .shards = 3, .mode = HWTS_MODE_OPEN, .horizon_us = 5000000 },
			     first = { .shards = 9, .mode = 1, .horizon_us = 7000000 },
			     second = { .shards = 2, .mode = 2, .horizon_us = 9000000 }, out = { .id = -7 };
	struct hwts_conn *conn = NULL;
	CLOSING hwt_store *store = fresh_store();

	CHECK_INT(hwts_conns_get(store, &conn), ==, 0);
	CHECK_INT(hwts_rows_kind(conn, "a", NULL, &out), ==, ENOENT);
	CHECK_INT(out.id, ==, -7);
	CHECK_INT(hwts_rows_kind(conn, "a", &made, &out), ==, 0);
	CHECK_INT(out.mode, ==, HWTS_MODE_OPEN);
	CHECK_INT(hwts_rows_kind(conn, "a", &first, &out), ==, 0);
	for (int i = 0; i < 2; i++) {
		CHECK_INT(out.shards, ==, 3);
		CHECK_INT(out.mode, ==, 1);
		CHECK_INT(out.horizon_us, ==, 7000000);
		CHECK_INT(hwts_rows_kind(conn, "a", &second, &out), ==, 0);
	}
	CHECK_INT(query("select count(*) from %s_shard", world.schema), ==, 3);
	hwts_conns_put(store, conn, 0);
}

enum { MAKERS = 4, MADE = 15 };

struct maker {
	hwt_store *store;
	unsigned number;
	int32_t same[MADE];
};

static atomic_uint makers_ready;

static void *make_kinds(void *arg)
{
	struct maker *maker = arg;
	struct hwts_kind_row make = { .shards = 2, .mode = HWTS_MODE_OPEN, .horizon_us = 5000000 }, out;
	struct hwts_conn *conn = NULL;
	char name[32];
	int rc;

	CHECK_INT(maker->store->engine->connect(maker->store->db, HWTS_CALL, &conn), ==, 0);
	atomic_fetch_add(&makers_ready, 1);
	CHECK(wait_count(&makers_ready, MAKERS));
	for (unsigned i = 0; i < MADE; i++) {
		(void)snprintf(name, sizeof(name), "same %u", i);
		PATIENTLY(rc, hwts_rows_kind(conn, name, &make, &out));
		CHECK_INT(rc, ==, 0);
		maker->same[i] = out.id;
		(void)snprintf(name, sizeof(name), "own %u.%u", maker->number, i);
		PATIENTLY(rc, hwts_rows_kind(conn, name, &make, &out));
		CHECK_INT(rc, ==, 0);
	}
	maker->store->engine->disconnect(conn);
	return NULL;
}

TEST(kinds_that_are_made_at_once_are_made_once_each)
{
	struct maker makers[MAKERS];
	pthread_t threads[MAKERS];

	fresh_world();
	atomic_store(&makers_ready, 0);
	for (unsigned i = 0; i < MAKERS; i++) {
		makers[i] = (struct maker){ .store = open_store(), .number = i }; /* as processes, each by itself */
		CHECK_INT(pthread_create(&threads[i], NULL, make_kinds, &makers[i]), ==, 0);
	}
	for (unsigned i = 0; i < MAKERS; i++)
		CHECK_INT(pthread_join(threads[i], NULL), ==, 0);
	for (unsigned i = 0; i < MAKERS; i++) {
		CHECK(memcmp(makers[i].same, makers[0].same, sizeof(makers[0].same)) == 0);
		CHECK_CALL(hwt_store_close(makers[i].store), 0);
	}
	CHECK_INT(query("select count(*) from %s_kind", world.schema), ==, MADE + MAKERS * MADE);
	CHECK_INT(query("select count(*) from %s_shard", world.schema), ==, 2 * (MADE + MAKERS * MADE));
}

/*
 * The tables
 */

TEST(leases_of_an_earlier_boot_are_over)
{
	NEEDS_SQLITE(); /* PostgreSQL has a clock of its own */

	CHECK_CALL(hwt_store_close(fresh_store()), 0);
	(void)query("insert into %s_member (name, incarnation, until_us, kinds) values ('dead', 1, %" PRId64 ", '')",
		    world.schema, INT64_MAX / 2);
	CLOSING hwt_store *store = open_store();
	CHECK_INT(query("select count(*) from %s_member", world.schema), ==, 1);
	CHECK_CALL(hwt_store_close(store), 0);
	(void)query("update %s_meta set boot = 'another'", world.schema);
	store = open_store();
	CHECK_INT(query("select count(*) from %s_member", world.schema), ==, 0);
}

/*
 * Connections and descriptors
 */

TEST(a_connection_that_broke_is_not_kept)
{
	CLOSING hwt_store *store = fresh_store();
	struct hwts_conn *conn;

	CHECK_INT(hwts_conns_get(store, &conn), ==, 0);
	CHECK(!store->conns->idle); /* it was kept since the store was opened */
	conn->broken = true;
	hwts_conns_put(store, conn, 0);
	CHECK(!store->conns->idle);
}

#ifdef HWT_STORE_POSTGRES
TEST(a_connection_that_the_server_closed_while_it_was_idle_spoils_no_call)
{
	NEEDS_POSTGRES();
	CLOSING hwt_store *store = fresh_store();
	struct pollfd fd;

	put(store, "a", HWT_S(1000));
	fd = (struct pollfd){ .fd = PQsocket(pg_conn(store->conns->idle)->handle), .events = POLLRDHUP };
	(void)query("select pg_terminate_backend(%d)", PQbackendPID(pg_conn(store->conns->idle)->handle));
	WAIT_FOR(poll(&fd, 1, 0) == 1);
	put(store, "a", HWT_S(1000));
}
#endif

/* Counts open descriptors; *inherited of them would be open in a program that this one executes. */
static unsigned descriptors(unsigned *inherited)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned n = 0;

	REQUIRE(folder != NULL);
	*inherited = 0;
	for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
		int flags = fcntl(atoi(entry->d_name), F_GETFD);

		if (entry->d_name[0] == '.' || atoi(entry->d_name) == dirfd(folder))
			continue;
		n++;
		*inherited += flags >= 0 && !(flags & FD_CLOEXEC);
	}
	closedir(folder);
	return n;
}

TEST(a_store_leaves_no_descriptor_open_and_none_to_other_programs)
{
	unsigned before = 0, after, inherited_before, inherited;
	int fd = -1;

	fresh_world();
	for (int round = 0; round < 2; round++) { /* in the first round the libraries settle */
		before = descriptors(&inherited_before);
		CLOSING hwt_store *store = open_store();
		register_plain(store, "a");
		CHECK_CALL(hwt_store_start(store), 0);
		CHECK_CALL(hwt_store_fd(store, &fd), 0);
		CHECK(wait_gone(store, put(store, "a", 0)));
		/* libpq marks a socket as close-on-exec only after it has made it. */
		WAIT_FOR((after = descriptors(&inherited), inherited == inherited_before));
		CHECK_INT(after, >, before);
		CHECK_CALL(hwt_store_stop(store), 0);
		CHECK_CALL(hwt_store_start(store), 0);
	}
	after = descriptors(&inherited);
	CHECK_INT(after, ==, before);
}

/*
 * A start that fails
 */

static const struct hwts_engine *real_engine;

static int fail_to_look(struct hwts_conn *conn, const struct hwts_step *steps, size_t n, unsigned flags)
{
	return steps->sql == HWTS_SQL_RENEW ? hwts_fail(EIO, "the look of this test fails")
					    : real_engine->run(conn, steps, n, flags);
}

TEST(a_start_that_fails_leaves_no_lease_behind)
{
	struct hwts_engine engine;
	unsigned inherited, before = 0;
	CLOSING hwt_store *store = fresh_store();

	register_plain(store, "a");
	real_engine = store->engine;
	engine = *real_engine;
	engine.run = fail_to_look;
	store->engine = store->db->engine = &engine;
	for (int i = 0; i < 3; i++) {
		CHECK_CALL(hwt_store_start(store), EIO);
		CHECK_INT(query("select count(*) from %s_member", world.schema), ==, 0);
		if (i ==
		    0) /* SQLite keeps descriptors of a file that another connection has open, and uses them again */
			before = descriptors(&inherited);
	}
	CHECK_INT(descriptors(&inherited), ==, before);
	store->engine = store->db->engine = real_engine;
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_gone(store, put(store, "a", 0)));
}

/*
 * News
 */

struct heard {
	char text[512];
	bool end;
};

static void note_news(void *ctx, const struct hwts_due *due)
{
	struct heard *heard = ctx;
	size_t at = strlen(heard->text);

	if (due->id == 99)
		heard->end = true;
	else
		(void)snprintf(heard->text + at, sizeof(heard->text) - at, "%" PRId64 ":%" PRId64 ":%d:%u ", due->id,
			       due->due_us, (int)due->shard, (unsigned)due->len);
}

/* Reads news up to the timeout 99, which is the last. */
static void read_news(hwt_store *store, struct hwts_conn *conn, struct heard *heard)
{
	struct patience patience = PATIENCE("the last news is read");
	int64_t again_ns;

	*heard = (struct heard){ .end = false };
	while (!heard->end && patience_lasts(&patience, HWT_US(100)))
		CHECK_INT(store->engine->news(conn, true, note_news, heard, &again_ns), ==, 0);
	CHECK(heard->end);
}

#ifdef HWT_STORE_POSTGRES
TEST(notifications_are_read_as_they_were_written_and_others_are_ignored)
{
	NEEDS_POSTGRES();
	static const char *const sent[][2] = {
		{ "5:100:7", "5:100:1024:7 " },
		{ "5:100:7,6:200:0", "5:100:1024:7 6:200:1024:0 " },
		{ "5:100", "" },
		{ "5:100:", "" },
		{ "5,100,7", "" },
		{ "5:100:7;6:200:8", "5:100:1024:7 " },
		{ "0:1:1,-3:1:1,7:1:1", "7:1:1024:1 " },
		{ "5:100:99999999999", "5:100:1024:1048576 " },
		{ "5:100:-4", "5:100:1024:0 " },
		{ "9223372036854775808:-9223372036854775809:1", "9223372036854775807:-9223372036854775808:1024:1 " },
		{ "r", "-1:0:0:0 " },
		{ "", "" },
	};
	struct hwts_shard_row shard = { .shard = 1024 };
	struct hwts_conn *conn = NULL;
	struct heard heard;
	CLOSING hwt_store *store = fresh_store();

	CHECK_INT(store->engine->connect(store->db, HWTS_CONTROL, &conn), ==, 0);
	CHECK_INT(store->engine->listen(conn, &shard, 1, true), ==, 0);
	for (size_t i = 0; i < HWTS_COUNT(sent); i++) {
		(void)query("select pg_notify('%s1024', '%s')", store->db->channel, sent[i][0]);
		(void)query("select pg_notify('%s1024', '99:1:1')", store->db->channel);
		read_news(store, conn, &heard);
		if (strcmp(heard.text, sent[i][1]) != 0) {
			fprintf(stderr, "    %s: %s\n", sent[i][0], heard.text);
			CHECK(strcmp(heard.text, sent[i][1]) == 0);
		}
	}
	(void)query("select pg_notify('%smembers', '')", store->db->channel);
	(void)query("select pg_notify('%s1024', '99:1:1')", store->db->channel);
	read_news(store, conn, &heard);
	CHECK(strcmp(heard.text, "0:0:0:0 ") == 0);
	store->engine->disconnect(conn);
}

/* A role that may connect, and has no other right: whatever it finds, it does not find the name of a channel. */
/* Plans of the functions are shown to any role; text appears there as decimal bytes. */
static void note_leak(void *arg, const char *message)
{
	if (strstr(message, arg))
		((char *)arg)[0] = '\0';
}

static void check_plans_are_silent(PGconn *conn, const char *call, const char *secret)
{
	char bytes[64];

	(void)snprintf(bytes, sizeof(bytes), " %d %d %d %d %d %d", secret[0], secret[1], secret[2], secret[3],
		       secret[4], secret[5]);
	(void)PQsetNoticeProcessor(conn, note_leak, bytes);
	PQclear(PQexec(conn, "set debug_print_plan = on; set client_min_messages = log"));
	PGresult *result = PQexec(conn, call);
	CHECK_INT(PQresultStatus(result), ==, PGRES_TUPLES_OK);
	PQclear(result);
	CHECK(bytes[0] != '\0');
	PQclear(PQexec(conn, "reset client_min_messages"));
	(void)PQsetNoticeProcessor(conn, note_leak, bytes);
}

TEST(a_role_without_rights_neither_hears_news_nor_forges_any)
{
	NEEDS_POSTGRES();
	struct hwts_shard_row shard = { .shard = 1024 };
	struct hwts_conn *conn = NULL;
	struct heard heard;
	PGnotify *notify;
	char url[TEXT_MAX], role[64], text[256];
	CLOSING hwt_store *store = fresh_store();

	(void)snprintf(role, sizeof(role), "%s_anybody", world.schema);
	(void)query("create role %s login", role);
	url_of_role(url, role);
	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_INT(store->engine->connect(store->db, HWTS_CONTROL, &conn), ==, 0);
	CHECK_INT(store->engine->listen(conn, &shard, 1, true), ==, 0);
	(void)query("update %s_shard set owner = 'somebody'", world.schema); /* the owner is told */
	PGconn *anybody = PQconnectdb(url + strlen("pg:"));
	REQUIRE(PQstatus(anybody) == CONNECTION_OK);
	for (int i = 0; i < 9; i++) {
		(void)snprintf(text, sizeof(text), i < 8 ? "listen %s_%d; notify %s_%d, '5:1:7'" : "listen %s_members",
			       world.schema, 1024 + i, world.schema, 1024 + i);
		PQclear(PQexec(anybody, text));
		CHECK(PQerrorMessage(anybody)[0] == '\0');
	}
	while ((notify = PQnotifies(anybody)) != NULL) /* its own notifications */
		PQfreemem(notify);
	for (int i = 0; i < 20; i++)
		(void)query("select %s_put('a', grp => 'tenant%d')", world.schema, i);
	(void)query("select pg_notify('%s1024', '99:1:1')", store->db->channel);
	read_news(store, conn, &heard);
	CHECK(strstr(heard.text, ":1024:0 ") != NULL && strstr(heard.text, "5:1:1024") == NULL);
	PQclear(PQexec(anybody, "select 1"));
	CHECK(PQnotifies(anybody) == NULL);
	CHECK_INT(query("select count(*) from pg_proc where strpos(prosrc, '%.16s') > 0", store->db->store), ==, 0);
	(void)snprintf(text, sizeof(text), "select store from %s_meta", world.schema);
	PGresult *refused = PQexec(anybody, text);
	CHECK(strcmp(PQresultErrorField(refused, PG_DIAG_SQLSTATE), "42501") == 0);
	PQclear(refused);
	(void)query("grant execute on function %s_put to %s", world.schema, role);
	(void)snprintf(text, sizeof(text), "select public.%s_put('a', grp => 'tenant')", world.schema);
	check_plans_are_silent(anybody, text, store->db->store);
	PQfinish(anybody);
	store->engine->disconnect(conn);
}
#endif

#define HINT(id)                                                                                                       \
	(void)query("insert into %s_hint (id, due_us, shard, len, at_us) values (%d, 100, 1024, 7, 0)", world.schema,  \
		    id)

/* id -1: read the window again. */
TEST(hints_that_were_removed_before_they_were_read_are_told)
{
	NEEDS_SQLITE();
	struct hwts_conn *conn = NULL;
	struct heard heard;
	int64_t again_ns;
	CLOSING hwt_store *store = fresh_store();

	HINT(1);
	CHECK_INT(store->engine->connect(store->db, HWTS_CONTROL, &conn), ==, 0);
	CHECK_INT(store->engine->listen(conn, NULL, 0, true), ==, 0);
	HINT(5);
	HINT(99);
	read_news(store, conn, &heard);
	CHECK(strcmp(heard.text, "5:100:1024:7 ") == 0);
	HINT(6);
	(void)query("delete from %s_hint", world.schema);
	HINT(7);
	HINT(99);
	read_news(store, conn, &heard);
	CHECK(strcmp(heard.text, "-1:0:0:0 7:100:1024:7 ") == 0);
	HINT(8);
	(void)query("delete from %s_hint", world.schema);
	heard = (struct heard){ .end = false };
	CHECK_INT(store->engine->news(conn, true, note_news, &heard, &again_ns), ==, 0);
	CHECK(strcmp(heard.text, "-1:0:0:0 ") == 0);
	store->engine->disconnect(conn);
}

/* A restore beside a process that goes on gives hints the numbers of before. */
TEST(hints_of_a_file_that_was_restored_are_told)
{
	NEEDS_SQLITE();
	struct hwts_conn *conn = NULL;
	struct heard heard;
	CLOSING hwt_store *store = fresh_store();

	HINT(1);
	CHECK_INT(store->engine->connect(store->db, HWTS_CONTROL, &conn), ==, 0);
	CHECK_INT(store->engine->listen(conn, NULL, 0, true), ==, 0);
	HINT(2);
	HINT(99);
	read_news(store, conn, &heard);
	(void)query("delete from %s_hint", world.schema);
	(void)query("update sqlite_sequence set seq = 1 where name = '%s_hint'", world.schema);
	heard = (struct heard){ .end = false };
	CHECK_INT(store->engine->news(conn, true, note_news, &heard, &(int64_t){ 0 }), ==, 0);
	CHECK(strcmp(heard.text, "-1:0:0:0 ") == 0);
	HINT(5);
	HINT(99);
	read_news(store, conn, &heard);
	CHECK(strcmp(heard.text, "5:100:1024:7 ") == 0);
	store->engine->disconnect(conn);
}

static atomic_uint no_hints;

/* At the first call: leaves a hint, as a put of another process does. */
static void leave_hint(const char *point)
{
	if (strcmp(point, "no hint") == 0 && atomic_fetch_add(&no_hints, 1) == 0)
		HINT(5);
}

TEST(a_hint_that_comes_amid_a_reading_is_told)
{
	NEEDS_SQLITE();
	struct hwts_conn *conn = NULL;
	struct heard heard = { .end = false };
	int64_t again_ns;
	CLOSING hwt_store *store = fresh_store();

	CHECK_INT(store->engine->connect(store->db, HWTS_CONTROL, &conn), ==, 0);
	CHECK_INT(store->engine->listen(conn, NULL, 0, true), ==, 0);
	atomic_store(&no_hints, 0);
	atomic_store(&hwts_test_at, leave_hint);
	CHECK_INT(store->engine->news(conn, true, note_news, &heard, &again_ns), ==, 0);
	atomic_store(&hwts_test_at, NULL);
	CHECK_INT(atomic_load(&no_hints), ==, 1);
	CHECK(strcmp(heard.text, "5:100:1024:7 ") == 0);
	store->engine->disconnect(conn);
}

/* A look-ahead comes only every 200 s: it finds none of them. */
TEST(what_another_process_puts_far_ahead_and_in_great_numbers_is_told_to_the_holder)
{
	enum { MANY = 600 };
	CLOSING hwt_store *store = fresh_store();
	hwt_store_spec specs[MANY];
	char keys[MANY][8];

	/* News of all rows in one notification would be longer than PostgreSQL allows. */
	CHECK_CALL(hwt_store_register(store, &KIND(.name = "a", .task = count_run, .shards = 1)), 0);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 1));
	CLOSING hwt_store *other = open_store();
	for (unsigned keyed = 0; keyed < 2; keyed++) {
		for (unsigned i = 0; i < MANY; i++) {
			specs[i] = spec_of("a", HWT_MS(1500) + HWT_US(i));
			(void)snprintf(keys[i], sizeof(keys[i]), "%u", i);
			specs[i].key = keyed ? keys[i] : NULL;
		}
		CHECK_CALL(hwt_store_put_many(other, specs, MANY, NULL), 0);
		put(other, "a", HWT_MS(1500));
		CHECK(wait_count(&ran, (MANY + 1) * (keyed + 1)));
	}
}

/* Returns when a look that began after this call is over: the next one has begun. */
static void wait_look(hwt_store *store)
{
	for (unsigned i = 0, seen = atomic_load(&passes); i < 3; i++) {
		look_now(store);
		CHECK(wait_count(&passes, seen + i + 1));
	}
}

/*
 * The notification is lost, and the row lies behind the holder's mark.  The look-ahead must find it, not the net, which
 * looks for rows that are overdue by a third of the lease.
 */
TEST(what_another_process_reschedules_into_the_window_is_found_without_news)
{
	NEEDS_POSTGRES(); /* a hint of SQLite is a row of the same transaction */
	unsigned rescued = atomic_load(&hwts_test_rescued);
	CLOSING hwt_store *store = FRESH(.lease_ns = HWT_S(1800)), *other = open_store();
	int64_t id;

	register_plain(store, "a");
	count_passes("looked");
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	id = put(other, "a", HWT_S(3600));
	wait_look(store); /* this look has passed the new time */
	atomic_store(&hwts_test_deaf, true);
	CHECK_CALL(hwt_store_reschedule(other, id, HWT_MS(100)), 0);
	look_now(store);
	CHECK(wait_count(&ran, 1));
	atomic_store(&hwts_test_deaf, false);
	atomic_store(&hwts_test_at, NULL);
	CHECK_INT(atomic_load(&hwts_test_rescued), ==, rescued);
}

/* A holder that looks ahead only every quarter of an hour: it knows the rows of which it is told. */
static hwt_store *start_holder_of_hours(void)
{
	hwt_store *store;

	store = OPEN(.lease_ns = HWT_S(3600));
	CHECK_CALL(hwt_store_register(store, &KIND(.name = "a", .task = count_run, .horizon_ns = HWT_S(7200))), 0);
	atomic_store(&ran, 0);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	sleep_ms(300); /* its own look at the members must not find rows that are put later */
	return store;
}

/* News come in order: when a row that is due now has run, the news before it are known. */
static void check_window(hwt_store *store, hwt_store *other, uint64_t rows)
{
	put(other, "a", 0);
	CHECK(wait_count(&ran, 1));
	CHECK_INT(settled_stats(store).window, ==, rows);
}

TEST(what_another_process_reschedules_into_a_long_window_is_told)
{
	int64_t id;

	fresh_world();
	CLOSING hwt_store *store = start_holder_of_hours(), *other = open_store();
	id = put(other, "a", HWT_S(36000));
	CHECK_CALL(hwt_store_reschedule(other, id, HWT_S(5400)), 0);
	check_window(store, other, 1);
}

/* A put has made the kind, with its own process's horizon; the first registration sets another. */
TEST(what_is_put_by_the_process_that_made_the_kind_is_told)
{
	CLOSING hwt_store *other = FRESH(.lease_ns = HWT_S(6));

	put(other, "a", HWT_S(36000));
	CLOSING hwt_store *store = start_holder_of_hours();
	put(other, "a", HWT_S(3000));
	check_window(store, other, 1);
	hwts_kind_find(other, "a")->asked_ns -= HWT_S(6); /* a lease later it asks again */
	put(other, "a", HWT_S(36000));
	CHECK_INT(hwts_kind_find(other, "a")->row.mode, ==, HWT_STORE_AT_LEAST_ONCE);
}

#ifdef HWT_STORE_POSTGRES
/* News alone is not worth a sync; a caller's transaction contains more than news. */
TEST(news_is_synced_only_with_the_transaction_of_a_caller)
{
	NEEDS_POSTGRES();
	struct hwts_conn *conn = NULL;
	int64_t id;

	fresh_world();
	CLOSING hwt_store *store = start_holder_of_hours(), *other = open_store();
	id = put(other, "a", HWT_S(3000));
	REQUIRE(other->engine->connect(other->db, HWTS_CALL, &conn) == 0);
	for (int callers = 0; callers < 2; callers++) {
		struct hwts_step step = { .sql = HWTS_SQL_TELL,
					  .args = { HWTS_BYTES(&id, 1), HWTS_TEXT(hwts_me(other->db)),
						    HWTS_NUMBER(callers), HWTS_NUMBER(0) } };

		CHECK_INT(hwts_run(conn, &step, 1, HWTS_OPEN), ==, 0);
		CHECK_INT(hwts_pg_simple(pg_conn(conn),
					 callers
					     ? "do $$ begin assert current_setting('synchronous_commit') = 'on'; end $$"
					     : "do $$ begin assert current_setting('synchronous_commit') = 'off'; end "
					       "$$"),
			  ==, 0);
		CHECK_INT(hwts_finish(conn, 0), ==, 0);
	}
	other->engine->disconnect(conn);
}
#endif

/*
 * PostgreSQL: what goes over the wire, and the connections
 */

#ifdef HWT_STORE_POSTGRES
static atomic_int server_version;   /* version that servers report; 0: the real one */
static atomic_int sessions_differ;  /* a pooler: how many times two connections get different backends */
static _Atomic(PGconn *) first_met; /* a pooler in transaction mode: the backend that other connections get */
static atomic_bool pooler;

#define REAL(name) (*(void **)&real = dlsym(RTLD_NEXT, name))

int PQserverVersion(const PGconn *conn)
{
	int (*real)(const PGconn *);
	int version = atomic_load(&server_version);

	REAL("PQserverVersion");
	return version ? version : real(conn);
}

int PQbackendPID(const PGconn *conn)
{
	int (*real)(const PGconn *);

	REAL("PQbackendPID");
	return real(conn) + (atomic_load(&pooler) ? 1 : 0);
}

PGresult *PQexec(PGconn *conn, const char *text)
{
	PGresult *(*real)(PGconn *, const char *);

	REAL("PQexec");
	if (!atomic_load(&pooler) || !strstr(text, "pg_backend_pid"))
		return real(conn, text);
	if (!atomic_load(&first_met))
		atomic_store(&first_met, conn);
	if (conn != atomic_load(&first_met) && atomic_fetch_sub(&sessions_differ, 1) <= 0)
		return real(atomic_load(&first_met), "select pg_backend_pid()");
	return real(conn, text);
}

/* Starts a store through a pooler, which puts can use; returns the answer. */
static int start_through_pooler(int differ)
{
	hwt_store *store;
	int rc;

	atomic_store(&first_met, NULL);
	atomic_store(&sessions_differ, differ);
	atomic_store(&pooler, true);
	store = open_store();
	atomic_store(&pooler, false);
	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_cancel(store, put(store, "a", HWT_S(600))), 0);
	rc = hwt_store_start(store);
	CHECK(rc != ENOTSUP || strstr(hwt_store_error(), "transaction mode"));
	CHECK_CALL(hwt_store_close(store), 0);
	return rc;
}

TEST(through_a_pooler_in_transaction_mode_no_store_is_started)
{
	NEEDS_POSTGRES();
	fresh_world();
	CHECK_INT(start_through_pooler(0), ==, ENOTSUP);
	CHECK_INT(start_through_pooler(3), ==, ENOTSUP);   /* the other backends were busy */
	CHECK_INT(start_through_pooler(INT32_MAX), ==, 0); /* in session mode */
}

TEST(a_server_that_is_too_old_is_refused)
{
	NEEDS_POSTGRES();
	hwt_store_config config;
	CLOSING hwt_store *store = NULL;
	char error[256] = "";

	fresh_world();
	config = store_config();
	atomic_store(&server_version, 120017);
	CHECK_CALL(hwt_store_open(&store, world.url, &config, error, sizeof(error)), ENOTSUP);
	CHECK(strstr(error, "version 12, 13 is needed") != NULL);
	atomic_store(&server_version, 130000);
	CHECK_CALL(hwt_store_open(&store, world.url, &config, error, sizeof(error)), 0);
	atomic_store(&server_version, 0);
}

static int ask_settings(hwt_store *store, enum hwts_role role, struct hwts_conn **conn, PGresult **result)
{
	int rc = store->engine->connect(store->db, role, conn);

	if (rc != 0)
		return rc;
	rc = hwts_pg_one(pg_conn(*conn),
			 "select concat_ws(' ', current_setting('idle_in_transaction_session_timeout'),"
			 " current_setting('lock_timeout'), current_setting('statement_timeout'),"
			 " current_setting('default_transaction_isolation'), current_setting('synchronous_commit'),"
			 " current_setting('enable_seqscan'), current_setting('enable_indexscan'),"
			 " current_setting('idle_session_timeout', true), current_setting('client_encoding'))",
			 result);
	if (rc != 0)
		store->engine->disconnect(*conn);
	return rc == ECONNRESET ? ENOTCONN : rc;
}

static void check_settings(hwt_store *store, enum hwts_role role, const char *want)
{
	struct hwts_conn *conn = NULL;
	PGresult *result = NULL;
	int rc;

	DESPITE_TIMEOUTS(rc, ask_settings(store, role, &conn, &result));
	REQUIRE(rc == 0);
	if (strcmp(PQgetvalue(result, 0, 0), want) != 0) {
		fprintf(stderr, "    role %d: %s\n", (int)role, PQgetvalue(result, 0, 0));
		CHECK(strcmp(PQgetvalue(result, 0, 0), want) == 0);
	}
	PQclear(result);
	store->engine->disconnect(conn);
}

static void check_option(PGconn *handle, const char *name, const char *want)
{
	PQconninfoOption *options = PQconninfo(handle), *option = options;

	while (option->keyword && strcmp(option->keyword, name) != 0)
		option++;
	CHECK(option->val && strcmp(option->val, want) == 0);
	PQconninfoFree(options);
}

/* Whatever the role, the database or the url has set. */
TEST(a_connection_waits_no_longer_than_its_part_can_bear)
{
	NEEDS_POSTGRES();
	const char *url = getenv("HWT_STORE_URL"), *ours = strstr(url, " connect_timeout=");
	hwt_store_config config;
	CLOSING hwt_store *store = NULL;
	PGconn *handle;
	int rc;

	fresh_world();
	config = store_config();
	config.lease_ns = HWT_S(2);
	(void)snprintf(world.url, sizeof(world.url),
		       "%.*s client_encoding=LATIN1 keepalives_idle=11 options='-c statement_timeout=50s"
		       " -c default_transaction_isolation=serializable -c enable_indexscan=off"
		       " -c idle_session_timeout=100s'",
		       ours ? (int)(ours - url) : TEXT_MAX, url);
	DESPITE_TIMEOUTS(rc, hwt_store_open(&store, world.url, &config, NULL, 0));
	REQUIRE(rc == 0);
	check_settings(store, HWTS_CALL, "2s 10s 0 read committed on off on 0 UTF8");
	check_settings(store, HWTS_CONTROL, "2s 1s 0 read committed off off on 0 UTF8");
	check_settings(store, HWTS_BEGIN, "2s 200ms 0 read committed off off on 0 UTF8");
	check_settings(store, HWTS_END, "2s 200ms 0 read committed off off on 0 UTF8");
	check_settings(store, HWTS_TASK, "2s 10s 0 read committed on on off 0 UTF8");
	handle = pg_conn(store->conns->idle)->handle;
	check_option(handle, "connect_timeout", "5");
	check_option(handle, "tcp_user_timeout", "2000");
	check_option(handle, "keepalives_idle", "11"); /* the url's own value holds */
	check_option(handle, "keepalives_interval", "2");
}

TEST(results_of_postgresql_are_what_was_given)
{
	NEEDS_POSTGRES();
	static const int64_t read[] = { -5, -7, -9, 1, 0, 32767 };
	PGresult *result = NULL;
	struct hwts_conn *conn;
	CLOSING hwt_store *store = fresh_store();

	CHECK_INT(hwts_conns_get(store, &conn), ==, 0);
	CHECK_INT(hwts_pg_one(pg_conn(conn),
			      "select (-5)::smallint, (-7)::int, (-9)::bigint, true, null::int,"
			      " 32767::smallint",
			      &result),
		  ==, 0);
	for (int i = 0; result && i < (int)HWTS_COUNT(read); i++)
		CHECK_INT(hwts_pg_get(result, 0, i), ==, read[i]);
	PQclear(result);
	hwts_conns_put(store, conn, 0);
}
#endif

STORE_MAIN(NULL)
