/* SPDX-License-Identifier: BSD-2-Clause */
/* Replaces threads, clocks and descriptors; sim.h.  The linker redirects the store's calls to this file. */
#include "sim.h"
#include "frame/wrap.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/timerfd.h>

#define FIRST_FD 1000

/*
 * Threads
 */

WRAP(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	(void)attr;
	*thread = (pthread_t)sim_start(sim_me(), "a thread", run, arg);
	sim_point("pthread_create");
	return 0;
}

WRAP(pid_t, getpid, void)
{
	return sim_me() ? sim_me()->pid : 1;
}

/* All processes are on one host. */
WRAP(int, kill, pid_t pid, int signal)
{
	if (!sim_me())
		return __real_kill(pid, signal);
	SIM_CHECK(signal == 0);
	errno = ESRCH;
	return sim_has_pid(pid) ? 0 : -1;
}

WRAP(uint64_t, hwts_random, void)
{
	return sim_random(UINT64_C(1) << 32) << 32 | sim_random(UINT64_C(1) << 32);
}

/*
 * Steps: the compiler counts each basic block of the store, for each actor.  So the cost of code that runs under the
 * lock depends on no machine.
 */
#define OWN __attribute__((section("sim_own")))
static OWN uint64_t steps, steps_at_lock;
static uint64_t most_locked;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
	steps++;
}

uint64_t sim_most_locked(void)
{
	uint64_t most = most_locked;

	most_locked = 0;
	return most;
}

void sim_locks(bool locks)
{
	if (locks)
		steps_at_lock = steps;
	else
		most_locked = HWTS_MAX(most_locked, steps - steps_at_lock);
}

WRAP(int, pthread_cond_signal, pthread_cond_t *cond)
{
	sim_wake_one(cond);
	return 0;
}

WRAP(int, pthread_cond_broadcast, pthread_cond_t *cond)
{
	sim_wake_all(cond);
	return 0;
}

/*
 * Clocks
 */

static int64_t clock_ahead(clockid_t clock)
{
	const struct sim_process *me = sim_me();

	if (!me)
		return clock == CLOCK_REALTIME ? HWT_S(INT64_C(1800000000)) : 0;
	return clock == CLOCK_REALTIME ? me->wall_ns : clock == CLOCK_BOOTTIME ? me->boot_ns : me->mono_ns;
}

WRAP(int, clock_gettime, clockid_t clock, struct timespec *now)
{
	int64_t now_ns;

	sim_point("clock_gettime");
	now_ns = sim_now() + clock_ahead(clock);
	*now = (struct timespec){ .tv_sec = (time_t)(now_ns / HWT_S(1)), .tv_nsec = (long)(now_ns % HWT_S(1)) };
	return 0;
}

int64_t hwt_now(void)
{
	return sim_now() + sim_mono_ahead();
}

WRAP(int, nanosleep, const struct timespec *time, struct timespec *left)
{
	(void)left;
	sim_sleep(HWT_S((int64_t)time->tv_sec) + time->tv_nsec);
	return 0;
}

/*
 * Descriptors: pipes, both ends of which have one number, and clocks that report steps
 */

static struct fd {
	struct sim_process *of;
	bool is_pipe;
	unsigned bytes; /* to read; clock: it was set */
	unsigned open;
} fds[512];

static struct fd *find(int fd)
{
	int at = (fd - FIRST_FD) / 2;

	return fd >= FIRST_FD && at < (int)HWTS_COUNT(fds) && fds[at].open > 0 ? &fds[at] : NULL;
}

static int open_fd(bool is_pipe)
{
	for (size_t i = 0; i < HWTS_COUNT(fds); i++)
		if (fds[i].open == 0) {
			fds[i] = (struct fd){ .of = sim_me(), .is_pipe = is_pipe, .open = is_pipe ? 2 : 1 };
			return FIRST_FD + 2 * (int)i;
		}
	abort();
}

void sim_close_all(struct sim_process *process)
{
	for (size_t i = 0; i < HWTS_COUNT(fds); i++)
		if (fds[i].of == process)
			fds[i].open = 0;
}

void sim_wake_poll(const struct sim_process *process)
{
	sim_wake_all(process);
}

void sim_step_wall(struct sim_process *process, int64_t ns)
{
	process->wall_ns += ns;
	for (size_t i = 0; i < HWTS_COUNT(fds); i++)
		if (fds[i].of == process && fds[i].open && !fds[i].is_pipe)
			fds[i].bytes = 1;
	sim_wake_poll(process);
}

WRAP(int, pipe2, int fd[2], int flags)
{
	(void)flags;
	fd[0] = open_fd(true);
	fd[1] = fd[0] + 1;
	return 0;
}

WRAP(int, timerfd_create, int clock, int flags)
{
	(void)clock;
	(void)flags;
	return open_fd(false);
}

WRAP(int, timerfd_settime, int fd, int flags, const struct itimerspec *when, struct itimerspec *old)
{
	(void)flags;
	(void)when;
	(void)old;
	find(fd)->bytes = 0;
	return 0;
}

WRAP(int, close, int fd)
{
	if (!find(fd))
		return __real_close(fd);
	find(fd)->open--;
	return 0;
}

WRAP(ssize_t, write, int fd, const void *bytes, size_t size)
{
	struct fd *pipe = find(fd);

	if (!pipe)
		return __real_write(fd, bytes, size);
	sim_point("write");
	pipe->bytes += (unsigned)size;
	sim_wake_poll(pipe->of);
	return (ssize_t)size;
}

WRAP(ssize_t, read, int fd, void *bytes, size_t size)
{
	struct fd *pipe = find(fd);
	unsigned count;

	if (!pipe)
		return __real_read(fd, bytes, size);
	count = (unsigned)HWTS_MIN(pipe->bytes, size);
	pipe->bytes -= count;
	if (count > 0)
		return count;
	errno = pipe->is_pipe ? EAGAIN : ECANCELED;
	return -1;
}

static bool is_ready(int fd, int64_t *next_ns)
{
	int64_t when_ns = SIM_NEVER;
	bool ready;

	if (fd >= SIM_NEWS_FD) {
		ready = sim_has_news(fd, &when_ns);
		*next_ns = HWTS_MIN(*next_ns, when_ns);
		return ready;
	}
	return find(fd) && find(fd)->bytes > 0;
}

WRAP(int, ppoll, struct pollfd *set, nfds_t count, const struct timespec *left, const sigset_t *mask)
{
	int64_t until_ns = sim_now() + HWT_S((int64_t)left->tv_sec) + left->tv_nsec;
	int ready = 0;

	(void)mask;
	sim_point("ppoll");
	for (;;) {
		int64_t next_ns = until_ns;

		for (nfds_t i = 0; i < count; i++) {
			set[i].revents = set[i].fd >= 0 && is_ready(set[i].fd, &next_ns) ? POLLIN : 0;
			ready += set[i].revents != 0;
		}
		if (ready > 0 || sim_now() >= until_ns)
			return ready;
		(void)sim_wait("polls", sim_me(), next_ns);
	}
}
