/* SPDX-License-Identifier: BSD-2-Clause */
/* The beginner; beginner.c. */
#ifndef HWTS_BEGINNER_H
#define HWTS_BEGINNER_H

#include "core/engine.h"

void *hwts_beginner(void *store);

#endif
