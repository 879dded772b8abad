/* SPDX-License-Identifier: BSD-2-Clause */
/* The world of a seed: processes, timeouts and faults; world.c, scenes.c, faults.c, judge.c. */
#ifndef HWTS_SIM_WORLD_H
#define HWTS_SIM_WORLD_H

#include "driver.h"

#define NODES 5
#define ITEMS 4096               /* users begin no put beyond this number */
#define ITEMS_ROOM (ITEMS + 512) /* room for puts that are under way */
#define KINDS 5
#define SIM_SPRING_S INT64_C(1806195600) /* the hour that Berlin leaves out in 2027 */
#define SIM_AUTUMN_S INT64_C(1824944400) /* the hour that Berlin has twice */
#define SIM_LOCAL_LINE "30 2 * * *"      /* in Berlin */
#define GROUPS 5                         /* the first stands for no group */

/* A timeout as its users know it. */
struct item {
	int64_t id;
	enum { CALLED, ACCEPTED, REFUSED } put; /* CALLED: the result is not known */
	unsigned kind, mode, key;               /* key 0: none */
	int64_t period_us, least_us;            /* least_us: the earliest due time */
	bool is_local;                          /* its line is SIM_LOCAL_LINE */
	unsigned fails;                         /* how often its task fails */
	int64_t lasts_ns;
	bool is_poisoned, ends_badly; /* is_poisoned: the database refuses its begins; ends_badly: only its ends */
	unsigned group;               /* 0: none */
	int priority;
	bool is_undone; /* the end of its last run was forgotten */
	unsigned flags; /* of its put */
	unsigned batch; /* size of its put_many, whose items are neighbours; 0: put alone */
	unsigned at_in_batch;
	int64_t grace_us;
	unsigned agains;     /* how often its task answers hwt_store_again */
	bool gives_up;       /* its task always gives up */
	unsigned kills;      /* how often its task kills its process */
	size_t len;          /* of its data */
	unsigned last_start; /* a series ends with this start; 0: it does not */
	unsigned parent;     /* number + 1 of the item in whose transaction it was put */
	bool is_moved;       /* a move may have changed its grid */
	bool gave_up, ended_series;
	bool is_over;        /* its series has ended by the task's answer, in a run that was still the row's */
	int may_start_again; /* how many reschedules may have succeeded */

	unsigned starts, returned, done; /* done: runs that returned 0 */
	unsigned running[NODES];
	bool cancelled, may_be_cancelled;
	bool is_off;          /* when its holder cancelled or replaced it, it was begun and had not started */
	bool replaced;        /* known to be replaced, and its replacement not dropped */
	int64_t off_ns;       /* when it was known to be cancelled or replaced */
	int64_t epoch[NODES]; /* of its last start */
	int64_t accepted_ns;
	bool is_another; /* its replacement was filed: the row is now the replacement's */
	bool lost;       /* the server has forgotten a synced commit about it: nothing is promised any more */
	int64_t began_ns, ended_ns;
	int64_t held_up_ns; /* when a user's lock last held it up */
};

extern struct item items[ITEMS_ROOM];
extern unsigned item_count;

