/* SPDX-License-Identifier: BSD-2-Clause */
/* Bad input, and databases that cannot be used: the error, a text that says what to do, and no change. */
#include "store_query.h"

#include <sys/mount.h>

static int nothing(const hwt_store_run *run, void *ctx)
{
	(void)run;
	(void)ctx;
	return 0;
}

static void check_open(const char *url, const hwt_store_config *config, int want, const char *word)
{
	hwt_store *store = (hwt_store *)&world;
	char error[256] = "";

	CHECK_CALL(hwt_store_open(&store, url, config, error, sizeof(error)), want);
	CHECK(store == (hwt_store *)&world); /* unchanged */
	CHECK(error[0] != '\0' && strncmp(error, hwt_store_error(), 100) == 0);
	if (!strstr(error, word)) {
		fprintf(stderr, "%s: \"%s\" does not say \"%s\"\n", url ? url : "NULL", error, word);
		CHECK(strstr(error, word) != NULL);
	}
	memset(error, 'x', sizeof(error));
	CHECK_CALL(hwt_store_open(&store, url, config, error, 10), want);
	CHECK_INT(strlen(error), <=, 9);
	CHECK_CALL(hwt_store_open(&store, url, config, NULL, 0), want);
}

TEST(a_wrong_url_is_refused)
{
	hwt_store *store;

	fresh_world();
	check_open(NULL, NULL, EINVAL, "NULL");
	check_open("", NULL, EINVAL, "sqlite:PATH");
	check_open("mysql://host/db", NULL, EINVAL, "sqlite:PATH");
	check_open("sqlite", NULL, EINVAL, "sqlite:PATH");
	CHECK_CALL(hwt_store_open(NULL, world.url, NULL, NULL, 0), EINVAL);
#ifdef HWT_STORE_SQLITE
	check_open("sqlite:", NULL, EINVAL, "path");
	check_open("sqlite::memory:", NULL, EINVAL, "path");
	check_open("sqlite:/no/such/folder/x.db", NULL, ENOENT, "folder");
	check_open("sqlite:/proc", NULL, EACCES, "writable");
#endif
#ifdef HWT_STORE_POSTGRES
	check_open("pg:no_such_keyword=1", NULL, EINVAL, "no_such_keyword");
	check_open("pg:host=/nonexistent user=x dbname=y", NULL, ENOTCONN, "/nonexistent");
	check_open("postgresql://x@127.0.0.1:1/y", NULL, ENOTCONN, "127.0.0.1");
#endif
	store = open_store();
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_CALL(hwt_store_close(NULL), EINVAL);
	CHECK_CALL(hwt_store_stop(NULL), EINVAL);
	CHECK_CALL(hwt_store_start(NULL), EINVAL);
}

TEST(each_field_of_the_config_is_checked)
{
	fresh_world();
#define REFUSED(field, value, want, word)                                                                              \
	do {                                                                                                           \
		hwt_store_config config = store_config();                                                              \
		config.field = (value);                                                                                \
		check_open(world.url, &config, want, word);                                                            \
	} while (0)
	char name[130];

	memset(name, 'n', 128);
	name[128] = '\0';
	REFUSED(size, 8, EINVAL, "size");
	REFUSED(name, "", EINVAL, "name");
	REFUSED(name, name, EINVAL, "name");
	REFUSED(name, "\xff", EINVAL, "name");
	REFUSED(schema, "", EINVAL, "schema");
	REFUSED(schema, "Upper", EINVAL, "schema");
	REFUSED(schema, "a;drop", EINVAL, "schema");
	REFUSED(schema, "abcdefghijklmnopqrstuvwxy", EINVAL, "schema");
	REFUSED(threads, 1025, EINVAL, "threads");
	REFUSED(batch, 10001, EINVAL, "batch");
	REFUSED(lease_ns, HWT_MS(999), EINVAL, "lease_ns");
	REFUSED(lease_ns, -1, EINVAL, "lease_ns");
	REFUSED(lease_ns, HWT_S(3601), EINVAL, "lease_ns");
	REFUSED(tick_ns, 1, EINVAL, "tick_ns");
	REFUSED(tick_ns, HWT_S(2), EINVAL, "tick_ns");
	REFUSED(reserved[7], 1, ENOTSUP, "reserved");
	{
		struct {
			hwt_store_config config;
			uint64_t more;
		} newer = { .config = store_config(), .more = 1 };
		hwt_store *store;

		newer.config.size = sizeof(newer);
		check_open(world.url, &newer.config, ENOTSUP, "setting");
		newer.more = 0;
		CHECK_CALL(hwt_store_open(&store, world.url, &newer.config, NULL, 0), 0);
		CHECK_CALL(hwt_store_close(store), 0);
	}
}

