/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * HWT_STORE_KEEP_DUE: a series that a program declares at each start.  'a' is the data of its first put, 'b' the data
 * of the declaration that changes it.
 */
#include "store_query.h"

#include "base/calendar.h"
#include "inside.h"

static hwt_store *store;
static int64_t id;

/* A task that notes its data, and waits until it is released. */
static atomic_uint started, released;
static char letters[9]; /* the first byte of each run's data */
static struct {
	char data;
	unsigned attempt;
	uint64_t missed;
	int64_t due_us;
} runs[8];

static int run_it(const hwt_store_run *run, void *ctx)
{
	unsigned i = atomic_load(&started);

	(void)ctx;
	REQUIRE(i < HWTS_COUNT(runs) && run->len == 1);
	runs[i].data = *(const char *)run->data;
	runs[i].attempt = run->attempt;
	runs[i].missed = run->missed;
	runs[i].due_us = run->due_us;
	atomic_store(&started, i + 1);
	while (atomic_load(&released) <= i)
		sleep_ms(1);
	return answer_by(run, letters[i], HWT_S(3600));
}

static void set_up_kind(hwt_store_kind kind)
{
	kind.name = "a";
	kind.shards = 1;
	atomic_store(&started, 0);
	atomic_store(&released, 0);
	memset(letters, '0', sizeof(letters));
	store = FRESH(.threads = 1);
	CHECK_CALL(register_patiently(store, &kind), 0);
}

static void set_up(unsigned mode, unsigned max_attempts)
{
	set_up_kind(KIND(.task = run_it, .mode = mode, .max_attempts = max_attempts, .backoff_ns = HWT_MS(20)));
}

/* The spec of the one series of these tests. */
#define DECLARED(its_data, its_delay, ...)                                                                             \
	SPEC("a", its_delay, .key = "k", .data = (its_data), .len = 1, .flags = HWT_STORE_KEEP_DUE, __VA_ARGS__)

static void declare(hwt_store_spec spec)
{
	CHECK_INT(put_spec(store, &spec), ==, id);
}

static void begin_with(hwt_store_spec spec)
{
	id = put_spec(store, &spec);
}

static hwt_store_info info(void)
{
	return info_of(store, id);
}

/* Puts a series that is due at once, and that a pause keeps from starting. */
static void begin_paused(hwt_store_spec spec)
{
	CHECK_CALL(hwt_store_pause(store, "a", NULL), 0);
	CHECK_CALL(hwt_store_start(store), 0);
	begin_with(spec);
}

static void let_go(unsigned n)
{
	atomic_fetch_add(&released, n);
}

static void end(void)
{
	atomic_store(&released, 99);
	CHECK_CALL(hwt_store_close(store), 0);
}

static int64_t column(const char *name)
{
	return query("select coalesce(%s, 0) from %s_timeout where id = %lld", name, world.schema, (long long)id);
}

/* PostgreSQL: a number that changes when a row is written or locked. */
static int64_t versions(void)
{
	return query("select sum(xmin::text::bigint + cmin::text::bigint + xmax::text::bigint) from %s_timeout",
		     world.schema);
}

/* As declare, by the SQL function. */
__attribute__((format(printf, 1, 2))) static int64_t put_sql(const char *format, ...)
{
	char more[256];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(more, sizeof(more), format, args);
	va_end(args);
	return query("select %s_put('a', 'b', key => 'k', if_exists => 'keep_due', %s)", world.schema, more);
}

#define DAY HWT_S(86400)

/* A cron line whose next time is up to this number of hours away, and at least one less: it does not come in a test. */
static const char *line_in(unsigned hours)
{
	static char lines[24][16];
	unsigned hour = (unsigned)((now_us() / INT64_C(3600000000) + hours) % 24);

	(void)snprintf(lines[hour], sizeof(lines[hour]), "0 %u * * *", hour);
	return lines[hour];
}

TEST(keep_due_needs_a_key_and_a_series_and_no_other_flag_for_keys)
{
	hwt_store_spec wrong[] = {
		SPEC("a", 0, .flags = HWT_STORE_KEEP_DUE, .period_ns = DAY),
		SPEC("a", 0, .flags = HWT_STORE_KEEP_DUE, .key = "k"),
		SPEC("a", 0, .flags = HWT_STORE_KEEP_DUE | HWT_STORE_REPLACE, .key = "k", .period_ns = DAY),
		SPEC("a", 0, .flags = HWT_STORE_KEEP_DUE | HWT_STORE_REVIVE, .key = "k", .period_ns = DAY),
		SPEC("a", 0, .flags = 16, .key = "k", .period_ns = DAY),
	};
	USER *connection;

	set_up(0, 0);
	connection = connect_user();
	for (size_t i = 0; i < HWTS_COUNT(wrong); i++) {
		CHECK_CALL(hwt_store_put(store, &wrong[i], &id), EINVAL);
		CHECK_CALL(hwt_store_put_many(store, &wrong[i], 1, &id), EINVAL);
		CHECK_CALL(hwt_store_put_on(store, connection, &wrong[i], &id), EINVAL);
	}
	CHECK_INT(COUNT("true"), ==, 0);
	end();
}

