/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The putters of an actor: threads that put, cancel and reschedule, and log each call and its answer.
 *
 * Ways to put    alone; with others (put_many); in a transaction of the user that commits or rolls back (put_on); in
 *                a task's transaction.  The user's transaction also adds the item to the table of intents, which tells
 *                history.pl whether it was committed if its answer was lost
 * Keys           of a pool so small that most are in use.  Half of the puts replace the timeout that has their key.
 *                One in four of the others cancels that timeout.  Some tasks replace their own timeout
 * Periodic       each run goes to the log with the time on the grid that it serves.  A putter cancels those that it
 *                forgets, and the conductor cancels the rest
 */
#include "torture_actor.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#define PUTTERS 2
#define RECENT 64
#define KEYS 30 /* of each kind */
#define MANY 6

struct wish {
	hwt_store_spec spec;
	uint64_t item;
	unsigned kind;
	int64_t delay_us;
	char text[24], key[8], group[8];
};

struct known {
	uint64_t item;
	int64_t id;
	bool periodic;
};

struct putter {
	struct actor_self *self;
	pthread_t thread;
	uint64_t random;
	struct known recent[RECENT];
	unsigned known;
	struct effects own; /* the user's connection */
	bool connected;
};

static bool one_in(uint64_t *random, uint64_t n)
{
	return draw(random, n) == 0;
}

/*
 * What to put
 */

static void wish_draw(struct actor_self *self, uint64_t *random, unsigned kinds, struct wish *wish)
{
	hwt_store_spec *spec = &wish->spec;

	*wish = (struct wish){ .spec = HWT_STORE_SPEC_INIT,
			       .item = self->first_item + atomic_fetch_add(&self->items, 1),
			       .kind = (unsigned)draw(random, kinds) };
	switch (draw(random, 5)) {
	case 0:
		break;
	case 1:
		wish->delay_us = (int64_t)draw(random, 50000);
		break;
	case 2:
		wish->delay_us = (int64_t)draw(random, 8000000);
		break;
	default:
		wish->delay_us = (int64_t)draw(random, 2000000);
	}
	spec->kind = kind_names[wish->kind];
	spec->data = wish->text;
	spec->len = (size_t)snprintf(wish->text, sizeof(wish->text), "%" PRIu64, wish->item);
	spec->delay_ns = wish->delay_us * 1000;
	if (one_in(random, 16))
		spec->period_ns = HWT_S(1) + (int64_t)draw(random, 1500000) * 1000;
	spec->priority = (int)draw(random, 3) - 1;
	spec->group = torture_draw_group(random, wish->group);
	if (one_in(random, 3)) {
		(void)snprintf(wish->key, sizeof(wish->key), "k%u", (unsigned)draw(random, KEYS));
		spec->key = wish->key;
		spec->flags = one_in(random, 2) ? HWT_STORE_REPLACE : 0;
	}
}

/* more: how the timeout is put. */
static void log_wish(const struct actor_self *self, const struct wish *wish, const char *more)
{
	char key[16] = "", period[40] = "";

	if (wish->spec.key)
		(void)snprintf(key, sizeof(key), " key=%s", wish->key);
	if (wish->spec.period_ns > 0)
		(void)snprintf(period, sizeof(period), " period=%" PRId64, wish->spec.period_ns / 1000);
	history(self->log, "put? %" PRIu64 " %u %" PRId64 "%s%s%s%s%s%s", wish->item, wish->kind, wish->delay_us, key,
		period, wish->spec.flags & HWT_STORE_REPLACE ? " replace=1" : "", wish->spec.group ? " of=" : "",
		wish->spec.group ? wish->group : "", more);
}

static void log_put(const struct actor_self *self, const struct wish *wish, int rc, int64_t id)
{
	history(self->log, "put %" PRIu64 " %d %" PRId64, wish->item, rc, id);
}

/*
 * Cancel, reschedule
 */

/* item 0: unknown, when a timeout is cancelled by its key. */
static void cancel_one(struct putter *putter, uint64_t item, int64_t id)
{
	int log = putter->self->log;

	history(log, "cancel? %" PRIu64 " %" PRId64, item, id);
	history(log, "cancel %" PRIu64 " %" PRId64 " %d", item, id, hwt_store_cancel(putter->self->store, id));
}

static void move_one(struct putter *putter, const struct known *known)
{
	int64_t delay_us = (int64_t)draw(&putter->random, 3000000);
	int log = putter->self->log;

	history(log, "move? %" PRIu64 " %" PRId64 " %" PRId64, known->item, known->id, delay_us);
	history(log, "move %" PRIu64 " %" PRId64 " %" PRId64 " %d", known->item, known->id, delay_us,
		hwt_store_reschedule(putter->self->store, known->id, delay_us * 1000));
}

/*
 * Putting
 */

