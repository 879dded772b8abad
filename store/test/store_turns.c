/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The turns of groups, without a store and on a clock of the test; and random acts compared with a model that looks at
 * all turns.
 */
#include "store.h"
#include "base/due.h"
#include "groups/turns.h"

static struct hwts_turns turns;
static int64_t now_ns;

static void join(struct hwts_turn *turn, const char *name, int64_t due_us, int priority)
{
	*turn = (struct hwts_turn){ .due_us = due_us, .priority = (int8_t)priority };
	REQUIRE(hwts_turns_join(&turns, turn, name, strlen(name)));
}

static void add(struct hwts_turn *turn, const char *name, int64_t due_us, int priority)
{
	join(turn, name, due_us, priority);
	hwts_turns_add(&turns, turn);
}

static struct hwts_turn *take(void)
{
	struct hwts_turn *first = hwts_turns_peek(&turns, now_ns), *turn = hwts_turns_pop(&turns, now_ns, false);

	CHECK(turn == first);
	return turn;
}

static void end(struct hwts_turn *turn)
{
	hwts_turns_leave(&turns, turn, now_ns);
}

static void fresh(void)
{
	hwts_turns_clear(&turns);
	turns.shards = 8;
	now_ns = HWT_S(1000);
}

static bool all(void *ctx, uint32_t shard)
{
	return ctx == NULL || *(const uint32_t *)ctx == shard;
}

/*
 * Rests: a share of 4
 */

#define SHARE 4

static struct hwts_due due_of(const char *name, int priority, int64_t due_us, enum hwts_part part)
{
	struct hwts_due due = { .id = due_us << HWTS_BUCKET_BITS, .due_us = due_us, .part = part };

	hwts_due_set(&due, name, strlen(name), priority);
	return due;
}

/* Offers a row that a look has found. */
static bool keeps(const char *name, int priority, int64_t due_us)
{
	struct hwts_due due = due_of(name, priority, due_us, HWTS_AHEAD);

	return hwts_turns_keeps(&turns, &due, SHARE);
}

static bool keeps_told(const char *name, int priority, int64_t due_us)
{
	struct hwts_due due = due_of(name, priority, due_us, HWTS_TOLD);

	return hwts_turns_keeps(&turns, &due, SHARE);
}

/* The group a has these turns, in order. */
static void fill(struct hwts_turn *turn, int n)
{
	for (int i = 0; i < n; i++)
		add(&turn[i], "a", 10 + i, 0);
}

static const struct hwts_place everything = { .due_us = HWTS_NEVER };

/* The rest was due, and no longer is. */
TEST(a_group_goes_on_when_the_clock_is_put_back)
{
	struct hwts_turn turn[4];

	fresh();
	hwts_turns_at(&turns, 20);
	fill(turn, 4);
	CHECK(!keeps("a", 1, 20));
	CHECK(take() == NULL);
	hwts_turns_at(&turns, 5);
	CHECK(!keeps("a", 1, 15));
	CHECK_INT(hwts_turns_rest_us(&turns), ==, 15);
	CHECK(take() == &turn[0]);
	fresh();
}

/*
 * Of two turns of one time the one that was queued first goes first.  A row that moves the place of a rest forward
 * queues the rest again, behind the turns of the same time.
 */
TEST(a_group_goes_on_when_its_rest_falls_behind_a_row_of_the_same_time)
{
	struct hwts_due due = due_of("a", 0, 9, HWTS_AHEAD);
	struct hwts_turn turn[4], same;

	fresh();
	hwts_turns_at(&turns, 20);
	fill(turn, 4);
	CHECK(!keeps("a", 0, 9));
	add(&same, "a", 9, 0);
	CHECK(take() == NULL);
	due.id--;
	CHECK(!hwts_turns_keeps(&turns, &due, SHARE));
	CHECK(take() == &same);
	fresh();
}

/* The reader is woken for such a rest. */
TEST(a_group_that_fell_out_of_the_ring_waits_for_no_turn)
{
	struct hwts_turn one, two;

	fresh();
	add(&one, "a", 1, 0);
	add(&two, "b", 1, 0);
	CHECK_INT(hwts_turns_why(&turns, &one, now_ns), ==, HWT_STORE_STARTS);
	CHECK_INT(hwts_turns_why(&turns, &two, now_ns), ==, HWT_STORE_WAITS_TURN);
	turns.first = NULL;
	CHECK_INT(hwts_turns_why(&turns, &two, now_ns), ==, HWT_STORE_STARTS);
}

