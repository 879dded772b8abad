/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The timeouts that a call is about: one by its id or its key, all of a group, all of a kind, by their states; in a
 * transaction of the store or of the caller.
 */
#include "store_query.h"

#include "inside.h"

#define PENDING (1u << HWT_STORE_PENDING)
#define RUNNING (1u << HWT_STORE_RUNNING)
#define FAILED (1u << HWT_STORE_FAILED)
#define WHICH(...) (&(hwt_store_which){ .size = sizeof(hwt_store_which), __VA_ARGS__ })
#define IN(delay) ((hwt_store_when){ .delay_ns = (delay) })
#define AT(us) ((hwt_store_when){ .due_us = (us) })

static int64_t put_in(hwt_store *store, const char *kind, const char *group, const char *key)
{
	return put_spec(store, &SPEC(kind, HWT_S(3600), .group = group, .key = key));
}

static void put_n(hwt_store *store, const char *kind, const char *group, size_t n)
{
	hwt_store_spec *specs = calloc(n, sizeof(*specs));

	REQUIRE(specs != NULL);
	for (size_t i = 0; i < n; i++) {
		specs[i] = SPEC(kind, HWT_S(3600) + (int64_t)(i % 7) * HWT_S(60), .group = group);
	}
	CHECK_CALL(hwt_store_put_many(store, specs, n, NULL), 0);
	free(specs);
}

/* Writes the state directly: the row has failed, or runs in no process. */
static void make(int64_t id, hwt_store_state state)
{
	CHECK_INT(query("update %s_timeout set state = %d, shard = %s, attempt = 4 where id = %" PRId64 " returning 1",
			world.schema, (int)state, state == HWT_STORE_FAILED ? "-1 - shard" : "shard", id),
		  ==, 1);
}

static int64_t count_of(const char *where)
{
	return query("select count(*) from %s_timeout t join %s_kind k on k.id = t.kind where %s", world.schema,
		     world.schema, where);
}

/*
 * What users pass
 */

