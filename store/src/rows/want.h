/* SPDX-License-Identifier: BSD-2-Clause */
/* What a begin is asked for, and what it answers. */
#ifndef HWTS_WANT_H
#define HWTS_WANT_H

#include "rows/engine.h"

/*
 * A row to begin, and what became of it.  The begin leaves one of these combinations (x: set, ?: may be set):
 *
 *   row  due_us  lost stale dead locked failed refused
 *    x     -      -     -    -     -      -      -     begun: queued for a thread
 *    -     -      -     -    -     -      x      -     no reply: perhaps begun, so the begin is repeated
 *    -     -      -     -    -     -      -      x     the database refuses the row alone: set aside for a lease
 *    -   NEVER    -     -    -     -      -      -     the row is gone, or runs elsewhere: the entry is erased
 *    -     x      -     -    -     -      -      -     pending, but due later (moved, or our clock is ahead), locked by
 *                                                      another transaction, or a last attempt without a free thread
 *    -     x      x     -    ?     ?      -      -     the shard is lost: another process holds it
 *    -     x      -     x    ?     ?      -      -     the rules of the shard have changed: read them first
 *    -     x      -     ?    x     ?      -      -     runs under an older epoch, and is not begun at once (no attempt
 *                                                      left, back-off, at most once, beyond): rows_inherit.c files it,
 *                                                      or marks it locked
 *    -     x      -     ?    -     x      -      -     runs under this epoch (the reply to a begin was lost), and
 *                                                      another transaction has locked the row: tried again
 */
struct hwts_want {
	struct hwts_entry *entry; /* in the window, where it stays until the begin is over */
	struct hwts_kind *kind;
	int64_t id, epoch;
	int32_t shard;
	unsigned max_attempts; /* 0: any */
	bool last;             /* begin the row even if this is its last attempt */
	bool beyond;           /* the group has more than may run: begin the row only if it runs under this epoch */
	bool begun;            /* the begin has answered the id; row is set once the data is read */
	struct hwts_row *row;  /* begun, and its data read; otherwise NULL */
	int64_t due_us;        /* not begun: when the row is due; HWTS_NEVER: there is no such row to begin */
	int64_t now_us;        /* not begun: the database's clock */
	int64_t rules;         /* the number of the shard's rules, as this process has read them */
	bool lost;             /* the shard has another epoch */
	bool stale;            /* not begun: the shard has other rules */
	bool dead;             /* not begun: a process held it when it died, or was cut off */
	bool locked; /* not begun: the row runs under this epoch or is dead, and another transaction has locked it */
	unsigned attempt; /* not begun: how often the row has been started */
	int64_t delay_us; /* dead: pending again after this delay; HWTS_NEVER: FAILED */
	/* The row ran under runs_epoch, and is marked: its last run, so it is deleted, or replaced. */
	enum hwts_mark { HWTS_UNMARKED, HWTS_LAST, HWTS_REPLACED } mark;
	int64_t runs_epoch;
	uint32_t len; /* len and priority: of the replacement, once it is inherited */
	int8_t priority;
	bool inherited;       /* the dead process's row was filed: rows_inherit.c */
	bool failed, refused; /* failed: there was no reply.  refused: the database refuses to begin the row */
};

#endif
