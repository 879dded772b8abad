/* SPDX-License-Identifier: BSD-2-Clause */
/* A page of the tables is damaged: rows in that page can neither be read nor begun, and all other rows run. */
#include "store.h"

#include "inside.h"

#include "store_query.h"

#include <fcntl.h>

enum { ROWS = 2008, GROUPS = 4, DATA = 100 };

static int64_t ids[ROWS];
static atomic_uint told, failed_looks;

static void count_warning(void *ctx, const char *message)
{
	(void)ctx;
	atomic_fetch_add(&told, strstr(message, "set aside") != NULL);
	atomic_fetch_add(&failed_looks, strstr(message, "look-ahead") != NULL);
}

/*
 * The file
 */

static void write_over(const char *path, int64_t at)
{
	static const char damage[24] = "no header of a page";
	int file = open(path, O_WRONLY | O_CLOEXEC);

	REQUIRE(file >= 0);
	CHECK_INT(pwrite(file, damage, sizeof(damage), at), ==, sizeof(damage));
	CHECK_INT(close(file), ==, 0);
}

#ifdef HWT_STORE_SQLITE
enum { SQLITE_PAGE = 4096, OF_INDEX = 0x0a, OF_TABLE = 0x0d };

/* Damages a leaf in the middle of those that are as full as the leaves of timeouts. */
static void damage_sqlite(int type)
{
	const char *path = world.url + strlen("sqlite:");
	unsigned char page[SQLITE_PAGE];
	FILE *file = fopen(path, "rb");
	int64_t found[ROWS], at = 0;
	size_t n = 0;

	REQUIRE(file != NULL);
	for (; fread(page, sizeof(page), 1, file) == 1; at += SQLITE_PAGE)
		if (page[0] == type && page[3] * 256 + page[4] > 10 && n < ROWS)
			found[n++] = at;
	fclose(file);
	REQUIRE(n > 4);
	write_over(path, found[n / 2]);
}
#endif

#ifdef HWT_STORE_POSTGRES
/*
 * The table is vacuumed, so an index alone can be read; the server has no page of it in memory when the file is
 * damaged.
 */
static bool damage_postgres(void)
{
	const char *ctl = getenv("HWT_POSTGRES_CTL");
	char command[300];
	struct value path;
	void *conn;

	if (!ctl)
		return false;
	(void)query("vacuum (freeze, analyze) %s_timeout", world.schema);
	conn = connect_user();
	(void)snprintf(command, sizeof(command),
		       "select current_setting('data_directory') || '/' || pg_relation_filepath('%s_timeout')",
		       world.schema);
	user_value(conn, command, &path);
	REQUIRE(path.rows == 1);
	disconnect_user(conn);
	(void)snprintf(command, sizeof(command), "%s -m fast stop", ctl);
	CHECK_INT(system(command), ==, 0);
	write_over(path.text, INT64_C(8192) * 5);
	(void)snprintf(command, sizeof(command), "%s start", ctl);
	CHECK_INT(system(command), ==, 0);
	return true;
}
#endif

/* False: this server must not be stopped. */
static bool damage_table(void)
{
#ifdef HWT_STORE_SQLITE
	if (world.sqlite)
		damage_sqlite(OF_TABLE);
#endif
#ifdef HWT_STORE_POSTGRES
	if (!world.sqlite)
		return damage_postgres();
#endif
	return true;
}

static unsigned count_unreadable(void)
{
	void *user = connect_user();
	unsigned count = 0;

	for (size_t i = 0; i < ROWS; i++)
		count += !user_sql(user, "select base_us from %s_timeout where id = %lld", world.schema,
				   (long long)ids[i]);
	disconnect_user(user);
	CHECK_INT(count, >, 4);
	CHECK_INT(count, <, ROWS / 4);
	return count;
}

/*
 * The store
 */

/* Puts all rows, due in an hour, in this number of groups; 0: without a group. */
static void fill(unsigned groups)
{
	static const char *const names[GROUPS] = { "g0", "g1", "g2", "g3" }, data[DATA];
	static hwt_store_spec specs[ROWS];
	hwt_store *store = fresh_store();

	for (unsigned i = 0; i < ROWS; i++)
		specs[i] = SPEC("a", 0, .flags = HWT_STORE_ABSOLUTE, .due_us = now_us() - 3600 * HWTS_S_US,
				.group = groups ? names[i % groups] : NULL, .data = data, .len = DATA);
	CHECK_CALL(hwt_store_put_many(store, specs, ROWS, ids), 0);
	if (groups > 0) /* so rows that run elsewhere are read as well */
		CHECK_CALL(hwt_store_limit(store, "a", names[0], &LIMITS(.running = 3)), 0);
	CHECK_CALL(hwt_store_close(store), 0);
}