TEST(what_makes_no_sense_is_refused_and_changes_nothing)
{
	static char name[300];
	hwt_store_info info = HWT_STORE_INFO_INIT;
	uint64_t n = 7;
	int64_t id;

	memset(name, 'n', 256);
	CLOSING hwt_store *store = fresh_store();
	id = put_in(store, "a", "g", "k");
	USER *connection = connect_user();
#define REFUSED(...)                                                                                                   \
	do {                                                                                                           \
		n = 7;                                                                                                 \
		CHECK_CALL(hwt_store_cancel_ex(store, __VA_ARGS__, &n), EINVAL);                                       \
		CHECK_INT(n, ==, 0);                                                                                   \
		n = 7;                                                                                                 \
		CHECK_CALL(hwt_store_reschedule_ex(store, __VA_ARGS__, IN(0), &n), EINVAL);                            \
		CHECK_INT(n, ==, 0);                                                                                   \
		CHECK_CALL(hwt_store_get_ex(store, __VA_ARGS__, &info), EINVAL);                                       \
		CHECK_CALL(hwt_store_each_ex(store, __VA_ARGS__, NULL, NULL), EINVAL);                                 \
		CHECK_CALL(hwt_store_cancel_on(store, connection, __VA_ARGS__), EINVAL);                               \
		CHECK_CALL(hwt_store_reschedule_on(store, connection, __VA_ARGS__, IN(0)), EINVAL);                    \
	} while (0)
	REFUSED(NULL);
	REFUSED(&(hwt_store_which){ .size = 8, .id = id });
	REFUSED(WHICH(.kind = NULL, .key = "k"));
	REFUSED(WHICH(.kind = "", .key = "k"));
	REFUSED(WHICH(.kind = name, .key = "k"));
	REFUSED(WHICH(.kind = "a"));
	REFUSED(WHICH(.kind = "a", .group = "g"));
	REFUSED(WHICH(.kind = "a", .group = "g", .key = ""));
	REFUSED(WHICH(.kind = "a", .group = "g", .key = name));
	REFUSED(WHICH(.kind = "a", .group = "g", .key = "\xff"));
	REFUSED(WHICH(.kind = "a", .group = "", .key = "k"));
	REFUSED(WHICH(.kind = "a", .group = name, .key = "k"));
	REFUSED(WHICH(.kind = "a", .group = "\xff", .all = true));
	REFUSED(WHICH(.kind = "a", .group = "g", .any_group = true, .key = "k"));
	REFUSED(WHICH(.kind = "a", .group = "g", .key = "k", .all = true));
	REFUSED(WHICH(.kind = "a", .group = "g", .all = true, .any_group = true));
	REFUSED(WHICH(.id = id, .all = true));
	REFUSED(WHICH(.id = id, .any_group = true));
	REFUSED(WHICH(.id = id, .states = 1));
	REFUSED(WHICH(.id = id, .states = 16));
	REFUSED(WHICH(.id = id, .after_id = 1));
	REFUSED(WHICH(.kind = "a", .group = "g", .key = "k", .after_us = 1));
	CHECK_CALL(hwt_store_cancel_ex(store, WHICH(.kind = "a", .all = true, .any_group = true, .after_us = 1), NULL),
		   EINVAL);
	CHECK_CALL(hwt_store_reschedule_ex(store, WHICH(.kind = "a", .all = true, .any_group = true, .after_id = 1),
					   IN(0), NULL),
		   EINVAL);
	CHECK_CALL(hwt_store_get_ex(store, WHICH(.kind = "a", .all = true), &info), EINVAL);
	CHECK_CALL(hwt_store_get_ex(store, WHICH(.id = id), NULL), EINVAL);
	CHECK_CALL(hwt_store_cancel_on(store, connection, WHICH(.kind = "a", .all = true)), EINVAL);
	CHECK_CALL(hwt_store_cancel_on(store, NULL, WHICH(.id = id)), EINVAL);
	CHECK_CALL(hwt_store_reschedule_on(store, connection, WHICH(.kind = "a", .all = true), IN(0)), EINVAL);
	CHECK_CALL(hwt_store_reschedule_on(store, NULL, WHICH(.id = id), IN(0)), EINVAL);
	CHECK_CALL(hwt_store_cancel_ex(store, WHICH(.id = id, .states = HWT_STORE_WITH_DATA), NULL), EINVAL);
	CHECK_CALL(hwt_store_reschedule_ex(store, WHICH(.id = id, .states = PENDING | RUNNING), IN(0), NULL), EINVAL);
	CHECK_CALL(hwt_store_reschedule_ex(store, WHICH(.id = id), AT(-1), NULL), EINVAL);
	CHECK_CALL(hwt_store_reschedule_ex(store, WHICH(.id = id), AT(INT64_MAX), NULL), EINVAL);
	CHECK_CALL(hwt_store_cancel_ex(NULL, WHICH(.id = id), NULL), EINVAL);
	CHECK_INT(info_of(store, id).state, ==, HWT_STORE_PENDING);
}

/*
 * One timeout
 */

