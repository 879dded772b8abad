/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of the store, in one process: put, key, cancel, reschedule, life.
 */
#include "store.h"

#include "inside.h"

/* A store with the kind "a", started if asked. */
static hwt_store *simple_store(hwt_store_task *task, void *ctx, bool start)
{
	hwt_store *store = fresh_store();

	register_kind(store, "a", task, ctx, HWT_STORE_AT_LEAST_ONCE);
	if (start)
		CHECK_CALL(hwt_store_start(store), 0);
	return store;
}

/* Makes the holder believe that the row is due, as after lost news.  Returns when the holder has tried to begin it. */
static void begin_in_vain(hwt_store *store, int64_t id)
{
	int32_t shard = hwts_shard_of(&store->kinds->row, id);

	WAIT_READ(store); /* until a shard has been read, its news is left to that look */
	count_passes("begun");
	hwts_hear_news(store, &(struct hwts_due){ .id = id, .due_us = now_us(), .shard = shard });
	CHECK(wait_count(&passes, 1));
}

TEST(a_put_runs_once_and_not_early)
{
	struct hwt_store_stats stats;
	int64_t before_ns, id;
	CLOSING hwt_store *store = simple_store(count_run, NULL, true);

	before_ns = hwt_now();
	id = put(store, "a", HWT_MS(300));
	CHECK(wait_count(&ran, 1));
	CHECK_INT(hwt_now() - before_ns, >=, HWT_MS(299)); /* the database's clock and ours differ by drift alone */
	CHECK(wait_gone(store, id));
	sleep_ms(50);
	CHECK_INT(atomic_load(&ran), ==, 1);
	stats = settled_stats(store);
	CHECK_INT(stats.put, ==, 1);
	CHECK_INT(stats.begun, >=, 1); /* a row that waits too long for a thread is begun once more */
	CHECK_INT(stats.done, ==, 1);
	CHECK_INT(stats.failed + stats.retried + stats.cancelled, ==, 0);
	CHECK_INT(stats.shards_held, ==, 8);
	CHECK_INT(stats.window + stats.running, ==, 0);
}

/* What a run must contain, and the run. */
struct seen {
	hwt_store_spec spec;
	unsigned mode;
	int64_t id;
	atomic_uint done;
};

static bool is_text(const char *text, const char *wanted)
{
	return text && wanted ? strcmp(text, wanted) == 0 : text == wanted;
}

static int look_at_run(const hwt_store_run *run, void *ctx)
{
	struct seen *seen = ctx;
	const hwt_store_spec *spec = &seen->spec;

	CHECK(is_text(run->kind, spec->kind) && is_text(run->key, spec->key) && is_text(run->group, spec->group));
	CHECK_INT(run->len, ==, spec->len);
	CHECK(run->len > 0 ? memcmp(run->data, spec->data, run->len) == 0 : run->data == NULL);
	if (spec->flags & HWT_STORE_ABSOLUTE)
		CHECK_INT(run->due_us, ==, spec->due_us);
	CHECK_INT(run->attempt, ==, 1);
	CHECK_INT(run->missed, ==, 0);
	CHECK((run->connection != NULL) == (seen->mode == HWT_STORE_TRANSACTION));
	CHECK(hwt_store_is_mine(run));
	seen->id = run->id;
	atomic_fetch_add(&seen->done, 1);
	return 0;
}

/* A key of 255 bytes, with quotes of both kinds and characters of two and four bytes. */
static void odd_key(char key[256])
{
	memset(key, 'k', 255);
	memcpy(key, "it's \"{a}\\,NULL;--\xc3\xa9\xf0\x9f\x8d\x8b", 24);
	key[255] = '\0';
}

