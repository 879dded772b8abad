/* SPDX-License-Identifier: BSD-2-Clause */
/* Kinds: the facts about them, and their removal.  Where nothing has to run, the test writes the rows itself. */
#include "store_query.h"

#include "store/store.h"

#define KINDS_MAX 16

struct list {
	hwt_store_kind_info infos[KINDS_MAX];
	size_t count, most; /* most 0: all */
};

static bool add_info(void *ctx, const hwt_store_kind_info *info)
{
	struct list *list = ctx;

	REQUIRE(list->count < KINDS_MAX);
	CHECK_INT(info->size, ==, sizeof(*info));
	CHECK_INT(info->each_group.size, ==, sizeof(info->each_group));
	list->infos[list->count++] = *info;
	return list->count != list->most;
}

static struct list list_kinds(hwt_store *store)
{
	struct list list = { .count = 0 };

	CHECK_CALL(hwt_store_each_kind(store, add_info, &list), 0);
	return list;
}

/* shards 0: there is no such kind. */
static hwt_store_kind_info kind_of(hwt_store *store, const char *name)
{
	struct list list = list_kinds(store);

	for (size_t i = 0; i < list.count; i++)
		if (strcmp(list.infos[i].kind, name) == 0)
			return list.infos[i];
	return (hwt_store_kind_info){ .size = 0 };
}

static void check_rules(hwt_store *store, const char *name, bool paused, unsigned running, int64_t every_ns,
			unsigned burst)
{
	hwt_store_kind_info info = kind_of(store, name);

	CHECK(info.paused == paused);
	CHECK_INT(info.each_group.running, ==, running);
	CHECK_INT(info.each_group.start_every_ns, ==, every_ns);
	CHECK_INT(info.each_group.burst, ==, burst);
}

static bool is_there(hwt_store *store, const char *name)
{
	return kind_of(store, name).shards > 0;
}

static void write_state(int64_t id, hwt_store_state state)
{
	(void)query("update %s_timeout set state = %d, shard = %s where id = %lld", world.schema, (int)state,
		    state == HWT_STORE_FAILED ? "-1 - shard" : "shard", (long long)id);
}

static void register_with(hwt_store *store, const char *name, unsigned mode, unsigned shards)
{
	CHECK_CALL(hwt_store_register(store, &KIND(.name = name, .task = count_run, .mode = mode, .shards = shards)),
		   0);
}

/*
 * The facts about kinds
 */

TEST(kinds_come_in_the_order_of_their_names)
{
	struct list list = { .count = 0 };
	CLOSING hwt_store *store = fresh_store();

	CHECK_CALL(hwt_store_each_kind(store, add_info, &list), 0);
	CHECK_INT(list.count, ==, 0);
	(void)put(store, "b", HWT_S(3600));
	(void)put(store, "c", HWT_S(3600));
	register_with(store, "a", HWT_STORE_TRANSACTION, 3);
	list = list_kinds(store);
	REQUIRE(list.count == 3);
	CHECK(strcmp(list.infos[0].kind, "a") == 0);
	CHECK_INT(list.infos[0].mode, ==, HWT_STORE_TRANSACTION);
	CHECK_INT(list.infos[0].shards, ==, 3);
	CHECK(strcmp(list.infos[1].kind, "b") == 0);
	CHECK_INT(list.infos[1].mode, ==, 0);
	CHECK_INT(list.infos[1].shards, ==, 8);
	CHECK(strcmp(list.infos[2].kind, "c") == 0);
	list = (struct list){ .most = 2 };
	CHECK_CALL(hwt_store_each_kind(store, add_info, &list), 0);
	CHECK_INT(list.count, ==, 2);
}

TEST(the_oldest_is_a_pending_one)
{
	CLOSING hwt_store *store = fresh_store();
	int64_t ids[4];
	hwt_store_info info;

	for (size_t i = 0; i < HWTS_COUNT(ids); i++)
		ids[i] = put(store, "a", HWT_S(3600) * (int64_t)(i + 1)); /* of different shards, most likely */
	(void)put(store, "b", HWT_S(60));
	info = info_of(store, ids[0]);
	CHECK_INT(kind_of(store, "a").oldest_due_us, ==, info.due_us);
	write_state(ids[0], HWT_STORE_RUNNING);
	write_state(ids[1], HWT_STORE_FAILED);
	info = info_of(store, ids[2]);
	CHECK_INT(kind_of(store, "a").oldest_due_us, ==, info.due_us);
	CHECK_INT(kind_of(store, "a").failed, ==, 1);
	/* A cron line put by SQL has no time before a holder computes it. */
	(void)query("update %s_timeout set due_us = 0 where id = %lld", world.schema, (long long)ids[3]);
	CHECK_INT(kind_of(store, "a").oldest_due_us, ==, info.due_us);
	CHECK_CALL(hwt_store_cancel(store, ids[2]), 0);
	CHECK_CALL(hwt_store_cancel(store, ids[3]), 0);
	CHECK_INT(kind_of(store, "a").oldest_due_us, ==, 0);
	CHECK_INT(kind_of(store, "b").oldest_due_us, >, 0);
	CHECK_INT(kind_of(store, "b").failed, ==, 0);
}