TEST(few_of_the_rows_that_a_rest_takes_make_it_the_first)
{
	struct hwts_turn turn[4];

	fresh();
	hwts_turns_at(&turns, 20);
	fill(turn, 4);
	CHECK(!keeps("a", 1, 20));
	CHECK_INT(turns.firsts, ==, 1);
	for (int i = 0; i < 10; i++)
		CHECK(!keeps("a", i & 1, 20 + i));
	CHECK_INT(turns.firsts, ==, 1);
	CHECK(!keeps("a", 1, 19));
	CHECK_INT(turns.firsts, ==, 2);
	CHECK(!keeps("a", 2, 40));
	CHECK_INT(turns.firsts, ==, 3);
	CHECK(!keeps("a", 3, 50));
	CHECK_INT(turns.firsts, ==, 3);
	fresh();
}

/* Rows that go before all others of the group wait in the database until the group may begin a row. */
TEST(a_group_that_may_begin_nothing_reads_no_more_than_its_share)
{
	struct hwts_turn turn[SHARE];

	for (int way = 0; way < 3; way++) {
		bool full = way == 1, stalled = way == 2;

		fresh();
		turns.paused = way == 0;
		turns.each.running = full;
		hwts_turns_at(&turns, 20);
		fill(turn, SHARE);
		if (full)
			CHECK(take() == &turn[0]);
		hwts_turns_stall(&turns, turn[0].group->bucket % turns.shards, stalled);
		CHECK(!keeps("a", 1, 15));
		CHECK(!hwts_turns_wanted(&turns, SHARE));
		turns.paused = false;
		if (full)
			hwts_turns_done(&turns, &turn[0]);
		hwts_turns_stall(&turns, turn[0].group->bucket % turns.shards, false);
		CHECK(hwts_turns_want(&turns, turn[1].group, SHARE));
		CHECK(hwts_turns_wanted(&turns, SHARE) != NULL);
		fresh();
		turns.paused = true;
		hwts_turns_at(&turns, 20);
		fill(turn, SHARE - 1);
		join(&turn[SHARE - 1], "a", 30, 0);
		CHECK(!keeps("a", 1, 15));
		end(&turn[SHARE - 1]);
		CHECK(hwts_turns_wanted(&turns, SHARE) != NULL); /* there is room */
	}
	fresh();
}

TEST(what_is_told_and_due_soon_has_room_beyond_the_share)
{
	struct hwts_turn turn[2 * SHARE];

	fresh();
	hwts_turns_at(&turns, 100);
	for (int i = 0; i < SHARE; i++)
		join(&turn[i], "a", 2 * HWTS_S_US + i, 0);
	CHECK(!keeps_told("a", 0, 2 * HWTS_S_US));
	CHECK(!keeps("a", 1, 50));
	for (int i = SHARE; i < 2 * SHARE; i++) {
		CHECK(keeps_told("a", i & 1, 49));
		add(&turn[i], "a", 49, i & 1);
	}
	CHECK(!keeps_told("a", 0, 50));
	CHECK(!keeps_told("a", 2, 50));
	fresh();
}

/* Due rows start before all that are queued; of the others the window keeps a share. */
TEST(of_what_is_read_the_window_keeps_what_is_due_and_a_share)
{
	struct hwts_turn turn[SHARE];
	struct hwts_due due = due_of("a", 1, 100, HWTS_AHEAD), later = due_of("a", 1, 101, HWTS_AHEAD);
	struct hwts_rest *rest;

	fresh();
	hwts_turns_at(&turns, 100);
	fill(turn, SHARE);
	CHECK(!keeps("a", 1, 100));
	rest = hwts_turns_wanted(&turns, SHARE);
	REQUIRE(rest != NULL);
	CHECK(hwts_rest_keeps(&turns, rest, &due, SHARE));
	CHECK(!hwts_rest_keeps(&turns, rest, &later, SHARE));
	hwts_rest_ask(rest);
	hwts_rest_read(&turns, rest, (struct hwts_place){ 101, 0 });
	CHECK(take() == &turn[0]);
	end(&turn[0]);
	CHECK(hwts_rest_keeps(&turns, rest, &later, SHARE));
	fresh();
}

