/* SPDX-License-Identifier: BSD-2-Clause */
/* hwt_timer_each: it shows each timeout once, also while other threads schedule, move, cancel and stop. */
#include "support.h"

#define ROOM 64

/* The timeouts that a walk has shown. */
struct shown {
	hwt_pending all[ROOM];
	unsigned count, most; /* most: the walk ends after this many; 0: never */
};

static bool show(void *ctx, const hwt_pending *pending)
{
	struct shown *shown = ctx;

	REQUIRE(shown->count < ROOM);
	shown->all[shown->count++] = *pending;
	return shown->count != shown->most;
}

static struct shown walk(hwt_timer *timer)
{
	struct shown shown = { .count = 0 };

	CHECK_RC(hwt_timer_each(timer, show, &shown), 0);
	return shown;
}

static const hwt_pending *find(const struct shown *shown, hwt_timeout timeout)
{
	const hwt_pending *found = NULL;

	for (unsigned i = 0; i < shown->count; i++) {
		const hwt_timeout *it = &shown->all[i].timeout;

		if (it->entry == timeout.entry && it->generation == timeout.generation) {
			CHECK(found == NULL);
			found = &shown->all[i];
		}
	}
	return found;
}

#define CHECK_SHOWN(shown, timeout, its_task, its_arg, its_deadline_ns, its_period_ns, its_state)                      \
	do {                                                                                                           \
		const hwt_pending *it_ = find(shown, timeout);                                                         \
		CHECK(it_ != NULL);                                                                                    \
		if (it_ != NULL) {                                                                                     \
			CHECK(it_->task == (its_task) && it_->arg == (its_arg));                                       \
			CHECK_INT(it_->deadline_ns, ==, its_deadline_ns);                                              \
			CHECK_INT(it_->period_ns, ==, its_period_ns);                                                  \
			CHECK_INT(it_->state, ==, its_state);                                                          \
		}                                                                                                      \
	} while (0)

static void release_nothing(void *arg)
{
	(void)arg;
}

static void other_task(hwt_timeout timeout, void *arg)
{
	count_task(timeout, arg);
}

TEST(it_refuses_what_makes_no_sense_and_finds_nothing_in_a_new_timer)
{
	hwt_timer *timer = new_timer(HWT_MS(1), 8);
	struct shown shown = { .count = 0 };

	CHECK_RC(hwt_timer_each(NULL, show, &shown), EINVAL);
	CHECK_RC(hwt_timer_each(timer, NULL, &shown), EINVAL);
	CHECK_RC(hwt_timer_each(timer, show, &shown), 0);
	CHECK_INT(shown.count, ==, 0);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_RC(hwt_timer_each(timer, show, &shown), 0);
	CHECK_INT(shown.count, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(it_shows_each_with_its_task_arg_deadline_and_period)
{
	hwt_timer *timer = virtual_timer();
	atomic_uint ran = 0, other = 0;
	hwt_spec spec = { sizeof(spec), other_task, &other, HWT_S(7), 0, release_nothing, HWT_ABSOLUTE };
	hwt_timeout once, again, owned, gone, moved;
	struct shown shown;

	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_S(3), &once), 0);
	CHECK_RC(hwt_new_periodic(timer, other_task, &ran, HWT_S(1), HWT_S(2), &again), 0);
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, &owned), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HWT_S(3), &gone), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, &other, INT64_MAX, &moved), 0);
	CHECK_RC(hwt_cancel(gone), 0);
	for (unsigned round = 0; round < 2; round++) { /* timeouts in the lane, and in the wheel */
		shown = walk(timer);
		CHECK_INT(shown.count, ==, 4);
		CHECK_SHOWN(&shown, once, count_task, &ran, HWT_S(3), 0, HWT_PENDING);
		CHECK_SHOWN(&shown, again, other_task, &ran, HWT_S(1), HWT_S(2), HWT_PENDING);
		CHECK_SHOWN(&shown, owned, other_task, &other, HWT_S(7), 0, HWT_PENDING);
		CHECK_SHOWN(&shown, moved, count_task, &other, INT64_MAX, 0, HWT_PENDING);
		CHECK_RC(hwt_timer_advance(timer, 1, NULL), 0);
	}
	CHECK_RC(hwt_reschedule_at(moved, HWT_S(2)), 0);
	CHECK_RC(hwt_timer_advance(timer, HWT_S(1), NULL), 0);
	shown = walk(timer);
	CHECK_INT(shown.count, ==, 4);
	CHECK_SHOWN(&shown, again, other_task, &ran, HWT_S(3), HWT_S(2), HWT_PENDING);
	CHECK_SHOWN(&shown, moved, count_task, &other, HWT_S(2), 0, HWT_PENDING);
	CHECK_RC(hwt_timer_advance(timer, HWT_S(8), NULL), 0);
	shown = walk(timer);
	CHECK_INT(shown.count, ==, 1);
	CHECK_SHOWN(&shown, again, other_task, &ran, HWT_S(9), HWT_S(2), HWT_PENDING);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(a_visit_that_returns_false_is_the_last)
{
	hwt_timer *timer = virtual_timer();
	struct shown shown = { .most = 2 };

	for (unsigned i = 0; i < 5; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HWT_S(3), NULL), 0);
	CHECK_RC(hwt_timer_each(timer, show, &shown), 0);
	CHECK_INT(shown.count, ==, 2);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	shown.count = 0;
	CHECK_RC(hwt_timer_each(timer, show, &shown), 0);
	CHECK_INT(shown.count, ==, 2);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* A walk in a task. */
