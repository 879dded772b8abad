/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers for ids: blocks that are drawn before they are needed.
 *
 * Structure
 *
 *   Up to two ranges are in hand.  When half of a block is left the next one is drawn, twice as large as the last, from
 *   64 to 65,536.  A put draws on its own connection, before its transaction.
 *
 *   hwt_store_put_on must not draw on the caller's connection: if the caller rolled back, the numbers would be drawn
 *   again, and another timeout would get an id that some program still has.  So it draws on a connection of conns.c.
 *   On SQLite the caller's transaction keeps all others from writing: there a thread of its own, the drawer, waits
 *   until that transaction is over, and draws.
 *
 * Threads
 *
 *   numbers.lock guards everything.  No thread holds it during an exchange.
 */
#include "store/numbers.h"
#include "store/conns.h"
#include "store/run.h"
#include "store/store.h"

#define BLOCK_LEAST 64
#define BLOCK_ON 1024 /* smallest block for a put on a caller's connection */
#define BLOCK_MOST 65536
#define DRY 16 /* after the numbers ran out, the next block is larger by this factor */

/*
 * The caller holds numbers->lock.  A server that was connected to since may give the same numbers again.  Blocks start
 * small again: large blocks for each of many connections would use up all numbers in weeks.
 */
static void drop_old(hwt_store *store, unsigned connects)
{
	struct hwts_numbers *numbers = store->numbers;

	if (numbers->connects == connects)
		return;
	numbers->ranges[0].left = numbers->ranges[1].left = 0;
	numbers->block = BLOCK_LEAST;
	numbers->connects = connects;
}

/* The caller holds numbers->lock. */
static bool take(hwt_store *store, struct hwts_put *put)
{
	struct hwts_numbers *numbers = store->numbers;

	drop_old(store, hwts_conns_connects(store));
	if (numbers->ranges[0].left == 0) {
		numbers->ranges[0] = numbers->ranges[1];
		numbers->ranges[1].left = 0;
	}
	if (numbers->ranges[0].left == 0)
		return false;
	numbers->ranges[0].left--;
	put->drawn = hwts_id_of(numbers->ranges[0].next++, put->group, put->key);
	return true;
}

/* The caller holds numbers->lock.  block is twice the last block. */
static bool is_low(const struct hwts_numbers *numbers)
{
	return numbers->ranges[1].left == 0 && numbers->ranges[0].left < numbers->block / 4;
}

/* Needs numbers->lock.  Keeps a new range: as the first if that is empty, otherwise as the second if it is larger. */
static void keep(hwt_store *store, unsigned connects, int64_t first, int64_t count)
{
	struct hwts_numbers *numbers = store->numbers;
	size_t at;

	drop_old(store, connects);
	at = numbers->ranges[0].left > 0;
	if (count <= numbers->ranges[at].left)
		return;
	numbers->ranges[at].next = first;
	numbers->ranges[at].left = count;
}

/* Draws at least n. */
static int draw(hwt_store *store, struct hwts_conn *conn, int64_t n, bool hasty)
{
	struct hwts_numbers *numbers = store->numbers;
	int64_t first, count;
	unsigned connects;
	int rc;

	pthread_mutex_lock(&numbers->lock);
	count = HWTS_MAX(n, numbers->block) | 1; /* odd: otherwise many short processes would use few buckets */
	connects = hwts_conns_connects(store);
	pthread_mutex_unlock(&numbers->lock);
	rc = hwts_rows_draw(conn, count, hasty, &first);
	if (rc != 0)
		return rc;
	HWTS_POINT("drawn");
	pthread_mutex_lock(&numbers->lock);
	numbers->block = HWTS_MIN(2 * numbers->block, BLOCK_MOST);
	if (connects == hwts_conns_connects(store))
		keep(store, connects, first, count);
	pthread_mutex_unlock(&numbers->lock);
	return 0;
}

/* Draws the next block, unless another thread does.  The put of this thread has its number already. */
static void draw_ahead(hwt_store *store, struct hwts_conn *conn)
{
	struct hwts_numbers *numbers = store->numbers;
	bool draws;

	pthread_mutex_lock(&numbers->lock);
	draws = is_low(numbers) && !numbers->drawing;
	numbers->drawing |= draws;
	pthread_mutex_unlock(&numbers->lock);
	if (!draws)
		return;
	(void)draw(store, conn, 0, true);
	pthread_mutex_lock(&numbers->lock);
	numbers->drawing = false;
	pthread_mutex_unlock(&numbers->lock);
}