/* Together the rests read less than a share, the larger priorities first. */
TEST(rests_of_a_group_are_read_together)
{
	static const size_t pages[] = { 50, 25, 12, 6, 3, 1 };
	struct hwts_turn turn[100];

	fresh();
	for (int i = 0; i < 100; i++)
		add(&turn[i], "a", 10, 0);
	for (int priority = -20; priority < 20; priority++) {
		struct hwts_due due = due_of("a", priority, 50, HWTS_AHEAD);

		CHECK(!hwts_turns_keeps(&turns, &due, 100));
	}
	CHECK(!hwts_turns_wanted(&turns, 100));
	for (int i = 0; i < 51; i++) {
		CHECK(take() == &turn[i]);
		end(&turn[i]);
	}
	for (size_t i = 0; i < HWTS_COUNT(pages); i++) {
		struct hwts_rest *rest = hwts_turns_wanted(&turns, 100);

		REQUIRE(rest != NULL);
		CHECK_INT(rest->priority, ==, 19 - (int)i);
		CHECK_INT(hwts_rest_page(&turns, rest, 100), ==, pages[i]);
		hwts_rest_ask(rest);
	}
	CHECK(!hwts_turns_wanted(&turns, 100));
	fresh();
}

/*
 * Buckets of a shard that was taken from a dead process
 */

static const struct hwts_own burst = { .limited = true, .rules = { .burst = 3, .every_ns = HWT_S(60) } };
static int64_t empty_ns[8];

#define SHARD_OF_A (hwts_bucket("a", 1) % 8)

static void check_empty(struct hwts_turn *turn)
{
	CHECK(take() == NULL);
	now_ns += burst.rules.every_ns;
	CHECK(take() == turn);
	turns.empty_ns = NULL;
	fresh();
}

/* A row of the group still runs under an older epoch, and its rules are read after the take of the shard. */
TEST(a_bucket_that_nobody_knows_is_empty_by_the_rules_that_are_read_later)
{
	struct hwts_turn old, turn;

	fresh();
	turns.empty_ns = empty_ns;
	join(&old, "a", 0, 0);
	hwts_turns_taken(&turns, SHARD_OF_A, true, now_ns);
	REQUIRE(hwts_turns_set_own(&turns, "a", 1, &burst));
	add(&turn, "a", 1, 0);
	check_empty(&turn);
}

/* New rows have the tokens that are left. */
TEST(a_group_whose_bucket_fills_does_not_wait_until_it_is_full)
{
	struct hwts_turn turn[2];

	fresh();
	REQUIRE(hwts_turns_set_own(&turns, "a", 1, &burst));
	add(&turn[0], "a", 0, 0);
	REQUIRE(take() == &turn[0] && hwts_turns_start(&turns, &turn[0], now_ns));
	end(&turn[0]);
	CHECK_INT(hwts_turns_wake_ns(&turns), ==, now_ns + burst.rules.every_ns);
	add(&turn[1], "a", 1, 0);
	CHECK(take() == &turn[1]);
	fresh();
}

static bool refuse_memory(void)
{
	return true;
}

TEST(a_bucket_is_empty_if_there_was_no_memory_for_its_level)
{
	struct hwts_turn old, turn;
	size_t len;
	char *levels;

	fresh();
	turns.empty_ns = empty_ns;
	hwts_turns_taken(&turns, SHARD_OF_A, false, now_ns);
	REQUIRE(hwts_turns_set_own(&turns, "a", 1, &burst));
	add(&old, "a", 0, 0);
	REQUIRE(take() == &old && hwts_turns_start(&turns, &old, now_ns));
	levels = hwts_turns_levels(&turns, SHARD_OF_A, now_ns, 0, &len);
	fresh();
	REQUIRE(levels != NULL);
	/* A group with rules of its own would be there already. */
	REQUIRE(hwts_turns_set_kind(&turns, false, burst.rules));
	atomic_store(&hwts_test_refuses_memory, refuse_memory);
	hwts_turns_read_levels(&turns, levels, len, now_ns, 0);
	atomic_store(&hwts_test_refuses_memory, NULL);
	free(levels);
	add(&turn, "a", 1, 0);
	check_empty(&turn);
}

/* The old rules are gone when they are read again. */
TEST(rules_for_which_there_was_no_memory_leave_no_others_behind)
{
	static const struct hwts_own paused = { .paused = true };

	fresh();
	REQUIRE(hwts_turns_set_own(&turns, "a", 1, &paused));
	atomic_store(&hwts_test_refuses_memory, refuse_memory);
	CHECK(!hwts_turns_set_own(&turns, "b", 1, &paused));
	atomic_store(&hwts_test_refuses_memory, NULL);
	REQUIRE(hwts_turns_set_own(&turns, "b", 1, &paused));
	hwts_turns_settle(&turns, all, NULL);
	CHECK(!hwts_turns_find(&turns, "a", 1)->own);
	CHECK(hwts_turns_find(&turns, "b", 1)->own != NULL);
	fresh();
}