TEST(what_has_failed_is_counted_as_far_as_a_thousand)
{
	enum { ROWS = 1002 };
	hwt_store_spec specs[ROWS];
	CLOSING hwt_store *store = fresh_store();
	int64_t ids[ROWS];

	for (size_t i = 0; i < ROWS; i++)
		specs[i] = spec_of("a", HWT_S(3600));
	(void)put(store, "b", HWT_S(3600)); /* a row of the kind with the next number */
	CHECK_CALL(hwt_store_put_many(store, specs, ROWS, ids), 0);
	write_state(put(store, "c", HWT_S(3600)), HWT_STORE_FAILED);
	(void)query("update %s_timeout set state = 3, shard = -1 - shard where id <= %lld and kind = (select id from"
		    " %s_kind where name = 'a')",
		    world.schema, (long long)ids[0], world.schema);
	CHECK_INT(kind_of(store, "a").failed, ==,
		  query("select count(*) from %s_timeout where state = 3 and kind ="
			" (select id from %s_kind where name = 'a')",
			world.schema, world.schema));
	(void)query("update %s_timeout set state = 3, shard = -1 - shard where state = 1 and id not in (%lld, %lld)"
		    " and kind = (select id from %s_kind where name = 'a')",
		    world.schema, (long long)ids[1], (long long)ids[2], world.schema);
	CHECK_INT(kind_of(store, "a").failed, ==, 1000);
	write_state(ids[1], HWT_STORE_FAILED);
	CHECK_INT(kind_of(store, "a").failed, ==, 1001);
	write_state(ids[2], HWT_STORE_FAILED);
	CHECK_INT(kind_of(store, "a").failed, ==, 1001);
	CHECK_INT(kind_of(store, "b").failed, ==, 0);
	CHECK_INT(kind_of(store, "c").failed, ==, 1);
}

TEST(pause_and_limits_are_those_of_the_kind)
{
	CLOSING hwt_store *store = fresh_store();

	(void)put(store, "a", HWT_S(3600));
	(void)put(store, "b", HWT_S(3600));
	(void)query("update %s_kind set paused = %s, running = 3, start_every_us = 250000, burst = 7 where name = 'b'",
		    world.schema, world.sqlite ? "1" : "true");
	check_rules(store, "b", true, 3, HWT_MS(250), 7);
	check_rules(store, "a", false, 0, 0, 0);
}

/* A member whose lease is over does not count, and a member that runs kind 1 does not run kind 11. */
TEST(processes_are_the_living_ones_that_run_it)
{
	CLOSING hwt_store *first = fresh_store(), *second = open_store();
	char name[8];

	for (int i = 0; i < 11; i++) {
		(void)snprintf(name, sizeof(name), "k%d", i);
		(void)put(first, name, HWT_S(3600));
	}
	register_with(first, "k10", 0, 0);
	CHECK_INT(kind_of(first, "k10").processes, ==, 0);
	CHECK_CALL(hwt_store_start(first), 0);
	register_with(second, "k10", 0, 0);
	CHECK_CALL(hwt_store_start(second), 0);
	CHECK_INT(kind_of(first, "k10").processes, ==, 2);
	CHECK_INT(kind_of(first, "k0").processes, ==, 0);
	CHECK_CALL(hwt_store_stop(first), 0);
	CHECK_INT(kind_of(first, "k10").processes, ==, 1);
	/*
	 * A copy of the remaining row, which no thread renews: the second process looks as soon as the first has gone.
	 */
	(void)query("insert into %s_member (name, incarnation, until_us, kinds) select 'copy', 7, until_us, kinds from"
		    " %s_member where until_us > 0",
		    world.schema, world.schema);
	CHECK_CALL(hwt_store_stop(second), 0);
	CHECK_INT(kind_of(first, "k10").processes, ==, 1);
	(void)query("update %s_member set until_us = 0", world.schema);
	CHECK_INT(kind_of(first, "k10").processes, ==, 0);
}

