/* SPDX-License-Identifier: BSD-2-Clause */
#include "timeout.h"

#include <sched.h>

uint64_t hwt_record_await_mover(struct hwt_record *record)
{
	(void)sched_yield();
	return record_word(record);
}
