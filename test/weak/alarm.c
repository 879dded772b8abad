/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * idle.c where membarrier would make the fences, so that the worker does not sleep: no fence of a producer orders the
 * alarm, only the claim of the wake does.
 */
#define IDLE_BARRIER true
#include "idle.c"
