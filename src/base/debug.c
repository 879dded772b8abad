/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of a debug build; debug.h.  Empty in any other. */
#include "base/debug.h"

#ifdef HWT_DEBUG

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

char hwt_debug_dead;

static _Atomic unsigned forks;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct hwt_debug_wait *waits; /* under the mutex */

void hwt_debug_fail(const char *message)
{
	(void)fprintf(stderr, "hwt: %s\n", message);
	abort();
}

/* So that a checker of leaks finds what is kept.  Under the mutex. */
static struct kept {
	struct kept *before;
	void *memory;
} * kept;

void hwt_debug_keep(void *memory, unsigned *number)
{
	struct kept *one = malloc(sizeof(*one));

	*number = HWT_DEBUG_DEAD;
	if (one == NULL)
		return;
	pthread_mutex_lock(&mutex);
	*one = (struct kept){ kept, memory };
	kept = one;
	pthread_mutex_unlock(&mutex);
}

static void count_fork(void)
{
	atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed); /* relaxed: the child has one thread */
}

static void watch_forks(void)
{
	(void)pthread_atfork(NULL, NULL, count_fork);
}

unsigned hwt_debug_forks(void)
{
	pthread_once(&once, watch_forks);
	return atomic_load_explicit(&forks, memory_order_relaxed); /* relaxed: as above */
}

static bool is_in(const struct hwt_current_task *tasks, const struct hwt_record *record)
{
	while (tasks != NULL && tasks->record != record)
		tasks = tasks->outer;
	return tasks != NULL;
}

/* Returns the wait of the thread that is in the task of a record; NULL: it does not wait. */
static const struct hwt_debug_wait *wait_of(const struct hwt_record *record)
{
	const struct hwt_debug_wait *wait = waits;

	while (wait != NULL && !is_in(wait->tasks, record))
		wait = wait->next;
	return wait;
}

/* No circle is among those that wait already, so this comes to an end. */
static bool leads_back(const struct hwt_debug_wait *from)
{
	const struct hwt_debug_wait *wait = from;

	while (wait != NULL && !is_in(from->tasks, wait->record))
		wait = wait_of(wait->record);
	return wait != NULL;
}

void hwt_debug_begin_wait(struct hwt_debug_wait *wait, const struct hwt_record *record)
{
	*wait = (struct hwt_debug_wait){ hwt_current_task, record, NULL };
	pthread_mutex_lock(&mutex);
	if (leads_back(wait))
		hwt_debug_fail("hwt_cancel_sync waits for a task that waits for the task that calls it");
	wait->next = waits;
	waits = wait;
	pthread_mutex_unlock(&mutex);
}

void hwt_debug_end_wait(struct hwt_debug_wait *wait)
{
	struct hwt_debug_wait **link = &waits;

	pthread_mutex_lock(&mutex);
	while (*link != wait)
		link = &(*link)->next;
	*link = wait->next;
	pthread_mutex_unlock(&mutex);
}

#endif
