/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hwt_new_timeout_ex: what a specification may say, and that the finaliser of a timeout is called exactly once, when
 * the library is done with its arg and not before, however the timeout has ended.
 */
#include "spawn.h"
#include "virtual.h"

#define TICK_NS HWT_MS(1)
#define FAR_NS HWT_S(3600)

/* What a timeout owns. */
struct owned {
	hwt_timeout timeout;
	hwt_timer *timer;
	atomic_uint runs, released;
	unsigned cancel_at;    /* the run that cancels, 0: none */
	unsigned again;        /* runs that arm it again */
	unsigned plain;        /* ThreadSanitizer watches */
	hwt_state state_after; /* in the finaliser */
	int rcs[5];            /* of the finaliser's calls */
};

static void owned_task(hwt_timeout timeout, void *arg)
{
	struct owned *owned = arg;
	unsigned run = atomic_fetch_add(&owned->runs, 1) + 1;

	CHECK_INT(atomic_load(&owned->released), ==, 0);
	owned->plain++;
	if (run <= owned->again)
		CHECK_RC(hwt_reschedule(timeout, HWT_MS(2)), 0);
	if (run == owned->cancel_at)
		CHECK_RC(hwt_cancel(timeout), 0);
	CHECK_INT(atomic_load(&owned->released), ==, 0);
	owned->plain++;
}

static void release_owned(void *arg)
{
	struct owned *owned = arg;

	CHECK_INT(owned->plain, ==, 2 * atomic_load(&owned->runs));
	owned->state_after = hwt_timeout_state(owned->timeout);
	CHECK_INT(atomic_fetch_add(&owned->released, 1), ==, 0);
}

static hwt_spec spec_of(struct owned *owned, int64_t when_ns, int64_t period_ns)
{
	return (hwt_spec){
		.size = sizeof(hwt_spec),
		.task = owned_task,
		.arg = owned,
		.when_ns = when_ns,
		.period_ns = period_ns,
		.release = release_owned,
	};
}

static void start(hwt_timer *timer, struct owned *owned, int64_t when_ns, int64_t period_ns)
{
	hwt_spec spec = spec_of(owned, when_ns, period_ns);

	owned->timer = timer;
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, &owned->timeout), 0);
}

/*
 * What a specification may say
 */

TEST(bad_specifications_are_refused)
{
	hwt_timer *timer = virtual_timer();
	hwt_timeout timeout = { &virtual_ns, 17 };
	struct owned owned = { .runs = 0 };
	hwt_spec spec = spec_of(&owned, 0, 0);

	CHECK_RC(hwt_new_timeout_ex(timer, NULL, &timeout), EINVAL);
	CHECK_RC(hwt_new_timeout_ex(NULL, &spec, &timeout), EINVAL);
	CHECK_RC(hwt_new_timeout_ex(NULL, NULL, &timeout), EINVAL);
	spec.task = NULL;
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, &timeout), EINVAL);
	for (unsigned bit = 0; bit < 32; bit++) {
		spec = spec_of(&owned, 0, 0);
		spec.flags = UINT32_C(1) << bit;
		if (spec.flags != HWT_ABSOLUTE)
			CHECK_RC(hwt_new_timeout_ex(timer, &spec, &timeout), EINVAL);
		spec.flags |= HWT_ABSOLUTE;
		if (spec.flags != HWT_ABSOLUTE)
			CHECK_RC(hwt_new_timeout_ex(timer, &spec, &timeout), EINVAL);
	}
	for (int64_t period_ns = -2; period_ns < TICK_NS; period_ns += period_ns < 3 ? 1 : 99999) {
		spec = spec_of(&owned, 0, period_ns);
		if (period_ns != 0)
			CHECK_RC(hwt_new_timeout_ex(timer, &spec, &timeout), EINVAL);
	}
	spec = spec_of(&owned, 0, INT64_MIN);
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, &timeout), EINVAL);
	CHECK(timeout.entry == &virtual_ns && timeout.generation == 17);
	CHECK_INT(stats_of(timer).accepted, ==, 0);
	walk(timer, HWT_MS(5));
	CHECK_RC(hwt_timer_destroy(timer), 0);
	CHECK_INT(owned.runs | owned.released, ==, 0); /* arg is still the caller's */
}

