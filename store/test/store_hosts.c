/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A url that names several hosts, of which some do not answer, or do not write.
 */
#include "store.h"

#include "core/store.h"

#ifdef HWT_STORE_POSTGRES
#include "db/postgres.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#define OF_POSTGRES(test)                                                                                              \
	if (!on_sqlite()) {                                                                                            \
		test();                                                                                                \
		return;                                                                                                \
	}
#else
#define OF_POSTGRES(test)
#endif

#define TIMEOUT_S 20 /* of a host; far more than a busy machine needs for one that answers */

#ifdef HWT_STORE_POSTGRES
static const char *server(void)
{
	return getenv("HWT_STORE_URL") + strlen("pg:host=");
}

static int server_len(void)
{
	return (int)strcspn(server(), " ");
}

/* A statement on a connection of the test's own. */
__attribute__((format(printf, 1, 2))) static void execute(const char *format, ...)
{
	char text[512];
	PGconn *conn = PQconnectdb(getenv("HWT_STORE_URL") + 3);
	PGresult *result;
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	result = PQexec(conn, text);
	CHECK(PQresultStatus(result) != PGRES_FATAL_ERROR);
	PQclear(result);
	PQfinish(conn);
}

/* A host that is frozen: its kernel takes connections, and nobody answers. */
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

static unsigned first_of(hwt_store *store)
{
	return atomic_load(&((struct pg_db *)store->db)->first);
}

/*
 * Hosts that do not answer
 */

static void a_frozen_host(void)
{
	int port, frozen = freeze_host(&port);
	hwt_store *store;

	fresh_world();
	(void)snprintf(world.url, sizeof(world.url),
		       "pg:host=localhost,%.*s port=%d,5432 user=hwt dbname=postgres target_session_attrs=read-write "
		       "connect_timeout=3600",
		       server_len(), server(), port);
	store = open_store();              /* else in an hour */
	CHECK_INT(first_of(store), ==, 1); /* the next connection does not try the other one first */
	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_gone(store, put(store, "a", 0)));
	CHECK_CALL(hwt_store_close(store), 0);
	close(frozen);
}

static struct {
	int frozen;
	char role[32];
} promotion;

/* When the frozen host is being tried the other one has refused before. */
static void *promote(void *arg)
{
	struct pollfd fd = { .fd = promotion.frozen, .events = POLLIN };

	(void)arg;
	CHECK_INT(poll(&fd, 1, (int)(PATIENCE_NS / HWT_MS(1))), ==, 1);
	execute("alter role %s reset default_transaction_read_only", promotion.role);
	return NULL;
}

static void a_standby_is_promoted(void)
{
	hwt_store *store;
	pthread_t thread;
	int port;

	fresh_world();
	promotion.frozen = freeze_host(&port);
	(void)snprintf(promotion.role, sizeof(promotion.role), "%s_role", world.schema);
	execute("create role %s superuser login; alter role %s set default_transaction_read_only = on", promotion.role,
		promotion.role);
	(void)snprintf(world.url, sizeof(world.url),
		       "pg:host=%.*s,127.0.0.1 port=5432,%d user=%s dbname=postgres target_session_attrs=read-write "
		       "connect_timeout=%d",
		       server_len(), server(), port, promotion.role, TIMEOUT_S);
	CHECK_INT(pthread_create(&thread, NULL, promote, NULL), ==, 0);
	store = open_store(); /* which waits for the frozen host, and tries the other one again */
	CHECK_INT(pthread_join(thread, NULL), ==, 0);
	CHECK_INT(first_of(store), ==, 0);
	CHECK_CALL(hwt_store_close(store), 0);
	close(promotion.frozen);
}

