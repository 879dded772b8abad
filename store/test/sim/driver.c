/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections and exchanges; driver.h. */
#include "driver.h"

#include <stdlib.h>

#define KEEPALIVES_NS HWT_S(11)
#define USERS (1u << 31) /* a flag of an exchange: the transaction is a user's */

struct message {
	struct message *next;
	int64_t when_ns;
	int32_t shard;
	struct hwts_due due;
};

struct sim_conn {
	struct hwts_conn conn;
	struct sim_process *process;
	struct sim_conn *next_of_all;
	unsigned starts; /* sim_server.starts when the connection was made */
	bool is_cut;     /* closed, or cut off from the server */
	bool is_silent;  /* cut off, and neither end has noticed */
	struct tx *tx;
	unsigned uses; /* how many actors of this connection are in the server */
	int64_t patience_ns, lock_ns;
	bool is_synced;
	bool is_users;     /* the transaction belongs to a user */
	bool is_elsewhere; /* leads to the database of another store */
	struct savepoint savepoint;
	/* News */
	int fd;
	bool hears[16 * 1024]; /* by shard */
	bool hears_members;
	struct message *messages;
};

struct sim_network sim_network;
static struct sim_conn *all;
static int next_fd = SIM_NEWS_FD;

static struct sim_conn *sim_conn(struct hwts_conn *conn)
{
	return (struct sim_conn *)conn;
}

static int64_t trip(void)
{
	return HWT_US(20) + sim_some_time(sim_network.trip_ns);
}

static void end_tx(struct sim_conn *conn)
{
	if (conn->tx && conn->starts == sim_server.starts)
		sim_abort_tx(conn->tx);
	conn->tx = NULL;
}

static void cut(struct sim_conn *conn, bool is_silent)
{
	conn->is_cut = true;
	conn->is_silent = is_silent;
	if (!is_silent && conn->fd)
		sim_wake_poll(conn->process);
}

static bool is_cut(const struct sim_conn *conn)
{
	return conn->is_cut || conn->starts != sim_server.starts;
}

static void enter(struct sim_conn *conn)
{
	sim_enter_server();
	conn->uses++;
}

/* An actor whose process has died does not return. */
static void leave(struct sim_conn *conn)
{
	conn->uses--;
	if (conn->process->is_dead)
		end_tx(conn);
	sim_leave_server();
}

/*
 * The server gives up a transaction that is silent for a lease, and closes its connection.
 */

struct reaper {
	struct sim_conn *conn;
	uint64_t tx;
};

static void *reap(void *arg)
{
	struct reaper *reaper = arg;
	struct sim_conn *conn;

	sim_sleep(sim_lease_ns);
	for (conn = all; conn && conn != reaper->conn; conn = conn->next_of_all)
		;
	if (conn && conn->tx && conn->tx->number == reaper->tx && conn->uses == 0 &&
	    conn->starts == sim_server.starts) {
		sim_tell("the server gives up a transaction of %s", conn->process->name);
		end_tx(conn);
		cut(conn, conn->is_silent);
	}
	free(reaper);
	return NULL;
}

static void reap_later(struct sim_conn *conn)
{
	struct reaper *reaper;

	if (!conn->tx || conn->uses > 0 || conn->starts != sim_server.starts)
		return;
	reaper = malloc(sizeof(*reaper));
	*reaper = (struct reaper){ conn, conn->tx->number };
	(void)sim_start(NULL, "reaper", reap, reaper);
}

void sim_reap(const struct sim_process *process)
{
	for (struct sim_conn *conn = all; conn; conn = conn->next_of_all)
		if (conn->process == process)
			reap_later(conn);
}

static int broke(struct sim_conn *conn, int rc)
{
	conn->conn.broken = true;
	return hwts_fail(rc, "simulation: the connection broke%s", rc == ENOTCONN ? " before" : "");
}

/*
 * Databases and connections
 */

static int open_db(const char *url, struct hwts_db **out)
{
	(void)url;
	*out = hwts_alloc(sizeof(**out));
	return *out ? 0 : ENOMEM;
}

