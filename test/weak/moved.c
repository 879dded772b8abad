/* SPDX-License-Identifier: BSD-2-Clause */
/* As movers.c, where the second thread cancels. */
#define WEAK_CANCEL
#include "movers.c"