/* The group would wait for a token without the memory to do so. */
TEST(a_rate_of_the_kind_for_which_there_is_no_memory_changes_nothing)
{
	static const struct hwts_own paused = { .paused = true };

	fresh();
	REQUIRE(hwts_turns_set_own(&turns, "a", 1, &paused));
	atomic_store(&hwts_test_refuses_memory, refuse_memory);
	CHECK(!hwts_turns_set_kind(&turns, true, burst.rules));
	atomic_store(&hwts_test_refuses_memory, NULL);
	CHECK(!turns.paused);
	CHECK_INT(turns.each.every_ns, ==, 0);
	CHECK(hwts_turns_set_kind(&turns, true, burst.rules));
	CHECK(hwts_turns_find(&turns, "a", 1)->rate != NULL);
	fresh();
}

/* With three tokens reserved, a burst of one, and a century for each token. */
TEST(a_level_holds_no_more_tokens_than_the_burst)
{
	static const struct hwts_own slow = { .limited = true,
					      .rules = { .burst = 1, .every_ns = HWTS_LONGEST_PERIOD_US * 1000 } };
	struct hwts_turn turn[3];
	size_t len;
	char *levels;

	fresh();
	REQUIRE(hwts_turns_set_own(&turns, "a", 1, &burst));
	for (int i = 0; i < 3; i++) {
		add(&turn[i], "a", i, 0);
		CHECK(take() == &turn[i]);
	}
	REQUIRE(hwts_turns_set_own(&turns, "a", 1, &slow));
	levels = hwts_turns_levels(&turns, SHARD_OF_A, now_ns, 0, &len);
	REQUIRE(levels != NULL && len > 8);
	CHECK_INT((int64_t)hwts_get_bytes(levels, 8), ==, HWTS_LONGEST_PERIOD_US + 1);
	free(levels);
	fresh();
}

static unsigned granted; /* how many allocations succeed */

static bool refuse_later(void)
{
	return granted == 0 || granted-- == 0;
}

/* The rules, chains and the group get memory, and the rate does not. */
TEST(a_group_goes_again_for_whose_rate_there_was_no_memory)
{
	fresh();
	granted = 3;
	atomic_store(&hwts_test_refuses_memory, refuse_later);
	CHECK(!hwts_turns_set_own(&turns, "a", 1, &burst));
	CHECK_INT(turns.count, ==, 1);
	CHECK(take() == NULL);
	CHECK_INT(turns.count, ==, 0);
	granted = 2;
	CHECK(!hwts_turns_level(&turns, "a", 1, now_ns + HWT_S(60), now_ns));
	CHECK_INT(turns.count, ==, 1);
	CHECK(take() == NULL);
	CHECK_INT(turns.count, ==, 0);
	atomic_store(&hwts_test_refuses_memory, NULL);
	fresh();
}

TEST(what_is_equal_goes_in_the_order_in_which_it_came)
{
	static struct hwts_turn turn[100];

	fresh();
	for (int i = 0; i < 100; i++)
		add(&turn[i], "a", i == 50 ? 9 : 10, 0);
	CHECK(take() == &turn[50]);
	hwts_turns_count_queued(&turns, &turn[99]);
	CHECK(take() == &turn[99]);
	for (int i = 0; i < 99; i++)
		CHECK(i == 50 || take() == &turn[i]);
	for (int i = 0; i < 100; i++)
		end(&turn[i]);
	hwts_turns_clear(&turns);
}

TEST(a_group_keeps_its_turn_when_what_it_begins_is_tried_again)
{
	struct hwts_turn turn[4];

	fresh();
	for (int i = 0; i < 4; i++)
		add(&turn[i], i < 3 ? "a" : "b", 10, 0);
	CHECK(hwts_turns_pop(&turns, now_ns, true) == &turn[0]);
	CHECK(take() == &turn[1]);
	CHECK(take() == &turn[3]);
	CHECK(hwts_turns_pop(&turns, now_ns, true) == &turn[2]);
	CHECK(take() == NULL);
	for (int i = 0; i < 4; i++)
		end(&turn[i]);
	hwts_turns_clear(&turns);
}