static void close_db(struct hwts_db *db)
{
	free(db);
}

static void forget(struct sim_conn *conn)
{
	struct sim_conn **link = &all;

	while (*link && *link != conn)
		link = &(*link)->next_of_all;
	if (*link)
		*link = conn->next_of_all;
	for (struct message *message = conn->messages, *next; message; message = next) {
		next = message->next;
		free(message);
	}
	conn->messages = NULL;
}

static void disconnect(struct hwts_conn *base)
{
	struct sim_conn *conn = sim_conn(base);

	end_tx(conn);
	forget(conn);
	free(conn);
}

static int64_t lock_patience_of(enum hwts_role role, int64_t lease_ns)
{
	if (role == HWTS_BEGIN || role == HWTS_END)
		return HWT_MS(200);
	return role == HWTS_CONTROL ? HWTS_MIN(lease_ns / 2, HWT_S(10)) : HWT_S(10);
}

static struct sim_conn *make(enum hwts_role role)
{
	struct sim_conn *conn = calloc(1, sizeof(*conn));

	conn->conn.role = role;
	conn->process = sim_me();
	conn->starts = sim_server.starts;
	conn->is_synced = role == HWTS_CALL || role == HWTS_TASK;
	conn->fd = role == HWTS_CONTROL ? next_fd++ : 0;
	conn->next_of_all = all;
	return all = conn;
}

static bool is_refused(enum hwts_role role)
{
	return (sim_me()->unable >> role & 1) != 0;
}

#define CALLS 64 /* most connections for calls of a process */

unsigned sim_count_calls(const struct sim_process *process)
{
	unsigned count = 0;

	for (const struct sim_conn *conn = all; conn; conn = conn->next_of_all)
		count += conn->process == process && conn->conn.role == HWTS_CALL && !conn->is_users;
	return count;
}

static int connect(struct hwts_db *db, enum hwts_role role, struct hwts_conn **out)
{
	struct sim_conn *conn;

	for (int second = 0; sim_me()->is_cut && second < 5; second++)
		sim_sleep(HWT_S(1));
	sim_sleep(2 * trip());
	sim_me()->connections++;
	if (sim_server.is_down || sim_me()->is_cut || (is_refused(role) && !sim_me()->connects))
		return hwts_fail(ENOTCONN, "simulation: no connection");
	conn = make(role);
	conn->conn.db = db;
	conn->patience_ns = role == HWTS_CALL || role == HWTS_TASK || role == HWTS_READ
				? HWT_S(120)
				: HWTS_MAX(db->lease_us * 1000, HWT_S(5));
	conn->lock_ns = lock_patience_of(role, db->lease_us * 1000);
	SIM_CHECK(sim_count_calls(sim_me()) <= CALLS);
	*out = &conn->conn;
	return 0;
}

void sim_drop_connections(const struct sim_process *process)
{
	for (struct sim_conn *conn = all, *next; conn; conn = next) {
		next = conn->next_of_all;
		if (process && conn->process != process)
			continue;
		if (process && process->is_dead && conn->uses == 0) {
			end_tx(conn);
			forget(conn);
		}
		if (conn->uses == 0 || sim_hit(2)) /* a request that was sent may still arrive */
			cut(conn, false);
	}
}

static bool alive(struct hwts_conn *base)
{
	return !base->broken && !(is_cut(sim_conn(base)) && !sim_conn(base)->is_silent) && !sim_conn(base)->tx;
}

static int prepare(struct hwts_conn *conn)
{
	(void)conn;
	return 0;
}

/*
 * Exchanges
 */

/* An exchange that is brief waits less for locks, as more callers wait for it. */
static int64_t lock_patience(const struct sim_conn *conn)
{
	return conn->conn.brief ? HWTS_MIN(conn->lock_ns, HWT_MS(200)) : conn->lock_ns;
}

static int end_one(struct tx **tx, int rc)
{
	unsigned starts = sim_server.starts;

	if (rc != 0)
		sim_abort_tx(*tx);
	else
		sim_commit_tx(*tx);
	*tx = NULL;
	return rc == 0 && starts != sim_server.starts ? ECONNRESET : rc;
}

