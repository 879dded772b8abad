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
 *   reader    looks ahead, after each renewal and when news ask for it
 *   timer     libhwt's worker: moves entries from ARMED to DUE
 *   beginner  begins what is DUE, by batches: while one is under way the next gathers
 *   tasks     run what has been begun
 *   ender     commits ends, by batches, until the database has them
 *   callers   put, cancel, ...: each on a connection of conns.c
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
 *   No promise rests on a single wake-up.  Each renewal wakes every thread that has work, and the look after it also
 *   reads what has been due for more than a third of the lease: a row that is not on its way is put on its way.  So a
 *   lost notification, wake-up or tick of the timer costs two thirds of a lease, and not the timeout.
 */
#ifndef HWTS_STORE_H
#define HWTS_STORE_H

#include "rows/rows.h"

#include <stdlib.h>
#include <sys/types.h>

struct hwt_store {
	/* Fixed since it was opened: any file reads them. */
	struct hwts_db *db;
	const struct hwts_engine *engine;
	char *url;
	hwt_store_config config;
	pid_t pid; /* that has opened it */

	/* Parts.  Each is touched by the file of its name, or by those that the comment names; test/layers.sh looks. */
	struct hwts_life *life;  /* store.c, start.c, register.c */
	struct hwts_kind *kinds; /* kind.c */
	struct hwts_conns *conns;
	struct hwts_numbers *numbers;
	struct hwts_commit *puts;      /* put.c */
	struct hwts_commit *cancels;   /* change.c */
	pthread_mutex_t lock;         /* store.c */
	pthread_cond_t stirred;       /* store.c */
	struct hwts_threads *threads; /* store.c */
	struct hwts_asks *asks;
	struct hwts_clock *clock;
	struct hwts_ability *ability;
	struct hwts_shards *shards;
	struct hwts_share *share;   /* share.c, share_take.c, share_give.c, share_life.c */
	struct hwts_window *window; /* window.c, window_in.c, window_life.c, window_due.c */
	struct hwts_runs *runs;     /* begun.c */
	struct hwts_poll *poll;
	struct hwts_pulled *pulled;
	struct hwts_ends *ends;       /* ends.c, ender.c */
	struct hwts_reading *reading; /* ahead.c, found.c */
	struct hwts_tally *tally;     /* stats.c */
};

void hwts_warn(hwt_store *store, const char *format, ...) __attribute__((format(printf, 2, 3)));
int hwts_check_store(const hwt_store *store); /* EINVAL: NULL, or in a child that was forked */
int64_t hwts_backoff_ns(unsigned failures);

enum hwts_phase { HWTS_STOPPED, HWTS_STARTED, HWTS_STOPPING };

struct hwts_life {
	pthread_mutex_t lock; /* start, stop, register: one at a time */
	enum hwts_phase phase;
	pthread_t stopper; /* of a stop that need not come to its end, hwt_store_stop_within; with this lock */
	bool has_stopper, stopper_done;
};

enum hwts_phase hwts_phase(const hwt_store *store); /* with the store's lock */

/*
 * The lock and the threads
 */

/* Of each role of a connection: one thread but for tasks. */
struct hwts_threads {
	pthread_t *ids;
	unsigned count;
	pthread_cond_t work;
	bool halt;
	struct hwts_conn *conn; /* each task has its own */
};

void hwts_threads_init(hwt_store *store);
void hwts_threads_destroy(hwt_store *store);
int hwts_threads_start(hwt_store *store, enum hwts_role role, void *(*run)(void *), unsigned n);
void hwts_threads_join(hwt_store *store, enum hwts_role role); /* those that were started */
struct hwts_conn **hwts_conn_of(hwt_store *store, enum hwts_role role);

void hwts_lock(hwt_store *store);
void hwts_unlock(hwt_store *store);

/* With the lock. */
void hwts_wake(hwt_store *store, enum hwts_role role); /* one thread that waits for work */
void hwts_wake_all(hwt_store *store, enum hwts_role role);
void hwts_wait(hwt_store *store, enum hwts_role role);
void hwts_wait_for(hwt_store *store, enum hwts_role role, int64_t ns);
void hwts_halt(hwt_store *store, enum hwts_role role);
bool hwts_halts(const hwt_store *store, enum hwts_role role);
void hwts_rest(hwt_store *store, unsigned *failures); /* after one more failure, unless it is stirred */
void hwts_stir(hwt_store *store);                     /* those that rest, and those that wait for a stop */
void hwts_wait_stirred(hwt_store *store, int64_t ns);

/* What they run; in the files of these names, and in ahead.c. */
void *hwts_beginner(void *store);
void *hwts_control(void *store);
void *hwts_ender(void *store);
void *hwts_reader(void *store);
void *hwts_task(void *store);

static inline struct hwts_conn *hwts_conn(hwt_store *store, enum hwts_role role)
{
	return *hwts_conn_of(store, role);
}

#endif
