/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that share a commit; commit.c. */
#ifndef HWTS_COMMIT_H
#define HWTS_COMMIT_H

#include "rows/engine.h"

/* The first member of a put's or a cancel's request. */
struct hwts_request {
	struct hwts_request *next;
	size_t bytes; /* bytes of data to send */
	int rc;
	bool done;
	bool alone; /* set by act: another transaction has locked the row; the request's own thread executes it again */
	char text[256]; /* the text of its failure */
};

typedef void hwts_commit_act(hwt_store *store, struct hwts_request *requests, size_t n);

struct hwts_commit {
	hwts_commit_act *act;
	pthread_mutex_t lock;
	pthread_cond_t done;
	struct hwts_request *first, **end;
	bool led;
};

void hwts_commit_init(struct hwts_commit *commit, hwts_commit_act *act);
void hwts_commit_destroy(struct hwts_commit *commit);
void hwts_commit_do(hwt_store *store, struct hwts_commit *commit, struct hwts_request *request); /* sets rc and text */
void hwts_commit_text(struct hwts_request *request); /* takes over the thread's text */

/* put.c, change.c: execute the requests of a commit. */
hwts_commit_act hwts_commit_puts, hwts_commit_cancels;

#endif