static struct {
	hwt_timer *timer;
	struct shown shown;
	unsigned acts; /* flags: what the task does first */
} inside;

enum { REARMS = 1, CANCELS = 2 };

static void walk_task(hwt_timeout timeout, void *arg)
{
	(void)arg;
	if ((inside.acts & REARMS) != 0)
		CHECK_RC(hwt_reschedule(timeout, HWT_S(5)), 0);
	if ((inside.acts & CANCELS) != 0)
		(void)hwt_cancel(timeout);
	inside.shown = walk(inside.timer);
}

TEST(one_that_runs_has_its_deadline_or_that_of_its_next_run)
{
	hwt_timeout once, again;

	inside.timer = virtual_timer();
	CHECK_RC(hwt_new_timeout(inside.timer, walk_task, &inside, HWT_S(1), &once), 0);
	CHECK_RC(hwt_timer_advance(inside.timer, HWT_S(1), NULL), 0);
	CHECK_INT(inside.shown.count, ==, 1);
	CHECK_SHOWN(&inside.shown, once, walk_task, &inside, HWT_S(1), 0, HWT_RUNNING);
	CHECK_RC(hwt_new_periodic(inside.timer, walk_task, NULL, HWT_S(1), HWT_S(2), &again), 0);
	CHECK_RC(hwt_timer_advance(inside.timer, HWT_S(2), NULL), 0);
	CHECK_INT(inside.shown.count, ==, 1);
	CHECK_SHOWN(&inside.shown, again, walk_task, NULL, HWT_S(4), HWT_S(2), HWT_RUNNING);
	inside.acts = CANCELS; /* the timeout is cancelled in its run, which goes on */
	CHECK_RC(hwt_timer_advance(inside.timer, HWT_S(4), NULL), 0);
	CHECK_INT(inside.shown.count, ==, 1);
	CHECK_SHOWN(&inside.shown, again, walk_task, NULL, HWT_S(6), HWT_S(2), HWT_RUNNING);
	CHECK_INT(walk(inside.timer).count, ==, 0);
	inside.acts = REARMS;
	CHECK_RC(hwt_new_timeout(inside.timer, walk_task, NULL, 0, &once), 0);
	CHECK_RC(hwt_timer_advance(inside.timer, HWT_S(5), NULL), 0);
	CHECK_SHOWN(&inside.shown, once, walk_task, NULL, HWT_S(10), 0, HWT_RUNNING);
	CHECK_RC(hwt_timer_destroy(inside.timer), 0);
}

