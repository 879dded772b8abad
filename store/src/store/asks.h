/* SPDX-License-Identifier: BSD-2-Clause */
/* What other threads ask control for, and how they wake it. */
#ifndef HWTS_ASKS_H
#define HWTS_ASKS_H

#include "rows/engine.h"

struct hwts_asks {
	int poke[2]; /* a pipe; -1: control does not run */
	unsigned what;
};
enum { HWTS_LOOK = 1, HWTS_LOAD = 2 }; /* a renewal; and behind it all is read again */

void hwts_asks_init(hwt_store *store);
int hwts_asks_open(hwt_store *store);
void hwts_asks_close(hwt_store *store);
void hwts_poke(hwt_store *store); /* something has changed */
int hwts_poke_fd(const hwt_store *store);
void hwts_poke_read(hwt_store *store);

/* With the lock. */
void hwts_ask(hwt_store *store, unsigned what);
bool hwts_asked(const hwt_store *store, unsigned what); /* for any of it */
void hwts_ask_done(hwt_store *store, unsigned what);

#endif
