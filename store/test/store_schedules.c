/* SPDX-License-Identifier: BSD-2-Clause */
/* Schedules, grace and spread: the first time and the next ones, times that are merged, runs that come too late. */
#include "store_query.h"

#define HOUR_US INT64_C(3600000000)
#define DAY_US (24 * HOUR_US)
#define NEW_YEAR_2020_US INT64_C(1577836800000000)

static struct {
	atomic_uint ran;
	unsigned fail_first;
	int64_t due_us[64];
	uint64_t missed[64];
} seen;

static int record(const hwt_store_run *run, void *ctx)
{
	unsigned i = atomic_load(&seen.ran);

	(void)ctx;
	if (i < HWTS_COUNT(seen.due_us)) {
		seen.due_us[i] = run->due_us;
		seen.missed[i] = run->missed;
	}
	atomic_store(&seen.ran, i + 1); /* one thread runs all tasks */
	return i < seen.fail_first ? EIO : 0;
}

/* A store of a kind with this back-off, whose first runs fail. */
static hwt_store *store_that_waits(unsigned fail_first, int64_t backoff_ns)
{
	hwt_store *store = FRESH(.threads = 1);

	atomic_store(&seen.ran, 0);
	seen.fail_first = fail_first;
	CHECK_CALL(
	    hwt_store_register(store, &KIND(.name = "a", .task = record, .max_attempts = 3, .backoff_ns = backoff_ns)),
	    0);
	return store;
}

static hwt_store *store_of(unsigned fail_first)
{
	return store_that_waits(fail_first, HWT_MS(10));
}

static hwt_store_spec line_of(const char *line, const char *zone)
{
	hwt_store_spec spec = SPEC("a", 0, .schedule = line, .zone = zone);

	return spec;
}

static int64_t next_of(const char *line, const char *zone, int64_t after_us)
{
	char error[256] = "";
	int64_t us = 0;
	int rc = hwt_store_next_time(line, zone, after_us, &us, error, sizeof(error));

	if (rc != 0)
		fprintf(stderr, "%s: %s\n", line, error);
	CHECK_INT(rc, ==, 0);
	return us;
}

TEST(the_first_time_is_after_the_put)
{
	CLOSING hwt_store *store = store_of(0);
	hwt_store_spec spec = line_of("30 2 * * *", "UTC");
	int64_t before_us = now_us(), id = put_spec(store, &spec);
	hwt_store_info info = info_of(store, id);

	CHECK(info.due_us == next_of(spec.schedule, NULL, before_us) ||
	      info.due_us == next_of(spec.schedule, NULL, now_us()));
	CHECK(strcmp(info.schedule, "30 2 * * *") == 0);
	CHECK(strcmp(info.zone, "UTC") == 0);
	CHECK_INT(info.period_ns, ==, 0);
	spec = line_of("@hourly", NULL);
	spec.delay_ns = HWT_S(864000);
	before_us = now_us();
	info = info_of(store, put_spec(store, &spec));
	CHECK_INT(info.due_us, >, before_us + 10 * DAY_US);
	CHECK_INT(info.due_us, <=, now_us() + 10 * DAY_US + HOUR_US);
	CHECK(strcmp(info.zone, "") == 0);
}

TEST(the_first_time_is_after_the_absolute_one)
{
	CLOSING hwt_store *store = store_of(0);
	hwt_store_spec specs[2] = { line_of("0 0 1 1 *", NULL), spec_of("a", HWT_S(600)) };
	int64_t ids[2] = { 0, 0 };

	specs[0].flags = HWT_STORE_ABSOLUTE;
	specs[0].due_us = NEW_YEAR_2020_US;
	CHECK_INT(info_of(store, put_spec(store, &specs[0])).due_us, ==, NEW_YEAR_2020_US + 366 * DAY_US);
	specs[0].due_us--;
	CHECK_CALL(hwt_store_put_many(store, specs, 2, ids), 0);
	CHECK_INT(info_of(store, ids[0]).due_us, ==, NEW_YEAR_2020_US);
	CHECK(info_of(store, ids[1]).schedule[0] == '\0');
}

/* missed is the number of times of the line between then and now. */
TEST(times_that_were_missed_are_merged)
{
	CLOSING hwt_store *store = store_of(0);
	hwt_store_spec spec = line_of("0 0 1 1 *", NULL);
	uint64_t missed = 0;
	int64_t id, us;

	spec.flags = HWT_STORE_ABSOLUTE;
	spec.due_us = NEW_YEAR_2020_US - 1;
	id = put_spec(store, &spec);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_count(&seen.ran, 1));
	CHECK(wait_store_state(store, id, HWT_STORE_PENDING));
	for (us = next_of(spec.schedule, NULL, NEW_YEAR_2020_US); us <= now_us(); us = next_of(spec.schedule, NULL, us))
		missed++;
	CHECK_INT(seen.due_us[0], ==, NEW_YEAR_2020_US);
	CHECK_INT(seen.missed[0], ==, missed);
	CHECK_INT(info_of(store, id).due_us, ==, us);
	CHECK_INT(info_of(store, id).attempt, ==, 0);
	/* After a move the timeout runs at once, and goes on by its line. */
	CHECK_CALL(hwt_store_reschedule(store, id, 0), 0);
	CHECK(wait_count(&seen.ran, 2));
	CHECK(wait_store_state(store, id, HWT_STORE_PENDING));
	CHECK_INT(seen.missed[1], ==, 0);
	CHECK_INT(info_of(store, id).due_us, ==, us);
}