static int execute_inside(struct tx *tx, const struct hwts_step *steps, size_t n, struct output *output)
{
	unsigned starts = sim_server.starts;
	int64_t took_ns = 0;
	int rc = tx ? 0 : ENOTCONN;

	for (size_t i = 0; i < n && rc == 0; i++) {
		sim_point("statement");
		rc = starts == sim_server.starts ? sim_execute(tx, &steps[i], output, &took_ns) : ECONNRESET;
	}
	return starts == sim_server.starts ? rc : ECONNRESET;
}

/*
 * A client stands still amid an exchange.  If the answer is longer than the network's buffers, the server waits in
 * ClientWrite; for the rest of a request it waits in ClientRead.  Both happen inside the transaction, with its locks.
 *
 * Neither statement_timeout nor lock_timeout acts there, nor idle_in_transaction_session_timeout, which counts from the
 * end of an exchange.  tcp_user_timeout ends a ClientWrite, but no ClientRead: a machine whose process stands still
 * answers keepalives.
 */

static size_t size_of(const struct hwts_step *step)
{
	const char *types = hwts_statements[step->sql].types;
	size_t size = 0;

	for (int i = 0; types[i]; i++) {
		const struct hwts_value *value = &step->args[i], *each = value->bytes;

		if (types[i] == 't' || types[i] == 'k' || types[i] == 'd')
			size += value->len;
		else if (types[i] != 'K' && types[i] != 'D')
			size += types[i] <= 'Z' ? 8 * value->len : 8;
		for (size_t j = 0; (types[i] == 'K' || types[i] == 'D') && j < value->len; j++)
			size += each[j].len;
	}
	return size;
}

enum wire { READS, WRITES };

static int wait_for_client(struct sim_conn *client, struct tx *tx, size_t bytes, enum wire wire)
{
	struct sim_process *process = client ? client->process : NULL;
	unsigned starts = sim_server.starts;
	int64_t until_ns = SIM_NEVER;

	if (!tx || !process || sim_network.room == 0 || bytes <= sim_network.room)
		return 0;
	if (process->stands == 1u + client->conn.role && !process->is_stopped) {
		process->stands = 0;
		sim_stop(process);
		sim_reap(process);
		sim_tell("%s stands still in %s", process->name, wire == READS ? "its request" : "its answer");
	}
	if (wire == WRITES && sim_server.user_timeout_ns)
		until_ns = sim_now() + sim_server.user_timeout_ns;
	tx->stands = true;
	tx->client = process;
	while (process->is_stopped && starts == sim_server.starts && sim_now() < until_ns && !tx->is_ended)
		(void)sim_wait(wire == READS ? "ClientRead" : "ClientWrite", process, until_ns);
	if (starts != sim_server.starts)
		return ECONNRESET;
	tx->stands = false;
	if (!process->is_stopped && !process->is_dead && !tx->is_ended)
		return 0;
	sim_tell("the server ends a connection of %s", process->name);
	cut(client, false);
	return ECONNRESET;
}

/* Executes a step after the commit in a transaction of its own.  Its failure does not matter. */
static int execute_after(struct sim_conn *client, const struct hwts_step *step, int64_t patience_ns,
			 struct output *output, int64_t *took_ns)
{
	unsigned starts = sim_server.starts;
	struct tx *tx = sim_begin_tx(patience_ns);
	int rc = sim_execute(tx, step, output, took_ns);

	if (starts == sim_server.starts && rc == 0)
		rc = wait_for_client(client, tx, output->bytes, WRITES);
	if (starts != sim_server.starts)
		return ECONNRESET;
	return end_one(&tx, rc) == ECONNRESET ? ECONNRESET : 0;
}

static int end_holders(const struct row *row, int64_t age_ns)
{
	int ended = 0;

	for (unsigned i = 0; row && i < row->lock_count; i++) {
		struct tx *tx = row->locks[i].tx;

		if (!tx->stands || tx->is_ended || sim_now() - tx->began_ns < age_ns)
			continue;
		tx->is_ended = true;
		sim_wake_all(tx->client);
		ended++;
	}
	return ended;
}