TEST(one_is_meant_by_its_id_or_by_its_key_in_its_group)
{
	CLOSING hwt_store *store = fresh_store();
	hwt_store_info info = HWT_STORE_INFO_INIT;
	int64_t alone, grouped, other;
	uint64_t n = 7;

	alone = put_in(store, "a", NULL, "k");
	grouped = put_in(store, "a", "g", "k");
	other = put_in(store, "b", "g", "k");
	CHECK_CALL(hwt_store_get_ex(store, WHICH(.kind = "a", .key = "k"), &info), 0);
	CHECK_INT(info.id, ==, alone);
	CHECK_CALL(hwt_store_get_ex(store, WHICH(.kind = "a", .group = "g", .key = "k"), &info), 0);
	CHECK_INT(info.id, ==, grouped);
	CHECK_CALL(hwt_store_get_ex(store, WHICH(.id = other), &info), 0);
	CHECK_INT(info.id, ==, other);
	CHECK_CALL(hwt_store_get_ex(store, WHICH(.kind = "a", .group = "h", .key = "k"), &info), ENOENT);
	CHECK_CALL(hwt_store_get_ex(store, WHICH(.kind = "none", .group = "g", .key = "k"), &info), ENOENT);
	CHECK_CALL(hwt_store_cancel_ex(store, WHICH(.kind = "a", .group = "h", .key = "k"), &n), ENOENT);
	CHECK_INT(n, ==, 0);
	CHECK_CALL(hwt_store_cancel_ex(store, WHICH(.kind = "a", .group = "g", .key = "k"), &n), 0);
	CHECK_INT(n, ==, 1);
	CHECK_CALL(hwt_store_cancel_ex(store, WHICH(.kind = "a", .group = "g", .key = "k"), &n), ENOENT);
	CHECK_CALL(hwt_store_cancel_ex(store, WHICH(.id = grouped), NULL), ENOENT);
	CHECK_CALL(hwt_store_cancel_ex(store, WHICH(.id = other), &n), 0);
	CHECK_INT(n, ==, 1);
	CHECK_CALL(hwt_store_reschedule_ex(store, WHICH(.kind = "a", .key = "k"), AT(4000000000000000), &n), 0);
	CHECK_INT(n, ==, 1);
	CHECK_INT(info_of(store, alone).due_us, ==, 4000000000000000);
	CHECK_CALL(hwt_store_reschedule_ex(store, WHICH(.id = alone), IN(HWT_S(60)), NULL), 0);
	CHECK_INT(info_of(store, alone).due_us, >=, now_us() - HWT_S(3600) / 1000);
	CHECK_INT(info_of(store, alone).due_us, <, 4000000000000000);
	CHECK_INT(stats_of_store(store).cancelled, ==, 2);
	/* 0 is never an id. */
	CHECK_CALL(hwt_store_cancel(store, 0), ENOENT);
	CHECK_CALL(hwt_store_reschedule(store, 0, 0), ENOENT);
	CHECK_CALL(hwt_store_get(store, 0, &info), ENOENT);
}

TEST(what_is_in_another_state_is_not_meant)
{
	CLOSING hwt_store *store = fresh_store();
	hwt_store_info info = HWT_STORE_INFO_INIT;
	int64_t pending, running, failed;

	pending = put(store, "a", HWT_S(3600));
	running = put(store, "a", HWT_S(3600));
	failed = put(store, "a", HWT_S(3600));
	make(running, HWT_STORE_RUNNING);
	make(failed, HWT_STORE_FAILED);
	CHECK_CALL(hwt_store_get_ex(store, WHICH(.id = pending, .states = RUNNING | FAILED), &info), ENOENT);
	CHECK_CALL(hwt_store_get_ex(store, WHICH(.id = failed, .states = FAILED), &info), 0);
	CHECK_CALL(hwt_store_cancel_ex(store, WHICH(.id = pending, .states = FAILED), NULL), ENOENT);
	CHECK_CALL(hwt_store_cancel_ex(store, WHICH(.id = failed, .states = PENDING | RUNNING), NULL), ENOENT);
	CHECK_CALL(hwt_store_cancel_ex(store, WHICH(.id = running, .states = PENDING | FAILED), NULL), ENOENT);
	CHECK_CALL(hwt_store_cancel_ex(store, WHICH(.id = running), NULL), EBUSY);
	CHECK_CALL(hwt_store_cancel_ex(store, WHICH(.id = running, .states = RUNNING), NULL), EBUSY);
	CHECK_CALL(hwt_store_reschedule_ex(store, WHICH(.id = failed), IN(0), NULL), ENOENT);
	CHECK_CALL(hwt_store_reschedule_ex(store, WHICH(.id = pending, .states = FAILED), IN(0), NULL), ENOENT);
	CHECK_CALL(hwt_store_reschedule_ex(store, WHICH(.id = running), IN(0), NULL), EBUSY);
	CHECK_INT(count_of("k.name = 'a'"), ==, 3);
	CHECK_CALL(hwt_store_reschedule_ex(store, WHICH(.id = failed, .states = FAILED), IN(HWT_S(3600)), NULL), 0);
	info = info_of(store, failed);
	CHECK_INT(info.state, ==, HWT_STORE_PENDING);
	CHECK_INT(info.attempt, ==, 0);
	CHECK_CALL(hwt_store_cancel_ex(store, WHICH(.id = failed, .states = PENDING), NULL), 0);
	CHECK_CALL(hwt_store_cancel_ex(store, WHICH(.id = pending, .states = PENDING | FAILED), NULL), 0);
}

