/* SPDX-License-Identifier: BSD-2-Clause */
/* The answers of a task, and what becomes of its timeout. */
#include "store_query.h"

#define HOUR INT64_C(3600)

static void check_text(const char *is, const char *wanted)
{
	CHECK(strcmp(is, wanted) == 0);
	if (strcmp(is, wanted) != 0)
		fprintf(stderr, "    \"%s\", not \"%s\"\n", is, wanted);
}

/* Answers by a letter for each run of a case; after the last letter 0. */
static int answer(const hwt_store_run *run, char letter)
{
	switch (letter) {
	case 'a':
		return hwt_store_again(run, 0);
	case 'm':
		return hwt_store_again(run, HWT_S(600));
	case 'h':
		return hwt_store_again(run, HWT_S(2 * HOUR));
	case 'g':
		return hwt_store_give_up(run, "no such account");
	case 's':
		return hwt_store_fail(run, "no route to her");
	case 'N':
		return hwt_store_fail(run, NULL);
	case 'n':
		return hwt_store_give_up(run, NULL);
	case 'l':
		return hwt_store_give_up(run, "na\xefve"); /* not UTF-8 */
	case 'u':
		return hwt_store_give_up(run, "na\xc3\xafve \xe2\x82\xac");
	case 'e':
		return hwt_store_end_series(run);
	case 'f':
		return EIO;
	case '-': /* without an answer */
		return HWT_STORE_ANSWER;
	case '7':
		return hwt_store_end_series(run) - 6;
	case 'A': /* another value than HWT_STORE_ANSWER */
		return hwt_store_again(run, 0) + 1;
	case 'E':
		return hwt_store_end_series(run), EIO;
	case 'G': /* of two answers the last one counts */
		return (void)hwt_store_give_up(run, "not yet"), hwt_store_end_series(run);
	default:
		return 0;
	}
}

/* state 0: the row is gone.  due_s: at least this long after the put; HOUR, for a series: the time of its grid. */
static const struct answer_case {
	const char *name, *answers;
	int64_t period_s;
	int state;
	unsigned attempt;
	const char *error;
	int64_t due_s;
	const char *attempts;
	int effects; /* rows of effects, in mode TRANSACTION */
	bool quick;  /* only for a kind with two attempts and a short back-off, at least once */
} cases[] = {
	{ "done", "0", 0, 0, 0, "", 0, "1", 1, false },
	{ "failed", "f", 0, HWT_STORE_PENDING, 1, "Input/output error", HOUR, "1", 0, false },
	{ "failed with a text", "s", 0, HWT_STORE_PENDING, 1, "no route to her", HOUR, "1", 0, false },
	{ "failed without a text", "N", 0, HWT_STORE_PENDING, 1, "failed", HOUR, "1", 0, false },
	{ "failed with a text, twice", "ss", 0, HWT_STORE_FAILED, 2, "no route to her", 0, "12", 0, true },
	{ "failed with a text in a series", "s", HOUR, HWT_STORE_PENDING, 1, "no route to her", HOUR, "1", 0, false },
	{ "again", "aa0", 0, 0, 0, "", 0, "111", 3, false },
	{ "again later", "m", 0, HWT_STORE_PENDING, 0, "", 600, "1", 1, false },
	{ "again in a series", "m", HOUR, HWT_STORE_PENDING, 0, "", 600, "1", 1, false },
	{ "again after the next time", "h", HOUR, HWT_STORE_PENDING, 0, "", HOUR, "1", 1, false },
	{ "again, then done in a series", "a0", HOUR, HWT_STORE_PENDING, 0, "", HOUR, "11", 2, false },
	{ "again is no attempt", "aaaff", 0, HWT_STORE_FAILED, 2, "Input/output error", 0, "11112", 0, true },
	{ "again keeps the error", "fm", 0, HWT_STORE_PENDING, 1, "Input/output error", 600, "12", 0, true },
	{ "given up", "g", 0, HWT_STORE_FAILED, 1, "no such account", 0, "1", 0, false },
	{ "given up without a text", "n", 0, HWT_STORE_FAILED, 1, "given up", 0, "1", 0, false },
	{ "given up with a text that is none", "l", 0, HWT_STORE_FAILED, 1, "na?ve", 0, "1", 0, false },
	{ "given up in another alphabet", "u", 0, HWT_STORE_FAILED, 1, "na\xc3\xafve \xe2\x82\xac", 0, "1", 0, false },
	{ "a series given up", "g", HOUR, HWT_STORE_FAILED, 1, "no such account", 0, "1", 0, false },
	{ "ended", "e", HOUR, 0, 0, "", 0, "1", 1, false },
	{ "ended, a single one", "e", 0, 0, 0, "", 0, "1", 1, false },
	{ "a series goes on", "0", HOUR, HWT_STORE_PENDING, 0, "", HOUR, "1", 1, false },
	{ "none is set", "-", 0, HWT_STORE_PENDING, 1, "Invalid argument", HOUR, "1", 0, false },
	{ "another negative value", "7", HOUR, HWT_STORE_PENDING, 1, "Invalid argument", HOUR, "1", 0, false },
	{ "0 counts", "A", 0, 0, 0, "", 0, "1", 1, false },
	{ "an errno value counts", "E", HOUR, HWT_STORE_PENDING, 1, "Input/output error", HOUR, "1", 0, false },
	{ "the last call counts", "G", HOUR, 0, 0, "", 0, "1", 1, false },
};

