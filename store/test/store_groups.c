/* SPDX-License-Identifier: BSD-2-Clause */
/* Groups as data: the row that a key names, and the data that a reader gets. */
#include "store_query.h"

#include "inside.h"

static hwt_store_spec spec_in(const char *kind, const char *group, const char *key)
{
	hwt_store_spec spec = SPEC(kind, HWT_S(3600), .group = group, .key = key);

	return spec;
}

static int64_t put_in(hwt_store *store, const char *group, const char *key)
{
	hwt_store_spec spec = spec_in("a", group, key);

	return put_spec(store, &spec);
}

TEST(a_key_is_unique_in_its_kind_and_group)
{
	static const char *const groups[] = { NULL, "g", "G", "gg", "\xc3\xa4" };
	CLOSING hwt_store *store = fresh_store();
	int64_t ids[HWTS_COUNT(groups)];
	hwt_store_info info = HWT_STORE_INFO_INIT;

	for (size_t i = 0; i < HWTS_COUNT(groups); i++)
		ids[i] = put_in(store, groups[i], "k");
	for (size_t i = 0; i < HWTS_COUNT(groups); i++) {
		hwt_store_spec spec = spec_in("a", groups[i], "k");
		int64_t id = 0;

		CHECK_CALL(put_patiently(store, &spec, &id), EEXIST);
		CHECK_INT(id, ==, ids[i]);
		id = 0;
		CHECK_CALL(hwt_store_put_many(store, &spec, 1, &id), EEXIST);
		CHECK_INT(id, ==, ids[i]);
		spec.kind = "b";
		CHECK_CALL(put_patiently(store, &spec, NULL), 0);
	}
	/* The calls without a group mean the empty group. */
	CHECK_CALL(hwt_store_get_key(store, "a", "k", &info), 0);
	CHECK_INT(info.id, ==, ids[0]);
	CHECK_CALL(hwt_store_cancel_key(store, "a", "k"), 0);
	CHECK_CALL(hwt_store_cancel_key(store, "a", "k"), ENOENT);
	CHECK_CALL(hwt_store_get(store, ids[0], &info), ENOENT);
	for (size_t i = 1; i < HWTS_COUNT(groups); i++)
		CHECK_CALL(hwt_store_get(store, ids[i], &info), 0);
}

TEST(replace_and_revive_change_the_one_of_the_group)
{
	CLOSING hwt_store *store = fresh_store();
	hwt_store_spec spec = spec_in("a", "g", "k");
	hwt_store_info info = HWT_STORE_INFO_INIT;
	int64_t alone, is, id = 0;

	alone = put_in(store, NULL, "k");
	is = put_in(store, "g", "k");
	spec.flags = HWT_STORE_REPLACE;
	spec.delay_ns = HWT_S(7200);
	spec.priority = -3;
	spec.data = "new";
	spec.len = 3;
	CHECK_CALL(put_patiently(store, &spec, &id), 0);
	CHECK_INT(id, ==, is);
	CHECK_CALL(hwt_store_get(store, is, &info), 0);
	CHECK_INT(info.priority, ==, -3);
	CHECK_INT(info.len, ==, 3);
	CHECK_CALL(hwt_store_get(store, alone, &info), 0);
	CHECK_INT(info.len, ==, 0);
	CHECK_INT(query("update %s_timeout set state = 3, shard = -1 - shard where id = %" PRId64 " returning 1",
			world.schema, is),
		  ==, 1);
	spec.flags = HWT_STORE_REVIVE;
	spec.priority = 5;
	id = 0;
	CHECK_CALL(put_patiently(store, &spec, &id), 0);
	CHECK_INT(id, ==, is);
	CHECK_CALL(hwt_store_get(store, is, &info), 0);
	CHECK_INT(info.state, ==, HWT_STORE_PENDING);
	CHECK_INT(info.priority, ==, 5);
	spec.group = "other";
	id = 0;
	CHECK_CALL(put_patiently(store, &spec, &id), 0);
	CHECK(id != is && id != alone);
}

/*
 * Data
 */

