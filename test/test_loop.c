/* SPDX-License-Identifier: BSD-2-Clause */
/* What the manual promises to a loop that drives a timer: its descriptor, its own lock, an executor. */
#include "support.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#define TIMEOUTS 2000
#define PATIENCE_MS ((int)(PATIENCE_NS / HWT_MS(1)))

static bool is_readable_within(int fd, int milliseconds)
{
	struct pollfd wanted = { .fd = fd, .events = POLLIN };

	return poll(&wanted, 1, milliseconds) == 1;
}

TEST(the_descriptor_is_closed_on_exec)
{
	hwt_timer *timer = driven_timer(0);
	int fd = -1;

	NEEDS_LINUX();
	CHECK_RC(hwt_timer_fd(timer, &fd), 0);
	CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST(a_stop_makes_the_descriptor_readable)
{
	hwt_timer *timer = driven_timer(0);
	int fd = -1;

	NEEDS_LINUX();
	CHECK_RC(hwt_timer_fd(timer, &fd), 0);
	CHECK(is_readable_within(fd, PATIENCE_MS)); /* the first time at once */
	CHECK_RC(hwt_timer_advance(timer, hwt_now(), NULL), 0);
	CHECK(!is_readable_within(fd, 0));
	CHECK_RC(hwt_timer_stop(timer, NULL), 0);
	CHECK(is_readable_within(fd, PATIENCE_MS));
	CHECK_RC(hwt_timer_advance(timer, hwt_now(), NULL), ECANCELED);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

/* On a system of 32 bits it may not fit the seconds of a timespec. */
TEST(the_descriptor_waits_for_a_deadline_in_a_century)
{
	hwt_config config = HWT_CONFIG_INIT;
	hwt_timer *timer = NULL;
	int64_t next_ns = 0;
	int fd = -1;

	NEEDS_LINUX();
	config.tick_duration_ns = HWT_MS(10);
	config.flags = HWT_CALLER_DRIVEN;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	CHECK_RC(hwt_timer_fd(timer, &fd), 0);
	CHECK_RC(hwt_timer_advance(timer, hwt_now(), NULL), 0);
	CHECK_RC(hwt_new_timeout(timer, count_task, NULL, HWT_S(INT64_C(3155760000)), NULL), 0);
	CHECK_RC(hwt_timer_advance(timer, hwt_now(), &next_ns), 0);
	CHECK_INT(next_ns, >, HWT_S(INT64_C(3155760000)));
	CHECK(!is_readable_within(fd, 5));
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

struct producer {
	hwt_timer *timer;
	atomic_uint ran, accepted;
};

static void *schedule_at_random(void *arg)
{
	struct producer *producer = arg;
	uint32_t random = 1;

	for (unsigned i = 0; i < TIMEOUTS; i++) {
		random = random * 1664525 + 1013904223;
		if (hwt_new_timeout(producer->timer, count_task, &producer->ran, random >> 9, NULL) == 0) /* .. 8 ms */
			atomic_fetch_add(&producer->accepted, 1);
		if (i % 64 == 0)
			usleep(500);
	}
	return NULL;
}

TEST(an_edge_triggered_loop_with_one_advance_for_each_event_loses_nothing)
{
	struct producer producer = { .timer = driven_timer(0) };
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int64_t end_ns = hwt_now() + PATIENCE_NS;
	int fd = -1, epoll = epoll_create1(0);
	pthread_t thread;

	NEEDS_LINUX();
	CHECK_RC(hwt_timer_fd(producer.timer, &fd), 0);
	CHECK_RC(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
	REQUIRE(pthread_create(&thread, NULL, schedule_at_random, &producer) == 0);
	while (atomic_load(&producer.ran) < TIMEOUTS && hwt_now() < end_ns)
		if (epoll_wait(epoll, &event, 1, PATIENCE_MS) == 1)
			CHECK_RC(hwt_timer_advance(producer.timer, hwt_now(), NULL), 0);
		else
			break; /* a lost event */
	pthread_join(thread, NULL);
	CHECK_INT(producer.accepted, ==, TIMEOUTS);
	CHECK_INT(producer.ran, ==, TIMEOUTS);
	CHECK_INT(hwt_pending_timeouts(producer.timer), ==, 0);
	close(epoll);
	CHECK_RC(hwt_timer_destroy(producer.timer), 0);
}

/* A task that gives the loop's lock up around its work, as another thread sees it. */
struct guarded {
	pthread_mutex_t *lock;
	bool begun, prevented; /* under the lock */
};

static void guarded_task(hwt_timeout timeout, void *arg)
{
	struct guarded *guarded = arg;

	(void)timeout;
	guarded->begun = true; /* the loop has the lock */
	CHECK(!guarded->prevented);
	pthread_mutex_unlock(guarded->lock);
	sched_yield(); /* the work */
	pthread_mutex_lock(guarded->lock);
}

struct canceller {
	pthread_mutex_t *lock;
	struct guarded *guarded;
	hwt_timeout *timeouts;
	unsigned prevented;
};

static void *cancel_under_the_lock(void *arg)
{
	struct canceller *canceller = arg;

	for (unsigned i = TIMEOUTS; i-- > 0;) {
		pthread_mutex_lock(canceller->lock);
		if (hwt_cancel(canceller->timeouts[i]) == 0) {
			CHECK(!canceller->guarded[i].begun);
			canceller->guarded[i].prevented = true;
			canceller->prevented++;
		} else {
			CHECK(canceller->guarded[i].begun);
		}
		pthread_mutex_unlock(canceller->lock);
		sched_yield();
	}
	return NULL;
}

TEST(a_lock_held_across_advance_makes_a_cancel_under_it_decisive)
{
	static struct guarded guarded[TIMEOUTS];
	static hwt_timeout timeouts[TIMEOUTS];
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct canceller canceller = { &lock, guarded, timeouts, 0 };
	int64_t end_ns = hwt_now() + PATIENCE_NS;
	hwt_timer *timer = driven_timer(0);
	unsigned begun = 0;
	pthread_t thread;

	for (unsigned i = 0; i < TIMEOUTS; i++) {
		guarded[i].lock = &lock;
		CHECK_RC(hwt_new_timeout(timer, guarded_task, &guarded[i], HWT_US(i), &timeouts[i]), 0);
	}
	REQUIRE(pthread_create(&thread, NULL, cancel_under_the_lock, &canceller) == 0);
	while (hwt_pending_timeouts(timer) > 0 && hwt_now() < end_ns) {
		pthread_mutex_lock(&lock);
		CHECK_RC(hwt_timer_advance(timer, hwt_now(), NULL), 0);
		pthread_mutex_unlock(&lock);
		sched_yield();
	}
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < TIMEOUTS; i++)
		begun += guarded[i].begun;
	CHECK_INT(begun + canceller.prevented, ==, TIMEOUTS);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

static int refuse_every_other(void *ctx, void (*run)(void *job), void *job)
{
	if (++*(unsigned *)ctx % 2 == 0)
		return EAGAIN; /* then the thread that advances runs it */
	run(job);
	return 0;
}

TEST(a_driven_timer_hands_its_tasks_to_an_executor)
{
	hwt_config config = HWT_CONFIG_INIT;
	unsigned asked = 0;
	hwt_executor executor = { refuse_every_other, &asked };
	atomic_uint ran = 0;
	hwt_timer *timer;

	config.flags = HWT_CALLER_DRIVEN | HWT_VIRTUAL_CLOCK;
	config.executor = &executor;
	REQUIRE(hwt_timer_create(&timer, &config) == 0);
	for (int i = 0; i < 10; i++)
		CHECK_RC(hwt_new_timeout(timer, count_task, &ran, HWT_S(1), NULL), 0);
	CHECK_RC(hwt_timer_advance(timer, HWT_S(2), NULL), 0);
	CHECK_INT(asked, ==, 10);
	CHECK_INT(ran, ==, 10);
	CHECK_RC(hwt_timer_destroy(timer), 0);
}

TEST_MAIN()
