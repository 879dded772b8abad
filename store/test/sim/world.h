/* SPDX-License-Identifier: BSD-2-Clause */
/* The world of a seed: processes, timeouts, and what befalls them; world.c, scenes.c, faults.c, judge.c. */
#ifndef HWTS_SIM_WORLD_H
#define HWTS_SIM_WORLD_H

#include "driver.h"

#define NODES 5
#define ITEMS 4096               /* users begin no put beyond them */
#define ITEMS_ROOM (ITEMS + 512) /* those that are under way */
#define KINDS 5
#define SIM_SPRING_S INT64_C(1806195600) /* Berlin leaves an hour out, in 2027 */
#define SIM_AUTUMN_S INT64_C(1824944400) /* ... has one twice */
#define SIM_LOCAL_LINE "30 2 * * *"      /* in Berlin */
#define GROUPS 5                         /* the first is none */

/* A timeout as its users know it. */
struct item {
	int64_t id;
	enum { CALLED, ACCEPTED, REFUSED } put; /* CALLED: what became of it is not known */
	unsigned kind, mode, key;               /* key 0: none */
	int64_t period_us, least_us;            /* not before */
	bool is_local;                          /* its line is SIM_LOCAL_LINE */
	unsigned fails;                         /* so often */
	int64_t lasts_ns;
	bool is_poisoned, ends_badly; /* the database refuses to begin it; or to end it only */
	unsigned group;               /* 0: none */
	int priority;
	bool is_undone; /* the end of its last run was forgotten */
	unsigned flags; /* of its put */
	unsigned batch; /* that were put together, 0: alone; they are neighbours */
	unsigned at_in_batch;
	int64_t grace_us;
	unsigned agains;     /* so often it answers that it wants to run again */
	bool gives_up;       /* each time */
	unsigned kills;      /* so often its task kills its process */
	size_t len;          /* of its data */
	unsigned last_start; /* a series: with this start it ends; 0: it does not */
	unsigned parent;     /* put in the transaction of this one's run: its number + 1 */
	bool is_moved;       /* its grid may be another by now */
	bool gave_up, ended_series;
	bool is_over;        /* its series: it has said so, and the run was its row's */
	int may_start_again; /* how many reschedules may have succeeded */

	unsigned starts, returned, done; /* done: a task returned 0 */
	unsigned running[NODES];
	bool cancelled, may_be_cancelled;
	bool is_off;          /* as it was cancelled or replaced, by its holder, it had been begun and did not start */
	bool replaced;        /* known to be so, and what has replaced it not to be dropped */
	int64_t epoch[NODES]; /* of its last start */
	int64_t accepted_ns;
	bool is_another; /* its row has become that of what has replaced it */
	bool lost;       /* the server has forgotten a commit about it that was synced: nothing is promised any more */
	int64_t began_ns, ended_ns;
	int64_t held_up_ns; /* when a user's lock was last in its way */
};

extern struct item items[ITEMS_ROOM];
extern unsigned item_count;

struct node {
	struct sim_process *process;
	hwt_store *store;
	unsigned number;
	bool is_worker, is_up, halts;                 /* is_up: it has a process; halts: it has to stop */
	int64_t stops_since_ns;                       /* 0: it does not */
	int64_t late_ns;                              /* when it has last started something late */
	bool fell;                                    /* its own task has killed it */
	unsigned threads, running[KINDS], out, pulls; /* out: pulled, and not ended */
	bool drops;                                   /* it is closed whatever is out */
};
extern struct node nodes[NODES];
extern unsigned node_count;

enum fault {
	KILL,
	STOP,
	SUSPEND,
	CUT,
	RESTART,
	LOSE,
	FREEZE,
	CRASH,
	SLOW,
	LOCK,
	SNAPSHOT,
	DEAFEN,
	FAIL_OVER,
	STEP_SERVER,
	STEP_CLIENT,
	KILL_AT,
	NO_MEMORY,
	FAULTS
};

