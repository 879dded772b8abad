/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why due timeouts have not started, and how many start, as other processes see it: a renewal writes the counts into
 * the row of its process, and hwt_store_each_kind adds up the counts of living processes.
 */
#include "store_query.h"

#include "inside.h"

static hwt_store *start_paused(hwt_store *store)
{
	(void)run_tasks(store, count_run, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_pause(store, "a", NULL), 0);
	return store;
}

static void put_due(hwt_store *store, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		(void)put(store, "a", -1);
}

struct search {
	const char *kind;
	hwt_store_kind_info info;
};

static bool find_kind(void *ctx, const hwt_store_kind_info *info)
{
	struct search *search = ctx;

	if (strcmp(info->kind, search->kind) != 0)
		return true;
	search->info = *info;
	return false;
}

static hwt_store_kind_info kind_of(hwt_store *store, const char *name)
{
	struct search search = { .kind = name };
	int rc;

	PATIENTLY(rc, hwt_store_each_kind(store, find_kind, &search));
	CHECK_INT(rc, ==, 0);
	return search.info;
}

static uint64_t told(hwt_store *store, hwt_store_wait why)
{
	return kind_of(store, "a").waiting[why];
}

/* Checks that this number of timeouts waits for this reason, and none for another. */
static void check_told(hwt_store *store, hwt_store_wait why, uint64_t count)
{
	hwt_store_kind_info info = kind_of(store, "a");

	CHECK_INT(info.waiting[why], ==, count);
	CHECK_INT(info.waiting_oldest_ns[why], >, 0);
	CHECK_INT(info.waiting_oldest_ns[why], <, HWT_S(86400));
	for (int other = 0; other < HWT_STORE_WAITS; other++)
		if (other != (int)why) {
			CHECK_INT(info.waiting[other], ==, 0);
			CHECK_INT(info.waiting_oldest_ns[other], ==, 0);
		}
}

/* The time on the clock of leases. */
static long long lease_clock_us(void)
{
	return world.sqlite ? hwts_boot_ns() / 1000 : now_us();
}

/* Inserts a member that runs kind 1 and is never renewed.  waits is an expression of SQL. */
static void insert_teller(const char *name, long long until_us, const char *waits)
{
	(void)query("insert into %s_member (name, incarnation, until_us, kinds, waits, waits_us) values ('%s', 7, %lld,"
		    " '%s', %s, %lld)",
		    world.schema, name, until_us, world.sqlite ? ",1," : "{1}", waits, (long long)now_us() - 5000000);
}

TEST(another_process_reads_why)
{
	CLOSING hwt_store *reader = fresh_store(), *store = start_paused(open_store());
	hwt_store_kind_info info;

	put_due(store, 3);
	LOOK_UNTIL(store, told(reader, HWT_STORE_WAITS_PAUSE) == 3);
	check_told(reader, HWT_STORE_WAITS_PAUSE, 3);
	CHECK_INT(kind_of(reader, "a").waiting_age_ns, >, 0);
	CHECK_INT(kind_of(reader, "a").waiting_age_ns, <, HWT_S(86400));
	CHECK_CALL(hwt_store_resume(reader, "a", NULL), 0);
	CHECK(wait_count(&ran, 3));
	LOOK_UNTIL(store, kind_of(reader, "a").waiting_age_ns == 0);
	info = kind_of(reader, "a");
	for (int why = 0; why < HWT_STORE_WAITS; why++)
		CHECK_INT(info.waiting[why], ==, 0);
}

TEST(the_counts_of_processes_are_added_up)
{
	CLOSING hwt_store *first = start_paused(fresh_store()), *second = open_store();

	register_kind(second, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(second), 0);
	LOOK_UNTIL(first, stats_of_store(first).shards_held == 4);
	LOOK_UNTIL(second, stats_of_store(second).shards_held == 4);
	put_due(first, 40);
	LOOK_UNTIL(first, (look_now(second), told(first, HWT_STORE_WAITS_PAUSE) == 40));
	CHECK_INT(query("select count(*) from %s_member where waits like '1:pause=%%'", world.schema), ==, 2);
	check_told(second, HWT_STORE_WAITS_PAUSE, 40);
}

/* Waits for a renewal, after which the lease ends later. */
static void renew(hwt_store *store)
{
	int64_t until_us = query("select until_us from %s_member", world.schema);

	LOOK_UNTIL(store, query("select until_us from %s_member", world.schema) > until_us);
}

