/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All interleavings of the code itself: cancel, expire, stop and new race for one record.
 *
 * Each actor is a coroutine that runs the real functions and comes back at every HWT_POINT of the kinds that the
 * scenario asks for: before each access to a state word, and where told, to a queue.  The search runs the scenario
 * again and again, depth first, until every order of those steps has been seen; after each run exactly one end must
 * have come to every timeout, and the records must all have come home.
 *
 * What the order of memory accesses adds to the order of steps is for ThreadSanitizer, not for this.
 */
#include "unit.h"

#include <ucontext.h>

#define ACTORS_MAX 4
#define STACK_BYTES (256 << 10)
#define DEPTH_MAX 400
#define START HWT_S(1)
#define TICK HWT_MS(1)

struct actor {
	void (*act)(void);
	ucontext_t context;
	char *stack;
	bool finished, blocked;
};

static struct actor actors[ACTORS_MAX];
static unsigned actor_count;
static struct actor *current;
static ucontext_t scheduler;
static const char *kinds; /* points at which to switch: those that begin with this */

/* The schedule of this run: at each step which of the actors that could go on was chosen, and of how many. */
static struct {
	unsigned char chosen, of;
} steps[DEPTH_MAX];
static unsigned depth, known_depth;

static void at_point(const char *where)
{
	bool blocked = strcmp(where, "blocked") == 0;

	if (current == NULL || (!blocked && strncmp(where, kinds, strlen(kinds)) != 0))
		return;
	current->blocked = blocked;
	swapcontext(&current->context, &scheduler);
}

static void actor_main(void)
{
	current->act();
	current->finished = true;
	swapcontext(&current->context, &scheduler);
}

static void begin_actor(struct actor *actor)
{
	if (actor->stack == NULL)
		actor->stack = malloc(STACK_BYTES);
	REQUIRE(actor->stack != NULL);
	actor->finished = actor->blocked = false;
	getcontext(&actor->context);
	actor->context.uc_stack.ss_sp = actor->stack;
	actor->context.uc_stack.ss_size = STACK_BYTES;
	actor->context.uc_link = NULL;
	makecontext(&actor->context, actor_main, 0);
}

/* One run along the known choices, then always the first. */
static void run_schedule(void)
{
	for (unsigned i = 0; i < actor_count; i++)
		begin_actor(&actors[i]);
	for (depth = 0;; depth++) {
		struct actor *ready[ACTORS_MAX];
		unsigned count = 0;

		for (unsigned i = 0; i < actor_count; i++)
			if (!actors[i].finished && !actors[i].blocked)
				ready[count++] = &actors[i];
		if (count == 0) {
			for (unsigned i = 0; i < actor_count; i++)
				CHECK(actors[i].finished); /* or all wait for a lock */
			break;
		}
		REQUIRE(depth < DEPTH_MAX);
		if (depth >= known_depth) {
			steps[depth].chosen = 0;
			known_depth = depth + 1;
		}
		steps[depth].of = (unsigned char)count;
		current = ready[steps[depth].chosen];
		swapcontext(&scheduler, &current->context);
		if (!current->blocked) /* it may have let go of what others wait for */
			for (unsigned i = 0; i < actor_count; i++)
				actors[i].blocked = false;
		current = NULL;
	}
}

/* The last choice that has an alternative takes it; false when all have been seen. */
static bool next_schedule(void)
{
	while (known_depth > 0 && steps[known_depth - 1].chosen + 1u >= steps[known_depth - 1].of)
		known_depth--;
	if (known_depth == 0)
		return false;
	steps[known_depth - 1].chosen++;
	return true;
}

/* The scenario. */
static hwt_timer *timer;
static hwt_timeout subject, stale;
static unsigned accepted, ran, cancelled, returned, outcomes;
static bool refused;

static void count_run(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	ran++;
}

static void submit_subject(void)
{
	int rc = hwt_lane_submit(&timer->lanes.lane[0], count_run, NULL, START + TICK, &subject);

	CHECK(rc == 0 || rc == ECANCELED);
	accepted += rc == 0;
	refused = rc != 0;
}