/* Ends connections that hold the lock of a shard's row and of the row of its last owner; or of a timeout's row. */
static int unblock(struct hwts_conn *base, bool shard, int64_t id, int64_t age_ns)
{
	const struct text *owner = NULL;
	int ended = 0;

	(void)base;
	EACH_ROW(shard ? SHARD : TIMEOUT, row)
	if (row->newest && row->newest->n[0] == id) {
		ended += end_holders(row, age_ns);
		owner = shard ? row->newest->s[SHARD_OWNER] : NULL;
	}
	EACH_ROW(MEMBER, row)
	if (owner && row->newest && strcmp(row->newest->s[MEMBER_NAME]->bytes, owner->bytes) == 0)
		ended += end_holders(row, age_ns);
	return ended;
}

int sim_execute_all(struct sim_conn *client, struct tx **tx, const struct hwts_step *steps, size_t n, unsigned flags,
		    bool synced, int64_t patience_ns, struct output *output)
{
	unsigned starts = sim_server.starts;
	int64_t took_ns = 0;
	size_t sent = 0;
	int rc = 0;

	if (flags & USERS)
		return execute_inside(*tx, steps, n, output);
	for (size_t i = 0; i < n && rc == 0; i++) {
		if (steps[i].after) {
			if (*tx)
				rc = end_one(tx, 0);
			if (rc == 0)
				rc = execute_after(client, &steps[i], patience_ns, output, &took_ns);
			continue;
		}
		sent += size_of(&steps[i]);
		rc = wait_for_client(client, *tx, sent, READS);
		if (rc != 0)
			break;
		if (!*tx)
			*tx = sim_begin_tx(patience_ns);
		(*tx)->synced |= synced || flags & (HWTS_SYNCED | HWTS_LEASE);
		sim_point("statement");
		rc = starts == sim_server.starts ? sim_execute(*tx, &steps[i], output, &took_ns) : ECONNRESET;
		if (rc == 0 && starts == sim_server.starts)
			rc = wait_for_client(client, *tx, output->bytes, WRITES);
		if (starts != sim_server.starts)
			rc = ECONNRESET;
		if (rc == 0 && steps[i].commits) {
			rc = end_one(tx, 0);
			output->committed_ns = sim_now();
		}
		if (rc == 0 && took_ns > HWT_US(20)) {
			sim_sleep(took_ns);
			took_ns = 0;
		}
	}
	if (starts != sim_server.starts)
		return *tx = NULL, ECONNRESET;
	return *tx && (rc != 0 || !(flags & HWTS_OPEN)) ? end_one(tx, rc) : rc;
}

static int text_of(struct sim_conn *conn, int rc)
{
	if (rc == EAGAIN)
		return hwts_fail(rc, "simulation: another transaction holds the lock");
	if (rc == EIO) {
		conn->conn.refused = true;
		return hwts_fail(rc, "simulation: the row is refused");
	}
	return rc;
}

/* Gives up after the client's patience or the machine's: tcp_user_timeout, keepalives. */
static void give_up(struct sim_conn *conn, int64_t machine_ns)
{
	leave(conn);
	reap_later(conn);
	machine_ns = HWTS_MIN(conn->patience_ns, machine_ns);
	sim_note_fault(machine_ns);
	sim_sleep(machine_ns);
	enter(conn);
}

/* The connection freezes: the client learns of it only when its patience ends. */
static int freeze(struct sim_conn *conn, const struct hwts_step *steps, size_t n, unsigned flags)
{
	bool comes = sim_hit(2) && !conn->tx && !(flags & HWTS_OPEN);

	sim_tell("a connection freezes%s", comes ? ", and its request will come" : "");
	if (comes)
		sim_execute_late(steps, n, flags, conn->is_synced, lock_patience(conn),
				 sim_some_time(2 * conn->patience_ns));
	cut(conn, true);
	give_up(conn, sim_lease_ns);
	return ECONNRESET;
}

static int exchange(struct sim_conn *conn, const struct hwts_step *steps, size_t n, unsigned flags,
		    struct output *output)
{
	int64_t back_ns;
	int rc;

