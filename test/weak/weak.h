/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For the harnesses of this folder: the functions of the checker, and replacements for those of the system.
 *
 * A harness includes sources of the library as they are, and calls their functions from two or three threads.  GenMC
 * tries every order of the threads, and every value that C11 lets a load return.  It looks for failed assertions, data
 * races and accesses to memory that is gone.
 *
 * Its pthread.h knows threads and mutexes; what else the sources name stands here.  Where a thread of the library waits
 * for another one, the checker drops the executions in which it waits in vain.
 */
#ifndef HWT_WEAK_H
#define HWT_WEAK_H

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The harnesses' memory is zero already, and the checker cannot follow bytes through structures. */
#undef memset
#define memset(memory, byte, size) ((void)(memory))

#ifdef __CONFIG_GENMC_INODE_DATA_SIZE /* the checker compiles */
#include <genmc.h>
#undef static_assert
#define static_assert _Static_assert
#define PTHREAD_CANCEL_ENABLE 0
#define PTHREAD_CANCEL_DISABLE 1
#define pthread_setcancelstate(state, old) (0)
#ifndef ECANCELED
#define ECANCELED 125
#define ENOBUFS 105
#define ENOTSUP 95
#endif
/* The checker knows no intrinsic for an overflow, and no number here comes near one. */
#define __builtin_add_overflow(a, b, sum) (*(sum) = (a) + (b), false)
#define __builtin_sub_overflow(a, b, difference) (*(difference) = (a) - (b), false)
typedef int pthread_cond_t;
typedef int pthread_condattr_t;
#else /* for a compiler, which checks that a harness still fits */
void __VERIFIER_assume(bool condition);
#endif

/* A harness in which a thread waits on a condition defines weak_broadcast. */
#define pthread_cond_broadcast(condition) weak_broadcast()
void weak_broadcast(void);

/* Drops the executions in which it does not hold. */
#define assume(condition) __VERIFIER_assume(condition)

/*
 * A thread that finds a lock held, or a move in progress, would look again.  Executions in which it comes later are
 * checked anyway, so this execution is dropped.
 */
void hwt_thread_give_way(unsigned *turns)
{
	(void)turns;
	assume(false);
}

#include "base/base.h"
/* The checker takes a fence of the compiler for one of the processor. */
#undef atomic_signal_fence
#define atomic_signal_fence(order) ((void)0)
#undef HWT_OWN
#define HWT_OWN /* the harnesses pass lanes as arguments */
#undef HWT_POINT
#define HWT_POINT(where) assume((where)[0] != 'h' && !((where)[0] == 'b' && (where)[1] == 'l')) /* "held", "blocked" */

/* Starts a thread. */
static inline pthread_t weak_start(void *(*run)(void *))
{
	pthread_t thread;

	pthread_create(&thread, NULL, run, NULL);
	return thread;
}

#endif
