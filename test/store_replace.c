/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A timeout runs when a put of another process wants to replace it, and does not run any more when the put asks why it
 * was refused.
 */
#include "store.h"

static hwt_store *_Atomic runner;
static atomic_bool may_end;

static int run_until_told(const hwt_store_run *run, void *ctx)
{
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;

	(void)count_run(run, ctx);
	while (!atomic_load(&may_end) && hwt_now() < give_up_ns)
		sleep_ms(1);
	return 0;
}

static void end_the_run(const char *point)
{
	int64_t give_up_ns = hwt_now() + PATIENCE_NS;
	hwt_store_info info = HWT_STORE_INFO_INIT;

	if (strcmp(point, "refused") != 0)
		return;
	atomic_store(&may_end, true);
	while (hwt_store_get_key(atomic_load(&runner), "a", "key", &info) == 0 && info.state == HWT_STORE_RUNNING &&
	       hwt_now() < give_up_ns)
		sleep_ms(1);
}

/* The replacement is due at once, and runs although nobody looks ahead for 200 s. */
static void replace_what_ends(int64_t period_ns)
{
	hwt_store_config config;
	hwt_store *store, *other;
	hwt_store_spec spec = spec_of("a", 0);

	fresh_world();
	if (world.sqlite)
		SKIP("SQLite asks in the transaction of the put");
	atomic_store(&ran, 0);
	atomic_store(&may_end, false);
	config = store_config();
	config.lease_ns = HWT_S(600);
	store = open_with(&config);
	register_kind(store, "a", run_until_told, NULL, HWT_STORE_AT_LEAST_ONCE);
	CHECK_CALL(hwt_store_start(store), 0);
	CHECK(wait_held(store, 8));
	other = open_store();
	atomic_store(&runner, store);
	spec.key = "key";
	spec.period_ns = period_ns;
	CHECK_CALL(hwt_store_put(other, &spec, NULL), 0);
	CHECK(wait_count(&ran, 1));
	atomic_store(&hwts_test_at, end_the_run);
	spec.period_ns = 0;
	spec.flags = HWT_STORE_REPLACE;
	CHECK_CALL(hwt_store_put(other, &spec, NULL), 0);
	atomic_store(&hwts_test_at, NULL);
	CHECK(atomic_load(&may_end));
	CHECK(wait_count(&ran, 2));
	CHECK_CALL(hwt_store_close(other), 0);
	CHECK_CALL(hwt_store_close(store), 0);
}

TEST(a_put_that_replaces_what_has_just_ended_is_heard_at_once)
{
	replace_what_ends(0);
}

TEST(a_put_that_replaces_what_has_just_ended_its_period_is_heard_at_once)
{
	replace_what_ends(HWT_S(3600));
}

STORE_MAIN(NULL)
