/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All interleavings of the code itself: cancel, expire, stop, new and move race for one record, also for one that runs
 * again, and one whose memory goes back to the system.
 *
 * Each actor is a coroutine that runs the real functions and comes back at every HWT_POINT of the kinds that the
 * scenario asks for: before each access to a state word, and where told, to a queue.  The search runs the scenario
 * again and again, depth first, until every order of those steps has been seen; after each run exactly one end must
 * have come to every timeout, and the records must all have come home.
 *
 * What the order of memory accesses adds to the order of steps is for ThreadSanitizer, not for this.
 */
#include "check/check.h"
#include "frame/coroutine.h"
#include "unit.h"

#include <limits.h>
#include <sched.h>

#define ACTORS_MAX 4
#define DEPTH_MAX 400
#define START HWT_S(1)
#define TICK HWT_MS(1)

/* A coroutine, which lives as long as the program and acts once in each run. */
struct actor {
	struct coroutine coroutine;
	void (*act)(void);
	bool finished, blocked;
};

static struct actor actors[ACTORS_MAX];
static unsigned actor_count;
static struct actor *current;
static struct coroutine scheduler;
static const char *kinds; /* points at which to switch: those that begin with one of these, between bars */

/* The schedule of this run: at each step which of the actors that could go on was chosen, and of how many. */
static struct {
	unsigned char chosen, of;
} steps[DEPTH_MAX];
static unsigned depth, known_depth;

static bool is_wanted(const char *where)
{
	const char *kind = kinds;

	for (size_t length; *kind != 0; kind += length + (kind[length] == '|')) {
		length = strcspn(kind, "|");
		if (strncmp(where, kind, length) == 0)
			return true;
	}
	return false;
}

static void give_way(void)
{
	coroutine_switch(&current->coroutine, &scheduler);
}

static void at_point(const char *where)
{
	bool blocked = strcmp(where, "blocked") == 0;

	if (current == NULL || (!blocked && !is_wanted(where)))
		return;
	current->blocked = blocked;
	give_way();
}

/* Replaces libc's: a thread of the library that waits for another thread calls this, and nothing else does. */
int sched_yield(void)
{
	if (atomic_load(&hwt_test_point) != NULL)
		at_point("blocked");
	return 0;
}

static void actor_main(void)
{
	for (;;) {
		current->act();
		current->finished = true;
		current->blocked = false; /* its last wait is over */
		give_way();
	}
}

/* Comes back when the actor gives way. */
static void let_go_on(struct actor *actor)
{
	current = actor;
	if (actor->coroutine.stack == NULL)
		actor->coroutine.main = actor_main;
	coroutine_switch(&scheduler, &actor->coroutine);
}

/* Makes one run: by the known choices, and then by the first choice at each step. */
static void run_schedule(void)
{
	for (unsigned i = 0; i < actor_count; i++)
		actors[i].finished = actors[i].blocked = false;
	for (depth = 0;; depth++) {
		struct actor *ready[ACTORS_MAX];
		unsigned count = 0;

		for (unsigned i = 0; i < actor_count; i++)
			if (!actors[i].finished && !actors[i].blocked)
				ready[count++] = &actors[i];
		if (count == 0) {
			for (unsigned i = 0; i < actor_count; i++)
				CHECK(actors[i].finished); /* else all actors wait for a lock */
			break;
		}
		REQUIRE(depth < DEPTH_MAX);
		if (depth >= known_depth) {
			steps[depth].chosen = 0;
			known_depth = depth + 1;
		}
		steps[depth].of = (unsigned char)count;
		let_go_on(ready[steps[depth].chosen]);
		if (!current->blocked) /* the actor may have released what others wait for */
			for (unsigned i = 0; i < actor_count; i++)
				actors[i].blocked = false;
		current = NULL;
	}
}

/* Changes the last choice that has an alternative.  False: all schedules have been seen. */
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
static unsigned accepted, ran, cancelled, returned;
static uint64_t outcomes;
static bool refused;

/* The limit of pending timeouts; 0: none.  If it is 1, at most one is counted at every switch of actors. */
static int64_t limit;

/* 1: tasks run in the actor task_thread_runs. */
static uint32_t task_threads;

/* Memory goes back to the system. */
static bool is_given_back;

/* What the subject is; a test that changes it changes it back. */
static const struct subject {
	int64_t deadline_ns;
	int64_t period_ns;   /* 0: none */
	int64_t again_ns[2]; /* the moves that its first run makes of itself; 0: none */
	bool owned;          /* the subject has a finaliser */
} usual = { .deadline_ns = START + TICK };
static const struct subject *is = &usual;

static unsigned again, released;
static unsigned cancels; /* cancels that have begun */
static bool in_task;
static unsigned runs_left; /* runs that may still begin: at most one once a cancel has returned EBUSY */
static int64_t ran_ns;     /* when the subject ran last */

/* Actors that move the subject to another time. */
static struct mover {
	int64_t to_ns; /* 0: this mover does not act */
	int rc;        /* NOT_DONE until its call has returned */
} movers[2];
static unsigned moves_begun, moves_done;

#define NOT_DONE (-1)

static void count_run(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	CHECK_INT(released, ==, 0);
	CHECK_INT(runs_left, >, 0);
	runs_left--;
	in_task = true;
	CHECK(is->period_ns > 0 || record_deadline(timeout.entry) <= fake_now_ns);
	ran_ns = fake_now_ns;
	for (unsigned i = 0; i < 2 && ran == 0 && is->again_ns[i] != 0; i++) {
		int rc = hwt_lane_rearm(lane_at(&timer->lanes, 4), timeout.entry, is->again_ns[i]);

		/* ENOENT: a cancel has ended a subject that was to run again, or came before the run. */
		CHECK(rc == 0 || (rc == ENOENT && cancels > 0) || (rc == ENOBUFS && limit != 0));
		again += i == 0 && rc == 0 && is->period_ns == 0;
	}
	in_task = false;
	ran++;
}

