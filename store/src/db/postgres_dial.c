/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A dial: how a PostgreSQL database is reached.
 *
 * libpq tries the hosts of a url one after the other, and loses connect_timeout at each that does not answer because it
 * is frozen, or cut off.  If such a host stands before the one that writes now, every new connection pays that.  But a
 * url that asks for the host that writes does not care about the order, so there the store dials by itself:
 *
 *   A host has PATIENCE_NS for itself, and again after each of its answers.  If it is silent for longer, the next one
 *   is tried beside it.  A host that fails makes way at once, so with healthy hosts no connection is tried in vain.
 *   The first one that writes wins.
 *   As long as one of them is silent, those that have failed are tried again: a standby may be promoted meanwhile.
 *   Not so one that did not like the password, for some lock an account after a few of those.
 *   The next dial begins with the host that won, and not with one that was silent up to its timeout.
 *
 * Each address of a host is a way of its own, with a timeout of its own, as it is with libpq.
 *
 * A name is looked up when its host is next, and nothing else goes on meanwhile.  So no way's timeout counts that
 * time; between two names those under way go on; and if a name took long, its next look-up waits so much longer for an
 * answer.
 */
#include "db/postgres.h"

#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define PATIENCE_NS HWT_MS(250)
#define AGAIN_NS HWT_MS(500)
#define OPTIONS_MAX 50

/* To one address of a host. */
struct pg_way {
	const struct pg_host *host;
	char address[64]; /* "": a folder of sockets */
	PGconn *handle;   /* NULL: it is not being tried */
	bool again;       /* it has failed before */
	bool told;        /* being tried: the server has asked for the password */
	int64_t until_ns; /* being tried: its timeout */
	int64_t again_ns; /* has failed: when it is tried again; HWTS_NEVER: it was silent */
};

/*
 * What libpq is given
 */

static void add(const char **names, const char **values, size_t *n, const char *name, const char *value)
{
	names[*n] = name;
	values[(*n)++] = value;
}

static bool is_of_a_way(const char *name)
{
	return strcmp(name, "host") == 0 || strcmp(name, "hostaddr") == 0 || strcmp(name, "port") == 0;
}

/* The url, and what it leaves open.  way NULL: to all of its hosts, and waits. */
static PGconn *start(const struct pg_db *db, const struct pg_way *way)
{
	char patience[32], timeout[32];
	const char *names[OPTIONS_MAX + 12], *values[OPTIONS_MAX + 12];
	const char *defaults[][2] = {
		{ "connect_timeout", timeout },
		{ "client_encoding", "UTF8" },
		{ "fallback_application_name", "libhwt-store" },
		{ "keepalives_idle", "5" },
		{ "keepalives_interval", "2" },
		{ "keepalives_count", "3" },
		{ "tcp_user_timeout", patience },
	};
	size_t n = 0;

	(void)snprintf(patience, sizeof(patience), "%lld", (long long)(db->db.lease_us / 1000));
	(void)snprintf(timeout, sizeof(timeout), "%d", HWTS_PG_CONNECT_TIMEOUT_S);
	for (const PQconninfoOption *option = db->options; option->keyword && n < OPTIONS_MAX; option++)
		if (option->val && !(way && is_of_a_way(option->keyword)))
			add(names, values, &n, option->keyword, option->val);
	for (size_t i = 0; i < HWTS_COUNT(defaults); i++) {
		size_t j = 0;

		while (j < n && strcmp(names[j], defaults[i][0]) != 0)
			j++;
		if (j == n || i == 1) /* of the encoding ours counts, for it comes later */
			add(names, values, &n, defaults[i][0], defaults[i][1]);
	}
	if (way) {
		add(names, values, &n, "host", way->host->name);
		add(names, values, &n, "hostaddr", way->address);
		add(names, values, &n, "port", way->host->port);
	}
	names[n] = values[n] = NULL;
	return way ? PQconnectStartParams(names, values, 0) : PQconnectdbParams(names, values, 0);
}

