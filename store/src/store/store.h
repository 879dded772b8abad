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
 *   truth: a wrong entry costs one begin in vain.  window.h has all states and events of an entry.
 *
 *     entry:  ARMED -timer-> DUE -beginner-> BEGUN -end committed-> gone
 *                ^            |                 |
 *                +- not due --+                 +- filed again, or news came meanwhile -> ARMED
 *
 *   The argument of a timer task is the entry.  The task may race with an erase, so it checks that the entry still has
 *   the task's handle.  The memory stays an entry while the timer lives.
 *
 * Threads
 *
 *   control   renews the lease, balances shards, hears news, reconnects
 *   reader    looks ahead, after each renewal and when news ask for it
 *   timer     libhwt's worker: moves entries from ARMED to DUE
 *   beginner  begins rows whose entries are DUE, in batches: while a batch is under way the next one gathers
 *   tasks     run rows that are begun
 *   ender     commits ends, in batches, and repeats them until the database has them
 *   callers   put, cancel, ...: each on a connection of conns.c
 *
 *   store->lock guards all parts below it.  No thread holds it during an exchange with the database or a task.
 *
 * Invariants
 *
 *   I1  an id has at most one entry, so this process begins a row at most once at a time
 *   I2  shard.active = rows of the shard that were begun here and whose end is not committed; a shard with active > 0
 *       is not given away, unless this process is unable to commit the ends, and nothing else is left there
 *   I3  no row is begun or started unless CLOCK_BOOTTIME < trusted_ns = (time before the last renewal was sent) +
 *       5/6 of the lease
 *   I4  a row of a held shard that is due before the shard's mark has an entry, or its news is on the way, or the next
 *       look finds it.  A row that is put while the reader looks, within the reach of that look, gets an entry even
 *       beyond the mark: the look may have read that place already, and its mark will pass the row
 *
 * The net
 *
 *   No promise rests on a single wake-up.  Each renewal wakes every thread that has work.  The look after it also reads
 *   rows that have been due for more than a third of the lease, and makes an entry for each row without one.  So a lost
 *   notification, wake-up or tick of the timer costs two thirds of a lease, and not the timeout.
 */
#ifndef HWTS_STORE_H
#define HWTS_STORE_H

#include "rows/rows.h"

#include <stdlib.h>
#include <sys/types.h>

struct hwt_store {
	/* Constant after open: any file reads them. */
	struct hwts_db *db;
	const struct hwts_engine *engine;
	char *url;
	hwt_store_config config;
	pid_t pid; /* the process that opened the store */

	/*
	 * Parts.  Each is used by the file of its name alone, or by the files named in its comment; test/layers.sh
	 * checks that.
	 */
	struct hwts_life *life;  /* store.c, start.c, register.c */
	struct hwts_kind *kinds; /* kind.c */
	struct hwts_conns *conns;
	struct hwts_numbers *numbers;
	struct hwts_commit *puts;     /* put.c */
	struct hwts_commit *cancels;  /* change.c */
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
int hwts_check_store(const hwt_store *store); /* EINVAL: NULL, or in a forked child */
int64_t hwts_backoff_ns(unsigned failures);

enum hwts_phase { HWTS_STOPPED, HWTS_STARTED, HWTS_STOPPING };

struct hwts_life {
	pthread_mutex_t lock; /* start, stop and register hold it: one of them at a time */
	enum hwts_phase phase;
	pthread_t stopper; /* of hwt_store_stop_within: the thread that stops the store; guarded by this lock */
	bool has_stopper, stopper_done;
};

enum hwts_phase hwts_phase(const hwt_store *store); /* caller holds store->lock */

/*
 * The lock and the threads
 */

/* The threads of a role: one thread, or several for tasks. */
struct hwts_threads {
	pthread_t *ids;
	unsigned count;
	pthread_cond_t work;
	bool halt;
	struct hwts_conn *conn; /* a task thread has its own */
};

void hwts_threads_init(hwt_store *store);
void hwts_threads_destroy(hwt_store *store);
int hwts_threads_start(hwt_store *store, enum hwts_role role, void *(*run)(void *), unsigned n);
void hwts_threads_join(hwt_store *store, enum hwts_role role); /* joins the threads that were started */
struct hwts_conn **hwts_conn_of(hwt_store *store, enum hwts_role role);

void hwts_lock(hwt_store *store);
void hwts_unlock(hwt_store *store);

/* The caller holds store->lock. */
void hwts_wake(hwt_store *store, enum hwts_role role); /* one thread of this role */
void hwts_wake_all(hwt_store *store, enum hwts_role role);
void hwts_wait(hwt_store *store, enum hwts_role role);
void hwts_wait_for(hwt_store *store, enum hwts_role role, int64_t ns);
void hwts_halt(hwt_store *store, enum hwts_role role);
bool hwts_halts(const hwt_store *store, enum hwts_role role);
void hwts_rest(hwt_store *store, unsigned *failures); /* backs off after one more failure; hwts_stir ends the wait */
void hwts_stir(hwt_store *store); /* wakes threads that back off, and threads that wait for a stop or for an end */
void hwts_wait_stirred(hwt_store *store, int64_t ns);

/* The functions of the threads; in beginner.c, control.c, ender.c, ahead.c (hwts_reader) and workers.c (hwts_task). */
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