static bool put_there(void *ctx, const hwt_store_kind_info *info)
{
	CHECK_CALL(hwt_store_cancel_key(ctx, info->kind, "key"), 0);
	return true;
}

TEST(each_may_call_the_store)
{
	CLOSING hwt_store *store = fresh_store();

	(void)put_key(store, "a", "key", HWT_S(3600));
	(void)put_key(store, "b", "key", HWT_S(3600));
	CHECK_CALL(hwt_store_each_kind(store, put_there, store), 0);
	CHECK_INT(kind_of(store, "b").oldest_due_us, ==, 0);
}

/*
 * Removing
 */

TEST(what_makes_no_sense_is_refused)
{
	CLOSING hwt_store *store = fresh_store();
	char name[65];

	memset(name, 'a', 64);
	name[64] = '\0';
	CHECK_CALL(hwt_store_each_kind(NULL, add_info, NULL), EINVAL);
	CHECK_CALL(hwt_store_each_kind(store, NULL, NULL), EINVAL);
	CHECK_CALL(hwt_store_remove_kind(NULL, "a"), EINVAL);
	CHECK_CALL(hwt_store_remove_kind(store, NULL), EINVAL);
	CHECK_CALL(hwt_store_remove_kind(store, ""), EINVAL);
	CHECK_CALL(hwt_store_remove_kind(store, name), EINVAL);
	CHECK_CALL(hwt_store_remove_kind(store, "a"), ENOENT);
	CHECK_INT(list_kinds(store).count, ==, 0);
}

TEST(a_kind_with_timeouts_stays)
{
	CLOSING hwt_store *store = fresh_store();
	int64_t id;

	id = put(store, "a", HWT_S(3600));
	CHECK_CALL(hwt_store_remove_kind(store, "a"), EBUSY);
	write_state(id, HWT_STORE_RUNNING);
	CHECK_CALL(hwt_store_remove_kind(store, "a"), EBUSY);
	write_state(id, HWT_STORE_FAILED);
	CHECK_CALL(hwt_store_remove_kind(store, "a"), EBUSY);
	CHECK(strstr(hwt_store_error(), "has timeouts") != NULL);
	CHECK(is_there(store, "a"));
	CHECK_CALL(hwt_store_cancel(store, id), 0);
	(void)put(store, "b", HWT_S(3600));
	CHECK_CALL(hwt_store_remove_kind(store, "a"), 0);
	CHECK(!is_there(store, "a"));
	CHECK(is_there(store, "b"));
	CHECK_INT(query("select count(*) from %s_kinds where kind = 'a'", world.schema), ==, 0);
	CHECK_CALL(hwt_store_remove_kind(store, "a"), ENOENT);
}

TEST(a_kind_that_a_living_process_has_registered_stays)
{
	hwt_store *store = fresh_store();
	CLOSING hwt_store *other = open_store();

	register_with(store, "a", 0, 0);
	CHECK_CALL(hwt_store_remove_kind(store, "a"), EBUSY);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK_CALL(hwt_store_remove_kind(other, "a"), EBUSY);
	CHECK(strstr(hwt_store_error(), "process") != NULL);
	CHECK(is_there(other, "a"));
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_CALL(hwt_store_remove_kind(other, "a"), 0);
	CHECK(!is_there(other, "a"));
}

TEST(a_kind_goes_with_its_mode_its_pause_and_its_limits)
{
	hwt_store_limits limits = LIMITS(.running = 3, .start_every_ns = HWT_MS(250), .burst = 7);
	hwt_store_kind kind = HWT_STORE_KIND_INIT;
	int64_t rules;
	CLOSING hwt_store *store = fresh_store();

	register_with(store, "a", HWT_STORE_AT_MOST_ONCE, 5);
	CHECK_CALL(hwt_store_close(store), 0);
	store = open_store();
	CHECK_CALL(hwt_store_pause(store, "a", NULL), 0);
	CHECK_CALL(hwt_store_limit(store, "a", NULL, &limits), 0);
	CHECK_CALL(hwt_store_limit(store, "a", "g", &limits), 0);
	check_rules(store, "a", true, 3, HWT_MS(250), 7);
	(void)query("insert into %s_group (bucket, kind, grp, running) select 5, id + 1, 'g', 1 from %s_kind",
		    world.schema, world.schema);
	rules = query("select max(rules) from %s_shard", world.schema);
	kind.name = "a";
	kind.task = count_run;
	CHECK_CALL(hwt_store_register(store, &kind), EINVAL);
	CHECK_CALL(hwt_store_remove_kind(store, "a"), 0);
	CHECK_INT(query("select count(*) from %s_group", world.schema), ==, 1);
	/* Processes that have read the rules read again. */
	CHECK_INT(query("select max(rules) from %s_shard", world.schema), >, rules);
	CHECK_CALL(hwt_store_pause(store, "a", NULL), ENOENT);
	CHECK_CALL(hwt_store_limit(store, "a", "g", &limits), ENOENT);
	CHECK_CALL(hwt_store_register(store, &kind), 0);
	CHECK_INT(kind_of(store, "a").mode, ==, HWT_STORE_AT_LEAST_ONCE);
	CHECK_INT(kind_of(store, "a").shards, ==, 5);
	check_rules(store, "a", false, 0, 0, 0);
}

