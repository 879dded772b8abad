/* SPDX-License-Identifier: BSD-2-Clause */
/* Kinds: the registered ones, and what is known of those that this process only puts; what is counted; kind.c. */
#ifndef HWTS_KIND_H
#define HWTS_KIND_H

#include "groups/turns.h"
#include "rows/engine.h"

/* The largest of each of the last 60 seconds. */
struct hwts_peak {
	int64_t second[60], ns[60];
};

struct hwts_tally {
	hwt_store_stats stats; /* what is counted */
	struct hwts_peak lateness;
	int64_t lateness_sum_ns;
};

/* Of a reason: since when some wait for it, by hwt_now(), 0: none does; whether a warning has told of it. */
struct hwts_watch {
	int64_t since_ns;
	bool told;
};

struct hwts_kind {
	struct hwts_kind *next;
	char name[HWTS_NAME_MAX + 1];
	struct hwts_kind_row row;
	int64_t asked_ns; /* when the database was asked for that */

	/* If it is registered. */
	bool registered, pulled;
	hwt_store_task *task;
	void *ctx;
	unsigned concurrency, max_attempts;
	int64_t backoff_us, backoff_max_us;
	struct hwts_shard *shards;

	struct hwts_turns turns; /* of the entries that are DUE */
	/* entries + told, of all kinds = window->count */
	size_t entries; /* of rows that were read or written here */
	size_t told;    /* of which only news tell, and anybody may have sent those */
	/* Of the window and of rests, as they were last looked through. */
	int64_t oldest_us; /* of the DUE ones */
	struct hwts_waits waits;
	bool behind; /* there is more than it has room for */
	struct hwts_tally tally;
	struct hwts_watch watch[HWT_STORE_WAITS]; /* why.c */
	struct hwts_wait lost;                    /* what was due when the lease was lost; until the next one */
	struct {
		struct hwts_row *first, **end;
		unsigned count, running;
		int8_t least;   /* priority */
		int64_t run_ns; /* how long a run has a thread: a mean of the last ones; 0: none has been */
	} begun;                /* begun.c */
};

/* Without asking.  One that nobody has registered is asked for once a lease. */
bool hwts_kind_known(hwt_store *store, const char *name, struct hwts_kind_row *out);
struct hwts_kind_row hwts_kind_defaults(const hwt_store *store); /* what a put or a registration makes */
int hwts_check_kind_name(const char *name);
int hwts_check_text(const char *what, const char *text); /* a key or a group */

/* In register.c: the kind of a name; made in the database if it is not there and make is not NULL. */
int hwts_kind_of(hwt_store *store, const char *name, const struct hwts_kind_row *make, struct hwts_kind_row *out);
/* The same on a connection that the caller has; nothing is remembered. */
int hwts_kind_ask(hwt_store *store, struct hwts_conn *conn, const char *name, const struct hwts_kind_row *make,
		  struct hwts_kind_row *row);
/* After a join: kinds that were removed while this process was not a member are there again. */
int hwts_kinds_keep(hwt_store *store, struct hwts_conn *conn);

/* The list, in a started store or with the lock.  NULL: before the first, and behind the last. */
struct hwts_kind *hwts_kind_after(const hwt_store *store, const struct hwts_kind *kind);
struct hwts_kind *hwts_kind_next(const hwt_store *store, const struct hwts_kind *kind);   /* the next registered one */
struct hwts_kind *hwts_kind_around(const hwt_store *store, const struct hwts_kind *kind); /* or the first */
size_t hwts_kind_count(const hwt_store *store);                                           /* of these */
struct hwts_kind *hwts_kind_turn(const hwt_store *store, unsigned turn); /* one of them, so that they take turns */
struct hwts_kind *hwts_kind_find(const hwt_store *store, const char *name);
struct hwts_kind *hwts_kind_add(hwt_store *store, struct hwts_kind *made, const char *name); /* or the one that is */
void hwts_kinds_free(hwt_store *store);

#define HWTS_EACH_KIND(store, kind)                                                                                    \
	for (struct hwts_kind * (kind) = hwts_kind_next((store), NULL); (kind);                                        \
	     (kind) = hwts_kind_next((store), (kind)))

/* The start behind `attempts` is the last; at most once: one that fails is not started again by a death. */
static inline bool hwts_is_last(const struct hwts_kind *kind, unsigned attempts)
{
	return kind->row.mode != HWT_STORE_AT_MOST_ONCE && attempts + 1 >= kind->max_attempts;
}

/*
 * Statistics; stats.c
 */

#define HWTS_TALLY_ALONE(store, what, n) (hwts_lock(store), HWTS_TALLY(store, what, n), hwts_unlock(store))
/* With the lock. */
#define HWTS_TALLY(store, what, n) ((store)->tally->stats.what += (n))
#define HWTS_TALLY_OF(store, kind, what, n)                                                                            \
	((store)->tally->stats.what += (n), (kind)->tally.stats.what += (n))      /* and of its kind */
void hwts_tally_start(struct hwts_tally *tally, int64_t now_ns, int64_t late_ns); /* a run starts so late */
void hwts_peak_note(struct hwts_peak *peak, int64_t now_ns, int64_t ns);
int64_t hwts_peak_read(const struct hwts_peak *peak, int64_t now_ns);
/* What is counted, and how things are now: of all kinds, and of one. */
void hwts_stats_now(hwt_store *store, hwt_store_stats *stats);
void hwts_stats_of_kind(hwt_store *store, struct hwts_kind *kind, hwt_store_stats *stats);

#endif
