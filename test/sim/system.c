/* SPDX-License-Identifier: BSD-2-Clause */
/* In place of threads, locks and memory; sim.h.  The linker leads the library's calls here. */
#include "sim/sim.h"
#include "base/sleeper.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "sim/wrap.h"

/*
 * Threads
 */

WRAP(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	(void)attr;
	*thread = (pthread_t)sim_start("a thread", run, arg);
	return 0;
}

WRAP(int, pthread_join, pthread_t thread, void **result)
{
	void *returned = sim_join((struct sim_actor *)thread);

	if (result != NULL)
		*result = returned;
	return 0;
}

WRAP(int, pthread_setname_np, pthread_t thread, const char *name)
{
	(void)thread;
	sim_call_me(name);
	return 0;
}

WRAP(int, sched_yield, void)
{
	sim_give_way("sched_yield");
	return 0;
}

/* A mutex is its first word: 1 while it is locked, as in glibc.  A condition is its address. */
static int *word_of(pthread_mutex_t *mutex)
{
	return (int *)(void *)mutex;
}

WRAP(int, pthread_mutex_trylock, pthread_mutex_t *mutex)
{
	sim_point("mutex_trylock");
	if (*word_of(mutex) != 0)
		return EBUSY;
	*word_of(mutex) = 1;
	return 0;
}

WRAP(int, pthread_mutex_lock, pthread_mutex_t *mutex)
{
	sim_point("mutex_lock");
	while (*word_of(mutex) != 0)
		(void)sim_wait("waits for a mutex", mutex, INT64_MAX);
	*word_of(mutex) = 1;
	return 0;
}

static void unlock(pthread_mutex_t *mutex)
{
	SIM_CHECK(*word_of(mutex) == 1);
	*word_of(mutex) = 0;
	sim_wake_all(mutex);
}

WRAP(int, pthread_mutex_unlock, pthread_mutex_t *mutex)
{
	unlock(mutex);
	sim_point("mutex_unlock");
	return 0;
}

/* Returns false if the time has come.  Now and then a wait ends for no reason, as condition variables may. */
static bool wait_changed(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until_ns)
{
	bool woken = true;

	unlock(mutex);
	if (sim_random(32) != 0)
		woken = sim_wait("cond_wait", cond, until_ns);
	(void)__wrap_pthread_mutex_lock(mutex);
	return woken;
}

WRAP(int, pthread_cond_wait, pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	(void)wait_changed(cond, mutex, INT64_MAX);
	return 0;
}

WRAP(int, pthread_cond_timedwait, pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
	return wait_changed(cond, mutex, until->tv_sec * NS_PER_S + until->tv_nsec) ? 0 : ETIMEDOUT;
}

WRAP(int, pthread_cond_signal, pthread_cond_t *cond)
{
	sim_point("cond_signal");
	sim_wake_one(cond);
	return 0;
}

WRAP(int, pthread_cond_broadcast, pthread_cond_t *cond)
{
	sim_point("cond_broadcast");
	sim_wake_all(cond);
	return 0;
}

/* The library's only call of it is membarrier: no access here overtakes another. */
WRAP(long, syscall, long number, ...)
{
	(void)number;
	sim_point("membarrier");
	return 0;
}
