/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The checks of a build with HWT_DEBUG (make DEBUG=1); empty in any other.  A call with a destroyed timer or a handle
 * of one, and a call in a forked child with a timer of its parent, end the process with a line that says why.  A
 * destroyed timer and its records are kept for ever, so that a handle leads to a timer that says what it is.
 */
#include "timer/timer.h"

#ifdef HWT_DEBUG

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static _Atomic(hwt_timer *) newest; /* so that a checker of leaks finds what is kept */

void hwt_debug_keep(hwt_timer *timer)
{
	timer->process = 0;
	timer->kept_before = atomic_exchange_explicit(&newest, timer, memory_order_relaxed); /* relaxed: no reader */
}

void hwt_debug_check(const hwt_timer *timer)
{
	if (timer == NULL || timer->process == getpid())
		return;
	(void)fprintf(stderr, "hwt: %s\n",
		      timer->process == 0 ? "a timer that has been destroyed"
					  : "a call in a forked child, with a timer of its parent");
	abort();
}

#endif
