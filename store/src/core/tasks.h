/* SPDX-License-Identifier: BSD-2-Clause */
/* The threads that run tasks; tasks.c. */
#ifndef HWTS_TASKS_H
#define HWTS_TASKS_H

void *hwts_task_thread(void *store);

#endif