TEST(get_copies_what_has_room_and_says_how_much_there_is)
{
	hwt_store_spec spec = spec_in("a", NULL, NULL);
	hwt_store_info info = HWT_STORE_INFO_INIT;
	char room[10] = "---------";
	struct {
		size_t size;
		char less[96];
	} old = { .size = offsetof(hwt_store_info, group) < 96 ? 0 : 96 };
	int64_t id, none;
	CLOSING hwt_store *store = fresh_store();

	spec.data = "0\0"
		    "234567";
	spec.len = 8;
	id = put_spec(store, &spec);
	none = put_in(store, NULL, NULL);
	CHECK_CALL(hwt_store_get(store, id, &info), 0);
	CHECK_INT(info.len, ==, 8);
	CHECK(info.data == NULL);
	info.data = room;
	CHECK_CALL(hwt_store_get(store, id, &info), 0); /* data_room 0 */
	CHECK_INT(room[0], ==, '-');
	info.data_room = 3;
	CHECK_CALL(hwt_store_get(store, id, &info), 0);
	CHECK_INT(info.len, ==, 8);
	CHECK_INT(info.data_room, ==, 3);
	CHECK(info.data == room && memcmp(room, spec.data, 3) == 0 && room[3] == '-');
	info.data_room = sizeof(room);
	CHECK_CALL(hwt_store_get(store, id, &info), 0);
	CHECK(memcmp(room, spec.data, 8) == 0 && room[8] == '-');
	CHECK_CALL(hwt_store_get(store, none, &info), 0);
	CHECK_INT(info.len, ==, 0);
	CHECK_INT(room[0], ==, '0');
	info.data_room = SIZE_MAX; /* more than the data can have */
	CHECK_CALL(hwt_store_get(store, id, &info), 0);
	CHECK_CALL(hwt_store_get(store, id, (hwt_store_info *)&old), 0);
}

struct seen {
	hwt_store_group_info infos[8];
	size_t n, most;
};

static bool see_group(void *ctx, const hwt_store_group_info *info)
{
	struct seen *seen = ctx;

	REQUIRE(seen->n < HWTS_COUNT(seen->infos));
	seen->infos[seen->n++] = *info;
	return seen->n != seen->most;
}

/* Another process, which does not run the kind, lists the same. */
TEST(each_group_with_rules_of_its_own_is_listed_by_name)
{
	CLOSING hwt_store *store = fresh_store(), *other = open_store();
	struct seen seen = { .n = 0 };

	CHECK_CALL(hwt_store_each_group(store, "a", see_group, &seen), ENOENT);
	CHECK_CALL(hwt_store_each_group(store, "a", NULL, &seen), EINVAL);
	CHECK_CALL(hwt_store_each_group(store, "", see_group, &seen), EINVAL);
	(void)put_in(store, "ready", NULL);
	CHECK_CALL(hwt_store_each_group(other, "a", see_group, &seen), 0);
	CHECK_INT(seen.n, ==, 0);
	CHECK_CALL(hwt_store_limit(store, "a", NULL, &LIMITS(.running = 9)), 0);
	CHECK_CALL(hwt_store_pause(store, "a", "paused"), 0);
	CHECK_CALL(
	    hwt_store_limit(store, "a", "\xc3\xa4", &LIMITS(.running = 3, .start_every_ns = HWT_S(2), .burst = 4)), 0);
	CHECK_CALL(hwt_store_limit(store, "a", "free", &LIMITS(.running = 0)), 0);
	CHECK_CALL(hwt_store_limit(store, "a", "gone", &LIMITS(.running = 1)), 0);
	CHECK_CALL(hwt_store_limit(store, "a", "gone", NULL), 0);
	CHECK_CALL(hwt_store_pause(store, "a", "free"), 0);
	(void)put(store, "b", HWT_S(3600));
	CHECK_CALL(hwt_store_pause(store, "b", "of another kind"), 0);
	CHECK_CALL(hwt_store_each_group(other, "a", see_group, &seen), 0);
	CHECK_INT(seen.n, ==, 3);
	for (size_t i = 0; i < 3; i++) {
		static const char *const names[] = { "free", "paused", "\xc3\xa4" };
		const hwt_store_group_info *is = &seen.infos[i];

		CHECK(strcmp(is->kind, "a") == 0 && strcmp(is->group, names[i]) == 0);
		CHECK_INT(is->size, ==, sizeof(*is));
		CHECK_INT(is->paused, ==, i < 2);
		CHECK_INT(is->limited, ==, i != 1);
		CHECK_INT(is->limits.running, ==, i == 2 ? 3 : 0);
		CHECK_INT(is->limits.start_every_ns, ==, i == 2 ? HWT_S(2) : 0);
		CHECK_INT(is->limits.burst, ==, i == 2 ? 4 : 0);
	}
	seen = (struct seen){ .most = 1 };
	CHECK_CALL(hwt_store_each_group(store, "a", see_group, &seen), 0);
	CHECK_INT(seen.n, ==, 1);
	(void)query("delete from %s_timeout", world.schema);
	CHECK_CALL(hwt_store_remove_kind(store, "a"), 0);
	CHECK_CALL(hwt_store_each_group(store, "a", see_group, &seen), ENOENT);
	CHECK_CALL(hwt_store_each_group(other, "a", see_group, &seen), ENOENT);
	CHECK_INT(seen.n, ==, 1);
}

STORE_MAIN(NULL)
