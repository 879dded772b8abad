/* SPDX-License-Identifier: BSD-2-Clause */
/* The record's slow paths: waiting for a mover, and reading a deadline beside one. */
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
	return word_generation(word) == generation && word_is_pending(word);
}

/*
 * Two loads of the word enclose the load of the deadline.  If the timeout is pending in both, the deadline is one that
 * it had in between, so no mover has to be kept out.  Without the second look the deadline could be that of the
 * record's next life: a cancel, a return to the lane and a take fit between the first look and the load.  Both loads
 * then need their acquire, [look]: a reader that sees the new deadline also sees the word that came with it, and
 * refuses it.
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
