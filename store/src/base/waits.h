/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why due timeouts have not started: for each reason their number, and the oldest.
 *
 * Each timeout is counted once, by the room that decides: the turns of groups, the window, the shards, the queue for
 * threads.  share/why.c adds the counts up when a caller asks, at each renewal, and each third of a lease for warnings;
 * while timeouts run nothing is counted.
 *
 * For other processes a renewal writes the counts as a text into the row of this process: for each kind its id, and
 * for each reason the number of timeouts and the due time of the oldest (0: unknown).  A text has due times, not ages:
 * so it changes only if a count or an oldest timeout does.
 *
 *   12:pause=3@1764403200000000,rate=1@1764403201000000 7:thread=2@1764403205000000
 *
 * Another text has how many runs of each kind started within a minute: 12=340 7=2
 */
#ifndef HWTS_WAITS_H
#define HWTS_WAITS_H

#include "base/common.h"

struct hwts_wait {
	uint64_t count;
	int64_t oldest_us; /* the due time of the oldest; HWTS_NEVER: unknown */
	int64_t id;        /* of the oldest; 0: unknown */
};

struct hwts_waits {
	struct hwts_wait of[HWT_STORE_WAITS];
};

static inline void hwts_wait_join(struct hwts_wait *to, const struct hwts_wait *other)
{
	if (other->count > 0 && (to->count == 0 || other->oldest_us < to->oldest_us)) {
		to->oldest_us = other->oldest_us;
		to->id = other->id;
	}
	to->count += other->count;
}

/* Counts a timeout.  A cron line without its first time has a due time of 0: its age is unknown. */
static inline void hwts_waits_add(struct hwts_waits *waits, hwt_store_wait why, int64_t due_us, int64_t id)
{
	hwts_wait_join(&waits->of[why], &(struct hwts_wait){ 1, due_us > 0 ? due_us : HWTS_NEVER, id });
}

/* Gives all timeouts of one reason another reason. */
static inline void hwts_waits_move(struct hwts_waits *waits, hwt_store_wait from, hwt_store_wait to)
{
	hwts_wait_join(&waits->of[to], &waits->of[from]);
	waits->of[from] = (struct hwts_wait){ .count = 0 };
}

/* How long a timeout has been due; 0: it is not due yet, or the due time is HWTS_NEVER. */
static inline int64_t hwts_age_ns(int64_t now_us, int64_t due_us)
{
	return hwts_within(now_us - HWTS_MAX(due_us, 0), now_us) * 1000;
}

static inline void hwts_waits_join(struct hwts_waits *to, const struct hwts_waits *other)
{
	for (size_t i = 0; i < HWT_STORE_WAITS; i++)
		hwts_wait_join(&to->of[i], &other->of[i]);
}

/* The names of the enum in small letters. */
static inline const char *hwts_wait_word(size_t why)
{
	static const char *const words[HWT_STORE_WAITS] = { "starts", "thread",    "cap",      "rate",  "turn",
							    "pause",  "elsewhere", "rules",    "read",  "zone",
							    "row",    "lease",     "database", "nobody" };

	return words[why];
}

#define HWTS_WAITS_MAX 2048 /* bytes of a text */

/*
 * True: a text has this reason.  A timeout that is about to start has started before the text is read; the statement
 * KINDS finds NOBODY.
 */
static inline bool hwts_wait_is_told(size_t why)
{
	return why != HWT_STORE_STARTS && why != HWT_STORE_WAITS_NOBODY;
}

/* Appends a kind to a text.  False: there is no room for the whole kind, and the text stays as it was. */
bool hwts_waits_write(char text[HWTS_WAITS_MAX + 1], int64_t kind, const struct hwts_waits *waits);

/*
 * Calls told (may be NULL) for each reason of each kind, except for words that only a newer library knows.  False:
 * the text is damaged; told was called for what stands before the damage.
 */
bool hwts_waits_read(const char *text, size_t len,
		     void (*told)(void *ctx, int64_t kind, size_t why, const struct hwts_wait *wait), void *ctx);

/* The same of starts. */
void hwts_starts_write(char text[HWTS_WAITS_MAX + 1], int64_t kind, uint64_t count);
bool hwts_starts_read(const char *text, size_t len, void (*told)(void *ctx, int64_t kind, uint64_t count), void *ctx);

#endif
