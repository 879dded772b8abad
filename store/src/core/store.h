/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A store, and the parts of a started one.
 *
 * Structure
 *
 *     database --reader, news--> window --timer--> due --beginner--> queue --tasks--> ends --ender--> database
 *        ^ control: lease, shards, clock
 *
 *   The window has an entry for each row that this process may have to begin soon, or has begun.  The row says the
 *   truth: an entry that is wrong costs one begin in vain.
 *
 *     entry:  ARMED -timer-> DUE -beginner-> BEGUN -end committed-> gone
 *                ^            |                 |
 *                +- not yet --+                 +- filed again, or news meanwhile -> ARMED
 *
 *   The timer's argument is the entry.  The timer's task looks whether the entry still has its handle, so it may race
 *   an erase; the memory of an entry stays one until the timer is gone.
 *
 * Threads
 *
 *   control   renews the lease, balances shards, hears news, reconnects
 *   reader    looks ahead; while it has nothing to do control sends its looks along with the renewals
 *   timer     libhwt's worker: moves entries from ARMED to DUE
 *   beginner  begins what is DUE, by batches: while one is under way the next gathers
 *   tasks     run what has been begun
 *   ender     commits ends, by batches, until the database has them
 *   callers   put, cancel, ...: each on a connection of the pool
 *
 *   One lock guards everything below "lock".  Nobody holds it during an exchange with the database or a task.
 *
 * Invariants
 *
 *   I1  an id has at most one entry, so this process begins a row at most once at a time
 *   I2  shard.active = rows of the shard that were begun here and whose end is not committed; a shard with active > 0
 *       is not given away, unless this process is unable to commit the ends, and nothing else is left there
 *   I3  nothing is begun or started unless CLOCK_BOOTTIME < trusted_ns = (time before the last renewal was sent) +
 *       5/6 of the lease
 *   I4  a row of a held shard that is due before the shard's mark has an entry, or has been told of, or is found by the
 *       next look-ahead.  What comes while the reader looks, and within the reach of that look, gets an entry though
 *       it may be beyond the mark: the look may have read too early, and its mark passes the row
 *
 * The net
 *
 *   No promise rests on a single wake-up.  Each renewal wakes every thread that has work, and its look also reads what
 *   has been due for more than a third of the lease: a row that is not on its way is put on its way.  So whatever was
 *   lost (a notification, a wake-up, a tick of the timer) costs two thirds of a lease, and not the timeout.
 */
#ifndef HWTS_STORE_H
#define HWTS_STORE_H

#include "core/rows.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/types.h>

#define HWTS_WINDOW_MAX 200000 /* entries: kinds share it, and beyond its share a kind's look-ahead waits */
#define HWTS_PAGE 5000         /* rows in one look, of all shards together */
#define HWTS_BATCH_BYTES ((size_t)4 << 20)
#define HWTS_QUEUE_BYTES ((size_t)16 << 20)

struct hwts_shard {
	int32_t id;
	bool held, giving;
	bool unread; /* there may be more between its mark and the end of the look-ahead */
	int64_t epoch;
	int64_t mark_due_us, mark_id;
	int64_t reach_us; /* how far the look that is under way reads here; 0: it does not */
	int64_t giving_since_ns;
	int64_t stays_until_ns; /* it could not be given, for something ran there: until then it is not tried again */
	unsigned active;        /* I2 */
	unsigned ending;        /* of these, those that have run: their end is to be committed */
};

struct hwts_due_list {
	struct hwts_entry *first, *end;
};

struct hwts_kind {
	struct hwts_kind *next;
	char name[HWTS_NAME_MAX + 1];
	struct hwts_kind_row row;

	/* If it is registered. */
	bool registered;
	hwt_store_task *task;
	void *ctx;
	unsigned concurrency, max_attempts;
	int64_t backoff_us, backoff_max_us;
	struct hwts_shard *shards;

	struct hwts_due_list due[2]; /* the entries that are DUE; [1]: for their last attempt */
	struct hwts_row *queue, **queue_end;
	unsigned queued, running;
	size_t entries; /* in the window */
	bool behind;    /* there is more than it has room for */
	int64_t run_ns; /* how long a run has a thread: a mean of the last ones; 0: none has been */
};

enum hwts_entry_state { HWTS_FREE, HWTS_ARMED, HWTS_IS_DUE, HWTS_BEGUN };

