/* SPDX-License-Identifier: BSD-2-Clause */
/* What other threads ask control for, and how they wake it. */
#ifndef HWTS_ASKS_H
#define HWTS_ASKS_H

#include "core/engine.h"

struct hwts_asks {
	int poke[2];     /* a pipe; -1: control does not run */
	bool look, load; /* a renewal; and behind it all is read again */
};

void hwts_asks_init(hwt_store *store);
int hwts_asks_open(hwt_store *store);
void hwts_asks_close(hwt_store *store);
void hwts_poke(hwt_store *store); /* something has changed */
int hwts_poke_fd(const hwt_store *store);
void hwts_poke_read(hwt_store *store);

/* With the lock. */
void hwts_ask_look(hwt_store *store);
void hwts_ask_load(hwt_store *store);
bool hwts_asked(const hwt_store *store);
bool hwts_asked_load(const hwt_store *store);
void hwts_asked_end(hwt_store *store, bool load); /* it is done; load: that, too */

#endif