static void count_stranger(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
	ran++;
}

static void count_release(void *arg)
{
	(void)arg;
	released++;
}

static void submit_subject(void)
{
	struct hwt_extension extension = { &subject, is->owned ? count_release : NULL, 0 };
	struct hwt_lane *lane = lanes_at(&timer->lanes, 0); /* without the mutex, which a trim may hold */
	int rc;

	if (is->owned || is->period_ns > 0)
		rc = hwt_lane_submit_extended(lane, count_run, &extension, is->period_ns, is->deadline_ns, &subject);
	else
		rc = hwt_lane_submit(lane, count_run, &subject, is->deadline_ns, &subject);
	CHECK(rc == 0 || rc == ECANCELED);
	accepted += rc == 0;
	refused = rc != 0;
}

/* Counts after the call, as other actors run during the call. */
static int cancel_on(unsigned lane, hwt_timeout timeout)
{
	int rc = ENOENT;

	cancels++;
	if (timeout.entry != NULL)
		rc = hwt_lane_cancel(lane_at(&timer->lanes, lane), timeout.entry, timeout.generation);
	cancelled += rc == 0;
	CHECK_INT(hwt_pending_timeouts(timer), >=, 0); /* the timeout that the cancel has ended had been counted */
	/* The run that has begun is the last; its task may not have been called yet. */
	if (rc == EBUSY)
		runs_left = in_task ? 0 : runs_left < 1 ? runs_left : 1;
	return rc;
}

static void cancel_first(void)
{
	(void)cancel_on(1, subject);
}

/* Cancels on another lane, so that the two cancels need not wait for each other. */
static void cancel_second(void)
{
	(void)cancel_on(2, subject);
}

/* Cancels by a stale handle: it must not cancel the stranger, which the record serves now. */
static void cancel_stale(void)
{
	CHECK_INT(cancel_on(3, stale), ==, ENOENT);
}

static void move_subject(struct mover *mover)
{
	unsigned lane = 5 + (unsigned)(mover - movers);

	moves_begun++;
	mover->rc = hwt_lane_reschedule(lane_at(&timer->lanes, lane), subject.entry, subject.generation, mover->to_ns);
	moves_done++;
}

static void move_first(void)
{
	move_subject(&movers[0]);
}

static void move_second(void)
{
	move_subject(&movers[1]);
}

/* An actor has read the subject's deadline. */
static bool looked;
static int64_t looked_ns;
static unsigned strangers; /* records that serve other timeouts, without the subject's */

static void look(void)
{
	looked = record_read_deadline(subject.entry, subject.generation, &looked_ns);
}

/* A timeout that the subject's record serves later, by itself or as an extension.  This arg points nowhere. */
#define STRANGER ((void *)8)

static void submit_stranger(void)
{
	CHECK_INT(hwt_lane_submit(lane_at(&timer->lanes, 0), count_stranger, STRANGER, START + 7 * TICK, &stale), ==,
		  0);
	accepted++;
}

static void submit_extended_stranger(void)
{
	struct hwt_extension extension = { .arg = STRANGER };

	CHECK_INT(hwt_lane_submit_extended(lane_at(&timer->lanes, 0), count_stranger, &extension, 0, START + 7 * TICK,
					   &stale),
		  ==, 0);
	accepted++;
	strangers = 1;
	CHECK(record_second(stale.entry) == subject.entry);
}

/* An actor walks over all timeouts: the walk shows each timeout once, with its own fields. */
static unsigned visits;

static bool visit(void *ctx, const hwt_pending *pending)
{
	bool is_stopped = atomic_load(&timer->state) == TIMER_STOPPED;

	CHECK(ctx == &visits);
	CHECK(pending->state == HWT_PENDING || pending->state == (is_stopped ? HWT_CANCELLED : HWT_RUNNING));
	if (pending->task == count_run) {
		visits++;
		looked = true;
		looked_ns = is->period_ns > 0 ? is->deadline_ns : pending->deadline_ns;
		CHECK(pending->arg == &subject && pending->period_ns == is->period_ns);
		CHECK(pending->timeout.entry == subject.entry && pending->timeout.generation == subject.generation);
	} else {
		CHECK(pending->task == count_stranger && pending->arg == STRANGER && pending->period_ns == 0);
		CHECK_INT(pending->deadline_ns, ==, START + 7 * TICK);
		CHECK(pending->timeout.generation != subject.generation || pending->timeout.entry != subject.entry);
	}
	return true;
}

static bool subject_is_alive(void)
{
	/* Not record_word: to look is no step of the race. */
	uint64_t word = subject.entry != NULL ? atomic_load(&((struct hwt_record *)subject.entry)->word) : 0;

	return word_generation(word) == subject.generation && word_is_alive(word);
}

static void walk(void)
{
	bool was_alive = subject_is_alive();

	CHECK_INT(hwt_timer_each(timer, visit, &visits), ==, 0);
	CHECK_INT(visits, <=, 1);
	CHECK(visits == 1 || !was_alive || !subject_is_alive());
}

static void cancel_and_use_again(void (*submit)(void))
{
	cancel_first();
	driven_pass(timer, START);
	submit();
}

static void use_again(void)
{
	cancel_and_use_again(submit_stranger);
	CHECK(stale.entry == subject.entry);
}

