/* SPDX-License-Identifier: BSD-2-Clause */
/* The state word: every edge, from every state. */
#include "unit.h"

static void nothing(hwt_timeout timeout, void *arg)
{
	(void)timeout;
	(void)arg;
}

static struct hwt_record record_in(enum word_state state, uint64_t generation)
{
	struct hwt_record record;

	memset(&record, 0, sizeof(record));
	atomic_init(&record.word, word_make(generation, state));
	return record;
}

static const enum word_state states[] = { STATE_FREE,    STATE_QUEUED,    STATE_ARMED, STATE_RUNNING,
					  STATE_EXPIRED, STATE_CANCELLED, STATE_LAZY };

#define STATES (sizeof(states) / sizeof(states[0]))

TEST(take_raises_the_generation_and_queues)
{
	struct hwt_record record = record_in(STATE_EXPIRED, 41);
	int arg;
	hwt_timeout timeout = record_take(&record, nothing, &arg, 123, 0);

	CHECK(timeout.entry == &record);
	CHECK_INT(timeout.generation, ==, 42);
	CHECK(record_word(&record) == word_make(42, STATE_QUEUED));
	CHECK(record.task == nothing && record.arg == &arg && record.deadline_ns == 123 && record.place == 0);
}

TEST(arm_leads_from_queued_only)
{
	for (size_t i = 0; i < STATES; i++) {
		struct hwt_record record = record_in(states[i], 7);
		uint64_t word;
		bool armed = record_arm(&record, &word);

		CHECK(armed == (states[i] == STATE_QUEUED));
		CHECK(record_word(&record) == word_make(7, armed ? STATE_ARMED : states[i]));
	}
}

TEST(run_leads_from_armed_only)
{
	for (size_t i = 0; i < STATES; i++) {
		struct hwt_record record = record_in(states[i], 7);
		uint64_t word;
		bool running = record_run(&record, &word);

		CHECK(running == (states[i] == STATE_ARMED));
		CHECK(record_word(&record) == word_make(7, running ? STATE_RUNNING : states[i]));
		CHECK(!running || word == word_make(7, STATE_RUNNING));
		CHECK(!running || record_finish(&record, word));
		CHECK(!running || record_word(&record) == word_make(7, STATE_EXPIRED));
	}
}

TEST(give_back_leads_from_queued_and_armed_only)
{
	for (size_t i = 0; i < STATES; i++) {
		struct hwt_record record = record_in(states[i], 7);
		bool open = states[i] == STATE_QUEUED || states[i] == STATE_ARMED;

		CHECK(record_give_back(&record) == open);
		CHECK(record_word(&record) ==
		      (open ? word_make(7, STATE_CANCELLED) | WORD_DROPPED : word_make(7, states[i])));
	}
}

TEST(an_edge_needs_the_exact_word)
{
	struct hwt_record record = record_in(STATE_ARMED, 7);
	uint64_t other_generation = word_make(6, STATE_ARMED), other_state = word_make(7, STATE_QUEUED);

	CHECK(!record_edge(&record, &other_generation, STATE_CANCELLED));
	CHECK(other_generation == word_make(7, STATE_ARMED)); /* brought up to date */
	CHECK(!record_edge(&record, &other_state, STATE_CANCELLED));
	CHECK(record_word(&record) == word_make(7, STATE_ARMED));
}

TEST(a_word_tells_its_holder_the_state_and_others_retired)
{
	static const hwt_state expected[STATES] = { HWT_NONE,    HWT_PENDING,   HWT_PENDING,  HWT_RUNNING,
						    HWT_EXPIRED, HWT_CANCELLED, HWT_CANCELLED };

	for (size_t i = 0; i < STATES; i++) {
		CHECK_INT(word_public_state(word_make(9, states[i]), 9), ==, expected[i]);
		CHECK_INT(word_public_state(word_make(9, states[i]), 8), ==, HWT_RETIRED);
	}
}

TEST(generations_use_48_bits)
{
	uint64_t last = (UINT64_C(1) << 48) - 1;

	CHECK(word_generation(word_make(last, STATE_LAZY)) == last);
	CHECK(word_state(word_make(last, STATE_LAZY)) == STATE_LAZY);
	CHECK(word_with_state(word_make(last, STATE_QUEUED), STATE_ARMED) == word_make(last, STATE_ARMED));
}

TEST_MAIN()