	if (sim_network.freezes && sim_hit(sim_network.freezes))
		return freeze(conn, steps, n, flags);
	sim_sleep(trip());
	while (sim_now() < sim_server.slow_until_ns)
		(void)sim_wait("the server is slow", &sim_server, sim_server.slow_until_ns);
	if (sim_network.loses && sim_hit(sim_network.loses)) {
		sim_tell("a request is lost");
		cut(conn, false);
	}
	if (conn->process->is_cut && !conn->process->is_dead) {
		cut(conn, true);
		give_up(conn, sim_lease_ns);
		return ECONNRESET;
	}
	if (is_cut(conn))
		return sim_hit(4) ? ENOTCONN : ECONNRESET;
	sim_sum->exchanges++;
	rc = sim_execute_all(conn, &conn->tx, steps, n, flags, conn->is_synced, lock_patience(conn), output);
	back_ns = trip();
	output->committed_ns += output->committed_ns ? back_ns : 0;
	sim_sleep(back_ns);
	if (sim_network.loses && sim_hit(sim_network.loses)) {
		sim_tell("a reply is lost");
		cut(conn, false);
	}
	if (conn->process->is_cut && !conn->process->is_dead) {
		cut(conn, true);
		give_up(conn, KEEPALIVES_NS);
	}
	return is_cut(conn) ? ECONNRESET : rc;
}

/* The other store has no such kind, and an insert checks which store it is. */
static int run_elsewhere(const struct hwts_conn *conn, const struct hwts_step *steps, size_t n)
{
	const struct hwts_value another[3] = { HWTS_BYTES("another", 7), HWTS_NUMBER(0), HWTS_NUMBER(0) };

	for (size_t i = 0; i < n; i++) {
		enum hwts_sql sql = steps[i].sql;

		if (sql == HWTS_SQL_STORE && steps[i].each)
			(void)steps[i].each(steps[i].ctx, another);
		else if (sql != HWTS_SQL_STORE && sql != HWTS_SQL_HERE && sql != HWTS_SQL_KIND &&
			 !(conn->here && sql >= HWTS_SQL_PUT))
			sim_fail("a user", 0, "has another store asked to %s", hwts_statements[sql].name);
	}
	return 0;
}

/* An exchange has at most 32 MiB of data, and the last row may exceed that. */
static void judge_size(const struct hwts_step *steps, size_t n)
{
	size_t bytes = 0;

	for (size_t i = 0; i < n; i++) {
		const struct hwts_value *data = &steps[i].args[9], *each = data->bytes;

		if (steps[i].sql >= HWTS_SQL_PUT_REPLACE && steps[i].sql <= HWTS_SQL_PUT_SERIES)
			bytes += data->len;
		for (size_t j = 0; steps[i].sql >= HWTS_SQL_PUT && steps[i].sql <= HWTS_SQL_PUT_KEYED && j < data->len;
		     j++)
			bytes += each[j].len;
	}
	if (bytes > 33u << 20)
		sim_fail("a put", 0, "sends %zu bytes at once", bytes);
	for (size_t i = 0; i < n; i++)
		if (steps[i].sql == HWTS_SQL_LOOK && steps[i].args[5].number > 1 &&
		    steps[i].args[5].number * (int64_t)steps[i].args[0].len > HWTS_PAGE)
			sim_fail("a look", 0, "reads %lld rows of each of %zu shards",
				 (long long)steps[i].args[5].number, steps[i].args[0].len);
}

