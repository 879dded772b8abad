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
	struct hwts_place after; /* of many that are read: those behind this place */
	struct hwts_kind_row row;
};
enum { HWTS_MAY_BE_MANY = 1, HWTS_MAY_READ = 2, HWTS_MOVES = 4 };
int hwts_about_of(const hwt_store_which *which, unsigned may, struct hwts_about *about);
typedef int hwts_do_it(struct hwts_conn *conn, struct hwts_about *about, void *ctx);
/* To one: if it has a key it may be done to several in turn, until it is not ENOENT; act NULL: to find it. */
int hwts_about_do(hwt_store *store, struct hwts_about *about, hwts_do_it *act, void *ctx);
int hwts_about_do_on(struct hwts_conn *conn, struct hwts_about *about, hwts_do_it *act, void *ctx);

/* What the calls without a structure mean. */
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
#define HWTS_NO_ID (-1) /* that nothing has */

/* In many.c: cancels all of them, or moves them; *n is set to how many, also on failure. */
int hwts_many(hwt_store *store, struct hwts_about *about, struct hwts_move *move, uint64_t *n);

#endif
