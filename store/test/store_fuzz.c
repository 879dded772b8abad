/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * News and urls of random bytes.  A role that may write to the database may send news: bad news costs a begin or a look
 * in vain, and nothing else.  All draws follow from a seed, HWT_SEED.
 */
#include "store_query.h"

#include "inside.h"

#define NEWS 400
#define URLS 4000

/* Numbers that parsers get wrong: ends of ranges, and texts that are no number. */
static const char *draw_number(struct prng *prng, char text[32])
{
	static const char *const odd[] = { "0",
					   "-1",
					   "1",
					   "9223372036854775807",
					   "-9223372036854775808",
					   "9223372036854775808",
					   "99999999999999999999999999",
					   "4294967296",
					   "2147483648",
					   "-2147483649",
					   "253402300800000000",
					   "253402300800000001",
					   "+7",
					   " 7",
					   "0x7",
					   "1e9",
					   "" };

	if (prng_below(prng, 2) == 0)
		return odd[prng_below(prng, HWTS_COUNT(odd))];
	(void)snprintf(text, 32, "%" PRIu64, prng_next(prng) >> prng_below(prng, 64));
	return text;
}

/*
 * News
 */

#ifdef HWT_STORE_POSTGRES
static void draw_payload(struct prng *prng, char *payload, size_t size)
{
	size_t rows = prng_below(prng, 6), at = 0;
	char numbers[3][32];

	payload[0] = '\0';
	for (size_t i = 0; i < rows; i++)
		at += (size_t)snprintf(payload + at, size - at, "%s%s:%s:%s", i > 0 ? "," : "",
				       draw_number(prng, numbers[0]), draw_number(prng, numbers[1]),
				       draw_number(prng, numbers[2]));
	/* A few bytes are changed, or removed. */
	for (uint64_t n = prng_below(prng, 4); n > 0 && at > 0; n--) {
		size_t where = prng_below(prng, at);

		if (prng_below(prng, 4) == 0)
			payload[at = where] = '\0';
		else
			payload[where] = (char)(' ' + prng_below(prng, 95));
	}
}

static void send_postgres(struct prng *prng, const hwt_store *store, const int32_t *shards, size_t n)
{
	USER *conn = connect_user();
	char payload[1024], channel[64];

	for (int i = 0; i < NEWS; i++) {
		const char *values[] = { channel, payload };
		PGresult *result;

		draw_payload(prng, payload, sizeof(payload));
		(void)snprintf(channel, sizeof(channel), "%s%d", store->db->channel, shards[prng_below(prng, n)]);
		result = PQexecParams(conn, "select pg_notify($1, $2)", 2, NULL, values, NULL, NULL, 0);
		CHECK_INT(PQresultStatus(result), ==, PGRES_TUPLES_OK);
		PQclear(result);
	}
}
#endif

#ifdef HWT_STORE_SQLITE
static void bind_any(struct prng *prng, sqlite3_stmt *statement, int at)
{
	char text[32];

	switch (prng_below(prng, 5)) {
	case 0:
		sqlite3_bind_text(statement, at, draw_number(prng, text), -1, SQLITE_TRANSIENT);
		break;
	case 1:
		sqlite3_bind_double(statement, at, 1e300);
		break;
	case 2:
		sqlite3_bind_blob(statement, at, "\0\1\2", 3, SQLITE_STATIC);
		break;
	default:
		sqlite3_bind_int64(statement, at, (int64_t)strtoull(draw_number(prng, text), NULL, 0));
	}
}

static void send_sqlite(struct prng *prng, const int32_t *shards, size_t n)
{
	USER *db = connect_user();
	sqlite3_stmt *statement = NULL;
	char text[160];

	(void)snprintf(text, sizeof(text), "insert into %s_hint (id, due_us, shard, len, at_us) values (?, ?, ?, ?, ?)",
		       world.schema);
	REQUIRE(sqlite3_prepare_v2(db, text, -1, &statement, NULL) == SQLITE_OK);
	for (int i = 0; i < NEWS; i++) {
		for (int at = 1; at <= 5; at++)
			bind_any(prng, statement, at);
		if (prng_below(prng, 2) == 0)
			sqlite3_bind_int64(statement, 3, shards[prng_below(prng, n)]);
		(void)sqlite3_step(statement); /* a column may refuse the value */
		sqlite3_reset(statement);
	}
	sqlite3_finalize(statement);
}
#endif

TEST(news_of_any_bytes_harm_nothing)
{
	struct prng prng = { test_seed("news") };
	hwt_store *store = fresh_store();
	int32_t shards[8];
	unsigned before;

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	for (int32_t i = 0; i < 8; i++)
		shards[i] = store->kinds->shards[i].id;
#ifdef HWT_STORE_SQLITE
	if (world.sqlite)
		send_sqlite(&prng, shards, 8);
#endif
#ifdef HWT_STORE_POSTGRES
	if (!world.sqlite)
		send_postgres(&prng, store, shards, 8);
#endif
	before = atomic_load(&ran);
	for (unsigned i = 0; i < 50; i++)
		put(store, "a", HWT_MS(i));
	CHECK(wait_count(&ran, before + 50));
	CHECK_INT(stats_of_store(store).shards_held, ==, 8);
	CHECK_INT(stats_of_store(store).lost_leases, ==, 0);
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(atomic_load(&ran), ==, before + 50); /* nothing has run that was not put */
}

