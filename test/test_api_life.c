/* SPDX-License-Identifier: BSD-2-Clause */
/* The threads of a timer: thread_name, thread_attr and task_threads; calls that would wait for themselves; errno. */
#include "support.h"

#include <sys/syscall.h>

#define TICK_NS HWT_MS(1)

#if defined(__GLIBC__) && !SANITIZED
/* Makes free change errno, as some systems do. */
static _Thread_local bool spoils;
static _Thread_local unsigned spoilt;

void __libc_free(void *memory);

void free(void *memory)
{
	__libc_free(memory);
	if (spoils) {
		spoilt++;
		errno = EBADMSG;
	}
}

/* CHECK_RC checks errno after each call. */
TEST(a_free_that_changes_errno_changes_none_of_the_callers)
{
	hwt_timer *timer = new_timer(TICK_NS, 512);

	for (unsigned i = 0; i < 1000; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HWT_S(3600), NULL), 0);
	spoils = true;
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	spoils = false;
	CHECK_INT(spoilt, >, 0);
}
#endif

/*
 * The worker thread
 */

struct thread_seen {
	char name[32], wanted[32];
	int64_t id;
	atomic_uint done;
};

static void look_task(hwt_timeout timeout, void *arg)
{
	struct thread_seen *seen = arg;
	struct patience patience = PATIENCE("the name");

	(void)timeout;
	do /* the thread that started the worker may set the name a moment later */
		CHECK_INT(pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name)), ==, 0);
	while (strcmp(seen->name, seen->wanted) != 0 && patience_lasts(&patience, 0));
	seen->id = syscall(SYS_gettid);
	atomic_store(&seen->done, 1);
}

/* Looks at the worker of a timer with these settings from inside a task. */
static void look(const hwt_config *config, struct thread_seen *seen, char *overwrite)
{
	hwt_timer *timer = NULL;
	char path[64];

	REQUIRE(hwt_timer_create(&timer, config) == 0);
	if (overwrite)
		memset(overwrite, 'x', strlen(overwrite));
	CHECK_RC(hwt_new_timeout(timer, look_task, seen, 0, NULL), 0);
	REQUIRE(wait_count(&seen->done, 1));
	CHECK(strcmp(seen->name, seen->wanted) == 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
	/* The thread has ended.  The kernel may take a moment to drop the entry of a joined thread. */
	snprintf(path, sizeof(path), "/proc/self/task/%" PRId64, seen->id);
	for (struct patience patience = PATIENCE("its entry"); access(path, F_OK) == 0;)
		if (!patience_lasts(&patience, HWT_MS(1)))
			break;
	CHECK(access(path, F_OK) != 0);
}

TEST(the_worker_has_the_thread_name)
{
	hwt_config config = HWT_CONFIG_INIT;
	struct thread_seen plain = { .wanted = "hwt-worker" }, given = { .wanted = "reaper" },
			   cut = { .wanted = "fifteen-charact" };
	char name[] = "reaper", long_name[] = "fifteen-characters-and-more";

	NEEDS_LINUX();
	look(&config, &plain, NULL);
	config.thread_name = name;
	look(&config, &given, name); /* the timer has its own copy */
	config.thread_name = long_name;
	look(&config, &cut, long_name);
}

/* A detached worker could not be joined, so its attributes are refused. */
TEST(thread_attr_of_a_detached_thread_is_refused)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;
	pthread_attr_t attr;
	int rc;

	REQUIRE(pthread_attr_init(&attr) == 0 && pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) == 0);
	config.thread_attr = &attr;
	rc = hwt_timer_create(&timer, &config);
	if (rc == 0) {
		CHECK_RC(hwt_timer_start(timer), EINVAL);
		CHECK_RC(hwt_new_timeout(timer, count_task, NULL, 0, NULL), EINVAL);
		CHECK_RC(hwt_timer_destroy(timer), 0);
	} else {
		CHECK_INT(rc, ==, EINVAL);
		CHECK(timer == NULL);
	}
	pthread_attr_destroy(&attr);
}

