/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * No timer at all, with any number of producers: the control of S9.  Its calls only count, for the law; each thread has
 * a place of its own.
 */
#include "measure.h"
#include "rivals.h"

#include <stdatomic.h>

#define PLACES 512 /* more threads than a run has */

static struct {
	_Alignas(UNSHARED) int64_t pending;
} places[PLACES];

static _Atomic unsigned threads;
static __thread unsigned own_place; /* the place's index + 1; 0: none yet */

static void count(int64_t change)
{
	if (own_place == 0)
		own_place = 1 + atomic_fetch_add(&threads, 1) % PLACES;
	places[own_place - 1].pending += change;
}

static void *none_init(const struct subject_config *config, subject_task *task)
{
	(void)config;
	(void)task;
	return places;
}

static int none_schedule(void *timer, void *arg, int64_t delay_ns, struct handle *out)
{
	(void)timer;
	out->pointer = arg;
	out->number = (uint64_t)delay_ns;
	count(1);
	return 0;
}

static int none_cancel(void *timer, struct handle *handle)
{
	(void)timer;
	(void)handle;
	count(-1);
	return 0;
}

static uint64_t none_destroy(void *timer)
{
	int64_t left = 0;

	(void)timer;
	for (unsigned i = 0; i < PLACES; i++)
		left += places[i].pending;
	return (uint64_t)left;
}

static const char *none_version(void)
{
	return "(no timer: calls that only count)";
}

const struct subject subject_none = {
	.name = "none",
	.version = none_version,
	.init = none_init,
	.schedule = none_schedule,
	.cancel = none_cancel,
	.destroy = none_destroy,
	.only = " S9 ",
};
