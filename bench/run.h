/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The types that the parts of the bench share: a subject (a timer library), a scenario, a run, its outcome.
 *
 * A run is one round of one scenario with one subject, in a process of its own: so the memory, the allocator's caches
 * and the thread-locals that a round leaves do not affect the next round.
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
	unsigned variant;  /* a number whose meaning only the scenario knows */
	int64_t window_ns; /* how long to measure a load that does not end by itself */
	uint64_t seed;
	bool quick, pinned;
};

#define FIGURES_MAX 8
#define SIZES_MAX 6
#define PRODUCERS_LIST_MAX 8

struct outcome {
	bool complete;
	bool absent;   /* the subject lacks a function that the scenario needs; `why` names it */
	char why[200]; /* the fault of the run; "": none */
	unsigned count;
	double figures[FIGURES_MAX]; /* NaN: unknown */
};

struct scenario {
	const char *name; /* name and tick are unique together */
	const char *title;
	const char *figures[FIGURES_MAX]; /* the names of outcome.figures, in that order */
	void (*run)(const struct run *run, struct outcome *outcome);
	unsigned variant;
	int64_t tick_ns;
	int64_t constant_ns;                    /* the only delay that it uses; 0: many delays */
	size_t sizes[SIZES_MAX];                /* a row for each; ends with SIZE_END unless full */
	unsigned producers[PRODUCERS_LIST_MAX]; /* a row for each; ends with 0; empty: one producer */
	enum subject_rank rank;                 /* subjects of a later rank are left out */
	bool slow;                              /* three rounds are the default */
	bool brief;                             /* part of a quick run */
	bool driven;                            /* for subjects with `advance`, and no others */
	bool churn;                             /* only few timeouts are pending at once */
};
#define SIZE_END SIZE_MAX

extern const struct scenario scenarios_load[], scenarios_churn[], scenarios_fire[], scenarios_idle[],
    scenarios_steady[], scenarios_growth[], scenarios_tail[], scenarios_loop[]; /* the last name of each is NULL */

/* Adds the next figure of a run, in the order of the scenario's names. */
void outcome_add(struct outcome *outcome, double figure);

/* Notes that the subject cannot run this scenario. */
void outcome_absent(struct outcome *outcome, const char *why);

/* Marks the run as wrong.  The first reason is kept. */
__attribute__((format(printf, 2, 3))) void outcome_wrong(struct outcome *outcome, const char *format, ...);

/* Shared by most runs (run.c) */

#define BUCKETS 512

/*
 * The task of most runs.  Its arg is the deadline, as a number, so that the bench touches no memory of its own for a
 * timeout.  The task reads the clock only if the last reading does not already prove that the deadline has passed.
 */
struct fired {
	_Alignas(128) _Atomic uint64_t ran; /* load this first, with acquire */
	uint64_t early;
	int64_t first_ns, last_ns; /* when the first task ran, and when ran came to `expected` */
	int64_t seen_ns;
	uint64_t expected; /* set before a task can run */
};

extern struct fired fired;

void fire_task(void *arg);

static inline void *fire_arg(int64_t deadline_ns)
{
	return (void *)(intptr_t)deadline_ns;
}

/* Waits until `count` tasks have run, or until limit_ns. */
void fire_wait(uint64_t count, int64_t limit_ns);

/*
 * The law: each accepted timeout ran, was cancelled or came back from destroy, exactly one of these; and none ran
 * early.
 */
struct account {
	uint64_t accepted, cancelled;
	int error; /* of a call that failed */
};

/* Makes a timer for this run.  NULL: there is none, and the run is over. */
void *run_begin(const struct run *run, subject_task *task, struct outcome *outcome);

/* Destroys the timer and checks the law.  Returns the ns that the destroy took. */
int64_t run_end(const struct run *run, void *timer, const struct account *account, struct outcome *outcome);

/* Schedules a timeout through the subject, and counts it in the account. */
void run_schedule(const struct run *run, void *timer, int64_t deadline_ns, struct handle *handle,
		  struct account *account);

/*
 * Schedules n timeouts and cancels them in random order, so that later timeouts get memory in no order, as in a server
 * that has been up for a day.  Returns the ns that the scheduling took.
 */
int64_t run_scatter(const struct run *run, void *timer, struct account *account);

/*
 * Returns the ns that the bench itself adds to an operation: the random number, the call through a table, the store of
 * the handle.
 */
double floor_bench_ns(void);

#endif