/*
 * Ways
 */

/* Why something failed. */
__attribute__((format(printf, 2, 3))) static void note(struct pg_dial *dial, const char *format, ...)
{
	size_t at = strlen(dial->text);
	va_list args;

	while (at > 0 && strchr("\n ", dial->text[at - 1]))
		at--;
	if (at > 0)
		at += (size_t)snprintf(dial->text + at, sizeof(dial->text) - at, "; ");
	if (at >= sizeof(dial->text))
		return;
	va_start(args, format);
	(void)vsnprintf(dial->text + at, sizeof(dial->text) - at, format, args);
	va_end(args);
}

static void fail(struct pg_dial *dial, struct pg_way *way, const char *text)
{
	if (!way->again) {
		note(dial, "%s", text + (strncmp(text, "postgresql: ", 12) == 0 ? 12 : 0));
		dial->next_ns = 0;
	}
	way->again = true;
	way->again_ns = hwt_now() + AGAIN_NS;
}

/* Takes the handle out of the way, which has failed. */
static void drop(struct pg_dial *dial, struct pg_way *way)
{
	PGconn *handle = way->handle;

	way->handle = NULL;
	fail(dial, way, PQerrorMessage(handle));
	/* A server that has let the client in says its version, and may refuse it later, as a standby does. */
	if ((way->told || PQconnectionUsedPassword(handle)) && !PQparameterStatus(handle, "server_version"))
		way->again_ns = HWTS_NEVER;
	PQfinish(handle);
}

static int try_way(struct pg_dial *dial, struct pg_way *way)
{
	int64_t now_ns = hwt_now();

	way->handle = start(dial->db, way);
	if (!way->handle)
		return hwts_fail(ENOMEM, "postgresql: no memory");
	dial->fds[way - dial->ways].events = POLLOUT;
	way->told = false;
	way->until_ns = dial->db->timeout_s ? now_ns + HWT_S(dial->db->timeout_s) : HWTS_NEVER;
	if (PQstatus(way->handle) == CONNECTION_BAD)
		drop(dial, way);
	return 0;
}

static int add_way(struct pg_dial *dial, const struct pg_host *host, const char *address)
{
	struct pg_way *way;

	if (!hwts_grow((void **)&dial->ways, &dial->ways_room, dial->count + 1, sizeof(*dial->ways)) ||
	    !hwts_grow((void **)&dial->fds, &dial->fds_room, dial->count + 1, sizeof(*dial->fds)))
		return ENOMEM;
	way = &dial->ways[dial->count++];
	*way = (struct pg_way){ .host = host };
	(void)snprintf(way->address, sizeof(way->address), "%s", address);
	return 0;
}

/* The hosts in turn, but the one that won last before all others. */
static struct pg_host *next_host(const struct pg_dial *dial)
{
	size_t i = dial->hosts_used;

	return &dial->db->hosts[i == 0 ? dial->first : i <= dial->first ? i - 1 : i];
}

/* How long a host may be silent before the next way is tried. */
static int64_t patience_ns(const struct pg_dial *dial)
{
	if (dial->ways_used < dial->count || dial->hosts_used == dial->db->host_count)
		return PATIENCE_NS;
	/* Relaxed: see struct pg_host. */
	return PATIENCE_NS + atomic_load_explicit(&next_host(dial)->lookup_ns, memory_order_relaxed);
}

/* A look-up is over: those under way did not have its time. */
static void count_lookup(struct pg_dial *dial, struct pg_host *host, int64_t took_ns)
{
	atomic_store_explicit(&host->lookup_ns, took_ns, memory_order_relaxed); /* relaxed: see struct pg_host */
	for (size_t i = 0; i < dial->ways_used; i++)
		if (dial->ways[i].handle && dial->ways[i].until_ns != HWTS_NEVER)
			dial->ways[i].until_ns += took_ns;
}

