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

	/* The next run, on the timer's clock. */
	int64_t least_ns, most_ns;
	uint64_t known_since; /* the step at which the call returned; FOREVER: it has not */
	uint32_t known_by;    /* its thread */
	int64_t excuse_ns;    /* world_excuse at that */
	int64_t period_ns;    /* 0: once */

	unsigned accepted, runs, rearms, cancels, returned, released;
	unsigned runs_max;                                /* after a cancel */
	unsigned calls;                                   /* cancels and moves that threads are in */
	unsigned agains;                                  /* so often its task has it run again */
	bool has_finaliser, in_run, is_rearmed, is_exact; /* is_exact: its deadline is known, and it never moved */
	bool is_retired;
};

/* Numbers as hwt_stats has them. */
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
	int64_t heard_ns; /* the same when the call that tells it has returned */
	int64_t asleep_ns, asleep_at_ns,
	    sleepers;                    /* for how long tasks and threads of the pool have slept, till when */
	int64_t step_ns, step_excuse_ns; /* when the clock was last set, and world_excuse then */
	int64_t back_until_ns;
	unsigned steps, heard_steps;   /* of the clock, and how many when the last advance began */
	uint64_t advances, waits;      /* waits: cancels that may wait for the end of a run */
	int64_t stop_ns, stop_held_ns; /* when a stop began, and sim_held then */
	bool is_started, is_stopping, is_stopped, has_pool;

	/* HWT_COLLECT: what has fired has not begun to run here until the loop comes to it. */
	bool collects, in_hand; /* in_hand: the loop is in its call, or at what that has handed out */
	bool is_cut;            /* more may be due: that was all that it had room for, or a stop came */

	/* Faults. */
	unsigned refuse;     /* so many of 256 allocations fail */
	unsigned refuse_all; /* threads for which all fail */
	uint64_t refused;
};

extern struct world world;

/* The timer's clock.  While it is being told a virtual time, it may be the one or the other. */
int64_t world_clock(void);
int64_t world_clock_least(void);

/* For how long something has been in the way of what is due. */
int64_t world_excuse(void);

/* No task is late by more, and by what was in its way since; this covers what was in its way already. */
int64_t world_patience(void);

/* The time of the tick at which something with this deadline runs. */
int64_t world_tick(int64_t deadline_ns);

void world_sleep(int64_t ns); /* in a task, a finaliser, the pool */

void world_step(int64_t ns); /* sets the clock */

/* Returns true if a run is still to come, as far as is known. */
bool item_waits(const struct item *item);

/* Sets the bounds of the next run, or takes them back while a call is at the item. */
void item_begin_call(struct item *item, int64_t to_ns);
void item_end_call(struct item *item, int64_t least_ns, int64_t most_ns);

void item_forget(struct item *item); /* when its next run is due */

void item_start(struct item *item, hwt_timeout timeout, uint64_t missed);
void item_end(struct item *item);
void item_release(struct item *item);

/* After a cancel has returned. */
void item_cancelled(struct item *item, int rc, bool sync);

/* After an advance that returned 0, which began at that step. */
void judge_advance(uint64_t began, int64_t now_ns, int64_t next_ns);
void judge_next(uint64_t began, int64_t next_ns); /* the same of a look */
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

/* As likely some microseconds as some milliseconds. */
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
