/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections for the calls of users: as many as there are calls under way, up to a limit, some of which are kept.
 * Beyond the limit calls wait for one another.  A call uses one connection at a time, so each call with a connection
 * ends.
 *
 * A server that crashes or is replaced may lose its last commits, and answers again on new connections alone.  So with
 * each new connection this process checks the kinds that it knows, and draws ids again.
 */
#include "store/asks.h"
#include "store/kind.h"
#include "store/conns.h"
#include "store/store.h"

#define KEEP 16
#define MOST 64
#define MOST_WAIT_NS HWT_S(10) /* after this, one more is made: the others may be waiting for this very call */

int hwts_look_hidden(const hwt_store *store, struct hwts_conn *conn, bool missing, bool *remade)
{
	return store->engine->look_hidden ? store->engine->look_hidden(conn, missing, remade) : 0;
}

static int check_store(const hwt_store *store, struct hwts_conn *conn, bool missing, bool *remade)
{
	struct hwts_store_row is;
	int rc = hwts_rows_store(conn, NULL, &is);
	bool none = is.text[0] == '\0';

	if (rc == 0 && (is.hides || none || remade))
		rc = hwts_look_hidden(store, conn, none || missing, remade);
	if (rc == 0 && none)
		rc = hwts_fail_emptied(store->db);
	if (rc == 0 && strcmp(is.text, store->db->store) != 0)
		rc = hwts_fail(EIO, "another store has taken the place of this one: restart this process");
	return rc;
}

/*
 * If the number of a kind were given to another kind, this process's puts would run as that kind, and its tasks would
 * run what others put.
 */
static int check_kind(const hwt_store *store, struct hwts_conn *conn, const struct hwts_kind *kind, int32_t id)
{
	struct hwts_kind_row row;
	int rc = hwts_rows_kind(conn, kind->name, NULL, &row);

	if (rc == ENOENT) {
		rc = hwts_look_hidden(store, conn, true, NULL);
		row.id = 0;
	}
	if (rc == 0 && row.id != id)
		rc = hwts_fail(EIO,
			       "kind %s is not in the database any more, which has lost the commit that made it, or"
			       " was emptied: restart this process",
			       kind->name);
	return rc;
}

int hwts_check_here(hwt_store *store, struct hwts_conn *conn, bool missing, bool *remade)
{
	const struct hwts_kind *kind = NULL;
	int rc = check_store(store, conn, missing, remade);
	int32_t id;

	do {
		hwts_lock(store);
		kind = hwts_kind_after(store, kind);
		id = kind ? kind->row.id : 0;
		hwts_unlock(store);
		if (kind && rc == 0)
			rc = check_kind(store, conn, kind, id);
	} while (kind && rc == 0);
	if (rc != 0 && rc != EIO && rc != EACCES) /* the connection failed before the check */
		return rc;
	pthread_mutex_lock(&store->conns->lock);
	store->conns->gone = rc != 0;
	pthread_mutex_unlock(&store->conns->lock);
	return rc;
}

void hwts_conns_init(struct hwts_conns *conns)
{
	pthread_mutex_init(&conns->lock, NULL);
	hwts_cond_init(&conns->freed);
}

int hwts_connect(hwt_store *store, enum hwts_role role, struct hwts_conn **out)
{
	int rc = store->engine->connect(store->db, role, out);

	/* A begin and an end check the owner of the shard, and control renews that ownership. */
	if (rc != 0 || (role != HWTS_CALL && role != HWTS_CONTROL))
		return rc;
	rc = hwts_check_here(store, *out, false, NULL);
	if (rc != 0) {
		store->engine->disconnect(*out);
		*out = NULL;
		return rc;
	}
	pthread_mutex_lock(&store->conns->lock);
	store->conns->connects += store->engine->locks_rows; /* a SQLite file loses no commit */
	pthread_mutex_unlock(&store->conns->lock);
	return 0;
}

/* Waits until this call may have a connection, and counts it in used_count. */
static void wait_for_turn(hwt_store *store)
{
	int64_t until_ns = hwt_now() + MOST_WAIT_NS;

	pthread_mutex_lock(&store->conns->lock);
	while (store->conns->used_count >= MOST && hwt_now() < until_ns)
		hwts_wait_ns(&store->conns->freed, &store->conns->lock, until_ns - hwt_now());
	store->conns->used_count++;
	pthread_mutex_unlock(&store->conns->lock);
}

static void end_turn(hwt_store *store)
{
	pthread_mutex_lock(&store->conns->lock);
	/* hwt_store_open made the first connection without a turn. */
	store->conns->used_count -= store->conns->used_count > 0;
	pthread_cond_signal(&store->conns->freed);
	pthread_mutex_unlock(&store->conns->lock);
}

static int get(hwt_store *store, struct hwts_conn **out)
{
	struct hwts_conn *conn;
	bool gone;

	do {
		pthread_mutex_lock(&store->conns->lock);
		conn = store->conns->idle;
		gone = store->conns->gone;
		if (conn) {
			store->conns->idle = conn->next;
			store->conns->idle_count--;
		}
		pthread_mutex_unlock(&store->conns->lock);
		if (!conn)
			return hwts_connect(store, HWTS_CALL, out);
		/* The server may have closed the connection meanwhile, which must not fail the call. */
		if (!gone && store->engine->alive(conn)) {
			*out = conn;
			return 0;
		}
		store->engine->disconnect(conn);
	} while (true);
}

int hwts_conns_get(hwt_store *store, struct hwts_conn **out)
{
	int rc;

	wait_for_turn(store);
	rc = get(store, out);
	if (rc != 0)
		end_turn(store);
	return rc;
}