/* The record of the subject's extension serves a stranger, too. */
static void use_both_again(void)
{
	cancel_and_use_again(submit_stranger);
	submit_stranger();
	strangers = 1;
}

static void use_again_as_an_extension(void)
{
	cancel_and_use_again(submit_extended_stranger);
}

static bool subject_is_pending(void)
{
	uint64_t word = atomic_load(&((struct hwt_record *)subject.entry)->word);

	return word_public_state(word, subject.generation) == HWT_PENDING;
}

/* A pass goes by all moves that were made before it: it leaves no due timeout, unless a mover is changing that one. */
static void pass_and_look(int64_t now_ns)
{
	bool quiet = accepted > 0 && moves_begun == moves_done;
	unsigned begun = moves_begun;

	driven_pass(timer, now_ns);
	/* A timeout that waits for a task thread is pending, too. */
	if (quiet && begun == moves_begun && movers[0].to_ns != 0 && task_threads == 0 && subject_is_pending())
		CHECK_INT(record_deadline(subject.entry), >, now_ns);
}

static void worker_passes_once(void)
{
	pass_and_look(START + TICK);
}

static void worker_passes(void)
{
	pass_and_look(START + TICK);
	at_point("pass");
	pass_and_look(START + 2 * TICK);
}

/* A task thread takes what the worker has handed over, one record after the other.  It ends instead of sleeping. */
static void task_thread_runs(void)
{
	struct hwt_record *record;

	while ((record = hwt_ready_take_left(&timer->tasks.ready)) != NULL)
		hwt_tasks_run_one(&timer->tasks.runner[0], record, READY_NOT_MARKED);
}

static void stop(void)
{
	size_t unprocessed;

	CHECK_INT(hwt_timer_stop(timer, &unprocessed), ==, 0);
	returned += (unsigned)unprocessed;
}

/* The worker gives back all memory that it can. */
static void trim(void)
{
	driven_trim(timer);
}

/* The calls that users make, with a handle whose record serves another, or whose memory is being given back. */
static void use_stale(void)
{
	CHECK_INT(hwt_cancel(stale), ==, ENOENT);
	CHECK(hwt_timeout_timer(stale) == timer);
	CHECK(hwt_timeout_state(stale) == HWT_CANCELLED || hwt_timeout_state(stale) == HWT_RETIRED);
}

static void move_stale(void)
{
	CHECK_INT(hwt_reschedule_at(stale, START), ==, ENOENT);
}

static void submit_on_another_lane(void)
{
	CHECK_INT(hwt_lane_submit(lanes_at(&timer->lanes, 1), count_stranger, NULL, START + TICK, NULL), ==, 0);
	accepted++;
}

static void submit_at_the_limit(void)
{
	hwt_timeout second = HWT_TIMEOUT_NONE;
	int rc = hwt_lane_submit(lane_at(&timer->lanes, 0), count_stranger, NULL, START + TICK, &second);

	CHECK(rc == 0 || rc == ENOBUFS);
	accepted += rc == 0;
	CHECK_INT(hwt_pending_timeouts(timer), <=, limit);
}

enum begin_with {
	NOTHING,
	A_QUEUED_ONE,
	ONE_IN_THE_WHEEL,
	ONE_HANDED_OVER,
	ONE_ON_THE_STACK,
	ONE_AND_NO_NODE_FOR_ITS_CANCEL,
	ONE_AND_NO_NODE_FOR_ITS_MOVE,
	AN_ENDED_ONE
};

static bool nodes_are_lost;

static void use_up_nodes(struct hwt_queue *queue)
{
	nodes_are_lost = true;
	memory_fails(0, UINT64_MAX);
	queue_lock(queue);
	while (queue_node(queue) != NULL)
		;
	queue_unlock(queue);
}

static enum begin_with begins_with;

static void set_up(void)
{
	const enum begin_with begin = begins_with;
	hwt_config config = driven_config(TICK, 4);

	config.max_pending_timeouts = limit;
	config.task_threads = task_threads;
	timer = driven_create(&config, START);
	for (uint32_t place = 0; place <= timer->lanes.last_seat; place++)
		(void)lane_at(&timer->lanes, place);
	accepted = ran = cancelled = returned = again = released = moves_begun = moves_done = 0;
	movers[0].rc = movers[1].rc = NOT_DONE;
	looked = in_task = false;
	visits = 0;
	ran_ns = INT64_MAX;
	looked_ns = INT64_MIN;
	runs_left = UINT_MAX;
	cancels = 0;
	strangers = 0;
	refused = nodes_are_lost = false;
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
		if (begin == ONE_HANDED_OVER || begin == ONE_ON_THE_STACK)
			driven_pass(timer, START + TICK);
		if (begin == ONE_ON_THE_STACK) /* the subject runs again, and the worker does not know that yet */
			task_thread_runs();
		if (begin == ONE_AND_NO_NODE_FOR_ITS_CANCEL)
			use_up_nodes(&lane_at(&timer->lanes, 1)->cancelled);
		if (begin == ONE_AND_NO_NODE_FOR_ITS_MOVE)
			use_up_nodes(&lane_at(&timer->lanes, 5)->submitted);
	}
}

/* A move that returned 0 was in time: nothing ran before the new deadline.  Of two the later one holds. */
static void check_moves(void)
{
	int64_t least_ns = INT64_MAX;

	for (unsigned i = 0; i < 2; i++) {
		CHECK(movers[i].rc == 0 || movers[i].rc == EBUSY || movers[i].rc == ENOENT || movers[i].rc == ENOMEM ||
		      movers[i].rc == NOT_DONE);
		if (movers[i].rc == 0 && movers[i].to_ns < least_ns)
			least_ns = movers[i].to_ns;
	}
	if (least_ns != INT64_MAX && ran > 0 && is->period_ns == 0)
		CHECK_INT(ran_ns, >=, least_ns);
	if (begins_with == ONE_AND_NO_NODE_FOR_ITS_MOVE)
		CHECK_INT(movers[0].rc, ==, ENOMEM);
}

