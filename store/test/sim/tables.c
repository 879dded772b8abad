/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables in memory; tables.h. */
#include "tables.h"

#include <stdlib.h>

struct sim_server sim_server = { .end = &sim_server.first, .next_tx = 10, .price_ns = 300 };

#define SETTLE_APART 400          /* commits */
#define OLDEST_NS HWT_S(30)       /* older commits are never taken back */
#define LOG_WRITER_NS HWT_MS(600) /* commits that are not synced are on the disk after this time */

int64_t sim_server_us(void)
{
	int64_t us = (sim_now() + sim_server.clock_ns) / 1000;

	sim_server.most_us = HWTS_MAX(sim_server.most_us, us);
	return us;
}

/*
 * Texts and versions
 */

static void drop_text(struct text *text)
{
	if (text && --text->uses == 0)
		free(text);
}

void sim_set_text(struct version *version, int at, const void *bytes, size_t len)
{
	struct text *text = NULL;

	if (bytes) {
		text = malloc(sizeof(*text) + len + 1);
		text->uses = 1;
		text->len = len;
		if (len > 0)
			memcpy(text->bytes, bytes, len);
		text->bytes[len] = '\0';
	}
	drop_text(version->s[at]);
	version->s[at] = text;
}

static void free_version(struct version *version)
{
	for (int i = 0; i < TEXTS; i++)
		drop_text(version->s[i]);
	free(version);
}

/*
 * Transactions
 */

struct tx *sim_begin_tx(int64_t lock_patience_ns)
{
	struct tx *tx = calloc(1, sizeof(*tx));

	if (sim_server.active_count == HWTS_COUNT(sim_server.active))
		abort();
	tx->number = sim_server.next_tx++;
	tx->began_ns = sim_now();
	tx->lock_patience_ns = lock_patience_ns;
	sim_server.active[sim_server.active_count++] = tx;
	return tx;
}

/* A shared lock that has become exclusive is two locks: the exclusive one goes. */
static void unlock_row(struct tx *tx, struct row *row)
{
	unsigned at = row->lock_count;

	for (unsigned i = 0; i < row->lock_count; i++)
		if (row->locks[i].tx == tx && (at == row->lock_count || row->locks[i].exclusive))
			at = i;
	SIM_CHECK(at < row->lock_count);
	row->locks[at] = row->locks[--row->lock_count];
	row->unlocked_ns = sim_now();
	sim_wake_all(row);
}

/* Unlocks the last locks, down to a savepoint or to none. */
static void unlock(struct tx *tx, size_t down_to)
{
	while (tx->lock_count > down_to) {
		tx->lock_count--;
		unlock_row(tx, tx->locked[tx->lock_count]);
	}
}

static void unlock_all(struct tx *tx)
{
	unlock(tx, 0);
	free(tx->locked);
	tx->locked = NULL;
	tx->lock_room = 0;
}

static void leave(struct tx *tx)
{
	tx->is_over = true;
	unlock_all(tx);
	for (unsigned i = 0; i < sim_server.active_count; i++)
		if (sim_server.active[i] == tx)
			sim_server.active[i--] = sim_server.active[--sim_server.active_count];
}

static void free_tx(struct tx *tx)
{
	for (struct news *news = tx->news, *next; news; news = next) {
		next = news->next;
		free(news);
	}
	free(tx->writes);
	free(tx);
}

/* Takes back writes, the last one first. */
static void take_back(struct tx *tx, size_t down_to, bool tells)
{
	while (tx->write_count > down_to) {
		struct write *write = &tx->writes[--tx->write_count];

		if (write->what != MADE) {
			write->version->gone = NULL;
			if (tells && write->what == REMOVED && write->row->table == TIMEOUT)
				sim_judge_gone(write->version, true);
		} else {
			if (tells && write->row->table == TIMEOUT)
				sim_judge_lost(write->version);
			SIM_CHECK(write->row->newest == write->version);
			write->row->newest = write->version->older;
			free_version(write->version);
		}
	}
}

struct savepoint sim_savepoint(const struct tx *tx)
{
	return (struct savepoint){ tx->write_count, tx->lock_count };
}

void sim_roll_back_to(struct tx *tx, struct savepoint savepoint)
{
	take_back(tx, savepoint.writes, false);
	unlock(tx, savepoint.locks);
}

void sim_abort_tx(struct tx *tx)
{
	take_back(tx, 0, false);
	leave(tx);
	free_tx(tx);
}