TEST(keep_due_puts_what_is_not_there_and_writes_nothing_if_all_is_equal)
{
	hwt_store_spec first = DECLARED("a", DAY, .period_ns = DAY, .grace_ns = HWT_S(9), .priority = 3),
		       again = DECLARED("a", HWT_S(5), .period_ns = DAY, .grace_ns = HWT_S(9), .priority = 3),
		       line = SPEC("a", 0, .key = "l", .schedule = "0 3 * * *", .zone = "Europe/Berlin",
				   .spread_ns = HWT_S(60), .flags = HWT_STORE_KEEP_DUE | HWT_STORE_ABSOLUTE,
				   .due_us = now_us() + 9 * DAY / 1000);
	int64_t due_us, written = 0, its_id, ids[2];
	hwt_store_spec both[2] = { again, line };

	set_up(0, 0);
	begin_with(first);
	due_us = info().due_us;
	CHECK_INT(due_us, >, now_us() + DAY / 2000);
	its_id = put_spec(store, &line);
	CHECK_INT(info_of(store, its_id).due_us, >, now_us() + 8 * DAY / 1000);
	if (!world.sqlite)
		written = versions();
	declare(again);
	line.flags = HWT_STORE_KEEP_DUE;
	CHECK_INT(put_spec(store, &line), ==, its_id);
	CHECK_CALL(hwt_store_put_many(store, both, 2, ids), 0);
	CHECK_INT(ids[0], ==, id);
	CHECK_INT(ids[1], ==, its_id);
	CHECK_INT(info().due_us, ==, due_us);
	if (!world.sqlite)
		CHECK_INT(versions(), ==, written);
	end();
}

TEST(what_is_not_due_keeps_its_time_as_long_as_its_line_is_the_same)
{
	hwt_store_spec same[] = {
		DECLARED("b", 0, .period_ns = DAY),
		DECLARED("b", 0, .period_ns = DAY, .grace_ns = DAY),
		DECLARED("b", 0, .period_ns = DAY, .grace_ns = 2 * DAY, .spread_ns = HWT_S(60)),
		DECLARED("b", 0, .period_ns = DAY, .priority = -5),
		DECLARED("b", 0, .period_ns = 2 * DAY),
	};
	const char *line = line_in(11), *later = line_in(13);
	hwt_store_spec other[] = {
		DECLARED("b", 0, .schedule = line),
		DECLARED("b", 0, .schedule = later),
		DECLARED("b", 0, .schedule = later, .zone = "Asia/Tokyo"), /* in 4 hours */
		DECLARED("b", 0, .period_ns = HWT_S(40000)),
	};
	int64_t due_us;

	set_up(0, 0);
	begin_with(DECLARED("a", 9 * DAY, .period_ns = DAY));
	due_us = info().due_us;
	for (size_t i = 0; i < HWTS_COUNT(same); i++) {
		declare(same[i]);
		CHECK_INT(info().due_us, ==, due_us);
		CHECK_INT(column("base_us"), ==, due_us);
		CHECK_INT(info().period_ns, ==, same[i].period_ns);
		CHECK_INT(info().priority, ==, same[i].priority);
		CHECK_INT(column("grace_us"), ==, same[i].grace_ns / 1000);
		CHECK_INT(column("spread_us"), ==, same[i].spread_ns / 1000);
	}
	for (size_t i = 0; i < HWTS_COUNT(other); i++) {
		int64_t now = now_us(), want_us = now + other[i].period_ns / 1000;

		declare(other[i]);
		if (other[i].schedule)
			CHECK_INT(hwt_store_next_time(other[i].schedule, other[i].zone, now, &want_us, NULL, 0), ==, 0);
		CHECK_INT(info().due_us, >=, want_us);
		CHECK_INT(info().due_us, <, now + DAY / 1000 + HWT_S(3600) / 1000);
		CHECK(strcmp(info().schedule, other[i].schedule ? other[i].schedule : "") == 0);
		CHECK(strcmp(info().zone, other[i].zone ? other[i].zone : "") == 0);
		CHECK_INT(info().period_ns, ==, other[i].period_ns);
	}
	end();
}

/* First a period, then a line: in both cases the due run is of the old grid. */
TEST(what_is_due_still_runs_with_the_new_data_and_what_it_has_missed)
{
	for (int i = 0; i < 2; i++) {
		const char *line = i ? line_in(11) : NULL;
		hwt_store_spec first = DECLARED("a", 0, .period_ns = HWT_S(3600)),
			       then = DECLARED("b", 0, .period_ns = line ? 0 : DAY, .schedule = line, .priority = 7,
					       .grace_ns = HWT_S(1));
		int64_t due_us;

		first.flags |= HWT_STORE_ABSOLUTE;
		first.due_us = now_us() - INT64_C(12600) * 1000000;
		set_up(0, 0);
		begin_paused(first);
		due_us = info().due_us;
		declare(then);
		CHECK_INT(info().due_us, ==, due_us);
		CHECK_INT(info().priority, ==, 7);
		declare(then);
		CHECK_CALL(hwt_store_resume(store, "a", NULL), 0);
		CHECK(wait_count(&started, 1));
		CHECK_INT(runs[0].data, ==, 'b');
		CHECK_INT(runs[0].missed, >=, 3);
		CHECK_INT(runs[0].due_us, ==, due_us);
		let_go(1);
		CHECK(wait_store_state(store, id, HWT_STORE_PENDING));
		CHECK_INT(settled_stats(store).done, ==, 1);
		CHECK_INT(info().period_ns, ==, then.period_ns);
		CHECK(strcmp(info().schedule, line ? line : "") == 0);
		CHECK_INT(column("grace_us"), ==, 1000000);
		CHECK_INT(info().due_us, >, due_us);
		if (!line)
			CHECK_INT((info().due_us - due_us) % INT64_C(3600000000), ==, 0);
		CHECK_INT(column("next_due_us"), ==, 0);
		end();
	}
}

