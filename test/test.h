/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The test harness: checks that may fail on any thread, and a main that runs every TEST of the file.
 *
 * Why not cmocka or Check: their assertions leave the test by longjmp or exit, which must not happen on the worker
 * thread, where half of our checks run.  Here a check counts, prints and goes on.
 *
 *     TEST(name) { CHECK(x > 1); CHECK_INT(f(x), ==, 3); }
 *     TEST_MAIN()
 *
 * HWT_FAIL_FAST=1: the first test that fails is the last one.
 *
 * A wait for another thread or process tells test_waited how long it lasts, again and again.  After 20 s the program
 * says where it waits, and below the result of a test stands its longest wait, if that was a second: test/run.sh lists
 * them.
 *
 * A TEST registers itself, so none is forgotten.  A program runs all of them in the order of the file, or those whose
 * name contains one of its arguments, and speaks TAP, the Test Anything Protocol, for prove(1).
 */
#ifndef HWT_TEST_H
#define HWT_TEST_H

#include <inttypes.h>
#ifdef __cplusplus /* test_cpp.cpp */
#include <atomic>
using std::atomic_fetch_add;
using std::atomic_flag;
using std::atomic_flag_clear;
using std::atomic_flag_test_and_set;
using std::atomic_load;
using std::atomic_store;
using std::atomic_uint;
#else
#include <stdatomic.h>
#endif
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test {
	const char *name;
	void (*run)(void);
	struct test *next;
};

static struct test *test_first;
static __attribute__((unused)) struct test **test_end = &test_first; /* unused in a file whose tests are all left out */
static atomic_uint test_failures;                                    /* of the running test */
static const char *test_skipped;                                     /* the reason, if the running test is skipped */

/* Compilers keep the order of constructors within a file. */
#define TEST(name)                                                                                                     \
	static void name(void);                                                                                        \
	__attribute__((constructor)) static void test_register_##name(void)                                            \
	{                                                                                                              \
		static struct test self = { #name, name, NULL };                                                       \
                                                                                                                       \
		*test_end = &self;                                                                                     \
		test_end = &self.next;                                                                                 \
	}                                                                                                              \
	static void name(void)

/* Skips the rest of this test; the report says why. */
#define SKIP(why)                                                                                                      \
	do {                                                                                                           \
		test_skipped = (why);                                                                                  \
		return;                                                                                                \
	} while (0)

/* Skips a test of a feature that a POSIX-only build lacks. */
#ifdef HWT_PORTABLE
#define NEEDS_LINUX() SKIP("a portable build")
#else
#define NEEDS_LINUX() ((void)0)
#endif

#define CHECK(condition) ((condition) ? (void)0 : test_fail(__FILE__, __LINE__, #condition, 0, 0, false))

/* Compares both sides as int64_t, so that a failure shows their values. */
#define CHECK_INT(left, op, right)                                                                                     \
	do {                                                                                                           \
		int64_t left_ = (int64_t)(left), right_ = (int64_t)(right);                                            \
		if (!(left_ op right_))                                                                                \
			test_fail(__FILE__, __LINE__, #left " " #op " " #right, left_, right_, true);                  \
	} while (0)

/* Checks a condition that the rest of the test needs; ends the program if it fails. */
#define REQUIRE(condition) ((condition) ? (void)0 : (test_fail(__FILE__, __LINE__, #condition, 0, 0, false), exit(1)))

static inline void test_fail(const char *file, int line, const char *what, int64_t left, int64_t right, bool values)
{
	unsigned before = atomic_fetch_add(&test_failures, 1);

	if (before >= 20) /* enough messages to see the fault */
		return;
	if (values)
		fprintf(stderr, "%s:%d: %s: %" PRId64 " against %" PRId64 "\n", file, line, what, left, right);
	else
		fprintf(stderr, "%s:%d: %s\n", file, line, what);
}

#define TEST_LONG_WAIT_NS INT64_C(20000000000)

static struct {
	const char *name;    /* of the running test */
	atomic_flag is_busy; /* the others, which the longest wait of the test fills in */
	const char *file, *what;
	int line;
	int64_t ns;
} test_longest = { NULL, ATOMIC_FLAG_INIT, NULL, NULL, 0, 0 };

/* Notes that a wait has lasted `ns` so far. */
static inline void test_waited(const char *file, int line, const char *what, int64_t ns)
{
	/* If another wait is being noted at this moment, the next call notes this one. */
	if (ns < 1000000000 || atomic_flag_test_and_set(&test_longest.is_busy))
		return;
	if (ns >= TEST_LONG_WAIT_NS && test_longest.ns < TEST_LONG_WAIT_NS)
		fprintf(stderr, "# %s waits for 20 s: %s:%d: %s\n", test_longest.name ? test_longest.name : "a child",
			file, line, what);
	if (ns > test_longest.ns) {
		test_longest.file = file;
		test_longest.what = what;
		test_longest.line = line;
		test_longest.ns = ns;
	}
	atomic_flag_clear(&test_longest.is_busy);
}

static inline bool test_chosen(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strstr(name, argv[i]))
			return true;
	return argc < 2;
}

static inline bool test_run(const struct test *test, unsigned number)
{
	bool passed;

	atomic_store(&test_failures, 0);
	test_skipped = NULL;
	test_longest.name = test->name;
	test_longest.ns = 0;
	test->run();
	passed = atomic_load(&test_failures) == 0;
	printf("%sok %u - %s%s%s\n", passed ? "" : "not ", number, test->name, test_skipped ? " # SKIP " : "",
	       test_skipped ? test_skipped : "");
	if (test_longest.ns > 0)
		printf("# waited %.1f s: %s at %s:%d: %s\n", (double)test_longest.ns / 1e9, test->name,
		       test_longest.file, test_longest.line, test_longest.what);
	return passed;
}

static inline int test_run_all(int argc, char **argv)
{
	unsigned count = 0, failed = 0;
	bool fail_fast = getenv("HWT_FAIL_FAST") != NULL;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (const struct test *test = test_first; test != NULL && (failed == 0 || !fail_fast); test = test->next)
		if (test_chosen(test->name, argc, argv))
			failed += !test_run(test, ++count);
	printf("1..%u\n", count);
	if (count == 0 && argc > 1)
		fprintf(stderr, "%s: no test has such a name\n", argv[0]);
	return failed == 0 && (count > 0 || argc < 2) ? 0 : 1; /* a build may lack the feature of all tests */
}

#define TEST_MAIN()                                                                                                    \
	int main(int argc, char **argv)                                                                                \
	{                                                                                                              \
		return test_run_all(argc, argv);                                                                       \
	}

#endif