/* The other process knows the kind, and does not ask.  Its puts must not go to a kind that is made meanwhile. */
TEST(what_is_put_after_the_removal_is_not_lost)
{
	CLOSING hwt_store *store = fresh_store(), *other = open_store();
	int64_t id;

	CHECK_CALL(hwt_store_cancel(other, put(other, "a", HWT_S(3600))), 0);
	CHECK_CALL(hwt_store_remove_kind(store, "a"), 0);
	(void)put(store, "b", HWT_S(3600));
	id = put(other, "a", -1);
	CHECK(strcmp(info_of(store, id).kind, "a") == 0);
	CHECK(is_there(store, "a"));
	CHECK_INT(query("select count(*) from %s_kinds where kind = 'a'", world.schema), ==, 1);
	CHECK_CALL(hwt_store_remove_kind(store, "a"), EBUSY);
	register_with(store, "a", HWT_STORE_TRANSACTION, 0);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_gone(other, id));
	CHECK(is_there(store, "a"));
}

/* Refused are calls of SQL, and of a process that knows the kind and does not ask. */
TEST(a_removed_kind_gets_no_rules)
{
	hwt_store_limits limits = LIMITS(.running = 3);
	CLOSING hwt_store *store = fresh_store(), *other = open_store();
	int64_t id;

	CHECK_CALL(hwt_store_cancel(other, put(other, "a", HWT_S(3600))), 0);
	CHECK_CALL(hwt_store_remove_kind(store, "a"), 0);
	CHECK_CALL(hwt_store_limit(other, "a", NULL, &limits), ENOENT);
	CHECK(strstr(hwt_store_error(), "no kind \"a\"") != NULL);
	CHECK_CALL(hwt_store_limit(other, "a", NULL, NULL), ENOENT);
	CHECK_CALL(hwt_store_limit(other, "a", "g", &limits), ENOENT);
	CHECK_CALL(hwt_store_pause(other, "a", NULL), ENOENT);
	CHECK_CALL(hwt_store_pause(other, "a", "g"), ENOENT);
	CHECK_CALL(hwt_store_resume(other, "a", "g"), ENOENT);
	CHECK(!is_there(store, "a"));
	CHECK_INT(query("select count(*) from %s_group", world.schema), ==, 0);
	CHECK_INT(query("select count(*) from %s_kind where paused or running is not null", world.schema), ==, 0);
	if (!world.sqlite) {
		CHECK_INT(query("select count(*) from (select %s_pause('a')) t", world.schema), ==, -1);
		CHECK_INT(query("select count(*) from (select %s_put('a')) t", world.schema), ==, -1);
	}
	/* The kind exists while it has timeouts, and stays once it has rules. */
	id = put(other, "a", HWT_S(3600));
	if (!world.sqlite)
		CHECK_INT(query("select count(*) from (select %s_put('a', at => 'tomorrow')) t", world.schema), ==, 1);
	CHECK_CALL(hwt_store_limit(store, "a", NULL, &limits), 0);
	CHECK_CALL(hwt_store_pause(store, "a", "g"), 0);
	CHECK_CALL(hwt_store_cancel(other, id), 0);
	(void)query("delete from %s_timeout", world.schema);
	CHECK_INT(kind_of(store, "a").each_group.running, ==, 3);
	/* Rows that a user's transaction leaves during the removal do not come back with the kind. */
	CHECK_CALL(hwt_store_remove_kind(store, "a"), 0);
	CHECK(!is_there(store, "a"));
	(void)query("insert into %s_group (bucket, kind, grp, paused) select 5, id, 'g', 1 = 1 from %s_kind",
		    world.schema, world.schema);
	register_with(store, "a", 0, 0);
	CHECK_INT(kind_of(store, "a").each_group.running, ==, 0);
	CHECK_INT(query("select count(*) from %s_group", world.schema), ==, 0);
}

