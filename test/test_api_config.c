/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hwt_timer_create and hwt_timer_config: every field of hwt_config, good and bad, and the warnings.
 */
#include "support.h"

#include <signal.h>
#include <stddef.h>

static hwt_config quiet_config(void)
{
	hwt_config config = HWT_CONFIG_INIT;

	config.warn = NULL;
	return config;
}

static char warned[128];
static unsigned times_warned;

static void note_warning(void *ctx, const char *message)
{
	CHECK(ctx == warned);
	(void)snprintf(warned, sizeof(warned), "%s", message);
	times_warned++;
	errno = EIO;
}

/* Checks that a configuration is refused, with a warning, and that nothing else happens. */
static void check_refused(const hwt_config *config, int want, const char *what)
{
	static char untouched;
	hwt_timer *timer = (hwt_timer *)(void *)&untouched;
	unsigned before = atomic_load(&test_failures);

	CHECK_RC(hwt_timer_create(&timer, config), want);
	CHECK((void *)timer == (void *)&untouched);
	if (atomic_load(&test_failures) != before) {
		fprintf(stderr, "  with %s\n", what);
		if ((void *)timer != (void *)&untouched)
			hwt_timer_destroy(timer);
	}
}

/* Checks that a configuration is accepted.  Returns the settings in force. */
static hwt_config check_accepted(const hwt_config *config)
{
	hwt_config in_force = { .size = sizeof(in_force) };
	hwt_timer *timer = NULL;

	CHECK_RC(hwt_timer_create(&timer, config), 0);
	REQUIRE(timer != NULL);
	CHECK_RC(hwt_timer_config(timer, &in_force), 0);
	in_force.thread_name = NULL; /* freed with the timer */
	CHECK_RC(hwt_timer_destroy(timer), 0);
	return in_force;
}

