/* SPDX-License-Identifier: BSD-2-Clause */
/* In place of clocks and descriptors; sim.h.  The linker leads the library's calls here. */
#include "sim/sim.h"
#include "frame/wrap.h"
#include "base/sleeper.h"

#include <errno.h>
#include <poll.h>
#include <sys/timerfd.h>

#define FDS 8
#define FIRST_FD 1000
#define LATENCY_NS 2000 /* latency of the interrupt for a time that has passed */
#define TOLD_NS 4000000 /* the longest time until a thread that is told of a step goes on */

/*
 * Clocks
 */

static int64_t stepped_ns; /* CLOCK_REALTIME less CLOCK_MONOTONIC */

static int64_t ahead_ns(clockid_t clock)
{
	return clock == CLOCK_REALTIME ? stepped_ns : 0;
}

WRAP(int, clock_gettime, clockid_t clock, struct timespec *now)
{
	int64_t now_ns;

	sim_point("clock_gettime");
	now_ns = sim_now() + ahead_ns(clock);
	*now = (struct timespec){ .tv_sec = (time_t)(now_ns / NS_PER_S), .tv_nsec = (long)(now_ns % NS_PER_S) };
	return 0;
}

WRAP(int, clock_nanosleep, clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
	(void)clock;
	(void)flags;
	(void)left;
	sim_sleep(time->tv_sec * NS_PER_S + time->tv_nsec);
	return 0;
}

/*
 * timerfd, as the kernel has it: a setting makes the descriptor unreadable.  A descriptor that hears of steps of the
 * clock becomes readable with a step, and its next setting returns ECANCELED, once.
 */

static struct alarm {
	bool is_open, is_edge; /* is_edge: it has become readable since the last epoll */
	bool hears, was_set;   /* hears: of steps of the clock; was_set: a step since the last setting */
	clockid_t clock;
	int64_t time_ns; /* on the clock of the descriptor; INT64_MAX: none */
	int64_t rings_ns;
	uint64_t ticks;
} alarms[FDS];

static struct alarm *alarm_at(int fd)
{
	SIM_CHECK(fd >= FIRST_FD && fd < FIRST_FD + FDS && alarms[fd - FIRST_FD].is_open);
	return &alarms[fd - FIRST_FD];
}

static void find_next_alarm(void)
{
	sim_alarm_ns = INT64_MAX;
	for (int i = 0; i < FDS; i++)
		if (alarms[i].is_open && alarms[i].time_ns != INT64_MAX && alarms[i].rings_ns < sim_alarm_ns)
			sim_alarm_ns = alarms[i].rings_ns;
}

static void ring(struct alarm *alarm)
{
	alarm->ticks++;
	alarm->is_edge = true;
	sim_wake_all(alarm);
}

void sim_alarm(void)
{
	for (int i = 0; i < FDS; i++)
		if (alarms[i].is_open && alarms[i].time_ns != INT64_MAX && alarms[i].rings_ns <= sim_now()) {
			alarms[i].time_ns = INT64_MAX;
			ring(&alarms[i]);
		}
	find_next_alarm();
}

/* Computes when the alarm rings: if its time has passed, after the latency of an interrupt. */
static void arm(struct alarm *alarm)
{
	if (alarm->time_ns != INT64_MAX)
		alarm->rings_ns = alarm->time_ns - ahead_ns(alarm->clock);
	if (alarm->rings_ns <= sim_now())
		alarm->rings_ns = sim_now() + (int64_t)sim_random(LATENCY_NS);
	find_next_alarm();
}

void sim_step_clock(int64_t ns)
{
	stepped_ns += ns;
	for (int i = 0; i < FDS; i++)
		if (alarms[i].is_open && alarms[i].clock == CLOCK_REALTIME) {
			arm(&alarms[i]);
			if (alarms[i].hears) {
				alarms[i].was_set = true;
				ring(&alarms[i]);
			}
		}
	sim_point("steps the clock");
}

WRAP(int, timerfd_create, int clock, int flags)
{
	(void)flags;
	sim_point("timerfd_create");
	for (int i = 0; i < FDS; i++)
		if (!alarms[i].is_open) {
			alarms[i] = (struct alarm){ .is_open = true, .clock = clock, .time_ns = INT64_MAX };
			return FIRST_FD + i;
		}
	errno = EMFILE;
	return -1;
}

WRAP(int, timerfd_settime, int fd, int flags, const struct itimerspec *when, struct itimerspec *old)
{
	struct alarm *alarm = alarm_at(fd);
	bool was_set;

	(void)old;
	SIM_CHECK((flags & TFD_TIMER_ABSTIME) != 0);
	sim_point("timerfd_settime");
	was_set = alarm->was_set;
	alarm->was_set = false;
	alarm->hears = (flags & TFD_TIMER_CANCEL_ON_SET) != 0;
	alarm->ticks = 0;
	alarm->time_ns = when->it_value.tv_sec * NS_PER_S + when->it_value.tv_nsec;
	if (alarm->time_ns == 0)
		alarm->time_ns = INT64_MAX;
	arm(alarm);
	if (!was_set)
		return 0;
	sim_sleep((int64_t)sim_random(2) * (int64_t)sim_random(TOLD_NS));
	errno = ECANCELED;
	return -1;
}

WRAP(int, close, int fd)
{
	alarm_at(fd)->is_open = false;
	find_next_alarm();
	return 0;
}

WRAP(int, poll, struct pollfd *set, nfds_t count, int timeout_ms)
{
	struct alarm *alarm = alarm_at(set[0].fd);

	SIM_CHECK(count == 1 && timeout_ms == -1);
	sim_point("poll");
	while (alarm->ticks == 0)
		(void)sim_wait("polls", alarm, INT64_MAX);
	set[0].revents = POLLIN;
	return 1;
}

void sim_wait_edge(int fd)
{
	struct alarm *alarm = alarm_at(fd);
	bool is_there;

	sim_point("epoll_wait");
	for (;;) {
		/*
		 * epoll reports a descriptor that has become readable if it still is, and forgets the edge in any case.
		 */
		is_there = alarm->is_edge && alarm->ticks > 0;
		alarm->is_edge = false;
		if (is_there)
			return;
		(void)sim_wait("waits for an edge", alarm, INT64_MAX);
	}
}