/*
 * Many timeouts
 */

TEST(all_of_a_group_are_cancelled_and_nothing_else)
{
	CLOSING hwt_store *store = fresh_store();
	uint64_t n = 7;

	put_n(store, "a", "g", 2500);
	put_n(store, "a", "h", 30);
	put_n(store, "a", NULL, 40);
	put_n(store, "b", "g", 50);
	CHECK_CALL(hwt_store_cancel_ex(store, WHICH(.kind = "a", .group = "g", .all = true), &n), 0);
	CHECK_INT(n, ==, 2500);
	CHECK_INT(count_of("grp = 'g' and k.name = 'a'"), ==, 0);
	CHECK_INT(count_of("true"), ==, 120);
	CHECK_CALL(hwt_store_cancel_ex(store, WHICH(.kind = "a", .group = "g", .all = true), &n), 0);
	CHECK_INT(n, ==, 0);
	n = 7;
	CHECK_CALL(hwt_store_cancel_ex(store, WHICH(.kind = "none", .group = "g", .all = true), &n), 0);
	CHECK_INT(n, ==, 0);
	/* Rows without a group. */
	CHECK_CALL(hwt_store_cancel_ex(store, WHICH(.kind = "a", .all = true), &n), 0);
	CHECK_INT(n, ==, 40);
	CHECK_INT(count_of("k.name = 'a'"), ==, 30);
	/* The whole kind. */
	put_n(store, "a", NULL, 2100);
	CHECK_CALL(hwt_store_cancel_ex(store, WHICH(.kind = "a", .all = true, .any_group = true), &n), 0);
	CHECK_INT(n, ==, 2130);
	CHECK_INT(count_of("true"), ==, 50);
	CHECK_INT(stats_of_store(store).cancelled, ==, 2500 + 40 + 2130);
}

TEST(of_many_only_those_in_the_states_are_cancelled)
{
	static const struct {
		const char *group;
		bool any;
	} by[] = { { "g", false }, { NULL, false }, { NULL, true } };

	fresh_world();
	for (size_t i = 0; i < HWTS_COUNT(by); i++) {
		CLOSING hwt_store *store = open_store();
		hwt_store_which which = {
			.size = sizeof(which), .kind = "a", .group = by[i].group, .all = true, .any_group = by[i].any
		};
		uint64_t n = 7;
		int64_t id;

		put_n(store, "a", by[i].group, 20);
		id = put_in(store, "a", by[i].group, NULL);
		make(id, HWT_STORE_FAILED);
		which.states = FAILED;
		CHECK_CALL(hwt_store_cancel_ex(store, &which, &n), 0);
		CHECK_INT(n, ==, 1);
		CHECK_INT(count_of("true"), ==, 20);
		make(put_in(store, "a", by[i].group, NULL), HWT_STORE_FAILED);
		which.states = PENDING;
		CHECK_CALL(hwt_store_cancel_ex(store, &which, &n), 0);
		CHECK_INT(n, ==, 20);
		which.states = 0;
		CHECK_CALL(hwt_store_cancel_ex(store, &which, &n), 0);
		CHECK_INT(n, ==, 1);
		CHECK_INT(count_of("true"), ==, 0);
	}
}