static hwt_store *start(int64_t lease_ns)
{
	hwt_store *store = OPEN(.lease_ns = lease_ns, .warn = count_warning);
	int rc;

	atomic_store(&told, 0);
	atomic_store(&failed_looks, 0);
	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	PATIENTLY(rc, hwt_store_start(store));
	CHECK_INT(rc, ==, 0);
	return store;
}

/* SQLite cannot remove a row if that would move others into a damaged page: such a run is FAILED. */
static uint64_t over(hwt_store *store)
{
	hwt_store_stats stats = stats_of_store(store);

	return stats.done + stats.failed;
}

static hwt_store *run_what_can_be_read(unsigned groups, int64_t lease_ns, unsigned *unreadable)
{
	hwt_store *store;

	fill(groups);
	if (!damage_table())
		return NULL;
	*unreadable = count_unreadable();
	printf("# %u of %d cannot be read\n", *unreadable, ROWS);
	store = start(lease_ns);
	WAIT_FOR(over(store) == ROWS - *unreadable);
	WAIT_FOR(stats_of_store(store).set_aside >= *unreadable);
	return store;
}

static void all_but_the_page_runs(unsigned groups, int64_t lease_ns)
{
	unsigned unreadable;
	hwt_store *store = run_what_can_be_read(groups, lease_ns, &unreadable);
	hwt_store_stats stats;

	if (!store)
		SKIP("a server that may not be stopped");
	look_now(store);
	put(store, "a", HWT_MS(1));
	WAIT_FOR(over(store) == ROWS - unreadable + 1);
	/* Each row counts once, and once more for each lease that was lost, after which all is read again. */
	stats = stats_of_store(store);
	CHECK_INT(stats.set_aside, >=, unreadable);
	CHECK_INT(stats.set_aside, <=, unreadable * (1 + stats.lost_leases));
	if (lease_ns >= HWT_S(600))
		CHECK_INT(stats.lost_leases, ==, 0);
	CHECK_INT(atomic_load(&told), >, 0);
	CHECK_INT(atomic_load(&failed_looks), ==, 0);
	CHECK_CALL(hwt_store_close(store), 0);
}

/* The first look finds all rows: there is no other within this lease. */
TEST(what_lies_in_a_damaged_page_is_set_aside_and_all_else_runs)
{
	all_but_the_page_runs(0, HWT_S(600));
}

/* The window keeps a part of each group, and the rest is read when its turn comes. */
TEST(it_holds_up_no_group_of_which_the_window_keeps_a_part)
{
	atomic_store(&hwts_test_window, 200);
	all_but_the_page_runs(GROUPS, HWT_S(2));
	all_but_the_page_runs(0, HWT_S(2));
	atomic_store(&hwts_test_window, 0);
}

#ifdef HWT_STORE_SQLITE
/* A connection that has met damage is made again.  Within this lease no row is begun again. */
TEST(looks_meet_a_damaged_page_less_and_less_often)
{
	NEEDS_SQLITE();
	unsigned unreadable;
	hwt_store *store = run_what_can_be_read(0, HWT_S(600), &unreadable);
	uint64_t before = stats_of_store(store).reconnects;

	for (unsigned i = 1; i <= 30; i++) {
		count_passes("looked");
		look_now(store);
		CHECK(wait_count(&passes, 1));
	}
	CHECK_INT(stats_of_store(store).reconnects - before, >, 0);
	CHECK_INT(stats_of_store(store).reconnects - before, <, 10);
	atomic_store(&hwts_test_at, NULL);
	CHECK_CALL(hwt_store_close(store), 0);
}

/* Counts the rows that the index leads to, in shards whose index can be read to its end. */
static unsigned count_in_index(void)
{
	void *user = connect_user();
	unsigned count = 0;

	for (int shard = HWTS_SHARDS_MAX; shard < 2 * HWTS_SHARDS_MAX; shard++)
		if (user_sql(user, "select due_us from %s_timeout where shard = %d", world.schema, shard))
			count += (unsigned)query("select count(*) from %s_timeout where shard = %d", world.schema,
						 shard);
	disconnect_user(user);
	return count;
}

TEST(where_the_index_is_damaged_the_other_shards_run)
{
	NEEDS_SQLITE();
	unsigned readable;
	hwt_store *store;

	fill(0);
	damage_sqlite(OF_INDEX);
	readable = count_in_index();
	CHECK_INT(readable, >, ROWS / 2);
	CHECK_INT(readable, <, ROWS);
	store = start(HWT_S(2));
	CHECK(wait_count(&ran, readable));
	WAIT_FOR(atomic_load(&failed_looks) > 0);
	look_now(store);
	CHECK_CALL(hwt_store_close(store), 0);
}
#endif

STORE_MAIN(NULL)
