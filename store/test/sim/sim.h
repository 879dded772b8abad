/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A simulation of the store: several processes, their machines, the network and a database in one thread, under a seed.
 *
 * Structure
 *
 *   test/frame    actors, which are coroutines, simulated time, mutexes and seeds: frame.h
 *   sched.c       actors of processes: which goes on, kill, stop and continue; the story
 *   system.c      in place of threads, clocks, pipes and poll (the linker's --wrap)
 *   timer.c       in place of libhwt
 *   tables.c      tables in memory: transactions, versions, locks, what a crash forgets
 *   statements*.c the statements of sql.h over these tables
 *   late.c        requests that come when nobody waits for them any more
 *   driver.c      the engine that the store takes for PostgreSQL: exchanges over a network that loses
 *   world.c       processes, and what they do
 *   users.c       what users do
 *   rush.c        what they do all at once
 *   rules.c       limits and pauses: how users set them, and what they demand
 *   turns.c       whether groups take turns
 *   pulled.c      runs that a process pulls
 *   scenes.c      the worlds in which they live
 *   promises.c    worlds in which one promise is looked at
 *   silence.c     ... and in which others stand still, hold locks, or never rest
 *   waits.c       ... and in which what is begun waits for long
 *   odd.c         calls that must be refused
 *   faults.c      what befalls them
 *   judge.c       what must hold
 *   inside.c      what a process has in memory
 *   views.c       what calls must say of the tables
 *   main.c        the tests
 *
 *   Users put, one and many, with keys that replace and revive, cancel and reschedule one and all, read and list, also
 *   in transactions of their own, and tasks do so, too.  They limit, pause and resume groups and kinds.  Tasks fail,
 *   ask to run again, give up, end their series, or kill their process.  Some runs are pulled, and end late or never.
 *   Processes die at a time or at a point, stand still, sleep, stop and start, have no memory.  The server forgets what
 *   was not synced, or is replaced by an older one; clocks are set; replies get lost.  Some series follow a clock in
 *   Berlin around the days on which it is set.
 *
 *   The sources of the store run as they are.  A thread may lose its processor at each lock, HWTS_POINT, exchange and
 *   clock.  A process can be killed or stopped at any of these points; what it has sent the server goes on alone.
 *
 *   Each seed runs in a process of its own, so it comes again.  One that fails tells its story.
 *
 *   HWT_SIM_LINES     how many lines of its story a failure tells; frame.h has the other variables
 *   HWT_SIM_VERBOSE   tells the whole story at once
 *   HWT_SIM_OPEN      runs the seeds that are known to fail
 */
#ifndef HWTS_SIM_H
#define HWTS_SIM_H

#include "frame/frame.h"
#include "../inside.h"

#define SIM_PROCESSES 8

/* A process on a machine of its own.  Its number is its pid, a new one for each start. */
struct sim_process {
	char name[24];
	int pid;
	bool is_dead, is_stopped, is_cut;  /* is_cut: its machine has no network */
	unsigned unable;                   /* a bit for each role for which the server fails this process */
	bool connects;                     /* ... but connections can be made */
	unsigned connections;              /* how many connections it has asked for */
	unsigned stands;                   /* 1 + role: stands still in the next long answer or request of that role */
	int64_t continued_ns, cut_ns;      /* when it last was continued, or cut off */
	int64_t mono_ns, boot_ns, wall_ns; /* its clocks minus simulated time */
	unsigned fuse;                     /* dies after this number of points; 0: does not */
	unsigned no_memory;                /* one in this number of allocations is refused, drawn; 0: none */
};

/* Actors */

struct sim_actor *sim_start(struct sim_process *process, const char *name, void *(*act)(void *), void *arg);
void sim_detach(struct sim_actor *actor); /* the actor will not be joined */
struct sim_process *sim_me(void);         /* the process of this actor; NULL: the world */

/*
 * Between the two an actor goes on though its process is stopped or dead; if it is dead, the actor ends with the last
 * leave.
 */
void sim_enter_server(void);
void sim_leave_server(void);

void sim_kill(struct sim_process *process);
void sim_blow(struct sim_process *process); /* faults.c: the fault that was armed fires */
bool sim_has_pid(int pid);                  /* world.c: true if a living process has this pid */
void sim_stop(struct sim_process *process);
void sim_continue(struct sim_process *process);
void sim_shift_waits(struct sim_process *process, int64_t ns); /* the process's clock stood still for ns */

bool sim_hit(unsigned one_of);
int64_t sim_some_time(int64_t max_ns); /* as likely short as long */

/* The story */
__attribute__((format(printf, 1, 2))) void sim_tell(const char *format, ...);
__attribute__((format(printf, 3, 4))) _Noreturn void sim_fail(const char *file, int line, const char *format, ...);
#define SIM_CHECK(condition) ((condition) ? (void)0 : sim_fail(__FILE__, __LINE__, "%s", #condition))

/* Totals of the seeds of a scenario. */
struct sim_sum {
	uint64_t steps, puts, runs, exchanges, faults;
	int64_t lived_ns;
};
extern struct sim_sum *sim_sum;

/* system.c: the most steps of the store between a lock and its unlock, since the last call. */
uint64_t sim_most_locked(void);

/* system.c: for a process that has died; for a process that polls. */
void sim_close_all(struct sim_process *process);
void sim_wake_poll(const struct sim_process *process);
void sim_step_wall(struct sim_process *process, int64_t ns);

/* driver.c: fd is the descriptor of a connection that hears news. */
bool sim_has_news(int fd, int64_t *when_ns); /* *when_ns: when there will be news */
#define SIM_NEWS_FD 3000

#endif