TEST(all_of_a_group_get_one_due_time)
{
	const int64_t at_us = now_us() + 3600 * HWTS_S_US;
	CLOSING hwt_store *store = fresh_store();
	uint64_t n = 7;
	int64_t id, due_us;

	put_n(store, "a", "g", 2500); /* before, at and after that time */
	put_n(store, "a", "h", 10);
	id = put_in(store, "a", "g", NULL);
	make(id, HWT_STORE_FAILED);
	CHECK_CALL(hwt_store_reschedule_ex(store, WHICH(.kind = "a", .group = "g", .all = true), AT(at_us), &n), 0);
	CHECK_INT(n, ==, 2500);
	CHECK_INT(query("select count(*) from %s_timeout where due_us = %" PRId64, world.schema, at_us), ==, 2500);
	/* Once more: timeouts that are due at that time already count as well. */
	CHECK_CALL(hwt_store_reschedule_ex(
		       store, WHICH(.kind = "a", .group = "g", .all = true, .states = PENDING | FAILED), AT(at_us), &n),
		   0);
	CHECK_INT(n, ==, 2501);
	CHECK_INT(info_of(store, id).state, ==, HWT_STORE_PENDING);
	CHECK_INT(info_of(store, id).due_us, ==, at_us);
	CHECK_CALL(hwt_store_reschedule_ex(store, WHICH(.kind = "a", .group = "g", .all = true), IN(HWT_S(9000)), &n),
		   0);
	CHECK_INT(n, ==, 2501);
	due_us = info_of(store, id).due_us;
	CHECK_INT(due_us, >, at_us);
	CHECK_INT(query("select count(*) from %s_timeout where due_us = %" PRId64, world.schema, due_us), ==, 2501);
	CHECK_CALL(hwt_store_reschedule_ex(store, WHICH(.kind = "a", .all = true, .any_group = true), IN(-1), &n), 0);
	CHECK_INT(n, ==, 2511);
	CHECK_INT(info_of(store, id).due_us, <=, now_us() + HWTS_S_US);
	n = 7;
	CHECK_CALL(hwt_store_reschedule_ex(store, WHICH(.kind = "none", .all = true), IN(0), &n), 0);
	CHECK_INT(n, ==, 0);
}

static atomic_uint slices;

static void count_slices(const char *name)
{
	atomic_fetch_add(&slices, strcmp(name, "slice") == 0);
}

TEST(many_are_cancelled_by_slices)
{
	CLOSING hwt_store *store = fresh_store();
	uint64_t n = 0;

	put_n(store, "a", "g", 5000);
	atomic_store(&slices, 0);
	atomic_store(&hwts_test_at, count_slices);
	CHECK_CALL(hwt_store_cancel_ex(store, WHICH(.kind = "a", .group = "g", .all = true), &n), 0);
	atomic_store(&hwts_test_at, NULL);
	CHECK_INT(n, ==, 5000);
	CHECK_INT(atomic_load(&slices), >=, 5);
}

/*
 * Reading many
 */

struct seen {
	size_t count, limit, in_order, with_data, len;
	int64_t last_us;
	unsigned states;
	const char *group; /* "": none */
	size_t others;
};

static bool see(void *ctx, const hwt_store_info *info)
{
	struct seen *seen = ctx;

	seen->in_order += info->due_us >= seen->last_us;
	seen->last_us = info->due_us;
	seen->states |= 1u << info->state;
	seen->with_data += info->data != NULL && info->data_room == info->len &&
			   memcmp(info->data, "0123456789", info->len) == 0;
	seen->len += info->len;
	seen->others += seen->group != NULL && strcmp(info->group, seen->group) != 0;
	return ++seen->count != seen->limit;
}