/* Counts behind the call: others run in the middle of it. */
static int cancel_on(unsigned lane, hwt_timeout timeout)
{
	int rc = ENOENT;

	if (timeout.entry != NULL)
		rc = hwt_lane_cancel(&timer->lanes.lane[lane], timeout.entry, timeout.generation);
	cancelled += rc == 0;
	return rc;
}

static void cancel_first(void)
{
	(void)cancel_on(1, subject);
}

/* On another lane, so that they need not wait for each other. */
static void cancel_second(void)
{
	(void)cancel_on(2, subject);
}

static void cancel_on_the_first_ones_lane(void)
{
	(void)cancel_on(1, subject);
}

/* Nobody's any more, least of all the stranger's whom the record serves now. */
static void cancel_stale(void)
{
	CHECK_INT(cancel_on(3, stale), ==, ENOENT);
}

static void worker_passes(void)
{
	driven_pass(timer, START + TICK);
	driven_pass(timer, START + 2 * TICK);
}

static void stop(void)
{
	size_t unprocessed;

	CHECK_INT(hwt_timer_stop(timer, &unprocessed), ==, 0);
	returned += (unsigned)unprocessed;
}

/* With a limit of one: at every switch no more than that may be counted. */
static int64_t limit;

static void submit_at_the_limit(void)
{
	hwt_timeout second = HWT_TIMEOUT_NONE;
	int rc = hwt_lane_submit(&timer->lanes.lane[0], count_run, NULL, START + TICK, &second);

	CHECK(rc == 0 || rc == ENOBUFS);
	accepted += rc == 0;
	CHECK_INT(hwt_pending_timeouts(timer), <=, limit);
}

enum begin_with { NOTHING, A_QUEUED_ONE, ONE_IN_THE_WHEEL, ONE_AND_NO_NODE_FOR_ITS_CANCEL, AN_ENDED_ONE };

static void use_up_nodes(struct hwt_queue *queue)
{
	memory_fails(0, UINT64_MAX);
	queue_lock(queue);
	while (queue_node(queue) != NULL)
		;
	queue_unlock(queue);
}

static void set_up(enum begin_with begin)
{
	hwt_config config = driven_config(TICK, 4);

	config.max_pending_timeouts = limit;
	timer = driven_create(&config, START);
	accepted = ran = cancelled = returned = 0;
	refused = false;
	subject = stale = HWT_TIMEOUT_NONE;
	if (begin == AN_ENDED_ONE) {
		submit_subject();
		CHECK_INT(hwt_cancel(subject), ==, 0);
		cancelled++;
		driven_pass(timer, START);
		stale = subject;
		subject = HWT_TIMEOUT_NONE;
	} else if (begin != NOTHING) {
		submit_subject();
		if (begin != A_QUEUED_ONE)
			driven_pass(timer, START);
		if (begin == ONE_AND_NO_NODE_FOR_ITS_CANCEL)
			use_up_nodes(&timer->lanes.lane[1].cancelled);
	}
}

static void tear_down(void)
{
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	memory_is_back();
	outcomes |= 1u << (ran * 3 + cancelled % 3);
	if (atomic_load(&timer->state) == TIMER_STARTED) { /* what was used serves again: one record, no more */
		driven_pass(timer, START + 10 * TICK);
		CHECK_INT(ran + cancelled, ==, accepted);
		CHECK_INT(hwt_lane_submit(&timer->lanes.lane[0], count_run, NULL, START + HWT_S(1), NULL), ==, 0);
		CHECK(limit != 0 ||
		      timer->lanes.lane[0].pool.carve <= (char *)subject.entry + sizeof(struct hwt_record));
		stop();
		CHECK_INT(returned, ==, 1);
	} else {
		CHECK_INT(ran + cancelled + returned, ==, accepted);
	}
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	driven_destroy(timer);
}

static unsigned explore(const char *points, enum begin_with begin, void (*const *acts)(void), unsigned count)
{
	unsigned schedules = 0;

	kinds = points;
	actor_count = count;
	known_depth = outcomes = 0;
	for (unsigned i = 0; i < count; i++)
		actors[i].act = acts[i];
	do {
		set_up(begin);
		atomic_store(&hwt_test_point, at_point);
		run_schedule();
		tear_down();
		schedules++;
	} while (next_schedule() && schedules < 2000000 && test_failures == 0);
	printf("# %u schedules\n", schedules);
	CHECK_INT(schedules, <, 2000000);
	return schedules;
}

