/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs that the program fetches; pulled.c. */
#ifndef HWTS_PULLED_H
#define HWTS_PULLED_H

#include "rows/engine.h"

struct hwts_pulled {
	struct hwts_pull *first; /* those that are out */
	unsigned count;
	unsigned turn; /* of kinds */
};

unsigned hwts_pulled_out(hwt_store *store);
void hwts_pulled_await(hwt_store *store); /* until none is out */
/* The store is being stopped, and no call will end these runs: their rows stay as after a death of the process. */
void hwts_pulled_drop(hwt_store *store);

#endif