/* By the process that has removed the kind, and that had put timeouts of it before. */
TEST(a_put_makes_a_removed_kind_again)
{
	CLOSING hwt_store *store = fresh_store();
	int64_t id;

	CHECK_CALL(hwt_store_cancel(store, put(store, "a", HWT_S(3600))), 0);
	CHECK_CALL(hwt_store_remove_kind(store, "a"), 0);
	id = put(store, "a", HWT_S(3600));
	CHECK_CALL(hwt_store_cancel(store, id), 0);
	CHECK(is_there(store, "a"));
	CHECK_CALL(hwt_store_remove_kind(store, "a"), 0);
	CHECK(!is_there(store, "a"));
	if (!world.sqlite)
		(void)query("select count(*) from (select %s_make_kind('a')) t", world.schema);
	CHECK(is_there(store, "a") == !world.sqlite);
}

/* A stopped process is no living member, and nothing tells that it will start again. */
TEST(a_start_makes_a_removed_kind_again)
{
	CLOSING hwt_store *store = fresh_store(), *other = open_store();

	register_with(store, "a", HWT_STORE_AT_MOST_ONCE, 0);
	CHECK_CALL(hwt_store_remove_kind(other, "a"), 0);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK_INT(kind_of(other, "a").mode, ==, HWT_STORE_AT_MOST_ONCE);
	CHECK_INT(kind_of(other, "a").processes, ==, 1);
	CHECK_CALL(hwt_store_stop(store), 0);
	CHECK_CALL(hwt_store_remove_kind(other, "a"), 0);
	register_with(other, "a", HWT_STORE_AT_LEAST_ONCE, 0);
	CHECK_CALL(hwt_store_start(store), EINVAL);
	CHECK(strstr(hwt_store_error(), "removed") != NULL);
	CHECK_INT(kind_of(other, "a").processes, ==, 0);
	CHECK_CALL(hwt_store_start(other), 0);
	CHECK_INT(kind_of(other, "a").processes, ==, 1);
}

static atomic_uint refusals;

static void note_refusal(void *ctx, const char *message)
{
	(void)ctx;
	atomic_fetch_add(&refusals, strstr(message, "registered again with mode") != NULL);
}

/* A process was stopped for longer than its lease: meanwhile the kind has got another mode. */
TEST(a_process_that_comes_back_does_not_run_another_kind)
{
	hwt_store *store = FRESH(.warn = note_refusal);
	CLOSING hwt_store *other = open_store();
	int64_t id;

	atomic_store(&refusals, 0);
	register_with(store, "a", HWT_STORE_AT_LEAST_ONCE, 0);
	CHECK_CALL(hwt_store_start(store), 0);
	/*
	 * The kind is removed and registered again before the process can see that its lease is over: it may look at
	 * any time.
	 */
	(void)query("update %s_kind set mode = %u", world.schema, HWT_STORE_AT_MOST_ONCE);
	(void)query("update %s_member set until_us = 0", world.schema);
	look_now(store);
	CHECK(wait_count(&refusals, 1));
	id = put(other, "a", -1);
	/* Each attempt to join makes the process a member for a moment. */
	WAIT_FOR(kind_of(other, "a").processes == 0);
	CHECK_INT(stats_of_store(store).shards_held, ==, 0);
	CHECK_INT(info_of(other, id).state, ==, HWT_STORE_PENDING);
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(atomic_load(&ran), ==, 0);
}

static atomic_int removed_in_task;

static int remove_b(const hwt_store_run *run, void *ctx)
{
	(void)run;
	atomic_store(&removed_in_task, hwt_store_remove_kind(ctx, "b"));
	return 0;
}

TEST(a_task_removes_a_kind)
{
	CLOSING hwt_store *store = fresh_store();

	CHECK_CALL(hwt_store_cancel(store, put(store, "b", HWT_S(3600))), 0);
	register_kind(store, "a", remove_b, store, HWT_STORE_TRANSACTION);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_gone(store, put(store, "a", -1)));
	CHECK_INT(atomic_load(&removed_in_task), ==, world.sqlite ? EDEADLK : 0);
	CHECK(is_there(store, "b") == world.sqlite);
}

STORE_MAIN(NULL)