TEST(a_run_is_given_what_was_put)
{
	static const char *const kinds[] = { "least", "most", "transaction" };
	static struct seen seen;
	size_t lens[] = { 0, 1, 40, 70000, HWT_STORE_DATA_MAX };
	unsigned char *data = malloc(HWT_STORE_DATA_MAX);
	hwt_store *store = fresh_store();
	char key[256], group[256];

	odd_key(key);
	odd_key(group);
	group[0] = 'I';
	for (size_t i = 0; i < HWT_STORE_DATA_MAX; i++)
		data[i] = (unsigned char)(i * 7 + i / 256);
	for (unsigned mode = 0; mode < HWTS_COUNT(kinds); mode++)
		register_kind(store, kinds[mode], look_at_run, &seen, mode);
	CHECK_CALL(hwt_store_start(store), 0);
	for (unsigned i = 0; i < HWTS_COUNT(lens) * HWTS_COUNT(kinds); i++) {
		int64_t id;

		seen.mode = i % HWTS_COUNT(kinds);
		seen.spec = SPEC(kinds[seen.mode], 0, .key = i % 2 ? key : NULL, .group = i % 4 > 1 ? group : NULL,
				 .len = lens[i / HWTS_COUNT(kinds)], .flags = HWT_STORE_ABSOLUTE,
				 .due_us = 1000000 + i);
		seen.spec.data = seen.spec.len > 0 ? data : NULL;
		CHECK_CALL(hwt_store_put(store, &seen.spec, &id), 0);
		CHECK(wait_count(&seen.done, i + 1));
		CHECK_INT(seen.id, ==, id);
		CHECK(wait_gone(store, id));
	}
	CHECK_CALL(hwt_store_close(store), 0);
	free(data);
}

TEST(a_put_survives_the_store_that_made_it)
{
	CLOSING hwt_store *store = simple_store(count_run, NULL, false);
	int64_t ids[3];

	for (int i = 0; i < 3; i++)
		ids[i] = put(store, "a", 0);
	CHECK_CALL(hwt_store_close(store), 0);
	store = open_store();
	register_kind(store, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_count(&ran, 3));
	for (int i = 0; i < 3; i++)
		CHECK(wait_gone(store, ids[i]));
}

TEST(replace_puts_off)
{
	static struct seen seen;
	CLOSING hwt_store *store = simple_store(look_at_run, &seen, true);
	hwt_store_spec spec = SPEC("a", HWT_S(1000), .key = "k", .flags = HWT_STORE_REPLACE, .data = "one", .len = 3);
	int64_t first, due_us;

	first = put_spec(store, &spec);
	due_us = info_of(store, first).due_us;
	spec.data = "three";
	spec.len = 5;
	for (int i = 0; i < 10; i++) {
		CHECK_INT(put_spec(store, &spec), ==, first);
		CHECK_INT(info_of(store, first).due_us, >, due_us);
		due_us = info_of(store, first).due_us;
	}
	begin_in_vain(store, first);
	atomic_store(&hwts_test_at, NULL);
	spec.delay_ns = HWT_MS(100);
	seen.spec = spec;
	CHECK_INT(put_spec(store, &spec), ==, first);
	CHECK(wait_count(&seen.done, 1));
	CHECK_INT(seen.id, ==, first);
	CHECK(wait_gone(store, first));
	/* Moved to an earlier time, with a period. */
	spec.delay_ns = HWT_S(1000);
	first = put_spec(store, &spec);
	spec.delay_ns = 0;
	spec.period_ns = HWT_S(100);
	CHECK_INT(put_spec(store, &spec), ==, first);
	CHECK(wait_count(&seen.done, 2));
	CHECK(wait_store_state(store, first, HWT_STORE_PENDING));
	CHECK_INT(info_of(store, first).period_ns, ==, HWT_S(100));
}

TEST(a_cancelled_one_does_not_run)
{
	CLOSING hwt_store *store = simple_store(count_run, NULL, true);
	hwt_store_spec specs[50];
	struct patience patience = PATIENCE("no look or news meets the cancels");
	int64_t ids[50], cancelled = 0;
	bool left;

	for (int i = 0; i < 50; i++)
		specs[i] = spec_of("a", HWT_S(100));
	/*
	 * A look or news from before the cancel may bring an entry back, whose begin is in vain; without these the
	 * window is empty.
	 */
	do {
		CHECK_CALL(hwt_store_put_many(store, specs, 50, ids), 0);
		for (int i = 0; i < 50; i++) {
			CHECK_CALL(hwt_store_cancel(store, ids[i]), 0);
			CHECK_CALL(hwt_store_cancel(store, ids[i]), ENOENT);
		}
		cancelled += 50;
		left = stats_of_store(store).window != 0;
		for (int i = 0; i < 50; i++)
			begin_in_vain(store, ids[i]);
		atomic_store(&hwts_test_at, NULL);
		CHECK_INT(atomic_load(&ran), ==, 0);
	} while (left && patience_lasts(&patience, 0));
	CHECK(!left);
	CHECK_INT(stats_of_store(store).cancelled, ==, cancelled);
	CHECK_CALL(hwt_store_cancel(store, 0), ENOENT);
	CHECK_CALL(hwt_store_cancel(store, INT64_MAX), ENOENT);
	CHECK_CALL(hwt_store_cancel(store, -1), ENOENT);
}