static void no_host_is_good(void)
{
	int port, frozen = freeze_host(&port);
	struct hwts_db *base = NULL;
	struct hwts_conn *conn = NULL;
	char url[TEXT_MAX];

	(void)snprintf(url, sizeof(url),
		       "pg:host=127.0.0.1,/nonexistent,a..b port=%d,5432,5432 user=hwt dbname=postgres "
		       "target_session_attrs=primary connect_timeout=1",
		       port);
	CHECK_INT(hwts_postgres.open(url, &base), ==, 0);
	base->lease_us = HWTS_S_US;
	CHECK_INT(hwts_postgres.connect(base, HWTS_CALL, &conn), ==, ENOTCONN);
	CHECK(strstr(hwts_fail_text(), "127.0.0.1\": no answer for 2 s") != NULL); /* libpq's least */
	CHECK(strstr(hwts_fail_text(), "/nonexistent") != NULL);
	CHECK(strstr(hwts_fail_text(), "a..b") != NULL);
	CHECK(conn == NULL);
	CHECK_INT(atomic_load(&((struct pg_db *)base)->first), ==, 1);
	hwts_postgres.close(base);
	close(frozen);
}
#endif

TEST(a_host_that_does_not_answer_holds_no_connection_up_until_its_timeout)
{
	OF_POSTGRES(a_frozen_host)
	SKIP("of PostgreSQL");
}

TEST(a_standby_that_is_promoted_while_another_host_is_silent_is_found)
{
	OF_POSTGRES(a_standby_is_promoted)
	SKIP("of PostgreSQL");
}

TEST(when_no_host_is_good_the_text_says_why_of_each)
{
	OF_POSTGRES(no_host_is_good)
	SKIP("of PostgreSQL");
}

/*
 * Hosts that are slow, and names
 */

#ifdef HWT_STORE_POSTGRES
static atomic_bool hurries; /* on such a clock a wait in which no socket is ready takes no time of its own */

/* Of this thread: what its clock says, moved by the functions below alone. */
static _Thread_local struct {
	int64_t now_ns;     /* 0: the true time */
	int64_t silence_ns; /* for so long no socket is ready; a look-up ends it */
	int64_t step_ns;    /* that each step of a connection takes */
	int64_t lookup_ns;  /* that each look-up of slow.example takes, which then fails */
	unsigned lookups;
	int64_t took_ns; /* the last look_ups() */
} slow;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int (*real)(clockid_t, struct timespec *);

	*(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
	if (clock != CLOCK_MONOTONIC || slow.now_ns == 0)
		return real(clock, now);
	now->tv_sec = slow.now_ns / HWT_S(1);
	now->tv_nsec = slow.now_ns % HWT_S(1);
	return 0;
}

PostgresPollingStatusType PQconnectPoll(PGconn *conn)
{
	PostgresPollingStatusType (*real)(PGconn *);
	PostgresPollingStatusType status;

	*(void **)&real = dlsym(RTLD_NEXT, "PQconnectPoll");
	status = real(conn);
	if (slow.now_ns != 0)
		slow.now_ns += slow.step_ns;
	return status;
}

int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	int (*real)(struct pollfd *, nfds_t, int);
	int64_t silence_ns = HWTS_MIN(slow.silence_ns, HWT_MS(timeout_ms));

	*(void **)&real = dlsym(RTLD_NEXT, "poll");
	if (slow.now_ns != 0 && atomic_load(&hurries) && timeout_ms > 0) {
		int ready = real(fds, n, HWTS_MIN(timeout_ms, 20));

		slow.now_ns += ready == 0 ? HWT_MS(timeout_ms) : 0;
		return ready;
	}
	if (slow.now_ns == 0 || silence_ns <= 0)
		return real(fds, n, timeout_ms);
	slow.silence_ns -= silence_ns;
	slow.now_ns += silence_ns;
	return 0;
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

	*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	if (!name || strcmp(name, "slow.example") != 0)
		return real(name, service, hints, found);
	slow.lookups++;
	slow.silence_ns = 0;
	slow.now_ns += slow.lookup_ns;
	return EAI_AGAIN;
}