static int64_t priority_of_turn(int64_t of)
{
	const struct hwts_entry *entry;
	int64_t priority;

	hwts_lock(store);
	entry = hwts_window_find(store, of);
	priority = entry && entry->state == HWTS_IS_DUE ? entry->turn.priority : -1000;
	hwts_unlock(store);
	return priority;
}

static atomic_uint looks;
static int64_t of_next_look; /* priority that the next look declares, before its result is used */

/* Declares after the first look has read, and before its result is used. */
static void declare_at_look(const char *where)
{
	if (strcmp(where, "looked") != 0)
		return;
	if (atomic_load(&looks) == 0)
		declare(DECLARED("b", DAY, .period_ns = DAY, .priority = 5));
	else
		of_next_look = priority_of_turn(id);
	atomic_fetch_add(&looks, 1);
}

TEST(a_look_that_read_before_it_does_not_undo_a_priority)
{
	set_up(0, 0);
	begin_paused(DECLARED("a", 0, .period_ns = DAY));
	WAIT_FOR(priority_of_turn(id) == 0);
	atomic_store(&looks, 0);
	atomic_store(&hwts_test_at, declare_at_look);
	for (unsigned i = 1; i <= 2; i++) {
		look_now(store);
		CHECK(wait_count(&looks, i));
	}
	atomic_store(&hwts_test_at, NULL);
	CHECK_INT(of_next_look, ==, 5);
	end();
}

/* Declared by the process that has the series, by another process, and by SQL. */
TEST(what_is_due_starts_in_the_order_of_the_new_priority)
{
	for (int by = 0; by < (world.sqlite ? 2 : 3); by++) {
		hwt_store_spec then = DECLARED("b", DAY, .period_ns = DAY, .priority = 5);
		hwt_store *other = NULL;
		int64_t first;

		set_up(0, 0);
		CHECK_CALL(hwt_store_pause(store, "a", NULL), 0);
		CHECK_CALL(hwt_store_start(store), 0);
		CHECK(wait_held(store, 1));
		first = put_spec(store, &SPEC("a", 0, .data = "o", .len = 1));
		begin_with(DECLARED("a", 0, .period_ns = DAY));
		WAIT_FOR(priority_of_turn(first) == 0 && priority_of_turn(id) == 0);
		if (by == 0) {
			declare(then);
		} else if (by == 1) {
			other = open_store();
			CHECK_INT(put_spec(other, &then), ==, id);
			CHECK_CALL(hwt_store_close(other), 0);
		} else {
			CHECK_INT(put_sql("every => '1 day', delay => '1 day', priority => 5"), ==, id);
		}
		WAIT_FOR(priority_of_turn(id) == 5);
		let_go(2);
		CHECK_CALL(hwt_store_resume(store, "a", NULL), 0);
		CHECK(wait_count(&started, 2));
		CHECK_INT(runs[0].data, ==, 'b');
		CHECK_INT(runs[1].data, ==, 'o');
		end();
	}
}

/* The window keeps few rows of the group. */
TEST(what_lies_in_a_rest_is_found_under_its_new_priority)
{
	enum { SHARE = 4, FLOOD = 5 * SHARE };
	unsigned rescued = atomic_load(&hwts_test_rescued);

	atomic_store(&hwts_test_window, 20 * SHARE);
	atomic_store(&ran, 0);
	set_up_kind(KIND(.task = count_run));
	CHECK_CALL(hwt_store_pause(store, "a", NULL), 0);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 1));
	WAIT_READ(store);
	for (unsigned i = 0; i < FLOOD; i++)
		(void)put_spec(store, &SPEC("a", 0, .group = "g"));
	begin_with(DECLARED("a", 0, .period_ns = DAY, .group = "g"));
	CHECK_INT(priority_of_turn(id), ==, -1000);
	declare(DECLARED("b", 0, .period_ns = DAY, .group = "g", .priority = -5));
	CHECK_CALL(hwt_store_resume(store, "a", NULL), 0);
	CHECK(wait_count(&ran, FLOOD + 1));
	CHECK_INT(atomic_load(&hwts_test_rescued), ==, rescued);
	CHECK_CALL(hwt_store_close(store), 0);
	atomic_store(&hwts_test_window, 0);
}

