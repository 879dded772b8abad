/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The timer of a life, its timeouts, and what is known of each; sim.h.
 *
 *   world.c    the model: what each timeout may do and must do, and whether it did
 *   calls.c    the alphabet: all public calls, each with what it may answer
 *   actors.c   threads that make calls, loops that advance, a pool that runs tasks
 *   life.c     settings by the seed; a life in rounds, with a look at all there is when nothing goes on, up to the end
 *
 * What is known of a timeout in a call is known only before it and after it.  So the model holds bounds: a next run is
 * due from least_ns to most_ns, and most_ns is UNKNOWN while a call is at it.
 */
#ifndef HWT_SIM_WORLD_H
#define HWT_SIM_WORLD_H

#include "sim/sim.h"

#define ITEMS 1024
#define UNKNOWN INT64_MAX
#define FOREVER UINT64_MAX

/* How the timer is driven. */
enum driving { WORKER, LEVEL, EDGE, EARLIER, NAPS, VIRTUAL };

struct item {
	hwt_timeout handle;
	unsigned number;
	uint32_t owner; /* the thread that scheduled it */

	/* The bounds of the next run, on the timer's clock. */
	int64_t least_ns, most_ns;
	uint64_t known_since; /* the step at which the call that set them returned; FOREVER: it has not */
	uint32_t known_by;    /* the thread of that call */
	int64_t excuse_ns;    /* world_excuse at that step */
	int64_t period_ns;    /* 0: once */

	unsigned accepted, runs, rearms, cancels, returned, released;
	unsigned runs_max;                                /* the most runs, after a cancel */
	unsigned calls;                                   /* cancels and moves in progress */
	unsigned agains;                                  /* this many more runs: its task re-arms it */
	bool has_finaliser, in_run, is_rearmed, is_exact; /* is_exact: its deadline is known, and it never moved */
	bool is_retired;
};

/* The numbers of hwt_stats. */
struct sums {
	uint64_t accepted, cancelled, runs, missed, moved, limit, stopped, memory, refusals;
};

struct world {
	hwt_timer *timer;
	hwt_config config;
	enum driving driving;
	int64_t delay_max_ns, start_ns, tick_ns;
	struct item items[ITEMS];
	unsigned item_count;
	struct sums sums;

	int64_t told_ns;  /* the latest time of a virtual clock */
	int64_t heard_ns; /* told_ns, once the call that tells it has returned */
	int64_t asleep_ns, asleep_at_ns,
	    sleepers;                    /* how long tasks and threads of the pool have slept, and until when */
	int64_t step_ns, step_excuse_ns; /* when the clock was last set, and world_excuse then */
	int64_t back_until_ns;
	unsigned steps, heard_steps;   /* steps of the clock, and those when the last advance began */
	uint64_t advances, waits;      /* waits: cancels that may wait for the end of a run */
	int64_t stop_ns, stop_held_ns; /* when a stop began, and sim_held then */
	bool is_started, is_stopping, is_stopped, has_pool;

	/* HWT_COLLECT: a fired timeout counts as begun when the loop comes to it. */
	bool collects, in_hand; /* in_hand: the loop is in its call, or goes through the batch */
	bool is_cut;            /* more may be due: the batch was full, or a stop came */

	/* Faults. */
	unsigned refuse;     /* of 256 allocations this many fail */
	unsigned refuse_all; /* threads whose allocations all fail */
	uint64_t refused;
};

extern struct world world;

/* Returns the time of the timer's clock.  While it is told a virtual time, this may be the old or the new one. */
int64_t world_clock(void);
int64_t world_clock_least(void);

/* Returns for how long due timeouts have been delayed by tasks, held threads and the like. */
int64_t world_excuse(void);

/* Returns the most that a task may be late besides delays since it was scheduled; covers earlier delays. */
int64_t world_patience(void);

/* Returns the time of the tick at which a timeout with this deadline runs. */
int64_t world_tick(int64_t deadline_ns);

void world_sleep(int64_t ns); /* in a task, a finaliser, the pool */

void world_step(int64_t ns); /* sets the clock */

/* Returns true if a run is still to come, as far as the model knows. */
bool item_waits(const struct item *item);

/* Sets the bounds of the next run; they count as unknown while a call is in progress. */
void item_begin_call(struct item *item, int64_t to_ns);
void item_end_call(struct item *item, int64_t least_ns, int64_t most_ns);

void item_forget(struct item *item); /* forgets when the next run is due */

void item_start(struct item *item, hwt_timeout timeout, uint64_t missed);
void item_end(struct item *item);
void item_release(struct item *item);

/* Judges a cancel that has returned. */
void item_cancelled(struct item *item, int rc, bool sync);

/* Judges an advance that began at a step and returned 0. */
void judge_advance(uint64_t began, int64_t now_ns, int64_t next_ns);
void judge_next(uint64_t began, int64_t next_ns); /* judges hwt_timer_next */
void judge_quiet(void);
void judge_ends(bool was_stopped);

/* calls.c */
void run_item(hwt_timeout timeout, void *arg);
void release_item(void *arg);
void call_something(bool in_task);
int call_stop(void);
int call_advance(int64_t now_ns, int64_t *next_ns);
hwt_task *its_task(void);
static inline bool hit(unsigned one_of)
{
	return sim_plan(one_of) == 0;
}

/* Draws a time: some microseconds as likely as some milliseconds. */
static inline int64_t some_time(int64_t max_ns)
{
	return (int64_t)sim_plan(((uint64_t)max_ns >> sim_plan(12)) + 1);
}

/* actors.c */
void begin_actors(void); /* before the timer is created */
void begin_loop(void);
void begin_round(void);
void end_round(void);
void end_producers(void);
void end_actors(void);

/* life.c */
void live_as(enum driving driving);
void let_rest(void);

#endif