TEST(a_renewal_writes_only_what_has_changed)
{
	CLOSING hwt_store *store = start_paused(fresh_store());
	int64_t written_us, age_ns;

	renew(store);
	CHECK_INT(query("select count(*) from %s_member where waits is null and waits_us is null", world.schema), ==,
		  1);
	put_due(store, 2);
	LOOK_UNTIL(store, told(store, HWT_STORE_WAITS_PAUSE) == 2);
	written_us = query("select waits_us from %s_member", world.schema);
	age_ns = kind_of(store, "a").waiting_age_ns;
	for (int i = 0; i < 3; i++)
		renew(store);
	CHECK_INT(query("select waits_us from %s_member", world.schema), ==, written_us);
	CHECK_INT(kind_of(store, "a").waiting_age_ns, >, age_ns);
	put_due(store, 1);
	LOOK_UNTIL(store, told(store, HWT_STORE_WAITS_PAUSE) == 3);
	CHECK_INT(query("select waits_us from %s_member", world.schema), >, written_us);
}

TEST(a_process_that_joins_again_tells_nothing_of_its_last_lease)
{
	CLOSING hwt_store *store = start_paused(fresh_store());

	put_due(store, 3);
	LOOK_UNTIL(store, told(store, HWT_STORE_WAITS_PAUSE) == 3);
	(void)query("delete from %s_timeout", world.schema);
	(void)query("update %s_member set until_us = 0", world.schema);
	look_now(store);
	WAIT_FOR(stats_of_store(store).lost_leases == 1);
	CHECK(wait_held(store, 8));
	CHECK_INT(query("select count(*) from %s_member where waits is null and waits_us is null", world.schema), ==,
		  1);
}

TEST(only_living_processes_tell)
{
	CLOSING hwt_store *store = fresh_store();
	long long clock_us = lease_clock_us();

	(void)put(store, "a", HWT_S(3600));
	insert_teller("dead", clock_us - 1000000, "'1:pause=5@1700000000000000'");
	insert_teller("over", 0, "'1:pause=6@1700000000000000'");
	insert_teller("of_another_clock", clock_us + 86400000000, "'1:pause=7@1700000000000000'");
	CHECK_INT(told(store, HWT_STORE_WAITS_PAUSE), ==, 0);
	CHECK_INT(kind_of(store, "a").waiting_age_ns, ==, 0);
	insert_teller("alive", clock_us + 600000000, "'1:cap=2@0,pause=8@1700000000000000 77:row=1@0'");
	CHECK_INT(told(store, HWT_STORE_WAITS_PAUSE), ==, 8);
	CHECK_INT(told(store, HWT_STORE_WAITS_CAP), ==, 2);
	CHECK_INT(kind_of(store, "a").waiting_oldest_ns[HWT_STORE_WAITS_CAP], ==, 0); /* unknown */
	CHECK_INT(kind_of(store, "a").waiting_age_ns, >=, HWT_S(5));
}

static const char *const no_texts[] = {
	"",
	" ",
	"pause",
	"1:",
	"1:pause",
	"1:pause=",
	"1:pause=5",
	"1:pause=5@",
	"1:pause=5@1 ",
	"1:pause=5@1,",
	"1:pause=5@1  1:cap=1@1",
	"1:pause=5@1;",
	" 1:pause=5@1",
	"1:pause=-5@1",
	"1:pause=5@-1",
	"1:pause=+5@1",
	"1:pause=0@1",
	"1:pause=5@1,=5@1",
	"1:pause=5@1,pause5@1",
	"1:pause=5@1,moon phase=5@1",
	"1:pause=5@1 two:pause=5@1",
	"1:pause=9999999999999999999999999@1",
	"1:pause=5@99999999999999999999999999",
	"99999999999999999999999999:pause=5@1",
	"1:PAUSE=5@1",
	"1:pause=5@1\n",
	"1:pause=5@1\t\x01\xc3\xa4",
	"{\"1\": {\"pause\": 5}}",
	"%s%n%d",
};