TEST(put_many_puts_all_or_none)
{
	hwt_store *store = simple_store(count_run, NULL, false);
	int64_t ids[1200], present = put_key(store, "a", "used", HWT_S(1000)), none[3] = { -1, -1, -1 };
	hwt_store_spec *specs = calloc(1200, sizeof(*specs));
	hwt_store_info info = HWT_STORE_INFO_INIT;

	for (int i = 0; i < 1200; i++)
		specs[i] = spec_of(i % 2 ? "a" : "b", HWT_S(1000 + i));
	CHECK_CALL(hwt_store_put_many(store, specs, 1200, ids), 0);
	for (int i = 0; i < 1200; i += 97) {
		CHECK_CALL(hwt_store_get(store, ids[i], &info), 0);
		CHECK(strcmp(info.kind, i % 2 ? "a" : "b") == 0);
		CHECK(i == 0 || ids[i] != ids[i - 1]);
	}
	CHECK_CALL(hwt_store_put_many(store, NULL, 0, NULL), 0);
	CHECK_CALL(hwt_store_put_many(store, NULL, 1, NULL), EINVAL);
	/* A key is in use. */
	specs[0] = specs[1] = specs[2] = spec_of("a", HWT_S(1));
	specs[0].key = "new";
	specs[2].key = "used";
	CHECK_CALL(hwt_store_put_many(store, specs, 3, none), EEXIST);
	CHECK(strstr(hwt_store_error(), "spec 2") != NULL);
	CHECK_INT(none[0], ==, present);
	CHECK_INT(none[1], ==, -1);
	CHECK_CALL(hwt_store_get_key(store, "a", "new", &info), ENOENT);
	/* The same new key twice in one call. */
	specs[2].key = "new";
	CHECK_CALL(hwt_store_put_many(store, specs, 3, none), EEXIST);
	CHECK_INT(none[0], ==, 0);
	CHECK_CALL(hwt_store_get_key(store, "a", "new", &info), ENOENT);
	/* The same key twice with REPLACE: the last put holds. */
	specs[0].flags = specs[2].flags = HWT_STORE_REPLACE;
	specs[2].delay_ns = HWT_S(5000);
	CHECK_CALL(hwt_store_put_many(store, specs, 3, none), 0);
	CHECK_INT(none[0], ==, none[2]);
	CHECK_CALL(hwt_store_get_key(store, "a", "new", &info), 0);
	CHECK_INT(info.due_us, >, now_us() + 4000 * INT64_C(1000000));
	/* In order: the second put does not replace the first. */
	specs[0].key = specs[2].key = "newer";
	specs[2].flags = 0;
	CHECK_CALL(hwt_store_put_many(store, specs, 3, none), EEXIST);
	CHECK(strstr(hwt_store_error(), "spec 2") != NULL);
	CHECK_INT(none[0], ==, 0);
	/* Nor is the timeout from before replaced, since all puts are undone. */
	specs[0].key = specs[2].key = "used";
	CHECK_CALL(hwt_store_put_many(store, specs, 3, none), EEXIST);
	CHECK_INT(none[0], ==, present);
	CHECK_CALL(hwt_store_get(store, present, &info), 0);
	CHECK_INT(info.due_us, >, now_us() + 500 * INT64_C(1000000));
	/* One spec is bad. */
	specs[1].len = 5;
	CHECK_CALL(hwt_store_put_many(store, specs, 3, none), EINVAL);
	CHECK(strstr(hwt_store_error(), "spec 1") != NULL);
	CHECK_CALL(hwt_store_close(store), 0);
	free(specs);
}