TEST(each_sees_a_group_or_a_kind_in_order_of_due_time)
{
	CLOSING hwt_store *store = fresh_store();
	struct seen seen = { .group = "g" };

	put_n(store, "a", "g", 3000);
	put_n(store, "a", "h", 20);
	put_n(store, "a", NULL, 30);
	put_n(store, "b", "g", 5);
	make(put_in(store, "a", "g", NULL), HWT_STORE_FAILED);
	CHECK_CALL(hwt_store_each_ex(store, WHICH(.kind = "a", .group = "g", .all = true), see, &seen), 0);
	CHECK_INT(seen.count, ==, 3001);
	CHECK_INT(seen.in_order, ==, 3001);
	CHECK_INT(seen.others, ==, 0);
	CHECK_INT(seen.with_data, ==, 0);
	seen = (struct seen){ .group = "g" };
	CHECK_CALL(
	    hwt_store_each_ex(store, WHICH(.kind = "a", .group = "g", .all = true, .states = FAILED), see, &seen), 0);
	CHECK_INT(seen.count, ==, 1);
	CHECK_INT(seen.states, ==, FAILED);
	seen = (struct seen){ .group = "" };
	CHECK_CALL(hwt_store_each_ex(store, WHICH(.kind = "a", .all = true), see, &seen), 0);
	CHECK_INT(seen.count, ==, 30);
	CHECK_INT(seen.others, ==, 0);
	seen = (struct seen){ .group = "" };
	CHECK_CALL(hwt_store_each(store, "a", PENDING, see, &seen), 0);
	CHECK_INT(seen.count, ==, 30);
	CHECK_INT(seen.others, ==, 0);
	seen = (struct seen){ .limit = 2500 };
	CHECK_CALL(hwt_store_each_ex(store, WHICH(.kind = "a", .all = true, .any_group = true), see, &seen), 0);
	CHECK_INT(seen.count, ==, 2500);
	CHECK_INT(seen.in_order, ==, 2500);
	seen = (struct seen){ .limit = 0 };
	CHECK_CALL(hwt_store_each_ex(store, WHICH(.kind = "a", .all = true, .any_group = true), see, &seen), 0);
	CHECK_INT(seen.count, ==, 3051);
	CHECK_CALL(hwt_store_each_ex(store, WHICH(.kind = "none", .all = true), see, &seen), ENOENT);
	/* One timeout. */
	seen = (struct seen){ .group = NULL };
	put_in(store, "a", "g", "k");
	CHECK_CALL(hwt_store_each_ex(store, WHICH(.kind = "a", .group = "g", .key = "k"), see, &seen), 0);
	CHECK_INT(seen.count, ==, 1);
	CHECK_CALL(hwt_store_each_ex(store, WHICH(.kind = "a", .group = "h", .key = "k"), see, &seen), ENOENT);
	CHECK_INT(seen.count, ==, 1);
}

struct paging {
	int64_t us, id; /* of the last */
	size_t of_page, count, in_order;
};

static bool see_page(void *ctx, const hwt_store_info *info)
{
	struct paging *paging = ctx;

	paging->in_order += info->due_us > paging->us || (info->due_us == paging->us && info->id > paging->id);
	paging->us = info->due_us;
	paging->id = info->id;
	paging->count++;
	return ++paging->of_page != 7;
}

/* By pages of seven, of a group and of a kind; the last row of a page is gone when the next page is read. */
TEST(each_goes_on_after_a_place)
{
	CLOSING hwt_store *store = fresh_store();

	put_n(store, "a", "g", 40);
	put_n(store, "a", "h", 20);
	for (int whole = 0; whole < 2; whole++) {
		struct paging paging = { .of_page = 7 };

		while (paging.of_page == 7) {
			hwt_store_which which = *WHICH(.kind = "a", .group = whole ? NULL : "g", .all = true,
						       .any_group = whole);

			which.after_us = paging.us;
			which.after_id = paging.id;
			paging.of_page = 0;
			CHECK_CALL(hwt_store_each_ex(store, &which, see_page, &paging), 0);
			if (!whole && paging.of_page == 7)
				CHECK_CALL(hwt_store_cancel(store, paging.id), 0);
		}
		CHECK_INT(paging.count, ==, whole ? 60 - 5 : 40);
		CHECK_INT(paging.in_order, ==, paging.count);
	}
	/* A program that was compiled before the fields after_us and after_id existed. */
	struct seen seen = { .group = "h" };
	hwt_store_which old = *WHICH(.kind = "a", .group = "h", .all = true, .after_us = 1);

	old.size = offsetof(hwt_store_which, after_us);
	CHECK_CALL(hwt_store_each_ex(store, &old, see, &seen), 0);
	CHECK_INT(seen.count, ==, 20);
}