struct hwts_entry {
	int64_t id, due_us;
	int64_t again_us; /* news while it was not ARMED; HWTS_NEVER: none */
	uint64_t heard;   /* the number of the last news about it, of all that the window has heard */
	hwt_timeout timeout;
	hwt_store *store;
	struct hwts_kind *kind;
	struct hwts_entry *next;     /* in the chain of its bucket, or of free ones */
	struct hwts_entry *due_next; /* in a list of its kind */
	uint32_t len;
	int32_t shard;
	enum hwts_entry_state state;
	bool unsure;  /* the reply to its begin was lost */
	bool last;    /* its next attempt is its last: only for a thread that is free */
	bool aside;   /* the database refuses to begin it: tried again each lease, whatever news says */
	bool between; /* BEGUN, and neither in the queue nor started: what becomes of it is known in a moment */
};

/* The largest of each of the last 60 seconds. */
struct hwts_peak {
	int64_t second[60], ns[60];
};

#define HWTS_SLAB_ENTRIES 256
struct hwts_slab { /* entries stay where they are until the timer is gone: its tasks point to them */
	struct hwts_slab *next;
	struct hwts_entry entries[HWTS_SLAB_ENTRIES];
};

struct hwts_reader;
struct hwts_threads;

struct hwts_window {
	hwt_timer *timer;
	struct hwts_slab *slabs;
	struct hwts_entry **buckets, *free;
	size_t bucket_count, count;
	uint64_t heard;
};

/* The database's clock: a lower bound, by at most one round trip. */
struct hwts_clock {
	int64_t offset_ns; /* database - CLOCK_MONOTONIC */
	int64_t best_ns;   /* the shortest round trip, aged */
	int64_t steady_us; /* database - CLOCK_BOOTTIME, as the grids of series follow it: without leaps */
	int64_t leapt_ns;  /* CLOCK_BOOTTIME: when the database's clock leapt ahead of that; 0: it has not */
	bool known;
};

/* Connections of callers; pool.c. */
struct hwts_pool {
	pthread_mutex_t lock;
	pthread_cond_t freed;
	struct hwts_conn *idle;
	unsigned idle_count, used_count;
	unsigned connects; /* counts new connections to a server: numbers drawn before may be drawn again */
};

/* Numbers of ids that are drawn and not used; numbers.c. */
struct hwts_numbers {
	pthread_cond_t wanted;
	struct {
		int64_t next, left;
	} ranges[2];       /* the first is used up before the second */
	int64_t block;     /* how many are drawn the next time */
	unsigned connects; /* of the store, when they were drawn */
	bool drawing, has_drawer, halt;
	pthread_t drawer;
};

/* A call that shares its commit with others; begins a structure of its kind.  group.c */
struct hwts_request {
	struct hwts_request *next;
	size_t bytes; /* that it sends */
	int rc;
	bool done;
	bool alone;     /* set by the act: others have a lock that it needs, and its thread is to do it by itself */
	char text[256]; /* of its failure */
};

typedef void hwts_group_act(hwt_store *store, struct hwts_request *requests, size_t n);

struct hwts_group {
	hwts_group_act *act;
	pthread_mutex_t lock;
	pthread_cond_t done;
	struct hwts_request *first, **end;
	bool led;
};

/*
 * Since when this process has failed to do what was to be done, of each kind of connection; ability.c.
 */
struct hwts_ability {
	int64_t since_ns[HWTS_TASK + 1]; /* hwt_now() of the first failure behind the last success; 0: it is able */
	int64_t failed_ns;               /* the last failure */
	int64_t until_ns, pause_ns;      /* until then it wants no shard that another process can have; for how long */
	bool lacks;                      /* what the last renewal has said */
};

enum hwts_phase { HWTS_STOPPED, HWTS_STARTED, HWTS_STOPPING };

struct hwt_store {
	struct hwts_db *db;
	const struct hwts_engine *engine;
	char *url;

	/*
	 * The name of the process while it is started: config.name, or what has been made of it; "": putter.  Before
	 * and after it has another: a process that only puts may be configured as a worker is, and must not be taken
	 * for that.
	 */
	char name[HWTS_MEMBER_MAX + 1], putter[HWTS_MEMBER_MAX + 1];
	hwt_store_config config;
	pid_t pid; /* that has opened it */

	pthread_mutex_t life; /* start, stop, register: one at a time */

	struct hwts_pool pool;
	struct hwts_numbers numbers;
	struct hwts_group puts, cancels;

