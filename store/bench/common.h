/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the scenarios of store_bench share: timeouts by number, with what is noted of each; stores, processes, figures.
 */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <hwt_store.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#define KIND "bench"
#define BATCH 500
#define N_MAX 20000000 /* shared memory that nothing touches costs nothing */
#define PROCESSES_MAX 64
#define KINDS_MAX 256
#define THREADS_MAX 1024
#define GROUPS_MAX 1000
#define RATE 1000 /* a second, in the scenarios that measure lateness */
#define AHEAD_US INT64_C(3000000)
#define PAYLOAD 40 /* bytes, the number of the timeout among them */

/* Shared with children, by fork. */
struct shared {
	_Atomic int64_t started_us, ended_us;
	atomic_uint ran, ready, go, put;
	_Atomic uint64_t round_trips[PROCESSES_MAX];
	atomic_uint held[PROCESSES_MAX];
	atomic_uint starts[N_MAX], ends[N_MAX]; /* ends: of slow tasks alone */
	int64_t due_us[N_MAX], begun_us[N_MAX];
	atomic_uint running[PROCESSES_MAX][GROUPS_MAX]; /* of group_caps */
};

/* What the options say. */
extern const char *url, *schema;
extern unsigned n, kills, processes, kind_count, thread_count, seconds;
extern int64_t lease_ns; /* 0: the default */

extern struct shared *shared;
extern bool tasks_are_slow;                      /* 20 ms each; then timeouts have their number as key, too */
extern unsigned shards, mode;                    /* of a kind; 0: the default */
extern int64_t horizon_ns;                       /* the same */
extern unsigned (*kind_of)(unsigned number);     /* NULL: all are of the first kind */
extern unsigned group_count;                     /* puts go round them; 0: they have none */
extern int (*priority_of)(unsigned number);      /* NULL: 0 */
extern const char *(*group_of)(unsigned number); /* NULL: of none; a name lives as long as BATCH more */
extern hwt_store_task *task;                     /* of all kinds: note_start, or what calls it */
extern unsigned task_threads;                    /* of a process; 0: the default */

/* Ends the program with a text unless rc is 0. */
void check(const char *what, int rc);

int64_t clock_us(clockid_t clock);
void sleep_us(int64_t us);
void print_figure(const char *figure, const char *unit, double value);

/* started_us + a random time below range_us, the same one for a number in each round. */
int64_t random_us(unsigned number, int64_t range_us);
int64_t random_due_us(unsigned number); /* at RATE, when there are n */

unsigned in_turn(unsigned number);     /* a kind_of */
int64_t noted_due_us(unsigned number); /* what shared->due_us says */

hwt_store_spec in_an_hour(void); /* with PAYLOAD bytes */
hwt_store_task note_start;
hwt_store *open_store(void);
void register_kinds(hwt_store *store);
/* With the first kind_count kinds, whose task notes its starts. */
hwt_store *start_store(void);
hwt_store_stats read_stats(hwt_store *store);
void wait_for_shards(hwt_store *store, unsigned least, unsigned most);

/* Puts first .. first + count - 1, those of a batch in one call; due_us gives each its time, NULL: at once. */
void put_range(hwt_store *store, unsigned first, unsigned count, int64_t (*due_us)(unsigned number));

void wait_for_runs(unsigned count, int64_t patience_us);

/* The law: each of the first count ran, none early, none twice (but `again` of them, when a process died). */
void check_law(unsigned count, unsigned again);

/* The same with a lease that may have been lost: each of them ran or is still there, and some ran. */
void check_kept(unsigned count);

int compare_us(const void *left, const void *right); /* of int64_t, for qsort */

/* NAME_p50, _p99 and _max of the starts of first .. first + count - 1. */
void print_lateness(const char *name, unsigned first, unsigned count);

/* A child that dies with its parent.  No store may be open: none is inherited. */
pid_t spawn(void (*role)(void));
void reap(pid_t pid); /* it has to end with 0 */

/* Runs n that a child puts once shared->ready says so, and prints their lateness. */
void run_what_is_put(const char *name, void (*putter)(void));

/*
 * What start_all spawns: it notes what it holds and what it has sent, puts its share of n when shared->go says so, and
 * stops at SIGTERM.
 */
void run_until_term(void);
void start_one(pid_t *pid, unsigned number);
void start_all(pid_t *pids, unsigned count);
void stop_all(const pid_t *pids, unsigned count);
bool all_hold(unsigned count, unsigned each);
double memory_of(pid_t pid); /* bytes that are the process's own */

/* A user's own connection. */
bool user_has_locks_of_rows(void); /* not SQLite, where one writer keeps all others out */
void *user_open(void);
void user_close(void *user);
int64_t user_sql(void *user, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* the first number, or 0 */

/* Those of sql.c. */
void sql_late(void);
void sql_far(void);
void sql_many(void);

/* The scenarios of store/bench/scale.sh, see scale.c, cliffs.c, calls.c, groups.c, fair.c, held.c. */
void scale_far(void);
void scale_window(void);
void scale_herd(void);
void scale_processes(void);
void scale_kinds(void);
void scale_lives(void);
void cliff_backlog(void);
void cliff_once(void);
void cliff_puts(void);
void cliff_each(void);
void cliff_join(void);
void cliff_moved(void);
void cliff_calls(void);
void cliff_group(void);
void group_flood(void);
void group_levels(void);
void group_taken(void);
void group_cancel(void);
void group_pause(void);
void group_crowd(void);
void group_caps(void);
void group_rate(void);
void cliff_snapshot(void);
void cliff_lock(void);
void cliff_soak(void);

#endif
