/* SPDX-License-Identifier: BSD-2-Clause */
/* As given.c, where the system keeps the memory. */
#define WEAK_KEPT

#include "given.c"