/* A program that was compiled with a later header. */
TEST(the_specs_of_a_put_of_many_are_as_large_as_the_first_says)
{
	struct {
		hwt_store_spec spec;
		uint64_t more[2];
	} specs[3] = { 0 };
	CLOSING hwt_store *store = simple_store(count_run, NULL, false);
	int64_t ids[3] = { 0 };

	for (int i = 0; i < 3; i++) {
		specs[i].spec = spec_of("a", HWT_S(10000 * (i + 1)));
		specs[i].spec.size = sizeof(specs[i]);
	}
	CHECK_CALL(hwt_store_put_many(store, &specs[0].spec, 3, ids), 0);
	for (int i = 0; i < 3; i++) {
		CHECK_INT(info_of(store, ids[i]).due_us, >, now_us() + 10000000000 * i);
	}
	specs[2].spec.size = sizeof(hwt_store_spec);
	CHECK_CALL(hwt_store_put_many(store, &specs[0].spec, 3, ids), EINVAL);
}

struct caller {
	hwt_store *store;
	atomic_uint done;
};

/* Calls about a run in progress. */
static void call_about(hwt_store *store, const hwt_store_run *run)
{
	hwt_store_info info = info_of(store, run->id);
	int64_t other = 0;

	CHECK_INT(info.state, ==, HWT_STORE_RUNNING);
	CHECK_INT(info.attempt, ==, 1);
	CHECK(info.owner[0] != '\0');
	CHECK_INT(stats_of_store(store).running, ==, 1);
	CHECK_CALL(hwt_store_cancel(store, run->id), EBUSY);
	CHECK_CALL(hwt_store_cancel_key(store, "a", run->key), EBUSY);
	CHECK_CALL(hwt_store_reschedule(store, run->id, 5), EBUSY);
	CHECK_CALL(hwt_store_put(store, &SPEC("a", 0, .key = run->key), &other), EEXIST);
	CHECK_INT(other, ==, run->id);
}

static int call_everything(const hwt_store_run *run, void *ctx)
{
	struct caller *caller = ctx;
	hwt_store *store = caller->store;
	int64_t id;

	if (run->len > 0) { /* the timeout that is put below */
		atomic_fetch_add(&caller->done, 1);
		return 0;
	}
	CHECK_CALL(hwt_store_stop(store), EDEADLK);
	CHECK_CALL(hwt_store_close(store), EDEADLK);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK_CALL(hwt_store_register(store, &KIND(.name = "z", .task = call_everything)), EBUSY);
	call_about(store, run);
	id = put(store, "a", HWT_S(1000));
	CHECK_CALL(hwt_store_reschedule(store, id, HWT_S(2000)), 0);
	CHECK_CALL(hwt_store_cancel(store, id), 0);
	(void)put_spec(store, &SPEC("a", 0, .data = "x", .len = 1));
	return 0;
}

TEST(a_task_may_call_everything_but_stop_and_close)
{
	struct caller caller = { 0 };
	CLOSING hwt_store *store = simple_store(call_everything, &caller, false);
	int64_t id;

	caller.store = store;
	CHECK_CALL(hwt_store_start(store), 0);
	id = put_key(store, "a", "k", 0);
	CHECK(wait_count(&caller.done, 1));
	CHECK(wait_gone(store, id));
	CHECK_CALL(hwt_store_cancel(store, id), ENOENT);
}

/* The holder learns of the move when it begins the row in vain. */
TEST(what_another_process_puts_off_for_centuries_is_left_alone)
{
	CLOSING hwt_store *holder = fresh_store(), *other = open_store();
	hwt_store_spec spec = SPEC("a", HWT_S(100), .key = "k");
	int64_t id;

	register_kind(holder, "a", count_run, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(holder), 0);
	CHECK(wait_held(holder, 8));
	CHECK_CALL(hwt_store_put(holder, &spec, &id), 0);
	spec.flags = HWT_STORE_REPLACE | HWT_STORE_ABSOLUTE;
	spec.due_us = INT64_C(253402300799000000); /* the end of the year 9999 */
	CHECK_CALL(hwt_store_put(other, &spec, &id), 0);
	begin_in_vain(holder, id);
	sleep_ms(300);
	CHECK_INT(atomic_load(&passes), ==, 1); /* not again and again */
	atomic_store(&hwts_test_at, NULL);
	CHECK_CALL(hwt_store_cancel(other, id), 0);
}

STORE_MAIN(NULL)
