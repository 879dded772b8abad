/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/current_task.h"

HWT_OWN struct hwt_current_task *hwt_current_task;
