/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tools of the scenarios: clocks, CPU time, memory, statistics, random numbers, and teams of producers.
 *
 * Hidden here: where Linux keeps these figures, and how to know that the worker of a library has come to rest.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

/* No two threads write to one unit of this size: a cache line and the neighbour that the prefetcher fetches with it. */
#define UNSHARED 128

/*
 * Clocks
 */

int64_t now_ns(void);        /* CLOCK_MONOTONIC */
int64_t thread_cpu_ns(void); /* of the calling thread */
int64_t others_cpu_ns(void); /* of the process without the calling thread */

void sleep_until(int64_t when_ns);
void sleep_ns(int64_t duration_ns);

/*
 * Waits until the other threads have been nearly idle for a while, at most five seconds: by then a worker with this
 * tick has taken in all operations.
 */
void settle(int64_t tick_ns);

/*
 * The process
 */

size_t rss_bytes(void);
size_t rss_peak_bytes(void);
uint64_t voluntary_switches(void);

/* Returns memory that is resident, so that no page fault is measured.  Ends the process if there is none. */
void *touched(size_t count, size_t size);

/* Makes malloc hold this much memory that has been touched, in huge pages if there are any. */
void touch_heap(size_t bytes);
void untouch(void *memory, size_t count, size_t size);

/*
 * Figures
 */

struct summary {
	double median, min, max;
	bool wide; /* max is over twice min */
};

struct summary summarise(double *values, size_t count); /* sorts */
void sort_ns(int64_t *values, size_t count);
int64_t quantile(const int64_t *sorted, size_t count, double q);

/*
 * Return the ns of the cheapest parts of an operation, a floor for the other figures.  This one: the least of some
 * looks.
 */
double floor_least(double (*look)(void));
double floor_clock_ns(void);
double floor_exchange_ns(void);
double floor_line_ns(void); /* a write to a line that is not in a cache, in the order of memory */

/*
 * Random numbers: xorshift64*, one state a thread
 */

struct rng {
	uint64_t state;
};

static inline struct rng rng_seed(uint64_t seed)
{
	struct rng rng = { (seed + 1) * UINT64_C(0x9E3779B97F4A7C15) | 1 };

	return rng;
}

static inline uint64_t rng_next(struct rng *rng)
{
	rng->state ^= rng->state >> 12;
	rng->state ^= rng->state << 25;
	rng->state ^= rng->state >> 27;
	return rng->state * UINT64_C(0x2545F4914F6CDD1D);
}

/* Returns 0 ..  span_ns, in steps of span_ns / 2^24: no division, and no overflow for spans up to four hours. */
static inline int64_t rng_span(struct rng *rng, int64_t span_ns)
{
	return (int64_t)(((rng_next(rng) >> 40) * ((uint64_t)span_ns >> 4)) >> 20);
}

/*
 * Teams: threads that do one phase of work together, again and again.  The threads stay the same from phase to phase,
 * because a library may keep data for each thread.
 */

struct member;
typedef void team_work(struct member *me);

struct member {
	_Alignas(UNSHARED) void *shared; /* the `shared` of team_start */
	size_t first, end;               /* its share of 0 .. count */
	struct rng rng;
	uint64_t accepted, cancelled; /* counters of the work */
	int error;                    /* of the first call that failed; 0: none */
	int64_t begin_ns, end_ns;     /* of the last phase */
	int64_t cpu_ns;               /* in the last phase */
	struct team *team;
	pthread_t thread;
	unsigned index;
};

struct team {
	struct member *members;
	unsigned size;
	bool pinned;
	team_work *work; /* NULL: the threads end */
	pthread_barrier_t barrier;
};

struct phase {
	int64_t elapsed_ns;           /* from the first member's begin to the last one's end */
	int64_t cpu_ns;               /* of all members */
	uint64_t accepted, cancelled; /* up to now, of all members */
	int error;
};

void team_start(struct team *team, unsigned size, size_t count, uint64_t seed, bool pinned, void *shared);
struct phase team_phase(struct team *team, team_work *work);
void team_end(struct team *team);

#endif