/* The declaration comes so late that the next time of the new line has come as well. */
TEST(what_was_due_for_long_goes_on_at_the_next_time_of_the_new_line)
{
	for (int i = 0; i < 2; i++) {
		const char *line = i ? line_in(11) : NULL;
		hwt_store_spec first = DECLARED("a", 0, .period_ns = HWT_S(1800)),
			       then = DECLARED("b", 0, .period_ns = line ? 0 : HWT_S(3600), .schedule = line);
		int64_t due_us, want_us = 0;

		set_up(0, 0);
		begin_paused(first);
		due_us = info().due_us;
		declare(then);
		CHECK_INT(column("next_due_us"), >, now_us());
		(void)query(
		    "update %s_timeout set next_due_us = next_due_us - 864000000000, next_base_us = next_base_us + "
		    "864000000000",
		    world.schema);
		CHECK_CALL(hwt_store_resume(store, "a", NULL), 0);
		CHECK(wait_count(&started, 1));
		let_go(1);
		if (line)
			CHECK_INT(hwt_store_next_time(line, NULL, now_us(), &want_us, NULL, 0), ==, 0);
		WAIT_FOR(info().due_us > now_us());
		if (line)
			CHECK_INT(info().due_us, ==, want_us);
		else
			CHECK_INT((info().due_us - due_us) % 1800000000, ==, 0);
		CHECK_INT(info().due_us, <, now_us() + DAY / 1000);
		CHECK_INT(atomic_load(&started), ==, 1);
		end();
	}
}

TEST(a_run_and_its_retries_see_the_settings_with_which_it_began)
{
	for (unsigned mode = 0; mode < modes_beside_others(); mode++) {
		int64_t due_us;

		set_up(mode, 0);
		letters[0] = 'f';
		CHECK_CALL(hwt_store_start(store), 0);
		begin_with(DECLARED("a", 0, .period_ns = DAY));
		CHECK(wait_count(&started, 1));
		due_us = info().due_us;
		declare(DECLARED("b", 0, .period_ns = 2 * DAY, .priority = 9));
		CHECK_INT(info().state, ==, HWT_STORE_RUNNING);
		let_go(1);
		CHECK(wait_count(&started, 2));
		CHECK_INT(runs[1].data, ==, 'a');
		CHECK_INT(runs[1].attempt, ==, 2);
		CHECK_INT(runs[1].due_us, ==, due_us);
		let_go(1);
		WAIT_FOR(info().state == HWT_STORE_PENDING);
		CHECK_INT(info().due_us, ==, due_us + DAY / 1000);
		CHECK_INT(info().period_ns, ==, 2 * DAY);
		CHECK_INT(info().priority, ==, 9);
		CHECK_INT(settled_stats(store).retried, ==, 1);
		CHECK_INT(stats_of_store(store).done, ==, 1);
		end();
	}
}

/* The run waits to be pulled: the database says that it runs. */
TEST(what_was_begun_and_has_not_started_runs_with_the_new_data)
{
	hwt_store_run *run = NULL;

	set_up_kind(KIND(.flags = HWT_STORE_PULLED));
	CHECK_CALL(hwt_store_start(store), 0);
	begin_with(DECLARED("a", 0, .period_ns = DAY));
	CHECK(wait_store_state(store, id, HWT_STORE_RUNNING));
	declare(DECLARED("b", 0, .period_ns = 2 * DAY));
	WAIT_FOR(hwt_store_next(store, &run) == 0);
	CHECK_INT(*(const char *)run->data, ==, 'b');
	CHECK_INT(run->attempt, ==, 1);
	CHECK_CALL(hwt_store_end(run, 0), 0);
	WAIT_FOR(info().period_ns == 2 * DAY);
	end();
}

/* The declaration comes once a begin is committed. */
static hwt_store_spec at_begin;
static atomic_bool declares;

static void declare_once(const char *where)
{
	if (strcmp(where, "begun") != 0 || !atomic_exchange(&declares, false))
		return;
	CHECK_INT(info().state, ==, HWT_STORE_RUNNING);
	declare(at_begin);
}

static void declare_at_begin(hwt_store_spec spec)
{
	at_begin = spec;
	atomic_store(&declares, true);
	atomic_store(&hwts_test_at, declare_once);
}

/* Whether the time of the old line is found or not. */
TEST(the_line_that_is_declared_while_the_first_time_is_computed_holds)
{
	for (int i = 0; i < 2; i++) {
		hwt_store_spec spec = DECLARED("b", 0, .schedule = line_in(11));
		int64_t want_us;

		set_up(0, 0);
		begin_with(DECLARED("a", 0, .schedule = "0 0 1 1 *", .zone = "Europe/Berlin"));
		(void)query("update %s_timeout set due_us = 0, base_us = %lld", world.schema, (long long)now_us());
		if (i == 1)
			atomic_store(&hwts_test_zones, "/nowhere");
		declare_at_begin(spec);
		CHECK_CALL(hwt_store_start(store), 0);
		CHECK_CALL(hwt_store_next_time(spec.schedule, NULL, now_us(), &want_us, NULL, 0), 0);
		WAIT_FOR(info().state == HWT_STORE_PENDING && info().due_us != 0);
		CHECK_INT(info().due_us, ==, want_us);
		CHECK(strcmp(info().schedule, spec.schedule) == 0);
		CHECK_INT(column("next_base_us"), ==, 0);
		CHECK_INT(atomic_load(&started), ==, 0);
		atomic_store(&hwts_test_at, NULL);
		atomic_store(&hwts_test_zones, NULL);
		end();
	}
}