/* The deadline that an actor read is one of those that the subject has had. */
static void check_looked(void)
{
	bool known = looked_ns == is->deadline_ns || looked_ns == movers[0].to_ns || looked_ns == movers[1].to_ns;

	for (unsigned i = 0; i < 2; i++)
		known |= is->again_ns[i] != 0 && looked_ns == is->again_ns[i];
	CHECK(!looked || known);
}

/* A timeout that a stop handed out has the deadline that was set last. */
static void check_unprocessed(void)
{
	bool first = movers[0].rc == 0, second = movers[1].rc == 0;
	int64_t own_ns = again > 0 ? is->again_ns[0] : is->deadline_ns;
	hwt_unprocessed out;

	while (hwt_timer_next_unprocessed(timer, &out)) {
		CHECK(out.timeout.entry == subject.entry);
		CHECK((first && out.deadline_ns == movers[0].to_ns) || (second && out.deadline_ns == movers[1].to_ns) ||
		      (!first && !second && out.deadline_ns == own_ns));
	}
}

static void check_timer(void)
{
	if (!nodes_are_lost)
		hwt_check(timer);
}

/* Every timeout has ended once, or is periodic and pending.  Its records serve again, and need no others. */
static void end_and_use_again(void)
{
	unsigned pending;

	check_timer();
	driven_pass(timer, START + 10 * TICK);
	check_timer();
	if (is->again_ns[0] != 0) { /* a subject re-armed for a time that had passed runs in the next pass */
		driven_pass(timer, START + 11 * TICK);
		check_timer();
	}
	/* The subject may run again, and may have been moved before. */
	for (unsigned i = 0; i < 3 && task_threads > 0; i++) {
		task_thread_runs();
		driven_pass(timer, START + (12 + (int64_t)i) * TICK);
		check_timer();
	}
	pending = (unsigned)hwt_pending_timeouts(timer);
	CHECK_INT(pending + cancelled + (is->period_ns > 0 ? 0 : ran), ==, accepted + again);
	CHECK(is->period_ns > 0 || pending == 0);
	CHECK_INT(released, ==, is->owned && pending == 0);
	CHECK_INT(hwt_lane_submit(lane_at(&timer->lanes, 0), count_run, NULL, START + HWT_S(1), NULL), ==, 0);
	CHECK(limit != 0 || is_given_back ||
	      lane_at(&timer->lanes, 0)->pool.carve <=
		  (char *)subject.entry + (1 + pending + strangers) * sizeof(struct hwt_record));
	stop();
	CHECK_INT(returned, ==, 1 + pending);
}

static void tear_down(void)
{
	memory_is_back();
	outcomes |= UINT64_C(1) << ((((ran < 4 ? ran : 4) * 3 + cancelled % 3) * 2 + (movers[0].rc == 0)) * 2 + looked);
	if (atomic_load(&timer->state) == TIMER_STARTED) {
		end_and_use_again();
	} else {
		CHECK_INT(ran + cancelled + returned, ==, accepted + again);
		check_timer();
		check_unprocessed();
	}
	check_moves();
	check_looked();
	CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	driven_destroy(timer);
	CHECK_INT(released, ==, is->owned && accepted > 0);
}

/* All schedules by HWT_SCALE=50; the gate, at 40, cuts the longest search, and a quick run all of them. */
static unsigned most_schedules(void)
{
	const char *wish = getenv("HWT_SCALE");
	unsigned long percent = wish != NULL ? strtoul(wish, NULL, 10) : 100;

	return percent < 20 ? 3000 : percent < 50 ? 40000 : 2000000;
}

/* Runs every order of these actors, each between begin and end.  There must be more than `least` orders. */
static void explore(unsigned least, const char *points, void (*begin)(void), void (*end)(void),
		    void (*const *acts)(void), unsigned count)
{
	unsigned schedules = 0, most = most_schedules();

	kinds = points;
	actor_count = count;
	known_depth = 0;
	outcomes = 0;
	for (unsigned i = 0; i < count; i++)
		actors[i].act = acts[i];
	do {
		begin();
		atomic_store(&hwt_test_point, at_point);
		run_schedule();
		atomic_store(&hwt_test_point, (hwt_point_hook *)0);
		end();
		schedules++;
	} while (next_schedule() && schedules < most && test_failures == 0);
	printf("# %u schedules\n", schedules);
	CHECK_INT(schedules, <, 2000000);
	CHECK_INT(schedules, >, least < most ? least : most - 1);
}

#define ACTS(...)                                                                                                      \
	(void (*const[])(void)){ __VA_ARGS__ }, sizeof((void (*const[])(void)){ __VA_ARGS__ }) / sizeof(void (*)(void))

/* If an outcome that other orders lead to never comes, the actors did not race. */
#define RACE(least, different, points, begin, ...)                                                                     \
	do {                                                                                                           \
		begins_with = (begin);                                                                                 \
		explore(least, points, set_up, tear_down, ACTS(__VA_ARGS__));                                          \
		CHECK_INT(__builtin_popcountll(outcomes), >=, different);                                              \
	} while (0)

/* Begins with this subject, to which movers give these times; 0: that mover does not act. */
static void begin_moves(const struct subject *subject_is, int64_t first_ns, int64_t second_ns)
{
	is = subject_is;
	movers[0].to_ns = first_ns;
	movers[1].to_ns = second_ns;
}