TEST(of_a_timer_that_collects_it_shows_no_task)
{
	hwt_timer *timer = flagged_timer(HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK | HWT_COLLECT);
	hwt_timeout timeout, again;
	hwt_fired fired[4];
	struct shown shown;
	size_t count;

	CHECK_RC(hwt_new_timeout(timer, NULL, &timeout, HWT_S(1), &timeout), 0);
	CHECK_RC(hwt_new_periodic(timer, NULL, &again, HWT_S(1), HWT_S(1), &again), 0);
	shown = walk(timer);
	CHECK_SHOWN(&shown, timeout, NULL, &timeout, HWT_S(1), 0, HWT_PENDING);
	CHECK_RC(hwt_timer_advance_batch(timer, HWT_S(1), fired, 4, &count, NULL), 0);
	CHECK_INT(count, ==, 2);
	shown = walk(timer);
	CHECK_INT(shown.count, ==, 1);
	CHECK_SHOWN(&shown, again, NULL, &again, HWT_S(2), HWT_S(1), HWT_PENDING);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	shown = walk(timer);
	CHECK_SHOWN(&shown, again, NULL, &again, HWT_S(2), HWT_S(1), HWT_CANCELLED);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(after_a_stop_it_shows_what_is_still_to_be_handed_out)
{
	hwt_timer *timer = virtual_timer();
	hwt_spec spec = { sizeof(spec), count_task, &spec, HWT_S(7), HWT_S(3), release_nothing, 0 };
	hwt_timeout timeouts[6];
	hwt_unprocessed left;
	struct shown shown;
	size_t count = 0;

	for (unsigned i = 0; i < 5; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, &timeouts[i], HWT_S(i), &timeouts[i]), 0);
	CHECK_RC(hwt_new_timeout_ex(timer, &spec, &timeouts[5]), 0);
	CHECK_RC(hwt_timer_advance(timer, HWT_S(1), NULL), 0); /* two timeouts have run */
	CHECK_RC(hwt_timer_stop(timer, &count), 0);
	CHECK_INT(count, ==, 4);
	shown = walk(timer);
	CHECK_INT(shown.count, ==, 4);
	for (unsigned i = 2; i < 5; i++)
		CHECK_SHOWN(&shown, timeouts[i], count_task, &timeouts[i], HWT_S(i), 0, HWT_CANCELLED);
	CHECK_SHOWN(&shown, timeouts[5], count_task, &spec, HWT_S(7), HWT_S(3), HWT_CANCELLED);
	for (; count > 0; count--) {
		CHECK_INT(walk(timer).count, ==, count);
		CHECK(hwt_timer_next_unprocessed(timer, &left));
		shown = walk(timer);
		CHECK(find(&shown, left.timeout) == NULL);
	}
	CHECK_INT(walk(timer).count, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static hwt_timer *destroyed;
static unsigned released;

/* Its own arg is gone with the next line, and those of other finalisers may be gone. */
static void walk_and_free(void *arg)
{
	hwt_unprocessed left;

	(void)arg;
	CHECK_INT(walk(destroyed).count, ==, 0);
	CHECK(!hwt_timer_next_unprocessed(destroyed, &left));
	released++;
}

TEST(a_finaliser_in_a_destroy_finds_nothing_of_which_the_arg_may_be_gone)
{
	hwt_spec spec = { sizeof(spec), count_task, &spec, HWT_S(7), 0, walk_and_free, 0 };

	destroyed = virtual_timer();
	for (unsigned i = 0; i < 3; i++)
		CHECK_RC(hwt_new_timeout_ex(destroyed, &spec, NULL), 0);
	CHECK_RC(hwt_timer_destroy(destroyed), 0);
	CHECK_INT(released, ==, 3);
}

/* Makes the calls that a visit may make. */
static bool act(void *ctx, const hwt_pending *pending)
{
	hwt_timer *timer = hwt_timeout_timer(pending->timeout);
	unsigned *count = ctx;

	switch ((*count)++) {
	case 0:
		CHECK_RC(hwt_cancel(pending->timeout), 0);
		break;
	case 1:
		CHECK_RC(hwt_cancel_sync(pending->timeout), 0);
		break;
	case 2:
		CHECK_RC(hwt_reschedule(pending->timeout, HWT_S(1)), 0);
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HWT_S(5), NULL), 0);
		CHECK_INT(walk(timer).count, ==, 9);
		break;
	case 3:
		CHECK_RC(hwt_timer_advance(timer, HWT_S(2), NULL), 0);
		break;
	case 4:
		CHECK_RC(hwt_timer_trim(timer, NULL), 0);
		CHECK_RC(hwt_timer_stop(timer, NULL), 0);
		break;
	default:
		CHECK_INT(pending->state, ==, HWT_CANCELLED);
	}
	return true;
}

