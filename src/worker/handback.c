/* SPDX-License-Identifier: BSD-2-Clause */
/* Returning a record by the chain on which the worker splices, too; handback.h. */
#include "worker/handback.h"

void hwt_handback_return(struct hwt_record *record)
{
	struct hwt_lane *lane = record_lane(record);

	/* Relaxed: the record has ended, and is this thread's. */
	if (word_has(atomic_load_explicit(&record->word, memory_order_relaxed), WORD_EXTENDED)) {
		struct hwt_record *second = record->arg;

		hwt_record_release(record);
		returned_push(&lane->returned, second);
	}
	returned_push(&lane->returned, record);
}
