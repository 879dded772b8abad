/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The test harness: checks that may fail on any thread, and a main that runs a table of tests.
 *
 * Why not cmocka or Check: their assertions leave the test by longjmp or exit, which must not happen on the worker
 * thread, where half of our checks run.  Here a check counts, prints and goes on.
 *
 *     TEST(name) { CHECK(x > 1); CHECK_INT(f(x), ==, 3); }
 *     TEST_MAIN(RUN(name), RUN(other))
 *
 * A program runs all its tests, or those whose name contains one of its arguments.  Each test prints a line "ok NAME"
 * or "FAIL NAME"; test/run.sh adds them up.
 */
#ifndef HWT_TEST_H
#define HWT_TEST_H

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test {
	const char *name;
	void (*run)(void);
};

static atomic_uint test_failures; /* of the running test */

#define TEST(name) __attribute__((unused)) static void name(void)
#define RUN(name)                                                                                                      \
	{                                                                                                              \
#name, name                                                                                            \
	}

#define CHECK(condition) ((condition) ? (void)0 : test_fail(__FILE__, __LINE__, #condition, 0, 0, false))

/* Both sides as int64_t, so that a failure shows their values. */
#define CHECK_INT(left, op, right)                                                                                     \
	do {                                                                                                           \
		int64_t left_ = (int64_t)(left), right_ = (int64_t)(right);                                            \
		if (!(left_ op right_))                                                                                \
			test_fail(__FILE__, __LINE__, #left " " #op " " #right, left_, right_, true);                  \
	} while (0)

/* For what the rest of a test cannot do without: ends the program. */
#define REQUIRE(condition) ((condition) ? (void)0 : (test_fail(__FILE__, __LINE__, #condition, 0, 0, false), exit(1)))

static inline void test_fail(const char *file, int line, const char *what, int64_t left, int64_t right, bool values)
{
	unsigned before = atomic_fetch_add(&test_failures, 1);

	if (before >= 20) /* enough to see what is wrong */
		return;
	if (values)
		fprintf(stderr, "%s:%d: %s: %" PRId64 " against %" PRId64 "\n", file, line, what, left, right);
	else
		fprintf(stderr, "%s:%d: %s\n", file, line, what);
}

static inline bool test_chosen(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strstr(name, argv[i]))
			return true;
	return argc < 2;
}

static inline int test_run_all(const struct test *tests, size_t count, int argc, char **argv)
{
	int failed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < count; i++) {
		if (!test_chosen(tests[i].name, argc, argv))
			continue;
		atomic_store(&test_failures, 0);
		tests[i].run();
		if (atomic_load(&test_failures) != 0)
			failed++;
		printf("%s %s\n", atomic_load(&test_failures) == 0 ? "ok" : "FAIL", tests[i].name);
	}
	return failed == 0 ? 0 : 1;
}

#define TEST_MAIN(...)                                                                                                 \
	int main(int argc, char **argv)                                                                                \
	{                                                                                                              \
		static const struct test tests[] = { __VA_ARGS__ };                                                    \
		return test_run_all(tests, sizeof(tests) / sizeof(tests[0]), argc, argv);                              \
	}

#endif
