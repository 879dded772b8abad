/* SPDX-License-Identifier: BSD-2-Clause */
/* The descriptor that says whether a run can be pulled; ready.c. */
#ifndef HWTS_READY_H
#define HWTS_READY_H

#include "rows/engine.h"

struct hwts_ready {
	int fd[2];        /* a pipe with one byte in it, or none; -1: nobody has asked for it */
	bool started;     /* else there is nothing to wait for */
	bool readable;    /* the byte is in the pipe */
	unsigned waiting; /* rows of pulled kinds that were begun and are not out */
};

void hwts_ready_init(hwt_store *store);
void hwts_ready_destroy(hwt_store *store);

/* With the lock. */
int hwts_ready_fd(hwt_store *store, int *fd);
void hwts_ready_start(hwt_store *store, bool started);
void hwts_ready_wait(hwt_store *store, int n); /* n more, or less, that wait */
bool hwts_ready_waits(const hwt_store *store);

#endif
