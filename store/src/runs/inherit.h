/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows that are inherited from processes that died; inherit.c. */
#ifndef HWTS_INHERIT_H
#define HWTS_INHERIT_H

#include "rows/rows.h"

/*
 * For the beginner: files the inherited rows of a batch; tells of the rows that have failed for good.  A row that the
 * database refuses to file is refused, and why says with which words.
 */
int hwts_inherit(hwt_store *store, struct hwts_want *wants, size_t n, bool at_most_once, char why[256]);
void hwts_tell_inherited(hwt_store *store, const struct hwts_want *wants, size_t n);

#endif