	pthread_mutex_t lock;
	pthread_cond_t stirred;
	struct hwts_threads *threads; /* by their role */
	enum hwts_phase phase;
	struct hwts_kind *kinds;
	struct hwts_window window;
	struct hwts_clock clock;
	struct hwts_ability ability;
	int64_t trusted_ns; /* CLOCK_BOOTTIME */
	bool joined;
	unsigned due_count;
	unsigned queued, running; /* of all kinds */
	size_t queued_bytes;
	unsigned active; /* begun, end not committed */
	unsigned lent;   /* of these, with calls that change them; unbegin.c */
	unsigned doubts; /* how often the server was gone: hwts_doubt_begun */
	struct hwts_row *ends, **ends_end;
	int64_t ends_until_ns;      /* once the ender halts: how long it waits for rows that others have locked */
	bool abandons;              /* shards are given whatever runs there */
	bool look_soon, load_again; /* what control has to do: a renewal; and behind it all is read again */

	/* What the reader has to do. */
	int64_t seen_us; /* the database's clock at the last renewal */
	bool read_again; /* all shards, from the beginning */
	bool sweep_due, unread;
	struct hwts_reader *reader; /* NULL: its thread does not run */

	hwt_store_stats stats;
	struct hwts_peak lateness;

	pthread_t stopper; /* of a stop that need not come to its end, hwt_store_stop_within; with life */
	bool has_stopper, stopper_done;
	int poke[2]; /* wakes control */
	int clock_fd;
	struct hwts_renewal renewal; /* control's */
	bool told_error;             /* control's: it has warned of an EIO */
};

/* A row that runs, on the stack of its thread. */
struct hwts_running {
	hwt_store_run run;
	hwt_store *store;
	struct hwts_row *row;

	/* What it says if its task returns HWT_STORE_ANSWER; the last call counts. */
	enum { HWTS_NO_ANSWER, HWTS_AGAIN, HWTS_GIVE_UP, HWTS_END_SERIES } answer;
	int64_t again_us; /* the delay */
	char why[HWTS_ERROR_MAX + 1];
};

extern _Thread_local struct hwts_running *hwts_running; /* the innermost run of this thread */

/* In store.c. */
void hwts_warn(hwt_store *store, const char *format, ...) __attribute__((format(printf, 2, 3)));
int hwts_check_store(const hwt_store *store); /* EINVAL: NULL, or in a child that was forked */
bool hwts_in_task_of(const hwt_store *store);
bool hwts_holds_lock(const hwt_store *store); /* this thread is in a transaction that would block the call */
int64_t hwts_backoff_ns(unsigned failures);
void hwts_poke(hwt_store *store); /* control: something has changed */
/* With the lock. */
void hwts_inactive(hwt_store *store, struct hwts_shard *shard); /* one begun row less */
struct hwts_shard *hwts_shard(hwt_store *store, int32_t shard, struct hwts_kind **kind);

/* In pool.c. */
int hwts_connect(hwt_store *store, enum hwts_role role, struct hwts_conn **conn);
int hwts_connect_role(hwt_store *store, enum hwts_role role, unsigned *failures); /* if its connection is of no use */
int hwts_reconnect(hwt_store *store, struct hwts_conn **conn, enum hwts_role role, unsigned *failures);
int hwts_pool_get(hwt_store *store, struct hwts_conn **conn);
void hwts_pool_put(hwt_store *store, struct hwts_conn *conn);
void hwts_pool_init(struct hwts_pool *pool);
void hwts_pool_close(hwt_store *store);

/* In numbers.c. */
void hwts_numbers_open(hwt_store *store, struct hwts_conn *conn);
void hwts_numbers_close(hwt_store *store);
int hwts_numbers_give(hwt_store *store, struct hwts_conn *conn, struct hwts_put *puts, size_t n);
int hwts_numbers_give_on(hwt_store *store, void *connection, struct hwts_put *put); /* EAGAIN: none are in hand */
void hwts_numbers_refill(hwt_store *store);                                         /* after that put */

/* In group.c. */
void hwts_group_init(struct hwts_group *group, hwts_group_act *act);
void hwts_group_destroy(struct hwts_group *group);
void hwts_group_do(hwt_store *store, struct hwts_group *group, struct hwts_request *request); /* sets rc and text */
void hwts_group_text(struct hwts_request *request); /* takes the thread's text */

/* In put.c and change.c: what a group does. */
hwts_group_act hwts_put_group, hwts_cancel_group;

/* In kind.c.  The kind of a name; made in the database if it is not there and make is not NULL. */
int hwts_kind_of(hwt_store *store, const char *name, const struct hwts_kind_row *make, struct hwts_kind_row *out);
/* The same on a connection that the caller has; nothing is remembered. */
int hwts_kind_ask(hwt_store *store, struct hwts_conn *conn, const char *name, const struct hwts_kind_row *make,
		  struct hwts_kind_row *row);
