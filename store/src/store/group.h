/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that share a commit; group.c. */
#ifndef HWTS_GROUP_H
#define HWTS_GROUP_H

#include "rows/engine.h"

/* Begins a structure of its kind. */
struct hwts_request {
	struct hwts_request *next;
	size_t bytes; /* that it sends */
	int rc;
	bool done;
	bool alone;     /* set by the act: others have a lock that it needs, and its thread is to do it by itself */
	char text[256]; /* of its failure */
};

typedef void hwts_group_act(hwt_store *store, struct hwts_request *requests, size_t n);

struct hwts_group {
	hwts_group_act *act;
	pthread_mutex_t lock;
	pthread_cond_t done;
	struct hwts_request *first, **end;
	bool led;
};

void hwts_group_init(struct hwts_group *group, hwts_group_act *act);
void hwts_group_destroy(struct hwts_group *group);
void hwts_group_do(hwt_store *store, struct hwts_group *group, struct hwts_request *request); /* sets rc and text */
void hwts_group_text(struct hwts_request *request); /* takes the thread's text */

/* In put.c and change.c: what a group does. */
hwts_group_act hwts_put_group, hwts_cancel_group;

#endif
