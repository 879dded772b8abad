/* SPDX-License-Identifier: BSD-2-Clause */
/* What other threads ask of control, and how they wake it. */
#ifndef HWTS_ASKS_H
#define HWTS_ASKS_H

#include "rows/engine.h"

struct hwts_asks {
	int poke[2]; /* a pipe; -1: control does not run */
	unsigned what;
};
/* HWTS_LOOK: renew now.  HWTS_LOAD: after the renewal read all shards from the beginning. */
enum { HWTS_LOOK = 1, HWTS_LOAD = 2 };

void hwts_asks_init(hwt_store *store);
int hwts_asks_open(hwt_store *store);
void hwts_asks_close(hwt_store *store);
void hwts_poke(hwt_store *store); /* wakes control */
int hwts_poke_fd(const hwt_store *store);
void hwts_poke_read(hwt_store *store);

/* The caller holds store->lock. */
void hwts_ask(hwt_store *store, unsigned what);
bool hwts_asked(const hwt_store *store, unsigned what); /* for any of the bits in what */
void hwts_ask_done(hwt_store *store, unsigned what);

#endif
