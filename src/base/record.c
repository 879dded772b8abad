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
