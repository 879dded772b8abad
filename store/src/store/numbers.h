/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers for ids that are drawn and not used; numbers.c. */
#ifndef HWTS_NUMBERS_H
#define HWTS_NUMBERS_H

#include "rows/engine.h"

struct hwts_numbers {
	pthread_mutex_t lock;
	pthread_cond_t wanted;
	struct {
		int64_t next, left;
	} ranges[2];       /* ranges[0] is used up first */
	int64_t block;     /* size of the next block */
	unsigned connects; /* hwts_conns_connects when the ranges were drawn */
	bool drawing, has_drawer, halt;
	pthread_t drawer;
};

void hwts_numbers_init(struct hwts_numbers *numbers);
void hwts_numbers_open(hwt_store *store, struct hwts_conn *conn);
void hwts_numbers_close(hwt_store *store);
int hwts_numbers_give(hwt_store *store, struct hwts_conn *conn, struct hwts_put *puts, size_t n);
int hwts_numbers_give_on(hwt_store *store, void *connection, struct hwts_put *put); /* EAGAIN: no number is in hand */
void hwts_numbers_refill(hwt_store *store);                                         /* after such a put */

#endif
