/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A busy machine, preloaded: each thread of a test loses its processor again and again, at its next call of one of the
 * functions below, for up to HWT_WEATHER_MS (200).  A test that assumes what another thread has done, or how long a
 * step takes, fails here within a run or two; beside a real load it would fail once in a hundred.
 *
 *     make weather                                  all test programs
 *     test/exec.sh weather:build/test/test_api      one of them
 *
 * Only programs of the tests are slow: what they start, a database server above all, is not.  HWT_SEED repeats the
 * lengths, though not the order in which threads draw them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static bool bad; /* this process is a test */
static uint64_t seed, longest_ns = 200000000;
static atomic_uint threads;

static uint64_t now_ns(void)
{
	struct timespec now;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Makes a thread lose its processor, for more than half of its time. */
static void lose(void)
{
	static _Thread_local uint64_t state, next_ns;
	struct timespec away = { 0, 0 };
	uint64_t ns;
	int saved;

	if (!bad)
		return;
	if (state == 0) {
		state = (seed + 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed)) *
			UINT64_C(0x9e3779b97f4a7c15);
		next_ns = now_ns() + draw(&state) % (longest_ns / 8);
	}
	if (now_ns() < next_ns)
		return;
	ns = draw(&state) % longest_ns;
	if (draw(&state) % 4 != 0) /* most losses are short: a slice or two of the scheduler */
		ns /= 16;
	away.tv_sec = (time_t)(ns / 1000000000);
	away.tv_nsec = (long)(ns % 1000000000);
	saved = errno; /* a signal may end it */
	syscall(SYS_nanosleep, &away, NULL);
	errno = saved;
	next_ns = now_ns() + draw(&state) % (longest_ns / 8);
}

__attribute__((constructor)) static void look_out(void)
{
	const char *given_ms = getenv("HWT_WEATHER_MS"), *given_seed = getenv("HWT_SEED");
	char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

	path[length > 0 ? length : 0] = '\0';
	if (given_ms)
		longest_ns = (strtoull(given_ms, NULL, 10) + 1) * 1000000;
	seed = given_seed ? strtoull(given_seed, NULL, 0) : now_ns();
	bad = strstr(path, "/test/") != NULL;
}

/* Defines a function that begins late and returns late. */
#define LATE(result, name, parameters, arguments)                                                                      \
	result name parameters                                                                                         \
	{                                                                                                              \
		static result(*real) parameters;                                                                       \
		result rc;                                                                                             \
                                                                                                                       \
		if (real == NULL)                                                                                      \
			*(void **)&real = dlsym(RTLD_NEXT, #name);                                                     \
		lose();                                                                                                \
		rc = real arguments;                                                                                   \
		lose();                                                                                                \
		return rc;                                                                                             \
	}

LATE(int, nanosleep, (const struct timespec *ns, struct timespec *left), (ns, left))
LATE(int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms))
LATE(int, epoll_wait, (int fd, struct epoll_event *events, int n, int ms), (fd, events, n, ms))
LATE(int, clock_gettime, (clockid_t clock, struct timespec *now), (clock, now))
LATE(int, sched_yield, (void), ())
LATE(int, pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex))
LATE(int, pthread_mutex_unlock, (pthread_mutex_t * mutex), (mutex))
LATE(int, pthread_create, (pthread_t * thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg),
     (thread, attr, run, arg))
LATE(int, pthread_join, (pthread_t thread, void **result), (thread, result))
LATE(ssize_t, read, (int fd, void *into, size_t n), (fd, into, n))
LATE(ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n))
