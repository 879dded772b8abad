/* SPDX-License-Identifier: BSD-2-Clause */
/* For the unit tests: memory that runs out on purpose, and a timer without a thread, on the test's clock. */
#ifndef HWT_UNIT_H
#define HWT_UNIT_H

#include "test.h"
#include "timer/timer.h"
#include "base/mem.h"
#include "lane/lane.h"
#include "lane/submit.h"

#include "tunables.h"
#include "wheels.h"

#include <errno.h>

#ifdef __GLIBC__
#include <malloc.h>

/* Makes malloc keep memory: short-lived timers then reuse the memory of slabs instead of mapping it each time. */
static __attribute__((constructor)) void keep_memory(void)
{
	(void)mallopt(M_MMAP_THRESHOLD, 32 << 20);
	(void)mallopt(M_TRIM_THRESHOLD, 256 << 20);
}
#endif

/*
 * Allocations fail_from ..  fail_to - 1 fail, counted from the last memory_fails.  Atomic, as the worker allocates,
 * too.
 */
static _Atomic uint64_t memory_asked, fail_from = UINT64_MAX, fail_to = UINT64_MAX;

static inline bool memory_refuses(void)
{
	uint64_t n = atomic_fetch_add(&memory_asked, 1);

	return n >= fail_from && n < fail_to;
}

static inline void memory_fails(uint64_t from, uint64_t to)
{
	memory_asked = 0;
	fail_from = from;
	fail_to = to;
	atomic_store(&hwt_test_mem_refuses, memory_refuses);
}

static inline void memory_is_back(void)
{
	memory_fails(UINT64_MAX, UINT64_MAX);
}

/* The call of another thread, `meanwhile_act`, comes at the first point of this name in a call. */
static const char *meanwhile_at;
static void (*meanwhile_act)(void);

static inline void meanwhile_come(const char *where)
{
	if (strcmp(where, meanwhile_at) != 0)
		return;
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	meanwhile_act();
}

static inline void meanwhile(const char *where, void (*act)(void))
{
	meanwhile_at = where;
	meanwhile_act = act;
	atomic_store(&hwt_test_point, meanwhile_come);
}

/* Returns true if the call has passed that point. */
static inline bool meanwhile_came(void)
{
	return atomic_exchange(&hwt_test_point, (hwt_point_hook *)0) == NULL;
}

/* Counts the points of this name. */
static atomic_uint points_passed;

static inline void points_note(const char *where)
{
	if (strcmp(where, meanwhile_at) == 0)
		atomic_fetch_add(&points_passed, 1);
}

static inline void points_begin(const char *where)
{
	meanwhile_at = where;
	atomic_store(&points_passed, 0);
	atomic_store(&hwt_test_point, points_note);
}

static inline unsigned points_end(void)
{
	atomic_store(&hwt_test_point, (hwt_point_hook *)0);
	return atomic_load(&points_passed);
}

/* xorshift64*: the same numbers from the same seed everywhere. */
static inline uint64_t random_next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(2685821657736338717);
}

static inline uint64_t random_below(uint64_t *state, uint64_t limit)
{
	return random_next(state) % limit;
}

/* Returns HWT_SEED of the environment, or the same seed each time.  Prints it, so that a failure can be repeated. */
static inline uint64_t random_seed(void)
{
	const char *given = getenv("HWT_SEED");
	uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : 1;

	printf("# seed %" PRIu64 "\n", seed);
	return seed | 1;
}

/* Returns the lane at a seat. */
static inline struct hwt_lane *lane_at(struct hwt_lanes *lanes, uint32_t place)
{
	struct hwt_lane *lane = hwt_lanes_make(lanes, place);

	REQUIRE(lane != NULL);
	return lane;
}

/* Returns true if any thread, this one included, holds the mutex. */
static inline bool is_locked(pthread_mutex_t *mutex)
{
	if (pthread_mutex_trylock(mutex) != 0)
		return true;
	pthread_mutex_unlock(mutex);
	return false;
}

/* Returns true if the lane has no free record but those that have come home. */
static inline bool pool_is_used_up(const struct hwt_pool *pool)
{
	return pool->free == NULL && pool->carve == pool->carve_end;
}

/* Returns the number of records for which there is memory. */
static inline size_t records_held(const struct hwt_lanes *lanes)
{
	return record_slabs_held(&lanes->slabs) / sizeof(struct hwt_record);
}

/* Virtual time. */
static int64_t fake_now_ns;

static inline int64_t fake_clock(void)
{
	return fake_now_ns;
}

/* Makes a started timer whose passes the test makes.  Timer and clock begin at start_ns. */
static inline hwt_timer *driven_create(const hwt_config *config, int64_t start_ns)
{
	hwt_timer *timer = NULL;

	fake_now_ns = start_ns;
	hwt_test_clock = fake_clock;
	REQUIRE(hwt_timer_create(&timer, config) == 0);
	pthread_mutex_lock(&timer->monitor.mutex);
	hwt_timer_begin_time(timer, start_ns);
	hwt_timer_set_state(timer, timer_state_with_worker(timer));
	pthread_mutex_unlock(&timer->monitor.mutex);
	return timer;
}

static inline hwt_config driven_config(int64_t tick_ns, uint32_t wheel)
{
	hwt_config config = HWT_CONFIG_INIT;

	config.warn = NULL;
	config.tick_duration_ns = tick_ns;
	config.ticks_per_wheel = wheel;
	return config;
}

static inline bool driven_pass(hwt_timer *timer, int64_t now_ns)
{
	fake_now_ns = now_ns;
	return hwt_worker_pass(&timer->worker, now_ns);
}

/* Trims as the worker does. */
static inline void driven_trim(hwt_timer *timer)
{
	struct hwt_look *look = &timer->worker.trimming.look;

	hwt_look_begin(look, &timer->lanes, fake_now_ns, 0, true);
	while (hwt_look_step(look))
		;
}

static inline void nothing(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
}

static inline hwt_stats stats_now(const hwt_timer *timer)
{
	hwt_stats stats = { .size = sizeof(stats) };

	CHECK_INT(hwt_timer_stats(timer, &stats), ==, 0);
	return stats;
}

static inline void driven_destroy(hwt_timer *timer)
{
	CHECK_INT(hwt_timer_destroy(timer), ==, 0);
	hwt_test_clock = NULL;
}

#endif