int hwts_conns_put(hwt_store *store, struct hwts_conn *conn, int rc)
{
	bool kept = false;

	if (!conn->broken) {
		pthread_mutex_lock(&store->conns->lock);
		kept = store->conns->idle_count < KEEP;
		if (kept) {
			conn->next = store->conns->idle;
			store->conns->idle = conn;
			store->conns->idle_count++;
		}
		pthread_mutex_unlock(&store->conns->lock);
	}
	if (!kept)
		store->engine->disconnect(conn);
	end_turn(store);
	return rc;
}

void hwts_conns_close(hwt_store *store)
{
	for (struct hwts_conn *next; store->conns->idle; store->conns->idle = next) {
		next = store->conns->idle->next;
		store->engine->disconnect(store->conns->idle);
	}
	pthread_mutex_destroy(&store->conns->lock);
	pthread_cond_destroy(&store->conns->freed);
}

unsigned hwts_conns_connects(hwt_store *store)
{
	unsigned connects;

	pthread_mutex_lock(&store->conns->lock);
	connects = store->conns->connects;
	pthread_mutex_unlock(&store->conns->lock);
	return connects;
}

/*
 * Failures of threads that try again and again: each sort of failure is reported once, then once that the errand works
 * again
 */

static const char *const words[HWTS_ERRANDS] = {
	[HWTS_CONTROL] = "renewal", [HWTS_CALL] = "call", [HWTS_BEGIN] = "begin",
	[HWTS_READ] = "look-ahead", [HWTS_END] = "end",   [HWTS_TASK] = "a transaction for a run",
	[HWTS_TAKES] = "taking shards",
};

static bool is_told(const struct hwts_told *told, int sort)
{
	for (size_t i = 0; i < HWTS_COUNT(told->sorts); i++)
		if (told->sorts[i] == sort)
			return true;
	return false;
}

#define CALMS 64

/* A thread that has failed rests for at most two seconds. */
static int64_t least_calm_ns(const hwt_store *store)
{
	return HWTS_MAX(store->config.lease_ns, HWT_S(2));
}

/*
 * A server that is away is one sort, whether a connection broke or cannot be made.  Each text of EIO is a sort.  If
 * control lacks a right, the other threads do not report the same.
 */
void hwts_fails(hwt_store *store, unsigned what, int rc)
{
	struct hwts_told *all = store->conns->told, *told = &all[what];
	const char *text = hwts_fail_text();
	int sort = rc == EIO ? (int)(hwts_hash(text, strlen(text)) >> 1) : rc == ECONNRESET ? ENOTCONN : rc;
	bool tells;

	pthread_mutex_lock(&store->conns->lock);
	if (hwt_now() - told->failed_ns > CALMS * least_calm_ns(store)) /* another outage */
		told->calm_ns = 0;
	told->failed_ns = hwt_now();
	told->worked = false;
	tells = !is_told(told, sort) &&
		!(sort == EACCES && what != HWTS_CONTROL && is_told(&all[HWTS_CONTROL], EACCES));
	if (tells) {
		memmove(told->sorts + 1, told->sorts, sizeof(told->sorts) - sizeof(told->sorts[0]));
		told->sorts[0] = sort;
	}
	pthread_mutex_unlock(&store->conns->lock);
	if (tells)
		hwts_warn(store, "%s: %s", words[what], text);
}

void hwts_fails_forget(hwt_store *store)
{
	pthread_mutex_lock(&store->conns->lock);
	store->conns->told[HWTS_TASK] = (struct hwts_told){ .worked = false };
	pthread_mutex_unlock(&store->conns->lock);
}

void hwts_tell_works(hwt_store *store, unsigned what)
{
	struct hwts_told *told = &store->conns->told[what];
	int64_t least_ns = least_calm_ns(store), calm_ns;
	bool over;

	pthread_mutex_lock(&store->conns->lock);
	calm_ns = what == HWTS_TASK ? HWTS_MAX(told->calm_ns, least_ns) : 0;
	over = told->sorts[0] != 0 && told->worked && hwt_now() - told->failed_ns >= calm_ns;
	if (over)
		*told = (struct hwts_told){ .failed_ns = told->failed_ns,
					    .calm_ns = HWTS_MIN(2 * calm_ns, CALMS * least_ns),
					    .worked = true };
	pthread_mutex_unlock(&store->conns->lock);
	if (over)
		hwts_warn(store, "%s works again", words[what]);
}

/*
 * After more than two failures the other threads are woken, but not after fewer: where connections can be made and
 * statements still fail, threads that wake each other would never rest.
 */
void hwts_works(hwt_store *store, unsigned what, unsigned *failures)
{
	bool calls = *failures > 2;

	*failures = 0;
	pthread_mutex_lock(&store->conns->lock);
	store->conns->told[what].worked = true;
	pthread_mutex_unlock(&store->conns->lock);
	hwts_tell_works(store, what);
	if (!calls)
		return;
	hwts_lock(store);
	hwts_stir(store);
	hwts_unlock(store);
	hwts_poke(store);
}

/*
 * Connecting again
 */

int hwts_connect_role(hwt_store *store, enum hwts_role role)
{
	struct hwts_conn **conn = hwts_conn_of(store, role);

	return *conn && !(*conn)->broken ? 0 : hwts_reconnect(store, conn, role);
}

int hwts_reconnect(hwt_store *store, struct hwts_conn **conn, enum hwts_role role)
{
	if (*conn) {
		store->engine->disconnect(*conn);
		*conn = NULL;
		HWTS_TALLY_ALONE(store, reconnects, 1);
	}
	return hwts_connect(store, role, conn);
}