struct node {
	struct sim_process *process;
	hwt_store *store;
	unsigned number;
	bool is_worker, is_up, halts;                 /* is_up: it has a process; halts: it has to stop */
	int64_t stops_since_ns;                       /* 0: it is not being stopped */
	int64_t late_ns;                              /* when it last started something late */
	bool fell;                                    /* its own task has killed it */
	unsigned threads, running[KINDS], out, pulls; /* out: pulled runs that are not ended */
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
	unsigned faults;                           /* a bit for each kind of fault */
	unsigned max_attempts, concurrency[KINDS]; /* 0: all threads */
	int64_t backoff_ns, horizon_ns;
	int64_t most_late_ns; /* not 0: nothing is out of order, so everything starts in time */
	bool replaces;        /* mostly what runs */
	/* one_name: all processes are configured with the same name. */
	bool long_tasks, poisons, pauses, kills, one_name;
	bool rules;               /* users set rules */
	bool damages;             /* ... and edit the tables: nothing need run after that */
	bool leaves;              /* programs come late for what they pull */
	bool is_flooded;          /* one group has many more due timeouts than the others */
	bool is_crowded;          /* all timeouts are of few groups and kinds, and due at the same times */
	bool tells;               /* users ask why what they have paused does not run */
	void *(*use)(void *node); /* what users do; NULL: anything */
};
extern struct settings sim_settings;
extern int64_t sim_epoch_ns;     /* about what the clocks show at the beginning */
extern int64_t sim_fault_ns;     /* when something was last out of order */
extern int64_t sim_step_ns;      /* when the server's clock was last set */
extern int64_t sim_late_ns;      /* sum of the lateness of all starts */
extern unsigned sim_fault_count; /* how many faults are going on */
extern bool sim_is_over;

/* scenes.c */
void sim_live(void);
void sim_live_with_puts_that_replace(void);
void sim_live_in_peace(void);
void sim_live_under_rules(void);
void sim_live_and_tell(void);
void sim_live_beside_a_flood(void);
void sim_live_asleep(void);
void sim_live_refused(void);
void sim_live_idly(void);
void sim_live_after_two_deaths(void);
void sim_live_beside_a_busy_kind(void);
void sim_live_cut_off(void);
void sim_live_with_a_server_that_crashes(void);
unsigned sim_put_in(struct node *node, unsigned kind, unsigned group, int64_t delay_ns, int64_t lasts_ns);
void sim_settle_world(void); /* parts that scenes share */
void sim_settle_scene(int64_t lease_ns, void *(*use)(void *node));
void sim_make_tables(void);
void sim_start_workers(unsigned count, unsigned threads);
void sim_come_to_the_end(void);
void sim_stop_all(void);

/* promises.c */
void sim_live_beside_an_old_snapshot(void);
void sim_live_beside_one_that_cannot_begin(void);
void sim_live_with_a_herd(void);
void sim_live_with_moves(void);
void sim_live_with_readings(void);
void sim_live_beside_a_lock(void);
void sim_live_beside_a_forger(void);
void sim_live_behind_forged_news(void);
void sim_live_with_damaged_rows(void);

/* silence.c */
void sim_live_beside_one_that_stands_still(void);
void sim_live_beside_users_that_lock(void);
void sim_live_beside_users_that_make_kinds(void);
void sim_live_beside_rules_that_change_at_once(void);
void sim_live_with_rules_that_change_at_once(void);
void sim_live_with_many_rests(void);

/* waits.c */
void sim_live_with_what_waits(void);

/* odd.c */
void sim_call_oddly(struct node *node);

/* faults.c */
void *sim_befall(void *unused);
void *sim_befall_sleepers(void *unused);
void *sim_befall_replies(void *unused);
void *sim_tend(void *unused);
void sim_heal(void);
void sim_crash_server(int64_t down_ns);
void sim_lock_rows(int64_t ns);
struct tx *sim_hold_a_row(enum table table); /* in a user's transaction */

/* world.c */
extern const struct sim_kind {
	const char *name;
	unsigned mode, flags;
} sim_kinds[KINDS];
extern const char *const sim_group_names[GROUPS];
void sim_set_kind(struct item *item, unsigned kind);
unsigned sim_bound(const struct node *node, unsigned kind); /* most runs of it at once; 0: any number */
void sim_begin_run(struct item *item, struct node *node, const hwt_store_run *run);
int sim_work(struct item *item, struct node *node, const hwt_store_run *run);
void sim_end_run(struct item *item, struct node *node);
void sim_start_node(struct node *node);
void sim_kill_node(struct node *node);

/* pulled.c */
void *sim_pull(void *node); /* until the process halts */
void sim_drop_pulled(struct node *node);