struct moving {
	hwt_store *store;
	int64_t id;
	size_t seen, others;
};

/* The first row of the list moves the other row to the latest time. */
static bool move_later(void *ctx, const hwt_store_info *info)
{
	struct moving *moving = ctx;

	if (moving->others + moving->seen == 0)
		CHECK_CALL(hwt_store_reschedule(moving->store, moving->id, HWT_S(7200)), 0);
	moving->others += info->id != moving->id;
	if (info->id != moving->id)
		return true;
	moving->seen++;
	CHECK_INT(info->due_us, >, now_us() + 5400 * HWTS_S_US);
	return true;
}

/* The first row was read before the move, the other after it: in the last part of a list, and in an earlier part. */
TEST(each_sees_what_moves_to_a_later_time)
{
	CLOSING hwt_store *store = fresh_store();
	struct moving moving = { .store = store };

	put_n(store, "a", "g", 200);
	moving.id = put_spec(store, &SPEC("a", HWT_S(3800), .group = "g"));
	CHECK_CALL(hwt_store_each_ex(store, WHICH(.kind = "a", .group = "g", .all = true), move_later, &moving), 0);
	CHECK_INT(moving.seen, ==, 1);
	CHECK_INT(moving.others, ==, 200);
	moving = (struct moving){ .store = store, .id = moving.id };
	put_n(store, "a", "g", 600);
	CHECK_CALL(hwt_store_reschedule(store, moving.id, HWT_S(3630)), 0);
	CHECK_CALL(hwt_store_each_ex(store, WHICH(.kind = "a", .group = "g", .all = true), move_later, &moving), 0);
	CHECK_INT(moving.seen, ==, 1);
	CHECK_INT(moving.others, ==, 800);
}

TEST(each_reads_data_when_it_is_asked_for)
{
	CLOSING hwt_store *store = fresh_store();
	struct seen seen = { .limit = 0 };

	for (size_t i = 0; i < 40; i++) {
		hwt_store_spec spec = SPEC("a", HWT_S(3600), .data = "0123456789", .len = i % 11);

		CHECK_CALL(put_patiently(store, &spec, NULL), 0);
	}
	CHECK_CALL(hwt_store_each(store, "a", PENDING, see, &seen), 0);
	CHECK_INT(seen.with_data, ==, 0);
	CHECK_INT(seen.len, ==, 3 * 55 + 21);
	seen = (struct seen){ .limit = 0 };
	CHECK_CALL(hwt_store_each(store, "a", PENDING | HWT_STORE_WITH_DATA, see, &seen), 0);
	CHECK_INT(seen.count, ==, 40);
	CHECK_INT(seen.with_data, ==, 36);
	seen = (struct seen){ .limit = 13 };
	CHECK_CALL(hwt_store_each_ex(store, WHICH(.kind = "a", .all = true, .states = HWT_STORE_WITH_DATA), see, &seen),
		   0);
	CHECK_INT(seen.count, ==, 13);
	CHECK_CALL(hwt_store_each(store, "a", HWT_STORE_WITH_DATA, see, &seen), EINVAL);
}

/*
 * On a connection of the caller
 */

