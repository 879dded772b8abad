/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A page of the tables is damaged: shards that do not meet it run.
 */
#include "store.h"

#include "inside.h"

#include "store_query.h"

#include <fcntl.h>

enum { ROWS = 2008, SHARDS = 256, GROUPS = 200, DATA = 100 };

static atomic_uint told;

static void count_warning(void *ctx, const char *message)
{
	(void)ctx;
	atomic_fetch_add(&told, strstr(message, "look-ahead") != NULL);
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

/* A leaf in the middle of all that are as full as those of the timeouts are. */
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
/* Vacuumed, so that an index says what is there; the server has no page of it in memory when it is damaged. */
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

/* False: this server may not be stopped. */
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

/*
 * The store
 */

/* All rows, due for an hour; capped: in groups, so that what runs elsewhere is read, too. */
static void fill(bool capped)
{
	static const char data[DATA];
	static char names[ROWS][8];
	static hwt_store_spec specs[ROWS];
	hwt_store *store = fresh_store();

	CHECK_CALL(hwt_store_register(store, &KIND(.name = "a", .task = count_run, .shards = SHARDS)), 0);
	for (unsigned i = 0; i < ROWS; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "g%u", i % GROUPS);
		specs[i] = SPEC("a", 0, .flags = HWT_STORE_ABSOLUTE, .due_us = now_us() - 3600 * HWTS_S_US,
				.group = capped ? names[i] : NULL, .data = data, .len = DATA);
	}
	CHECK_CALL(hwt_store_put_many(store, specs, ROWS, NULL), 0);
	if (capped)
		CHECK_CALL(hwt_store_limit(store, "a", NULL, &LIMITS(.running = 3)), 0);
	CHECK_CALL(hwt_store_close(store), 0);
}

/* The rows of shards that can be read to their end. */
static unsigned count_in_readable_shards(void)
{
	void *user = connect_user();
	unsigned count = 0;

	for (int shard = HWTS_SHARDS_MAX; shard < HWTS_SHARDS_MAX + SHARDS; shard++)
		if (user_sql(user, "select base_us, due_us from %s_timeout where shard = %d", world.schema, shard))
			count += (unsigned)query("select count(*) from %s_timeout where shard = %d", world.schema,
						 shard);
	disconnect_user(user);
	printf("# %u of %d lie in shards that can be read\n", count, ROWS);
	CHECK_INT(count, >, 0);
	CHECK_INT(count, <, ROWS);
	return count;
}

/* A put comes to its holder by itself.  On SQLite a shard runs as far as the damage, or a run is FAILED. */
static void the_others_run(bool puts)
{
	hwt_store *store = OPEN(.lease_ns = HWT_S(2), .warn = count_warning);
	unsigned readable = count_in_readable_shards(), before;
	int rc;

	atomic_store(&told, 0);
	atomic_store(&ran, 0);
	CHECK_CALL(hwt_store_register(store, &KIND(.name = "a", .task = count_run)), 0);
	PATIENTLY(rc, hwt_store_start(store));
	CHECK_INT(rc, ==, 0);
	CHECK(wait_count(&ran, readable));
	CHECK(wait_count(&told, 2)); /* each lease */
	before = atomic_load(&ran);
	if (puts)
		put(store, "a", HWT_MS(1));
	CHECK(wait_count(&ran, before + puts));
	CHECK_INT(stats_of_store(store).lost_leases, ==, 0);
	CHECK_CALL(hwt_store_close(store), 0);
}

TEST(shards_that_do_not_meet_a_damaged_page_run)
{
	fill(false);
	if (!damage_table())
		SKIP("a server that may not be stopped");
	the_others_run(true);
}

#ifdef HWT_STORE_SQLITE
/* The window keeps some of each group, and the others are read when their turn comes. */
TEST(a_damaged_page_holds_up_no_rest_of_other_shards)
{
	NEEDS_SQLITE();
	atomic_store(&hwts_test_window, 200);
	fill(false);
	damage_sqlite(OF_TABLE);
	the_others_run(true);
	atomic_store(&hwts_test_window, 0);
}

/* Of a shard whose runs cannot be counted nothing is begun. */
TEST(a_damaged_page_holds_up_no_limit_of_other_shards)
{
	NEEDS_SQLITE();
	fill(true);
	damage_sqlite(OF_TABLE);
	the_others_run(false);
}

TEST(where_the_index_is_damaged_the_other_shards_run)
{
	NEEDS_SQLITE();
	fill(false);
	damage_sqlite(OF_INDEX);
	the_others_run(false); /* a put could meet the page */
}
#endif

STORE_MAIN(NULL)
