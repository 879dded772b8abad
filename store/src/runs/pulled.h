/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs that the program fetches; pulled.c. */
#ifndef HWTS_PULLED_H
#define HWTS_PULLED_H

#include "rows/engine.h"

struct hwts_pulled {
	struct hwts_pull *first; /* runs that are out */
	unsigned count;
	unsigned turn; /* the kind whose turn is next */
};

unsigned hwts_pulled_out(hwt_store *store);
void hwts_pulled_await(hwt_store *store); /* waits until no run is out */
/* The store is being stopped, and no call will end these runs: their rows stay as if the process had died. */
void hwts_pulled_drop(hwt_store *store);

#endif