TEST(a_put_replaces_the_schedule_and_a_revive_sets_one)
{
	CLOSING hwt_store *store = store_of(64);
	hwt_store_spec spec = line_of("0 0 1 1 *", "UTC");
	int64_t id, again = 0;

	spec.key = "key";
	spec.grace_ns = HWT_S(5);
	spec.spread_ns = HWT_S(60);
	id = put_spec(store, &spec);
	CHECK_INT(COUNT("grace_us = 5000000 and spread_us = 60000000 and due_us >="
			" base_us and due_us < base_us + 60000000"),
		  ==, 1);
	CHECK_CALL(hwt_store_put(store, &spec, &again), EEXIST);
	CHECK_INT(again, ==, id);
	spec.schedule = "0 12 1 7 *";
	spec.zone = NULL;
	spec.spread_ns = 0;
	spec.flags = HWT_STORE_REPLACE;
	CHECK_CALL(hwt_store_put(store, &spec, &again), 0);
	CHECK_INT(again, ==, id);
	CHECK_INT(info_of(store, id).due_us, ==, next_of("0 12 1 7 *", NULL, now_us()));
	CHECK(strcmp(info_of(store, id).zone, "") == 0);
	spec = SPEC("a", 0, .key = "key", .flags = HWT_STORE_REPLACE);
	CHECK_CALL(hwt_store_put(store, &spec, &again), 0);
	CHECK(info_of(store, id).schedule[0] == '\0');
	CHECK_INT(COUNT("zone is null and grace_us is null and spread_us is null"), ==, 1);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_store_state(store, id, HWT_STORE_FAILED));
	spec = line_of("0 0 1 1 *", "UTC");
	spec.key = "key";
	spec.flags = HWT_STORE_REVIVE;
	CHECK_CALL(hwt_store_put(store, &spec, &again), 0);
	CHECK_INT(again, ==, id);
	CHECK_INT(info_of(store, id).state, ==, HWT_STORE_PENDING);
	CHECK_INT(info_of(store, id).due_us, ==, next_of("0 0 1 1 *", NULL, now_us()));
}

/*
 * Grace
 */

/* The timeout was due two hours ago, and is tried again now. */
TEST(a_single_timeout_keeps_its_due_time_and_its_grace_counts_from_the_next_try)
{
	CLOSING hwt_store *store = store_that_waits(2, HWT_MS(1));
	hwt_store_spec spec = SPEC("a", 0, .grace_ns = HWT_S(3600));
	int64_t id = put_spec(store, &spec), base_us;

	(void)query("update %s_timeout set base_us = base_us - 7200000000", world.schema);
	base_us = query("select base_us from %s_timeout", world.schema);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_count(&seen.ran, 3));
	for (unsigned i = 0; i < 3; i++)
		CHECK_INT(seen.due_us[i], ==, base_us);
	CHECK(wait_gone(store, id));
}

TEST(what_is_tried_again_too_late_does_not_start)
{
	CLOSING hwt_store *store = store_of(0);
	hwt_store_spec spec = SPEC("a", 0, .grace_ns = HWT_S(3600));
	int64_t id = put_spec(store, &spec);

	(void)query("update %s_timeout set due_us = due_us - 7200000000, attempt = 1", world.schema);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_store_state(store, id, HWT_STORE_FAILED));
	CHECK_INT(atomic_load(&seen.ran), ==, 0);
	CHECK(strcmp(info_of(store, id).error, "too late") == 0);
	CHECK_INT(info_of(store, id).attempt, ==, 1); /* the one before */
}

TEST(the_run_after_one_that_came_too_late_says_what_was_missed)
{
	CLOSING hwt_store *store = store_of(0);
	hwt_store_spec spec = SPEC("a", 0, .flags = HWT_STORE_ABSOLUTE, .due_us = now_us() - 20 * HWTS_S_US - 1500000,
				   .period_ns = HWT_S(2), .grace_ns = HWT_S(1));
	int64_t id;

	id = put_spec(store, &spec); /* its last time was 1.5 s ago: too late */
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_count(&seen.ran, 1));
	CHECK_CALL(hwt_store_stop(store), 0);
	CHECK_INT(seen.missed[0], >=, 10);
	CHECK_INT(seen.due_us[0], ==, spec.due_us);
	CHECK_CALL(hwt_store_cancel(store, id), 0);
}