/* A period may begin in 1970: then due_us 0 is a time, and does not ask for one to be computed. */
TEST(what_is_due_since_1970_still_runs)
{
	for (int sql = 0; sql <= !world.sqlite; sql++) {
		hwt_store_spec first = DECLARED("a", 0, .period_ns = DAY);

		first.flags |= HWT_STORE_ABSOLUTE;
		set_up(0, 0);
		begin_paused(first);
		if (sql)
			CHECK_INT(put_sql("cron => '%s'", line_in(11)), ==, id);
		else
			declare(DECLARED("b", 0, .schedule = line_in(11)));
		CHECK_INT(info().due_us, ==, 0);
		CHECK_CALL(hwt_store_resume(store, "a", NULL), 0);
		CHECK(wait_count(&started, 1));
		CHECK_INT(runs[0].data, ==, 'b');
		CHECK_INT(runs[0].missed, >, 365);
		let_go(1);
		WAIT_FOR(strcmp(info().schedule, line_in(11)) == 0);
		end();
	}
}

TEST(what_replaces_a_run_and_is_due_since_1970_runs_with_the_new_settings)
{
	hwt_store_spec instead = SPEC("a", 0, .key = "k", .data = "b", .len = 1, .period_ns = DAY,
				      .flags = HWT_STORE_REPLACE | HWT_STORE_ABSOLUTE);

	set_up(0, 0);
	CHECK_CALL(hwt_store_start(store), 0);
	begin_with(DECLARED("a", 0, .period_ns = DAY));
	CHECK(wait_count(&started, 1));
	CHECK_INT(put_spec(store, &instead), ==, id);
	CHECK_INT(COUNT("next_base_us = 0"), ==, 1);
	declare(DECLARED("c", 0, .period_ns = 2 * DAY));
	CHECK_INT(COUNT("next_base_us = 0"), ==, 1);
	let_go(2);
	CHECK(wait_count(&started, 2));
	CHECK_INT(runs[1].data, ==, 'c');
	CHECK_INT(runs[1].due_us, ==, 0);
	end();
}

#define HOURS(n) (INT64_C(3600000000) * (n))

/*
 * Moves the time in one of the ways of a program; way 2 is that of an older library, which left next_base_us.
 */
static void move_by(int way, int64_t hours)
{
	hwt_store_which all = { .size = sizeof(all), .kind = "a", .all = true };

	if (way == 0)
		CHECK_CALL(hwt_store_reschedule(store, id, HWT_S(3600) * hours), 0);
	else if (way == 1)
		CHECK_CALL(hwt_store_reschedule_ex(store, &all, (hwt_store_when){ .delay_ns = HWT_S(3600) * hours },
						   NULL),
			   0);
	else if (way == 2)
		(void)query("update %s_timeout set due_us = x.us, base_us = x.us from (select %lld us) x", world.schema,
			    (long long)(now_us() + HOURS(hours)));
	else
		(void)query("select %s_reschedule(%lld, '%lld hours')", world.schema, (long long)id, (long long)hours);
}

TEST(what_was_due_and_is_moved_stays_there_with_the_new_settings)
{
	for (int way = 0; way < (world.sqlite ? 3 : 4); way++) {
		int64_t due_us;

		set_up(0, 0);
		begin_paused(DECLARED("a", 0, .period_ns = HWT_S(3600)));
		declare(DECLARED("b", 0, .period_ns = DAY, .grace_ns = HWT_S(1000), .spread_ns = 0));
		CHECK_INT(column("next_base_us"), <, 0);
		move_by(way, 10);
		due_us = info().due_us;
		CHECK_INT(due_us, >, now_us() + HOURS(9));
		if (way != 2) {
			CHECK_INT(info().period_ns, ==, DAY);
			CHECK_INT(column("grace_us"), ==, 1000000000);
			CHECK_INT(column("next_base_us"), ==, 0);
		}
		declare(DECLARED("c", 0, .period_ns = DAY, .grace_ns = HWT_S(1000)));
		CHECK_INT(info().due_us, ==, due_us);
		CHECK_INT(column("base_us"), ==, due_us);
		CHECK_INT(info().period_ns, ==, DAY);
		CHECK_INT(COUNT("next_base_us is null"), ==, 1);
		if (way == 3) {
			move_by(2, 11);
			due_us = info().due_us;
			CHECK_INT(put_sql("every => '1 day', grace => '1000 s'"), ==, id);
			CHECK_INT(info().due_us, ==, due_us);
		}
		end();
	}
}