#define EXPLORE(points, begin, ...)                                                                                    \
	explore(points, begin, (void (*const[])(void)){ __VA_ARGS__ },                                                 \
		sizeof((void (*const[])(void)){ __VA_ARGS__ }) / sizeof(void (*)(void)))

/* More than one outcome, or the actors did not really race. */
#define CHECK_OUTCOMES(n) CHECK_INT(__builtin_popcount(outcomes), >=, n)

TEST(two_cancels_race_the_drain_and_the_expiry_of_a_queued_one)
{
	CHECK_INT(EXPLORE("word", A_QUEUED_ONE, cancel_first, cancel_second, worker_passes), >, 100);
	CHECK_OUTCOMES(2);
}

TEST(two_cancels_race_the_expiry_of_one_in_the_wheel)
{
	CHECK_INT(EXPLORE("word", ONE_IN_THE_WHEEL, cancel_first, cancel_second, worker_passes), >, 100);
	CHECK_OUTCOMES(2);
}

TEST(two_cancels_on_one_lane_race_the_expiry)
{
	CHECK_INT(EXPLORE("word", ONE_IN_THE_WHEEL, cancel_first, cancel_on_the_first_ones_lane, worker_passes), >,
		  100);
	CHECK_OUTCOMES(2);
}

TEST(a_cancel_without_memory_races_the_expiry)
{
	CHECK_INT(EXPLORE("word", ONE_AND_NO_NODE_FOR_ITS_CANCEL, cancel_first, cancel_second, worker_passes), >, 100);
	CHECK_OUTCOMES(2);
}

TEST(cancels_race_a_stop)
{
	CHECK_INT(EXPLORE("word", ONE_IN_THE_WHEEL, cancel_first, cancel_second, stop), >, 20);
	CHECK_OUTCOMES(2);
	CHECK_INT(EXPLORE("word", A_QUEUED_ONE, cancel_first, cancel_second, stop), >, 20);
	CHECK_OUTCOMES(2);
}

TEST(a_new_one_races_a_stop)
{
	CHECK_INT(EXPLORE("lock", NOTHING, submit_subject, stop), >, 5);
	CHECK_INT(EXPLORE("word", NOTHING, submit_subject, stop), >, 1);
}

TEST(a_stale_handle_races_the_record_s_next_use)
{
	CHECK_INT(EXPLORE("word", AN_ENDED_ONE, cancel_stale, submit_subject, worker_passes), >, 20);
	CHECK_INT(EXPLORE("word", AN_ENDED_ONE, cancel_stale, submit_subject, worker_passes, cancel_first), >, 100);
	CHECK_OUTCOMES(2);
}

TEST(a_cancel_s_push_races_every_look_of_the_worker)
{
	CHECK_INT(EXPLORE("queue", ONE_IN_THE_WHEEL, cancel_first, worker_passes), >, 20);
}

TEST(a_cancel_at_the_limit_is_counted_before_it_makes_room)
{
	limit = 1;
	CHECK_INT(EXPLORE("limit", ONE_IN_THE_WHEEL, cancel_first, submit_at_the_limit), >, 1);
	CHECK_INT(EXPLORE("", ONE_IN_THE_WHEEL, cancel_first, submit_at_the_limit), >, 20);
	limit = 0;
}

#ifdef HWT_TSAN
int main(void)
{
	puts("skip interleavings: ThreadSanitizer does not know coroutines, and there is one thread only");
	return 0;
}
#else
TEST_MAIN(RUN(two_cancels_race_the_drain_and_the_expiry_of_a_queued_one),
	  RUN(two_cancels_race_the_expiry_of_one_in_the_wheel), RUN(two_cancels_on_one_lane_race_the_expiry),
	  RUN(a_cancel_without_memory_races_the_expiry), RUN(cancels_race_a_stop), RUN(a_new_one_races_a_stop),
	  RUN(a_stale_handle_races_the_record_s_next_use), RUN(a_cancel_s_push_races_every_look_of_the_worker),
	  RUN(a_cancel_at_the_limit_is_counted_before_it_makes_room))
#endif
