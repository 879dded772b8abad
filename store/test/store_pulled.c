/* SPDX-License-Identifier: BSD-2-Clause */
/* Pulled runs: the program fetches them, and says how they ended. */
#include "store_query.h"

#include "inside.h"

static void register_pulled(hwt_store *store, const char *name, unsigned mode, unsigned concurrency)
{
	hwt_store_kind kind = KIND(.name = name, .flags = HWT_STORE_PULLED, .mode = mode, .concurrency = concurrency,
				   .backoff_ns = HWT_MS(1));

	CHECK_CALL(register_patiently(store, &kind), 0);
}

/* One thread, and a pulled kind "a". */
static hwt_store *open_pulled(unsigned concurrency)
{
	hwt_store *store = OPEN(.threads = 1);

	register_pulled(store, "a", HWT_STORE_AT_LEAST_ONCE, concurrency);
	return store;
}

static hwt_store *start_pulled(unsigned concurrency)
{
	hwt_store *store;

	fresh_world();
	store = open_pulled(concurrency);
	CHECK_CALL(hwt_store_start(store), 0);
	return store;
}

static bool is_readable(int fd)
{
	struct pollfd poller = { .fd = fd, .events = POLLIN };

	return poll(&poller, 1, 0) == 1;
}

static int fd_of(hwt_store *store)
{
	int fd = -1;

	CHECK_CALL(hwt_store_fd(store, &fd), 0);
	return fd;
}

/* Waits for the next run, and returns it.  The descriptor may have been readable for a run that does not start. */
#define pull(store) pull_in(PATIENT("a run of " #store), store)
static hwt_store_run *pull_in(struct patience patience, hwt_store *store)
{
	hwt_store_run *run = NULL;
	int rc, fd = fd_of(store);

	do {
		CHECK(wait_readable_in(patience, fd));
		rc = hwt_store_next(store, &run);
	} while (rc == EAGAIN && patience_lasts(&patience, 0));
	REQUIRE(rc == 0);
	return run;
}

static void check_none(hwt_store *store)
{
	hwt_store_run *run = NULL;

	CHECK_CALL(hwt_store_next(store, &run), EAGAIN);
	CHECK(run == NULL);
	CHECK(!is_readable(fd_of(store)));
}

/* Waits until n rows are begun and not fetched. */
static void wait_ready(hwt_store *store, unsigned n)
{
	WAIT_FOR(LOCKED(store, store->poll->waiting) == n);
}

/* Waits until n rows are due and neither started nor fetched. */
static void wait_overdue(hwt_store *store, uint64_t n)
{
	WAIT_FOR(stats_of_store(store).overdue == n);
}

TEST(what_is_pulled_is_what_was_put)
{
	CLOSING hwt_store *store = start_pulled(1);
	hwt_store_spec spec = SPEC("a", 0, .key = "order 17", .group = "tenant 9", .data = "text", .len = 4);
	hwt_store_stats stats;
	hwt_store_run *run;
	uint64_t started = 0;
	int64_t id;

	id = put_spec(store, &spec);
	run = pull(store);
	CHECK_INT(fd_of(store), ==, fd_of(store));
	CHECK_INT(run->id, ==, id);
	CHECK(strcmp(run->kind, "a") == 0 && strcmp(run->key, "order 17") == 0 && strcmp(run->group, "tenant 9") == 0);
	CHECK(run->len == 4 && memcmp(run->data, "text", 4) == 0);
	CHECK_INT(run->attempt, ==, 1);
	CHECK(run->connection == NULL);
	CHECK(hwt_store_is_mine(run));
	CHECK_INT(info_of(store, id).state, ==, HWT_STORE_RUNNING);
	CHECK_INT(info_of(store, id).due_us, ==, run->due_us);
	CHECK_INT(stats_of_store(store).running, ==, 1);
	CHECK_CALL(hwt_store_cancel(store, id), EBUSY);
	CHECK_CALL(hwt_store_end(run, 0), 0);
	CHECK(wait_gone(store, id));
	stats = settled_stats(store);
	CHECK_INT(stats.done, ==, 1);
	for (size_t i = 0; i < HWTS_COUNT(stats.lateness); i++)
		started += stats.lateness[i];
	CHECK_INT(started, ==, 1);
}

