/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Order under stress: timeouts of one thread that fall into the same tick run in the order in which they were accepted,
 * also when some between them have been cancelled.
 */
#include "support.h"

#define GROUPS 12
#define THREADS 4

struct member {
	hwt_timeout timeout;
	int64_t at_ns;
	unsigned *places, place; /* places: how many have run; only the worker touches it.  place: 0 if it did not */
	unsigned group;
	bool early; /* accepted before its deadline, so before its tick */
};

static void member_task(hwt_timeout timeout, void *arg)
{
	struct member *member = arg;

	(void)timeout;
	CHECK_INT(hwt_now(), >=, member->at_ns);
	CHECK_INT(member->place, ==, 0);
	member->place = ++*member->places;
}

static void schedule(hwt_timer *timer, struct member *member)
{
	CHECK_RC(hwt_new_timeout_at(timer, member_task, member, member->at_ns, &member->timeout), 0);
	member->early = hwt_now() < member->at_ns;
}

struct thread {
	hwt_timer *timer;
	uint64_t seed;
	struct member *members;
	unsigned count, cancelled;
	unsigned *places;
};

/* Schedules members of several groups, one deadline a group, in random turn; cancels some at once and some later. */
static void *schedule_groups(void *arg)
{
	struct thread *thread = arg;
	struct prng prng = { thread->seed };
	int64_t base_ns = hwt_now() + HWT_MS(40), at_ns[GROUPS];

	for (unsigned g = 0; g < GROUPS; g++)
		at_ns[g] = base_ns + prng_between(&prng, 0, HWT_MS(40));
	for (unsigned m = 0; m < thread->count; m++) {
		struct member *member = &thread->members[m];

		member->group = (unsigned)prng_below(&prng, GROUPS);
		member->at_ns = at_ns[member->group];
		member->places = thread->places;
		schedule(thread->timer, member);
		if (prng_below(&prng, 10) == 0)
			thread->cancelled += hwt_cancel(member->timeout) == 0;
		if (m == thread->count / 2)
			sleep_ms(3); /* the first half goes to the wheel */
	}
	/* Few or nearly all, out of the wheel: what is left closes up, and must stay in order. */
	sleep_ms(3);
	for (uint64_t m = thread->count * prng_below(&prng, 4); m > 0; m--)
		thread->cancelled += hwt_cancel(thread->members[prng_below(&prng, thread->count)].timeout) == 0;
	return NULL;
}

/* Returns how many pairs could be compared. */
static unsigned check_order(const struct thread *thread)
{
	unsigned last[GROUPS] = { 0 }, ran = 0, compared = 0;

	for (unsigned m = 0; m < thread->count; m++) {
		const struct member *member = &thread->members[m];

		if (member->place == 0)
			continue;
		ran++;
		if (!member->early)
			continue;
		CHECK_INT(member->place, >, last[member->group]);
		compared += last[member->group] != 0;
		last[member->group] = member->place;
	}
	CHECK_INT(ran + thread->cancelled, ==, thread->count);
	return compared;
}

TEST(same_deadline_runs_in_order_of_acceptance)
{
	struct prng prng = { test_seed("same_deadline_runs_in_order_of_acceptance") };
	int64_t enough_ns = hwt_now() + ENOUGH_NS;
	unsigned rounds = scaled(30), count = scaled(6000), compared = 0;

	for (unsigned round = 0; round < rounds && hwt_now() < enough_ns; round++) {
		hwt_timer *timer = new_timer(HWT_MS(1), (uint32_t)1 << prng_below(&prng, 8));
		struct thread threads[THREADS];
		unsigned places = 0;

		for (unsigned t = 0; t < THREADS; t++) {
			threads[t] = (struct thread){ timer, prng_next(&prng), NULL, count, 0, &places };
			threads[t].members = calloc(count, sizeof(struct member));
			REQUIRE(threads[t].members);
		}
		crew_run(THREADS, schedule_groups, threads, sizeof(threads[0]));
		CHECK(wait_none_pending(timer));
		CHECK_RC(hwt_timer_stop(timer, NULL), 0);
		for (unsigned t = 0; t < THREADS; t++) {
			compared += check_order(&threads[t]);
			free(threads[t].members);
		}
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
	printf("# %u pairs compared\n", compared);
	CHECK_INT(compared, >, 0);
}

/*
 * Within a tick it is the acceptance that counts, not the deadline: falling deadlines in one tick.  Where the ticks
 * lie we know as exactly as hwt_timer_start takes time.
 */
TEST(same_tick_runs_in_order_of_acceptance)
{
	enum { COUNT = 1000, ATTEMPTS = 20 };
	const int64_t tick_ns = HWT_MS(100);
	struct member *members = calloc(COUNT, sizeof(*members));
	bool early = false;

	REQUIRE(members);
	for (int attempt = 0; attempt < ATTEMPTS && !early; attempt++) {
		hwt_timer *timer = new_timer(tick_ns, 16);
		int64_t before_ns = hwt_now(), first_ns, last_ns;
		unsigned places = 0;

		CHECK_RC(hwt_timer_start(timer), 0);
		first_ns = hwt_now() + 2 * tick_ns + 1; /* no earlier tick */
		last_ns = before_ns + 3 * tick_ns;      /* no later one */
		memset(members, 0, COUNT * sizeof(*members));
		for (int i = 0; i < COUNT; i++) {
			members[i].at_ns = last_ns - (last_ns - first_ns) * i / COUNT;
			members[i].places = &places;
			schedule(timer, &members[i]);
		}
		early = first_ns < last_ns && hwt_now() < first_ns;
		CHECK(wait_none_pending(timer));
		CHECK_RC(hwt_timer_stop(timer, NULL), 0);
		for (int i = 0; early && i < COUNT; i++)
			CHECK_INT(members[i].place, ==, i + 1);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
	if (!early)
		printf("# not tested, the machine is too busy\n");
	free(members);
}

/* A task that holds the worker up: what piles up behind it still runs tick by tick, and in order within a tick. */
static void slow_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	sleep_ms(30);
}

TEST(order_behind_a_slow_task)
{
	enum { COUNT = 2000, ATTEMPTS = 20 };
	struct prng prng = { test_seed("order_behind_a_slow_task") };
	struct member *members = calloc(COUNT, sizeof(*members));
	bool early = false;

	REQUIRE(members);
	for (int attempt = 0; attempt < ATTEMPTS && !early; attempt++) {
		hwt_timer *timer = new_timer(HWT_MS(1), 8);
		int64_t base_ns = hwt_now() + HWT_MS(30);
		unsigned places = 0;

		memset(members, 0, COUNT * sizeof(*members));
		CHECK_RC(hwt_new_timeout_at(timer, slow_task, NULL, base_ns, NULL), 0);
		for (int i = 0; i < COUNT; i++) {
			members[i].group = (unsigned)prng_below(&prng, 25); /* whole ticks behind the slow one */
			members[i].at_ns = base_ns + HWT_MS(1 + members[i].group);
			members[i].places = &places;
			schedule(timer, &members[i]);
		}
		early = hwt_now() < base_ns;
		CHECK(wait_none_pending(timer));
		CHECK_RC(hwt_timer_stop(timer, NULL), 0);
		for (int i = 0; early && i < COUNT; i++)
			for (int j = i + 1; j < COUNT; j++)
				CHECK((members[i].group <= members[j].group) == (members[i].place < members[j].place));
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
	if (!early)
		printf("# not tested, the machine is too busy\n");
	free(members);
}

TEST_MAIN()
