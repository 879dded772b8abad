/* SPDX-License-Identifier: BSD-2-Clause */
/* Kinds in the database; register.c. */
#ifndef HWTS_REGISTER_H
#define HWTS_REGISTER_H

#include "core/kind.h"

/* The kind of a name; made in the database if it is not there and make is not NULL. */
int hwts_kind_of(hwt_store *store, const char *name, const struct hwts_kind_row *make, struct hwts_kind_row *out);
/* The same on a connection that the caller has; nothing is remembered. */
int hwts_kind_ask(hwt_store *store, struct hwts_conn *conn, const char *name, const struct hwts_kind_row *make,
		  struct hwts_kind_row *row);
/* After a join: kinds that were removed while this process was not a member are there again; kinds.c. */
int hwts_kinds_keep(hwt_store *store, struct hwts_conn *conn);

#endif