/* rules.c */
void sim_draw_group(unsigned *kind, unsigned *group);            /* for a crowd */
void sim_rule(struct node *node);                                /* a user sets or lifts a rule */
void sim_lift_rules(struct node *node);                          /* all rules */
bool sim_is_ruled(const struct item *item);                      /* by any rule so far */
bool sim_is_paused(const struct item *item);                     /* and all processes know it */
bool sim_is_reason(hwt_store_wait why);                          /* to wait, for some timeout */
void sim_judge_stats(struct node *node);
void sim_judge_rules(const struct item *item, bool was_stopped); /* judges a start before it is counted */
void sim_note_end(const struct item *item);
int64_t sim_waits_since_us(const struct item *item, int64_t since_us, int64_t *more_us); /* for its group */

bool sim_has_waited(const struct version *t, const struct row *row);

/* turns.c: judges a start. */
void sim_judge_turns(const struct item *item, const struct node *node);

/* rush.c */
bool sim_begin_rush(int64_t puts_ns); /* false: there is one already; puts_ns: how soon its timeouts are due */
void sim_call_to_rush(void);          /* all puts are done */
void sim_wait_for_rush(int64_t until_ns);
bool sim_is_rush(void);
bool sim_draw_rush(struct item *item, int64_t *delay_ns); /* false: no rush is coming */
struct item *sim_rush_item(const struct node *node);      /* the item to make a call about */

/* users.c */
void *sim_use(void *node); /* until the process halts */
void sim_use_once(struct node *node);
void sim_replace(struct node *node, const struct item *item); /* replaces an item that runs */
bool sim_put_child(struct node *node, unsigned parent, void *connection, unsigned *child); /* in a transaction */

/* inside.c: looks at the memory of a process, such as the timeouts that it has begun. */
int64_t sim_queued_ns(const struct node *node, int64_t id); /* since when it waits for a thread; 0: it does not */
bool sim_waits_here(const struct node *node, int64_t id);   /* begun, and not started */
void sim_count_inside(struct node *node);
void sim_read_again(struct node *node); /* asks for a reading of all shards that it holds */

/* judge.c */
const struct version *sim_committed(const struct row *row);
#define EACH_COMMITTED(table, t)                                                                                       \
	EACH_ROW(table, row) for (const struct version *t = sim_committed(row); (t); (t) = NULL)
struct item *sim_item_of(const struct version *version);
void sim_judge_start(struct item *item, const hwt_store_run *run, const struct node *node);
void sim_judge_begun(const struct node *node, unsigned kind);
bool sim_is_anothers(const struct item *item,
		     const hwt_store_run *run); /* another process has begun it since, and this one should know */
void sim_note_over(struct item *item, const hwt_store_run *run); /* the run ends its series */
bool sim_has_key_of(const struct item *a, const struct item *b);
void *sim_watch(void *unused);
bool sim_is_quiet(void); /* nothing is left but series */
void sim_judge_all(void);
bool sim_is_running(const struct item *item);
bool sim_lacks_threads(const struct node *node);
bool sim_is_long(const struct item *item); /* its run so far */

/* views.c: the state of the tables before a call, compared once it has returned. */
struct view;
struct view *sim_view(unsigned kind, unsigned group, bool any_group, unsigned states);
void sim_view_heard(struct view *view, const hwt_store_info *info);
void sim_view_listed(struct view *view);  /* after a list: a row that has not changed was listed once */
void sim_view_changed(struct view *view); /* after a change of all: no row is as it was */
void sim_view_free(struct view *view);
/* For a call about one timeout; before: its row before the call. */
void sim_judge_none(const struct version *before, int64_t id, unsigned starts, int rc);
bool sim_holds(const struct node *node, const struct version *shard);
bool sim_is_owner(const struct node *node, const struct version *t); /* under the epoch of the row */
void sim_judge_get(int64_t id, const struct version *before, unsigned starts, int rc, const hwt_store_info *info);
const struct version *sim_row_of_id(int64_t id);

#endif