TEST(what_nobody_of_the_library_has_written_changes_nothing)
{
	CLOSING hwt_store *store = fresh_store();
	char waits[256], many[1024];

	(void)put(store, "a", HWT_S(3600));
	insert_teller("foreign", lease_clock_us() + 600000000, "null");
	for (size_t i = 0; i < HWTS_COUNT(no_texts); i++) {
		CHECK(!hwts_waits_read(no_texts[i], strlen(no_texts[i]), NULL, NULL));
		(void)snprintf(waits, sizeof(waits), "'%s'", no_texts[i]);
		(void)query("update %s_member set waits = %s", world.schema, waits);
		CHECK_INT(told(store, HWT_STORE_WAITS_PAUSE), ==, 0);
		CHECK_INT(kind_of(store, "a").waiting_age_ns, ==, 0);
	}
	/* Words of a newer library. */
	(void)query("update %s_member set waits = '1:moon_phase=9@1,pause=5@1,pauses=9@1,starts=9@1 1:nobody=9@1'",
		    world.schema);
	CHECK_INT(told(store, HWT_STORE_WAITS_PAUSE), ==, 5);
	CHECK_INT(told(store, HWT_STORE_WAITS_NOBODY), ==, 0);
	CHECK_INT(told(store, HWT_STORE_STARTS), ==, 0);
	/* Counts whose sum is too large, a text that is too long, times out of range. */
	for (size_t i = 0, at = 0; i < 20; i++)
		at += (size_t)snprintf(many + at, sizeof(many) - at, "%s1:pause=999999999999999999@1", i ? " " : "");
	(void)query("update %s_member set waits = '%s'", world.schema, many);
	CHECK(told(store, HWT_STORE_WAITS_PAUSE) == INT64_MAX);
	(void)query("update %s_member set waits = '1:pause=5@%s1'", world.schema, "0000000000000000");
	CHECK_INT(told(store, HWT_STORE_WAITS_PAUSE), ==, 5);
	(void)query("update %s_member set waits = '1:pause=5@1%s'", world.schema,
		    world.sqlite ? "' || replace(hex(zeroblob(1000)), '00', ',cap=1@1') || '"
				 : "' || repeat(',cap=1@1', 1000) || '");
	CHECK_INT(told(store, HWT_STORE_WAITS_PAUSE), ==, 0);
	(void)query("update %s_member set waits = '1:pause=5@1', waits_us = -1", world.schema);
	CHECK_INT(told(store, HWT_STORE_WAITS_PAUSE), ==, 0);
	(void)query("update %s_member set waits_us = 9000000000000000000", world.schema);
	CHECK_INT(told(store, HWT_STORE_WAITS_PAUSE), ==, 5);
	CHECK_INT(kind_of(store, "a").waiting_age_ns, ==, 1);
	if (!world.sqlite)
		return;
	(void)query("update %s_member set waits = x'313a70617573653d35403100', waits_us = 1", world.schema);
	CHECK_INT(told(store, HWT_STORE_WAITS_PAUSE), ==, 0);
	(void)query("update %s_member set waits = 17", world.schema);
	CHECK_INT(told(store, HWT_STORE_WAITS_PAUSE), ==, 0);
	(void)query("update %s_member set waits = '1:pause=5@1', waits_us = '12x'", world.schema);
	CHECK_INT(told(store, HWT_STORE_WAITS_PAUSE), ==, 0);
	CHECK_INT(kind_of(store, "a").waiting_age_ns, ==, 0);
}

/*
 * Starts
 */

static uint64_t started(hwt_store *store)
{
	return kind_of(store, "a").started_minute;
}

TEST(another_process_reads_how_much_starts)
{
	CLOSING hwt_store *reader = fresh_store(), *store = open_store();

	(void)run_tasks(store, count_run, HWT_STORE_AT_LEAST_ONCE);
	renew(store);
	CHECK_INT(query("select count(*) from %s_member where starts is null", world.schema), ==, 1);
	CHECK_INT(started(reader), ==, 0);
	put_due(store, 7);
	CHECK(wait_count(&ran, 7));
	LOOK_UNTIL(store, started(reader) == 7);
	CHECK_INT(kind_of(reader, "a").waiting_age_ns, ==, 0);
	insert_teller("alive", lease_clock_us() + 600000000, "null");
	insert_teller("dead", 1, "null");
	(void)query("update %s_member set starts = '1=5 77=9 1=30' where name in ('alive', 'dead')", world.schema);
	CHECK_INT(started(reader), ==, 42);
	CHECK_INT(kind_of(reader, "a").waiting_age_ns, ==, 0);
}

static const char *const no_starts[] = {
	"",         " ",    "1",     "1=",      "=5",  "1=5 ",    " 1=5",
	"1=5  1=6", "1=-5", "1=5@1", "1=5,1=5", "x=5", "1=5 x=5", "1=9999999999999999999",
};