TEST(what_is_done_on_a_connection_has_happened_if_that_commits)
{
	CLOSING hwt_store *store = fresh_store();
	hwt_store_info info = HWT_STORE_INFO_INIT;
	int64_t ids[3], before_us;

	ids[0] = put_in(store, "a", "g", "0");
	ids[1] = put_in(store, "a", NULL, "1");
	ids[2] = put_in(store, "a", NULL, NULL);
	before_us = info_of(store, ids[1]).due_us;
	USER *connection = connect_user();
	CHECK(user_sql(connection, "begin"));
	CHECK_CALL(hwt_store_cancel_on(store, connection, WHICH(.kind = "a", .group = "g", .key = "0")), 0);
	CHECK_CALL(hwt_store_cancel_on(store, connection, WHICH(.kind = "a", .group = "g", .key = "0")), ENOENT);
	CHECK_CALL(hwt_store_reschedule_on(store, connection, WHICH(.kind = "a", .key = "1"), IN(HWT_S(9000))), 0);
	CHECK_CALL(hwt_store_get(store, ids[0], &info), 0); /* seen from outside */
	CHECK(user_sql(connection, "rollback"));
	CHECK_CALL(hwt_store_get(store, ids[0], &info), 0);
	CHECK_INT(info_of(store, ids[1]).due_us, ==, before_us);
	/* With a savepoint. */
	CHECK(user_sql(connection, "begin"));
	CHECK_CALL(hwt_store_cancel_on(store, connection, WHICH(.id = ids[0])), 0);
	CHECK(user_sql(connection, "savepoint s"));
	CHECK_CALL(hwt_store_cancel_on(store, connection, WHICH(.id = ids[2])), 0);
	CHECK_CALL(hwt_store_reschedule_on(store, connection, WHICH(.id = ids[1]), AT(4000000000000000)), 0);
	CHECK(user_sql(connection, "rollback to s"));
	CHECK_CALL(hwt_store_cancel_on(store, connection, WHICH(.id = ids[0])), ENOENT);
	CHECK_CALL(hwt_store_reschedule_on(store, connection, WHICH(.id = ids[1]), AT(4000000000000001)), 0);
	CHECK(user_sql(connection, "commit"));
	CHECK_CALL(hwt_store_get(store, ids[0], &info), ENOENT);
	CHECK_INT(info_of(store, ids[1]).due_us, ==, 4000000000000001);
	CHECK_CALL(hwt_store_get(store, ids[2], &info), 0);
	/* Without a transaction. */
	CHECK_CALL(hwt_store_cancel_on(store, connection, WHICH(.id = ids[2])), 0);
	CHECK_CALL(hwt_store_get(store, ids[2], &info), ENOENT);
	CHECK_CALL(hwt_store_reschedule_on(store, connection, WHICH(.id = ids[1]), IN(HWT_S(60))), 0);
	CHECK_CALL(hwt_store_cancel_on(store, connection, WHICH(.kind = "none", .key = "k")), ENOENT);
	make(ids[1], HWT_STORE_RUNNING);
	CHECK(user_sql(connection, "begin"));
	CHECK_CALL(hwt_store_cancel_on(store, connection, WHICH(.id = ids[1])), EBUSY);
	CHECK_CALL(hwt_store_reschedule_on(store, connection, WHICH(.id = ids[1]), IN(0)), EBUSY);
	CHECK_CALL(hwt_store_cancel_on(store, connection, WHICH(.id = ids[1], .states = PENDING)), ENOENT);
	CHECK(user_sql(connection, "commit"));
}

TEST(what_is_rescheduled_on_a_connection_runs_when_that_commits)
{
	hwt_store *store = run_tasks(fresh_store(), count_run, HWT_STORE_AT_LEAST_ONCE);
	int64_t id = put(store, "a", HWT_S(3600));
	void *connection = connect_user();

	CHECK(user_sql(connection, "begin"));
	CHECK_CALL(hwt_store_reschedule_on(store, connection, WHICH(.id = id), IN(0)), 0);
	CHECK(user_sql(connection, "commit"));
	CHECK(wait_count(&ran, 1));
	CHECK(wait_gone(store, id));
	/* Not if the put is undone. */
	id = put(store, "a", HWT_S(3600));
	CHECK(user_sql(connection, "begin"));
	CHECK_CALL(hwt_store_reschedule_on(store, connection, WHICH(.id = id), IN(0)), 0);
	CHECK(user_sql(connection, "rollback"));
	put(store, "a", 0);
	CHECK(wait_count(&ran, 2));
	CHECK_CALL(hwt_store_cancel(store, id), 0);
	disconnect_user(connection);
	CHECK_CALL(hwt_store_close(store), 0);
	CHECK_INT(atomic_load(&ran), ==, 2);
}

STORE_MAIN(NULL)