/* All this happens long before the next renewal. */
TEST(what_waits_has_the_place_of_one_that_is_cancelled_or_moved_before_it_is_pulled)
{
	enum { COUNT = 3 };
	hwt_store_spec spec = SPEC("a", 0, .key = "replaced");
	int64_t ids[COUNT], last;
	hwt_store_run *run;

	fresh_world();
	CLOSING hwt_store *store = OPEN(.threads = 1, .lease_ns = HWT_S(3600));
	register_pulled(store, "a", HWT_STORE_AT_LEAST_ONCE, 1);
	CHECK_CALL(hwt_store_start(store), 0);
	for (unsigned i = 0; i < COUNT; i++) {
		ids[i] = i == 2 ? put_spec(store, &spec) : put(store, "a", 0);
		wait_overdue(store, i + 1);
	}
	last = put(store, "a", 0);
	wait_overdue(store, COUNT + 1);
	wait_ready(store, 1);
	CHECK_CALL(hwt_store_cancel(store, ids[0]), 0);
	wait_ready(store, 1);
	CHECK_CALL(hwt_store_reschedule(store, ids[1], HWT_S(3600)), 0);
	wait_ready(store, 1);
	spec.flags = HWT_STORE_REPLACE;
	spec.delay_ns = HWT_S(3600);
	CHECK_INT(put_spec(store, &spec), ==, ids[2]);
	run = pull(store);
	CHECK_INT(run->id, ==, last);
	CHECK_CALL(hwt_store_end(run, 0), 0);
}

/* Although runs were quick: in a kind with tasks the next rows would be begun ahead. */
TEST(no_more_is_begun_than_may_be_out_at_once)
{
	enum { COUNT = 6 };
	CLOSING hwt_store *store = start_pulled(2);
	hwt_store_run *out[COUNT];

	BEGIN_AHEAD(store);
	for (int i = 0; i < COUNT; i++)
		put(store, "a", 0);
	wait_ready(store, 2);
	wait_overdue(store, COUNT);
	CHECK_INT(stats_of_store(store).begun, ==, 2);
	out[0] = pull(store);
	out[1] = pull(store);
	for (int i = 2; i < COUNT; i++) {
		check_none(store);
		CHECK_INT(stats_of_store(store).begun, ==, i);
		CHECK_CALL(hwt_store_end(out[i - 2], 0), 0);
		out[i] = pull(store);
	}
	CHECK_CALL(hwt_store_end(out[COUNT - 1], 0), 0);
	CHECK_CALL(hwt_store_end(out[COUNT - 2], 0), 0);
	CHECK_INT(settled_stats(store).done, ==, COUNT);
}

/* One thread, and two pulled runs out: a kind with tasks still runs, and takes no place of the pulled kinds. */
TEST(a_run_that_is_out_takes_no_thread_from_other_kinds)
{
	hwt_store_run *first, *second;
	int64_t id;

	fresh_world();
	CLOSING hwt_store *store = open_pulled(2);
	register_kind(store, "task", count_run, NULL, HWT_STORE_AT_MOST_ONCE);
	register_pulled(store, "once", HWT_STORE_AT_MOST_ONCE, 1);
	CHECK_CALL(hwt_store_start(store), 0);
	put(store, "a", 0);
	put(store, "once", 0);
	first = pull(store);
	second = pull(store);
	put(store, "once", 0); /* this row has no place */
	wait_overdue(store, 1);
	id = put(store, "task", 0);
	CHECK(wait_gone(store, id));
	put(store, "a", 0); /* this row has a place, and is not pulled */
	wait_ready(store, 1);
	id = put(store, "task", 0);
	CHECK(wait_gone(store, id));
	CHECK_CALL(hwt_store_end(first, 0), 0);
	CHECK_CALL(hwt_store_end(second, 0), 0);
}