/* Adds the ways to the next host. */
static int resolve(struct pg_dial *dial)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM }, *found = NULL;
	char address[sizeof(dial->ways->address)];
	struct pg_host *host = next_host(dial);
	int64_t began_ns = hwt_now();
	int rc = 0, failed;

	dial->hosts_used++;
	if (host->address[0] || host->name[0] == '/' || host->name[0] == '@')
		return add_way(dial, host, host->address);
	failed = getaddrinfo(host->name, NULL, &hints, &found);
	count_lookup(dial, host, hwt_now() - began_ns);
	if (failed == EAI_MEMORY)
		return hwts_fail(ENOMEM, "postgresql: no memory");
	if (failed != 0) {
		note(dial, "host \"%s\": %s", host->name, gai_strerror(failed));
		return 0;
	}
	for (struct addrinfo *at = found; at && rc == 0; at = at->ai_next)
		if (getnameinfo(at->ai_addr, at->ai_addrlen, address, sizeof(address), NULL, 0, NI_NUMERICHOST) == 0)
			rc = add_way(dial, host, address);
	freeaddrinfo(found);
	return rc;
}

/* Tries the next way.  None if the next name means nothing: then the one after it is due at once. */
static int try_next(struct pg_dial *dial)
{
	struct pg_way *way;
	int rc = 0;

	if (dial->ways_used == dial->count)
		rc = resolve(dial);
	if (rc != 0 || dial->ways_used == dial->count)
		return rc;
	way = &dial->ways[dial->ways_used++];
	dial->next_ns = hwt_now() + patience_ns(dial);
	return try_way(dial, way);
}

/* One that is being tried for the first time may be the one that writes, and slow. */
static bool is_any_silent(const struct pg_dial *dial)
{
	for (size_t i = 0; i < dial->ways_used; i++)
		if (dial->ways[i].handle && !dial->ways[i].again)
			return true;
	return false;
}

static bool has_untried(const struct pg_dial *dial)
{
	return dial->ways_used < dial->count || dial->hosts_used < dial->db->host_count;
}

/*
 * Their course
 */

/* A host has been silent for connect_timeout. */
static void give_up(struct pg_dial *dial, struct pg_way *way)
{
	struct pg_db *db = dial->db;
	unsigned host = (unsigned)(way->host - db->hosts);

	if (!way->again) {
		note(dial, "host \"%s\": no answer for %ld s", way->host->name[0] ? way->host->name : way->address,
		     db->timeout_s);
		dial->next_ns = 0;
	}
	PQfinish(way->handle);
	way->handle = NULL;
	way->again = true;
	way->again_ns = HWTS_NEVER;
	/* Relaxed: see struct pg_db. */
	(void)atomic_compare_exchange_strong_explicit(&db->first, &host, (host + 1) % (unsigned)db->host_count,
						      memory_order_relaxed, memory_order_relaxed);
}

/* One goes on as far as it can.  True: it is connected. */
static bool go_on(struct pg_dial *dial, struct pg_way *way, short *events)
{
	switch (PQconnectPoll(way->handle)) {
	case PGRES_POLLING_OK:
		return true;
	case PGRES_POLLING_READING:
		*events = POLLIN;
		break;
	case PGRES_POLLING_WRITING:
		*events = POLLOUT;
		break;
	default:
		drop(dial, way);
		return false;
	}
	way->told |= PQconnectionUsedPassword(way->handle) != 0; /* libpq forgets it if it tries again without TLS */
	if (!way->again && dial->next_ns != 0)                   /* 0: one that has failed since makes way */
		dial->next_ns = HWTS_MAX(dial->next_ns, hwt_now() + patience_ns(dial));
	return false;
}