void sim_commit_tx(struct tx *tx)
{
	unsigned starts = sim_server.starts;

	if (tx->synced && tx->write_count > 0) {
		sim_sleep(HWT_US(200) + sim_some_time(HWT_MS(4)));
		if (starts != sim_server.starts)
			return; /* the crash has taken it back already */
	}
	tx->commit = ++sim_server.commits;
	tx->commit_ns = sim_now();
	if (tx->synced)
		sim_server.on_disk = tx->commit;
	for (size_t i = 0; i < tx->write_count; i++) {
		const struct write *write = &tx->writes[i];

		if (write->row->table == TIMEOUT && write->what == REMOVED)
			sim_judge_gone(write->version, false);
		else if (write->row->table == TIMEOUT && write->what == MADE)
			sim_judge_made(write->version);
	}
	leave(tx);
	sim_send_news(tx->news);
	tx->news = NULL;
	*sim_server.end = tx;
	sim_server.end = &tx->next;
	if (++sim_server.unsettled >= SETTLE_APART && sim_server.executing == 0)
		sim_settle();
}

void sim_add_news(struct tx *tx, int32_t shard, const struct hwts_due *due)
{
	struct news *news = calloc(1, sizeof(*news)), **end = &tx->news;

	news->shard = shard;
	news->due = *due;
	while (*end)
		end = &(*end)->next;
	*end = news;
}

/* Returns how many commits are lost. */
unsigned sim_crash(enum forgets forgets, int64_t since_ns)
{
	struct tx **lost, **link = &sim_server.first;
	unsigned count = 0;
	uint64_t stays = forgets == FORGETS_SYNCED ? 0 : sim_server.on_disk;

	since_ns = HWTS_MAX(since_ns, sim_now() - OLDEST_NS + HWT_S(5));
	if (forgets == FORGETS_UNSYNCED)
		since_ns = HWTS_MAX(since_ns, sim_now() - LOG_WRITER_NS);
	sim_server.starts++;
	sim_server.breaks_its_word = forgets == FORGETS_SYNCED;
	sim_server.broke_its_word |= sim_server.breaks_its_word;
	while (sim_server.active_count > 0) {
		struct tx *tx = sim_server.active[sim_server.active_count - 1];

		take_back(tx, 0, false);
		leave(tx); /* its owner frees it */
	}
	while (*link && ((*link)->commit <= stays || (*link)->commit_ns <= since_ns))
		link = &(*link)->next;
	for (const struct tx *tx = *link; tx; tx = tx->next)
		count++;
	lost = calloc(count + 1, sizeof(struct tx *));
	count = 0;
	for (struct tx *tx = *link; tx; tx = tx->next)
		lost[count++] = tx;
	*link = NULL;
	sim_server.end = link;
	for (unsigned i = count; i > 0; i--) {
		take_back(lost[i - 1], 0, true);
		free_tx(lost[i - 1]);
	}
	free(lost);
	return count;
}

/*
 * What a statement sees
 */

static bool is_seen(const struct act *act, const struct tx *tx)
{
	return tx && (tx == act->tx || (tx->commit != 0 && tx->commit <= act->sees));
}

const struct version *sim_see(struct act *act, const struct row *row)
{
	for (const struct version *version = row->newest; version; version = version->older) {
		if (!version->made || is_seen(act, version->made))
			return is_seen(act, version->gone) ? NULL : version;
	}
	return NULL;
}

const struct version *sim_see_last(struct act *act, const struct row *row)
{
	const struct version *version = row->newest;

	if (version)
		SIM_CHECK(!version->made || version->made == act->tx || version->made->commit != 0);
	return version && !version->gone ? version : NULL;
}

/*
 * Locks
 */

static const struct lock *blocker(const struct act *act, const struct row *row, bool exclusive)
{
	for (unsigned i = 0; i < row->lock_count; i++)
		if (row->locks[i].tx != act->tx && (exclusive || row->locks[i].exclusive))
			return &row->locks[i];
	return NULL;
}

/* True: the transaction that this one would wait for waits for this one. */
static bool is_deadlock(const struct tx *tx, const struct row *row, unsigned depth)
{
	for (unsigned i = 0; row && i < row->lock_count && depth < 8; i++)
		if (row->locks[i].tx == tx ? depth > 0 : is_deadlock(tx, row->locks[i].tx->waits_for, depth + 1))
			return true;
	return false;
}