TEST(kinds_that_are_pulled_take_turns)
{
	hwt_store_run *runs[4];

	fresh_world();
	CLOSING hwt_store *store = open_pulled(2);
	register_kind(store, "task", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	register_pulled(store, "b", HWT_STORE_AT_LEAST_ONCE, 2);
	CHECK_CALL(hwt_store_start(store), 0);
	for (int i = 0; i < 4; i++)
		put(store, i < 2 ? "a" : "b", 0);
	wait_ready(store, 4);
	for (int i = 0; i < 4; i++)
		runs[i] = pull(store);
	for (int i = 0; i < 3; i++)
		CHECK(strcmp(runs[i]->kind, runs[i + 1]->kind) != 0);
	for (int i = 0; i < 4; i++)
		CHECK_CALL(hwt_store_end(runs[i], 0), 0);
}

/* A cap, and a pause that comes while a run waits to be pulled. */
TEST(limits_and_pauses_hold_for_what_is_pulled)
{
	CLOSING hwt_store *store = start_pulled(2);
	hwt_store_spec spec = SPEC("a", 0, .group = "tenant");
	int64_t second;
	const struct hwts_turn_group *group;
	hwt_store_run *run;

	CHECK_CALL(hwt_store_limit(store, "a", "tenant", &LIMITS(.running = 1)), 0);
	put_spec(store, &spec);
	run = pull(store);
	second = put_spec(store, &spec);
	wait_overdue(store, 1);
	check_none(store);
	CHECK_CALL(hwt_store_end(run, 0), 0);
	wait_ready(store, 1);
	CHECK_CALL(hwt_store_pause(store, "a", "tenant"), 0);
	WAIT_FOR(LOCKED(store, (group = hwts_turns_find(&hwts_kind_find(store, "a")->turns, "tenant", 6)) &&
				   group->own && group->own->paused));
	check_none(store);
	CHECK(wait_store_state(store, second, HWT_STORE_PENDING));
	CHECK_CALL(hwt_store_resume(store, "a", "tenant"), 0);
	run = pull(store);
	CHECK_INT(run->id, ==, second);
	CHECK_INT(run->attempt, ==, 1);
	CHECK_CALL(hwt_store_end(run, 0), 0);
}

/* As if the rows had waited for an hour, and nobody had read them. */
static void age(hwt_store *store)
{
	struct hwts_kind *kind = hwts_kind_find(store, "a");

	pthread_mutex_lock(&store->lock);
	for (struct hwts_row *row = kind->begun.first; row; row = row->next)
		row->queued_ns -= HWT_S(3600);
	kind->begun.since_ns -= HWT_S(3600);
	pthread_mutex_unlock(&store->lock);
}

/* The program comes when it likes: a row begun ahead for a thread would be given back by then. */
TEST(what_waits_to_be_pulled_is_read_and_not_given_back)
{
	CLOSING hwt_store *store = start_pulled(1);

	put(store, "a", 0);
	wait_ready(store, 1);
	age(store);
	CHECK_CALL(hwt_store_end(pull(store), 0), 0);
	CHECK_INT(settled_stats(store).begun, ==, 1);
}

/* The database reads them before the program gets them, however late it comes. */
TEST(what_is_cancelled_or_replaced_elsewhere_while_it_waits_to_be_pulled_does_not_start)
{
	CLOSING hwt_store *store = start_pulled(2), *other = open_store();
	hwt_store_spec series = SPEC("a", 0, .period_ns = HWT_S(3600)), single = SPEC("a", 0, .key = "k");
	int64_t cancelled = put_spec(store, &series), replaced = put_spec(store, &single);
	hwt_store_run *run;

	wait_ready(store, 2);
	CHECK_CALL(hwt_store_cancel(other, cancelled), 0);
	single.flags = HWT_STORE_REPLACE;
	single.delay_ns = HWT_S(3600);
	CHECK_INT(put_spec(other, &single), ==, replaced);
	age(store);
	CHECK_CALL(hwt_store_next(store, &run), EAGAIN);
	CHECK(wait_gone(other, cancelled));
	CHECK(wait_store_state(other, replaced, HWT_STORE_PENDING));
	check_none(store);
	CHECK_CALL(hwt_store_reschedule(other, replaced, 0), 0);
	run = pull(store);
	CHECK_INT(run->attempt, ==, 1);
	CHECK_CALL(hwt_store_end(run, 0), 0);
}

/* Nobody asks for the rows: the beginner comes by its clock. */
TEST(what_waits_to_be_pulled_is_read_though_nobody_asks_for_it)
{
	fresh_world();
	CLOSING hwt_store *store = OPEN(.threads = 1, .lease_ns = HWT_S(1)), *other = open_store();
	hwt_store_spec series = SPEC("a", 0, .period_ns = HWT_S(3600));
	int64_t id;

	register_pulled(store, "a", HWT_STORE_AT_LEAST_ONCE, 1);
	CHECK_CALL(hwt_store_start(store), 0);
	id = put_spec(store, &series);
	wait_ready(store, 1);
	CHECK_CALL(hwt_store_cancel(other, id), 0);
	CHECK(wait_gone(other, id));
	check_none(store);
}

/* In front of the engine: a statement that reads whether this row is pending is refused. */
static struct {
	const struct hwts_engine *engine;
	_Atomic int64_t id;
	atomic_uint refused;
} damaged;

static int read_damaged(struct hwts_conn *conn, const struct hwts_step *steps, size_t n, unsigned flags)
{
	const int64_t *ids = steps[0].sql == HWTS_SQL_PENDING ? steps[0].args[0].bytes : NULL;

	for (size_t i = 0; ids && i < steps[0].args[0].len; i++)
		if (ids[i] == atomic_load(&damaged.id)) {
			conn->refused = conn->broken = true; /* as SQLite's connection is after damage */
			atomic_fetch_add(&damaged.refused, 1);
			return hwts_fail(EIO, "a damaged page");
		}
	return damaged.engine->run(conn, steps, n, flags);
}

static void put_damage_before(hwt_store *store)
{
	static struct hwts_engine front;

	damaged.engine = store->engine;
	front = *damaged.engine;
	front.run = read_damaged;
	store->engine = store->db->engine = &front;
}

/* A row that cannot be read waits on, and its neighbours are read. */
TEST(what_is_cancelled_beside_a_damaged_row_does_not_start)
{
	fresh_world();
	CLOSING hwt_store *store = open_pulled(3), *other = open_store();
	hwt_store_spec series = SPEC("a", 0, .period_ns = HWT_S(3600));
	int64_t ids[3];
	hwt_store_run *run;

	put_damage_before(store);
	CHECK_CALL(hwt_store_start(store), 0);
	for (int i = 0; i < 3; i++)
		ids[i] = put_spec(store, &series);
	wait_ready(store, 3);
	CHECK_CALL(hwt_store_cancel(other, ids[0]), 0);
	CHECK_CALL(hwt_store_cancel(other, ids[2]), 0);
	atomic_store(&damaged.id, ids[1]);
	age(store);
	run = pull(store);
	CHECK_INT(run->id, ==, ids[1]);
	CHECK(wait_gone(other, ids[0]));
	CHECK(wait_gone(other, ids[2]));
	CHECK_INT(atomic_load(&damaged.refused), >=, 2);
	CHECK_CALL(hwt_store_end(run, 0), 0);
	check_none(store);
}

/*
 * Many threads
 */

#define MANY 200

static struct {
	hwt_store *store;
	atomic_uint pulled;
} many;

static void *pull_many(void *arg)
{
	int fd = fd_of(many.store), rc;
	hwt_store_run *run;

	(void)arg;
	while ((rc = hwt_store_next(many.store, &run)) != ECANCELED)
		if (rc == 0) {
			CHECK_INT(run->attempt, ==, 1);
			atomic_fetch_add(&many.pulled, 1);
			CHECK_INT(hwt_store_end(run, 0), ==, 0);
		} else {
			CHECK_INT(rc, ==, EAGAIN);
			CHECK(wait_readable(fd));
		}
	return NULL;
}

/* A stop wakes the threads that poll. */
TEST(threads_pull_beside_each_other_until_the_store_stops)
{
	pthread_t threads[4];
	CLOSING hwt_store *store = start_pulled(3);

	many.store = store;
	atomic_store(&many.pulled, 0);
	for (size_t i = 0; i < HWTS_COUNT(threads); i++)
		REQUIRE(pthread_create(&threads[i], NULL, pull_many, NULL) == 0);
	for (int i = 0; i < MANY; i++)
		put(store, "a", 0);
	WAIT_FOR(stats_of_store(store).done >= MANY);
	CHECK_CALL(hwt_store_stop(store), 0);
	for (size_t i = 0; i < HWTS_COUNT(threads); i++)
		REQUIRE(pthread_join(threads[i], NULL) == 0);
	CHECK_INT(atomic_load(&many.pulled), ==, MANY);
	CHECK_INT(stats_of_store(store).done, ==, MANY);
}

/*
 * Stop and close
 */

/* No lease ends in this test: the other process has shards only because the stop hands them over. */
TEST(a_stop_within_a_time_gives_the_shards_and_the_other_end_counts)
{
	CLOSING hwt_store *store = start_pulled(2);
	hwt_store *other;
	hwt_store_run *run, *mine, *theirs, *none = NULL;
	int64_t id = put(store, "a", 0), unbegun;

	run = pull(store);
	unbegun = put(store, "a", 0);
	mine = pull(store);
	CHECK_CALL(hwt_store_stop_within(store, 0), ETIMEDOUT);
	CHECK_INT(stats_of_store(store).shards_held, ==, 0);
	CHECK_CALL(hwt_store_next(store, &none), ECANCELED);
	CHECK_CALL(hwt_store_start(store), EBUSY);
	CHECK_CALL(hwt_store_stop(store), EBUSY);
	CHECK_CALL(hwt_store_stop_within(store, HWT_MS(1)), ETIMEDOUT);
	CHECK(!hwt_store_is_mine(run));
	CHECK_CALL(hwt_store_end(mine, 0), 0); /* no other process has begun it */
	CHECK_CALL(hwt_store_get(store, unbegun, &(hwt_store_info)HWT_STORE_INFO_INIT), ENOENT);
	other = open_pulled(1);
	CHECK_CALL(hwt_store_start(other), 0);
	theirs = pull(other);
	CHECK_INT(theirs->id, ==, id);
	CHECK_INT(theirs->attempt, ==, 2);
	CHECK_CALL(hwt_store_end(run, 0), ESTALE);
	CHECK_INT(info_of(other, id).state, ==, HWT_STORE_RUNNING);
	CHECK_CALL(hwt_store_stop_within(store, PATIENCE_NS), 0);
	CHECK_INT(stats_of_store(store).done, ==, 1);
	CHECK_CALL(hwt_store_end(theirs, 0), 0);
	CHECK(wait_gone(other, id));
	CHECK_CALL(hwt_store_close(other), 0);
	CHECK_CALL(hwt_store_start(store), 0);
}

/* Without a stop; after a stop that is EBUSY while runs are out; and after one whose time has passed. */
TEST(a_close_frees_what_is_out_and_it_runs_elsewhere)
{
	for (int stop = 0; stop < 3; stop++) {
		hwt_store_run *run;
		int64_t id, once;

		fresh_world();
		CLOSING hwt_store *store = open_pulled(2);
		register_pulled(store, "once", HWT_STORE_AT_MOST_ONCE, 1);
		CHECK_CALL(hwt_store_start(store), 0);
		id = put(store, "a", 0);
		once = put(store, "once", 0);
		(void)pull(store);
		(void)pull(store);
		if (stop == 1)
			CHECK_CALL(hwt_store_stop(store), EBUSY);
		if (stop == 2)
			CHECK_CALL(hwt_store_stop_within(store, 0), ETIMEDOUT);
		CHECK_CALL(hwt_store_close(store), 0);
		store = open_pulled(2);
		register_pulled(store, "once", HWT_STORE_AT_MOST_ONCE, 1);
		CHECK_INT(info_of(store, id).state, ==, HWT_STORE_RUNNING);
		CHECK_INT(info_of(store, id).owner[0], ==, '\0');
		CHECK_CALL(hwt_store_start(store), 0);
		run = pull(store);
		CHECK_INT(run->id, ==, id);
		CHECK_INT(run->attempt, ==, 2);
		CHECK_CALL(hwt_store_end(run, 0), 0);
		CHECK(wait_store_state(store, once, HWT_STORE_FAILED));
	}
}

/*
 * The lease is lost, and control, which may look at any time, does not notice before the test is over
 */

static atomic_bool control_waits;

static void hold_control(const char *at)
{
	while (strcmp(at, "renewed") == 0 && atomic_load(&control_waits))
		sleep_ms(1);
}

TEST(an_end_after_the_lease_is_what_the_database_says)
{
	hwt_store *store = start_pulled(3);
	hwt_store_run *mine, *lost, *none = NULL;
	int64_t id = put(store, "a", 0), other, waits;
	hwt_store_info info = HWT_STORE_INFO_INIT;

	mine = pull(store);
	other = put(store, "a", 0);
	lost = pull(store);
	waits = put(store, "a", 0);
	wait_ready(store, 1);
	atomic_store(&control_waits, true);
	atomic_store(&hwts_test_at, hold_control);
	atomic_store(&hwts_test_boot_ns, HWT_S(601));
	CHECK(!hwt_store_is_mine(mine));
	CHECK_CALL(hwt_store_end(mine, 0), 0);
	CHECK_CALL(hwt_store_get(store, id, &info), ENOENT);
	CHECK_CALL(hwt_store_next(store, &none), EAGAIN); /* and the run is given back */
	CHECK(!is_readable(fd_of(store)));
	CHECK(wait_store_state(store, waits, HWT_STORE_PENDING));
	(void)query("update %s_timeout set epoch = epoch + 1 where state = 2", world.schema);
	CHECK_CALL(hwt_store_end(lost, 0), ESTALE);
	CHECK_INT(info_of(store, other).state, ==, HWT_STORE_RUNNING);
	CHECK_INT(settled_stats(store).done, ==, 1);
	atomic_store(&hwts_test_boot_ns, 0);
	atomic_store(&control_waits, false);
	CHECK_CALL(hwt_store_close(store), 0);
	atomic_store(&hwts_test_at, NULL);
}

static struct {
	hwt_store_run *run;
	atomic_int rc;
} inner;

static int end_within(const hwt_store_run *run, void *ctx)
{
	(void)run;
	(void)ctx;
	atomic_store(&hwts_test_boot_ns, HWT_S(601));
	atomic_store(&inner.rc, hwt_store_end(inner.run, 0));
	atomic_store(&hwts_test_boot_ns, 0);
	return 0;
}

/* A lock that the task holds is in the way of the answer. */
TEST(an_end_that_would_wait_for_its_own_transaction_is_refused)
{
	int64_t id, outer;

	fresh_world();
	CLOSING hwt_store *store = open_pulled(1);
	register_kind(store, "task", end_within, NULL, HWT_STORE_TRANSACTION);
	CHECK_CALL(hwt_store_start(store), 0);
	id = put(store, "a", 0);
	inner.run = pull(store);
	atomic_store(&inner.rc, -1);
	outer = put(store, "task", 0);
	CHECK(wait_gone(store, outer));
	CHECK_INT(atomic_load(&inner.rc), ==, world.sqlite ? EDEADLK : 0);
	if (world.sqlite)
		CHECK_CALL(hwt_store_end(inner.run, 0), 0);
	CHECK(wait_gone(store, id));
}

/*
 * What is refused
 */

static bool refuse(void)
{
	return true;
}

TEST(without_memory_nothing_is_handed_out_and_it_waits)
{
	CLOSING hwt_store *store = start_pulled(1);
	hwt_store_run *run = NULL;

	put(store, "a", 0);
	wait_ready(store, 1);
	(void)fd_of(store);
	atomic_store(&hwts_test_refuses_memory, refuse);
	CHECK_CALL(hwt_store_next(store, &run), ENOMEM);
	atomic_store(&hwts_test_refuses_memory, NULL);
	CHECK(is_readable(fd_of(store)));
	run = pull(store);
	CHECK_INT(run->attempt, ==, 1);
	CHECK_CALL(hwt_store_end(run, 0), 0);
}

TEST(what_makes_no_sense_of_a_pulled_kind_is_refused)
{
	const hwt_store_kind wrong[] = {
		KIND(.name = "a", .flags = HWT_STORE_PULLED, .task = count_run),
		KIND(.name = "a", .flags = HWT_STORE_PULLED, .mode = HWT_STORE_TRANSACTION),
		KIND(.name = "a", .flags = HWT_STORE_PULLED << 1 | HWT_STORE_PULLED),
		KIND(.name = "a"),
	};
	hwt_store_run *run = NULL;
	CLOSING hwt_store *store = fresh_store();
	int fd = -1;

	for (size_t i = 0; i < HWTS_COUNT(wrong); i++)
		CHECK_CALL(hwt_store_register(store, &wrong[i]), EINVAL);
	register_pulled(store, "a", HWT_STORE_AT_LEAST_ONCE, 0);
	CHECK(is_readable(fd_of(store))); /* before the first start */
	CHECK_CALL(hwt_store_next(store, &run), ECANCELED);
	CHECK_CALL(hwt_store_fd(NULL, &fd), EINVAL);
	CHECK_CALL(hwt_store_fd(store, NULL), EINVAL);
	CHECK_CALL(hwt_store_next(NULL, &run), EINVAL);
	CHECK_CALL(hwt_store_next(store, NULL), EINVAL);
	CHECK_CALL(hwt_store_end(NULL, 0), EINVAL);
	CHECK(fd == -1 && run == NULL);
}

/* A thread that does not exist in the child may have held the store's lock. */
TEST(a_run_is_not_that_of_a_forked_child)
{
	CLOSING hwt_store *store = start_pulled(1);
	int64_t id = put(store, "a", 0);
	hwt_store_run *run = pull(store);
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(hwt_store_is_mine(run) || hwt_store_end(run, 0) != EINVAL);
	CHECK_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK_INT(status, ==, 0);
	CHECK(hwt_store_is_mine(run));
	CHECK_CALL(hwt_store_end(run, 0), 0);
	CHECK(wait_gone(store, id));
}

STORE_MAIN(NULL)