TEST(each_field_of_a_kind_is_checked)
{
	CLOSING hwt_store *store = fresh_store();
	char name[70];
	hwt_store_kind good = KIND(.name = "a", .task = nothing);

	memset(name, 'n', 64);
	name[64] = '\0';
#define BAD_KIND(field, value, want)                                                                                   \
	do {                                                                                                           \
		hwt_store_kind kind = good;                                                                            \
		kind.field = (value);                                                                                  \
		CHECK_CALL(hwt_store_register(store, &kind), want);                                                    \
	} while (0)
	CHECK_CALL(hwt_store_start(store), EINVAL);
	BAD_KIND(size, 8, EINVAL);
	BAD_KIND(name, NULL, EINVAL);
	BAD_KIND(name, "", EINVAL);
	BAD_KIND(name, name, EINVAL);
	BAD_KIND(name, "\xc3\x28", EINVAL);
	BAD_KIND(task, NULL, EINVAL);
	BAD_KIND(mode, 3, EINVAL);
	BAD_KIND(shards, 1025, EINVAL);
	BAD_KIND(horizon_ns, HWT_S(1), EINVAL); /* less than 2/3 of the lease */
	BAD_KIND(horizon_ns, -1, EINVAL);
	BAD_KIND(backoff_ns, -1, EINVAL);
	BAD_KIND(backoff_max_ns, -1, EINVAL);
	BAD_KIND(horizon_ns, HWT_S(86400) * 366, EINVAL);
	BAD_KIND(backoff_ns, HWT_S(86400) * 366, EINVAL);
	BAD_KIND(backoff_max_ns, HWT_S(86400) * 366, EINVAL);
	{
		struct {
			hwt_store_kind kind;
			uint64_t more;
		} newer = { .kind = good, .more = 1 };

		newer.kind.size = sizeof(newer);
		CHECK_CALL(hwt_store_register(store, &newer.kind), ENOTSUP);
	}
	{ /* fields beyond the end of an older structure are ignored */
		hwt_store_kind older = good;

		older.name = "older";
		older.size = offsetof(hwt_store_kind, flags);
		older.flags = ~0u;
		CHECK_CALL(hwt_store_register(store, &older), 0);
		older.size--;
		CHECK_CALL(hwt_store_register(store, &older), EINVAL);
	}
	CHECK_CALL(hwt_store_register(store, NULL), EINVAL);
	CHECK_CALL(hwt_store_register(NULL, &good), EINVAL);
	CHECK_CALL(hwt_store_register(store, &good), 0);
	CHECK_CALL(hwt_store_register(store, &good), EEXIST);
	name[63] = '\0'; /* 63 bytes are allowed, and quotes */
	name[0] = '\'';
	name[1] = '"';
	BAD_KIND(name, name, 0);
	CHECK_CALL(hwt_store_start(store), 0);
	BAD_KIND(name, "late", EBUSY);
	CHECK_CALL(hwt_store_close(store), 0);
	/* The mode stays in the database. */
	store = open_store();
	good.mode = HWT_STORE_AT_MOST_ONCE;
	CHECK_CALL(hwt_store_register(store, &good), EINVAL);
	CHECK(strstr(hwt_store_error(), "mode") != NULL);
}

TEST(a_kind_that_a_put_has_made_gets_its_mode_from_the_first_registration)
{
	CLOSING hwt_store *store = fresh_store();
	hwt_store_kind kind = KIND(.name = "a", .task = nothing, .mode = HWT_STORE_AT_MOST_ONCE, .shards = 100);

	put(store, "a", HWT_S(1000));
	CHECK_CALL(hwt_store_register(store, &kind), 0);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8)); /* the shards stay in the database */
	CHECK_CALL(hwt_store_close(store), 0);
	store = open_store();
	kind.mode = HWT_STORE_AT_LEAST_ONCE;
	CHECK_CALL(hwt_store_register(store, &kind), EINVAL);
}