static void note(struct putter *putter, const struct wish *wish, int rc, int64_t id)
{
	if (rc == 0) {
		struct known *place = &putter->recent[putter->known++ % RECENT];

		if (place->periodic)
			cancel_one(putter, place->item, place->id);
		*place = (struct known){ wish->item, id, wish->spec.period_ns > 0 };
	} else if (rc == EEXIST || rc == EBUSY) {
		if (id > 0 && one_in(&putter->random, 4))
			cancel_one(putter, 0, id);
	} else if (rc != ECANCELED) {
		sleep_us(20000);
	}
}

static void put_alone(struct putter *putter)
{
	struct wish wish;
	int64_t id = 0;
	int rc;

	wish_draw(putter->self, &putter->random, 3, &wish);
	log_wish(putter->self, &wish, "");
	rc = hwt_store_put(putter->self->store, &wish.spec, &id);
	log_put(putter->self, &wish, rc, id);
	note(putter, &wish, rc, id);
}

static void put_many(struct putter *putter)
{
	struct wish wishes[MANY];
	hwt_store_spec specs[MANY];
	int64_t ids[MANY] = { 0 };
	size_t n = 2 + (size_t)draw(&putter->random, MANY - 1);
	char group[40];
	int rc;

	for (size_t i = 0; i < n; i++) {
		wish_draw(putter->self, &putter->random, 3, &wishes[i]);
		if (!one_in(&putter->random, 4)) { /* otherwise one of the keys would nearly always be in use */
			wishes[i].spec.key = NULL;
			wishes[i].spec.flags = 0;
		}
		specs[i] = wishes[i].spec;
		(void)snprintf(group, sizeof(group), " group=%" PRIu64, wishes[0].item);
		log_wish(putter->self, &wishes[i], group);
	}
	rc = hwt_store_put_many(putter->self->store, specs, n, ids);
	for (size_t i = 0; i < n; i++)
		log_put(putter->self, &wishes[i], rc, ids[i]);
	for (size_t i = 0; i < n && (i == 0 || rc == 0); i++)
		note(putter, &wishes[i], rc, ids[i]);
}

/*
 * Putting in a transaction
 */

static void *connection_of(struct putter *putter)
{
#ifdef HAVE_SQLITE
	if (is_sqlite(putter->self->url))
		return putter->own.sqlite;
#endif
#ifdef HAVE_POSTGRES
	if (!is_sqlite(putter->self->url))
		return putter->own.postgres;
#endif
	return NULL;
}

/* A server that is cut off does not answer, and its client would wait long.  A unix socket has no such option. */
static void expect_answers(const struct putter *putter)
{
#ifdef HAVE_POSTGRES
	static const struct {
		int level, name, value;
	} options[] = {
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },         { IPPROTO_TCP, TCP_KEEPIDLE, 2 },
		{ IPPROTO_TCP, TCP_KEEPINTVL, 1 },       { IPPROTO_TCP, TCP_KEEPCNT, 3 },
		{ IPPROTO_TCP, TCP_USER_TIMEOUT, 5000 },
	};

	for (size_t i = 0; putter->own.postgres != NULL && i < sizeof(options) / sizeof(options[0]); i++)
		(void)setsockopt(PQsocket(putter->own.postgres), options[i].level, options[i].name, &options[i].value,
				 sizeof(options[i].value));
#else
	(void)putter;
#endif
}

/* If a process is stopped inside of its transaction, the transaction's locks must not stay for ever. */
static bool connect_own(struct putter *putter)
{
	if (putter->connected)
		return true;
	putter->connected = effects_open(&putter->own, putter->self->url) &&
			    (is_sqlite(putter->self->url) ||
			     effects_query(&putter->own,
					   "set idle_in_transaction_session_timeout = '3s'; set lock_timeout = '3s'",
					   NULL, NULL));
	if (putter->connected)
		expect_answers(putter);
	else
		effects_close(&putter->own);
	return putter->connected;
}

static int put_on(struct actor_self *self, void *connection, const struct wish *wish, int64_t *id)
{
	char sql[96];
	int rc = hwt_store_put_on(self->store, connection, &wish->spec, id);

	(void)snprintf(sql, sizeof(sql), "insert into " SCHEMA "_intent values (%" PRIu64 ")", wish->item);
	return rc == 0 && !torture_query(connection, is_sqlite(self->url), sql) ? ENOTCONN : rc;
}

/* A commit of a transaction that has failed is answered as a rollback. */
static bool commits(struct putter *putter)
{
#ifdef HAVE_POSTGRES
	if (!is_sqlite(putter->self->url)) {
		PGresult *result = PQexec(putter->own.postgres, "commit");
		bool good = strcmp(PQcmdStatus(result), "COMMIT") == 0;

		PQclear(result);
		return good;
	}
#endif
	return effects_query(&putter->own, "commit", NULL, NULL);
}