/* A program that knows fewer fields: nothing behind them is read. */
TEST(older_sizes_are_served)
{
	const size_t least = offsetof(hwt_spec, when_ns) + sizeof(int64_t);
	hwt_timer *timer = virtual_timer();

	for (size_t size = 0; size <= sizeof(hwt_spec); size++) {
		struct owned owned = { .runs = 0 };
		hwt_spec whole = spec_of(&owned, HWT_MS(1), HWT_MS(2));
		hwt_timeout timeout = HWT_TIMEOUT_NONE;
		hwt_spec *spec = malloc(size > sizeof(size_t) ? size : sizeof(size_t)); /* and not a byte more */
		bool has_period = size >= offsetof(hwt_spec, period_ns) + sizeof(int64_t);
		bool has_release = size >= offsetof(hwt_spec, release) + sizeof(whole.release);

		REQUIRE(spec != NULL);
		whole.size = size;
		memcpy(spec, &whole, size > sizeof(size_t) ? size : sizeof(size_t));
		CHECK_RC(hwt_new_timeout_ex(timer, spec, &timeout), size < least ? EINVAL : 0);
		free(spec);
		owned.timeout = timeout;
		walk(timer, virtual_ns + HWT_MS(4));
		CHECK_INT(owned.runs, ==, size < least ? 0 : has_period ? 2 : 1);
		CHECK_INT(hwt_cancel(timeout), ==, has_period ? 0 : ENOENT);
		walk(timer, virtual_ns + HWT_MS(4));
		CHECK_INT(owned.released, ==, has_release ? 1 : 0);
	}
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* A program that knows more fields, as long as it does not use them. */
TEST(newer_sizes_are_served_where_nothing_new_is_asked)
{
	struct {
		hwt_spec spec;
		unsigned char more[24];
	} newer;
	hwt_timer *timer = virtual_timer();
	struct owned owned = { .runs = 0 };
	hwt_timeout timeout = { &virtual_ns, 17 };

	memset(&newer, 0, sizeof(newer));
	newer.spec = spec_of(&owned, HWT_MS(1), 0);
	for (size_t size = sizeof(hwt_spec) + 1; size <= sizeof(newer); size++) {
		newer.spec.size = size;
		newer.more[size - sizeof(hwt_spec) - 1] = 1;
		CHECK_RC(hwt_new_timeout_ex(timer, &newer.spec, &timeout), ENOTSUP);
		newer.more[size - sizeof(hwt_spec) - 1] = 0;
	}
	CHECK(timeout.entry == &virtual_ns && timeout.generation == 17);
	newer.spec.size = sizeof(hwt_spec) + 8;
	newer.more[8] = 1; /* beyond its size */
	CHECK_RC(hwt_new_timeout_ex(timer, &newer.spec, &owned.timeout), 0);
	walk(timer, HWT_MS(3));
	CHECK_INT(owned.runs, ==, 1);
	CHECK_INT(owned.released, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* Larger than any version's structure: the caller never set it, and nothing behind the structure is read. */
TEST(a_size_that_was_never_set_is_refused)
{
	static const size_t sizes[] = { 4097, 1 << 20, (size_t)0xa5a5a5a5, SIZE_MAX };
	static union {
		hwt_spec spec;
		unsigned char bytes[8192];
	} large;
	hwt_timer *timer = virtual_timer();
	struct owned owned = { .runs = 0 };
	hwt_timeout timeout = { &virtual_ns, 17 };

	large.spec = spec_of(&owned, HWT_MS(1), 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		large.spec.size = sizes[i];
		CHECK_RC(hwt_new_timeout_ex(timer, &large.spec, &timeout), EINVAL);
	}
	CHECK(timeout.entry == &virtual_ns && timeout.generation == 17);
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	large.spec.size = 4096;
	CHECK_RC(hwt_new_timeout_ex(timer, &large.spec, &owned.timeout), 0);
	walk(timer, HWT_MS(3));
	CHECK_INT(owned.runs, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* The bytes between the last field and the end belong to nobody: a later field has to come after them. */
TEST(the_padding_of_a_specification_says_nothing)
{
	const size_t fields = offsetof(hwt_spec, flags) + sizeof(uint32_t);
	hwt_timer *timer = virtual_timer();
	struct owned owned = { .runs = 0 };
	hwt_spec spec = spec_of(&owned, HWT_MS(1), 0);

	memset((unsigned char *)&spec + fields, 0xa5, sizeof(spec) - fields);
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, &owned.timeout), 0);
	walk(timer, HWT_MS(3));
	CHECK_INT(owned.runs, ==, 1);
	CHECK_INT(owned.released, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(when_ns_is_a_delay_or_a_deadline)
{
	static const struct {
		uint32_t flags;
		int64_t when_ns, at_ns;
	} rows[] = {
		{ 0, HWT_MS(20), HWT_MS(120) },
		{ 0, 0, HWT_MS(101) },
		{ 0, INT64_MIN, HWT_MS(101) },
		{ HWT_ABSOLUTE, HWT_MS(120), HWT_MS(120) },
		{ HWT_ABSOLUTE, HWT_MS(20), HWT_MS(101) },
		{ HWT_ABSOLUTE, INT64_MIN, HWT_MS(101) },
		{ HWT_ABSOLUTE, HWT_MS(120) + 1, HWT_MS(121) },
	};

	for (unsigned i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		hwt_timer *timer = virtual_timer();
		struct owned owned = { .runs = 0 };
		hwt_spec spec = spec_of(&owned, rows[i / 2].when_ns, 0);

		advance(timer, HWT_MS(100));
		spec.flags = rows[i / 2].flags;
		if (i % 2 == 0)
			spec.release = NULL;
		CHECK_RC(hwt_new_timeout_ex(timer, &spec, &owned.timeout), 0);
		memset(&spec, 0xa5, sizeof(spec)); /* it has been copied */
		walk(timer, rows[i / 2].at_ns - TICK_NS);
		CHECK_INT(owned.runs, ==, 0);
		walk(timer, rows[i / 2].at_ns);
		CHECK_INT(owned.runs, ==, 1);
		CHECK_INT(owned.released, ==, i % 2);
		walk(timer, HWT_MS(200));
		CHECK_INT(owned.runs, ==, 1);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

/*
 * Exactly once
 */

TEST(the_end_of_the_task_releases)
{
	for (unsigned again = 0; again < 3; again++) {
		hwt_timer *timer = virtual_timer();
		struct owned owned = { .again = again };

		start(timer, &owned, HWT_MS(5), 0);
		walk(timer, HWT_MS(5 + 2 * (int)again) - TICK_NS);
		CHECK_INT(owned.released, ==, 0);
		walk(timer, HWT_MS(5 + 2 * (int)again));
		CHECK_INT(owned.runs, ==, again + 1);
		CHECK_INT(owned.released, ==, 1);
		CHECK_INT(owned.state_after, ==, HWT_EXPIRED);
		walk(timer, HWT_MS(20));
		CHECK_RC(hwt_timer_destroy(timer), 0);
		CHECK_INT(owned.released, ==, 1);
	}
}

/* Cancelled on its way, in the wheel, moved earlier, moved later; with a period or not; at most two ticks later. */
TEST(a_cancel_releases)
{
	for (unsigned i = 0; i < 32; i++) {
		hwt_timer *timer = virtual_timer();
		struct owned owned = { .runs = 0 };

		start(timer, &owned, FAR_NS, (i & 1) != 0 ? HWT_MS(10) : 0);
		if ((i & 2) != 0)
			advance(timer, virtual_ns + TICK_NS);
		if ((i & 4) != 0)
			CHECK_RC(hwt_reschedule_at(owned.timeout, FAR_NS / 2), 0);
		if ((i & 8) != 0)
			advance(timer, virtual_ns + TICK_NS);
		if ((i & 16) != 0)
			CHECK_RC(hwt_reschedule_at(owned.timeout, 3 * FAR_NS), 0);
		CHECK_RC(hwt_cancel(owned.timeout), 0);
		CHECK_INT(owned.released, ==, 0); /* never in hwt_cancel */
		walk(timer, virtual_ns + 2 * TICK_NS);
		CHECK_INT(owned.released, ==, 1);
		CHECK_INT(owned.state_after, ==, HWT_CANCELLED);
		CHECK_RC(hwt_cancel(owned.timeout), ENOENT);
		CHECK_INT(advance(timer, 10 * FAR_NS), ==, INT64_MAX);
		CHECK_RC(hwt_timer_destroy(timer), 0);
		CHECK_INT(owned.released, ==, 1);
		CHECK_INT(owned.runs, ==, 0);
	}
}

TEST(after_the_last_run_of_a_periodic_one)
{
	for (unsigned run = 0; run <= 3; run++) { /* 0: not in its own task */
		hwt_timer *timer = virtual_timer();
		struct owned owned = { .cancel_at = run };

		start(timer, &owned, HWT_MS(5), HWT_MS(5));
		walk(timer, HWT_MS(run == 0 ? 22 : 5 * (int)run - 1));
		CHECK_INT(owned.released, ==, 0);
		if (run == 0)
			CHECK_RC(hwt_cancel(owned.timeout), 0);
		CHECK_INT(owned.released, ==, 0);
		walk(timer, virtual_ns + 2 * TICK_NS);
		CHECK_INT(owned.released, ==, 1);
		CHECK_INT(owned.state_after, ==, HWT_CANCELLED);
		CHECK_INT(owned.runs, ==, run == 0 ? 4 : run);
		walk(timer, HWT_MS(50));
		CHECK_RC(hwt_timer_destroy(timer), 0);
		CHECK_INT(owned.released, ==, 1);
	}
}

/* What a stop returned can be read until the timer is destroyed, handed out or not. */
TEST(returned_by_a_stop_it_lives_until_destroy)
{
	for (unsigned i = 0; i < 16; i++) {
		hwt_timer *timer = virtual_timer();
		struct owned owned = { .runs = 0 };
		hwt_unprocessed unprocessed = { .arg = NULL };
		size_t said = 0;

		start(timer, &owned, FAR_NS, (i & 1) != 0 ? HWT_MS(10) : 0);
		if ((i & 2) != 0)
			advance(timer, TICK_NS);
		if ((i & 4) != 0)
			CHECK_RC(hwt_reschedule_at(owned.timeout, FAR_NS / 2), 0);
		CHECK_RC(hwt_timer_stop(timer, &said), 0);
		CHECK_INT(said, ==, 1);
		CHECK_INT(owned.released, ==, 0);
		if ((i & 8) != 0) {
			CHECK(hwt_timer_next_unprocessed(timer, &unprocessed));
			CHECK(unprocessed.arg == &owned && unprocessed.task == owned_task);
			CHECK_INT(unprocessed.deadline_ns, ==, (i & 4) != 0 ? FAR_NS / 2 : FAR_NS);
			CHECK(same_handle(unprocessed.timeout, owned.timeout));
		}
		CHECK_INT(owned.released, ==, 0);
		CHECK_RC(hwt_timer_destroy(timer), 0);
		CHECK_INT(owned.released, ==, 1);
		CHECK_INT(owned.state_after, ==, HWT_CANCELLED);
		CHECK_INT(owned.runs, ==, 0);
	}
}

/* With no pass between the cancel and the end of the timer, in each of the places where it can be. */
TEST(cancelled_just_before_a_stop_it_is_not_forgotten)
{
	for (unsigned i = 0; i < 64; i++) {
		hwt_timer *timer = virtual_timer();
		struct owned owned = { .runs = 0 };
		hwt_unprocessed unprocessed;
		size_t said = 17;

		start(timer, &owned, FAR_NS, (i & 1) != 0 ? HWT_MS(10) : 0);
		if ((i & 2) != 0)
			advance(timer, virtual_ns + TICK_NS);
		if ((i & 4) != 0)
			CHECK_RC(hwt_reschedule_at(owned.timeout, FAR_NS / 2), 0);
		if ((i & 8) != 0)
			advance(timer, virtual_ns + TICK_NS);
		if ((i & 16) != 0)
			CHECK_RC(hwt_reschedule_at(owned.timeout, FAR_NS / 4), 0);
		CHECK_RC(hwt_cancel(owned.timeout), 0);
		if ((i & 32) != 0) {
			CHECK_RC(hwt_timer_stop(timer, &said), 0);
			CHECK_INT(said, ==, 0);
			CHECK(!hwt_timer_next_unprocessed(timer, &unprocessed));
			CHECK_INT(owned.released, ==, 1);
		}
		CHECK_RC(hwt_timer_destroy(timer), 0);
		CHECK_INT(owned.released, ==, 1);
		CHECK_INT(owned.runs, ==, 0);
	}
}

TEST(destroyed_without_a_stop)
{
	for (unsigned i = 0; i < 4; i++) {
		hwt_timer *timer = virtual_timer();
		struct owned owned = { .again = 1 };

		start(timer, &owned, HWT_MS(5), (i & 1) != 0 ? HWT_MS(5) : 0);
		walk(timer, HWT_MS((i & 2) != 0 ? 6 : 1));
		CHECK_INT(owned.runs, ==, (i & 2) != 0 ? 1 : 0);
		CHECK_RC(hwt_timer_destroy(timer), 0);
		CHECK_INT(owned.released, ==, 1);
	}
}

TEST(a_call_that_fails_does_not_release)
{
	hwt_timer *timer = limited_virtual_timer(1);
	struct owned owned = { .runs = 0 }, refused = { .runs = 0 };
	hwt_spec spec = spec_of(&refused, 0, 0);

	start(timer, &owned, HWT_MS(5), 0);
	for (int i = 0; i < 1000; i++)
		CHECK_RC(hwt_new_timeout_ex(timer, &spec, NULL), ENOBUFS);
	CHECK_INT(stats_of(timer).refused_limit, ==, 1000);
	CHECK_INT(stats_of(timer).records, <, 500); /* what it had taken for them it has put back */
	walk(timer, HWT_MS(10));
	CHECK_INT(owned.released, ==, 1);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, NULL), ECANCELED);
	CHECK_INT(stats_of(timer).refused_stopped, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	CHECK_INT(refused.runs | refused.released, ==, 0);
}

/* Cancelled and run ones, some with a finaliser: each memory is used again, and never one in use. */
TEST(memory_comes_back)
{
	struct prng prng = { test_seed("memory_comes_back") };
	hwt_timer *timer = virtual_timer();
	static struct owned all[64];
	uint64_t records = 0;

	for (unsigned round = 0; round < scaled(2000); round++) {
		for (unsigned i = 0; i < 64; i++) {
			uint64_t kind = prng_below(&prng, 4);

			memset(&all[i], 0, sizeof(all[i]));
			all[i].cancel_at = kind == 0 ? 1 : 0;
			start(timer, &all[i], prng_between(&prng, 0, HWT_MS(3)), kind == 0 ? HWT_MS(1) : 0);
			if (kind == 1)
				CHECK_RC(hwt_cancel(all[i].timeout), 0);
			if (kind == 2)
				CHECK_RC(hwt_reschedule(all[i].timeout, prng_between(&prng, 0, HWT_MS(3))), 0);
		}
		walk(timer, virtual_ns + HWT_MS(6));
		for (unsigned i = 0; i < 64; i++)
			CHECK_INT(all[i].released, ==, 1);
		if (round == 20)
			records = stats_of(timer).records;
	}
	CHECK(records == 0 || stats_of(timer).records == records);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/*
 * What a finaliser may call
 */

static void busy_release(void *arg)
{
	struct owned *owned = arg;
	hwt_timeout other = HWT_TIMEOUT_NONE;

	release_owned(owned);
	owned->rcs[0] = hwt_new_timeout(owned->timer, count_task, &owned->runs, FAR_NS, &other);
	owned->rcs[1] = hwt_cancel(other);
	owned->rcs[2] = hwt_cancel_sync(owned->timeout);
	owned->rcs[3] = hwt_timer_stop(owned->timer, NULL);
	owned->rcs[4] = hwt_timer_destroy(owned->timer);
	CHECK_RC(hwt_reschedule(owned->timeout, 0), ENOENT);
	CHECK_RC(hwt_cancel(owned->timeout), ENOENT);
	CHECK_INT(hwt_timeout_missed(owned->timeout), ==, 0);
}

static void check_calls(const struct owned *owned, bool stopped)
{
	CHECK_INT(owned->released, ==, 1);
	CHECK_INT(owned->rcs[0], ==, stopped ? ECANCELED : 0);
	CHECK_INT(owned->rcs[1], ==, stopped ? ENOENT : 0);
	CHECK_INT(owned->rcs[2], ==, ENOENT);
	CHECK_INT(owned->rcs[3], ==, EDEADLK);
	CHECK_INT(owned->rcs[4], ==, EDEADLK);
}

static void start_busy(hwt_timer *timer, struct owned *owned, int64_t when_ns)
{
	hwt_spec spec = spec_of(owned, when_ns, 0);

	spec.release = busy_release;
	owned->timer = timer;
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, &owned->timeout), 0);
}

TEST(it_may_call_what_a_task_may)
{
	hwt_timer *timer = virtual_timer();
	struct owned ran = { .runs = 0 }, queued = { .runs = 0 }, armed = { .runs = 0 }, requeued = { .runs = 0 };
	struct owned late = { .runs = 0 }, left = { .runs = 0 };

	start_busy(timer, &ran, HWT_MS(3));
	start_busy(timer, &armed, FAR_NS);
	start_busy(timer, &requeued, FAR_NS);
	advance(timer, TICK_NS);
	start_busy(timer, &queued, FAR_NS);
	CHECK_RC(hwt_cancel(queued.timeout), 0);
	CHECK_RC(hwt_cancel(armed.timeout), 0);
	CHECK_RC(hwt_reschedule(requeued.timeout, HWT_MS(50)), 0);
	CHECK_RC(hwt_cancel(requeued.timeout), 0);
	walk(timer, HWT_MS(5));
	check_calls(&ran, false);
	check_calls(&queued, false);
	check_calls(&armed, false);
	check_calls(&requeued, false);
	start_busy(timer, &late, FAR_NS);
	start_busy(timer, &left, FAR_NS);
	advance(timer, HWT_MS(6));
	CHECK_RC(hwt_cancel(late.timeout), 0);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	check_calls(&late, true);
	CHECK_INT(left.released, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	check_calls(&left, true);
}

struct chain {
	hwt_timer *timer;
	hwt_timeout next[3];
	unsigned released;
};

/* In a stop: it cancels and moves others that the stop has not come to, or has. */
static void chain_release(void *arg)
{
	struct chain *chain = arg;

	chain->released++;
	for (int i = 0; i < 3; i++) {
		int rc = i == 1 ? hwt_reschedule(chain->next[i], -1) : hwt_cancel(chain->next[i]);

		CHECK(rc == 0 || rc == ENOENT);
	}
}

TEST(in_a_stop_it_may_cancel_others)
{
	for (unsigned taken_in = 0; taken_in < 2; taken_in++) {
		hwt_timer *timer = virtual_timer();
		struct chain chains[16];
		hwt_unprocessed unprocessed;
		hwt_timeout timeouts[16];
		size_t said = 0;
		hwt_stats stats;

		for (unsigned i = 0; i < 16; i++) {
			hwt_spec spec = {
				sizeof(spec), count_task, &chains[i], FAR_NS + HWT_MS(i), 0, chain_release, 0
			};

			chains[i] = (struct chain){ .timer = timer };
			CHECK_RC(hwt_new_timeout_ex(timer, &spec, &timeouts[i]), 0);
		}
		for (unsigned i = 0; i < 16; i++)
			for (unsigned j = 0; j < 3; j++)
				chains[i].next[j] = timeouts[(i + 5 * (j + 1)) % 16];
		if (taken_in != 0)
			advance(timer, TICK_NS);
		CHECK_RC(hwt_cancel(timeouts[0]), 0);
		CHECK_RC(hwt_cancel(timeouts[7]), 0);
		CHECK_RC(hwt_timer_stop(timer, &said), 0);
		stats = stats_of(timer);
		CHECK_INT(stats.returned, ==, said);
		CHECK_INT(stats.cancelled + said, ==, 16);
		for (; hwt_timer_next_unprocessed(timer, &unprocessed); said--)
			CHECK_INT(((struct chain *)unprocessed.arg)->released, ==, 0);
		CHECK_INT(said, ==, 0);
		CHECK_RC(hwt_timer_destroy(timer), 0);
		for (unsigned i = 0; i < 16; i++)
			CHECK_INT(chains[i].released, ==, 1);
	}
}

/*
 * With a worker, and a thread for each job
 */

/* Nothing is due for an hour. */
TEST(a_cancel_wakes_a_worker_that_sleeps)
{
	for (int round = 0; round < 12; round++) {
		hwt_timer *timer = spawn_timer(TICK_NS, round % 2 != 0);
		struct owned owned = { .runs = 0 };

		start(timer, &owned, FAR_NS, round % 3 == 0 ? HWT_S(1) : 0);
		if (round >= 4)
			sleep_ms(5);
		if (round >= 8)
			CHECK_RC(hwt_reschedule(owned.timeout, FAR_NS / 2), 0);
		if (round >= 10)
			sleep_ms(5);
		CHECK_RC(hwt_cancel(owned.timeout), 0);
		REQUIRE(wait_count(&owned.released, 1));
		CHECK_RC(hwt_timer_destroy(timer), 0);
		CHECK_INT(owned.released, ==, 1);
		CHECK_INT(owned.runs, ==, 0);
	}
}

TEST(an_executor_releases_where_the_task_ran)
{
	for (int round = 0; round < 8; round++) {
		hwt_timer *timer = spawn_timer(TICK_NS, round % 2 != 0);
		struct owned once = { .again = (unsigned)round / 4 }, often = { .cancel_at = 3 };

		start(timer, &once, 0, 0);
		start(timer, &often, 0, TICK_NS);
		REQUIRE(wait_count(&once.released, 1));
		REQUIRE(wait_count(&often.released, 1));
		CHECK_INT(once.runs, ==, 1 + once.again);
		CHECK_INT(often.runs, ==, 3);
		CHECK_INT(often.state_after, ==, HWT_CANCELLED);
		CHECK_RC(hwt_timer_destroy(timer), 0);
		CHECK_INT(once.released, ==, 1);
		CHECK_INT(often.released, ==, 1);
	}
}

TEST(on_the_worker_and_in_the_pool_it_may_call_what_a_task_may)
{
	for (int round = 0; round < 4; round++) {
		hwt_timer *timer = spawn_timer(TICK_NS, round % 2 != 0);
		struct owned ran = { .runs = 0 }, cancelled = { .runs = 0 };

		start_busy(timer, &ran, 0);
		start_busy(timer, &cancelled, FAR_NS);
		CHECK_RC(hwt_cancel(cancelled.timeout), 0);
		REQUIRE(wait_count(&ran.released, 1));
		REQUIRE(wait_count(&cancelled.released, 1));
		CHECK_RC(hwt_timer_destroy(timer), 0); /* waits for the two */
		check_calls(&ran, false);
		check_calls(&cancelled, false);
	}
}

/* A reference that the timeout holds: the one that drops the last frees. */

struct counted {
	atomic_uint references;
	unsigned alive;
	atomic_uint *freed;
};

static void drop(void *arg)
{
	struct counted *counted = arg;
	atomic_uint *freed = counted->freed;

	CHECK_INT(counted->alive, ==, 0x600d);
	if (atomic_fetch_sub(&counted->references, 1) != 1)
		return;
	counted->alive = 0;
	free(counted);
	atomic_fetch_add(freed, 1);
}

static void counted_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	CHECK_INT(((struct counted *)arg)->alive, ==, 0x600d);
}

TEST(references_are_dropped)
{
	struct prng prng = { test_seed("references_are_dropped") };

	for (int round = 0; round < 4; round++) {
		hwt_timer *timer = spawn_timer(TICK_NS, round == 3);
		atomic_uint freed = 0;
		unsigned count = scaled(round == 3 ? 300 : 3000);

		for (unsigned i = 0; i < count; i++) {
			struct counted *counted = malloc(sizeof(*counted));
			hwt_spec spec = { .size = sizeof(spec), .task = counted_task, .release = drop };
			hwt_timeout timeout;

			REQUIRE(counted != NULL);
			*counted = (struct counted){ 2, 0x600d, &freed };
			spec.arg = counted;
			spec.when_ns = prng_between(&prng, 0, HWT_MS(3));
			CHECK_RC(hwt_new_timeout_ex(timer, &spec, &timeout), 0);
			if (prng_below(&prng, 3) == 0)
				(void)hwt_reschedule(timeout, prng_between(&prng, 0, HWT_MS(3)));
			if (prng_below(&prng, 100) == 0)
				sleep_ns(HWT_US(300));
			if (prng_below(&prng, 2) == 0)
				(void)hwt_cancel(timeout);
			drop(counted);
		}
		if (round % 2 == 0)
			CHECK(wait_count(&freed, count));
		CHECK_RC(hwt_timer_destroy(timer), 0);
		CHECK_INT(freed, ==, count);
	}
}

TEST_MAIN()