struct settings {
	int64_t length_ns;
	unsigned faults;                           /* which there are, a bit each */
	unsigned max_attempts, concurrency[KINDS]; /* 0: all threads */
	int64_t backoff_ns, horizon_ns;
	int64_t most_late_ns; /* nothing is out of order, so all starts in time; 0: it may be */
	bool replaces;        /* best what runs */
	bool long_tasks, poisons, pauses, kills, one_name; /* one_name: they are all configured with it */
	bool rules;                                        /* users set them */
	bool damages;                                      /* ... edit the tables: nothing need run after that */
	bool is_flooded;                                   /* one group has much more that is due than the others */
	bool is_crowded;          /* all is of few groups and kinds, and due at the same times */
	void *(*use)(void *node); /* what users do; NULL: anything */
};
extern struct settings sim_settings;
extern int64_t sim_epoch_ns;     /* what the clocks show, about, before the first second */
extern int64_t sim_fault_ns;     /* the last time that something was out of order */
extern int64_t sim_step_ns;      /* the last time that the server's clock was set */
extern int64_t sim_late_ns;      /* the sum of all starts */
extern unsigned sim_fault_count; /* that are going on */
extern bool sim_is_over;

/* In scenes.c. */
void sim_live(void);
void sim_live_with_puts_that_replace(void);
void sim_live_in_peace(void);
void sim_live_under_rules(void);
void sim_live_beside_a_flood(void);
void sim_live_asleep(void);
void sim_live_refused(void);
void sim_live_idly(void);
void sim_live_after_two_deaths(void);
void sim_live_beside_a_busy_kind(void);
void sim_live_cut_off(void);
void sim_live_with_a_server_that_crashes(void);
unsigned sim_put_in(struct node *node, unsigned kind, unsigned group, int64_t delay_ns, int64_t lasts_ns);
void sim_settle_world(void); /* parts of lives */
void sim_settle_scene(int64_t lease_ns, void *(*use)(void *node));
void sim_make_tables(void);
void sim_start_workers(unsigned count, unsigned threads);
void sim_come_to_the_end(void);
void sim_stop_all(void);

/* In promises.c. */
void sim_live_beside_an_old_snapshot(void);
void sim_live_beside_one_that_cannot_begin(void);
void sim_live_with_a_herd(void);
void sim_live_with_moves(void);
void sim_live_with_readings(void);
void sim_live_beside_a_lock(void);
void sim_live_beside_a_forger(void);
void sim_live_behind_forged_news(void);
void sim_live_with_damaged_rows(void);

/* In silence.c. */
void sim_live_beside_one_that_stands_still(void);
void sim_live_beside_users_that_lock(void);
void sim_live_beside_users_that_make_kinds(void);
void sim_live_with_rules_that_change_at_once(void);
void sim_live_with_many_rests(void);

/* In odd.c. */
void sim_call_oddly(struct node *node);

/* In faults.c. */
void *sim_befall(void *unused);
void *sim_befall_sleepers(void *unused);
void *sim_befall_replies(void *unused);
void *sim_tend(void *unused);
void sim_heal(void);
void sim_crash_server(int64_t down_ns);
void sim_lock_rows(int64_t ns);
struct tx *sim_hold_a_row(enum table table); /* in a user's transaction */

/* In world.c. */
extern const struct sim_kind {
	const char *name;
	unsigned mode, flags;
} sim_kinds[KINDS];
extern const char *const sim_group_names[GROUPS];
void sim_set_kind(struct item *item, unsigned kind);
unsigned sim_bound(const struct node *node, unsigned kind); /* runs of it at once; 0: any number */
void sim_begin_run(struct item *item, struct node *node, const hwt_store_run *run);
int sim_work(struct item *item, struct node *node, const hwt_store_run *run);
void sim_end_run(struct item *item, struct node *node);
void sim_start_node(struct node *node);
void sim_kill_node(struct node *node);

