/* SPDX-License-Identifier: BSD-2-Clause */
/* The world of a seed: processes, timeouts, and what befalls them; world.c, scenes.c, faults.c, judge.c. */
#ifndef HWTS_SIM_WORLD_H
#define HWTS_SIM_WORLD_H

#include "driver.h"

#define NODES 5
#define ITEMS 4096
#define MODES 3

/* A timeout as its users know it. */
struct item {
	int64_t id;
	enum { CALLED, ACCEPTED, REFUSED } put; /* CALLED: what became of it is not known */
	unsigned mode, key;                     /* key 0: none */
	int64_t period_us, least_us;            /* not before */
	unsigned fails;                         /* so often */
	int64_t lasts_ns;
	bool is_poisoned, grouped;
	int may_start_again; /* how many reschedules may have succeeded */

	unsigned starts, returned, done; /* done: a task returned 0 */
	unsigned running[NODES];
	bool cancelled, may_be_cancelled;
	unsigned revived; /* its row has become that of another: which, and one */
	bool lost;        /* the server has forgotten a commit about it that was synced: nothing is promised any more */
	int64_t ended_ns;
};

extern struct item items[ITEMS];
extern unsigned item_count;

struct node {
	struct sim_process *process;
	hwt_store *store;
	unsigned number;
	bool is_worker, is_up, halts; /* is_up: it has a process; halts: it has to stop */
	unsigned threads;
};
extern struct node nodes[NODES];
extern unsigned node_count;

enum fault { KILL, STOP, SUSPEND, CUT, RESTART, LOSE, FREEZE, CRASH, SLOW, LOCK, SNAPSHOT, DEAFEN, FAIL_OVER, FAULTS };

struct settings {
	int64_t length_ns;
	unsigned faults; /* which there are, a bit each */
	unsigned max_attempts;
	int64_t backoff_ns;
	bool long_tasks, poisons;
	void *(*use)(void *node); /* what users do; NULL: anything */
};
extern struct settings sim_settings;
extern int64_t sim_fault_ns;     /* the last time that something was out of order */
extern unsigned sim_fault_count; /* that are going on */
extern bool sim_is_over;

/* In scenes.c. */
void sim_live(void);
void sim_live_after_two_deaths(void);
void sim_live_beside_a_busy_kind(void);
void sim_live_cut_off(void);
void sim_live_with_a_server_that_crashes(void);

/* In faults.c. */
void *sim_befall(void *unused);
void sim_heal(void);
void sim_crash_server(int64_t down_ns);
void sim_lock_rows(int64_t ns);

/* In world.c. */
extern const char *const sim_kind_names[MODES];
void sim_start_node(struct node *node);
void sim_kill_node(struct node *node);

/* In judge.c. */
void sim_judge_start(const struct item *item, const hwt_store_run *run);
void *sim_watch(void *unused);
bool sim_is_quiet(void); /* but for series */
void sim_judge_all(void);
bool sim_is_running(const struct item *item);

#endif