TEST(few_that_are_left_are_told_of)
{
	struct hwts_turn turn[4];

	fresh();
	fill(turn, 4);
	CHECK(!keeps("a", 0, 20));
	CHECK(!hwts_turns_want(&turns, turn[0].group, SHARE));
	for (int i = 0; i < 3; i++) {
		CHECK(take() == &turn[i]);
		end(&turn[i]);
	}
	CHECK(hwts_turns_want(&turns, turn[3].group, SHARE));
	CHECK(hwts_turns_wanted(&turns, SHARE) != NULL);
	CHECK(take() == &turn[3]);
	end(&turn[3]);
	CHECK(hwts_turns_find(&turns, "a", 1) != NULL); /* the group stays, as it has a rest */
	hwts_turns_drop_rests(&turns, 0);
	CHECK(take() == NULL);
	CHECK_INT(turns.count, ==, 0);
	fresh();
}

TEST(a_group_of_a_crowd_takes_a_hundred_bytes)
{
	/* Malloc's header; and a place in the chain. */
	CHECK_INT(offsetof(struct hwts_turn_group, start) + 12 + 16, <=, 88);
}

/*
 * At random
 */

#define GROUPS 7
#define TURNS 60
#define STARTS 4096

enum state { AWAY, QUEUED, TAKEN, STARTED };

static struct model {
	struct hwts_turn turn[TURNS];
	enum state state[TURNS];
	int of[TURNS];
	bool counted[TURNS];
	struct hwts_own own[GROUPS]; /* group 0: none */
	bool has_own[GROUPS], paused;
	struct hwts_rules each;
	uint64_t stalled; /* a bit for each shard */
	unsigned passed[GROUPS][GROUPS]; /* how often other groups had a turn, while this one could start */
	int64_t starts[GROUPS][STARTS], since_ns[GROUPS];
	size_t started[GROUPS];
} model;

static const char *name_of(int group)
{
	static const char *const names[GROUPS] = { "", "a", "b", "c", "d", "e", "a long name of a group" };

	return names[group];
}

static struct hwts_rules rules_of(int group)
{
	if (group == 0)
		return (struct hwts_rules){ 0, 0, 0 };
	return model.has_own[group] && model.own[group].limited ? model.own[group].rules : model.each;
}

static unsigned count_of(int group, enum state from, enum state to, bool counted)
{
	unsigned count = 0;

	for (int i = 0; i < TURNS; i++)
		count += model.of[i] == group && ((model.state[i] >= from && model.state[i] <= to) ||
						  (counted && model.state[i] == QUEUED && model.counted[i]));
	return count;
}

/* The first queued turn of a group; -1: none. */
static int first_of(int group)
{
	int first = -1;

	for (int i = 0; i < TURNS; i++) {
		const struct hwts_turn *a = &model.turn[i], *b = &model.turn[first < 0 ? i : first];

		if (model.of[i] != group || model.state[i] != QUEUED)
			continue;
		if (first < 0 || a->counted > b->counted ||
		    (a->counted == b->counted &&
		     (a->priority > b->priority || (a->priority == b->priority && a->due_us < b->due_us))))
			first = i;
	}
	return first;
}

/* When the next start keeps burst + rate x time for each start so far, with `before` starts ahead of it. */
static int64_t start_ns(int group, unsigned before)
{
	struct hwts_rules rules = rules_of(group);
	int64_t full_ns = model.since_ns[group];

	if (rules.every_ns == 0)
		return INT64_MIN;
	for (size_t i = 0; i < model.started[group]; i++)
		full_ns = HWTS_MAX(full_ns, model.starts[group][i]) + rules.every_ns;
	full_ns = HWTS_MIN(full_ns, now_ns + rules.every_ns * rules.burst);
	if (before + 1 > rules.burst)
		return HWTS_MAX(full_ns, now_ns) + rules.every_ns;
	return full_ns + ((int64_t)before + 1 - rules.burst) * rules.every_ns;
}

static bool is_paused(int group)
{
	return model.paused || (model.has_own[group] && model.own[group].paused);
}

static bool is_stalled(int group)
{
	const char *name = name_of(group);

	return group == 0 ? model.stalled != 0 : model.stalled >> hwts_bucket(name, strlen(name)) % turns.shards & 1;
}

static bool may_begin(int group)
{
	int first = first_of(group);
	uint32_t most = rules_of(group).running;

	return first >= 0 && !is_stalled(group) && (model.turn[first].counted ||
			      (!is_paused(group) && !(most > 0 && count_of(group, TAKEN, STARTED, true) >= most)));
}