static bool count_one(void *ctx, const hwt_store_info *info)
{
	(void)info;
	(*(int *)ctx)++;
	return true;
}

TEST(each_field_of_a_spec_is_checked_and_nothing_is_put)
{
	hwt_store *store = fresh_store();
	char name[300], *data = calloc(1, HWT_STORE_DATA_MAX + 1);
	int count = 0;

	memset(name, 'n', 256);
	name[256] = '\0';
	put(store, "a", HWT_S(1000));
#define BAD_SPEC(want, ...)                                                                                            \
	do {                                                                                                           \
		hwt_store_spec spec = { .size = sizeof(spec), .kind = "a", .delay_ns = HWT_S(1000), __VA_ARGS__ };     \
		int64_t id = -7;                                                                                       \
		CHECK_CALL(hwt_store_put(store, &spec, &id), want);                                                    \
		CHECK_INT(id, ==, -7);                                                                                 \
		CHECK_CALL(hwt_store_put_many(store, &spec, 1, &id), want);                                            \
		CHECK_INT(id, ==, -7);                                                                                 \
	} while (0)
	BAD_SPEC(EINVAL, .data = data, .len = HWT_STORE_DATA_MAX + 1);
	CHECK(strstr(hwt_store_error(), "1 MiB") != NULL);
	BAD_SPEC(EINVAL, .len = 1);
	BAD_SPEC(EINVAL, .key = "");
	BAD_SPEC(EINVAL, .key = name);
	BAD_SPEC(EINVAL, .key = "latin \xe9");
	BAD_SPEC(EINVAL, .flags = 8);
	BAD_SPEC(EINVAL, .flags = HWT_STORE_REPLACE);
	BAD_SPEC(EINVAL, .flags = HWT_STORE_REVIVE);
	BAD_SPEC(EINVAL, .flags = HWT_STORE_REPLACE | HWT_STORE_REVIVE, .key = "k");
	BAD_SPEC(EINVAL, .flags = HWT_STORE_ABSOLUTE, .due_us = -1);
	BAD_SPEC(EINVAL, .flags = HWT_STORE_ABSOLUTE, .due_us = INT64_MAX);
	BAD_SPEC(EINVAL, .period_ns = HWT_MS(999));
	BAD_SPEC(EINVAL, .period_ns = -1);
	BAD_SPEC(EINVAL, .period_ns = INT64_MAX);
	BAD_SPEC(EINVAL, .group = "");
	BAD_SPEC(EINVAL, .group = name);
	BAD_SPEC(EINVAL, .group = "latin \xe9");
	BAD_SPEC(EINVAL, .priority = 101);
	BAD_SPEC(EINVAL, .priority = -101);
	BAD_SPEC(EINVAL, .schedule = "");
	BAD_SPEC(EINVAL, .schedule = "@reboot");
	BAD_SPEC(EINVAL, .schedule = "0 0 30 2 *");
	BAD_SPEC(EINVAL, .schedule = "0 24 * * *");
	BAD_SPEC(EINVAL, .schedule = name);
	BAD_SPEC(EINVAL, .schedule = "@daily", .period_ns = HWT_S(1));
	BAD_SPEC(EINVAL, .schedule = "@daily", .zone = "");
	BAD_SPEC(EINVAL, .schedule = "@daily", .zone = "/etc/passwd");
	BAD_SPEC(EINVAL, .schedule = "@daily", .flags = HWT_STORE_ABSOLUTE, .due_us = INT64_C(253402300800000000));
	BAD_SPEC(EINVAL, .zone = "UTC");
	BAD_SPEC(EINVAL, .period_ns = HWT_S(1), .zone = "UTC");
	BAD_SPEC(EINVAL, .grace_ns = -1);
	BAD_SPEC(EINVAL, .grace_ns = INT64_MAX);
	BAD_SPEC(EINVAL, .spread_ns = 1);
	BAD_SPEC(EINVAL, .period_ns = HWT_S(1), .spread_ns = HWT_S(1) + 1);
	BAD_SPEC(EINVAL, .schedule = "@daily", .spread_ns = -1);
	BAD_SPEC(EINVAL, .schedule = "@daily", .spread_ns = INT64_MAX);
	{
		hwt_store_spec spec = spec_of(NULL, 0);
		int64_t id = -7;

		CHECK_CALL(hwt_store_put(store, &spec, &id), EINVAL);
		spec.kind = "";
		CHECK_CALL(hwt_store_put(store, &spec, &id), EINVAL);
		spec.kind = name;
		CHECK_CALL(hwt_store_put(store, &spec, &id), EINVAL);
		spec.kind = "a";
		spec.size = 1;
		CHECK_CALL(hwt_store_put(store, &spec, &id), EINVAL);
		CHECK_CALL(hwt_store_put(store, NULL, &id), EINVAL);
		CHECK_CALL(hwt_store_put(NULL, &spec, &id), EINVAL);
		CHECK_INT(id, ==, -7);
		{
			struct {
				hwt_store_spec spec;
				uint64_t more;
			} newer = { .spec = spec_of("a", 0), .more = 1 };

			newer.spec.size = sizeof(newer);
			CHECK_CALL(hwt_store_put(store, &newer.spec, &id), ENOTSUP);
		}
		CHECK_CALL(hwt_store_put_many(store, NULL, 1, &id), EINVAL);
		CHECK_CALL(hwt_store_put_many(NULL, &spec, 1, &id), EINVAL);
		CHECK_CALL(hwt_store_put_many(store, &spec, SIZE_MAX, &id), EINVAL);
		CHECK_CALL(hwt_store_put_many(store, &spec, 10001, &id), EINVAL);
		CHECK(strstr(hwt_store_error(), "10000") != NULL);
		CHECK_CALL(hwt_store_put_many(store, NULL, 0, &id), 0);
		CHECK_CALL(hwt_store_put_on(store, NULL, &spec, &id), EINVAL);
		CHECK_CALL(hwt_store_put_on(NULL, store, &spec, &id), EINVAL);
		CHECK_INT(id, ==, -7);
		/* The longest delay. */
		spec = spec_of("a", INT64_MAX);
		CHECK_CALL(hwt_store_put(store, &spec, &id), 0);
		CHECK_CALL(hwt_store_cancel(store, id), 0);
	}
	CHECK_CALL(hwt_store_each(store, "a", 2, count_one, &count), 0);
	CHECK_INT(count, ==, 1);
	CHECK_CALL(hwt_store_close(store), 0);
	free(data);
}