enum { CASES = HWTS_COUNT(cases), MODES = 3 };

static const char *const kinds[] = { "least", "most", "transaction", "quick" };

/* The course of a case in a mode. */
static struct course {
	const struct answer_case *is;
	int64_t id;
	atomic_uint runs;
	char attempts[16];
} courses[MODES * CASES];

static int take_course(const hwt_store_run *run, void *ctx)
{
	struct course *course = &courses[((const unsigned char *)run->data)[0]];
	unsigned i = atomic_load(&course->runs);

	(void)ctx;
	REQUIRE(i + 1 < sizeof(course->attempts));
	course->attempts[i] = (char)('0' + run->attempt);
	if (run->connection)
		CHECK(user_sql(run->connection, "insert into %s_effects values (%d)", world.schema,
			       (int)(course - courses)));
	atomic_store(&course->runs, i + 1);
	return answer(run, i < strlen(course->is->answers) ? course->is->answers[i] : '0');
}

static void register_all(hwt_store *store)
{
	for (unsigned i = 0; i < HWTS_COUNT(kinds); i++) {
		hwt_store_kind kind =
		    KIND(.name = kinds[i], .task = take_course, .mode = i == MODES ? HWT_STORE_AT_LEAST_ONCE : i,
			 .max_attempts = i == MODES ? 2 : 0, .backoff_ns = i == MODES ? HWT_MS(1) : HWT_S(HOUR),
			 .backoff_max_ns = HWT_S(24 * HOUR));

		CHECK_CALL(register_patiently(store, &kind), 0);
	}
}

static void put_courses(hwt_store *store, int64_t due_us)
{
	for (unsigned i = 0; i < MODES * CASES; i++) {
		unsigned char number = (unsigned char)i;
		hwt_store_spec spec = spec_of(kinds[cases[i / MODES].quick ? MODES : i % MODES], 0);

		courses[i].is = &cases[i / MODES];
		spec.data = &number;
		spec.len = 1;
		spec.flags = HWT_STORE_ABSOLUTE;
		spec.due_us = due_us;
		spec.period_ns = HWT_S(cases[i / MODES].period_s);
		CHECK_CALL(put_patiently(store, &spec, &courses[i].id), 0);
	}
}