static int run(struct hwts_conn *base, const struct hwts_step *steps, size_t n, unsigned flags)
{
	struct sim_conn *conn = sim_conn(base);
	struct output output = { .end = &output.first };
	int rc;

	judge_size(steps, n);

	if (base->broken || is_refused(base->role))
		return broke(conn, ENOTCONN);
	if (conn->is_elsewhere)
		return run_elsewhere(base, steps, n);
	hwts_count_trip(base->db);
	enter(conn);
	rc = exchange(conn, steps, n, conn->is_users ? flags | USERS : flags, &output);
	if (rc == ECONNRESET || rc == ENOTCONN)
		end_tx(conn);
	leave(conn);
	if (output.committed_ns > conn->process->continued_ns) /* otherwise the process has just read the reply */
		base->committed_ns = hwt_now() - (sim_now() - output.committed_ns);
	else if (output.committed_ns)
		base->committed_ns = hwt_now();
	if (sim_hand_out(&output, rc == 0) != 0)
		rc = ECONNRESET;
	if (rc == ECONNRESET || rc == ENOTCONN)
		return broke(conn, rc == ECONNRESET && flags & (HWTS_READS | HWTS_OPEN) ? ENOTCONN : rc);
	return text_of(conn, rc);
}

static int finish(struct hwts_conn *base, int rc)
{
	struct sim_conn *conn = sim_conn(base);
	int failed = 0;

	if (conn->is_users)
		return rc;
	if (rc != 0) {
		char text[256];

		hwts_cut(text, sizeof(text), hwts_fail_text(), strlen(hwts_fail_text()));
		end_tx(conn);
		return hwts_fail(rc, "%s", text);
	}
	if (base->broken)
		return broke(conn, ENOTCONN);
	enter(conn);
	sim_sleep(trip());
	failed = is_cut(conn) ? ECONNRESET : conn->tx ? end_one(&conn->tx, 0) : 0;
	sim_sleep(trip());
	if (is_cut(conn)) {
		end_tx(conn);
		failed = ECONNRESET;
	}
	leave(conn);
	return failed ? broke(conn, failed) : 0;
}

/*
 * Runs in a transaction
 */

static int open_run(struct hwts_conn *base, void **handle)
{
	struct sim_conn *conn = sim_conn(base);

	if (base->broken || is_refused(base->role))
		return broke(conn, ENOTCONN);
	enter(conn);
	sim_sleep(2 * trip());
	if (!is_cut(conn))
		conn->tx = sim_begin_tx(conn->lock_ns);
	leave(conn);
	*handle = conn;
	return conn->tx ? 0 : broke(conn, ENOTCONN);
}

int sim_effect(void *connection, int64_t item, int64_t due_us, int64_t missed, int64_t child)
{
	struct sim_conn *conn = connection;
	struct act act = { .sees = sim_server.commits };
	struct version *effect;

	enter(conn);
	sim_sleep(2 * trip());
	act.tx = conn->tx;
	if (!is_cut(conn) && conn->tx) {
		effect = sim_insert(&act, EFFECT);
		effect->n[EFFECT_ITEM] = item;
		effect->n[EFFECT_DUE] = due_us;
		effect->n[EFFECT_MISSED] = missed;
		effect->n[EFFECT_CHILD] = child;
	}
	leave(conn);
	return is_cut(conn) || !conn->tx ? EIO : 0;
}

static int close_run(struct hwts_conn *base, const struct hwts_step *steps, size_t n)
{
	struct sim_conn *conn = sim_conn(base);

	HWTS_POINT("close_run");
	if (!conn->tx)
		return broke(conn, ECONNRESET);
	conn->tx->synced = true;
	return run(base, steps, n, HWTS_SYNCED);
}

static void drop_run(struct hwts_conn *base)
{
	end_tx(sim_conn(base));
}

/*
 * News
 */

static int listen(struct hwts_conn *base, const struct hwts_shard_row *shards, size_t n, bool on)
{
	struct sim_conn *conn = sim_conn(base);

	if (base->broken)
		return broke(conn, ENOTCONN);
	enter(conn);
	sim_sleep(2 * trip());
	for (size_t i = 0; i < n; i++)
		conn->hears[shards[i].shard] = on;
	conn->hears_members |= on;
	leave(conn);
	return is_cut(conn) ? broke(conn, ECONNRESET) : 0;
}

static int news_fd(struct hwts_conn *conn)
{
	return sim_conn(conn)->fd;
}