/* A window entry with the wrong shard would block the right one. */
TEST(news_of_the_wrong_shard_do_not_hide_a_timeout)
{
	CLOSING hwt_store *store = fresh_store();
	const struct hwts_kind *kind;
	unsigned before;
	int64_t next;

	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	kind = store->kinds;
	before = atomic_load(&ran);
	(void)put(store, "a", HWT_S(1)); /* when it is due the first look ahead is over */
	CHECK(wait_count(&ran, before + 1));
	next = hwts_id_of((put(store, "a", HWT_S(3600)) >> HWTS_BUCKET_BITS) + 1, NULL, NULL);
	hwts_hear_news(store,
		       &(struct hwts_due){ .id = next,
					   .due_us = now_us() + 200000,
					   .shard = kind->shards[(hwts_shard_of(&kind->row, next) + 1) % 8].id });
	CHECK(LOCKED(store, hwts_window_find(store, next) == NULL));
	CHECK_INT(put(store, "a", HWT_MS(100)), ==, next);
	CHECK(wait_count(&ran, before + 2));
}

/*
 * Urls: no host is asked
 */

static void mutate(struct prng *prng, char *url, size_t size)
{
	for (uint64_t n = prng_below(prng, 6); n > 0; n--) {
		size_t len = strlen(url), at = prng_below(prng, len + 1);

		switch (prng_below(prng, 3)) {
		case 0: /* another byte */
			if (len > 0)
				url[at % len] = (char)(1 + prng_below(prng, 255));
			break;
		case 1: /* a byte less */
			if (at < len)
				memmove(url + at, url + at + 1, len - at);
			break;
		default: /* a byte more */
			if (len + 2 < size) {
				memmove(url + at + 1, url + at, len - at + 1);
				url[at] = "%:/?&=@[],' \\"[prng_below(prng, 13)];
			}
		}
	}
}

static const struct hwts_engine *engine_of(const char *url)
{
#ifdef HWT_STORE_SQLITE
	if (strncmp(url, "sqlite:", 7) == 0)
		return &hwts_sqlite;
#endif
#ifdef HWT_STORE_POSTGRES
	if (strncmp(url, "pg:", 3) == 0 || strncmp(url, "postgres://", 11) == 0 ||
	    strncmp(url, "postgresql://", 13) == 0)
		return &hwts_postgres;
#endif
	return NULL;
}

TEST(urls_of_any_bytes_are_taken_or_refused_with_a_text)
{
	static const char *const good[] = {
		"sqlite:a.db",
		"sqlite:/tmp/a b.db",
		"sqlite::memory:",
		"pg:host=/tmp user=hwt dbname='post gres'",
		"pg:",
		"postgresql://hwt:secret@a,b:5433/db?target_session_attrs=read-write&connect_timeout=3",
		"postgres://[::1]:5432/db%20name",
		"mysql://a/b",
		"",
	};
	struct prng prng = { test_seed("urls") };
	unsigned taken = 0, refused = 0, unknown = 0;

	fresh_world();
	REQUIRE(chdir(world.folder) == 0); /* for the files whose names are drawn */
	for (int i = 0; i < URLS; i++) {
		const struct hwts_engine *engine;
		struct hwts_db *db = NULL;
		hwt_store *store = NULL;
		char url[256], error[128] = "";
		int rc;

		(void)snprintf(url, sizeof(url), "%s", good[prng_below(&prng, HWTS_COUNT(good))]);
		mutate(&prng, url, sizeof(url));
		engine = engine_of(url);
		if (!engine) {
			rc = hwt_store_open(&store, url, NULL, error, sizeof(error));
			CHECK(rc == EINVAL || rc == ENOTSUP);
			CHECK(store == NULL && error[0] != '\0');
			unknown++;
			continue;
		}
		rc = engine->open(url, &db);
		CHECK((rc == 0) == (db != NULL));
		if (db) {
			db->engine = engine;
			engine->close(db);
			taken++;
		} else {
			/* The folder of a path must exist, and must be accessible. */
			CHECK(rc == EINVAL || (strncmp(url, "sqlite:", 7) == 0 && (rc == ENOENT || rc == EACCES)));
			CHECK(hwts_fail_text()[0] != '\0');
			refused++;
		}
	}
	CHECK_INT(taken, >, 100);
	CHECK_INT(refused, >, 100);
	CHECK_INT(unknown, >, 100);
	printf("# %u taken, %u refused, %u of no engine\n", taken, refused, unknown);
}

STORE_MAIN(NULL)
