/* SPDX-License-Identifier: BSD-2-Clause */
/* As walk.c, where the first timeout has an extension. */
#define WEAK_EXTENDED

#include "walk.c"
