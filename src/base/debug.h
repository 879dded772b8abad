/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks of a build with HWT_DEBUG (make DEBUG=1).  What the manual calls "not detected" ends the process there, with a
 * line that says why.  In any other build nothing of it is compiled.
 *
 *   a handle of a destroyed timer   The memory of its records is kept, and each of them leads to hwt_debug_dead.
 *   a destroyed timer               Its memory is kept, too, and says so.
 *   a wait that waits for itself    Each thread that waits for a task is in a list, with the tasks in which it is.
 *                                   Before it waits it follows them: the task that it waits for, whether the thread of
 *                                   that one waits, and for which task.
 *   a call in a forked child        The process counts its forks, and a timer knows the number of its own.
 */
#ifndef HWT_DEBUG_H
#define HWT_DEBUG_H

#include "base/current_task.h"

#ifdef HWT_DEBUG

extern char hwt_debug_dead; /* stands for the lane of records whose timer has been destroyed */

#define HWT_DEBUG_DEAD ((unsigned)-1) /* stands for the number of forks of such a timer */

/* Writes the line, and aborts. */
_Noreturn void hwt_debug_fail(const char *message);

/* Keeps the memory of a destroyed timer for ever, and says so in its number of forks. */
void hwt_debug_keep(void *memory, unsigned *number);

/* Returns how often the process, and those before it, have forked. */
unsigned hwt_debug_forks(void);

struct hwt_debug_wait {
	const struct hwt_current_task *tasks; /* of the thread that waits, the innermost first */
	const struct hwt_record *record;      /* whose task it waits for */
	struct hwt_debug_wait *next;
};

/* The calling thread is going to wait for the end of a task. */
void hwt_debug_begin_wait(struct hwt_debug_wait *wait, const struct hwt_record *record);
void hwt_debug_end_wait(struct hwt_debug_wait *wait);

#endif

#endif
