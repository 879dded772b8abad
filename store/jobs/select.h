/* SPDX-License-Identifier: BSD-2-Clause */
/* Which timeouts the words and options of a command name. */
#ifndef SELECT_H
#define SELECT_H

#include "jobs.h"

/* One: an id, or a kind with --key.  DONE, or why not. */
int one_of(struct jobs *jobs, const char *word, hwt_store_which *which);
/* All of a kind, or of its group with --group, or of none with --no-group. */
hwt_store_which all_of(const struct jobs *jobs, const char *kind);
bool read_id(const char *word, int64_t *id);

int print_kinds(struct jobs *jobs, int64_t most, int64_t *count); /* most 0: all; count: or NULL */

#endif
