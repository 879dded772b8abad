/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The net finds what was lost: news, wake-ups, ticks of the timer in front, rows on their way into the window.  Nothing
 * is lost when threads start, stop or look at awkward moments: in those tests the net must have found nothing.
 */
#include "store.h"

#include "store/store.h"

#define LEASE_NS HWT_S(1)

static int count_not_early(const hwt_store_run *run, void *ctx)
{
	(void)ctx;
	CHECK_INT(now_us(), >=, run->due_us);
	atomic_fetch_add(&ran, 1);
	return 0;
}

static hwt_store *started(int64_t lease_ns)
{
	return run_tasks(FRESH(.lease_ns = lease_ns), count_not_early, HWT_STORE_AT_LEAST_ONCE);
}

/*
 * The net
 */

TEST(what_was_lost_on_its_way_into_the_window_runs_two_thirds_of_a_lease_late)
{
	CLOSING hwt_store *store = started(LEASE_NS);
	unsigned rescued = atomic_load(&hwts_test_rescued);

	atomic_store(&hwts_test_loses_rows, true);
	for (int i = 0; i < 20; i++)
		/* No look reads the rows before the marks, which are 5 s ahead, however late the look comes. */
		put(store, "a", 0);
	CHECK(wait_count(&ran, 20));
	CHECK_INT(atomic_load(&hwts_test_rescued) - rescued, >=, 20);
	atomic_store(&hwts_test_loses_rows, false);
}

TEST(what_the_timer_in_front_has_forgotten_runs_two_thirds_of_a_lease_late)
{
	CLOSING hwt_store *store = started(LEASE_NS);

	atomic_store(&hwts_test_loses_timers, true);
	for (int i = 0; i < 20; i++)
		put(store, "a", HWT_MS(100));
	sleep_ms(250);
	atomic_store(&hwts_test_loses_timers, false);
	CHECK(wait_count(&ran, 20));
}

/*
 * The beginner, the tasks and the ender in turn miss their wake-ups.  Rows that are begun wait for the next renewal,
 * longer than the beginner would leave them in the queue.
 */
TEST(threads_that_missed_a_wake_up_are_woken_by_the_renewal)
{
	CLOSING hwt_store *store = started(LEASE_NS);
	int64_t id;

	sleep_ms(100); /* all threads wait */
	atomic_store(&hwts_test_keeps_begun, true);
	atomic_store(&hwts_test_loses_wakes, true);
	id = put(store, "a", 0);
	CHECK(wait_count(&ran, 1));
	CHECK(wait_gone(store, id)); /* its end is committed as well */
	atomic_store(&hwts_test_loses_wakes, false);
	atomic_store(&hwts_test_keeps_begun, false);
}

/*
 * Awkward moments
 */

static struct {
	hwt_store *store;
	_Atomic(hwt_store *) other; /* the process that leaves */
} looks;

static void let_it_leave(const char *where)
{
	hwt_store *other;

	if (strcmp(where, "renewed") != 0 || !IS_CONTROL(looks.store))
		return;
	other = atomic_exchange(&looks.other, NULL);
	if (other)
		CHECK_INT(hwt_store_stop(other), ==, 0);
	sleep_ms(other ? 100 : 0); /* until the news is there */
}

/* The news comes between a look and the sleep after it, so it does not wake control. */
TEST(a_process_that_leaves_while_the_other_one_looks_leaves_its_shards_at_once)
{
	CLOSING hwt_store *store = started(HWT_S(3600)); /* a look each 20 minutes: longer than patience */
	CLOSING hwt_store *other = OPEN(.lease_ns = HWT_S(3600));

	register_and_start(other, &KIND(.name = "a", .task = count_not_early));
	CHECK(wait_held(store, 4));
	sleep_ms(300); /* the looks that the new member has caused are over */
	looks.store = store;
	atomic_store(&looks.other, other);
	atomic_store(&hwts_test_at, let_it_leave);
	hwts_hear_news(store, &(struct hwts_due){ .id = -1 });
	hwts_poke(store);
	WAIT_FOR(atomic_load(&looks.other) == NULL);
	CHECK(wait_held(store, 8));
	CHECK_INT(stats_of_store(store).taken_over, ==, 0);
	atomic_store(&hwts_test_at, NULL);
}

static hwt_store *_Atomic puts_behind;
static int64_t behind_us; /* beyond the mark of a first look, and before the mark of a second */

static void put_behind_the_look(const char *where)
{
	hwt_store *store = strcmp(where, "looked") == 0 ? atomic_load(&puts_behind) : NULL;

	if (!store)
		return;
	if (behind_us == 0) {
		behind_us = now_us() + 5000 + INT64_C(400000000); /* the horizon is 2/3 of the lease */
		sleep_ms(10);
		look_now(store);
		return;
	}
	atomic_store(&puts_behind, NULL);
	CHECK_CALL(hwt_store_put(store, &SPEC("a", 0, .flags = HWT_STORE_ABSOLUTE, .due_us = behind_us), NULL), 0);
}

/*
 * The look has read the shards, and has not set its marks.  The row is due in 400 s, so only the window shows it: the
 * net looks for overdue rows, and the next look that is not asked for comes in 200 s.
 */
TEST(what_is_put_between_a_look_and_its_marks_comes_into_the_window)
{
	CLOSING hwt_store *store = started(HWT_S(600));

	behind_us = 0;
	atomic_store(&puts_behind, store);
	atomic_store(&hwts_test_at, put_behind_the_look);
	look_now(store);
	WAIT_FOR(stats_of_store(store).window != 0);
	atomic_store(&hwts_test_at, NULL);
	CHECK(atomic_load(&puts_behind) == NULL);
	CHECK_INT(stats_of_store(store).window, ==, 1);
}

STORE_MAIN(NULL)