/* A task has this much stack by default, also where the system gives threads less. */
static void deep_task(hwt_timeout timeout, void *arg)
{
	volatile char room[512 << 10];

	(void)timeout;
	for (size_t i = 0; i < sizeof(room); i += 1024)
		room[i] = 1;
	atomic_fetch_add((atomic_uint *)arg, (unsigned)room[0]);
}

TEST(a_task_has_half_a_megabyte_of_stack)
{
	hwt_timer *timer = new_timer(HWT_MS(1), 512);
	atomic_uint ran = 0;

	CHECK_RC(hwt_new_timeout(timer, deep_task, &ran, 0, NULL), 0);
	CHECK(wait_count(&ran, 1));
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

struct nested {
	hwt_timer *outer, *inner;
	hwt_timeout outer_timeout;
	unsigned ran;
};

static void inner_task(hwt_timeout timeout, void *arg)
{
	struct nested *nested = arg;

	CHECK_RC(hwt_cancel_sync(timeout), EDEADLK);
	CHECK_RC(hwt_cancel_sync(nested->outer_timeout), EDEADLK);
	CHECK_RC(hwt_timer_stop(nested->outer, NULL), EDEADLK);
	CHECK_RC(hwt_timer_stop(nested->inner, NULL), EDEADLK);
	nested->ran++;
}

static void outer_task(hwt_timeout timeout, void *arg)
{
	struct nested *nested = arg;

	(void)timeout;
	CHECK_RC(hwt_timer_advance(nested->inner, HWT_MS(1), NULL), 0);
	CHECK_RC(hwt_timer_stop(nested->inner, NULL), 0); /* this thread is not in its task any more */
	CHECK_RC(hwt_timer_stop(nested->outer, NULL), EDEADLK);
	nested->ran++;
}

TEST(a_task_cannot_wait_for_the_outer_task_that_called_it)
{
	struct nested nested = { .outer = virtual_timer(), .inner = virtual_timer() };

	CHECK_RC(hwt_new_timeout(nested.outer, outer_task, &nested, 0, &nested.outer_timeout), 0);
	CHECK_RC(hwt_new_timeout(nested.inner, inner_task, &nested, 0, NULL), 0);
	CHECK_RC(hwt_timer_advance(nested.outer, HWT_MS(1), NULL), 0);
	CHECK_INT(nested.ran, ==, 2);
	CHECK_RC(hwt_timer_destroy(nested.outer), 0);
	CHECK_RC(hwt_timer_destroy(nested.inner), 0);
}

/* Task threads run as many tasks at once as there are threads, each on a thread with the name that the manual says. */
struct gate {
	atomic_uint begun, open, named;
};

static void gate_task(hwt_timeout timeout, void *arg)
{
	struct gate *gate = arg;

	(void)timeout;
#ifndef HWT_PORTABLE
	char name[16] = "";

	pthread_getname_np(pthread_self(), name, sizeof(name));
	if (strncmp(name, "hwt-task-", 9) == 0)
		atomic_fetch_add(&gate->named, 1U << (name[9] - '1'));
#endif
	atomic_fetch_add(&gate->begun, 1);
	REQUIRE(wait_count(&gate->open, 1));
}

TEST(each_thread_runs_a_task_of_its_own)
{
	hwt_config config = HWT_CONFIG_INIT;
	struct gate gate = { 0 };
	hwt_timer *timer = NULL;

	config.tick_duration_ns = TICK_NS;
	config.task_threads = 3;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	for (int i = 0; i < 3; i++)
		CHECK_RC(hwt_new_timeout(timer, gate_task, &gate, 0, NULL), 0);
	REQUIRE(wait_count(&gate.begun, 3));
	CHECK_INT(stats_of(timer).running, ==, 3);
#ifndef HWT_PORTABLE
	CHECK_INT(gate.named, ==, 7);
#endif
	atomic_store(&gate.open, 1);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST_MAIN()
