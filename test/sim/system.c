/* SPDX-License-Identifier: BSD-2-Clause */
/* In place of threads and their calls; sim.h.  The linker leads the library's calls here. */
#include "sim.h"
#include "frame/wrap.h"
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

void sim_locks(bool locks)
{
	(void)locks;
}

/*
 * Threads
 */

WRAP(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	(void)attr;
	if (hwt_test_mem_refuses != NULL && hwt_test_mem_refuses())
		return EAGAIN;
	*thread = (pthread_t)sim_start("a thread", run, arg);
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

/* The library calls only membarrier by it, which has nothing to do here: no access overtakes another. */
WRAP(long, syscall, long number, ...)
{
	(void)number;
	sim_point("membarrier");
	return 0;
}
