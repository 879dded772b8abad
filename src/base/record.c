/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/record.h"
#include "base/thread.h"

uint64_t hwt_record_await_mover(struct hwt_record *record, uint64_t word)
{
	uint64_t generation = word_generation(word);
	unsigned turns = 0;

	do {
		hwt_thread_give_way(&turns);
		word = record_word(record);
	} while (word_has(word, WORD_RESCHEDULING) && word_generation(word) == generation);
	return word;
}

static bool is_pending(uint64_t word, uint64_t generation)
{
	return word_generation(word) == generation &&
	       (word_state(word) == STATE_QUEUED || word_state(word) == STATE_ARMED);
}

/*
 * If the timeout is pending in both looks at the word, the deadline between them is one that it had in the meantime:
 * nobody has to be kept from writing another one.
 */
bool hwt_record_read_deadline(struct hwt_record *record, uint64_t generation, int64_t *deadline_ns)
{
	int64_t seen_ns;

	if (!is_pending(record_word(record), generation))
		return false;
	HWT_POINT("look");
	seen_ns = atomic_load_explicit(&record->deadline_ns, memory_order_acquire); /* [look] */
	if (!is_pending(record_word(record), generation))
		return false;
	*deadline_ns = seen_ns;
	return true;
}