/* In pulled.c. */
void *sim_pull(void *node); /* until it halts */
void sim_drop_pulled(struct node *node);

/* In rules.c. */
void sim_draw_group(unsigned *kind, unsigned *group);            /* of a crowd */
void sim_rule(struct node *node);                                /* a user sets or lifts one */
void sim_lift_rules(struct node *node);                          /* all */
bool sim_is_ruled(const struct item *item);                      /* by one of all that there have been */
void sim_judge_rules(const struct item *item, bool was_stopped); /* a start, before it is counted */
void sim_note_end(const struct item *item);
int64_t sim_waits_since_us(const struct item *item, int64_t since_us, int64_t *more_us); /* for its group */

bool sim_has_waited(const struct version *t, const struct row *row);

/* In turns.c: of a start. */
void sim_judge_turns(const struct item *item, const struct node *node);

/* In rush.c. */
bool sim_begin_rush(int64_t puts_ns); /* false: there is one; puts_ns: until what is put is due */
void sim_call_to_rush(void);          /* all is put */
void sim_wait_for_rush(int64_t until_ns);
bool sim_is_rush(void);
bool sim_draw_rush(struct item *item, int64_t *delay_ns); /* false: none is to come */
struct item *sim_rush_item(const struct node *node);      /* that is to be called for */

/* In users.c. */
void *sim_use(void *node); /* until it halts */
void sim_use_once(struct node *node);
void sim_replace(struct node *node, const struct item *item);                              /* which runs */
bool sim_put_child(struct node *node, unsigned parent, void *connection, unsigned *child); /* in a transaction */

/* In inside.c: looks at the memory of a process, such as the timeouts that it has begun. */
int64_t sim_queued_ns(const struct node *node, int64_t id); /* since when it waits for a thread; 0: it does not */
bool sim_waits_here(const struct node *node, int64_t id);   /* it is begun, and has not started */
void sim_count_inside(struct node *node);
void sim_read_again(struct node *node); /* asks for a reading of all that it holds */

/* In judge.c. */
const struct version *sim_committed(const struct row *row);
#define EACH_COMMITTED(table, t)                                                                                       \
	EACH_ROW(table, row) for (const struct version *t = sim_committed(row); (t); (t) = NULL)
struct item *sim_item_of(const struct version *version);
void sim_judge_start(struct item *item, const hwt_store_run *run, const struct node *node);
void sim_judge_begun(const struct node *node, unsigned kind);
bool sim_is_anothers(const struct item *item,
		     const hwt_store_run *run);                  /* which has begun it since, and it should know */
void sim_note_over(struct item *item, const hwt_store_run *run); /* it ends its series */
bool sim_has_key_of(const struct item *a, const struct item *b);
void *sim_watch(void *unused);
bool sim_is_quiet(void); /* but for series */
void sim_judge_all(void);
bool sim_is_running(const struct item *item);
bool sim_lacks_threads(const struct node *node);
bool sim_is_long(const struct item *item); /* its run, so far */

/* In views.c: what the tables say before a call, and once it has returned. */
struct view;
struct view *sim_view(unsigned kind, unsigned group, bool any_group, unsigned states);
void sim_view_heard(struct view *view, const hwt_store_info *info);
void sim_view_listed(struct view *view);  /* it has returned: what is there as it was, was told of once */
void sim_view_changed(struct view *view); /* ... is no more as it was */
void sim_view_free(struct view *view);
/* Of a call about a timeout, whose row was such before it. */
void sim_judge_none(const struct version *before, int64_t id, unsigned starts, int rc);
bool sim_holds(const struct node *node, const struct version *shard);
bool sim_is_owner(const struct node *node, const struct version *t); /* ... under the epoch of the row */
void sim_judge_get(int64_t id, const struct version *before, unsigned starts, int rc, const hwt_store_info *info);
const struct version *sim_row_of_id(int64_t id);

#endif
