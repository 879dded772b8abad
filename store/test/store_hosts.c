/* SPDX-License-Identifier: BSD-2-Clause */
/* A url that names several hosts, of which some do not answer, or do not write. */
#include "store_query.h"

#include "inside.h"

#ifdef HWT_STORE_POSTGRES
#include "db/postgres.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

static const char *server(void)
{
	return getenv("HWT_STORE_URL") + strlen("pg:host=");
}

static int server_len(void)
{
	return (int)strcspn(server(), " ");
}

/* A frozen host: its kernel accepts connections, and no process answers. */
static int freeze_host(int *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	REQUIRE(fd >= 0 && bind(fd, (struct sockaddr *)&address, len) == 0 && listen(fd, 100) == 0);
	REQUIRE(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
	*port = ntohs(address.sin_port);
	return fd;
}

/*
 * Hosts that do not answer, or do not write
 */

TEST(a_host_that_does_not_answer_is_passed_over)
{
	NEEDS_POSTGRES();
	hwt_store_config config = store_config();
	hwt_store_spec spec = spec_of("a", 0);
	int port, frozen = freeze_host(&port), rc;
	hwt_store *store = NULL;
	int64_t id = 0;

	fresh_world();
	(void)snprintf(world.url, sizeof(world.url),
		       "pg:host=127.0.0.1,%.*s port=%d,5432 user=hwt dbname=postgres target_session_attrs=read-write "
		       "connect_timeout=2",
		       server_len(), server(), port);
	config.schema = world.schema;
	DESPITE_TIMEOUTS(rc, hwt_store_open(&store, world.url, &config, NULL, 0));
	REQUIRE(rc == 0);
	DESPITE_TIMEOUTS(rc, hwt_store_register(store, &KIND(.name = "a", .task = count_run)));
	CHECK_INT(rc, ==, 0);
	DESPITE_TIMEOUTS(rc, hwt_store_start(store));
	CHECK_INT(rc, ==, 0);
	DESPITE_TIMEOUTS(rc, hwt_store_put(store, &spec, &id));
	CHECK_INT(rc, ==, 0);
	CHECK(wait_gone(store, id));
	CHECK_CALL(hwt_store_close(store), 0);
	close(frozen);
}

TEST(a_host_that_does_not_write_is_not_used_until_it_does)
{
	NEEDS_POSTGRES();
	hwt_store_config config = store_config();
	char role[32], url[TEXT_MAX], error[256] = "";
	CLOSING hwt_store *store = NULL;

	fresh_world();
	(void)snprintf(role, sizeof(role), "%s_role", world.schema);
	(void)query("create role %s superuser login; alter role %s set default_transaction_read_only = on", role, role);
	(void)snprintf(url, sizeof(url),
		       "pg:host=%.*s user=%s dbname=postgres target_session_attrs=read-write connect_timeout=300",
		       server_len(), server(), role);
	CHECK_INT(hwt_store_open(&store, url, &config, error, sizeof(error)), ==, ENOTCONN);
	CHECK(strstr(error, "read-only") != NULL);
	(void)query("alter role %s reset default_transaction_read_only", role);
	memcpy(world.url, url, sizeof(url));
	store = open_store();
	put(store, "a", HWT_S(3600));
}

TEST(when_no_host_is_good_the_text_says_why_of_each)
{
	NEEDS_POSTGRES();
	int port, frozen = freeze_host(&port);
	struct hwts_db *base = NULL;
	struct hwts_conn *conn = NULL;
	char url[TEXT_MAX];

	(void)snprintf(url, sizeof(url),
		       "pg:host=127.0.0.1,/nonexistent,a..b port=%d,5432,5432 user=hwt dbname=postgres "
		       "target_session_attrs=primary connect_timeout=2",
		       port);
	CHECK_INT(hwts_postgres.open(url, &base), ==, 0);
	base->lease_us = HWTS_S_US;
	CHECK_INT(hwts_postgres.connect(base, HWTS_CALL, &conn), ==, ENOTCONN);
	CHECK(strstr(hwts_fail_text(), "127.0.0.1") != NULL);
	CHECK(strstr(hwts_fail_text(), "/nonexistent") != NULL);
	CHECK(strstr(hwts_fail_text(), "a..b") != NULL);
	CHECK(conn == NULL);
	hwts_postgres.close(base);
	close(frozen);
}

/*
 * Servers that have been replaced
 */

struct meeting {
	hwt_store *store;
	atomic_bool returned; /* the put has returned */
};

/* Waits of the put: in vain, if they begin after the newer server was met; for nothing, if they wait for no event. */
static atomic_bool was_replaced;
static atomic_uint waits_in_vain, waits_for_nothing;
static _Thread_local bool puts_now;

int poll(struct pollfd *fds, nfds_t n, int ms)
{
	int (*real)(struct pollfd *, nfds_t, int);

	if (puts_now && atomic_load(&was_replaced))
		atomic_fetch_add(&waits_in_vain, 1);
	if (puts_now && n == 1 && fds->events == 0)
		atomic_fetch_add(&waits_for_nothing, 1);
	*(void **)&real = dlsym(RTLD_NEXT, "poll");
	return real(fds, n, ms);
}

/* While the put waits for a lock, another connection meets the newer server. */
static void *meet_another(void *arg)
{
	struct meeting *meeting = arg;
	struct pg_db *db = (struct pg_db *)meeting->store->db;
	PGconn *conn = PQconnectdb(getenv("HWT_STORE_URL") + 3);
	bool waits = false;

	while (!waits && !atomic_load(&meeting->returned)) {
		PGresult *result = PQexec(conn, "select 1 from pg_stat_activity where wait_event_type = 'Lock'");

		waits = PQntuples(result) > 0;
		PQclear(result);
		sleep_ms(1);
	}
	(void)atomic_fetch_add(&db->origin, 1);
	atomic_store(&was_replaced, true);
	PQfinish(conn);
	return NULL;
}

/* False: the put waited until its timeout, instead of failing at once. */
static bool put_and_meet(hwt_store *store)
{
	struct meeting meeting = { .store = store };
	hwt_store_spec spec = spec_of("a", HWT_S(3600));
	struct pg_db *db = (struct pg_db *)store->db;
	uint64_t here = atomic_load(&db->origin);
	pthread_t thread;
	bool in_time;
	int rc;

	atomic_store(&was_replaced, false);
	atomic_store(&waits_in_vain, 0);
	CHECK_INT(pthread_create(&thread, NULL, meet_another, &meeting), ==, 0);
	puts_now = true;
	rc = hwt_store_put(store, &spec, NULL);
	puts_now = false;
	in_time = rc == ECONNRESET && strstr(hwt_store_error(), "no answer, and another") != NULL;
	if (!in_time)
		fprintf(stderr, "# %d %s\n", rc, hwt_store_error());
	atomic_store(&meeting.returned, true);
	CHECK_INT(pthread_join(thread, NULL), ==, 0);
	atomic_store(&db->origin, here);
	return in_time;
}

TEST(a_call_does_not_wait_for_a_server_that_was_replaced)
{
	NEEDS_POSTGRES();
	struct patience patience = PATIENCE("a put waits for ever");
	CLOSING hwt_store *store = fresh_store();
	USER *locker = connect_user();
	bool in_time = false;

	put(store, "a", HWT_S(3600));
	CHECK(user_sql(locker, "begin; lock table %s_timeout", world.schema));
	while (!in_time && atomic_load(&waits_in_vain) <= 1 && patience_lasts(&patience, 0))
		in_time = put_and_meet(store);
	CHECK(in_time);
	CHECK_INT(atomic_load(&waits_in_vain), <=, 1); /* one wait may have begun a moment before */
}

/* The text is longer than a socket's buffer. */
TEST(what_is_long_is_sent_while_the_server_reads)
{
	NEEDS_POSTGRES();
	enum { PUTS = 6 };
	char *data = calloc(1, HWT_STORE_DATA_MAX);
	hwt_store *store = fresh_store();
	hwt_store_spec specs[PUTS];

	REQUIRE(data != NULL);
	for (int i = 0; i < PUTS; i++)
		specs[i] = SPEC("a", HWT_S(3600), .data = data, .len = HWT_STORE_DATA_MAX);
	atomic_store(&waits_for_nothing, 0);
	puts_now = true;
	CHECK_CALL(hwt_store_put_many(store, specs, PUTS, NULL), 0);
	puts_now = false;
	CHECK_INT(atomic_load(&waits_for_nothing), ==, 0);
	CHECK_INT(query("select count(*) from %s_timeout where length(data) = %d", world.schema, 1 << 20), ==, PUTS);
	CHECK_CALL(hwt_store_close(store), 0);
	free(data);
}
#endif

STORE_MAIN(NULL)
