/* SPDX-License-Identifier: BSD-2-Clause */
/* The innermost task of each thread; current_task.h. */
#include "base/current_task.h"

HWT_OWN struct hwt_current_task *hwt_current_task;
