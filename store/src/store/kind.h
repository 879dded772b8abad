/* SPDX-License-Identifier: BSD-2-Clause */
/* Kinds that are registered, and kinds that this process only puts to; counters; kind.c. */
#ifndef HWTS_KIND_H
#define HWTS_KIND_H

#include "groups/turns.h"
#include "rows/engine.h"

/* For each of the last 60 seconds: the greatest lateness of a start in that second, and the number of starts. */
struct hwts_peak {
	int64_t second[60], ns[60];
	uint64_t count[60];
};

struct hwts_tally {
	hwt_store_stats stats; /* counters */
	struct hwts_peak lateness;
	int64_t lateness_sum_ns;
};

/*
 * For a reason: since when (hwt_now()) some timeout waits for it, 0: none; and whether a warning was given.  For
 * STARTS also the oldest timeout at the last look: if another one is the oldest, timeouts start.
 */
struct hwts_watch {
	int64_t since_ns, id;
	bool told;
};

struct hwts_kind {
	struct hwts_kind *next;
	char name[HWTS_NAME_MAX + 1];
	struct hwts_kind_row row;
	int64_t asked_ns; /* when the row was read */

	/* If the kind is registered: */
	bool registered, pulled;
	hwt_store_task *task;
	void *ctx;
	unsigned concurrency, max_attempts;
	int64_t backoff_us, backoff_max_us;
	struct hwts_shard *shards;

	struct hwts_turns turns; /* of its entries in the window */
	/* Of all kinds together, entries + told = window->count. */
	size_t entries; /* entries of rows that were read or written by this process */
	size_t told;    /* entries known from news alone, which any client can forge */
	/* As of the last look_through of the window and the rests: */
	int64_t oldest_us; /* when the oldest IS_DUE entry was due */
	struct hwts_waits waits;
	struct hwts_wait nexts; /* of waits.of[STARTS]: entries that are the next of their groups */
	bool behind; /* unread shards wait for room in the window */
	bool late;   /* some of the rows that are unread may be due */
	struct hwts_tally tally;
	struct hwts_watch watch[HWT_STORE_WAITS]; /* why.c */
	struct hwts_wait lost; /* the wait at the time when the lease was lost; cleared with the next lease */
	struct {
		struct hwts_row *first, **end;
		unsigned count, running;
		int8_t least;     /* the smallest priority in the queue */
		int64_t run_ns;   /* mean time that a run keeps its thread; 0: none has ended yet */
		int64_t since_ns; /* no row of the queue has an older queued_ns */
	} begun;                  /* begun.c */
};

/* Answers from memory.  A kind that no process has registered is read again once a lease. */
bool hwts_kind_known(hwt_store *store, const char *name, struct hwts_kind_row *out);
struct hwts_kind_row hwts_kind_defaults(const hwt_store *store); /* the kind that a put or a registration makes */
int hwts_check_kind_name(const char *name);
int hwts_check_text(const char *what, const char *text); /* a key or a group */

/* register.c: finds a kind.  make not NULL: makes it in the database if it is not there. */
int hwts_kind_of(hwt_store *store, const char *name, const struct hwts_kind_row *make, struct hwts_kind_row *out);
/* The same on a connection that the caller has.  The answer is not remembered. */
int hwts_kind_ask(hwt_store *store, struct hwts_conn *conn, const char *name, const struct hwts_kind_row *make,
		  struct hwts_kind_row *row);
/* After a join: makes kinds again that were removed while this process was not a member. */
int hwts_kinds_keep(hwt_store *store, struct hwts_conn *conn);

/* The list; the store is started, or the caller holds store->lock.  NULL: before the first, and behind the last. */
struct hwts_kind *hwts_kind_after(const hwt_store *store, const struct hwts_kind *kind);
struct hwts_kind *hwts_kind_next(const hwt_store *store, const struct hwts_kind *kind); /* the next registered kind */
/* The next registered kind, or the first. */
struct hwts_kind *hwts_kind_around(const hwt_store *store, const struct hwts_kind *kind);
size_t hwts_kind_count(const hwt_store *store);                          /* of registered kinds */
struct hwts_kind *hwts_kind_turn(const hwt_store *store, unsigned turn); /* the registered kind whose turn it is */
struct hwts_kind *hwts_kind_find(const hwt_store *store, const char *name);
/* Appends `made` and returns it, or the kind that has this name already. */
struct hwts_kind *hwts_kind_add(hwt_store *store, struct hwts_kind *made, const char *name);
void hwts_kinds_free(hwt_store *store);

#define HWTS_EACH_KIND(store, kind)                                                                                    \
	for (struct hwts_kind * (kind) = hwts_kind_next((store), NULL); (kind);                                        \
	     (kind) = hwts_kind_next((store), (kind)))

/*
 * True: the start after `attempts` starts is the last.  At most once never: there a death does not lead to another
 * start.
 */
static inline bool hwts_is_last(const struct hwts_kind *kind, unsigned attempts)
{
	return kind->row.mode != HWT_STORE_AT_MOST_ONCE && attempts + 1 >= kind->max_attempts;
}

/*
 * Statistics; stats.c, and peaks in kind.c
 */

#define HWTS_TALLY_ALONE(store, what, n) (hwts_lock(store), HWTS_TALLY(store, what, n), hwts_unlock(store))
/* The caller holds store->lock. */
#define HWTS_TALLY(store, what, n) ((store)->tally->stats.what += (n))
#define HWTS_TALLY_OF(store, kind, what, n)                                                                            \
	((store)->tally->stats.what += (n), (kind)->tally.stats.what += (n)) /* and of its kind */
/* A run starts, late_ns after its due time. */
void hwts_tally_start(struct hwts_tally *tally, int64_t now_ns, int64_t late_ns);
void hwts_peak_note(struct hwts_peak *peak, int64_t now_ns, int64_t ns);
int64_t hwts_peak_read(const struct hwts_peak *peak, int64_t now_ns);
uint64_t hwts_peak_count(const struct hwts_peak *peak, int64_t now_ns);
/* The counters, with the current state: of all kinds, or of one. */
void hwts_stats_now(hwt_store *store, hwt_store_stats *stats);
void hwts_stats_of_kind(hwt_store *store, struct hwts_kind *kind, hwt_store_stats *stats);

#endif