TEST(in_back_off_the_time_of_the_retry_and_the_attempts_stay)
{
	const char *line = line_in(11), *later = line_in(13);
	int64_t due_us;

	set_up_kind(KIND(.task = run_it, .backoff_ns = HWT_S(3600)));
	letters[0] = 'f';
	CHECK_CALL(hwt_store_start(store), 0);
	begin_with(DECLARED("a", 0, .period_ns = DAY));
	let_go(1);
	WAIT_FOR(info().attempt == 1 && info().state == HWT_STORE_PENDING); /* attempt first: the row was begun */
	due_us = info().due_us;
	CHECK_INT(due_us, >, now_us());
	declare(DECLARED("b", 0, .schedule = line));
	declare(DECLARED("b", 0, .schedule = later));
	CHECK_INT(info().due_us, ==, due_us);
	CHECK_INT(info().attempt, ==, 1);
	CHECK_INT(info().period_ns, ==, DAY);
	CHECK_CALL(hwt_store_reschedule(store, id, 0), 0);
	CHECK(wait_count(&started, 2));
	CHECK_INT(runs[1].data, ==, 'a');
	CHECK_INT(runs[1].attempt, ==, 2);
	let_go(1);
	WAIT_FOR(info().state == HWT_STORE_PENDING);
	CHECK(strcmp(info().schedule, later) == 0);
	CHECK_INT(info().period_ns, ==, 0);
	end();
}

/* Late news of the run, and then a move, before the process knows that the run has ended. */
static void hear_late_and_move(const char *where)
{
	struct hwts_entry *entry;

	if (strcmp(where, "ended") != 0)
		return;
	atomic_store(&hwts_test_at, NULL);
	hwts_lock(store);
	entry = hwts_window_find(store, id);
	REQUIRE(entry != NULL && entry->state == HWTS_BEGUN);
	hwts_window_see(store, &(struct hwts_due){ .id = id, .due_us = runs[0].due_us, .shard = entry->shard });
	hwts_unlock(store);
	CHECK_CALL(hwt_store_reschedule(store, id, 0), 0);
	atomic_store(&hwts_test_loses_rows, true); /* or a look finds the row in the end */
}

TEST(a_move_behind_late_news_of_the_run_is_not_lost)
{
	set_up_kind(KIND(.task = run_it, .backoff_ns = HWT_S(3600)));
	letters[0] = 'f';
	CHECK_CALL(hwt_store_start(store), 0);
	begin_with(SPEC("a", 0, .key = "k", .data = "a", .len = 1));
	CHECK(wait_count(&started, 1));
	atomic_store(&hwts_test_at, hear_late_and_move);
	let_go(1);
	CHECK(wait_count(&started, 2));
	CHECK_INT(runs[1].attempt, ==, 2);
	atomic_store(&hwts_test_loses_rows, false);
	end();
}

TEST(a_series_that_failed_is_pending_again_at_the_next_time_of_its_line)
{
	for (int i = 0; i < 4; i++) {
		const char *line = i & 1 ? line_in(11) : NULL, *data = i & 2 ? "b" : "a";
		int64_t due_us, want_us = 0, now;

		set_up(0, 1);
		letters[0] = 'f';
		begin_with(DECLARED("a", 0, .schedule = line, .period_ns = line ? 0 : DAY));
		CHECK_CALL(hwt_store_reschedule(store, id, 0), 0);
		due_us = info().due_us;
		CHECK_CALL(hwt_store_start(store), 0);
		CHECK(wait_count(&started, 1));
		if (i & 2) /* the settings of a run that fails for good hold from its end as well */
			declare(DECLARED("b", 0, .schedule = line, .period_ns = line ? 0 : DAY, .priority = 4));
		let_go(1);
		CHECK(wait_store_state(store, id, HWT_STORE_FAILED));
		CHECK_INT(info().priority, ==, i & 2 ? 4 : 0);
		CHECK_INT(column("next_due_us"), ==, 0);
		now = now_us();
		declare(DECLARED(data, 0, .schedule = line, .period_ns = line ? 0 : DAY, .priority = i & 2 ? 4 : 0));
		CHECK_INT(info().state, ==, HWT_STORE_PENDING);
		CHECK_INT(info().attempt, ==, 0);
		CHECK(strcmp(info().error, "") == 0);
		if (line)
			CHECK_INT(hwt_store_next_time(line, NULL, now, &want_us, NULL, 0), ==, 0);
		CHECK_INT(info().due_us, ==, line ? want_us : due_us + DAY / 1000);
		CHECK_INT(atomic_load(&started), ==, 1);
		end();
	}
}

TEST(keep_due_changes_no_single_timeout_and_no_series_in_its_last_run)
{
	hwt_store_spec spec = DECLARED("b", 0, .period_ns = DAY);
	int64_t found = 0;

	set_up(0, 0);
	id = put_key(store, "a", "k", DAY);
	CHECK_CALL(hwt_store_put(store, &spec, &found), EEXIST);
	CHECK_INT(found, ==, id);
	CHECK_INT(info().period_ns, ==, 0);
	CHECK_CALL(hwt_store_cancel(store, id), 0);
	begin_with(DECLARED("a", 0, .period_ns = DAY));
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_count(&started, 1));
	declare(DECLARED("b", 0, .period_ns = DAY));
	CHECK_CALL(hwt_store_cancel(store, id), 0);
	found = 0;
	CHECK_CALL(hwt_store_put(store, &spec, &found), EEXIST);
	CHECK_INT(found, ==, id);
	let_go(1);
	CHECK(wait_gone(store, id));
	CHECK_INT(atomic_load(&started), ==, 1);
	end();
}

