/* SPDX-License-Identifier: BSD-2-Clause */
/* As again.c, where the thread with the old handle cancels. */
#define WEAK_CANCEL
#include "again.c"
