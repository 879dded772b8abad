/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of the bench know of each other: a subject (a timer library), a scenario, one run of it, its outcome.
 *
 * A run is one round of one scenario with one subject, in a process of its own: what a round leaves behind in memory,
 * caches of the allocator and thread-locals does not reach the next one.
 */
#ifndef BENCH_RUN_H
#define BENCH_RUN_H

#include "subject.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Runs
 */

struct run {
	const struct subject *subject;
	unsigned producers;
	size_t n;
	const struct scenario *scenario;
	int64_t tick_ns;
	unsigned variant;  /* of the scenario; its own business */
	int64_t window_ns; /* for how long to look at something that does not end by itself */
	uint64_t seed;
	bool quick, pinned;
};

#define FIGURES_MAX 8
#define SIZES_MAX 6
#define PRODUCERS_LIST_MAX 8

struct outcome {
	bool complete;
	bool absent;   /* the subject has no such thing; why says what */
	char why[200]; /* what was wrong with the run; "" if nothing */
	unsigned count;
	double figures[FIGURES_MAX]; /* NaN: not known */
};

struct scenario {
	const char *name; /* unique together with the tick */
	const char *title;
	const char *figures[FIGURES_MAX]; /* their names, in the order of outcome.figures */
	void (*run)(const struct run *run, struct outcome *outcome);
	unsigned variant;
	int64_t tick_ns;
	int64_t constant_ns;                    /* the one delay it uses; 0: many */
	size_t sizes[SIZES_MAX];                /* a row for each; ends with SIZE_END unless full */
	unsigned producers[PRODUCERS_LIST_MAX]; /* a row for each; ends with 0; empty: one producer */
	enum subject_rank rank;                 /* subjects behind it are left out */
	bool slow;                              /* does with three rounds unless told otherwise */
	bool brief;                             /* part of a quick run */
	bool driven;                            /* for subjects with `advance`, and no others */
	bool churn;                             /* few are pending at once, however many pass through */
};
#define SIZE_END SIZE_MAX

extern const struct scenario scenarios_load[], scenarios_churn[], scenarios_fire[], scenarios_idle[],
    scenarios_steady[], scenarios_growth[], scenarios_loop[]; /* each ends with a name of NULL */

/* The next figure of a run, in the order of the scenario's names. */
void outcome_add(struct outcome *outcome, double figure);

/* Says that the subject cannot do this. */
void outcome_absent(struct outcome *outcome, const char *why);

/* Marks the run as wrong; the first reason stays. */
__attribute__((format(printf, 2, 3))) void outcome_wrong(struct outcome *outcome, const char *format, ...);

/*
 * What most runs share (run.c)
 */

#define BUCKETS 512

/*
 * The task of most runs.  Its arg is the deadline, as a number, so that the bench touches no memory of its own for a
 * timeout.  The clock is read only when the last reading does not prove already that the deadline has passed.
 */
struct fired {
	_Alignas(128) _Atomic uint64_t ran; /* read it with acquire, then the rest is as of then */
	uint64_t early;
	int64_t first_ns, last_ns; /* when the first task ran, and the one that made ran == expected */
	int64_t seen_ns;
	uint64_t expected; /* set before anything can run */
};

extern struct fired fired;

void fire_task(void *arg);

static inline void *fire_arg(int64_t deadline_ns)
{
	return (void *)(intptr_t)deadline_ns;
}

/* Waits until so many tasks have run, or until limit_ns. */
void fire_wait(uint64_t count, int64_t limit_ns);

/*
 * The law: every timeout that was accepted ran, was cancelled or came back from destroy, none of them twice; none ran
 * early.
 */
struct account {
	uint64_t accepted, cancelled;
	int error; /* of a call that failed */
};

/* A timer for this run; NULL when there is none, and then the run is over. */
void *run_begin(const struct run *run, subject_task *task, struct outcome *outcome);

/* Destroys the timer and holds the run against the law.  Returns the ns that destroying took. */
int64_t run_end(const struct run *run, void *timer, const struct account *account, struct outcome *outcome);

/* Schedules through the subject, and counts in the account. */
void run_schedule(const struct run *run, void *timer, int64_t deadline_ns, struct handle *handle,
		  struct account *account);

/*
 * Holds n timeouts in the timer and cancels them in random order, so that those to come find memory that is all over
 * the place, as in a server that has been up for a day.  Returns the ns that scheduling them took.
 */
int64_t run_scatter(const struct run *run, void *timer, struct account *account);

/* What the bench itself adds to an operation: the random number, the call through a table, the store of the handle. */
double floor_bench_ns(void);

#endif