/*
 * Spread
 */

TEST(a_spread_moves_what_is_due_and_not_the_grid)
{
	CLOSING hwt_store *store = store_of(0);
	hwt_store_spec spec = SPEC("a", 0, .flags = HWT_STORE_ABSOLUTE);
	int64_t first_us = now_us() + 24 * HOUR_US, ids[40], sum_us = 0;
	unsigned moved = 0;

	spec.due_us = first_us;
	spec.period_ns = HWT_S(3600);
	spec.spread_ns = HWT_S(3600);
	for (size_t i = 0; i < HWTS_COUNT(ids); i++) {
		int64_t later_us;

		ids[i] = put_spec(store, &spec);
		later_us = info_of(store, ids[i]).due_us - first_us;
		CHECK_INT(later_us, >=, 0);
		CHECK_INT(later_us, <, HOUR_US);
		moved += later_us > 0;
		sum_us += later_us;
	}
	CHECK_INT(moved, >, 30);
	CHECK_INT(sum_us, >, HOUR_US); /* about 20 hours are expected */
	CHECK_INT(query("select count(*) from %s_timeout where base_us = %lld", world.schema, (long long)first_us), ==,
		  HWTS_COUNT(ids));
	(void)query("update %s_timeout set base_us = base_us - %lld, due_us = base_us - %lld", world.schema,
		    (long long)(24 * HOUR_US), (long long)(24 * HOUR_US));
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_count(&seen.ran, HWTS_COUNT(ids)));
	CHECK_CALL(hwt_store_stop(store), 0);
	for (size_t i = 0; i < HWTS_COUNT(ids); i++) {
		int64_t later_us = info_of(store, ids[i]).due_us - first_us + 23 * HOUR_US;

		CHECK_INT(later_us, >=, 0);
		CHECK_INT(later_us, <, HOUR_US);
	}
	CHECK_INT(query("select count(*) from %s_timeout where base_us = %lld", world.schema,
			(long long)(first_us - 23 * HOUR_US)),
		  ==, HWTS_COUNT(ids));
}

static void check_spread(hwt_store *store, const int64_t *ids, size_t n, const char *line, int64_t after_us)
{
	int64_t first_us = next_of(line, NULL, after_us), next_us = next_of(line, NULL, first_us);
	unsigned moved = 0;

	for (size_t i = 0; i < n; i++) {
		int64_t due_us = info_of(store, ids[i]).due_us;

		moved += due_us > first_us;
		CHECK_INT(due_us, >=, first_us);
		CHECK_INT(due_us, <, next_us);
	}
	CHECK_INT(moved, >, n / 2);
}

/* However long the spread is, both at the put and after a run. */
TEST(a_spread_ends_before_the_next_time_of_the_line)
{
	CLOSING hwt_store *store = store_of(0);
	hwt_store_spec spec = line_of("@monthly", NULL);
	int64_t ids[20];

	spec.flags = HWT_STORE_ABSOLUTE;
	spec.due_us = now_us() + DAY_US;
	spec.spread_ns = HWT_S(40 * 86400);
	for (size_t i = 0; i < HWTS_COUNT(ids); i++)
		ids[i] = put_spec(store, &spec);
	check_spread(store, ids, HWTS_COUNT(ids), spec.schedule, spec.due_us);
	(void)query("update %s_timeout set base_us = base_us - %lld, due_us = 1", world.schema,
		    (long long)(70 * DAY_US));
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_count(&seen.ran, HWTS_COUNT(ids)));
	CHECK_CALL(hwt_store_stop(store), 0);
	check_spread(store, ids, HWTS_COUNT(ids), spec.schedule, now_us());
}

/*
 * Rows that a user has edited
 */

TEST(a_schedule_that_cannot_go_on_is_failed_with_the_reason)
{
	static const struct {
		const char *set, *word;
	} wrong[] = {
		{ "schedule = '0 0 30 2 *'", "ten years" },
		{ "schedule = 'every day'", "minute" },
		{ "zone = 'Europe/../Berlin'", "zone" },
	};

	for (size_t i = 0; i < HWTS_COUNT(wrong); i++) {
		CLOSING hwt_store *store = store_of(0);
		hwt_store_spec spec = line_of("@daily", "UTC");
		int64_t id = put_spec(store, &spec);

		(void)query("update %s_timeout set due_us = 1, %s", world.schema, wrong[i].set);
		CHECK_CALL(hwt_store_start(store), 0);
		CHECK(wait_store_state(store, id, HWT_STORE_FAILED));
		CHECK(strstr(info_of(store, id).error, wrong[i].word) != NULL);
		CHECK_INT(atomic_load(&seen.ran), ==, 0);
	}
}

STORE_MAIN(NULL)