bool hwts_kind_known(hwt_store *store, const char *name, struct hwts_kind_row *out); /* without asking */
struct hwts_kind_row hwts_kind_defaults(const hwt_store *store);
int hwts_check_kind_name(const char *name);
int hwts_check_key(const char *key);
int hwts_check_group(const char *group);

/* Which timeouts a call is about; which.c. */
struct hwts_about {
	int64_t id;
	bool by_key; /* id is not known yet */
	bool all, any_group, with_data;
	const char *kind, *group, *key;
	unsigned states;
	struct hwts_kind_row row;
};
enum { HWTS_MAY_BE_MANY = 1, HWTS_MAY_READ = 2, HWTS_MOVES = 4 };
int hwts_about_of(const hwt_store_which *which, unsigned may, struct hwts_about *about);
typedef int hwts_do_it(struct hwts_conn *conn, struct hwts_about *about, void *ctx);
/* To one: if it has a key it may be done to several in turn, until it is not ENOENT. */
int hwts_about_do(hwt_store *store, struct hwts_about *about, hwts_do_it *act, void *ctx);
int hwts_about_do_on(struct hwts_conn *conn, struct hwts_about *about, hwts_do_it *act, void *ctx);

/* What the calls without a structure mean. */
#define HWTS_BY_ID(is, in_states)                                                                                      \
	(hwt_store_which)                                                                                              \
	{                                                                                                              \
		.size = sizeof(hwt_store_which), .id = (is) ? (is) : HWTS_NO_ID, .states = (in_states)                 \
	}
#define HWTS_BY_KEY(of_kind, is)                                                                                       \
	(hwt_store_which)                                                                                              \
	{                                                                                                              \
		.size = sizeof(hwt_store_which), .kind = (of_kind), .key = (is)                                        \
	}
#define HWTS_NO_ID (-1) /* that nothing has */

/* In many.c: cancels all of them, or moves them; *n is set to how many, also on failure. */
int hwts_many(hwt_store *store, struct hwts_about *about, struct hwts_move *move, uint64_t *n);

/* Registered kinds; and their shards. */
#define HWTS_EACH_KIND(store, kind)                                                                                    \
	for (struct hwts_kind * (kind) = (store)->kinds; (kind); (kind) = (kind)->next)                                \
		if ((kind)->registered)
#define HWTS_EACH_SHARD(store, kind, shard)                                                                            \
	HWTS_EACH_KIND (store, kind)                                                                                   \
		for (struct hwts_shard * (shard) = (kind)->shards; (shard) < (kind)->shards + (kind)->row.shards;      \
		     (shard)++)

/* After so many starts the next is the last; at most once: one that fails is not started again by a death. */
static inline bool hwts_is_last(const struct hwts_kind *kind, unsigned attempts)
{
	return kind->row.mode != HWT_STORE_AT_MOST_ONCE && attempts + 1 >= kind->max_attempts;
}

/* In clock.c.  With the lock. */
bool hwts_clock_sample(hwt_store *store, int64_t db_us, int64_t sent_ns, int64_t reply_ns); /* true: it moved */
int64_t hwts_clock_db_us(const hwt_store *store);
int64_t hwts_clock_deadline_ns(const hwt_store *store, int64_t due_us);
int64_t hwts_clock_without_leap_us(const hwt_store *store, int64_t db_us);
bool hwts_trusted(const hwt_store *store);

/* In window_life.c. */
int hwts_window_open(hwt_store *store);
void hwts_window_close(hwt_store *store);
void hwts_window_drop_lost(hwt_store *store); /* what waits in shards that are not held */
/* With the lock: what waits is left to the look-ahead. */
void hwts_window_empty(hwt_store *store, const struct hwts_kind *kind);

