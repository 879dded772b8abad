/* SPDX-License-Identifier: BSD-2-Clause */
/* The same, where the first timeout has an extension. */
#define WEAK_EXTENDED

#include "walk.c"
