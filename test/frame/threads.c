/* SPDX-License-Identifier: BSD-2-Clause */
/* In place of mutexes and conditions; frame.h.  The linker leads the program's calls here. */
#include "sim.h"
#include "frame/wrap.h"

#include <errno.h>
#include <pthread.h>

/* A mutex is its first word: 1 while it is locked, as in glibc.  A condition is its address. */
static int *word_of(pthread_mutex_t *mutex)
{
	return (int *)(void *)mutex;
}

WRAP(int, pthread_join, pthread_t thread, void **result)
{
	void *returned = sim_join((struct sim_actor *)thread);

	if (result != NULL)
		*result = returned;
	return 0;
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
		(void)sim_wait("waits for a mutex", mutex, SIM_NEVER);
	*word_of(mutex) = 1;
	sim_locks(true);
	return 0;
}

static void unlock(pthread_mutex_t *mutex)
{
	SIM_CHECK(*word_of(mutex) == 1);
	sim_locks(false);
	*word_of(mutex) = 0;
	sim_wake_all(mutex);
}

WRAP(int, pthread_mutex_unlock, pthread_mutex_t *mutex)
{
	unlock(mutex);
	sim_point("mutex_unlock");
	return 0;
}

/*
 * Waits on a condition.  Returns false if the time has come.  Now and then the wait ends without a reason, as a
 * condition's may.
 */
static bool wait_changed(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until_ns)
{
	bool woken = true;

	unlock(mutex);
	if (sim_random(64) != 0)
		woken = sim_wait("cond_wait", cond, until_ns);
	(void)__wrap_pthread_mutex_lock(mutex);
	return woken;
}

WRAP(int, pthread_cond_wait, pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	(void)wait_changed(cond, mutex, SIM_NEVER);
	return 0;
}

WRAP(int, pthread_cond_timedwait, pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
	int64_t until_ns = (int64_t)until->tv_sec * INT64_C(1000000000) + until->tv_nsec - sim_mono_ahead();

	return wait_changed(cond, mutex, until_ns) ? 0 : ETIMEDOUT;
}