/* Connects so many times, on a clock that the test moves, and returns how many names were looked up. */
static unsigned look_ups(struct hwts_db *base, int times, int64_t silence_ns)
{
	int64_t began_ns = hwt_now();

	slow.lookups = 0;
	slow.now_ns = began_ns;
	for (int i = 0; i < times; i++) {
		struct hwts_conn *conn = NULL;

		slow.silence_ns = silence_ns;
		CHECK_INT(hwts_postgres.connect(base, HWTS_CALL, &conn), ==, 0);
		if (conn)
			hwts_postgres.disconnect(conn);
	}
	slow.took_ns = slow.now_ns - began_ns;
	slow.now_ns = 0;
	return slow.lookups;
}

__attribute__((format(printf, 1, 2))) static struct hwts_db *open_hosts(const char *format, ...)
{
	struct hwts_db *base = NULL;
	char url[TEXT_MAX];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(url, sizeof(url), format, args);
	va_end(args);
	(void)snprintf(url + strlen(url), sizeof(url) - strlen(url),
		       " user=hwt dbname=postgres target_session_attrs=read-write connect_timeout=%d", TIMEOUT_S);
	REQUIRE(hwts_postgres.open(url, &base) == 0);
	base->lease_us = HWTS_S_US;
	return base;
}

static void a_slow_host(void)
{
	struct hwts_db *base = open_hosts("pg:host=%.*s,slow.example", server_len(), server());

	slow.step_ns = HWT_MS(200);
	CHECK_INT(look_ups(base, 1, 0), ==, 0);
	slow.step_ns = 0;
	hwts_postgres.close(base);
}

static void slow_names(void)
{
	struct hwts_db *base = open_hosts("pg:host=%.*s,slow.example,slow.example", server_len(), server());

	slow.lookup_ns = HWT_S(TIMEOUT_S + 1);
	CHECK_INT(look_ups(base, 1, HWT_MS(300)), ==, 1); /* the host has answered before the second look-up */
	CHECK_INT(look_ups(base, 5, HWT_MS(300)), ==, 0); /* it is known now that names take so long */
	CHECK_INT(atomic_load(&((struct pg_db *)base)->first), ==, 0);
	hwts_postgres.close(base);
}

static void slow_names_and_a_frozen_host(void)
{
	int port, frozen = freeze_host(&port);
	struct hwts_db *base = open_hosts("pg:host=127.0.0.1,slow.example,%.*s port=%d,1,5432", server_len(), server(),
					  port);

	atomic_store(&((struct pg_db *)base)->hosts[1].lookup_ns, HWT_S(3600));
	slow.lookup_ns = HWT_S(1);
	CHECK_INT(look_ups(base, 1, HWT_S(7200)), ==, 1);
	CHECK_INT(slow.took_ns, <, HWT_S(2 * TIMEOUT_S));
	hwts_postgres.close(base);
	close(frozen);
}
#endif

TEST(a_host_that_answers_step_by_step_is_not_silent)
{
	OF_POSTGRES(a_slow_host)
	SKIP("of PostgreSQL");
}

TEST(a_name_that_is_slow_to_look_up_takes_no_time_from_a_host_that_answers)
{
	OF_POSTGRES(slow_names)
	SKIP("of PostgreSQL");
}

TEST(a_host_that_is_given_up_makes_way_for_a_name_that_is_slow_to_look_up)
{
	OF_POSTGRES(slow_names_and_a_frozen_host)
	SKIP("of PostgreSQL");
}

#ifdef HWT_STORE_POSTGRES
/* A server that asks for a password and likes none, until its socket is shut down. */
static struct {
	int fd;
	atomic_uint refused;
} refuser;

static void *refuse(void *arg)
{
	static const char ask[] = { 'R', 0, 0, 0, 8, 0, 0, 0, 3 };
	static const char no[] = "E\0\0\0\x1e"
				 "SFATAL\0C28P01\0Mwrong one\0";
	char text[1024];
	int fd;

	while ((fd = accept(refuser.fd, NULL, NULL)) >= 0) {
		if (recv(fd, text, sizeof(text), 0) > 0 &&
		    send(fd, ask, sizeof(ask), MSG_NOSIGNAL) == (ssize_t)sizeof(ask) &&
		    recv(fd, text, sizeof(text), 0) > 0) {
			atomic_fetch_add(&refuser.refused, 1);
			(void)send(fd, no, sizeof(no), MSG_NOSIGNAL);
			atomic_store(&hurries, true); /* however late: from here on only the other one is silent */
		}
		close(fd);
	}
	return arg;
}