/* A test, which begins with what is usual. */
#define RACES(name)                                                                                                    \
	static void name##_begun(void);                                                                                \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		begin_moves(&usual, 0, 0);                                                                             \
		limit = task_threads = 0;                                                                              \
		is_given_back = false;                                                                                 \
		name##_begun();                                                                                        \
	}                                                                                                              \
	static void name##_begun(void)

static const struct subject late = { .deadline_ns = START + 4 * TICK };
static const struct subject owned = { .deadline_ns = START + TICK, .owned = true };
static const struct subject periodic = { .deadline_ns = START + TICK, .period_ns = 3 * TICK, .owned = true };
static const struct subject again_once = { .deadline_ns = START + TICK, .again_ns = { START + 3 * TICK } };

/* Two actors switch at every point of a word and of a move; three only where a word has changed or is about to. */

RACES(two_cancels_race_the_drain_and_the_expiry_of_a_queued_one)
{
	RACE(50, 2, "word", A_QUEUED_ONE, cancel_first, worker_passes_once);
	RACE(1000, 2, "word edge|word finish", A_QUEUED_ONE, cancel_first, cancel_second, worker_passes_once);
}

RACES(two_cancels_race_the_expiry_of_one_in_the_wheel)
{
	RACE(100, 2, "word", ONE_IN_THE_WHEEL, cancel_first, cancel_second, worker_passes);
}

RACES(a_cancel_without_memory_races_the_expiry)
{
	RACE(100, 2, "word", ONE_AND_NO_NODE_FOR_ITS_CANCEL, cancel_first, cancel_second, worker_passes);
}

RACES(cancels_race_a_stop)
{
	RACE(20, 2, "word", ONE_IN_THE_WHEEL, cancel_first, cancel_second, stop);
	RACE(20, 2, "word", A_QUEUED_ONE, cancel_first, cancel_second, stop);
}

RACES(a_new_one_races_a_stop)
{
	RACE(5, 1, "lock", NOTHING, submit_subject, stop);
	RACE(1, 1, "word", NOTHING, submit_subject, stop);
}

/* A caller has the handle before the record is in the queue. */
RACES(a_cancel_races_the_submission_itself)
{
	RACE(50, 2, "word|queue push", NOTHING, submit_subject, cancel_first, worker_passes);
}

RACES(a_stale_handle_races_the_record_s_next_use)
{
	RACE(20, 1, "word", AN_ENDED_ONE, cancel_stale, submit_subject, worker_passes);
	RACE(100, 2, "word", AN_ENDED_ONE, cancel_stale, submit_subject, worker_passes, cancel_first);
}

RACES(a_stale_handle_races_a_trim_and_the_next_use)
{
	is_given_back = true;
	RACE(10, 1, "word load|slab give", AN_ENDED_ONE, use_stale, trim);
	RACE(50, 1, "word load|slab give", AN_ENDED_ONE, use_stale, trim, submit_subject);
	RACE(20, 1, "word load|slab give", AN_ENDED_ONE, move_stale, trim, submit_subject);
}

RACES(producers_of_two_lanes_race_a_trim)
{
	is_given_back = true;
	RACE(20, 1, "lock|slab", AN_ENDED_ONE, trim, submit_subject);
	RACE(100, 1, "slab", AN_ENDED_ONE, trim, submit_subject, submit_on_another_lane);
}

/* A record that a task thread returns is seen by the look, or still counts as in use: its slab stays in both cases. */
RACES(a_task_thread_returns_a_record_while_the_worker_trims)
{
	is_given_back = true;
	task_threads = 1;
	RACE(10, 1, "slab", ONE_HANDED_OVER, task_thread_runs, trim);
	RACE(100, 1, "slab", ONE_HANDED_OVER, task_thread_runs, trim, submit_on_another_lane);
}

RACES(a_cancel_at_the_limit_is_counted_before_it_makes_room)
{
	limit = 1;
	RACE(1, 1, "limit", ONE_IN_THE_WHEEL, cancel_first, submit_at_the_limit);
	RACE(1, 1, "limit", A_QUEUED_ONE, cancel_first, submit_at_the_limit);
	RACE(20, 1, "word|queue|lock|limit", ONE_IN_THE_WHEEL, cancel_first, submit_at_the_limit);
}

RACES(a_later_move_races_the_drain_and_the_expiry)
{
	begin_moves(&usual, START + 2 * TICK, 0);
	RACE(300, 2, "word|mov|queue push", A_QUEUED_ONE, move_first, worker_passes);
	RACE(50, 2, "word|mov|queue push", ONE_IN_THE_WHEEL, move_first, worker_passes);
}

RACES(an_earlier_move_races_the_drain_and_the_expiry)
{
	begin_moves(&late, START + TICK, 0);
	RACE(100, 1, "word|mov|queue push", A_QUEUED_ONE, move_first, worker_passes);
	RACE(5, 2, "word|mov|queue push", ONE_IN_THE_WHEEL, move_first, worker_passes);
	RACE(2, 1, "word|mov|queue push", ONE_AND_NO_NODE_FOR_ITS_MOVE, move_first, worker_passes);
	begin_moves(&usual, START, 0); /* the subject is due without a move */
	RACE(50, 2, "word|mov|queue push", ONE_IN_THE_WHEEL, move_first, worker_passes);
}