/* Starts all whose time it is. */
static int start_due(struct pg_dial *dial)
{
	int64_t now_ns;
	bool silent;
	int rc = 0;

	if (has_untried(dial) && hwt_now() >= dial->next_ns)
		rc = try_next(dial);
	silent = is_any_silent(dial);
	now_ns = hwt_now();
	for (size_t i = 0; i < dial->ways_used && rc == 0 && silent; i++)
		if (!dial->ways[i].handle && dial->ways[i].again_ns <= now_ns)
			rc = try_way(dial, &dial->ways[i]);
	return rc;
}

/* Waits until something happens, or is due.  False: there is nothing to wait for. */
static bool wait_for_ways(struct pg_dial *dial)
{
	int64_t until_ns = has_untried(dial) ? dial->next_ns : HWTS_NEVER, left_ms;
	bool silent = is_any_silent(dial), any = has_untried(dial);

	for (size_t i = 0; i < dial->ways_used; i++) {
		struct pg_way *way = &dial->ways[i];

		dial->fds[i].fd = way->handle ? PQsocket(way->handle) : -1;
		dial->fds[i].revents = 0;
		any |= way->handle != NULL;
		if (way->handle || silent)
			until_ns = HWTS_MIN(until_ns, way->handle ? way->until_ns : way->again_ns);
	}
	if (!any)
		return false;
	left_ms = (until_ns - hwt_now()) / 1000000 + 1;
	(void)poll(dial->fds, (nfds_t)dial->ways_used, (int)HWTS_MIN(HWTS_MAX(left_ms, 0), 1000));
	return true;
}

/* The way that is connected now, if there is one. */
static struct pg_way *advance(struct pg_dial *dial)
{
	for (size_t i = 0; i < dial->ways_used; i++) {
		struct pg_way *way = &dial->ways[i];

		if (way->handle && dial->fds[i].revents && go_on(dial, way, &dial->fds[i].events))
			return way;
		if (way->handle && hwt_now() >= way->until_ns)
			give_up(dial, way);
	}
	return NULL;
}

/*
 * A dial
 */

int hwts_pg_dial_next(struct pg_dial *dial, PGconn **handle)
{
	struct pg_way *won = NULL;
	int rc = 0;

	if (dial->db->host_count == 0) {
		if (dial->handed)
			return hwts_fail(ENOTCONN, "%s", hwts_fail_text());
		dial->handed = true;
		*handle = start(dial->db, NULL);
		if (!*handle)
			return hwts_fail(ENOMEM, "postgresql: no memory");
		if (PQstatus(*handle) == CONNECTION_OK)
			return 0;
		rc = hwts_fail(ENOTCONN, "postgresql: %s", PQerrorMessage(*handle));
		PQfinish(*handle);
		*handle = NULL;
		return rc;
	}
	if (dial->handed) /* it was not good */
		fail(dial, &dial->ways[dial->won], hwts_fail_text());
	dial->handed = false;
	while (rc == 0 && !won) {
		rc = start_due(dial);
		if (rc == 0 && !wait_for_ways(dial))
			rc = hwts_fail(ENOTCONN, "postgresql: %s", dial->text);
		if (rc == 0)
			won = advance(dial);
	}
	if (rc != 0)
		return rc;
	dial->won = (size_t)(won - dial->ways);
	dial->handed = true;
	*handle = won->handle;
	won->handle = NULL;
	return 0;
}

void hwts_pg_dial_begin(struct pg_dial *dial, struct pg_db *db)
{
	*dial = (struct pg_dial){ .db = db };
	dial->first = atomic_load_explicit(&db->first, memory_order_relaxed); /* relaxed: see struct pg_db */
}

void hwts_pg_dial_end(struct pg_dial *dial, bool good)
{
	/* Relaxed: see struct pg_db. */
	if (good && dial->count > 0)
		atomic_store_explicit(&dial->db->first, (unsigned)(dial->ways[dial->won].host - dial->db->hosts),
				      memory_order_relaxed);
	for (size_t i = 0; i < dial->ways_used; i++)
		PQfinish(dial->ways[i].handle);
	free(dial->ways);
	free(dial->fds);
}