static unsigned reserved_of(int group)
{
	unsigned count = 0;

	for (int i = 0; i < TURNS; i++)
		count += model.of[i] == group && model.state[i] == TAKEN && model.turn[i].reserved;
	return count;
}

static bool may_take(int group)
{
	return may_begin(group) &&
	       (model.turn[first_of(group)].counted || start_ns(group, reserved_of(group)) <= now_ns);
}

static void check_nothing(void)
{
	for (int group = 0; group < GROUPS; group++) {
		CHECK(!may_take(group));
		if (may_begin(group))
			CHECK_INT(hwts_turns_wake_ns(&turns), <=, start_ns(group, reserved_of(group)));
	}
}

static void take_one(void)
{
	bool could[GROUPS];
	struct hwts_turn *turn;
	int i, group;

	for (group = 0; group < GROUPS; group++)
		could[group] = may_take(group);
	for (group = 0; group < GROUPS; group++)
		if (!could[group])
			memset(model.passed[group], 0, sizeof(model.passed[group]));
	turn = hwts_turns_pop(&turns, now_ns, false);
	if (!turn) {
		check_nothing();
		return;
	}
	i = (int)(turn - model.turn);
	group = model.of[i];
	CHECK(could[group]);
	CHECK(first_of(group) >= 0 && turn->due_us == model.turn[first_of(group)].due_us);
	CHECK_INT(turn->priority, ==, model.turn[first_of(group)].priority);
	model.state[i] = TAKEN;
	memset(model.passed[group], 0, sizeof(model.passed[group]));
	for (int other = 0; other < GROUPS; other++)
		if (other != group && could[other])
			CHECK_INT(++model.passed[other][group], <=, 1);
}

static void put_one(int i, uint64_t random)
{
	model.of[i] = (int)(random % GROUPS);
	join(&model.turn[i], name_of(model.of[i]), (int64_t)(random >> 8 & 1023), (int)(random >> 20 & 3) - 1);
	model.counted[i] = (random >> 30 & 15) == 0;
	if (model.counted[i])
		hwts_turns_count(&model.turn[i]);
	hwts_turns_add(&turns, &model.turn[i]);
	model.state[i] = QUEUED;
}

static void start_one(int i)
{
	int group = model.of[i];
	struct hwts_rules rules = rules_of(group);
	bool may = !is_paused(group) && !(rules.running > 0 && count_of(group, TAKEN, STARTED, true) > rules.running) &&
		   start_ns(group, 0) <= now_ns;

	CHECK(hwts_turns_start(&turns, &model.turn[i], now_ns) == may);
	if (may && rules.every_ns > 0 && model.started[group] < STARTS)
		model.starts[group][model.started[group]++] = now_ns;
	if (may) {
		model.state[i] = STARTED;
		return;
	}
	hwts_turns_done(&turns, &model.turn[i]);
	hwts_turns_add(&turns, &model.turn[i]);
	model.counted[i] = false;
	model.state[i] = QUEUED;
}

static void act_on(int i, uint64_t random)
{
	if (model.state[i] == AWAY) {
		put_one(i, random);
	} else if (model.state[i] == TAKEN && random % 4 != 0) {
		start_one(i);
	} else if (model.state[i] == TAKEN) { /* given back */
		hwts_turns_done(&turns, &model.turn[i]);
		hwts_turns_add(&turns, &model.turn[i]);
		model.counted[i] = false;
		model.state[i] = QUEUED;
	} else if (model.state[i] == STARTED) {
		hwts_turns_leave(&turns, &model.turn[i], now_ns);
		model.state[i] = AWAY;
	}
}

/* Rates stay: other tests cover changes of rules with buckets. */
static void change_rules(uint64_t random)
{
	int group = 1 + (int)(random % (GROUPS - 1));

	if (random >> 8 & 1) {
		model.paused = (random >> 9 & 3) == 0;
		model.each.running = (uint32_t)(random >> 16 & 3);
		REQUIRE(hwts_turns_set_kind(&turns, model.paused, model.each));
		return;
	}
	model.has_own[group] = group <= 2 || (random >> 9 & 3) != 0;
	model.own[group].limited = group <= 2 || (random >> 12 & 1);
	model.own[group].paused = (random >> 13 & 3) == 0;
	model.own[group].rules.running = (uint32_t)(random >> 16 & 3);
	for (int i = 1; i < GROUPS; i++)
		if (model.has_own[i])
			REQUIRE(hwts_turns_set_own(&turns, name_of(i), strlen(name_of(i)), &model.own[i]));
	hwts_turns_settle(&turns, all, NULL);
}

