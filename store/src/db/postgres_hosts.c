/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The hosts of a PostgreSQL url, if it is one that the store dials by itself (postgres_dial.c): it asks for the host
 * that writes, and says by name or address which ones there are.
 *
 * Any other url keeps what libpq makes of it: a service file, the default folder of sockets, an order that means
 * something, lists that do not fit each other.
 */
#include "db/postgres.h"

#include <stdlib.h>

static const PQconninfoOption *find(const PQconninfoOption *options, const char *keyword)
{
	while (options && options->keyword && strcmp(options->keyword, keyword) != 0)
		options++;
	return options && options->keyword ? options : NULL;
}

static const char *in_options(const PQconninfoOption *options, const char *keyword)
{
	const PQconninfoOption *option = find(options, keyword);

	return option && option->val && option->val[0] ? option->val : NULL;
}

/* As libpq has it: a port that is given and empty is the compiled-in one, and not that of the environment. */
static bool is_port_empty(const struct pg_db *db)
{
	const PQconninfoOption *option = find(db->options, "port");

	return option && option->val && !option->val[0];
}

static const char *compiled_in_port(const struct pg_db *db)
{
	const PQconninfoOption *option = find(db->options, "port");

	return option && option->compiled ? option->compiled : "";
}

/* Cuts the list in place; returns how many parts there are, of which the first n are in parts. */
static size_t split(char *list, const char **parts, size_t n)
{
	size_t count = 0;

	for (char *next; list; list = next) {
		next = strchr(list, ',');
		if (next)
			*next++ = '\0';
		if (count < n)
			parts[count] = list;
		count++;
	}
	return count;
}

static size_t commas(const char *list)
{
	size_t count = 0;

	while ((list = strchr(list, ',')) != NULL)
		count++, list++;
	return count;
}

/* Lists of different lengths, and hosts without a name, are libpq's. */
static bool fill_hosts(struct pg_db *db, size_t n, const char **parts)
{
	static const char none[] = "";
	const char **names = parts, **addresses = parts + n, **ports = parts + 2 * n;
	size_t given[HWTS_COUNT(db->lists)] = { 0 };

	for (size_t i = 0; i < HWTS_COUNT(db->lists); i++) {
		given[i] = split(db->lists[i], parts + i * n, n);
		if (given[i] != 0 && given[i] != n && !(i == 2 && given[i] == 1))
			return false;
	}
	for (size_t i = 0; i < n; i++) {
		struct pg_host *host = &db->hosts[i];

		host->name = given[0] ? names[i] : none;
		host->address = given[1] ? addresses[i] : none;
		host->port = given[2] == 0 ? none : ports[given[2] == 1 ? 0 : i];
		if (!host->port[0])
			host->port = compiled_in_port(db);
		if (!host->name[0] && !host->address[0])
			return false;
	}
	return true;
}

static int read_hosts(struct pg_db *db, const PQconninfoOption *defaults)
{
	static const char *const lists[HWTS_COUNT(db->lists)] = { "host", "hostaddr", "port" };
	const char *values[HWTS_COUNT(lists)] = { NULL }, **parts;
	size_t n;

	for (size_t i = 0; i < HWTS_COUNT(lists); i++) {
		values[i] = in_options(db->options, lists[i]);
		if (!values[i] && !(i == 2 && is_port_empty(db)))
			values[i] = in_options(defaults, lists[i]);
		db->lists[i] = values[i] ? hwts_copy(values[i]) : NULL;
		if (values[i] && !db->lists[i])
			return ENOMEM;
	}
	if (!values[0] && !values[1])
		return 0;
	n = commas(values[0] ? values[0] : values[1]) + 1;
	parts = hwts_alloc(HWTS_COUNT(lists) * n * sizeof(*parts));
	db->hosts = hwts_alloc(n * sizeof(*db->hosts));
	if (parts && db->hosts && fill_hosts(db, n, parts))
		db->host_count = n;
	free(parts);
	return parts && db->hosts ? 0 : ENOMEM;
}

/* What the url says counts, then what the environment says. */
int hwts_pg_read_hosts(struct pg_db *db)
{
	PQconninfoOption *defaults = PQconndefaults();
	const char *attrs = in_options(db->options, "target_session_attrs"), *timeout;
	int rc = 0;

	attrs = attrs ? attrs : in_options(defaults, "target_session_attrs");
	if (!defaults)
		rc = hwts_fail(ENOMEM, "postgresql: no memory");
	else if (!in_options(db->options, "service") && !in_options(defaults, "service") && attrs &&
		 (strcmp(attrs, "read-write") == 0 || strcmp(attrs, "primary") == 0))
		rc = read_hosts(db, defaults);
	PQconninfoFree(defaults);
	timeout = in_options(db->options, "connect_timeout");
	db->timeout_s = HWTS_PG_CONNECT_TIMEOUT_S;
	if (timeout) {
		char *end;

		db->timeout_s = strtol(timeout, &end, 10);
		if (*end)
			db->host_count = 0; /* libpq says what is wrong with it */
	}
	/* As libpq has it. */
	db->timeout_s = db->timeout_s <= 0 ? 0 : HWTS_MIN(HWTS_MAX(db->timeout_s, 2), 86400);
	return rc;
}

void hwts_pg_free_hosts(struct pg_db *db)
{
	for (size_t i = 0; i < HWTS_COUNT(db->lists); i++)
		free(db->lists[i]);
	free(db->hosts);
}