static void a_wrong_password(void)
{
	int port, frozen_port, frozen = freeze_host(&frozen_port);
	struct hwts_conn *conn = NULL;
	struct hwts_db *base;
	pthread_t thread;

	refuser.fd = freeze_host(&port);
	CHECK_INT(pthread_create(&thread, NULL, refuse, NULL), ==, 0);
	base = open_hosts("pg:host=127.0.0.1,127.0.0.1 port=%d,%d password=x sslmode=disable gssencmode=disable", port,
			  frozen_port);
	slow.now_ns = hwt_now();
	CHECK_INT(hwts_postgres.connect(base, HWTS_CALL, &conn), ==, ENOTCONN);
	slow.now_ns = 0;
	atomic_store(&hurries, false);
	CHECK(strstr(hwts_fail_text(), "wrong one") != NULL);
	CHECK(strstr(hwts_fail_text(), "no answer for") != NULL);
	CHECK_INT(atomic_load(&refuser.refused), ==, 1);
	(void)shutdown(refuser.fd, SHUT_RDWR);
	CHECK_INT(pthread_join(thread, NULL), ==, 0);
	close(refuser.fd);
	hwts_postgres.close(base);
	close(frozen);
}
#endif

TEST(a_host_that_refuses_the_password_is_not_asked_again)
{
	OF_POSTGRES(a_wrong_password)
	SKIP("of PostgreSQL");
}

/*
 * Servers that have been replaced
 */

#ifdef HWT_STORE_POSTGRES
static void a_replaced_host(void)
{
	hwt_store_spec spec = spec_of("a", HWT_S(3600));
	hwt_store *store;
	struct pg_db *db;
	uint64_t here;

	fresh_world();
	(void)snprintf(world.url, sizeof(world.url),
		       "pg:host=%.*s,%.*s user=hwt dbname=postgres target_session_attrs=read-write", server_len(),
		       server(), server_len(), server());
	store = open_store();
	db = (struct pg_db *)store->db;
	here = atomic_load(&db->origin);
	atomic_store(&db->origin, here + 1);
	CHECK_CALL(hwt_store_put(store, &spec, NULL), ENOTCONN);
	CHECK(strstr(hwt_store_error(), "; another server") != NULL); /* the second was tried, too */
	CHECK(strstr(hwt_store_error(), "timeline 1 of 2") != NULL);
	atomic_store(&db->origin, here);
	CHECK_CALL(hwt_store_put(store, &spec, NULL), 0);
	CHECK_CALL(hwt_store_close(store), 0);
}

/* The put waits for a lock; meanwhile another connection meets the newer server. */
static void *meet_another(void *arg)
{
	struct pg_db *db = (struct pg_db *)((hwt_store *)arg)->db;
	PGconn *conn = PQconnectdb(getenv("HWT_STORE_URL") + 3);
	bool waits = false;

	while (!waits) {
		PGresult *result = PQexec(conn, "select 1 from pg_stat_activity where wait_event_type = 'Lock'");

		waits = PQntuples(result) > 0;
		PQclear(result);
		sleep_ms(1);
	}
	(void)atomic_fetch_add(&db->origin, 1);
	PQfinish(conn);
	return NULL;
}

