/* SPDX-License-Identifier: BSD-2-Clause */
/* The reader, which looks ahead, refills groups and reads their rules. */
#ifndef HWTS_AHEAD_H
#define HWTS_AHEAD_H

#include "rows/engine.h"

/* What the reader has to do. */
struct hwts_reading {
	int64_t seen_us; /* the database's clock at the last renewal */
	bool again;      /* read all shards from the beginning */
	bool sweep_due, unread;
};

/* Where sweeps begin; sweep.c.  The reader alone uses it. */
struct hwts_sweep {
	int64_t low_us;              /* the regular sweep begins at this due time; INT64_MIN: at the beginning */
	int64_t slice_us, slice_end; /* length of the next slice; where it ends */
	int64_t pass_ns;             /* how long the slices of this pass have taken so far */
	int64_t usual_ns;            /* the shortest of the last sweeps, aged */
	bool all, told;              /* all: sweeps need no slices.  told: the warning that they are slow was given */
	/* How many sweeps in a row leave out rows that have been overdue for long; how many of these are left. */
	unsigned apart, rest;
	bool goes_on; /* the last sweep read on where another had ended */
};
void hwts_sweep_init(struct hwts_sweep *sweep, const hwt_store *store);
void hwts_sweep_choose(struct hwts_sweep *sweep, const hwt_store *store, struct hwts_look *look);
/* After the answer of a look. */
void hwts_swept(struct hwts_sweep *sweep, hwt_store *store, const struct hwts_look *look, int64_t took_ns);

void hwts_look_found(hwt_store *store, struct hwts_look *look); /* caller holds store->lock */

void hwts_reader_reset(hwt_store *store); /* caller holds store->lock */

/* Called by control. */
void hwts_reader_go_on(hwt_store *store); /* caller holds store->lock: a shard has unread rows. */
/* The caller holds store->lock.  A renewal has come back: the reader looks as far as its clock allows. */
void hwts_reader_renewed(hwt_store *store, const struct hwts_renewal *renewal);

/* Rows that groups begin next, and that the window has not kept; refill.c. */
bool hwts_refill_wanted(hwt_store *store); /* caller holds store->lock */
/* The caller holds store->lock.  When a refill may be wanted next, as a rest comes due; HWTS_NEVER: not by time. */
int64_t hwts_refill_us(hwt_store *store);
int hwts_refill_read(hwt_store *store, struct hwts_conn *conn);

/* The rules of groups, in the process that holds their shard; ruling.c. */
/* The caller holds store->lock.  The rules of this shard have to be read again. */
void hwts_rules_changed(hwt_store *store, int32_t shard);
bool hwts_rules_wanted(hwt_store *store); /* caller holds store->lock */
/* Reads the rules of one kind, for its shards whose rules are not known. */
int hwts_rules_read(hwt_store *store, struct hwts_conn *conn, unsigned turn);

#endif