/* ECANCELED: rolled back.  ECONNRESET: it is not known whether the commit happened. */
static int put_and_commit(struct putter *putter, const struct wish *wish, int64_t *id)
{
	struct actor_self *self = putter->self;
	int rc;

	if (!connect_own(putter))
		return ENOTCONN;
	if (!effects_query(&putter->own, is_sqlite(self->url) ? "begin immediate" : "begin", NULL, NULL)) {
		rc = ENOTCONN;
	} else {
		rc = put_on(self, connection_of(putter), wish, id);
		if (rc == 0 && one_in(&putter->random, 3))
			rc = ECANCELED;
		if (rc == 0 && commits(putter))
			return 0;
		if (rc == 0)
			rc = ECONNRESET;
		else if (rc == ECONNRESET) /* the connection broke before the commit */
			rc = ENOTCONN;
	}
	if ((rc != ECANCELED && rc != EEXIST && rc != EBUSY) || !effects_query(&putter->own, "rollback", NULL, NULL)) {
		effects_close(&putter->own);
		putter->connected = false;
	}
	return rc;
}

static void put_in_transaction(struct putter *putter)
{
	struct wish wish;
	int64_t id = 0;
	int rc;

	wish_draw(putter->self, &putter->random, 3, &wish);
	log_wish(putter->self, &wish, " on=1");
	rc = put_and_commit(putter, &wish, &id);
	log_put(putter->self, &wish, rc, id);
	note(putter, &wish, rc, id);
}

/*
 * In tasks
 */

/* The put replaces the timeout that runs. */
static void wish_own(const hwt_store_run *run, struct wish *wish)
{
	while (strcmp(kind_names[wish->kind], run->kind) != 0)
		wish->kind = (wish->kind + 1) % 3;
	(void)snprintf(wish->key, sizeof(wish->key), "%s", run->key);
	if (run->group)
		(void)snprintf(wish->group, sizeof(wish->group), "%s", run->group);
	wish->spec.group = run->group ? wish->group : NULL;
	wish->spec.kind = run->kind;
	wish->spec.key = wish->key;
	wish->spec.flags = HWT_STORE_REPLACE;
}

/* The putter gets no answer: the commit is the task's. */
int put_in_task(struct actor_self *self, const hwt_store_run *run, uint64_t *random)
{
	struct wish wish;
	int64_t id = 0;
	int rc;

	wish_draw(self, random, 2, &wish); /* without another transaction, so that no chain goes on for ever */
	if (run->key != NULL && one_in(random, 2))
		wish_own(run, &wish);
	log_wish(self, &wish, " on=1");
	rc = put_on(self, run->connection, &wish, &id);
	log_put(self, &wish, rc == 0 ? ECONNRESET : rc == ECONNRESET ? ENOTCONN : rc, id);
	return rc;
}

void replace_own(struct actor_self *self, const hwt_store_run *run, uint64_t *random)
{
	struct wish wish;
	int64_t id = 0;
	int rc;

	wish_draw(self, random, 1, &wish);
	wish_own(run, &wish);
	wish.spec.period_ns = 0; /* no putter would cancel a series */
	log_wish(self, &wish, "");
	rc = hwt_store_put(self->store, &wish.spec, &id);
	log_put(self, &wish, rc, id);
}

/*
 * The loop
 */

static void put_something(struct putter *putter)
{
	switch (draw(&putter->random, 8)) {
	case 0:
		put_many(putter);
		break;
	case 1:
		put_in_transaction(putter);
		break;
	default:
		put_alone(putter);
	}
}

static void *put_on_and_on(void *arg)
{
	struct putter *putter = arg;

	while (!asked_to_end && !atomic_load(&putter->self->orders->quiet)) {
		const struct known *known;

		put_something(putter);
		sleep_us((int64_t)draw(&putter->random, 40000));
		if (putter->known == 0)
			continue;
		known = &putter->recent[draw(&putter->random, putter->known < RECENT ? putter->known : RECENT)];
		switch (draw(&putter->random, 6)) {
		case 1: /* the last one, which is due about now */
			known = &putter->recent[(putter->known - 1) % RECENT];
			/* fall through */
		case 0:
			cancel_one(putter, known->item, known->id);
			break;
		case 2:
			move_one(putter, known);
			break;
		default:
			break;
		}
	}
	effects_close(&putter->own);
	return NULL;
}

bool putters_start(struct actor_self *self, uint64_t seed)
{
	self->putters = calloc(PUTTERS, sizeof(*self->putters));
	for (unsigned i = 0; i < PUTTERS && self->putters != NULL; i++) {
		self->putters[i].self = self;
		self->putters[i].random = hwts_mix(seed + i) | 1;
		if (pthread_create(&self->putters[i].thread, NULL, put_on_and_on, &self->putters[i]) != 0)
			return false;
	}
	return self->putters != NULL;
}

void putters_join(struct actor_self *self)
{
	for (unsigned i = 0; i < PUTTERS; i++)
		pthread_join(self->putters[i].thread, NULL);
	free(self->putters);
}