/* Fields beyond the end of an older structure are ignored. */
TEST(specs_of_an_older_program_are_put)
{
	_Alignas(hwt_store_spec) char older[2][offsetof(hwt_store_spec, schedule)];
	hwt_store_spec spec = spec_of("a", HWT_S(3600));
	int64_t ids[2];
	CLOSING hwt_store *store = fresh_store();

	memset(&spec.group, 'x', sizeof(spec) - offsetof(hwt_store_spec, group));
	spec.size = offsetof(hwt_store_spec, group);
	ids[0] = put_spec(store, &spec);
	CHECK_INT(info_of(store, ids[0]).priority, ==, 0);
	spec.group = "g";
	spec.size = sizeof(older[0]);
	for (int i = 0; i < 2; i++) {
		spec.priority = 7 + i;
		memcpy(older[i], &spec, sizeof(older[i]));
	}
	CHECK_CALL(hwt_store_put_many(store, (const hwt_store_spec *)(void *)older, 2, ids), 0);
	for (int i = 0; i < 2; i++)
		CHECK_INT(info_of(store, ids[i]).priority, ==, 7 + i);
	spec.size--;
	CHECK_CALL(hwt_store_put(store, &spec, ids), EINVAL);
}

TEST(other_calls_check_their_arguments)
{
	CLOSING hwt_store *store = fresh_store();
	hwt_store_info info = HWT_STORE_INFO_INIT;
	hwt_store_stats stats = HWT_STORE_STATS_INIT;

	CHECK_CALL(hwt_store_cancel(NULL, 1), EINVAL);
	CHECK_CALL(hwt_store_cancel_key(store, NULL, "k"), EINVAL);
	CHECK_CALL(hwt_store_cancel_key(store, "a", NULL), EINVAL);
	CHECK_CALL(hwt_store_cancel_key(store, "unknown", "k"), ENOENT);
	CHECK_CALL(hwt_store_reschedule(NULL, 1, 1), EINVAL);
	CHECK_CALL(hwt_store_reschedule(store, 12345, 1), ENOENT);
	CHECK_CALL(hwt_store_cancel(store, INT64_MIN), ENOENT);
	CHECK_CALL(hwt_store_cancel(store, INT64_MAX), ENOENT);
	CHECK_CALL(hwt_store_reschedule(store, 0, INT64_MIN), ENOENT);
	CHECK_CALL(hwt_store_each(store, "unknown", 2, count_one, NULL), ENOENT);
	CHECK_CALL(hwt_store_each(store, "a", 0, count_one, NULL), EINVAL);
	CHECK_CALL(hwt_store_each(store, "a", 1, count_one, NULL), EINVAL);
	CHECK_CALL(hwt_store_each(store, "a", 16, count_one, NULL), EINVAL);
	CHECK_CALL(hwt_store_each(store, "a", 2, NULL, NULL), EINVAL);
	CHECK_CALL(hwt_store_each(store, NULL, 2, count_one, NULL), EINVAL);
	CHECK_CALL(hwt_store_each(NULL, "a", 2, count_one, NULL), EINVAL);
	CHECK_CALL(hwt_store_get(store, 1, NULL), EINVAL);
	CHECK_CALL(hwt_store_get(NULL, 1, &info), EINVAL);
	CHECK_CALL(hwt_store_get_key(store, "a", "", &info), EINVAL);
	info.size = 0;
	CHECK_CALL(hwt_store_get(store, 1, &info), EINVAL);
	CHECK_CALL(hwt_store_read_stats(store, NULL), EINVAL);
	CHECK_CALL(hwt_store_read_stats(NULL, &stats), EINVAL);
	stats.size = 1;
	CHECK_CALL(hwt_store_read_stats(store, &stats), EINVAL);
	CHECK(!hwt_store_is_mine(NULL));
	{ /* The latest time, and a program with an older header. */
		int64_t id = put(store, "a", HWT_S(1000));

		CHECK_CALL(hwt_store_reschedule(store, id, INT64_MAX), 0);

		memset(&info, 0x55, sizeof(info));
		info.size = offsetof(hwt_store_info, due_us);
		CHECK_CALL(hwt_store_get(store, id, &info), 0);
		CHECK_INT(info.id, ==, id);
		CHECK_INT(info.state, ==, HWT_STORE_PENDING);
		CHECK_INT(info.due_us, ==, 0x5555555555555555);
		CHECK_INT(info.size, ==, offsetof(hwt_store_info, due_us));
	}
}