static void stall(uint64_t shards)
{
	model.stalled = shards;
	for (uint32_t i = 0; i < turns.shards; i++)
		hwts_turns_stall(&turns, i, shards >> i & 1);
}

static void check_all(void)
{
	size_t queued = 0;

	for (int i = 0; i < TURNS; i++) {
		const struct hwts_turn_group *group = model.turn[i].group;

		queued += model.state[i] == QUEUED;
		if (model.state[i] == AWAY)
			continue;
		CHECK_INT(group->running, ==, count_of(model.of[i], TAKEN, STARTED, true));
		CHECK_INT(group->turns, ==, count_of(model.of[i], QUEUED, STARTED, false));
		CHECK_INT(group->reserved, ==, reserved_of(model.of[i]));
	}
	CHECK_INT(turns.queued, ==, queued);
}

static void end_all(void)
{
	stall(0);
	model.paused = false;
	memset(model.has_own, 0, sizeof(model.has_own));
	model.each = (struct hwts_rules){ 0, 0, 0 };
	hwts_turns_settle(&turns, all, NULL);
	hwts_turns_settle(&turns, all, NULL);
	REQUIRE(hwts_turns_set_kind(&turns, false, model.each));
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < TURNS; i++) {
			struct hwts_turn *turn = hwts_turns_pop(&turns, now_ns, false);

			if (turn)
				model.state[turn - model.turn] = STARTED;
			if (model.state[i] >= TAKEN) {
				hwts_turns_leave(&turns, &model.turn[i], now_ns);
				model.state[i] = AWAY;
			}
		}
	now_ns += HWT_S(3600);
	CHECK(hwts_turns_pop(&turns, now_ns, false) == NULL);
	CHECK_INT(turns.count, ==, 0);
}

TEST(at_random_it_does_what_a_model_does)
{
	struct prng prng = { test_seed("turns") };

	for (unsigned round = 0; round < scaled(60) && atomic_load(&test_failures) == 0; round++) {
		fresh();
		memset(&model, 0, sizeof(model));
		model.own[1].rules = (struct hwts_rules){ 0, 3, HWT_MS(40) };
		model.own[2].rules = (struct hwts_rules){ 0, 1, HWT_S(2) };
		for (int i = 1; i <= 2; i++) {
			model.has_own[i] = model.own[i].limited = true;
			REQUIRE(hwts_turns_set_own(&turns, name_of(i), 1, &model.own[i]));
		}
		for (unsigned step = 0; step < 2000; step++) {
			uint64_t random = prng_next(&prng);

			if (random % 16 < 6)
				act_on((int)(random >> 32 & 0xffff) % TURNS, random >> 4);
			else if (random % 16 < 12)
				take_one();
			else if (random % 16 < 15)
				now_ns += (int64_t)(random >> 40 & 0xfffffff) / 8;
			else if (random >> 8 & 1)
				change_rules(random >> 16);
			else
				stall(random >> 9 & random >> 17 & 255);
			check_all();
		}
		end_all();
	}
	hwts_turns_clear(&turns);
}

/*
 * Rests at random: rows of a group in a database, some of which the window keeps
 */

#define ROWS 300

static struct row {
	struct hwts_turn turn;
	struct hwts_due due;
	enum { NONE, RESTS, KEPT, DUE, GONE } state;
} rows[ROWS];

static bool is_before(const struct hwts_due *a, const struct hwts_due *b)
{
	return a->due_us < b->due_us || (a->due_us == b->due_us && a->id < b->id);
}

static void keep_row(struct row *row)
{
	join(&row->turn, "a", row->due.due_us, row->due.priority);
	row->state = KEPT;
	/* Beyond twice the share only rows that go before all others. */
	CHECK_INT(row->turn.group->turns, <=, 5 * SHARE);
}

static void queue_rows(void)
{
	for (struct row *row = rows; row < rows + ROWS; row++)
		if (row->state == KEPT && row->due.due_us <= turns.now_us) {
			hwts_turns_add(&turns, &row->turn);
			row->state = DUE;
		}
}