RACES(two_moves_race_the_expiry)
{
	begin_moves(&usual, START + 2 * TICK, START + 3 * TICK);
	RACE(200, 2, "word edge|moved|queue push", ONE_IN_THE_WHEEL, move_first, move_second, worker_passes_once);
	begin_moves(&late, START + TICK, START + 2 * TICK); /* both moves share one place in the queue */
	RACE(200, 2, "word edge|moved|queue push", ONE_IN_THE_WHEEL, move_first, move_second, worker_passes_once);
	begin_moves(&late, START + 3 * TICK, START + 2 * TICK); /* taken between the moves, by the first deadline */
	RACE(200, 1, "mov|pass", ONE_IN_THE_WHEEL, move_first, move_second, worker_passes);
	begin_moves(&usual, START, START + 3 * TICK);
	RACE(500, 1, "word edge|moved|queue push", ONE_IN_THE_WHEEL, move_first, move_second, worker_passes_once);
	begin_moves(&usual, START + 2 * TICK, START + 3 * TICK);
	RACE(2000, 1, "word edge|moved", A_QUEUED_ONE, move_first, move_second, worker_passes_once);
}

RACES(a_move_races_a_cancel_and_the_expiry)
{
	begin_moves(&usual, START + 2 * TICK, 0);
	RACE(100, 3, "word edge|moved|queue push", ONE_IN_THE_WHEEL, move_first, cancel_first, worker_passes_once);
	begin_moves(&late, START + TICK, 0);
	RACE(100, 3, "word edge|moved|queue push", ONE_IN_THE_WHEEL, move_first, cancel_first, worker_passes_once);
	RACE(1000, 2, "word edge|moved|queue push", A_QUEUED_ONE, move_first, cancel_first, worker_passes_once);
}

RACES(moves_race_a_stop)
{
	static const struct subject owned_late = { .deadline_ns = START + 4 * TICK, .owned = true };

	begin_moves(&late, START + 5 * TICK, START + TICK);
	RACE(20, 2, "word|mov|queue push", ONE_IN_THE_WHEEL, move_first, stop);
	RACE(2000, 1, "moved|lock", ONE_IN_THE_WHEEL, move_second, stop);
	RACE(1000, 1, "word edge|moved|queue push", ONE_IN_THE_WHEEL, move_first, move_second, stop);
	RACE(500, 1, "word edge|moved|queue push", A_QUEUED_ONE, move_first, move_second, stop);
	begin_moves(&owned_late, START + TICK, 0);
	RACE(500, 3, "word edge|moved|queue push", ONE_IN_THE_WHEEL, move_first, cancel_first, stop);
}

/* An actor looks at one timeout, or walks over all. */
static void look_races(void (*act)(void))
{
	RACE(20, 2, "word|look", A_QUEUED_ONE, act, worker_passes);
	RACE(20, 2, "word|look", ONE_IN_THE_WHEEL, act, use_again);
	RACE(20, 2, "word|look", ONE_IN_THE_WHEEL, act, use_again_as_an_extension);
}

RACES(a_look_races_the_expiry_a_move_and_the_record_s_next_use)
{
	look_races(look);
	begin_moves(&late, START + TICK, 0);
	RACE(200, 3, "word|look|mov", ONE_IN_THE_WHEEL, look, move_first, worker_passes_once);
	begin_moves(&again_once, 0, 0);
	RACE(20, 2, "word|look", ONE_IN_THE_WHEEL, look, worker_passes);
}

/* The next timeout has another task and arg, and may be in the record of the subject or in that of its extension. */
RACES(a_walk_races_the_expiry_a_move_and_the_record_s_next_use)
{
	look_races(walk);
	begin_moves(&owned, 0, 0);
	RACE(20, 2, "word|look", ONE_IN_THE_WHEEL, walk, worker_passes);
	RACE(20, 2, "word|look", ONE_IN_THE_WHEEL, walk, use_both_again);
	begin_moves(&late, START + TICK, 0);
	RACE(200, 3, "word edge|look|mov", ONE_IN_THE_WHEEL, walk, move_first, worker_passes_once);
	begin_moves(&again_once, 0, 0);
	RACE(20, 1, "word|look", ONE_IN_THE_WHEEL, walk, worker_passes);
	begin_moves(&periodic, 0, 0);
	RACE(20, 1, "word|look", ONE_IN_THE_WHEEL, walk, worker_passes);
	RACE(50, 2, "word edge|look", ONE_IN_THE_WHEEL, walk, cancel_first, worker_passes_once);
}

RACES(a_walk_races_a_stop_and_a_trim)
{
	RACE(5, 1, "word|look", ONE_IN_THE_WHEEL, walk, stop);
	RACE(5, 1, "word|look", A_QUEUED_ONE, walk, stop);
	begin_moves(&owned, 0, 0);
	RACE(5, 1, "word|look", ONE_IN_THE_WHEEL, walk, stop);
	begin_moves(&usual, 0, 0);
	is_given_back = true;
	RACE(10, 1, "word load|look|slab", AN_ENDED_ONE, walk, trim, submit_subject);
}

/* The cancels come at the end of a run after which the subject was to run again. */
RACES(cancels_race_the_end_of_a_run_that_runs_again)
{
	static const struct subject again_twice = { .deadline_ns = START + TICK,
						    .again_ns = { START + 3 * TICK, START + 2 * TICK } };
	static const struct subject each_tick = { .deadline_ns = START + TICK, .period_ns = TICK, .owned = true };
	static const struct subject shifted = {
		.deadline_ns = START + TICK, .period_ns = 2 * TICK, .again_ns = { START + 2 * TICK }, .owned = true
	};

	begin_moves(&again_twice, 0, 0);
	RACE(2000, 3, "word|await", ONE_IN_THE_WHEEL, cancel_first, worker_passes);
	RACE(200, 1, "word edge", ONE_IN_THE_WHEEL, cancel_first, cancel_second, worker_passes_once);
	begin_moves(&each_tick, 0, 0);
	RACE(10000, 3, "word|await", ONE_IN_THE_WHEEL, cancel_first, worker_passes);
	RACE(200, 1, "word edge", ONE_IN_THE_WHEEL, cancel_first, cancel_second, worker_passes_once);
	begin_moves(&shifted, 0, 0);
	RACE(10000, 3, "word|await", ONE_IN_THE_WHEEL, cancel_first, worker_passes);
}

