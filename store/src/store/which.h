/* SPDX-License-Identifier: BSD-2-Clause */
/* Which timeouts a call is about; which.c. */
#ifndef HWTS_WHICH_H
#define HWTS_WHICH_H

#include "rows/rows.h"

struct hwts_about {
	int64_t id;
	bool by_key; /* id is not known yet */
	bool all, any_group, with_data;
	const char *kind, *group, *key;
	unsigned states;
	struct hwts_place after; /* of many that are read: only timeouts behind this place */
	struct hwts_kind_row row;
};
enum { HWTS_MAY_BE_MANY = 1, HWTS_MAY_READ = 2, HWTS_MOVES = 4 };
int hwts_about_of(const hwt_store_which *which, unsigned may, struct hwts_about *about);
typedef int hwts_do_it(struct hwts_conn *conn, struct hwts_about *about, void *ctx);
/*
 * Acts on a single timeout.  If it is named by a key, act may be called for several in turn, while it returns ENOENT.
 * act NULL: only finds it.
 */
int hwts_about_do(hwt_store *store, struct hwts_about *about, hwts_do_it *act, void *ctx);
int hwts_about_do_on(struct hwts_conn *conn, struct hwts_about *about, hwts_do_it *act, void *ctx);

/* The meaning of calls without a structure. */
#define HWTS_BY_ID(is, in_states)                                                                                      \
	(hwt_store_which)                                                                                              \
	{                                                                                                              \
		.size = sizeof(hwt_store_which), .id = (is) ? (is) : HWTS_NO_ID, .states = (in_states)                 \
	}
#define HWTS_BY_KEY(of_kind, is)                                                                                       \
	(hwt_store_which)                                                                                              \
	{                                                                                                              \
		.size = sizeof(hwt_store_which), .kind = (of_kind), .key = (is)                                        \
	}
#define HWTS_NO_ID (-1) /* an id that no timeout has */

/* many.c: cancels or moves all of them.  *n: how many, set on failure too. */
int hwts_many(hwt_store *store, struct hwts_about *about, struct hwts_move *move, uint64_t *n);

#endif