/*
 * Databases that cannot be used
 */

#ifdef HWT_STORE_SQLITE
/* As the user nobody, which has few rights. */
static bool drop_root(void)
{
	return geteuid() != 0 || seteuid(65534) == 0;
}

static void be_root_again(void)
{
	if (getuid() == 0)
		CHECK_INT(seteuid(0), ==, 0);
}
#endif

/* Drops the columns that the text adds.  Returns how many. */
static unsigned drop_added(const char *text)
{
	char table[64], column[64];
	unsigned n = 0;

	for (; (text = strstr(text, "alter table ")) != NULL; text++)
		if (sscanf(text, "alter table %63s add %63s", table, column) == 2) {
			(void)query("alter table %s drop column %s", table, column);
			n++;
		}
	return n;
}

TEST(tables_of_another_version_are_refused)
{
	hwt_store_config config;
	hwt_store *store;
	const char *statements;
	char text[512], drops[256];
	USER *conn = NULL;

	fresh_world();
	config = store_config();
	CHECK_CALL(hwt_store_close(open_store()), 0);
	(void)query("update %s_meta set version = 99", world.schema);
	check_open(world.url, &config, ENOTSUP, "version 99");
	/* Those of the version before become these, as the text says. */
	(void)query("update %s_meta set version = %d", world.schema, HWTS_VERSION - 1);
	CHECK_CALL(hwt_store_open(&store, world.url, &config, NULL, 0), ENOTSUP);
	(void)snprintf(text, sizeof(text), "%s", hwt_store_error());
	CHECK_INT(drop_added(text), ==, 3); /* waits, waits_us and starts of a member */
	statements = strstr(text, "execute: ");
	REQUIRE(statements);
	conn = connect_user();
	CHECK(user_sql(conn, "%s", statements + strlen("execute: ")));
	store = open_store();
	register_kind(store, "a", nothing, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK_CALL(hwt_store_close(store), 0);
	/* Version 1 had no such table. */
	(void)query("drop table %s_group%s", world.schema, world.sqlite ? "" : " cascade");
	(void)query("update %s_meta set version = 1", world.schema);
	(void)snprintf(drops, sizeof(drops), "drop %s_meta, %s_kind, %s_shard, %s_member, %s_timeout and %s%s_%s",
		       world.schema, world.schema, world.schema, world.schema, world.schema,
		       world.sqlite ? "" : "sequence ", world.schema, world.sqlite ? "hint" : "id");
	check_open(world.url, &config, ENOTSUP, drops);
}

TEST(a_file_that_is_no_database_is_refused)
{
	NEEDS_SQLITE();
	hwt_store_config config;
	FILE *file;

	fresh_world();
	config = store_config();
	file = fopen(world.url + 7, "w");
	for (int i = 0; i < 1000; i++)
		fprintf(file, "this is a text, not a database\n");
	fclose(file);
	check_open(world.url, &config, EIO, "not a database");
	file = fopen(world.url + 7, "r");
	CHECK_INT(fgetc(file), ==, 't');
	fclose(file);
}

#ifdef HWT_STORE_SQLITE
TEST(a_file_or_folder_that_cannot_be_written_is_refused)
{
	NEEDS_SQLITE();
	hwt_store_config config;
	char none[512];

	fresh_world();
	config = store_config();
	CHECK_CALL(hwt_store_close(open_store()), 0);
	CHECK_INT(chmod(world.folder, 0755), ==, 0);
	CHECK_INT(chmod(world.url + 7, 0444), ==, 0);
	(void)snprintf(none, sizeof(none), "sqlite:%s/none.db", world.folder);
	CHECK(drop_root());
	check_open(world.url, &config, EACCES, "writable");
	check_open(none, &config, EACCES, "writable"); /* it cannot be made */
	be_root_again();
}
#endif

/* Mounts a file system of a few MiB that the owner of the folder OF may write to. */
static bool mount_small(const char *folder, const char *of)
{
	struct stat is = { .st_uid = 0 };

	CHECK_INT(chmod(world.folder, 0755), ==, 0);
	CHECK_INT(mkdir(folder, 0755), ==, 0);
	return stat(of, &is) == 0 && mount("tmpfs", folder, "tmpfs", 0, "size=3m") == 0 &&
	       chown(folder, is.st_uid, is.st_gid) == 0;
}

/* Puts until the disk is full: that put fails, and the earlier ones are there. */
static void fill_disk(void)
{
	unsigned char *data = malloc(200000); /* random, so it cannot be compressed */
	hwt_store *store = open_store();
	hwt_store_spec spec = SPEC("a", HWT_S(1000), .data = data, .len = 200000);
	hwt_store_info info = HWT_STORE_INFO_INIT;
	int64_t ids[100], refused = -7;
	int accepted = 0, rc = 0, count = 0;

	for (size_t i = 0; i < 200000; i++)
		data[i] = (unsigned char)hwts_random();
	while (accepted < 100 && (rc = put_patiently(store, &spec, &ids[accepted])) == 0)
		accepted++;
	CHECK_INT(rc, ==, ENOSPC);
	CHECK(strstr(hwt_store_error(), "full") != NULL);
	CHECK_CALL(hwt_store_put(store, &spec, &refused), ENOSPC);
	CHECK_INT(refused, ==, -7);
	CHECK_INT(accepted, >=, 1);
	for (int i = 0; i < accepted; i++)
		CHECK_CALL(hwt_store_get(store, ids[i], &info), 0);
	CHECK_CALL(hwt_store_each(store, "a", 2, count_one, &count), 0);
	CHECK_INT(count, ==, accepted);
	CHECK_CALL(hwt_store_close(store), 0);
	free(data);
}

/* PostgreSQL: the tables are in a tablespace of their own. */
static void fill_tablespace(const char *folder)
{
	USER *conn = connect_user();
	const char *name = world.schema;
	size_t end = strlen(world.url);

	CHECK(user_sql(conn, "create tablespace small location '%s'", folder));
	(void)snprintf(world.url + end, sizeof(world.url) - end, " options='-c default_tablespace=small'");
	fill_disk();
	CHECK(user_sql(conn, "drop view %s_timeouts, %s_kinds", name, name));
	CHECK(user_sql(conn, "drop table %s_meta, %s_kind, %s_shard, %s_member, %s_group, %s_timeout", name, name, name,
		       name, name, name));
	CHECK(user_sql(conn, "drop tablespace small"));
}

TEST(a_full_disk_is_told_and_changes_nothing)
{
	char folder[160], server[192];
	const char *host;
	int rc;

	fresh_world();
	host = world.sqlite ? NULL : strstr(world.url, "host=/");
	if (!world.sqlite && !host)
		SKIP("a server that is not this test's own");
	(void)snprintf(folder, sizeof(folder), "%s/small", world.folder);
	(void)snprintf(server, sizeof(server), "%.*s/data", host ? (int)strcspn(host + 5, " ") : 0,
		       host ? host + 5 : "");
	if (!mount_small(folder, host ? server : world.folder))
		SKIP("no right to mount a small file system");
	if (world.sqlite) {
		(void)snprintf(world.url, sizeof(world.url), "sqlite:%s/x.db", folder);
		fill_disk();
	} else {
		fill_tablespace(folder);
	}
	/* The server closes its files when its processes have ended. */
	WAIT_FOR((rc = umount(folder)) == 0 || errno != EBUSY);
	REQUIRE(rc == 0);
}

#ifdef HWT_STORE_POSTGRES
TEST(a_role_without_rights_is_told)
{
	NEEDS_POSTGRES();
	const char *user;
	char url[TEXT_MAX];

	fresh_world();
	hwt_store_config config = store_config();
	(void)query("create role nobody_much login; revoke create on schema public from public");
	user = strstr(world.url, "user=hwt");
	REQUIRE(user != NULL);
	(void)snprintf(url, sizeof(url), "%.*suser=nobody_much%s", (int)(user - world.url), world.url, user + 8);
	check_open(url, &config, EACCES, "grant");
	CHECK_CALL(hwt_store_close(open_store()), 0);
	check_open(url, &config, EACCES, "grant"); /* the tables are there, but the role may not read them */
}
#endif

/*
 * No memory
 */

static atomic_uint allowed;

static bool refuse(void)
{
	unsigned left = atomic_load(&allowed);

	while (left > 0 && left < 1000000 && !atomic_compare_exchange_weak(&allowed, &left, left - 1))
		;
	return left == 0;
}

TEST(without_memory_a_call_fails_and_nothing_is_lost)
{
	hwt_store *store;
	unsigned accepted = 0;

	fresh_world();
	atomic_store(&allowed, UINT32_MAX);
	atomic_store(&hwts_test_refuses_memory, refuse);
	store = open_store();
	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	for (unsigned n = 0; n < 40; n++) {
		hwt_store_spec specs[3] = { spec_of("a", 0), spec_of("a", HWT_MS(30)), spec_of("a", HWT_MS(60)) };
		int rc;

		atomic_store(&allowed, n);
		PATIENTLY(rc, hwt_store_put_many(store, specs, 3, NULL));
		CHECK(rc == 0 || rc == ENOMEM);
		accepted += rc == 0 ? 3 : 0;
		sleep_ms(10);
		atomic_store(&allowed, UINT32_MAX);
		sleep_ms(5);
	}
	CHECK_INT(accepted, >, 0);
	CHECK(wait_count(&ran, accepted));
	CHECK_CALL(hwt_store_stop(store), 0);
	CHECK_INT(atomic_load(&ran), >=, accepted);
	CHECK_INT(stats_of_store(store).done, ==, accepted);
	CHECK_CALL(hwt_store_close(store), 0);
	for (unsigned n = 0; n < 30; n++) {
		hwt_store *again = NULL;
		hwt_store_config config = store_config();

		atomic_store(&allowed, n);
		if (hwt_store_open(&again, world.url, &config, NULL, 0) == 0) {
			atomic_store(&allowed, UINT32_MAX);
			CHECK_CALL(hwt_store_close(again), 0);
		}
	}
	atomic_store(&hwts_test_refuses_memory, NULL);
}

STORE_MAIN(NULL)