/* The subject needs its place below the limit again, which other timeouts need, too. */
RACES(at_the_limit_a_cancel_races_the_end_of_a_run_that_runs_again)
{
	limit = 1;
	begin_moves(&again_once, 0, 0);
	RACE(1000, 3, "word|limit|mov", ONE_IN_THE_WHEEL, cancel_first, worker_passes);
	RACE(200, 3, "word edge|limit|mov", ONE_IN_THE_WHEEL, cancel_first, submit_at_the_limit, worker_passes_once);
}

RACES(a_move_races_the_end_of_a_run_that_runs_again)
{
	begin_moves(&again_once, START + 2 * TICK, 0);
	RACE(2000, 2, "word|mov|queue push", ONE_IN_THE_WHEEL, move_first, worker_passes);
	begin_moves(&periodic, START + 2 * TICK, 0);
	RACE(2000, 1, "word|mov|queue push", ONE_IN_THE_WHEEL, move_first, worker_passes);
	RACE(50, 1, "word edge|moved|queue push", ONE_IN_THE_WHEEL, move_first, cancel_first, worker_passes_once);
}

/* The worker has handed the subject to the task thread, or is about to. */
RACES(cancels_and_moves_race_a_task_thread)
{
	task_threads = 1;
	RACE(100, 2, "word", ONE_HANDED_OVER, cancel_first, cancel_second, task_thread_runs);
	RACE(100, 2, "word", ONE_IN_THE_WHEEL, cancel_first, worker_passes_once, task_thread_runs);
	begin_moves(&owned, START + 2 * TICK, 0);
	RACE(50, 2, "word|mov|stack", ONE_HANDED_OVER, move_first, task_thread_runs);
	RACE(200, 3, "word edge|moved|stack", ONE_HANDED_OVER, move_first, cancel_first, task_thread_runs);
	RACE(50, 2, "word edge|moved|stack", ONE_HANDED_OVER, move_first, task_thread_runs, worker_passes);
	RACE(50, 2, "word edge|moved", ONE_IN_THE_WHEEL, move_first, worker_passes, task_thread_runs);
	begin_moves(&usual, START, START + 3 * TICK);
	RACE(500, 2, "word edge", ONE_HANDED_OVER, move_first, move_second, task_thread_runs);
}

RACES(cancels_and_moves_of_what_was_handed_over_race_a_stop)
{
	task_threads = 1;
	begin_moves(&again_once, 0, 0);
	RACE(20, 2, "word", ONE_ON_THE_STACK, cancel_first, cancel_second, stop);
	begin_moves(&owned, START + 5 * TICK, 0);
	RACE(20, 2, "word", ONE_HANDED_OVER, cancel_first, cancel_second, stop);
	RACE(100, 3, "word edge|moved", ONE_HANDED_OVER, cancel_first, move_first, stop);
}

RACES(cancels_and_moves_race_the_end_of_a_run_on_a_task_thread)
{
	task_threads = 1;
	begin_moves(&again_once, START + 2 * TICK, 0);
	RACE(100, 3, "word|await|stack", ONE_HANDED_OVER, cancel_first, task_thread_runs);
	RACE(50, 1, "word|mov|stack", ONE_HANDED_OVER, move_first, task_thread_runs);
	RACE(100, 1, "word edge|moved|stack", ONE_HANDED_OVER, cancel_first, task_thread_runs, worker_passes_once);
	begin_moves(&periodic, START + 2 * TICK, 0);
	RACE(100, 2, "word|await|stack", ONE_HANDED_OVER, cancel_first, task_thread_runs);
	RACE(100, 1, "word edge|moved|stack", ONE_HANDED_OVER, move_first, cancel_first, task_thread_runs);
	limit = 1;
	begin_moves(&again_once, 0, 0);
	RACE(100, 1, "word edge|limit|mov", ONE_HANDED_OVER, cancel_first, submit_at_the_limit, task_thread_runs);
}

/*
 * A loop that is told by config.on_earlier: it advances, believes the answer, and sleeps until then or until it is
 * told.  Producers come at any moment of that.
 */
static int64_t loop_now_ns, answer_ns, earliest_ns;
static bool told;
static unsigned advances, tellings;
static bool is_watched, looks_at_all; /* the loop has on_earlier; each advance makes a pass, and publishes */

static void tell_the_loop(void *ctx)
{
	CHECK(ctx == &told);
	told = true;
	tellings++;
}

static void loop_advances(void)
{
	told = false;
	advances++;
	loop_now_ns += TICK;
	if (looks_at_all)
		timer->quiet.from_ns = INT64_MAX;
	CHECK_INT(hwt_timer_advance(timer, loop_now_ns, &answer_ns), ==, 0);
}

static void loop_schedules(unsigned lane, int64_t deadline_ns)
{
	CHECK_INT(hwt_lane_submit(lane_at(&timer->lanes, lane), count_stranger, NULL, deadline_ns, NULL), ==, 0);
	if (deadline_ns < earliest_ns)
		earliest_ns = deadline_ns;
}

static void schedule_early(void)
{
	loop_schedules(1, 10 * TICK);
}

