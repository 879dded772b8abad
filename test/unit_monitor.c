/* SPDX-License-Identifier: BSD-2-Clause */
/* A monitor on a system that refuses one of its parts.  No thread here needs the calls that this file replaces. */
#include "test.h"
#include "base/grid.h"
#include "base/sleeper.h"

#include <errno.h>

static int asked, refused_at;               /* calls that may fail, and which of them does, from 1 */
static int attributes, conditions, mutexes; /* the numbers that exist */

static int make(int *kind)
{
	if (++asked == refused_at)
		return EAGAIN;
	++*kind;
	return 0;
}

int pthread_condattr_init(pthread_condattr_t *attr)
{
	(void)attr;
	return make(&attributes);
}

int pthread_condattr_destroy(pthread_condattr_t *attr)
{
	(void)attr;
	attributes--;
	return 0;
}

int pthread_condattr_setclock(pthread_condattr_t *attr, clockid_t clock)
{
	(void)attr;
	CHECK(clock == CLOCK_MONOTONIC);
	return ++asked == refused_at ? EAGAIN : 0;
}

int pthread_cond_init(pthread_cond_t *restrict cond, const pthread_condattr_t *restrict attr)
{
	(void)cond;
	CHECK(attr != NULL);
	return make(&conditions);
}

int pthread_cond_destroy(pthread_cond_t *cond)
{
	(void)cond;
	conditions--;
	return 0;
}

int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
	(void)mutex;
	(void)attr;
	return make(&mutexes);
}

int pthread_mutex_destroy(pthread_mutex_t *mutex)
{
	(void)mutex;
	mutexes--;
	return 0;
}

static int init(struct hwt_monitor *monitor, int at)
{
	asked = 0;
	refused_at = at;
	return hwt_monitor_init(monitor);
}

TEST(what_was_made_before_a_refusal_is_given_back)
{
	struct hwt_monitor monitor;

	for (int at = 1; at <= 4; at++) {
		CHECK_INT(init(&monitor, at), ==, EAGAIN);
		CHECK_INT(asked, ==, at);
		CHECK(attributes == 0 && conditions == 0 && mutexes == 0);
	}
}

TEST_MAIN()