TEST(what_replaces_a_run_or_a_series_with_kept_settings_is_all_that_holds)
{
	set_up(0, 0);
	begin_paused(DECLARED("a", 0, .period_ns = DAY));
	declare(DECLARED("b", 0, .period_ns = 2 * DAY));
	CHECK_INT(column("next_base_us"), <, 0);
	CHECK_INT(put_spec(store, &SPEC("a", DAY, .key = "k", .data = "c", .len = 1, .flags = HWT_STORE_REPLACE)), ==,
		  id);
	CHECK_INT(column("next_base_us"), ==, 0);
	CHECK_INT(info().period_ns, ==, 0);
	end();
}

/* The series exists if the caller's transaction commits. */
TEST(keep_due_in_the_callers_transaction_is_undone_with_it)
{
	USER *connection;
	hwt_store_spec first = DECLARED("a", DAY, .period_ns = DAY), then = DECLARED("b", 0, .period_ns = 3 * DAY);
	int64_t its_id = 0;

	set_up(0, 0);
	connection = connect_user();
	CHECK_CALL(hwt_store_put_on(store, connection, &first, &id), 0);
	CHECK(user_sql(connection, "begin"));
	CHECK_CALL(hwt_store_put_on(store, connection, &then, &its_id), 0);
	CHECK_INT(its_id, ==, id);
	CHECK(user_sql(connection, "rollback"));
	CHECK_INT(info().period_ns, ==, DAY);
	CHECK(user_sql(connection, "begin"));
	CHECK_CALL(hwt_store_put_on(store, connection, &then, &its_id), 0);
	CHECK(user_sql(connection, "commit"));
	CHECK_INT(info().period_ns, ==, 3 * DAY);
	end();
}

/* One call declares both ways: the last declaration holds. */
TEST(keep_due_twice_in_one_call_is_the_last_one)
{
	hwt_store_spec both[] = { DECLARED("a", DAY, .period_ns = DAY), DECLARED("b", DAY, .period_ns = 2 * DAY) };
	int64_t ids[2] = { 0, 0 };

	set_up(0, 0);
	CHECK_CALL(hwt_store_put_many(store, both, 2, ids), 0);
	CHECK_INT(ids[0], ==, ids[1]);
	id = ids[0];
	CHECK_INT(info().period_ns, ==, 2 * DAY);
	end();
}

/* A put in a thread of its own. */
struct putter {
	hwt_store_spec specs[2];
	size_t n;
	int64_t ids[2];
	int rc;
	pthread_t thread;
};

static void *put_one(void *arg)
{
	struct putter *putter = arg;

	putter->rc = hwt_store_put(store, &putter->specs[0], &putter->ids[0]);
	return NULL;
}

/* The first put that keeps a due time has its commit alone.  While the next one does, there is no folder of zones. */
static atomic_uint queued, keeps;

static void share_a_commit(const char *where)
{
	if (strcmp(where, "queued") == 0)
		atomic_fetch_add(&queued, 1);
	if (strcmp(where, "keeps") != 0)
		return;
	if (atomic_fetch_add(&keeps, 1) == 0)
		CHECK(wait_count(&queued, 3));
	else
		atomic_store(&hwts_test_zones, "/nowhere");
}

TEST(a_declaration_that_fails_fails_no_other_put)
{
	struct putter putters[3] = { { .n = 1 } };

	set_up(0, 0);
	begin_with(DECLARED("a", DAY, .period_ns = DAY));
	putters[0].specs[0] = DECLARED("b", 0, .period_ns = DAY);
	putters[1].specs[0] = DECLARED("c", 0, .schedule = "0 3 * * *", .zone = "Europe/Berlin");
	putters[2].specs[0] = SPEC("a", DAY, .key = "l");
	atomic_store(&queued, 0);
	atomic_store(&keeps, 0);
	atomic_store(&hwts_test_at, share_a_commit);
	for (size_t i = 0; i < 3; i++) {
		REQUIRE(pthread_create(&putters[i].thread, NULL, put_one, &putters[i]) == 0);
		CHECK(wait_count(&keeps, 1));
	}
	for (size_t i = 0; i < 3; i++)
		REQUIRE(pthread_join(putters[i].thread, NULL) == 0);
	atomic_store(&hwts_test_at, NULL);
	atomic_store(&hwts_test_zones, NULL);
	CHECK_INT(putters[0].rc, ==, 0);
	CHECK_INT(putters[1].rc, ==, ENOTSUP);
	CHECK_INT(putters[2].rc, ==, 0);
	CHECK_INT(info_of(store, putters[2].ids[0]).due_us, >, now_us());
	CHECK_INT(info().period_ns, ==, DAY);
	end();
}