TEST(a_visit_may_cancel_move_schedule_walk_advance_and_stop)
{
	hwt_timer *timer = virtual_timer();
	atomic_uint ran = 0;
	unsigned count = 0;

	for (unsigned i = 0; i < 10; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_S(3), NULL), 0);
	CHECK_RC(hwt_timer_each(timer, act, &count), 0);
	CHECK_INT(count, >=, 5);
	CHECK_INT(ran, ==, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/*
 * Walks beside a worker.  Each kind of timeout has its own task, and args in its own table, so that a mixture of two
 * timeouts is visible.
 */
#define FIXED 200u
#define MEMBERS 512u
#define CHURNERS 2
#define WALKERS 2
#define WALKS 400u

enum kind { PLAIN, OWNED, PERIODIC, AGAIN, LATE, KINDS };

struct member {
	enum kind kind;
	unsigned number;
};

static struct crowd {
	hwt_timer *timer;
	struct member members[KINDS][MEMBERS];
	hwt_timeout fixed[FIXED];
	atomic_bool enough;
} crowd;

static void check_kind(const void *arg, enum kind kind)
{
	CHECK(((const struct member *)arg)->kind == kind);
}

static void plain_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	check_kind(arg, PLAIN);
}

static void owned_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	check_kind(arg, OWNED);
}

static void periodic_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	check_kind(arg, PERIODIC);
}

static void again_task(hwt_timeout timeout, void *arg)
{
	check_kind(arg, AGAIN);
	if (((const struct member *)arg)->number % 2 == 0)
		(void)hwt_reschedule(timeout, HWT_MS(1));
}

static void late_task(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	CHECK(arg == NULL); /* its task never runs */
}

static hwt_task *const task_of[KINDS] = { plain_task, owned_task, periodic_task, again_task, late_task };

/* Returns the period of a member, which no other member has. */
static int64_t period_of(const struct member *member)
{
	return member->kind == PERIODIC ? HWT_MS(2) + member->number : 0;
}

static hwt_timeout schedule(enum kind kind, unsigned number, int64_t delay_ns)
{
	struct member *member = &crowd.members[kind][number];
	hwt_spec spec = { sizeof(spec), task_of[kind], member, delay_ns, period_of(member), NULL, 0 };
	hwt_timeout timeout = HWT_TIMEOUT_NONE;

	spec.release = kind == OWNED ? release_nothing : NULL;
	CHECK_RC(hwt_new_timeout_ex(crowd.timer, &spec, &timeout), 0);
	return timeout;
}

/* Keeps some timeouts pending, most of which it cancels. */
static void *churn(void *arg)
{
	struct prng prng = { *(uint64_t *)arg };
	hwt_timeout mine[32] = { HWT_TIMEOUT_NONE };

	while (!atomic_load(&crowd.enough)) {
		unsigned i = (unsigned)prng_below(&prng, 32);
		enum kind kind = (enum kind)prng_below(&prng, LATE);
		hwt_timeout fixed = crowd.fixed[prng_below(&prng, FIXED)];

		(void)hwt_cancel(mine[i]);
		mine[i] = schedule(kind, (unsigned)prng_below(&prng, MEMBERS),
				   prng_between(&prng, 0, prng_below(&prng, 4) == 0 ? HWT_US(300) : HWT_S(3600)));
		CHECK_RC(hwt_reschedule(fixed, HWT_S(3600) + (int64_t)prng_below(&prng, HWT_S(3600))), 0);
		if (prng_below(&prng, 4096) == 0)
			CHECK_RC(hwt_timer_trim(crowd.timer, NULL), 0);
	}
	for (unsigned i = 0; i < 32; i++)
		(void)hwt_cancel(mine[i]);
	return NULL;
}

struct walker {
	struct prng prng;
	unsigned fixed[FIXED];
	uint64_t shown;
};

static bool judge(void *ctx, const hwt_pending *pending)
{
	struct walker *walker = ctx;
	const struct member *member = pending->arg;
	const char *from = (const char *)crowd.members, *at = pending->arg;

	REQUIRE(at >= from && at < from + sizeof(crowd.members));
	walker->shown++;
	CHECK(pending->task == task_of[member->kind]);
	CHECK_INT(pending->period_ns, ==, period_of(member));
	CHECK(pending->state == HWT_PENDING || pending->state == HWT_RUNNING);
	if (member->kind == LATE) {
		walker->fixed[member->number]++;
		CHECK(pending->timeout.entry == crowd.fixed[member->number].entry &&
		      pending->timeout.generation == crowd.fixed[member->number].generation);
		CHECK_INT(pending->deadline_ns, >, hwt_now());
	} else if (prng_below(&walker->prng, 64) == 0) {
		(void)hwt_cancel(pending->timeout);
	}
	return true;
}

