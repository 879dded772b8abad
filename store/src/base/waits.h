/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why timeouts that are due have not started: for each reason how many, and the oldest of them.
 *
 * Each is counted once, by the room that decides: the turns of groups, the window, the shards, the queue for threads.
 * share/why.c adds them up when somebody asks, at each renewal, and each third of a lease for warnings: nothing is
 * counted while timeouts run.
 *
 * For other processes a renewal writes them as a text into the row of its process: of each kind its id, and for each
 * reason how many wait, and when the oldest was due (0: nobody knows).  Times, and no ages: a text is another one only
 * when something has changed.
 *
 *   12:pause=3@1764403200000000,rate=1@1764403201000000 7:thread=2@1764403205000000
 */
#ifndef HWTS_WAITS_H
#define HWTS_WAITS_H

#include "base/common.h"

struct hwts_wait {
	uint64_t count;
	int64_t oldest_us; /* when the oldest was due */
	int64_t id;        /* of the oldest; 0: nobody knows */
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

/* One more.  A cron line without its first time has a due time of 0: its age is not known. */
static inline void hwts_waits_add(struct hwts_waits *waits, hwt_store_wait why, int64_t due_us, int64_t id)
{
	hwts_wait_join(&waits->of[why], &(struct hwts_wait){ 1, due_us > 0 ? due_us : HWTS_NEVER, id });
}

/* All of one reason wait for another one. */
static inline void hwts_waits_move(struct hwts_waits *waits, hwt_store_wait from, hwt_store_wait to)
{
	hwts_wait_join(&waits->of[to], &waits->of[from]);
	waits->of[from] = (struct hwts_wait){ .count = 0 };
}

/* How long something has been due; 0: not yet, or nobody knows. */
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

/* What is about to start has started when that is read; NOBODY is for the database to say. */
static inline bool hwts_wait_is_told(size_t why)
{
	return why != HWT_STORE_STARTS && why != HWT_STORE_WAITS_NOBODY;
}

/* Adds a kind to a text.  false: there is no room for all of it, and the text is what it was. */
bool hwts_waits_write(char text[HWTS_WAITS_MAX + 1], int64_t kind, const struct hwts_waits *waits);

/*
 * Calls told, if it is not NULL, for each reason of each kind; not for words that only a newer library knows.  false:
 * the text is damaged behind what was told.
 */
bool hwts_waits_read(const char *text, size_t len,
		     void (*told)(void *ctx, int64_t kind, size_t why, const struct hwts_wait *wait), void *ctx);

#endif