static void a_call_under_way(void)
{
	hwt_store_spec spec = spec_of("a", HWT_S(3600));
	PGconn *conn = PQconnectdb(getenv("HWT_STORE_URL") + 3);
	char text[128];
	pthread_t thread;
	hwt_store *store;

	fresh_world();
	store = open_store();
	put(store, "a", HWT_S(3600));
	(void)snprintf(text, sizeof(text), "begin; lock table %s_timeout", world.schema);
	PQclear(PQexec(conn, text));
	CHECK_INT(pthread_create(&thread, NULL, meet_another, store), ==, 0);
	CHECK_CALL(hwt_store_put(store, &spec, NULL), ECONNRESET);
	CHECK(strstr(hwt_store_error(), "no answer, and another") != NULL); /* or after ten seconds */
	CHECK_INT(pthread_join(thread, NULL), ==, 0);
	PQfinish(conn);
	CHECK_CALL(hwt_store_close(store), 0);
}
#endif

TEST(a_host_that_was_replaced_is_passed_over)
{
	OF_POSTGRES(a_replaced_host)
	SKIP("of PostgreSQL");
}

TEST(a_call_does_not_wait_for_a_server_that_was_replaced)
{
	OF_POSTGRES(a_call_under_way)
	SKIP("of PostgreSQL");
}

/*
 * Urls
 */

#ifdef HWT_STORE_POSTGRES
static size_t hosts_of(const char *url)
{
	struct hwts_db *db = NULL;
	size_t count;

	CHECK_INT(hwts_postgres.open(url, &db), ==, 0);
	count = ((struct pg_db *)db)->host_count;
	hwts_postgres.close(db);
	return count;
}

static const char *compiled_in_port(void)
{
	static char port[16];
	PQconninfoOption *defaults = PQconndefaults();

	for (PQconninfoOption *option = defaults; option->keyword; option++)
		if (strcmp(option->keyword, "port") == 0)
			(void)snprintf(port, sizeof(port), "%s", option->compiled);
	PQconninfoFree(defaults);
	CHECK(port[0]);
	return port;
}

static void urls(void)
{
	struct pg_db *db = NULL;

	CHECK_INT(hosts_of("postgresql://a:1,b:2/db?target_session_attrs=read-write"), ==, 2);
	CHECK_INT(hosts_of("pg:host=a,b,/run port=7 target_session_attrs=primary"), ==, 3);
	CHECK_INT(hosts_of("pg:hostaddr=1.2.3.4,::1 target_session_attrs=read-write"), ==, 2);
	CHECK_INT(hosts_of("pg:host=a target_session_attrs=read-write"), ==, 1);
	/* An order that means something, and what libpq has to complete or to refuse. */
	CHECK_INT(hosts_of("pg:host=a,b"), ==, 0);
	CHECK_INT(hosts_of("pg:host=a,b target_session_attrs=prefer-standby"), ==, 0);
	CHECK_INT(hosts_of("pg:host=a,b port=1,2,3 target_session_attrs=read-write"), ==, 0);
	CHECK_INT(hosts_of("pg:host=a,b hostaddr=::1 target_session_attrs=read-write"), ==, 0);
	CHECK_INT(hosts_of("pg:host=a,,b target_session_attrs=read-write"), ==, 0);
	CHECK_INT(hosts_of("pg:host=a,b connect_timeout=soon target_session_attrs=read-write"), ==, 0);
	CHECK_INT(hosts_of("pg:service=x host=a,b target_session_attrs=read-write"), ==, 0);
	CHECK_INT(hosts_of("pg:target_session_attrs=read-write"), ==, 0);
	/* The environment completes it. */
	(void)setenv("PGHOST", "c,d", 1);
	(void)setenv("PGTARGETSESSIONATTRS", "read-write", 1);
	CHECK_INT(hosts_of("pg:dbname=x"), ==, 2);
	CHECK_INT(hosts_of("pg:target_session_attrs=any"), ==, 0);
	(void)unsetenv("PGHOST");
	(void)unsetenv("PGTARGETSESSIONATTRS");
	CHECK_INT(hwts_postgres.open("pg:host=a,,:: hostaddr=1.1.1.1,::1,::2 port=1,,3 target_session_attrs=read-write",
				     (struct hwts_db **)&db),
		  ==, 0);
	CHECK_INT(db->host_count, ==, 3);
	CHECK(strcmp(db->hosts[0].name, "a") == 0 && strcmp(db->hosts[0].port, "1") == 0);
	CHECK(strcmp(db->hosts[1].address, "::1") == 0 && strcmp(db->hosts[1].port, compiled_in_port()) == 0);
	CHECK_INT(db->timeout_s, ==, HWTS_PG_CONNECT_TIMEOUT_S);
	hwts_postgres.close(&db->db);
}
#endif

