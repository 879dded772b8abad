/* SPDX-License-Identifier: BSD-2-Clause */
/* The reader, which looks ahead, and what else it reads. */
#ifndef HWTS_AHEAD_H
#define HWTS_AHEAD_H

#include "rows/engine.h"

/* What it has to do. */
struct hwts_reading {
	int64_t seen_us; /* the database's clock at the last renewal */
	bool again;      /* all shards, from the beginning */
	bool sweep_due, unread;
	bool missed; /* a sweep has found what should have been in the window */
};

/* Where its sweeps begin; sweep.c.  With the lock, or by the reader. */
struct hwts_sweep {
	int64_t low_us;              /* here; INT64_MIN: at the beginning */
	int64_t slice_us, slice_end; /* how long the next slice is; where it ends */
	int64_t pass_ns;             /* what the slices of this pass have taken */
	int64_t usual_ns;            /* the shortest of the last sweeps, aged */
	bool all, told;              /* there is no need for slices; that they are slow has been told */
	unsigned apart, rest;        /* how many sweeps leave out what has been overdue for long, and are still to */
	bool goes_on;                /* the last one has begun behind another */
};
void hwts_sweep_init(struct hwts_sweep *sweep, const hwt_store *store);
void hwts_sweep_choose(struct hwts_sweep *sweep, const hwt_store *store, struct hwts_look *look);
/* It has been answered. */
void hwts_swept(struct hwts_sweep *sweep, hwt_store *store, const struct hwts_look *look, int64_t took_ns);

void hwts_look_found(hwt_store *store, struct hwts_look *look); /* with the lock */

void hwts_reader_reset(hwt_store *store); /* with the lock */

/* By control. */
void hwts_reader_go_on(hwt_store *store); /* with the lock: something is unread */
/* With the lock: a renewal has come back, and the reader looks as far as its clock allows. */
void hwts_reader_renewed(hwt_store *store, const struct hwts_renewal *renewal);

/* What groups begin next of which the window has not kept all; refill.c. */
bool hwts_refill_wanted(hwt_store *store); /* with the lock */
int64_t hwts_refill_us(hwt_store *store);  /* with the lock: when one may be, as it comes due; HWTS_NEVER */
int hwts_refill_read(hwt_store *store, struct hwts_conn *conn);

/* The rules of groups, as the holder of a shard has them; ruling.c. */
void hwts_rules_changed(hwt_store *store, int32_t shard);      /* with the lock: of a shard, to be read again */
bool hwts_rules_wanted(hwt_store *store);                      /* with the lock */
int hwts_rules_read(hwt_store *store, struct hwts_conn *conn); /* those of a kind's shards that are to be read */

#endif