static void schedule_between(void)
{
	loop_schedules(2, 20 * TICK);
}

static void schedule_late(void)
{
	loop_schedules(3, 900 * TICK);
}

static void loop_moves(unsigned lane, int64_t deadline_ns)
{
	CHECK_INT(hwt_lane_reschedule(lane_at(&timer->lanes, lane), subject.entry, subject.generation, deadline_ns), ==,
		  0);
}

static void move_early(void)
{
	loop_moves(5, 7 * TICK);
}

/* Moves within the tick of the old deadline: nobody need be told, unless another move relies on the push. */
static void move_a_little(void)
{
	loop_moves(6, 100 * TICK - 1);
}

static unsigned untold, told_all;

static void begin_loop(void)
{
	hwt_config config = driven_config(TICK, 64);

	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
	config.on_earlier = is_watched ? tell_the_loop : NULL;
	config.on_earlier_ctx = &told;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	for (uint32_t place = 0; place <= timer->lanes.last_seat; place++)
		(void)lane_at(&timer->lanes, place);
	advances = tellings = 0;
	earliest_ns = INT64_MAX;
	loop_now_ns = 0;
	CHECK_INT(hwt_timer_advance(timer, 0, NULL), ==, 0);
	CHECK_INT(hwt_lane_submit(lane_at(&timer->lanes, 0), count_stranger, NULL, 100 * TICK, &subject), ==, 0);
	CHECK_INT(tellings, ==, is_watched); /* the loop was to sleep for ever */
	loop_advances();
	CHECK_INT(answer_ns, ==, 100 * TICK);
	tellings = 0;
}

static void end_loop(void)
{
	int64_t due_ns = grid_time(&timer->grid, grid_tick_of(&timer->grid, record_deadline(subject.entry)));

	if (due_ns < earliest_ns)
		earliest_ns = due_ns;
	CHECK(told || !is_watched || answer_ns <= earliest_ns);
	CHECK_INT(tellings, <=, advances);
	*(told ? &told_all : &untold) += 1;
	CHECK_INT(hwt_timer_advance(timer, loop_now_ns, &answer_ns), ==, 0);
	/* The answer is earlier if a mover was writing when the worker looked. */
	CHECK_INT(answer_ns, <=, earliest_ns);
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
}

#define RACE_LOOP(least, points, ...)                                                                                  \
	do {                                                                                                           \
		untold = told_all = 0;                                                                                 \
		explore(least, points, begin_loop, end_loop, ACTS(loop_advances, __VA_ARGS__));                        \
		CHECK(untold > 0 && (told_all > 0 || !is_watched));                                                    \
	} while (0)

TEST(no_earlier_deadline_goes_unannounced)
{
	is_watched = looks_at_all = true;
	RACE_LOOP(5, "queue push", move_early, move_a_little);
	RACE_LOOP(19, "idle|queue", schedule_early);
	RACE_LOOP(19, "idle|queue push", schedule_early, schedule_late);
	RACE_LOOP(19, "idle|queue push", schedule_early, schedule_between);
	RACE_LOOP(19, "idle|queue push|moved", move_early);
	RACE_LOOP(19, "idle|queue push", move_early, schedule_early);
	RACE_LOOP(19, "idle|queue push", move_early, move_a_little);
}

/* The same where an advance may find that everything can wait, as the very last one does. */
TEST(no_earlier_deadline_is_left_in_the_lanes)
{
	looks_at_all = false;
	for (int watched = 0; watched < 2; watched++) {
		is_watched = watched;
		RACE_LOOP(2, "idle|queue", schedule_early);
		RACE_LOOP(19, "idle|queue push", schedule_early, schedule_late);
		RACE_LOOP(19, "idle|queue push", schedule_early, schedule_between);
		RACE_LOOP(4, "idle|queue push|mov", move_early);
		RACE_LOOP(19, "idle|queue push|mov", move_early, schedule_late);
	}
}

/*
 * A cancel and a move of a timeout with a finaliser.  It was moved before, so the word after the move is the word
 * before.
 */
static void cancel_owned(void)
{
	CHECK_INT(cancel_on(1, subject), ==, 0);
}

static void begin_owned(void)
{
	struct hwt_extension extension = { &subject, count_release, 0 };

	begin_loop();
	released = 0;
	CHECK_INT(hwt_lane_submit_extended(lane_at(&timer->lanes, 0), count_run, &extension, 0, 200 * TICK, &subject),
		  ==, 0);
	loop_advances();
	loop_moves(5, 300 * TICK);
	CHECK(!told);
}

static void end_owned(void)
{
	CHECK(told); /* else the finaliser would wait for tick 100 */
	loop_advances();
	CHECK_INT(released, ==, 1);
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
}

TEST(a_cancel_beside_a_move_tells_of_the_finaliser)
{
	is_watched = true;
	looks_at_all = false;
	begin_moves(&usual, 400 * TICK, 0);
	explore(20, "word|mov|finaliser", begin_owned, end_owned, ACTS(cancel_owned, move_first));
}

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif

#if defined(HWT_TSAN)
int main(void)
{
	puts("1..0 # SKIP ThreadSanitizer does not know coroutines, and there is one thread only");
	return 0;
}
#elif defined(UNDER_ASAN) && !defined(INTERLEAVE_ALL)
int main(void)
{
	puts("1..0 # SKIP minutes with AddressSanitizer; CFLAGS=-DINTERLEAVE_ALL for all the same");
	return 0;
}
#else
int main(int argc, char **argv)
{
	hwt_test_cores = 2; /* to ask for the number of cores takes three system calls, in each of a million worlds */
	return test_run_all(argc, argv);
}
#endif