TEST(a_url_is_dialled_if_it_asks_for_the_host_that_writes)
{
	OF_POSTGRES(urls)
	SKIP("of PostgreSQL");
}

#ifdef HWT_STORE_POSTGRES
/* The ports of two hosts, or of none if the url is not dialled. */
static void check_ports(const char *url, const char *first, const char *second)
{
	struct hwts_db *base = NULL;
	struct pg_db *db;

	CHECK_INT(hwts_postgres.open(url, &base), ==, 0);
	db = (struct pg_db *)base;
	CHECK_INT(db->host_count, ==, first ? 2 : 0);
	for (size_t i = 0; i < db->host_count; i++)
		CHECK(strcmp(db->hosts[i].port, i == 0 ? first : second) == 0);
	hwts_postgres.close(base);
}

/* The server's port is the compiled-in one; the environment says another, and the url none. */
static void check_connects(const char *ports)
{
	char url[TEXT_MAX], folder[128] = "";
	struct hwts_db *base = NULL;
	struct hwts_conn *conn = NULL;

	for (int i = 0; i < server_len(); i++)
		(void)snprintf(folder + strlen(folder), sizeof(folder) - strlen(folder),
			       server()[i] == '/' ? "%%2F" : "%c", server()[i]);
	(void)setenv("PGPORT", ports, 1);
	(void)snprintf(url, sizeof(url), "postgresql://hwt@%s,%s/postgres?target_session_attrs=read-write", folder,
		       folder);
	CHECK_INT(hwts_postgres.open(url, &base), ==, 0);
	base->lease_us = HWTS_S_US;
	CHECK_INT(hwts_postgres.connect(base, HWTS_CALL, &conn), ==, 0);
	if (conn)
		hwts_postgres.disconnect(conn);
	hwts_postgres.close(base);
	(void)unsetenv("PGPORT");
}

static void ports(void)
{
	static const char two[] = "postgresql://a,b/db?target_session_attrs=read-write",
			  pairs[] = "pg:host=a,b target_session_attrs=read-write",
			  empty[] = "pg:host=a,b port='' target_session_attrs=read-write",
			  half[] = "pg:host=a,b port=7, target_session_attrs=read-write";
	const char *compiled_in = compiled_in_port();

	check_ports(two, compiled_in, compiled_in);
	check_ports(pairs, compiled_in, compiled_in);
	(void)setenv("PGPORT", "9999", 1);
	check_ports(two, compiled_in, compiled_in); /* two ports, both empty */
	check_ports(half, "7", compiled_in);
	check_ports(empty, compiled_in, compiled_in);
	check_ports(pairs, "9999", "9999"); /* no port at all */
	(void)setenv("PGPORT", "8,9", 1);
	check_ports(two, compiled_in, compiled_in);
	check_ports(pairs, "8", "9");
	(void)setenv("PGPORT", "8,", 1);
	check_ports(pairs, "8", compiled_in);
	(void)setenv("PGPORT", "8,9,10", 1);
	check_ports(two, compiled_in, compiled_in);
	check_ports(pairs, NULL, NULL); /* libpq says why not */
	(void)setenv("PGPORT", "", 1);
	check_ports(pairs, compiled_in, compiled_in);
	(void)unsetenv("PGPORT");
	check_connects("1");
	check_connects("1,2,3");
}
#endif

TEST(an_empty_port_is_the_compiled_in_one_whatever_the_environment_says)
{
	OF_POSTGRES(ports)
	SKIP("of PostgreSQL");
}

STORE_MAIN(NULL)