TEST(starts_that_nobody_of_the_library_has_written_are_none)
{
	CLOSING hwt_store *store = fresh_store();
	char many[1024];

	(void)put(store, "a", HWT_S(3600));
	insert_teller("foreign", lease_clock_us() + 600000000, "'1:pause=5@1'");
	for (size_t i = 0; i < HWTS_COUNT(no_starts); i++) {
		(void)query("update %s_member set starts = '%s'", world.schema, no_starts[i]);
		CHECK_INT(started(store), ==, 0);
		CHECK_INT(told(store, HWT_STORE_WAITS_PAUSE), ==, 5);
	}
	(void)query("update %s_member set waits = '1:pause', starts = '1=6'", world.schema);
	CHECK_INT(started(store), ==, 6);
	for (size_t i = 0, at = 0; i < 20; i++)
		at += (size_t)snprintf(many + at, sizeof(many) - at, "%s1=999999999999999999", i ? " " : "");
	(void)query("update %s_member set starts = '%s'", world.schema, many);
	CHECK(started(store) == INT64_MAX);
	(void)query("update %s_member set starts = '1=6%s'", world.schema,
		    world.sqlite ? "' || replace(hex(zeroblob(1000)), '00', ' 1=6') || '"
				 : "' || repeat(' 1=6', 1000) || '");
	CHECK_INT(started(store), ==, 0);
}

TEST(starts_are_cut_at_whole_kinds)
{
	char text[HWTS_WAITS_MAX + 1] = "";

	hwts_starts_write(text, 12, 340);
	hwts_starts_write(text, 8, 0);
	hwts_starts_write(text, 7, 2);
	CHECK(strcmp(text, "12=340 7=2") == 0);
	for (int i = 0; i < HWTS_WAITS_MAX; i++)
		hwts_starts_write(text, 123456, 9);
	CHECK_INT(strlen(text), >, HWTS_WAITS_MAX - 9);
	CHECK(hwts_starts_read(text, strlen(text), NULL, NULL));
}

/*
 * More kinds than a text has room for
 */

#define MANY 100

static const char *name_of(unsigned i)
{
	static char name[64];

	(void)snprintf(name, sizeof(name), "%03u-%059u", i, i);
	return name;
}

/* Returns the number of kinds that are told, and checks that they are the oldest. */
static unsigned count_told(hwt_store *store)
{
	unsigned count = 0;

	while (count < MANY && kind_of(store, name_of(count)).waiting[HWT_STORE_WAITS_PAUSE] == 1)
		count++;
	for (unsigned i = count; i < MANY; i++)
		CHECK_INT(kind_of(store, name_of(i)).waiting[HWT_STORE_WAITS_PAUSE], ==, 0);
	return count;
}

TEST(kinds_are_cut_at_2_kib_the_oldest_first)
{
	CLOSING hwt_store *store = fresh_store();
	unsigned count;

	for (unsigned i = 0; i < MANY; i++) {
		hwt_store_kind kind = KIND(.name = name_of((i * 37) % MANY), .task = count_run, .shards = 1);

		CHECK_CALL(register_patiently(store, &kind), 0);
	}
	(void)query("update %s_kind set paused = %s", world.schema, world.sqlite ? "1" : "true");
	(void)query("update %s_shard set rules = 1", world.schema);
	for (unsigned i = 0; i < MANY; i++) {
		hwt_store_spec spec = SPEC(name_of(i), 0, .key = "due", .flags = HWT_STORE_ABSOLUTE,
					   .due_us = now_us() - (int64_t)(MANY - i) * 1000000);

		(void)put_spec(store, &spec);
	}
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, MANY));
	WAIT_FOR(stats_of_store(store).waiting[HWT_STORE_WAITS_PAUSE] == MANY);
	LOOK_UNTIL(store, query("select length(waits) from %s_member", world.schema) > HWTS_WAITS_MAX - 40);
	CHECK_INT(query("select length(waits) from %s_member", world.schema), <=, HWTS_WAITS_MAX);
	renew(store);
	count = count_told(store);
	CHECK_INT(count, >=, 60);
	CHECK_INT(count, <, MANY);
}