/* In window.c.  With the lock. */
size_t hwts_window_limit(const hwt_store *store); /* of a kind: the backlog of one must not hide what others have */
void hwts_window_see(hwt_store *store, const struct hwts_due *due);
/* Moved by this process, which had heard so much of it before: it need not be tried at the time that it had. */
uint64_t hwts_window_heard(hwt_store *store, int64_t id);
void hwts_window_move(hwt_store *store, const struct hwts_due *due, uint64_t heard);
void hwts_window_rescue(hwt_store *store, const struct hwts_due *due); /* overdue: it should have been begun */
void hwts_window_revive(hwt_store *store, const struct hwts_due *due); /* it should be running, says the database */
/* At most once: it runs, says the database, and not here.  Not NULL: it is to be made FAILED. */
struct hwts_entry *hwts_window_condemn(hwt_store *store, const struct hwts_due *due);
void hwts_window_erase(struct hwts_entry *entry);
void hwts_window_rearm(hwt_store *store);
struct hwts_entry *hwts_window_pop(hwt_store *store, struct hwts_kind *kind, bool last); /* a DUE one, or NULL */
void hwts_window_due(struct hwts_entry *entry);
void hwts_window_not_begun(struct hwts_entry *entry, int64_t due_us, bool runs);
void hwts_window_set_aside(struct hwts_entry *entry);
void hwts_window_forget(hwt_store *store, int64_t id); /* if it is ARMED */
struct hwts_entry *hwts_window_find(hwt_store *store, int64_t id);
void hwts_window_ended(hwt_store *store, const struct hwts_row *row, bool filed);

/* In found.c.  With the lock. */
void hwts_look_found(hwt_store *store, const struct hwts_look *look);

/* In share.c: by control. */
int hwts_share_look(hwt_store *store, int64_t *next_ns);
int hwts_share_join(hwt_store *store, bool force);
void hwts_share_give(hwt_store *store);

/* In ability.c.  With the lock. */
void hwts_ability_note(hwt_store *store, enum hwts_role role, bool ok); /* an exchange has come to its end */
bool hwts_ability_lacks(hwt_store *store, bool *told);                  /* by control; told: it is new */

/* In unbegin.c. */
void hwts_give_back_stale(hwt_store *store, int64_t age_ns); /* with the lock; those that have waited for so long */
/*
 * Without the lock: takes a row that has not started out of the queue, after a moment if that is not known yet.  NULL:
 * there is none; *waited: it may have changed meanwhile.  Then unbegun: it is gone, or moved to due; or neither.
 */
struct hwts_row *hwts_unbegin(hwt_store *store, int64_t id, bool *waited);
void hwts_unbegun(hwt_store *store, struct hwts_row *row, bool changed, const struct hwts_due *due);

/* In ahead.c: by control. */
struct hwts_look *hwts_reader_lend(hwt_store *store); /* NULL: the reader is to look by itself */
bool hwts_reader_accept(hwt_store *store, const struct hwts_renewal *renewal); /* with the lock: its look counts */
void hwts_reader_take_back(hwt_store *store, struct hwts_renewal *renewal);

/* Threads. */
void *hwts_control(void *store);
void *hwts_beginner(void *store);
void *hwts_reader(void *store);
void *hwts_task_thread(void *store);
void *hwts_ender(void *store);
void hwts_hear_news(void *store, const struct hwts_due *due);
void hwts_end(hwt_store *store, struct hwts_row *row);       /* with the lock */
void hwts_finished(hwt_store *store, struct hwts_row *row);  /* with the lock: its end is committed; frees it */
void hwts_give_back(hwt_store *store, struct hwts_row *row); /* with the lock: it was not started */
void hwts_doubt_begun(hwt_store *store);                     /* with the lock: the server is gone */
struct hwts_row *hwts_unqueue(hwt_store *store, struct hwts_kind *kind, struct hwts_row **link); /* with the lock */
void hwts_give_back_queued(hwt_store *store, bool all);  /* with the lock; those of shards that are not held, or all */
void hwts_begin_again(struct hwts_entry *entry);         /* with the lock */
void hwts_doubt(hwt_store *store, struct hwts_row *row); /* with the lock: it was not started; frees it */
/* With the lock: a run that nobody can account for. */
bool hwts_fail_lost(hwt_store *store, const struct hwts_entry *entry, int64_t epoch, const char *error);
void hwts_peak_note(struct hwts_peak *peak, int64_t now_ns, int64_t ns);
int64_t hwts_peak_read(const struct hwts_peak *peak, int64_t now_ns);

/* In series.c. */
static inline bool hwts_is_series(const struct hwts_row *row)
{
	return row->period_us > 0 || row->schedule;
}
/* Before a run: where it is on its grid.  False: it is not to start, and how it ends is set. */
bool hwts_series_may_start(struct hwts_row *row, int64_t now_us);
/* A put: its first time. */
int hwts_series_begin(struct hwts_put *put, int64_t now_us);

/* In answer.c. */
int64_t hwts_back_off_us(const struct hwts_kind *kind, unsigned attempt); /* after so many */
void hwts_fail_run(struct hwts_row *row, const char *error, bool counts);
void hwts_answered(struct hwts_running *running, int rc); /* what the task has returned */

#endif