#ifdef HWT_STORE_POSTGRES
static void *put_them(void *arg)
{
	struct putter *putter = arg;

	putter->rc = hwt_store_put_many(store, putter->specs, putter->n, putter->ids);
	return NULL;
}

static void let_put(struct putter *putter)
{
	REQUIRE(pthread_create(&putter->thread, NULL, put_them, putter) == 0);
	WAIT_FOR(query("select count(*) from pg_locks where not granted") != 0);
}

/* A transaction of a user changes the same rows in the same order. */
TEST(what_a_put_keeps_it_locks_in_the_order_of_the_keys)
{
	struct putter putter = { .n = 2 };
	USER *user = NULL;

	NEEDS_POSTGRES();
	set_up(0, 0);
	begin_with(DECLARED("a", DAY, .period_ns = DAY));
	putter.specs[0] = DECLARED("b", 0, .period_ns = 2 * DAY);
	putter.specs[1] = SPEC("a", DAY, .key = "l", .data = "c", .len = 1, .flags = HWT_STORE_REPLACE);
	user = connect_user();
	CHECK(user_sql(user, "begin; select %s_put('a', 'd', key => 'k', if_exists => 'replace', every => '3 days', "
		       "delay => '1 day')",
		       world.schema));
	let_put(&putter);
	CHECK(user_sql(user, "select %s_put('a', 'e', key => 'l', delay => '1 day')", world.schema));
	CHECK(user_sql(user, "commit"));
	REQUIRE(pthread_join(putter.thread, NULL) == 0);
	CHECK_INT(putter.rc, ==, 0);
	CHECK_INT(putter.ids[0], ==, id);
	CHECK_INT(info().period_ns, ==, 2 * DAY);
	end();
}

/* Another series has the key when the row is locked, and begins. */
static _Atomic(void *) replacer;

static void put_another(const char *where)
{
	void *user = strcmp(where, "keeps") == 0 ? atomic_exchange(&replacer, NULL) : NULL;

	if (!user)
		return;
	CHECK_INT(query("select (%s_cancel(%lld) = 'cancelled')::int", world.schema, (long long)id), ==, 1);
	id = query("select %s_put('a', 'c', key => 'k', every => '1 day')", world.schema);
	CHECK(user_sql(user, "begin; update %s_timeout set state = 2, epoch = 1, attempt = 1", world.schema));
}

TEST(what_has_the_key_by_the_time_of_the_lock_is_declared_instead)
{
	struct putter putter = { .n = 1 };
	USER *user = NULL;

	NEEDS_POSTGRES();
	set_up(0, 0);
	begin_with(DECLARED("a", DAY, .period_ns = DAY));
	putter.specs[0] = DECLARED("b", 0, .period_ns = 2 * DAY);
	user = connect_user();
	atomic_store(&replacer, user);
	atomic_store(&hwts_test_at, put_another);
	let_put(&putter);
	CHECK(user_sql(user, "commit"));
	REQUIRE(pthread_join(putter.thread, NULL) == 0);
	atomic_store(&hwts_test_at, NULL);
	CHECK_INT(putter.rc, ==, 0);
	CHECK_INT(putter.ids[0], ==, id);
	CHECK_INT(COUNT("next_base_us < 0 and next_period_us = 172800000000"), ==, 1);
	end();
}
#endif

TEST(sql_keeps_what_is_due)
{
	const char *line = line_in(11);
	int64_t due_us;

	NEEDS_POSTGRES();
	set_up(0, 0);
	id = put_sql("every => '1 day', delay => '9 days'");
	CHECK_INT(id, >, 0);
	due_us = info().due_us;
	CHECK_INT(put_sql("every => '1 day'"), ==, id);
	CHECK_INT(put_sql("every => '2 days', priority => 3"), ==, id);
	CHECK_INT(info().due_us, ==, due_us);
	CHECK_INT(info().period_ns, ==, 2 * DAY);
	CHECK_INT(info().priority, ==, 3);
	CHECK_CALL(hwt_store_pause(store, "a", NULL), 0);
	CHECK_CALL(hwt_store_reschedule(store, id, 0), 0);
	due_us = info().due_us;
	CHECK_INT(put_sql("cron => '%s'", line), ==, id);
	CHECK_INT(info().due_us, ==, due_us);
	CHECK_INT(info().period_ns, ==, 2 * DAY);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK_CALL(hwt_store_resume(store, "a", NULL), 0);
	CHECK(wait_count(&started, 1));
	let_go(1);
	WAIT_FOR(info().due_us > now_us());
	CHECK(strcmp(info().schedule, line) == 0);
	CHECK_INT(atomic_load(&started), ==, 1);
	CHECK_INT(put_sql("cron => '%s'", line), ==, id);
	CHECK_INT(put_sql("delay => '1 day'"), ==, -1); /* without cron or every keep_due fails */
	CHECK_INT(put_key(store, "a", "single", DAY), >, 0);
	CHECK_INT(query("select %s_put('a', key => 'single', if_exists => 'keep_due', every => '1 day')", world.schema),
		  ==, -1);
	end();
}

STORE_MAIN(NULL)