TEST(a_text_holds_whole_kinds)
{
	char text[HWTS_WAITS_MAX + 1] = "";
	struct hwts_waits waits = { { { .count = 0 } } };
	size_t len;

	CHECK(hwts_waits_write(text, 1, &waits));
	CHECK(strcmp(text, "") == 0);
	waits.of[HWT_STORE_STARTS] = waits.of[HWT_STORE_WAITS_NOBODY] = (struct hwts_wait){ 9, 5, 1 };
	CHECK(hwts_waits_write(text, 1, &waits));
	CHECK(strcmp(text, "") == 0);
	waits.of[HWT_STORE_WAITS_CAP] = (struct hwts_wait){ 2, 1700000000000000, 1 };
	waits.of[HWT_STORE_WAITS_ROW] = (struct hwts_wait){ 1, HWTS_NEVER, 1 };
	CHECK(hwts_waits_write(text, 12, &waits));
	CHECK(hwts_waits_write(text, 7, &waits));
	CHECK(strcmp(text, "12:cap=2@1700000000000000,row=1@0 7:cap=2@1700000000000000,row=1@0") == 0);
	CHECK(hwts_waits_read(text, strlen(text), NULL, NULL));
	while (hwts_waits_write(text, 123456, &waits))
		;
	len = strlen(text);
	CHECK_INT(len, >, HWTS_WAITS_MAX - 50);
	CHECK_INT(len, <=, HWTS_WAITS_MAX);
	CHECK(hwts_waits_read(text, len, NULL, NULL));
}

/*
 * What the database tells
 */

TEST(what_is_due_in_shards_of_a_silent_process_waits_for_its_lease)
{
	CLOSING hwt_store *store = fresh_store();
	int64_t shards;

	put_due(store, 20);
	insert_teller("alive", lease_clock_us() + 600000000, "null");
	insert_teller("dead", 1, "null");
	shards = query("select count(distinct shard) from %s_timeout", world.schema);
	check_told(store, HWT_STORE_WAITS_LEASE, (uint64_t)shards); /* of shards without an owner */
	(void)query("update %s_shard set owner = 'dead'", world.schema);
	check_told(store, HWT_STORE_WAITS_LEASE, (uint64_t)shards);
	CHECK_INT(kind_of(store, "a").waiting_age_ns, ==, 0);
	(void)query("update %s_shard set owner = 'alive'", world.schema);
	CHECK_INT(told(store, HWT_STORE_WAITS_LEASE), ==, 0);
	(void)query("update %s_shard set owner = 'dead'", world.schema);
	(void)query("update %s_timeout set due_us = due_us + 3600000000", world.schema);
	CHECK_INT(told(store, HWT_STORE_WAITS_LEASE), ==, 0);
}

/* A process that stops, or cannot begin, does not run its kinds, but tells of the shards that it holds. */
TEST(nobody_is_told_of_shards_that_no_process_holds)
{
	CLOSING hwt_store *store = fresh_store();

	put_due(store, 20);
	check_told(store, HWT_STORE_WAITS_NOBODY, 1);
	insert_teller("stops", lease_clock_us() + 600000000, "'1:lease=20@1700000000000000'");
	(void)query("update %s_member set kinds = '%s'", world.schema, world.sqlite ? "" : "{}");
	(void)query("update %s_shard set owner = 'stops'", world.schema);
	CHECK_INT(told(store, HWT_STORE_WAITS_NOBODY), ==, 0);
	CHECK_INT(told(store, HWT_STORE_WAITS_LEASE), ==, 20);
	(void)query("update %s_shard set owner = null where id in (select min(shard) from %s_timeout)", world.schema,
		    world.schema);
	CHECK_INT(told(store, HWT_STORE_WAITS_NOBODY), ==, 1);
	CHECK_INT(told(store, HWT_STORE_WAITS_LEASE), ==, 20);
	/* The process runs other kinds now, under the name that the shards have. */
	(void)query("update %s_shard set owner = 'stops'", world.schema);
	(void)query("update %s_member set waits = null", world.schema);
	check_told(store, HWT_STORE_WAITS_NOBODY, 1);
}

/* The seconds of a minute are used again in the next one. */
TEST(starts_are_those_of_the_last_minute)
{
	struct hwts_peak peak = { .ns = { 0 } };

	hwts_peak_note(&peak, HWT_S(1005), 7);
	hwts_peak_note(&peak, HWT_S(1005), 3);
	hwts_peak_note(&peak, HWT_S(1064), 5);
	CHECK_INT(hwts_peak_count(&peak, HWT_S(1064)), ==, 3);
	CHECK_INT(hwts_peak_read(&peak, HWT_S(1064)), ==, 7);
	CHECK_INT(hwts_peak_count(&peak, HWT_S(1065)), ==, 1);
	hwts_peak_note(&peak, HWT_S(1065), 2);
	CHECK_INT(hwts_peak_count(&peak, HWT_S(1065)), ==, 2);
	CHECK_INT(hwts_peak_read(&peak, HWT_S(1065)), ==, 5);
	CHECK_INT(hwts_peak_count(&peak, HWT_S(1125)), ==, 0);
}

STORE_MAIN(NULL)
