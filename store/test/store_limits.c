/* SPDX-License-Identifier: BSD-2-Clause */
/* Groups in a store: turns, priority.  What is told by the order of starts needs no clock. */
#include "store.h"
#include "core/store.h"
#include "core/threads.h"
#include "core/kind.h"
#include "core/tasks.h"

#define STARTS 4096

static struct {
	char group[16];
	int priority;
} starts[STARTS];
static atomic_uint started, ended, running, most;
static atomic_bool held;

/* Notes its start, and waits while it is held. */
static int note(const hwt_store_run *run, void *ctx)
{
	unsigned at = atomic_fetch_add(&started, 1), now = atomic_fetch_add(&running, 1) + 1;

	(void)ctx;
	REQUIRE(at < STARTS);
	(void)snprintf(starts[at].group, sizeof(starts[at].group), "%s", run->group ? run->group : "");
	starts[at].priority = run->len == sizeof(int) ? *(const int *)run->data : 0;
	for (unsigned is = atomic_load(&most); now > is && !atomic_compare_exchange_weak(&most, &is, now);)
		;
	while (atomic_load(&held))
		sleep_ms(1);
	atomic_fetch_sub(&running, 1);
	atomic_fetch_add(&ended, 1);
	return 0;
}

static void put_in(hwt_store *store, const char *group, int priority, unsigned count)
{
	hwt_store_spec specs[100];

	for (unsigned i = 0; i < HWTS_COUNT(specs); i++) {
		specs[i] = spec_of("a", 0);
		specs[i].group = group;
		specs[i].priority = priority;
		specs[i].data = &priority;
		specs[i].len = sizeof(priority);
	}
	for (unsigned at = 0; at < count; at += 100)
		CHECK_CALL(hwt_store_put_many(store, specs, count - at < 100 ? count - at : 100, NULL), 0);
}

static hwt_store *start_with(unsigned threads, bool hold)
{
	hwt_store_config config;
	hwt_store *store;

	fresh_world();
	atomic_store(&started, 0);
	atomic_store(&ended, 0);
	atomic_store(&running, 0);
	atomic_store(&most, 0);
	atomic_store(&held, hold);
	config = store_config();
	config.threads = threads;
	store = open_with(&config);
	register_kind(store, "a", note, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	return store;
}

static bool wait_window(hwt_store *store, uint64_t count)
{
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;

	while (stats_of_store(store).overdue != count && hwt_now() < give_up_ns)
		sleep_ms(1);
	return stats_of_store(store).overdue == count;
}

/* At which of all starts the nth one of a group was; from 1 on. */
static unsigned place_of(const char *group, unsigned n)
{
	for (unsigned i = 0; i < atomic_load(&started); i++)
		if (strcmp(starts[i].group, group) == 0 && --n == 0)
			return i + 1;
	return STARTS;
}

TEST(a_tenant_that_floods_does_not_hold_up_the_others)
{
	hwt_store *store = start_with(1, true);

	put_in(store, "flood", 0, 300);
	CHECK(wait_count(&started, 1));
	put_in(store, "b", 0, 3);
	put_in(store, NULL, 0, 3);
	CHECK(wait_window(store, 305));
	atomic_store(&held, false);
	CHECK(wait_count(&ended, 306));
	/* One of the flood was running, and of three that take turns each has one of three. */
	CHECK_INT(place_of("b", 3), <=, 10);
	CHECK_INT(place_of("", 3), <=, 10);
	CHECK_CALL(hwt_store_close(store), 0);
}

/* Where in the queue for a thread the last of b's is; 0: not all of them are there, or too few of the flood. */
static unsigned place_in_queue(hwt_store *store)
{
	unsigned at = 0, last = 0, of_b = 0, of_flood = 0;

	hwts_lock(store);
	for (const struct hwts_row *row = store->kinds->queue.first; row; row = row->next) {
		at++;
		of_b += strcmp(row->group, "b") == 0;
		of_flood += strcmp(row->group, "flood") == 0;
		last = strcmp(row->group, "b") == 0 ? at : last;
	}
	store->kinds->queue.run_ns = 1; /* what has waited for too long is given back, and is begun again */
	hwts_unlock(store);
	return of_b == 3 && of_flood > 20 ? last : 0;
}

TEST(what_was_begun_ahead_takes_turns_too)
{
	hwt_store *store = start_with(1, true);
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;
	unsigned place;

	put_in(store, "x", 0, 1);
	CHECK(wait_count(&started, 1));
	BEGIN_AHEAD(store);
	put_in(store, "flood", 0, 100); /* with less than half a batch in the queue more is begun */
	put_in(store, "b", 0, 3);
	while ((place = place_in_queue(store)) == 0 && hwt_now() < give_up_ns)
		sleep_ms(1);
	CHECK_INT(place, >, 0);
	CHECK_INT(place, <=, 6);
	atomic_store(&held, false);
	CHECK(wait_count(&ended, 104));
	CHECK_CALL(hwt_store_close(store), 0);
}

TEST(within_a_group_the_larger_priority_starts_first)
{
	hwt_store *store = start_with(1, true);

	put_in(store, "g", 0, 1);
	CHECK(wait_count(&started, 1));
	for (int priority = -2; priority <= 2; priority++)
		put_in(store, "g", priority, 20);
	CHECK(wait_window(store, 100));
	atomic_store(&held, false);
	CHECK(wait_count(&ended, 101));
	for (unsigned i = 2; i < 101; i++)
		CHECK_INT(starts[i].priority, <=, starts[i - 1].priority);
	CHECK_CALL(hwt_store_close(store), 0);
}

static int child(int argc, char **argv)
{
	hwt_store_config config;
	hwt_store *store;
	int priority = atoi(argv[5]);
	unsigned count = (unsigned)atoi(argv[4]);

	(void)argc;
	enter_world(argv + 1);
	config = store_config();
	config.name = NULL;
	store = open_with(&config);
	put_in(store, argv[6], priority, count);
	return hwt_store_close(store);
}

/* News of another process carry the group and the priority. */
TEST(what_another_process_puts_takes_turns_too)
{
	hwt_store *store = start_with(1, true);
	int status = -1;
	pid_t pid;

	put_in(store, "flood", 0, 100);
	CHECK(wait_count(&started, 1));
	pid = spawn("put", "3", "1", "b", NULL);
	CHECK_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK_INT(status, ==, 0);
	pid = spawn("put", "2", "7", "flood", NULL);
	CHECK_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK_INT(status, ==, 0);
	CHECK(wait_window(store, 104));
	atomic_store(&held, false);
	CHECK(wait_count(&ended, 105));
	CHECK_INT(place_of("b", 3), <=, 7);
	CHECK_INT(starts[place_of("flood", 2) - 1].priority, ==, 7);
	CHECK_INT(starts[place_of("flood", 3) - 1].priority, ==, 7);
	CHECK_CALL(hwt_store_close(store), 0);
}

STORE_MAIN(child)