/* Most rows are due within a second, and some a little later than earlier rows of their priority. */
static void put_row(uint64_t random)
{
	struct row *row = rows;

	while (row < rows + ROWS && row->state != NONE)
		row++;
	if (row == rows + ROWS)
		return;
	row->due = due_of("a", (int)(random & 3), turns.now_us + (int64_t)(random >> 8 & 0x1fffff) - 0x7ffff,
			  random >> 4 & 1 ? HWTS_TOLD : HWTS_AHEAD);
	row->due.id = (int64_t)(row - rows + 1) << HWTS_BUCKET_BITS;
	row->state = RESTS;
	if (hwts_turns_keeps(&turns, &row->due, SHARE))
		keep_row(row);
	CHECK_INT(hwts_turns_rests(&turns, &row->due), ==, row->state == RESTS);
	queue_rows();
}

/* The next row of a rest, among the rows that were there when the reading began. */
static struct row *next_of(const struct hwts_rest *rest, const struct hwts_due *after, const struct row *end)
{
	struct row *next = NULL;

	for (struct row *row = rows; row < end; row++)
		if (row->state != NONE && row->state != GONE && row->due.priority == rest->priority &&
		    (row->due.due_us > rest->asked.due_us ||
		     (row->due.due_us == rest->asked.due_us && row->due.id >= rest->asked.id)) &&
		    (!after || is_before(after, &row->due)) && (!next || is_before(&row->due, &next->due)))
			next = row;
	return next;
}

static void read_rest(struct hwts_rest *rest, uint64_t random)
{
	const struct row *last = NULL, *end = rows;
	size_t page = hwts_rest_page(&turns, rest, SHARE), count = 0;
	struct hwts_place to = everything;
	struct row *row;

	hwts_rest_ask(rest);
	while (end < rows + ROWS && end->state != NONE)
		end++;
	if (random & 1)
		put_row(random >> 1);
	while (count < page && (row = next_of(rest, last ? &last->due : NULL, end)) != NULL) {
		if (row->state == RESTS && !hwts_rest_keeps(&turns, rest, &row->due, SHARE)) {
			to = (struct hwts_place){ row->due.due_us, row->due.id };
			break;
		}
		if (row->state == RESTS)
			keep_row(row);
		last = row;
		count++;
	}
	if (count == page && last)
		to = (struct hwts_place){ last->due.due_us, last->due.id + 1 };
	hwts_rest_read(&turns, rest, to);
	queue_rows();
}

/* Checks that it is the first of all rows, kept or not; if none can be taken, a rest has to be read. */
static void take_row(uint64_t random)
{
	struct hwts_turn *turn = take();
	bool any = false;

	for (const struct row *row = rows; row < rows + ROWS; row++) {
		if (row->state == NONE || row->state == GONE || row->due.due_us > turns.now_us)
			continue;
		any = true;
		if (turn)
			CHECK(row->due.priority < turn->priority ||
			      (row->due.priority == turn->priority && row->due.due_us >= turn->due_us));
	}
	CHECK(turn || !any || hwts_turns_wanted(&turns, SHARE));
	if (turn) {
		end(turn);
		((struct row *)((char *)turn - offsetof(struct row, turn)))->state = GONE;
	} else if (any) {
		read_rest(hwts_turns_wanted(&turns, SHARE), random);
	}
}

TEST(whatever_is_kept_all_rows_are_taken_in_their_order)
{
	struct prng prng = { test_seed("rests") };

	for (unsigned round = 0; round < scaled(60) && atomic_load(&test_failures) == 0; round++) {
		struct hwts_rest *rest;
		unsigned left = 0;

		fresh();
		memset(rows, 0, sizeof(rows));
		hwts_turns_at(&turns, HWTS_S_US);
		for (unsigned step = 0; step < 3000 || left < ROWS; step++) {
			uint64_t random = prng_next(&prng);

			if (step >= 3000 || random % 16 == 0) {
				hwts_turns_at(&turns, turns.now_us + (int64_t)(random >> 16 & 0x3ffff));
				queue_rows();
			}
			if (random % 16 < 4 || step > 3000)
				put_row(random >> 4);
			else if (random % 16 < 6 && (rest = hwts_turns_wanted(&turns, SHARE)) != NULL)
				read_rest(rest, random >> 8);
			if (random % 16 > 9 || step > 3000)
				take_row(random >> 8);
			left = 0;
			for (int i = 0; i < ROWS; i++)
				left += rows[i].state == GONE;
			REQUIRE(step < 100000);
		}
		CHECK_INT(turns.count, ==, 0);
	}
	fresh();
}

STORE_MAIN(NULL)