int hwts_numbers_give(hwt_store *store, struct hwts_conn *conn, struct hwts_put *puts, size_t n)
{
	struct hwts_numbers *numbers = store->numbers;
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0;) {
		pthread_mutex_lock(&numbers->lock);
		while (i < n && take(store, &puts[i]))
			i++;
		pthread_mutex_unlock(&numbers->lock);
		if (i < n)
			rc = draw(store, conn, (int64_t)(n - i), false);
	}
	if (rc == 0)
		draw_ahead(store, conn);
	return rc;
}

/*
 * Numbers for puts on a connection of the caller
 */

static void *drawer(void *arg)
{
	hwt_store *store = arg;
	struct hwts_numbers *numbers = store->numbers;
	struct hwts_conn *conn;
	int rc;

	pthread_mutex_lock(&numbers->lock);
	while (!numbers->halt) {
		if (!is_low(numbers)) {
			hwts_wait_ns(&numbers->wanted, &numbers->lock, HWT_S(60));
			continue;
		}
		pthread_mutex_unlock(&numbers->lock);
		rc = hwts_conns_get(store, &conn);
		if (rc == 0)
			rc = hwts_conns_put(store, conn, draw(store, conn, 0, true));
		pthread_mutex_lock(&numbers->lock);
		if (rc != 0 && rc != EAGAIN && !numbers->halt)
			hwts_wait_ns(&numbers->wanted, &numbers->lock, HWT_S(1));
	}
	pthread_mutex_unlock(&numbers->lock);
	return NULL;
}

/* The caller holds numbers->lock.  Without the thread the next put may get EAGAIN, so no error is returned. */
static void call_drawer(hwt_store *store)
{
	struct hwts_numbers *numbers = store->numbers;

	if (!numbers->has_drawer)
		numbers->has_drawer = hwts_thread(&numbers->drawer, drawer, store) == 0;
	pthread_cond_signal(&numbers->wanted);
}

static int give_in_hand(hwt_store *store, struct hwts_put *put)
{
	struct hwts_numbers *numbers = store->numbers;
	bool had;

	pthread_mutex_lock(&numbers->lock);
	had = take(store, put);
	if (!had)
		numbers->block = HWTS_MIN(DRY * numbers->block, BLOCK_MOST);
	pthread_mutex_unlock(&numbers->lock);
	return had ? 0
		   : hwts_fail(EAGAIN, "no ids are in hand, and the transaction of this connection keeps the store from"
				       " drawing more: end it, and try again");
}

int hwts_numbers_give_on(hwt_store *store, void *connection, struct hwts_put *put)
{
	struct hwts_numbers *numbers = store->numbers;
	struct hwts_conn *conn;
	int rc;

	pthread_mutex_lock(&numbers->lock);
	numbers->block = HWTS_MAX(numbers->block, BLOCK_ON);
	pthread_mutex_unlock(&numbers->lock);
	if (hwts_holds_lock(store) || store->engine->blocks(connection))
		return give_in_hand(store, put);
	rc = hwts_conns_get(store, &conn);
	return rc ? rc : hwts_conns_put(store, conn, hwts_numbers_give(store, conn, put, 1));
}

/*
 * Called after the put.  If the drawer wrote first, a caller's transaction that had only read could not write any more.
 */
void hwts_numbers_refill(hwt_store *store)
{
	struct hwts_numbers *numbers = store->numbers;

	pthread_mutex_lock(&numbers->lock);
	if (!store->engine->locks_rows && is_low(numbers))
		call_drawer(store);
	pthread_mutex_unlock(&numbers->lock);
}

/*
 * Life
 */

void hwts_numbers_init(struct hwts_numbers *numbers)
{
	pthread_mutex_init(&numbers->lock, NULL);
	hwts_cond_init(&numbers->wanted);
}

void hwts_numbers_open(hwt_store *store, struct hwts_conn *conn)
{
	store->numbers->block = BLOCK_LEAST;
	(void)draw(store, conn, 0, true); /* on failure the first put draws */
}

void hwts_numbers_close(hwt_store *store)
{
	struct hwts_numbers *numbers = store->numbers;

	pthread_mutex_lock(&numbers->lock);
	numbers->halt = true;
	pthread_cond_signal(&numbers->wanted);
	pthread_mutex_unlock(&numbers->lock);
	if (numbers->has_drawer)
		pthread_join(numbers->drawer, NULL);
	pthread_mutex_destroy(&numbers->lock);
	pthread_cond_destroy(&numbers->wanted);
}