static void look_at(hwt_store *store, const struct course *course, const char *kind, int64_t put_us)
{
	const struct answer_case *is = course->is;
	hwt_store_info info = HWT_STORE_INFO_INIT;
	unsigned before = atomic_load(&test_failures);
	int effects = strcmp(kind, "transaction") == 0 ? is->effects : 0;

	check_text(course->attempts, is->attempts);
	CHECK_INT(query("select count(*) from %s_effects where id = %d", world.schema, (int)(course - courses)), ==,
		  effects);
	CHECK_CALL(hwt_store_get(store, course->id, &info), is->state ? 0 : ENOENT);
	if (is->state) {
		CHECK_INT(info.state, ==, is->state);
		CHECK_INT(info.attempt, ==, is->attempt);
		check_text(info.error, is->error);
		CHECK_INT(info.due_us, >=, put_us + is->due_s * 1000000);
		if (is->period_s && is->due_s == HOUR)
			CHECK_INT(info.due_us, ==, put_us + HOUR * 1000000);
	}
	if (atomic_load(&test_failures) != before)
		fprintf(stderr, "    %s: %s\n", kind, is->name);
}

TEST(each_answer_ends_its_run_as_it_says)
{
	int64_t due_us;
	uint64_t done = 0, failed = 0;

	fresh_world();
	(void)query("create table %s_effects (id bigint)", world.schema);
	memset(courses, 0, sizeof(courses));
	CLOSING hwt_store *store = open_store();
	register_all(store);
	due_us = now_us();
	put_courses(store, due_us);
	CHECK_CALL(hwt_store_start(store), 0);
	for (unsigned i = 0; i < MODES * CASES; i++) {
		CHECK(wait_count(&courses[i].runs, (unsigned)strlen(courses[i].is->attempts)));
		done += courses[i].is->state == 0 || (courses[i].is->period_s && strspn(courses[i].is->answers, "a0") ==
										     strlen(courses[i].is->answers));
		failed += courses[i].is->state == HWT_STORE_FAILED;
	}
	CHECK_INT(settled_stats(store).failed, ==, failed);
	CHECK_INT(stats_of_store(store).done, ==, done);
	for (unsigned i = 0; i < MODES * CASES; i++)
		look_at(store, &courses[i], kinds[courses[i].is->quick ? MODES : i % MODES], due_us);
}

/* The answer of a run is given for another run that is in progress. */
static _Atomic(const hwt_store_run *) other;
static atomic_bool answered;

static int be_the_other(const hwt_store_run *run, void *ctx)
{
	(void)ctx;
	atomic_store(&other, run);
	while (!atomic_load(&answered))
		sleep_ms(1);
	return 0;
}

static int answer_for_the_other(const hwt_store_run *run, void *ctx)
{
	int rc;

	(void)run;
	(void)ctx;
	if (atomic_load(&answered)) /* tried again, when the memory of the other run may be gone */
		return EINVAL;
	while (!atomic_load(&other))
		sleep_ms(1);
	rc = hwt_store_end_series(atomic_load(&other));
	atomic_store(&answered, true);
	return rc;
}

TEST(an_answer_holds_for_its_own_run_alone)
{
	int64_t id, id_of_other;

	fresh_world();
	atomic_store(&other, NULL);
	atomic_store(&answered, false);
	CLOSING hwt_store *store = open_store();
	register_kind(store, "other", be_the_other, NULL, HWT_STORE_AT_LEAST_ONCE);
	register_kind(store, "one", answer_for_the_other, NULL, HWT_STORE_AT_MOST_ONCE);
	id_of_other = put(store, "other", 0);
	id = put(store, "one", 0);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_gone(store, id_of_other));
	CHECK_INT(settled_stats(store).retried, >=, 1);
	CHECK_CALL(hwt_store_stop(store), 0);
	check_text(info_of(store, id).error, "Invalid argument");
}

TEST(an_answer_to_no_run_is_an_error_of_the_task)
{
	CHECK_INT(HWT_STORE_ANSWER, ==, -1);
	CHECK_INT(hwt_store_again(NULL, 0), ==, EINVAL);
	CHECK_INT(hwt_store_give_up(NULL, "why"), ==, EINVAL);
	CHECK_INT(hwt_store_end_series(NULL), ==, EINVAL);
}

STORE_MAIN(NULL)
