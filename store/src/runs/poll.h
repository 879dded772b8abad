/* SPDX-License-Identifier: BSD-2-Clause */
/* The descriptor that is readable while a run can be pulled; poll.c. */
#ifndef HWTS_POLL_H
#define HWTS_POLL_H

#include "rows/engine.h"

struct hwts_poll {
	int fd[2];        /* a pipe with one byte in it, or none; -1: no caller has asked for it */
	bool started;     /* false: readable, so that the program asks and gets ECANCELED */
	bool readable;    /* the byte is in the pipe */
	unsigned waiting; /* rows of pulled kinds that were begun and not yet pulled */
	bool unread;      /* some of these rows have to be read before they are handed out */
};

void hwts_poll_init(hwt_store *store);
void hwts_poll_destroy(hwt_store *store);

/* The caller holds store->lock. */
int hwts_poll_fd(hwt_store *store, int *fd);
void hwts_poll_start(hwt_store *store, bool started);
void hwts_poll_wait(hwt_store *store, int n); /* n rows more, or fewer, wait to be pulled; 0: they have been read */
void hwts_poll_unread(hwt_store *store);
bool hwts_poll_waits(const hwt_store *store);

#endif