bool sim_has_news(int fd, int64_t *when_ns)
{
	for (struct sim_conn *conn = all; conn; conn = conn->next_of_all) {
		if (conn->fd != fd)
			continue;
		*when_ns = conn->messages ? conn->messages->when_ns : SIM_NEVER;
		return (is_cut(conn) && !conn->is_silent) || *when_ns <= sim_now();
	}
	return true;
}

void sim_send_news(struct news *news)
{
	for (struct news *next; news; news = next) {
		next = news->next;
		for (struct sim_conn *conn = all; conn; conn = conn->next_of_all) {
			struct message **end = &conn->messages, *message;

			if (!conn->fd || is_cut(conn) ||
			    (news->shard < 0 ? !conn->hears_members : !conn->hears[news->shard]) ||
			    (sim_network.deaf && sim_hit(sim_network.deaf)))
				continue;
			message = calloc(1, sizeof(*message));
			message->shard = news->shard;
			message->due = news->due;
			message->when_ns = sim_now() + trip();
			while (*end) {
				message->when_ns = HWTS_MAX(message->when_ns, (*end)->when_ns);
				end = &(*end)->next;
			}
			*end = message;
			sim_wake_poll(conn->process);
		}
		free(news);
	}
}

static int hear_news(struct hwts_conn *base, bool signalled, hwts_hear *hear, void *ctx, int64_t *again_ns)
{
	struct sim_conn *conn = sim_conn(base);

	(void)signalled;
	*again_ns = 0;
	for (struct message *message; (message = conn->messages) && message->when_ns <= sim_now(); free(message)) {
		conn->messages = message->next;
		hear(ctx, &message->due);
	}
	return is_cut(conn) && !conn->is_silent ? broke(conn, ENOTCONN) : 0;
}

static void tend(struct hwts_conn *conn)
{
	(void)conn;
}

/*
 * Users' own connections
 */

void *sim_user_begin(bool elsewhere)
{
	struct sim_conn *conn = make(HWTS_CALL);
	bool made;

	conn->is_users = true;
	conn->is_elsewhere = elsewhere;
	conn->patience_ns = conn->lock_ns = HWT_S(10);
	enter(conn);
	sim_sleep(2 * trip());
	made = !sim_server.is_down && !conn->process->is_cut && !is_cut(conn);
	if (made) {
		conn->tx = sim_begin_tx(conn->lock_ns);
		conn->tx->synced = true;
	}
	leave(conn);
	if (made)
		return conn;
	disconnect(&conn->conn);
	return NULL;
}

int sim_user_end(void *connection, bool commits)
{
	struct sim_conn *conn = connection;
	int rc;

	conn->is_users = false;
	conn->conn.broken |= is_cut(conn);
	rc = finish(&conn->conn, commits ? 0 : ECANCELED);
	disconnect(&conn->conn);
	return commits ? rc : 0;
}

static int borrow(struct hwts_db *db, void *connection, struct hwts_conn **out)
{
	struct sim_conn *conn = connection;

	conn->conn.db = db;
	conn->is_users = true;
	if (conn->tx && !is_cut(conn))
		conn->savepoint = sim_savepoint(conn->tx);
	*out = &conn->conn;
	return 0;
}

static int give_back(struct hwts_conn *base, int rc)
{
	struct sim_conn *conn = sim_conn(base);

	conn->is_users = base->role != HWTS_TASK; /* the transaction of a task is ended by the store */
	if (rc != 0 && conn->tx && !is_cut(conn))
		sim_roll_back_to(conn->tx, conn->savepoint);
	return rc;
}

static bool blocks(void *connection)
{
	(void)connection;
	return false;
}

const struct hwts_engine hwts_postgres = {
	.name = "simulation",
	.locks_rows = true,
	.keeps_dead = true,
	.open = open_db,
	.close = close_db,
	.connect = connect,
	.disconnect = disconnect,
	.alive = alive,
	.prepare = prepare,
	.run = run,
	.finish = finish,
	.unblock = unblock,
	.borrow = borrow,
	.give_back = give_back,
	.blocks = blocks,
	.open_run = open_run,
	.close_run = close_run,
	.drop_run = drop_run,
	.listen = listen,
	.news_fd = news_fd,
	.news = hear_news,
	.tend = tend,
};