#define CHECK_REFUSED(field, value, want)                                                                              \
	do {                                                                                                           \
		hwt_config config_ = quiet_config();                                                                   \
		config_.field = (value);                                                                               \
		config_.warn = note_warning;                                                                           \
		config_.warn_ctx = warned;                                                                             \
		warned[0] = 0;                                                                                         \
		check_refused(&config_, (want), #field " = " #value);                                                  \
		if ((want) == EINVAL && config_.size == sizeof(config_)) /* else there may be no function */      \
			CHECK(strncmp(warned, #field, strcspn(#field, "[")) == 0);                                     \
	} while (0)

TEST(create_refuses_values_out_of_range)
{
	CHECK_RC(hwt_timer_create(NULL, NULL), EINVAL);
	CHECK_REFUSED(size, 0, EINVAL);
	CHECK_REFUSED(size, 1, EINVAL);
	CHECK_REFUSED(size, sizeof(size_t) - 1, EINVAL);
	CHECK_REFUSED(tick_duration_ns, 0, EINVAL);
	CHECK_REFUSED(tick_duration_ns, -1, EINVAL);
	CHECK_REFUSED(tick_duration_ns, INT64_MIN, EINVAL);
	CHECK_REFUSED(ticks_per_wheel, 0, EINVAL);
	CHECK_REFUSED(ticks_per_wheel, (UINT32_C(1) << 30) + 1, EINVAL);
	CHECK_REFUSED(ticks_per_wheel, UINT32_C(1) << 31, EINVAL);
	CHECK_REFUSED(ticks_per_wheel, UINT32_MAX, EINVAL);
	CHECK_REFUSED(max_transfers_per_tick, 0, EINVAL);
	CHECK_REFUSED(wheel, 2, EINVAL);
	CHECK_REFUSED(wheel, UINT32_MAX, EINVAL);
	for (unsigned bit = 2; bit < 32; bit++)
		CHECK_REFUSED(flags, 1u << bit, EINVAL);
	CHECK_REFUSED(flags, HWT_FINE_TICKS | 1u << 31, EINVAL);
	CHECK_REFUSED(flags, HWT_VIRTUAL_CLOCK, EINVAL); /* only with HWT_CALLER_DRIVEN */
	CHECK_REFUSED(flags, HWT_VIRTUAL_CLOCK | HWT_FINE_TICKS, EINVAL);
	for (unsigned i = 0; i < 8; i++)
		CHECK_REFUSED(reserved[i], 1, EINVAL);
	CHECK_REFUSED(task_threads, 1025, EINVAL);
	CHECK_REFUSED(task_threads, UINT32_MAX, EINVAL);
	CHECK_REFUSED(max_tasks_per_advance, 1, EINVAL); /* these two need HWT_CALLER_DRIVEN */
	CHECK_REFUSED(on_earlier, free, EINVAL);
}

/* A warning is one line, by the timer's function, which leaves errno alone. */
TEST(a_refusal_names_its_field)
{
	hwt_config config = quiet_config();
	hwt_spec spec = { sizeof(spec), count_task, NULL, 0, HWT_MS(99), NULL, 0 }, good = spec;
	hwt_timer *timer = NULL, *collecting = NULL;
	pthread_attr_t attr;

	config.warn = note_warning;
	config.warn_ctx = warned;
	times_warned = 0;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	config.flags = HWT_CALLER_DRIVEN | HWT_COLLECT;
	REQUIRE(hwt_timer_create(&collecting, &config) == 0);
	CHECK_INT(times_warned, ==, 0);
#define CHECK_WARNS(call, word)                                                                                        \
	do {                                                                                                           \
		warned[0] = 0;                                                                                         \
		times_warned = 0;                                                                                      \
		CHECK_RC(call, EINVAL);                                                                                \
		CHECK_INT(times_warned, ==, 1);                                                                        \
		CHECK(strstr(warned, word) != NULL);                                                                   \
	} while (0)
	CHECK_WARNS(hwt_new_timeout_ex(timer, &spec, NULL), "period_ns");
	CHECK_WARNS(hwt_new_periodic(timer, count_task, NULL, 0, -1, NULL), "period_ns");
	CHECK_WARNS(hwt_new_periodic(timer, count_task, NULL, 0, 0, NULL), "period_ns");
	CHECK_WARNS(hwt_new_timeout_ex(timer, NULL, NULL), "hwt_spec");
	spec.period_ns = 0;
	spec.flags = 1;
	CHECK_WARNS(hwt_new_timeout_ex(timer, &spec, NULL), "flags");
	spec = good;
	spec.size = 0;
	CHECK_WARNS(hwt_new_timeout_ex(timer, &spec, NULL), "size");
	spec = good;
	spec.task = NULL;
	CHECK_WARNS(hwt_new_timeout_ex(timer, &spec, NULL), "task");
	spec = good;
	CHECK_WARNS(hwt_new_timeout_ex(collecting, &spec, NULL), "task");
	spec.task = NULL;
	spec.release = free;
	CHECK_WARNS(hwt_new_timeout_ex(collecting, &spec, NULL), "release");
	config.flags = 0;
	config.tick_duration_ns = INT64_MAX / 2;
	CHECK_WARNS(hwt_timer_create(&(hwt_timer *){ NULL }, &config), "tick_duration_ns");
	config.tick_duration_ns = HWT_MS(1);
	config.clock = HWT_CLOCK_REALTIME + 1;
	CHECK_WARNS(hwt_timer_create(&(hwt_timer *){ NULL }, &config), "clock");
	config.clock = HWT_CLOCK_MONOTONIC;
	config.executor = &(const hwt_executor){ NULL, NULL };
	CHECK_WARNS(hwt_timer_create(&(hwt_timer *){ NULL }, &config), "executor");
	config.executor = NULL;
	REQUIRE(pthread_attr_init(&attr) == 0 && pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) == 0);
	config.thread_attr = &attr;
	CHECK_WARNS(hwt_timer_create(&(hwt_timer *){ NULL }, &config), "thread_attr");
	(void)pthread_attr_destroy(&attr);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	CHECK_RC(hwt_timer_destroy(collecting), 0);
}

static int never_execute(void *ctx, void (*run)(void *job), void *job)
{
	(void)ctx;
	(void)run;
	(void)job;
	return EAGAIN;
}

/* Tasks run in one way, and task threads get them from a worker. */
TEST(task_threads_go_with_a_worker_and_no_executor)
{
	hwt_executor executor = { never_execute, NULL };
	hwt_config config = quiet_config();

	config.task_threads = 1;
	config.executor = &executor;
	check_refused(&config, EINVAL, "an executor beside task threads");
	config.executor = NULL;
	config.flags = HWT_CALLER_DRIVEN;
	check_refused(&config, EINVAL, "task threads without a worker");
	config.flags = 0;
	config.task_threads = 1024;
	CHECK_INT(check_accepted(&config).task_threads, ==, 1024);
}

/* All threads would share the stack.  A size without a stack is accepted, and a stack if there is only the worker. */
TEST(a_stack_of_its_own_is_not_for_several_threads)
{
	enum { SIZE = 1 << 20 };
	hwt_config config = quiet_config();
	hwt_timer *timer = NULL;
	void *stack = NULL;
	pthread_attr_t attr;

	REQUIRE(pthread_attr_init(&attr) == 0);
	config.thread_attr = &attr;
	config.task_threads = 1;
	check_accepted(&config);
	REQUIRE(pthread_attr_setstacksize(&attr, SIZE) == 0);
	check_accepted(&config);
	REQUIRE(posix_memalign(&stack, 1 << 16, SIZE) == 0 && pthread_attr_setstack(&attr, stack, SIZE) == 0);
	check_refused(&config, EINVAL, "one task thread beside the worker, and one stack");
	config.task_threads = 0;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_RC(hwt_timer_start(timer), 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	REQUIRE(pthread_attr_destroy(&attr) == 0);
	free(stack);
}

/* No bit has two meanings: a flag of another structure is refused. */
TEST(a_flag_of_another_structure_is_refused)
{
	hwt_spec spec = HWT_SPEC_INIT;
	hwt_timer *timer = new_timer(HWT_MS(1), 64);

	CHECK_REFUSED(flags, HWT_ABSOLUTE, EINVAL);
	spec.task = count_task;
	for (unsigned bit = 0; bit < 32; bit++) {
		spec.flags = 1u << bit;
		if (spec.flags != HWT_ABSOLUTE)
			CHECK_RC(hwt_new_timeout_ex(timer, &spec, NULL), EINVAL);
	}
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static void *user_of_task;

static void ask_for_user(hwt_timeout timeout, void *arg)
{
	user_of_task = hwt_timer_user(hwt_timeout_timer(timeout));
	count_task(timeout, arg);
}

TEST(the_user_s_pointer_comes_back)
{
	hwt_config config = quiet_config();
	hwt_timer *timer = NULL, *plain = NULL;
	atomic_uint ran = 0;
	int mine;

	CHECK(hwt_timer_user(NULL) == NULL);
	REQUIRE(hwt_timer_create(&plain, &config) == 0);
	CHECK(hwt_timer_user(plain) == NULL);
	config.user = &mine;
	config.tick_duration_ns = HWT_MS(1);
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK(hwt_timer_user(timer) == &mine);
	CHECK_RC(hwt_new_timeout(timer, ask_for_user, &ran, 0, NULL), 0);
	REQUIRE(wait_count(&ran, 1));
	CHECK(user_of_task == &mine);
	config.user = NULL;
	CHECK_RC(hwt_timer_config(timer, &config), 0);
	CHECK(config.user == &mine);
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK(hwt_timer_user(timer) == &mine);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	CHECK_RC(hwt_timer_destroy(plain), 0);
}

/* The buckets become a power of two, at least 2 in a hierarchical wheel.  A wheel longer than all time is refused. */
TEST(the_wheel_is_rounded_up)
{
	enum { HASHED = HWT_WHEEL_HASHED, LEVELS = HWT_WHEEL_HIERARCHICAL, REFUSED = 0 };
	static const struct {
		int64_t tick_ns;
		uint32_t wheel, ticks, in_force;
	} rows[] = {
		{ HWT_S(1), HASHED, 1, 1 },
		{ HWT_S(1), HASHED, 2, 2 },
		{ HWT_S(1), HASHED, 3, 4 },
		{ HWT_S(1), HASHED, 100, 128 },
		{ HWT_S(1), HASHED, 512, 512 },
		{ HWT_S(1), HASHED, 65537, 131072 },
		{ HWT_S(1), LEVELS, 1, 2 },
		{ HWT_S(1), LEVELS, 20, 32 }, /* as in Kafka */
		{ INT64_MAX / 512, HASHED, 512, REFUSED },
		{ INT64_MAX / 512 - 1, HASHED, 512, 512 },
		{ INT64_MAX, HASHED, 1, REFUSED },
		{ INT64_MAX / 2, HASHED, 2, REFUSED },
		{ INT64_MAX / 2, LEVELS, 1, REFUSED },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		hwt_config config = quiet_config(), in_force;

		config.tick_duration_ns = rows[i].tick_ns;
		config.wheel = rows[i].wheel;
		config.ticks_per_wheel = rows[i].ticks;
		if (rows[i].in_force == REFUSED) {
			check_refused(&config, EINVAL, "a wheel longer than time");
			continue;
		}
		in_force = check_accepted(&config);
		CHECK_INT(in_force.tick_duration_ns, ==, rows[i].tick_ns);
		CHECK_INT(in_force.wheel, ==, rows[i].wheel);
		CHECK_INT(in_force.ticks_per_wheel, ==, rows[i].in_force);
	}
}

/* The first tick of such a timer lies beyond INT64_MAX: no time may overflow, no task run, no call hang. */
TEST(longest_tick_serves)
{
	hwt_config config = quiet_config();
	hwt_timer *timer;
	hwt_timeout timeout;
	hwt_unprocessed left;
	atomic_uint ran = 0;
	size_t count = 77;

	config.tick_duration_ns = INT64_MAX - 1;
	config.ticks_per_wheel = 1;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, 0, NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, &ran, INT64_MAX, &timeout), 0);
	sleep_ms(20);
	CHECK_RC(hwt_cancel(timeout), 0);
	CHECK_RC(hwt_timer_stop(timer, &count), 0);
	CHECK_INT(count, ==, 1);
	CHECK(hwt_timer_next_unprocessed(timer, &left));
	CHECK_INT(ran, ==, 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(the_defaults_are_those_of_the_manual)
{
	hwt_config init = HWT_CONFIG_INIT;
	hwt_config none = check_accepted(NULL), same = check_accepted(&init);

	CHECK_INT(none.size, ==, sizeof(none));
	CHECK_INT(none.tick_duration_ns, ==, HWT_MS(100));
	CHECK_INT(none.ticks_per_wheel, ==, 512);
	CHECK_INT(none.max_transfers_per_tick, ==, 100000);
	CHECK_INT(none.max_pending_timeouts, <=, 0);
	CHECK_INT(none.flags, ==, 0);
	CHECK_INT(none.wheel, ==, HWT_WHEEL_HASHED);
	CHECK(none.thread_attr == NULL);
	CHECK(none.warn == hwt_warn_stderr);
	CHECK(none.executor == NULL);
	CHECK(memcmp(&none, &same, sizeof(none)) == 0);
}

TEST(config_returns_what_was_given)
{
	hwt_config config = quiet_config(), in_force;
	int place;

	config.tick_duration_ns = HWT_MS(7);
	config.ticks_per_wheel = 64;
	config.max_transfers_per_tick = 1;
	config.max_pending_timeouts = 9;
	config.warn = hwt_warn_stderr;
	config.warn_ctx = &place;
	in_force = check_accepted(&config);
	CHECK_INT(in_force.tick_duration_ns, ==, HWT_MS(7));
	CHECK_INT(in_force.ticks_per_wheel, ==, 64);
	CHECK_INT(in_force.max_transfers_per_tick, ==, 1);
	CHECK_INT(in_force.max_pending_timeouts, ==, 9);
	CHECK(in_force.warn == hwt_warn_stderr);
	CHECK(in_force.warn_ctx == &place);
}

/* The first version ended with `reserved`; each later field counts from the size on that contains it. */
TEST(each_older_config_is_served)
{
	static const size_t sizes[] = { offsetof(hwt_config, max_transfers_per_tick),
					offsetof(hwt_config, task_threads),
					offsetof(hwt_config, clock),
					offsetof(hwt_config, max_tasks_per_advance),
					offsetof(hwt_config, on_earlier),
					offsetof(hwt_config, on_earlier_ctx),
					offsetof(hwt_config, user) };
	hwt_config config, in_force;
	hwt_timer *timer = NULL;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		config = quiet_config();
		memset((char *)&config + sizes[i], 0xa5, sizeof(config) - sizes[i]);
		config.size = sizes[i];
		in_force = check_accepted(&config);
		CHECK_INT(in_force.size, ==, sizeof(in_force));
		CHECK_INT(in_force.max_transfers_per_tick, ==, 100000);
		CHECK(in_force.max_pending_timeouts <= 0 && in_force.executor == NULL);
		CHECK_INT(in_force.task_threads, ==, 0);
		CHECK_INT(in_force.clock, ==, 0);
		CHECK_INT(in_force.max_tasks_per_advance, ==, 0);
		CHECK(in_force.on_earlier == NULL && in_force.on_earlier_ctx == NULL && in_force.user == NULL);
	}
	config = quiet_config();
	config.task_threads = 1025;
	config.size = offsetof(hwt_config, clock);
	CHECK_RC(hwt_timer_create(&timer, &config), EINVAL);
}

/* A program built against a newer header is served while it sets no field that this library does not know. */
TEST(larger_config_is_served_while_its_tail_is_zero)
{
	static struct {
		hwt_config config;
		unsigned char more[100];
	} larger;
	hwt_timer *timer = NULL, *other = NULL;

	larger.config = quiet_config();
	larger.config.size = sizeof(larger);
	CHECK_INT(check_accepted(&larger.config).tick_duration_ns, ==, HWT_MS(100));
	REQUIRE(hwt_timer_create(&timer, NULL) == 0);
	larger.more[99] = 1;
	CHECK(hwt_timer_create(&other, &larger.config) != 0);
	CHECK(other == NULL);
	CHECK_RC(hwt_timer_config(timer, &larger.config), 0);
	CHECK(larger.config.size == sizeof(larger) && larger.more[99] == 0); /* unknown fields are cleared */
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(config_is_written_as_far_as_size_reaches)
{
	hwt_config config = quiet_config();
	unsigned char bytes[sizeof(hwt_config)], untouched[sizeof(hwt_config)];
	hwt_timer *timer;

	config.tick_duration_ns = HWT_MS(3);
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	memset(untouched, 0xa5, sizeof(untouched));
	for (size_t size = 0; size <= offsetof(hwt_config, ticks_per_wheel); size += 8) {
		bool enough = size == offsetof(hwt_config, ticks_per_wheel);

		memcpy(bytes, untouched, sizeof(bytes));
		memcpy(bytes, &size, sizeof(size));
		memcpy(&config, bytes, sizeof(config));
		CHECK_RC(hwt_timer_config(timer, &config), enough ? 0 : EINVAL);
		CHECK_INT(config.size, ==, size);
		CHECK(memcmp((char *)&config + 16, untouched + 16, sizeof(config) - 16) == 0);
		CHECK(enough == (config.tick_duration_ns == HWT_MS(3)));
	}
	CHECK_RC(hwt_timer_config(timer, NULL), EINVAL);
	CHECK_RC(hwt_timer_config(NULL, &config), EINVAL);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* The size is larger than any version's structure: the caller has not set it.  No byte is read or written. */
TEST(a_size_that_was_never_set_is_refused)
{
	static const size_t sizes[] = { 4097, 1 << 20, (size_t)0xa5a5a5a5, SIZE_MAX - 1, SIZE_MAX };
	static union {
		hwt_config config;
		unsigned char bytes[8192];
	} large, untouched;
	hwt_timer *timer;

	large.config = quiet_config();
	large.config.size = 4096;
	CHECK_INT(check_accepted(&large.config).tick_duration_ns, ==, HWT_MS(100));
	REQUIRE(hwt_timer_create(&timer, &large.config) == 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		large.config = quiet_config();
		large.config.size = sizes[i];
		check_refused(&large.config, EINVAL, "a size beyond 4096");
		memset(&large, 0xa5, sizeof(large));
		large.config.size = sizes[i];
		untouched = large;
		CHECK_RC(hwt_timer_config(timer, &large.config), EINVAL);
		CHECK(memcmp(&large, &untouched, sizeof(large)) == 0);
		memset(&large, 0, sizeof(large));
	}
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/*
 * A twin: a timer made from the settings of another.
 */

static int run_at_once(void *ctx, void (*run)(void *job), void *job)
{
	atomic_fetch_add((atomic_uint *)ctx, 1);
	run(job);
	return 0;
}

static int refuse(void *ctx, void (*run)(void *job), void *job)
{
	(void)run;
	(void)job;
	atomic_fetch_add((atomic_uint *)ctx, 1);
	return EAGAIN;
}

/* The structures given to the first timer may be gone by then. */
TEST(a_twin_needs_nothing_of_the_first_creator)
{
	atomic_uint executed = 0, stray = 0, ran = 0;
	hwt_executor executor = { run_at_once, &executed };
	hwt_config config = quiet_config(), in_force = { .size = sizeof(in_force) };
	char name[] = "first";
	pthread_attr_t attr;
	hwt_timer *timer = NULL, *twin = NULL;

	REQUIRE(pthread_attr_init(&attr) == 0);
	config.tick_duration_ns = HWT_MS(1);
	config.executor = &executor;
	config.thread_attr = &attr;
	config.thread_name = name;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	REQUIRE(hwt_timer_start(timer) == 0);
	pthread_attr_destroy(&attr);
	executor = (hwt_executor){ refuse, &stray };
	name[0] = '\0';

	CHECK_RC(hwt_timer_config(timer, &in_force), 0);
	CHECK(in_force.executor != &executor);
	CHECK(in_force.thread_attr == NULL);
	CHECK(strcmp(in_force.thread_name, "first") == 0);
	REQUIRE(hwt_timer_create(&twin, &in_force) == 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	CHECK_RC(hwt_new_timeout(twin, count_task, &ran, 0, NULL), 0);
	REQUIRE(wait_count(&ran, 1));
	CHECK_RC(hwt_timer_destroy(twin), 0);
	CHECK_INT(executed, ==, 1);
	CHECK_INT(stray, ==, 0);
}

struct warnings {
	unsigned count;
	char last[256];
};

static void keep_warning(void *ctx, const char *message)
{
	struct warnings *warnings = ctx;

	warnings->count++;
	snprintf(warnings->last, sizeof(warnings->last), "%s", message);
	errno = EIO; /* the library's calls leave it alone nevertheless */
}

/* Each timer with a shorter tick warns, not only the first.  With HWT_FINE_TICKS the floor is lower, and as firm. */
TEST(a_short_tick_is_raised_to_the_floor)
{
	static const int64_t floors_ns[] = { HWT_MS(1), HWT_US(10) };
	static const uint32_t flags[] = { 0, HWT_FINE_TICKS, HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK | HWT_FINE_TICKS };
	struct warnings warnings = { 0, "" };
	hwt_config config = quiet_config(), in_force;

	config.warn = keep_warning;
	config.warn_ctx = &warnings;
	for (unsigned i = 0; i < 3; i++) {
		int64_t floor_ns = floors_ns[i > 0];
		const int64_t ticks_ns[] = { 1,         999,     floor_ns - 1, floor_ns, floor_ns + 1, HWT_MS(1) - 1,
					     HWT_MS(1), HWT_S(1) };

		config.flags = flags[i];
		for (unsigned j = 0; j < 8; j++) {
			bool is_short = ticks_ns[j] < floor_ns;
			unsigned before = warnings.count;

			config.tick_duration_ns = ticks_ns[j];
			in_force = check_accepted(&config);
			CHECK_INT(in_force.tick_duration_ns, ==, is_short ? floor_ns : ticks_ns[j]);
			CHECK_INT(in_force.flags, ==, flags[i]);
			CHECK_INT(warnings.count, ==, before + is_short);
			CHECK(!is_short || (warnings.last[0] != '\0' && !strchr(warnings.last, '\n')));
		}
		for (config.tick_duration_ns = -HWT_US(20); config.tick_duration_ns <= 0;
		     config.tick_duration_ns += HWT_US(10))
			check_refused(&config, EINVAL, "a tick of 0 or less");
	}
}

/* thread_attr for the worker's thread. */

struct thread_seen {
	cpu_set_t cpus;
	sigset_t blocked;
	int policy;
	struct sched_param param;
	atomic_uint done;
};

static void look_task(hwt_timeout timeout, void *arg)
{
	struct thread_seen *seen = arg;

	(void)timeout;
	CHECK_INT(pthread_getaffinity_np(pthread_self(), sizeof(seen->cpus), &seen->cpus), ==, 0);
	CHECK_INT(pthread_getschedparam(pthread_self(), &seen->policy, &seen->param), ==, 0);
	CHECK_INT(pthread_sigmask(SIG_BLOCK, NULL, &seen->blocked), ==, 0);
	atomic_store(&seen->done, 1);
}

/* Starts a timer and returns the answer.  If that is 0, looks at the worker from inside a task. */
static int look(const pthread_attr_t *attr, struct thread_seen *seen)
{
	hwt_config config = quiet_config();
	hwt_timer *timer = NULL;
	int rc;

	config.tick_duration_ns = HWT_MS(1);
	config.thread_attr = attr;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	rc = hwt_timer_start(timer);
	if (rc == 0) {
		CHECK_RC(hwt_new_timeout(timer, look_task, seen, 0, NULL), 0);
		REQUIRE(wait_count(&seen->done, 1));
	} else { /* the timer is as before the call */
		CHECK_RC(hwt_timer_start(timer), rc);
		CHECK_RC(hwt_new_timeout(timer, look_task, seen, 0, NULL), rc);
		CHECK_INT(hwt_pending_timeouts(timer), ==, 0);
	}
	CHECK_RC(hwt_timer_destroy(timer), 0);
	return rc;
}

#ifdef __GLIBC__ /* musl has no such attribute, and no sched_getscheduler */
TEST(thread_attr_gives_the_processors)
{
	struct thread_seen plain = { .done = 0 }, bound = { .done = 0 };
	cpu_set_t mine, one;
	pthread_attr_t attr;
	unsigned cpu = CPU_SETSIZE - 1;

	REQUIRE(sched_getaffinity(0, sizeof(mine), &mine) == 0);
	while (!CPU_ISSET(cpu, &mine))
		cpu--;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	REQUIRE(pthread_attr_init(&attr) == 0 && pthread_attr_setaffinity_np(&attr, sizeof(one), &one) == 0);
	CHECK_INT(look(NULL, &plain), ==, 0);
	CHECK(CPU_EQUAL(&plain.cpus, &mine));
	CHECK_INT(look(&attr, &bound), ==, 0);
	CHECK(CPU_EQUAL(&bound.cpus, &one));
	pthread_attr_destroy(&attr);
}

#endif

/*
 * Returns the signals that a thread can block here: not those that libc reserves; an emulator may lack the last ones.
 */
static sigset_t blockable(void)
{
	sigset_t all, before, blocked;

	sigfillset(&all);
	REQUIRE(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
	REQUIRE(pthread_sigmask(SIG_SETMASK, &before, &blocked) == 0);
	for (int i = 1; i < 32; i++)
		CHECK(i == SIGKILL || i == SIGSTOP || sigismember(&blocked, i) == 1);
	return blocked;
}

/* Looks at the worker of a timer that is started under this signal mask.  The starter's mask must not change. */
static void look_with_mask(const sigset_t *mine, struct thread_seen *seen)
{
	sigset_t before, after, usable = blockable();

	REQUIRE(pthread_sigmask(SIG_SETMASK, mine, &before) == 0);
	CHECK_INT(look(NULL, seen), ==, 0);
	REQUIRE(pthread_sigmask(SIG_SETMASK, &before, &after) == 0);
	for (int i = 1; i < SIGRTMAX; i++)
		CHECK_INT(sigismember(&after, i), ==, sigismember(mine, i) && sigismember(&usable, i));
}

/* Signals sent to the process are blocked.  Signals that a task causes, and the profiler's, are not. */
TEST(the_worker_blocks_signals_but_those_of_its_own_doing)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
	struct thread_seen plain = { .done = 0 }, all_blocked = { .done = 0 };
	sigset_t mine, open, usable = blockable();

	sigemptyset(&open);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigaddset(&open, own[i]);
	sigemptyset(&mine);
	sigaddset(&mine, SIGUSR2);
	look_with_mask(&mine, &plain);
	look_with_mask(&usable, &all_blocked);
	for (int i = 1; i < SIGRTMAX; i++) {
		if (!sigismember(&usable, i) || i == SIGPROF)
			continue;
		CHECK_INT(sigismember(&plain.blocked, i), ==, !sigismember(&open, i));
		CHECK_INT(sigismember(&all_blocked.blocked, i), ==, !sigismember(&open, i));
	}
	/* SIGPROF is as in the starter: a program that blocks it everywhere waits for it in some thread. */
	CHECK_INT(sigismember(&plain.blocked, SIGPROF), ==, 0);
	CHECK_INT(sigismember(&all_blocked.blocked, SIGPROF), ==, 1);
}

/* Returns the output of a call on stderr. */
static size_t stderr_of(void (*call)(void *), void *arg, char *text, size_t size)
{
	FILE *file = tmpfile();
	int saved = dup(STDERR_FILENO);
	size_t length;

	REQUIRE(file && saved >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
	call(arg);
	fflush(stderr);
	REQUIRE(dup2(saved, STDERR_FILENO) >= 0);
	close(saved);
	rewind(file);
	length = fread(text, 1, size - 1, file);
	text[length] = '\0';
	fclose(file);
	return length;
}

static void warn_hello(void *arg)
{
	hwt_warn_stderr(arg, "hello");
}

static void create_and_destroy(void *arg)
{
	hwt_timer *timer = NULL;

	CHECK_RC(hwt_timer_create(&timer, arg), 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(warnings_go_to_stderr_or_nowhere)
{
	hwt_config config = HWT_CONFIG_INIT;
	char text[512];

	stderr_of(warn_hello, NULL, text, sizeof(text));
	CHECK(strcmp(text, "hwt: hello\n") == 0);
	CHECK_INT(stderr_of(create_and_destroy, &config, text, sizeof(text)), ==, 0);
	config.tick_duration_ns = 1;
	CHECK_INT(stderr_of(create_and_destroy, &config, text, sizeof(text)), >, 5);
	CHECK(strncmp(text, "hwt: ", 5) == 0);
	CHECK(strchr(text, '\n') == text + strlen(text) - 1);
	config.warn = NULL;
	CHECK_INT(stderr_of(create_and_destroy, &config, text, sizeof(text)), ==, 0);
}

/* More than 64 timers cause one warning in the life of the process. */
TEST(too_many_timers_warn_once)
{
	enum { MANY = 70 };
	struct warnings warnings = { 0, "" };
	hwt_config config = quiet_config();
	hwt_timer *timers[MANY];

	config.warn = keep_warning;
	config.warn_ctx = &warnings;
	/* A timer for each loop is normal, and not counted. */
	config.flags = HWT_CALLER_DRIVEN;
	for (unsigned i = 0; i < MANY; i++)
		REQUIRE(hwt_timer_create(&timers[i], &config) == 0);
	for (unsigned i = 0; i < MANY; i++)
		CHECK_RC(hwt_timer_destroy(timers[i]), 0);
	CHECK_INT(warnings.count, ==, 0);
	config.flags = 0;
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < MANY; i++) {
			CHECK_RC(hwt_timer_create(&timers[i], &config), 0);
			CHECK_INT(warnings.count, ==, round > 0 || i >= 64 ? 1 : 0);
		}
		for (unsigned i = 0; i < MANY; i++)
			CHECK_RC(hwt_timer_destroy(timers[i]), 0);
	}
}

TEST_MAIN()