static int wait_for_lock(struct act *act, struct row *row, bool exclusive)
{
	struct tx *tx = act->tx;
	int64_t until_ns = sim_now() + tx->lock_patience_ns;
	unsigned starts = sim_server.starts;

	tx->waits_for = row;
	if (is_deadlock(tx, row, 0))
		until_ns = HWTS_MIN(until_ns, sim_now() + HWT_S(1));
	while (starts == sim_server.starts && blocker(act, row, exclusive) && sim_now() < until_ns)
		(void)sim_wait("waits for a row", row, until_ns);
	if (starts != sim_server.starts)
		return ECONNRESET;
	tx->waits_for = NULL;
	return blocker(act, row, exclusive) ? EAGAIN : 0;
}

int sim_lock(struct act *act, struct row *row, bool exclusive, enum if_locked patience)
{
	struct tx *tx = act->tx;
	int rc = 0;

	if (blocker(act, row, exclusive))
		rc = patience == SKIPS ? EBUSY : wait_for_lock(act, row, exclusive);
	if (rc != 0)
		return rc;
	for (unsigned i = 0; i < row->lock_count; i++)
		if (row->locks[i].tx == tx && row->locks[i].exclusive >= exclusive)
			return 0;
	if (row->lock_count == HWTS_COUNT(row->locks))
		abort();
	row->locks[row->lock_count++] = (struct lock){ tx, exclusive };
	if (tx->lock_count == tx->lock_room) {
		tx->lock_room = tx->lock_room ? 2 * tx->lock_room : 8;
		tx->locked = realloc(tx->locked, tx->lock_room * sizeof(struct row *));
	}
	tx->locked[tx->lock_count++] = row;
	return 0;
}

/*
 * Writes
 */

static void note_write(struct tx *tx, struct row *row, struct version *version, enum written what)
{
	if (tx->write_count == tx->write_room) {
		tx->write_room = tx->write_room ? 2 * tx->write_room : 8;
		tx->writes = realloc(tx->writes, tx->write_room * sizeof(*tx->writes));
	}
	tx->writes[tx->write_count++] = (struct write){ row, version, what };
}

static struct version *add_version(struct act *act, struct row *row)
{
	struct version *version = calloc(1, sizeof(*version));

	if (row->newest) {
		memcpy(version->n, row->newest->n, sizeof(version->n));
		memcpy(version->s, row->newest->s, sizeof(version->s));
		for (int i = 0; i < TEXTS; i++)
			if (version->s[i])
				version->s[i]->uses++;
	}
	version->older = row->newest;
	version->made = act->tx;
	row->newest = version;
	note_write(act->tx, row, version, MADE);
	return version;
}

static void end_version(struct act *act, struct row *row, enum written what)
{
	SIM_CHECK(row->newest && !row->newest->gone);
	row->newest->gone = act->tx;
	note_write(act->tx, row, row->newest, what);
}

void sim_remove(struct act *act, struct row *row)
{
	end_version(act, row, REMOVED);
}

struct version *sim_change(struct act *act, struct row *row)
{
	end_version(act, row, CHANGED);
	return add_version(act, row);
}

struct version *sim_insert(struct act *act, enum table table)
{
	struct row *row = calloc(1, sizeof(*row));

	row->table = table;
	row->next = sim_server.rows[table];
	sim_server.rows[table] = row;
	(void)sim_lock(act, row, true, WAITS);
	return add_version(act, row);
}

/*
 * Settling: frees versions so old that no snapshot sees them and no crash takes them back.
 */

static bool is_settled(const struct tx *tx, const struct tx *first)
{
	return tx && tx->commit != 0 && (!first || tx->commit < first->commit);
}

static void settle_row(struct row *row, const struct tx *first)
{
	for (struct version **link = &row->newest; *link;) {
		struct version *version = *link;

		if (is_settled(version->made, first))
			version->made = NULL;
		if (is_settled(version->gone, first)) { /* then so are all older versions */
			while (*link) {
				version = *link;
				*link = version->older;
				free_version(version);
			}
			return;
		}
		link = &version->older;
	}
}

void sim_settle(void)
{
	struct tx *first = sim_server.first;
	int64_t before_ns = sim_now() - OLDEST_NS;

	while (first && first->commit_ns < before_ns && (!sim_server.kept || first->commit < sim_server.kept))
		first = first->next;
	for (int table = 0; table < TABLES; table++)
		for (struct row **link = &sim_server.rows[table], *row; (row = *link) != NULL;) {
			settle_row(row, first);
			if (row->newest || row->lock_count > 0) {
				link = &row->next;
				continue;
			}
			*link = row->next;
			free(row);
		}
	while (sim_server.first != first) {
		struct tx *tx = sim_server.first;

		sim_server.first = tx->next;
		free_tx(tx);
	}
	if (!first)
		sim_server.end = &sim_server.first;
	sim_server.unsettled = 0;
}