static void *walk_along(void *arg)
{
	struct walker *walker = arg;

	for (unsigned walks = scaled(WALKS); walks > 0; walks--) {
		memset(walker->fixed, 0, sizeof(walker->fixed));
		CHECK_RC(hwt_timer_each(crowd.timer, judge, walker), 0);
		for (unsigned i = 0; i < FIXED; i++)
			CHECK_INT(walker->fixed[i], ==, 1);
	}
	return NULL;
}

TEST(beside_a_worker_it_shows_once_what_is_pending_throughout_and_mixes_nothing)
{
	uint64_t seeds[CHURNERS], seed = test_seed("beside_a_worker");
	struct walker walkers[WALKERS] = { { .shown = 0 } };
	struct crew churning, walking;

	crowd.timer = new_timer(HWT_MS(1), 64);
	for (unsigned i = 0; i < KINDS * MEMBERS; i++)
		crowd.members[i / MEMBERS][i % MEMBERS] = (struct member){ (enum kind)(i / MEMBERS), i % MEMBERS };
	for (unsigned i = 0; i < FIXED; i++)
		crowd.fixed[i] = schedule(LATE, i, HWT_S(3600));
	for (unsigned i = 0; i < CHURNERS; i++)
		seeds[i] = seed + i;
	for (unsigned i = 0; i < WALKERS; i++)
		walkers[i].prng.state = seed + CHURNERS + i;
	crew_start(&churning, CHURNERS, churn, seeds, sizeof(*seeds));
	crew_start(&walking, WALKERS, walk_along, walkers, sizeof(*walkers));
	crew_join(&walking);
	atomic_store(&crowd.enough, true);
	crew_join(&churning);
	printf("# %llu shown\n", (unsigned long long)(walkers[0].shown + walkers[1].shown));
	CHECK_INT(walkers[0].shown, >=, FIXED);
	CHECK_RC(hwt_timer_destroy(crowd.timer), 0);
}

static bool count_visit(void *ctx, const hwt_pending *pending)
{
	++*(unsigned *)ctx;
	CHECK(pending->task == count_task && pending->state != HWT_RUNNING);
	return true;
}

static void *stop_it(void *arg)
{
	CHECK_RC(hwt_timer_stop(arg, NULL), 0);
	return NULL;
}

TEST(a_walk_races_a_stop)
{
	for (unsigned round = scaled(200); round > 0; round--) {
		hwt_timer *timer = new_timer(HWT_MS(1), 64);
		struct crew stopping;
		unsigned shown = 0;

		for (unsigned i = 0; i < 1000; i++)
			CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HWT_S(3600), NULL), 0);
		crew_start(&stopping, 1, stop_it, timer, 0);
		CHECK_RC(hwt_timer_each(timer, count_visit, &shown), 0);
		CHECK_INT(shown, <=, 1000);
		crew_join(&stopping);
		shown = 0;
		CHECK_RC(hwt_timer_each(timer, count_visit, &shown), 0);
		CHECK_INT(shown, ==, 1000);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	}
}

static bool count_while_cancelled(void *ctx, const hwt_pending *pending)
{
	(void)pending;
	pthread_testcancel();
	++*(unsigned *)ctx;
	return true;
}

struct cancelled_walk {
	hwt_timer *timer;
	unsigned visits;
};

static void *walk_while_cancelled(void *arg)
{
	struct cancelled_walk *walk = arg;

	pthread_cancel(pthread_self());
	CHECK_RC(hwt_timer_each(walk->timer, count_while_cancelled, &walk->visits), 0);
	pthread_testcancel();
	return NULL;
}

TEST(a_cancelled_thread_walks_to_the_end)
{
	struct cancelled_walk walk = { virtual_timer(), 0 };
	void *result = NULL;
	pthread_t thread;

	for (unsigned i = 0; i < 3; i++)
		CHECK_RC(hwt_new_timeout(walk.timer, count_task, NULL, HWT_S(3600), NULL), 0);
	REQUIRE(pthread_create(&thread, NULL, walk_while_cancelled, &walk) == 0);
	REQUIRE(pthread_join(thread, &result) == 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK_INT(walk.visits, ==, 3);
	CHECK_RC(hwt_timer_destroy(walk.timer), 0);
}

TEST_MAIN()
